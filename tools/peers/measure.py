# SPDX-License-Identifier: Apache-2.0
"""One problem after the other into one journal: gates, rounds, floors."""

import contextlib
import gc
import statistics
import time
from collections import Counter

from peers import say, store, timer
from peers.families import torch
from peers.operations import EmptyOperation, capture
from peers.session import Session, WrongError

MODES = ("event_cold", "graph")


class Run:
    """All problems into one journal."""

    def __init__(self, arguments, listed, clock, journal, plan):
        self.arguments, self.listed, self.clock, self.journal, self.plan = arguments, listed, clock, journal, plan
        self.modes, self.seed = arguments.modes, arguments.seed
        self.samples = {"event_cold": arguments.event_samples, "graph": arguments.graph_samples}
        self.fixtures = {name: index for index, name in enumerate(plan["fixtures"])}
        self.streams, self.seconds, self.failures, self.sequence = {}, Counter(), 0, 0
        self.quanta = store.Quanta()
        self.begin = time.perf_counter()
        self.as_planned = True
        self.floor_samplers, self.dropped = {}, set()

    @contextlib.contextmanager
    def spent(self, on: str):
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[on] += time.perf_counter() - begin

    def torch_stream(self):
        raw = self.clock.stream
        if raw not in self.streams:
            self.streams[raw] = torch.cuda.ExternalStream(raw)
        return self.streams[raw]

    def status(self, name: str, status: str, reason: str) -> None:
        self.journal.append({"kind": "status", "name": name, "status": status, "code": None, "reason": reason})
        if status != "unsupported":
            self.failures += 1
            self.as_planned = False
            say(f"{name}: {status}: {reason}")

    def measure(self, problem: store.Problem, variants: list[store.Variant], steps: list) -> None:
        """`steps` are those of the plan: (round, mode, index into `variants`)."""
        self.clock.round(0)
        with torch.no_grad(), torch.cuda.stream(self.torch_stream()):
            session = self.open(problem, variants)
        if session is None:
            return
        working = [variant for variant in variants if session.prepared_of(variant)]
        if not working:
            return
        rounds = 1 + max(number for number, _, _ in steps)
        gc.collect()
        gc.disable()  # a collection in a sample would outlast the delay
        try:
            # Inductor's kernels rely on pointers that are multiples of 16 bytes. All places are multiples of 256, so
            # what was compiled for one serves the others; should it ever not, that must not pass for a time.
            with torch.compiler.set_stance("fail_on_recompile"):
                working = self.rounds(session, variants, working, steps, rounds)
        finally:
            gc.enable()
        self.clock.round(0)
        with torch.no_grad(), torch.cuda.stream(self.torch_stream()):
            self.close(session, working)

    def open(self, problem, variants):
        names = [store.name_of(problem, variant, mode) for variant in variants for mode in self.modes]
        try:
            session = Session(self, problem)
        except RuntimeError as error:  # out of memory
            for name in names:
                self.status(name, "failed", first_line(error))
            return None
        entry = {"kind": "problem", "family": problem.family, "problem": problem.name, "work": problem.work}
        self.journal.append({**entry, "inputs_sha256": session.prints})
        for variant in variants:
            self.guarded(
                session, variant, self.modes, lambda v=variant: self.gate(session, v, "before", session.prepare(v))
            )
        return session

    def guarded(self, session, variant, modes: list[str], body) -> None:
        """Runs the body; whatever it throws becomes the variant's status in these modes, and it is out of them."""
        try:
            body()
        except store.JournalError:  # of the disk, and no fault of the variant
            raise
        except WrongError as error:
            self.drop(session, variant, self.modes, "wrong", str(error))
        except Exception as error:  # whatever a compiler throws is what is written down
            self.drop(session, variant, modes, "failed", f"{type(error).__name__}: {first_line(error)}")

    def drop(self, session, variant, modes: list[str], status: str, reason: str) -> None:
        for mode in modes:
            name = store.name_of(session.problem, variant, mode)
            session.prepared.pop((variant.name, mode), None)
            if name not in self.dropped:
                self.dropped.add(name)
                self.status(name, status, reason)

    def gate(self, session, variant, when: str, worst: float) -> None:
        for mode in self.modes:
            name = store.name_of(session.problem, variant, mode)
            if name in self.dropped:
                continue
            entry = {"kind": "gate", "name": name, "when": when, "ok": True, "worst_error_over_bound": worst}
            self.journal.append({**entry, "output_checksum": None})

    def rounds(self, session, variants, working, steps, rounds):
        last, position, block = {}, Counter(), None
        medians = {}
        for number, mode, index in steps:
            variant = variants[index]
            if block != (number, mode):
                begins = block is None or block[0] != number
                block = (number, mode)
                self.clock.round(number)
                with torch.no_grad(), torch.cuda.stream(self.torch_stream()):
                    if begins:
                        session.place(number)
                    floor_us = self.floor(session.problem, mode, number)
            if (variant.name, mode) not in session.prepared:
                continue

            def body(number=number, mode=mode, variant=variant, floor_us=floor_us, block=block):
                with torch.no_grad(), torch.cuda.stream(self.torch_stream()):
                    row = self.sample(session, variant, mode, number, rounds, floor_us)
                name = row["name"]
                row["mage"].update(position=position[block], predecessor=last.get(block), sequence=self.sequence)
                position[block] += 1
                last[block] = name
                self.sequence += 1
                self.journal.append({"kind": "row", "row": row})
                medians.setdefault(name, []).append(row["real_time"])

            self.guarded(session, variant, [mode], body)
        shown = ", ".join(
            f"{name.split('/')[1]} {name.split('/')[3]} {statistics.median(us):.2f}" for name, us in medians.items()
        )
        say(f"{session.problem.family}/{session.problem.name}: {shown} us")
        return [variant for variant in working if session.prepared_of(variant)]

    def floor(self, problem, mode: str, number: int) -> float:
        """The same sampler on an empty kernel; a row of its own in the store, never subtracted."""
        with self.spent("floors"):
            if mode not in self.floor_samplers:
                self.floor_samplers[mode] = self.floor_sampler(mode)
            sampler, samples = self.floor_samplers[mode], timer.Samples()
            sampler.open()
            timer.take(self.clock, sampler, timer.FLOOR_SAMPLES[mode], samples)
            median_us = statistics.median(samples.us)
        entry = {"kind": "floor", "device": "cuda", "mode": mode, "problem": f"{problem.family}/{problem.name}"}
        self.journal.append(
            {**entry, "round": number, "median_us": median_us, "samples_us": samples.us, "parts_us": samples.parts}
        )
        return median_us

    def floor_sampler(self, mode: str):
        if mode == "event_cold":
            return timer.EventColdSampler(self.clock, self.clock.empty)
        empty = EmptyOperation(self.clock)
        return timer.GraphSampler(
            self.clock, lambda count: capture(self.clock, self.torch_stream(), empty, count), timer.graph_operations(0)
        )

    def sample(self, session, variant, mode: str, number: int, rounds: int, floor_us: float) -> dict:
        problem, ready, samples = session.problem, session.prepared[variant.name, mode], timer.Samples()
        with session.placed(ready.operation, variant, mode, number):
            with self.spent("opening"):
                ready.sampler.open()
            with self.spent("settling"):
                settled = self.clock.settle()
                before = self.clock.clock_mhz()
                timer.warm_up(self.clock, ready.sampler)
            begin = time.perf_counter()
            with self.spent("samples"):
                for _ in range(self.samples[mode]):
                    ready.sampler.sample(samples)
            end = time.perf_counter()
            after = self.clock.clock_mhz()
            places = ready.operation.places(ready.sampler.results())
        flags = store.flags_of(statistics.median(samples.us), samples, floor_us, settled, (before, after))
        listed = store.of_variant(self.listed, problem, variant.library_variant)
        if listed.get("counter_example"):
            flags.append("counter_example")
        block = {
            "fixture": self.fixtures[store.name_of(problem, variant, mode)],
            "form": ready.operation.form,
            "pilot_us": ready.pilot_us,
            "inputs_sha256": session.inputs_sha256,
            **places,
            "round": number,
            "rounds": rounds,
            "samples_asked": self.samples[mode],
            "flags": flags,
            "floor_us": floor_us,
            "sm_mhz_before": before,
            "sm_mhz_after": after,
            "quantum_us": self.quanta(mode, samples.us),
            "peak_gbytes_per_s": self.clock.peak_gbytes_per_s,
            "stream": self.clock.stream_index,
            "host_us_begin": begin * 1e6,
            "host_us_end": end * 1e6,
        }
        if "picked" in listed:
            block["picked"] = listed["picked"]
        return store.row_of(problem, variant, mode, samples, block)

    def close(self, session, working) -> None:
        try:
            session.refresh()
        except (WrongError, RuntimeError) as error:
            for variant in working:
                self.drop(session, variant, self.modes, "wrong", f"after the rounds: {first_line(error)}")
            return
        for variant in working:
            self.guarded(
                session, variant, self.modes, lambda v=variant: self.gate(session, v, "after", session.check_after(v))
            )

    def forget(self) -> None:
        """What the last problem left in memory, and what torch.compile knows of its shapes."""
        with self.spent("prepare"):
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()

    def end(self, interrupted: bool) -> None:
        wall_s = time.perf_counter() - self.begin
        shares = {what: round(seconds, 3) for what, seconds in self.seconds.most_common()}
        self.journal.append(
            {
                "kind": "end",
                "finished_utc": store.utc_now(),
                "interrupted": interrupted,
                "order_as_planned": self.as_planned and not interrupted,
                "wall_s": wall_s,
                "inside_samples_s": self.seconds["samples"],
                "seconds": shares,
            }
        )
        rest = wall_s - sum(self.seconds.values())
        told = ", ".join(f"{what} {100 * seconds / wall_s:.0f} %" for what, seconds in shares.items())
        say(f"{wall_s:.1f} s: {told}, the rest {100 * rest / wall_s:.0f} %")


def first_line(error: BaseException) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]
