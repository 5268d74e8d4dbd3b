# SPDX-License-Identifier: Apache-2.0
"""A problem while it is measured: its inputs, what runs on them, checks, and the pilot between compiled forms."""

import hashlib
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from peers import families, say, store, timer
from peers.families import torch
from peers.operations import OurOperation, TorchOperation, poisoned_call

DEVICE = "cuda"
COMPILE_MODES = {"compile": None, "compile_max": "max-autotune-no-cudagraphs"}
PILOT_ROUNDS = 6
PILOT_SAMPLES = {"event_cold": 8, "graph": 4}  # a round


class WrongError(Exception):
    """An output is not what FP64 says."""


@dataclass(frozen=True)
class Prepared:
    """A variant in one mode."""

    operation: Callable
    sampler: timer.EventColdSampler | timer.GraphSampler
    pilot_us: dict[str, float] | None = None  # by form, where there was more than one


class Session:
    """A problem while it is measured."""

    def __init__(self, run, problem: store.Problem):
        self.run, self.problem, self.clock = run, problem, run.clock
        self.family = families.FAMILIES[problem.family]
        with run.spent("check"):
            self.inputs = families.make_inputs(self.family, problem.rows, problem.cols, run.seed, DEVICE, run.fence)
            self.expected = families.expect(self.family, self.inputs)
            prints = {name: families.fingerprint(tensor) for name, tensor in self.inputs.items()}
        self.inputs_sha256 = hashlib.sha256(repr(sorted(prints.items())).encode()).hexdigest()
        self.prints = prints
        self.prepared: dict[tuple[str, str], Prepared] = {}  # by variant and mode

    def check(self, outputs, what: str) -> float:
        with self.run.spent("check"):
            torch.cuda.synchronize()
            worst, name = families.worst_error(self.family, outputs, self.expected)
        if not worst <= 1:
            raise WrongError(f"{what}: the error of {name} is {worst:.3g} times its bound")
        return worst

    def build(self, variant: store.Variant) -> list:
        """What it may run: of torch.compile every form, of anything else the one."""
        if variant.library_variant:
            return [OurOperation(self.clock, self.problem, variant, self.inputs, DEVICE, self.run.fence)]
        kind = variant.name.removeprefix("torch_")
        if kind == "eager":
            return [TorchOperation(self.family.eager, self.inputs)]
        return [self.compile(variant, form, COMPILE_MODES[kind]) for form in self.family.compiled]

    def compile(self, variant: store.Variant, form: str, mode: str | None) -> TorchOperation:
        begin = time.perf_counter()
        with self.run.spent("compile"):
            compiled = torch.compile(self.family.compiled[form], dynamic=False, fullgraph=True, mode=mode)
            operation = TorchOperation(compiled, self.inputs, form)
            operation()
            torch.cuda.synchronize()
        name = f"{self.problem.family}/{variant.name}/{self.problem.name}"
        say(f"{name}: {form} compiled in {time.perf_counter() - begin:.1f} s")
        return operation

    def capture(self, operation, count: int) -> timer.GraphInstance:
        """A graph of so many calls. Each call's outputs are let go before the next, which therefore writes to the same
        memory, as ours does; the pool is the graph's own."""
        captured = torch.cuda.CUDAGraph(keep_graph=True)
        result = None
        with torch.cuda.graph(captured, stream=self.run.torch_stream(), capture_error_mode="thread_local"):
            for _ in range(count):
                del result
                result = operation()
        return timer.GraphInstance(self.clock, captured, result)

    def prepare(self, variant: store.Variant) -> float:
        """Builds and checks it; returns the worst error / bound of what is kept."""
        when = "before the rounds"
        errors = {}
        for operation in self.build(variant):
            form = f", form {operation.form}" if operation.form else ""
            errors[operation] = self.check(poisoned_call(operation), when + form)
        for mode in self.run.modes:
            self.run.guarded(self, variant, [mode], lambda m=mode: self.prepare_mode(variant, list(errors), m))
        kept = [errors[ready.operation] for ready in self.prepared_of(variant)]
        return max([*kept, self.check_graphs(variant, when)])

    def prepare_mode(self, variant: store.Variant, operations: list, mode: str) -> None:
        """Keeps the operation that is fastest in this mode."""
        with self.run.spent("prepare"):
            samplers = {operation.form: self.sampler(operation, mode) for operation in operations}
            pilot_us = self.pilot(samplers, mode) if len(samplers) > 1 else None
        fastest = operations[0]
        if pilot_us:
            fastest = min(operations, key=lambda operation: pilot_us[operation.form])
            told = ", ".join(f"{form} {us:.2f}" for form, us in pilot_us.items())
            say(f"{store.name_of(self.problem, variant, mode)}: pilot {told} us, so {fastest.form} is measured")
        self.prepared[variant.name, mode] = Prepared(fastest, samplers[fastest.form], pilot_us)

    def pilot(self, samplers: dict, mode: str) -> dict[str, float]:
        """Of each the median over rounds of medians, as a table has it; the order turns round by round."""
        medians = {form: [] for form in samplers}
        for number in range(PILOT_ROUNDS):
            for form in list(samplers)[:: -1 if number % 2 else 1]:
                samples = timer.Samples()
                self.clock.settle()
                samplers[form].open()
                for _ in range(PILOT_SAMPLES[mode]):
                    samplers[form].sample(samples)
                medians[form].append(statistics.median(samples.us))
        return {form: round(statistics.median(us), 3) for form, us in medians.items()}

    def prepared_of(self, variant: store.Variant) -> list[Prepared]:
        return [ready for (name, _), ready in self.prepared.items() if name == variant.name]

    def sampler(self, operation, mode: str):
        if mode == "event_cold":
            return timer.EventColdSampler(self.clock, operation)
        count = timer.graph_operations(timer.pilot_span_us(self.clock, operation))
        return timer.GraphSampler(self.clock, self.capture(operation, 1), self.capture(operation, count), count)

    def check_graphs(self, variant: store.Variant, when: str) -> float:
        worst = 0.0
        ready = self.prepared.get((variant.name, "graph"))
        for graph in (ready.sampler.one, ready.sampler.many) if ready else ():
            for result in graph.result:
                result.fill_(math.nan)
            graph.replay()
            worst = max(worst, self.check(graph.result, f"a graph {when}"))
        return worst

    def refresh(self) -> None:
        """Other inputs in the same memory: what was remembered instead of computed is found out."""
        with self.run.spent("check"):
            for name, tensor in self.inputs.items():
                if families.fingerprint(tensor) != self.prints[name]:
                    raise WrongError(f"the input {name} was changed")
            self.expected = None
            rows, cols = self.problem.rows, self.problem.cols
            fresh = families.make_inputs(self.family, rows, cols, self.run.seed + 1, DEVICE, self.run.fence)
            for name, tensor in self.inputs.items():
                tensor.copy_(fresh[name])
            del fresh
            self.expected = families.expect(self.family, self.inputs)

    def check_after(self, variant: store.Variant) -> float:
        when = "after the rounds, on fresh inputs"
        kept = {ready.operation for ready in self.prepared_of(variant)}
        errors = [self.check(poisoned_call(operation), when) for operation in kept]
        return max([*errors, self.check_graphs(variant, when)])
