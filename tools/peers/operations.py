# SPDX-License-Identifier: Apache-2.0
"""What is timed: a callable that enqueues one operation on the current stream and returns its outputs."""

import ctypes
import math

from peers import families


class OurOperation:
    """A variant of the registry on PyTorch's tensors; its outputs stay where they are."""

    form = None

    def __init__(self, clock, problem, variant, inputs: dict, device: str, fence: int):
        family = families.FAMILIES[problem.family]
        self.clock, self.library = clock, clock.library
        self.tensors = {**inputs, **families.make_outputs(family, problem.rows, problem.cols, device, fence)}
        self.results = tuple(self.tensors[name] for name in family.outputs)
        benchmark = f"{problem.family}/{variant.library_variant}/{problem.name}".encode()
        listed = self.library.raw.mage_launch_operands(benchmark)
        if listed is None:
            raise self.library.error()
        pointers = [self.pointer(family, *operand.split(":")) for operand in listed.decode().split()]
        if len(pointers) != len(self.tensors):
            raise RuntimeError(f"{problem.family} has the operands {listed.decode()}, not {', '.join(self.tensors)}")
        self.handle = self.library.raw.mage_launch_open(
            benchmark, (ctypes.c_void_p * len(pointers))(*pointers), len(pointers)
        )
        if not self.handle:
            raise self.library.error()

    def pointer(self, family, name: str, role: str, elements: str) -> int:
        names = family.inputs if role == "in" else family.outputs
        if name not in names or self.tensors[name].numel() != int(elements):
            raise RuntimeError(
                f"the contract's operand {name} ({role}, {elements} elements) is not in the table of families"
            )
        return self.tensors[name].data_ptr()

    def __call__(self):
        self.library.call("mage_launch_run", self.handle, self.clock.stream)
        return self.results

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.raw.mage_launch_close(self.handle)


class TorchOperation:
    """A callable of PyTorch on these inputs; each call allocates its outputs, as in any program."""

    def __init__(self, function, inputs: dict, form: str | None = None):
        self.function, self.inputs, self.form = function, tuple(inputs.values()), form

    def __call__(self):
        return self.function(*self.inputs)


def poisoned_call(operation):
    """Its outputs, in memory that held NaN before: the allocator gives what was freed last."""
    for result in operation():
        result.fill_(math.nan)
    del result
    return operation()
