# SPDX-License-Identifier: Apache-2.0
"""A problem while it is measured: its inputs, what runs on them, checks, and the pilot between compiled forms."""

import contextlib
import hashlib
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from peers import families, say, store, timer
from peers.families import torch
from peers.operations import OurOperation, TorchOperation, capture, poisoned_call
from peers.placement import Operands, seed_of

DEVICE = "cuda"
COMPILE_MODES = {"compile": None, "compile_max": "max-autotune-no-cudagraphs"}
BEFORE, AFTER = "before", "after"  # the rounds
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
            inputs = families.make_inputs(self.family, problem.rows, problem.cols, run.seed, DEVICE)
            self.expected = families.expect(self.family, inputs)
            prints = {name: families.fingerprint(tensor) for name, tensor in inputs.items()}
            self.operands = Operands(inputs, self.family.output_shapes(problem.rows, problem.cols), DEVICE)
        self.place(BEFORE)
        self.inputs_sha256 = hashlib.sha256(repr(sorted(prints.items())).encode()).hexdigest()
        self.prints = prints
        self.prepared: dict[tuple[str, str], Prepared] = {}  # by variant and mode

    def place(self, when) -> None:
        """Operands lie elsewhere from now on, for all variants alike. `when` is a round, or what stands for one."""
        with self.run.spent("placement"):
            self.operands.place(self.seed(when))

    def seed(self, *what) -> int:
        return seed_of(self.run.seed, self.problem.family, self.problem.name, *what)

    @contextlib.contextmanager
    def bound(self, operation, variant: store.Variant, mode: str, when):
        """Meanwhile the operation works on the operands where they are, with scratch at a place of its own."""
        try:
            operation.bind(self.seed(when, variant.name, mode))
            yield
        finally:
            operation.release()

    @contextlib.contextmanager
    def placed(self, operation, variant: store.Variant, mode: str, when):
        """As bound(), for samples of this mode: PyTorch's outputs have their place drawn, too. Graphs see to it when
        they are captured, since each has a pool of its own."""
        memory = contextlib.nullcontext() if mode == "graph" else operation.own_memory()
        with self.bound(operation, variant, mode, when), memory:
            yield

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
            return [OurOperation(self.clock, self.problem, variant, self.operands)]
        kind = variant.name.removeprefix("torch_")
        if kind == "eager":
            return [TorchOperation(self.family.eager, self.operands)]
        return [self.compile(variant, form, COMPILE_MODES[kind]) for form in self.family.compiled]

    def compile(self, variant: store.Variant, form: str, mode: str | None) -> TorchOperation:
        begin = time.perf_counter()
        with self.run.spent("compile"):
            compiled = torch.compile(self.family.compiled[form], dynamic=False, fullgraph=True, mode=mode)
            operation = TorchOperation(compiled, self.operands, form)
            with self.bound(operation, variant, "compilation", BEFORE):
                operation()
                torch.cuda.synchronize()
        name = f"{self.problem.family}/{variant.name}/{self.problem.name}"
        say(f"{name}: {form} compiled in {time.perf_counter() - begin:.1f} s")
        return operation

    def capture(self, operation, count: int) -> timer.GraphInstance:
        return capture(self.clock, self.run.torch_stream(), operation, count)

    def prepare(self, variant: store.Variant) -> float:
        """Builds and checks it; returns the worst error / bound of what is kept."""
        errors = {}
        for operation in self.build(variant):
            form = f", form {operation.form}" if operation.form else ""
            errors[operation] = self.check_call(operation, variant, BEFORE, f"{BEFORE} the rounds{form}")
        for mode in self.run.modes:
            self.run.guarded(self, variant, [mode], lambda m=mode: self.prepare_mode(variant, list(errors), m))
        kept = [errors[ready.operation] for ready in self.prepared_of(variant)]
        return max([*kept, self.check_graphs(variant, BEFORE, f"{BEFORE} the rounds")])

    def prepare_mode(self, variant: store.Variant, operations: list, mode: str) -> None:
        """Keeps the operation that is fastest in this mode."""
        with self.run.spent("prepare"):
            ready = {operation.form: self.ready(variant, operation, mode) for operation in operations}
            pilot_us = self.pilot(variant, ready, mode) if len(ready) > 1 else None
        fastest = min(pilot_us, key=pilot_us.get) if pilot_us else operations[0].form
        if pilot_us:
            told = ", ".join(f"{form} {us:.2f}" for form, us in pilot_us.items())
            say(f"{store.name_of(self.problem, variant, mode)}: pilot {told} us, so {fastest} is measured")
        self.prepared[variant.name, mode] = replace(ready[fastest], pilot_us=pilot_us)

    def ready(self, variant: store.Variant, operation, mode: str) -> Prepared:
        with self.bound(operation, variant, mode, BEFORE):
            return Prepared(operation, self.sampler(operation, mode))

    def pilot(self, variant: store.Variant, ready: dict[str, Prepared], mode: str) -> dict[str, float]:
        """Of each the median over rounds of medians, as a table has it; the order turns round by round."""
        medians = {form: [] for form in ready}
        for number in range(PILOT_ROUNDS):
            self.place(f"pilot {number}")
            for form in list(ready)[:: -1 if number % 2 else 1]:
                sampler, samples = ready[form].sampler, timer.Samples()
                with self.placed(ready[form].operation, variant, mode, f"pilot {number}"):
                    sampler.open()
                    self.clock.settle()
                    timer.take(self.clock, sampler, PILOT_SAMPLES[mode], samples)
                medians[form].append(statistics.median(samples.us))
        return {form: round(statistics.median(us), 3) for form, us in medians.items()}

    def prepared_of(self, variant: store.Variant) -> list[Prepared]:
        return [ready for (name, _), ready in self.prepared.items() if name == variant.name]

    def sampler(self, operation, mode: str):
        if mode == "event_cold":
            return timer.EventColdSampler(self.clock, operation)
        count = timer.graph_operations(timer.pilot_span_us(self.clock, operation))
        return timer.GraphSampler(self.clock, lambda calls: self.capture(operation, calls), count)

    def check_call(self, operation, variant: store.Variant, when: str, what: str) -> float:
        with self.bound(operation, variant, "check", when):
            return self.check(poisoned_call(operation), what)

    def check_graphs(self, variant: store.Variant, when: str, what: str) -> float:
        worst = 0.0
        ready = self.prepared.get((variant.name, "graph"))
        if not ready:
            return worst
        with self.bound(ready.operation, variant, "graph", when):
            ready.sampler.open()
            for graph in (ready.sampler.one, ready.sampler.many):
                for result in graph.result:
                    result.fill_(math.nan)
                graph.replay()
                worst = max(worst, self.check(graph.result, f"a graph {what}"))
        return worst

    def refresh(self) -> None:
        """Other inputs in the same memory: what was remembered instead of computed is found out."""
        with self.run.spent("check"):
            for name, tensor in self.operands.inputs.items():
                if families.fingerprint(tensor) != self.prints[name]:
                    raise WrongError(f"the input {name} was changed")
            self.expected = None
            rows, cols = self.problem.rows, self.problem.cols
            self.operands.load(families.make_inputs(self.family, rows, cols, self.run.seed + 1, DEVICE))
            self.expected = families.expect(self.family, self.operands.originals)

    def check_after(self, variant: store.Variant) -> float:
        what = f"{AFTER} the rounds, on fresh inputs"
        kept = {ready.operation for ready in self.prepared_of(variant)}
        errors = [self.check_call(operation, variant, AFTER, what) for operation in kept]
        return max([*errors, self.check_graphs(variant, AFTER, what)])
