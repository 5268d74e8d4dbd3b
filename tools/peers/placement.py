# SPDX-License-Identifier: Apache-2.0
"""Where memory lies, drawn anew in every round, since a time depends on it (docs/decisions.md). Operands lie as
src/core/case.cpp places them, and PyTorch's outputs behind fillers of a drawn size."""

import contextlib
import math
import random

from peers.families import torch

ALIGNMENT = 256
FENCE_BYTES = 4096
SLACK_BYTES = 8 << 20
FLOAT_BYTES = 4
# PyTorch's allocator gives multiples of 512 bytes: up to 1 MiB from segments of 2 MiB, more from larger segments.
STEP_BYTES = 512
SMALL_BYTES = 1 << 20
SMALL_SEGMENT_BYTES = 2 << 20


def seed_of(*what) -> int:
    """64 bits that follow from what is named."""
    return random.Random(" ".join(map(str, what))).getrandbits(64)


def slack_of(seed: int, operand: str) -> int:
    """Bytes between an operand and the least offset that it can have."""
    return random.Random(f"{seed} {operand}").randrange(SLACK_BYTES // ALIGNMENT + 1) * ALIGNMENT


def fillers_of(seed: int) -> tuple[int, int]:
    """Bytes before PyTorch's small outputs, and before its large ones."""
    source = random.Random(seed)
    small = source.randrange(1, SMALL_BYTES // STEP_BYTES + 1) * STEP_BYTES
    large = source.randrange(1, SLACK_BYTES // STEP_BYTES + 1) * STEP_BYTES
    return small, SMALL_BYTES + large


class Arena:
    """Memory of one operand: its place, a fence on each side, and the slack over which the place is drawn."""

    def __init__(self, shape: tuple[int, ...], device: str):
        self.shape, self.elements, self.offset = shape, math.prod(shape), FENCE_BYTES
        slack = (2 * FENCE_BYTES + SLACK_BYTES) // FLOAT_BYTES
        self.memory = torch.empty(self.elements + slack, device=device)

    def place(self, slack: int):
        """The operand's tensor at its new place, which holds whatever was there."""
        self.offset = FENCE_BYTES + slack
        begin = self.offset // FLOAT_BYTES
        return self.memory[begin : begin + self.elements].view(self.shape)


class Operands:
    """A problem's operands, which all variants share. `originals` are the inputs, in memory that nothing else uses."""

    def __init__(self, originals: dict, outputs: dict[str, tuple[int, ...]], device: str):
        self.originals, self.device = originals, device
        shapes = {**{name: tuple(tensor.shape) for name, tensor in originals.items()}, **outputs}
        self.arenas = {name: Arena(shape, device) for name, shape in shapes.items()}
        self.bytes = sum(arena.elements for arena in self.arenas.values()) * FLOAT_BYTES
        self.tensors = {}

    def place(self, seed: int) -> None:
        """Draws anew where each operand lies; whoever holds pointers must be bound again."""
        self.tensors = {name: arena.place(slack_of(seed, name)) for name, arena in self.arenas.items()}
        self.load(self.originals)

    def load(self, originals: dict) -> None:
        """These inputs from now on, at the places as they are."""
        self.originals = originals
        for name, tensor in self.inputs.items():
            tensor.copy_(originals[name])

    @property
    def inputs(self) -> dict:
        return {name: self.tensors[name] for name in self.originals}

    @property
    def outputs(self) -> dict:
        return {name: tensor for name, tensor in self.tensors.items() if name not in self.originals}

    def offset_of(self, name: str) -> int:
        """Bytes from the beginning of its arena."""
        return self.arenas[name].offset


@contextlib.contextmanager
def own_pool(device: str):
    """What this thread allocates meanwhile comes from a pool that is empty at first, and goes with it."""
    if device == "cpu":  # which has no pools
        yield
        return
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        yield


class Fillers:
    """Memory before the outputs that PyTorch allocates next, in a pool that is empty. One free block is made, as large
    as `most_bytes` of outputs and the slack: the allocator cuts the filler from its beginning, then the outputs. What
    takes at most 1 MiB has a filler of its own, in a segment of 2 MiB."""

    def __init__(self, seed: int, most_bytes: int, device: str):
        def allocate(count):
            return torch.empty(count, dtype=torch.uint8, device=device)

        small, large = fillers_of(seed)
        # The allocator does not cut a block whose rest would be 1 MiB or less.
        whole = large + most_bytes + SMALL_SEGMENT_BYTES
        reserved = allocate(whole)
        begin = reserved.data_ptr()
        del reserved
        self.kept = allocate(large), allocate(small)
        self.regions = (begin, whole), (self.kept[1].data_ptr(), SMALL_SEGMENT_BYTES)

    def offset_of(self, tensor) -> int | None:
        """Bytes from the beginning of the block or segment; None for an output that the allocator put elsewhere."""
        address = tensor.data_ptr()
        return next((address - begin for begin, size in self.regions if 0 <= address - begin < size), None)
