# SPDX-License-Identifier: Apache-2.0
"""What is timed: a callable that enqueues one operation on the current stream and returns its outputs. bind() gives it
the places of a round; what it allocates for itself lies where bind()'s seed says."""

import contextlib
import ctypes
import math

from peers import families, timer
from peers.families import torch
from peers.placement import Fillers, Operands, own_pool


class OurOperation:
    """A variant of the registry; its outputs are operands, and it allocates nothing but scratch."""

    form = None

    def __init__(self, clock, problem, variant, operands: Operands):
        self.clock, self.library, self.operands = clock, clock.library, operands
        self.benchmark = f"{problem.family}/{variant.library_variant}/{problem.name}".encode()
        self.handle, self.results, self.scratch_offsets = None, (), []
        family = families.FAMILIES[problem.family]
        listed = self.library.raw.mage_launch_operands(self.benchmark)
        if listed is None:
            raise self.library.error()
        self.names = [self.name(family, *operand.split(":")) for operand in listed.decode().split()]
        if len(self.names) != len(operands.tensors):
            raise RuntimeError(
                f"{problem.family} has the operands {listed.decode()}, not {', '.join(operands.tensors)}"
            )

    def name(self, family, name: str, role: str, elements: str) -> str:
        names = family.inputs if role == "in" else family.outputs
        if name not in names or self.operands.tensors[name].numel() != int(elements):
            raise RuntimeError(
                f"the contract's operand {name} ({role}, {elements} elements) is not in the table of families"
            )
        return name

    def bind(self, seed: int) -> None:
        self.release()  # first, so that scratch is alone in the arena
        self.clock.place_scratch(seed)
        tensors = self.operands.tensors
        pointers = (ctypes.c_void_p * len(self.names))(*(tensors[name].data_ptr() for name in self.names))
        self.handle = self.library.raw.mage_launch_open(self.benchmark, pointers, len(self.names))
        if not self.handle:
            raise self.library.error()
        self.results = tuple(self.operands.outputs.values())
        self.scratch_offsets = self.clock.scratch_offsets()

    def release(self) -> None:
        handle, self.handle = self.handle, None
        if handle:
            self.library.raw.mage_launch_close(handle)

    def own_memory(self):
        return contextlib.nullcontext()

    def make_room(self) -> None:
        pass

    def places(self, _) -> dict:
        offsets = [self.operands.offset_of(name) for name in self.names]
        return {"offsets": offsets, "scratch_offsets": self.scratch_offsets}

    def __call__(self):
        self.library.call("mage_launch_run", self.handle, self.clock.stream)
        return self.results

    def __del__(self):
        if getattr(self, "handle", None):
            self.release()


class TorchOperation:
    """A callable of PyTorch; each call allocates its outputs, as in any program."""

    def __init__(self, function, operands: Operands, form: str | None = None):
        self.function, self.operands, self.form = function, operands, form
        self.inputs, self.seed, self.fillers = (), 0, None

    def bind(self, seed: int) -> None:
        self.inputs, self.seed = tuple(self.operands.inputs.values()), seed

    def release(self) -> None:
        self.fillers = None

    @contextlib.contextmanager
    def own_memory(self):
        """Calls meanwhile write behind fillers, and not where the calls of the last round wrote."""
        with own_pool(self.operands.device):
            self.make_room()
            try:
                yield
            finally:
                self.fillers = None  # before its pool goes

    def make_room(self) -> None:
        """In a pool that is empty. No operation here holds more at once than all operands take."""
        self.fillers = Fillers(self.seed, self.operands.bytes, self.operands.device)

    def places(self, results) -> dict:
        offsets = [self.operands.offset_of(name) for name in self.operands.inputs]
        return {"offsets": offsets + [self.fillers.offset_of(result) for result in results], "scratch_offsets": []}

    def __call__(self):
        return self.function(*self.inputs)


class EmptyOperation:
    """An empty kernel: what floors are made of."""

    def __init__(self, clock):
        self.clock = clock

    def make_room(self) -> None:
        pass

    def __call__(self):
        self.clock.empty()
        return ()


def poisoned_call(operation):
    """Its outputs, in memory that held NaN before: the allocator gives what was freed last."""
    for result in operation():
        result.fill_(math.nan)
    del result
    return operation()


def capture(clock, stream, operation, count: int) -> timer.GraphInstance:
    """A graph of so many calls. Each call's outputs are let go before the next, which therefore writes to the same
    memory, as ours does; the pool is the graph's own, and empty when it begins."""
    captured = torch.cuda.CUDAGraph(keep_graph=True)
    result = None
    with torch.cuda.graph(captured, stream=stream, capture_error_mode="thread_local"):
        operation.make_room()
        for _ in range(count):
            del result
            result = operation()
    return timer.GraphInstance(clock, captured, result)
