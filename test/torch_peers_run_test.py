# SPDX-License-Identifier: Apache-2.0
"""Whole runs of tools/torch_peers.py with PyTorch on the CPU and a made-up clock; our side through the library."""

import contextlib
import itertools
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from program_support import EXECUTABLE, SOURCE, load_strict

sys.path.insert(0, str(SOURCE / "tools"))
from peers import families, measure, session, store, timer

BENCH = Path(EXECUTABLE)
LIBRARY = BENCH.with_name("libmage_launch.so")  # only on demand
LISTED = store.list_benchmarks(BENCH)
EAGER = store.Variant("torch_eager", "pytorch", "p.py")
COMPILED = store.Variant("torch_compile", "pytorch", "p.py")
COMPILED_MAX = store.Variant("torch_compile_max", "pytorch", "p.py")


class MadeUpTimer:
    """A clock on the host that measures nothing: spans are as long as it is told."""

    def __init__(self, library):
        self.library, self.stream, self.stream_index, self.peak_gbytes_per_s = library, 1, 0, None
        self.spans = itertools.count(1)

    def round(self, number):
        self.stream_index = number % 8
        return self.stream

    def begin(self, delay_us, cold):
        pass

    def end(self):
        return 10 + next(self.spans) / 10, True

    def empty(self):
        pass

    def clock_mhz(self):
        return 1000.0

    def settle(self):
        return True


class MadeUpGraph:
    kernel_nodes, other_nodes = 1, 0

    def __init__(self, operation, count):
        self.operation, self.kernel_nodes, self.result = operation, count, operation()

    def renew(self):
        pass

    def replay(self):
        for kept, fresh in zip(self.result, self.operation(), strict=True):
            kept.copy_(fresh)


@unittest.skipUnless(families.torch and LIBRARY.exists(), "needs PyTorch and libmage_launch.so")
class WholeRun(unittest.TestCase):
    """measure() as it stands, on the CPU: our side is a host variant through the library."""

    OURS = store.Variant("mage_cpu_v00_scalar", "mage_bench", "c.cpp", library_variant="cpu_v00_scalar")

    def run_with(self, variants, modes=("event_cold", "graph"), family="gelu", **replaced):
        torch = families.torch
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        problem = store.choose_problems(LISTED, [family], "^64x1024$")[0]
        steps = timer.steps_of(len(variants), list(modes), 4, "1")
        fixtures = [store.name_of(problem, variant, mode) for variant in variants for mode in modes]
        arguments = types.SimpleNamespace(modes=list(modes), seed=1, fence=128, event_samples=3, graph_samples=2)
        clock = MadeUpTimer(timer.Library(LIBRARY))
        journal = store.Journal(BENCH, Path(folder.name) / "run.json")
        probe = store.probe_run(BENCH, "copy/reference/64x1024/host")
        plan = {"fixtures": fixtures, "problems": []}
        journal.append(store.header_of(probe, {}, {"seed": 1}, plan))
        run = measure.Run(arguments, LISTED, clock, journal, plan)
        floor = timer.EventColdSampler(clock, clock.empty)
        with contextlib.ExitStack() as stack:
            for what, name, value in (
                (session, "DEVICE", "cpu"),
                (measure.Run, "torch_stream", lambda self: None),
                (measure.Run, "floor_sampler", lambda self, mode: floor),
                (session.Session, "capture", lambda self, operation, count: MadeUpGraph(operation, count)),
                (torch.cuda, "stream", lambda stream: contextlib.nullcontext()),
                (torch.cuda, "synchronize", lambda: None),
                *((session.Session, name, value) for name, value in replaced.items()),
            ):
                stack.enter_context(mock.patch.object(what, name, value))
            run.measure(problem, variants, steps)
            run.forget()
        run.end(False)
        journal.close()
        return run, load_strict((Path(folder.name) / "run.json").read_text())

    def test_rounds_gates_floors_and_end(self):
        variants = [EAGER, self.OURS]
        run, contents = self.run_with(variants)
        self.assertEqual(run.failures, 0)
        self.assertEqual(len(contents["benchmarks"]), 4 * 2 * 2)
        self.assertEqual(len(contents["mage"]["gates"]), 2 * 2 * 2)
        self.assertEqual(len(contents["mage"]["floors"]), 4 * 2)
        self.assertTrue(contents["mage"]["complete"] and contents["mage"]["end"]["order_as_planned"])
        self.assertEqual({row["mage"]["position"] for row in contents["benchmarks"]}, {0, 1})
        for row in contents["mage"]["aggregates"]:
            self.assertNotIn("unverified_after", row["flags"])

    def test_compilation(self):
        run, contents = self.run_with([COMPILED, COMPILED_MAX, self.OURS], modes=("event_cold",))
        self.assertEqual(run.failures, 0)
        forms = {row["mage"]["variant"]: row["mage"]["form"] for row in contents["benchmarks"]}
        self.assertEqual(forms, {"torch_compile": "aten", "torch_compile_max": "aten", self.OURS.name: None})
        self.assertEqual({row["mage"]["pilot_us"] for row in contents["benchmarks"]}, {None})
        self.assertGreater(run.seconds["compile"], 0)

    def test_each_mode_measures_the_form_that_is_faster_in_it(self):
        us = {"event_cold": {"aten": 9.0, "formula": 10.0}, "graph": {"aten": 6.0, "formula": 5.0}}
        given, make = [], session.Session.sampler

        def sampler(built, operation, mode):
            made = make(built, operation, mode)
            if operation.form:
                made.sample = lambda out: out.us.append(us[mode][operation.form])
            return made

        def compiled(function, **options):
            given.append(options)
            return function

        with mock.patch.object(families.torch, "compile", compiled):
            run, contents = self.run_with([COMPILED_MAX, EAGER], family="layernorm", sampler=sampler)
        self.assertEqual(run.failures, 0)
        options = {"dynamic": False, "fullgraph": True, "mode": "max-autotune-no-cudagraphs"}
        self.assertEqual(given, [options, options])
        rows = [row["mage"] for row in contents["benchmarks"]]
        seen = {(row["mode"], row["form"], row["pilot_us"] and tuple(row["pilot_us"].items())) for row in rows}
        expected = {(mode, min(us[mode], key=us[mode].get), tuple(us[mode].items())) for mode in us}
        self.assertEqual(seen, expected | {("event_cold", None, None), ("graph", None, None)})
        for row in contents["benchmarks"]:
            if row["mage"]["form"]:
                self.assertEqual(row["real_time"], us[row["mage"]["mode"]][row["mage"]["form"]])

    def test_a_form_that_is_wrong_is_no_candidate(self):
        operator = families.FAMILIES["layernorm"].compiled["aten"]
        wrong = mock.Mock(side_effect=lambda x, gamma, beta: operator(x, gamma, beta + 1))
        with (
            mock.patch.dict(families.FAMILIES["layernorm"].compiled, formula=wrong),
            mock.patch.object(families.torch, "compile", lambda function, **_: function),
        ):
            run, contents = self.run_with([COMPILED, EAGER], family="layernorm")
        self.assertEqual(run.failures, 2)
        self.assertEqual({row["mage"]["variant"] for row in contents["benchmarks"]}, {EAGER.name})
        self.assertIn("before the rounds, form formula: the error of y", contents["mage"]["failed"][0]["reason"])

    def test_a_mode_that_fails_leaves_the_other(self):
        make = session.Session.sampler

        def sampler(built, operation, mode):
            if mode == "event_cold":
                raise RuntimeError("no such clock")
            return make(built, operation, mode)

        run, contents = self.run_with([EAGER], sampler=sampler)
        self.assertEqual(run.failures, 1)
        self.assertEqual({row["mage"]["mode"] for row in contents["benchmarks"]}, {"graph"})
        self.assertEqual([gate["when"] for gate in contents["mage"]["gates"]], ["before", "after"])

    def test_what_is_wrong_after_the_rounds_loses_its_times(self):
        variants = [EAGER, self.OURS]
        remembered = []

        def build(built, variant):
            if variant.library_variant:
                return [session.OurOperation(built.clock, built.problem, variant, built.inputs, "cpu", 128)]
            remembered.append(families.FAMILIES["gelu"].eager(*built.inputs.values())[0].clone())
            return [session.TorchOperation(lambda *_: (remembered[0].clone(),), built.inputs)]

        run, contents = self.run_with(variants, build=build)
        self.assertEqual(run.failures, 2)
        self.assertEqual({row["mage"]["variant"] for row in contents["benchmarks"]}, {self.OURS.name})
        self.assertIn("on fresh inputs", contents["mage"]["failed"][0]["reason"])

    def test_what_cannot_be_built_is_said_and_the_rest_measured(self):
        missing = store.Variant("mage_none", "mage_bench", "n.cu", library_variant="none")
        run, contents = self.run_with([missing, self.OURS])
        self.assertEqual(run.failures, 2)
        self.assertIn("this build has no variant gelu/none", contents["mage"]["failed"][0]["reason"])
        self.assertEqual(len(contents["benchmarks"]), 4 * 2)


if __name__ == "__main__":
    unittest.main()
