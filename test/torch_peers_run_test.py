# SPDX-License-Identifier: Apache-2.0
"""The pilot, and whole runs of tools/torch_peers.py with PyTorch on the CPU and a made-up clock; our side through the
library."""

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
        self.spans, self.seeds, self.sweeps = itertools.count(1), [], 0

    def round(self, number):
        self.stream_index = number % 8
        return self.stream

    def begin(self, delay_us, cold):
        pass

    def end(self):
        return 10 + next(self.spans) / 10, True

    def sweep(self):
        self.sweeps += 1

    def place_scratch(self, seed):
        self.seeds.append(seed)

    def scratch_offsets(self):
        return [self.seeds[-1] % 1024 * 256]

    def empty(self):
        pass

    def clock_mhz(self):
        return 1000.0

    def settle(self):
        return True


class MadeUpGraph:
    kernel_nodes, other_nodes = 1, 0

    def __init__(self, operation, count):
        operation.make_room()
        self.operation, self.kernel_nodes, self.result = operation, count, operation()

    def replay(self):
        for kept, fresh in zip(self.result, self.operation(), strict=True):
            kept.copy_(fresh)


class Pilot(unittest.TestCase):
    def test_a_pilot_turns_its_order_and_is_no_coin_flip(self):
        taken = []

        class Sampler:
            warm = False

            def __init__(self, form, us):
                self.form, self.us = form, us

            def open(self):
                taken.append([self.form, 0])

            def sample(self, out):
                taken[-1][1] += 1
                out.us.append(self.us if len(taken) > 4 else 99)  # what is odd at first does not decide

        for mode in measure.MODES:
            taken.clear()
            forms = (("aten", 5.0), ("formula", 4.9996))
            ready = {form: session.Prepared(form, Sampler(form, us)) for form, us in forms}
            piloted = mock.MagicMock()
            pilot_us = session.Session.pilot(piloted, COMPILED, ready, mode)
            self.assertEqual(pilot_us, {"aten": 5.0, "formula": 5.0})
            self.assertEqual(piloted.place.call_count, session.PILOT_ROUNDS)
            many = session.PILOT_SAMPLES[mode]
            pairs = [["aten", many], ["formula", many]]
            self.assertEqual(taken, (pairs + pairs[::-1]) * (session.PILOT_ROUNDS // 2))
            self.assertGreaterEqual(many * session.PILOT_ROUNDS, 20)


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
        arguments = types.SimpleNamespace(modes=list(modes), seed=1, event_samples=3, graph_samples=2)
        clock = MadeUpTimer(timer.Library(LIBRARY))
        journal = store.Journal(BENCH, Path(folder.name) / "run.json")
        probe = store.probe_run(BENCH, "copy/reference/64x1024/host")
        plan = {"fixtures": fixtures, "problems": []}
        journal.append(store.header_of(probe, {}, {"seed": 1}, plan))
        run = measure.Run(arguments, LISTED, clock, journal, plan)
        floor = timer.EventColdSampler(clock, clock.empty)
        self.clock = clock
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
        self.assertEqual(self.clock.sweeps, 4 * 2)  # a group of graph samples

    def test_places_are_drawn_for_each_round_and_scratch_for_each_variant_too(self):
        variants = [EAGER, self.OURS]
        _, contents = self.run_with(variants)
        rows = [row["mage"] for row in contents["benchmarks"]]
        inputs = {}
        for row in rows:
            self.assertEqual(len(row["offsets"]), 3)
            inputs.setdefault(row["round"], set()).add(tuple(row["offsets"][:2]))
        self.assertTrue(all(len(places) == 1 for places in inputs.values()), "one place for all variants of a round")
        self.assertEqual(len(set.union(*inputs.values())), 4)
        ours = [row for row in rows if row["variant"] == self.OURS.name]
        self.assertEqual(len({row["offsets"][2] for row in ours}), 4)
        self.assertEqual(len({row["scratch_offsets"][0] for row in ours}), 4 * 2)
        self.assertEqual({tuple(row["scratch_offsets"]) for row in rows if row["variant"] == EAGER.name}, {()})
        again = self.run_with(variants)[1]["benchmarks"]
        kept = ("offsets", "scratch_offsets")
        places = [[row["mage"][what] for what in kept] for row in again if row["mage"]["variant"] == self.OURS.name]
        self.assertEqual(places, [[row[what] for what in kept] for row in ours], "the seed gives the places")

    def test_one_launch_is_bound_at_a_time(self):
        handles, most, pointers = set(), 0, set()
        bind, release = session.OurOperation.bind, session.OurOperation.release

        def counting_bind(operation, seed):
            nonlocal most
            bind(operation, seed)
            handles.add(operation.handle)
            most = max(most, len(handles))
            pointers.add(operation.results[0].data_ptr())

        def counting_release(operation):
            handles.discard(operation.handle)
            release(operation)

        other = store.Variant("mage_cpu_v01_simd", "mage_bench", "c.cpp", library_variant="cpu_v01_simd")
        with mock.patch.multiple(session.OurOperation, bind=counting_bind, release=counting_release):
            run, _ = self.run_with([self.OURS, other])
        self.assertEqual((run.failures, most, handles), (0, 1, set()))
        self.assertEqual(len(pointers), 1 + 4)  # before the rounds, and in each

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
                return [session.OurOperation(built.clock, built.problem, variant, built.operands)]
            remembered.append(families.FAMILIES["gelu"].eager(*built.operands.inputs.values())[0].clone())
            return [session.TorchOperation(lambda *_: (remembered[0].clone(),), built.operands)]

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
