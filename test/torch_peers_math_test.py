# SPDX-License-Identifier: Apache-2.0
"""tools/torch_peers.py with PyTorch on the CPU: the table's mathematics, and whole runs with a made-up clock."""

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
from peers import families, measure, store, timer

BENCH = Path(EXECUTABLE)
LIBRARY = BENCH.with_name("libmage_launch.so")  # only on demand
LISTED = store.list_benchmarks(BENCH)
EAGER = store.Variant("torch_eager", "pytorch", "p.py")
COMPILED = store.Variant("torch_compile", "pytorch", "p.py")


@unittest.skipUnless(families.torch, f"needs PyTorch: {families.WHY_NO_TORCH}")
class Mathematics(unittest.TestCase):
    def test_every_form_is_inside_the_bound_and_a_changed_one_is_not(self):
        for name, family in families.FAMILIES.items():
            for rows, cols in ((1, 1), (3, 7), (64, 1024), (33, 257), (700, 40)):
                inputs = families.make_inputs(family, rows, cols, 5, "cpu")
                expected = families.expect(family, inputs)
                for form in (family.eager, *family.compiled.values()):
                    with self.subTest(name, rows=rows, cols=cols, form=form.__name__):
                        outputs = form(*inputs.values())
                        worst, where = families.worst_error(family, outputs, expected)
                        self.assertLessEqual(worst, 1, where)
                        for k in range(len(outputs)):
                            changed = [output.clone() for output in outputs]
                            changed[k].view(-1)[-1] = float("nan")
                            self.assertEqual(families.worst_error(family, changed, expected)[0], float("inf"))
                            changed[k].copy_(outputs[k] * (1 + 2e-3) + 2e-3)
                            self.assertGreater(families.worst_error(family, changed, expected)[0], 1)

    def test_backward_is_the_derivative_of_forward(self):
        torch = families.torch
        for forward, backward in (("gelu", "gelu_backward"), ("layernorm", "layernorm_backward")):
            family = families.FAMILIES[backward]
            inputs = families.make_inputs(family, 6, 40, 3, "cpu")
            wide = {name: tensor.double() for name, tensor in inputs.items()}
            names = ["x", "bias"] if forward == "gelu" else ["x", "gamma"]
            leaves = [wide[name].clone().requires_grad_() for name in names]
            if forward == "layernorm":
                leaves.append(torch.zeros(40, dtype=torch.float64, requires_grad=True))
            value = families.FAMILIES[forward].expected(*leaves)[0][0]
            gradients = torch.autograd.grad(value, leaves, wide["dy"])
            expected = [item[0] for item in family.expected(*wide.values())]
            for got, want in zip(gradients, expected, strict=True):
                torch.testing.assert_close(got, want, rtol=2e-6, atol=2e-6)  # mean and rstd are rounded to FP32

    def test_inputs_are_repeatable_and_fingerprints_see_one_bit_and_the_order(self):
        family = families.FAMILIES["layernorm_backward"]
        first, again, other = (families.make_inputs(family, 8, 16, seed, "cpu") for seed in (1, 1, 2))
        for name in family.inputs:
            self.assertEqual(families.fingerprint(first[name]), families.fingerprint(again[name]))
            self.assertNotEqual(families.fingerprint(first[name]), families.fingerprint(other[name]))
        before = families.fingerprint(first["x"])
        first["x"][0, 0], first["x"][0, 1] = first["x"][0, 1].clone(), first["x"][0, 0].clone()
        self.assertNotEqual(families.fingerprint(first["x"]), before)


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

    def run_with(self, variants, modes=("event_cold", "graph"), **replaced):
        torch = families.torch
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        problem = store.choose_problems(LISTED, ["gelu"], "^64x1024$")[0]
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
                (measure, "DEVICE", "cpu"),
                (measure.Run, "torch_stream", lambda self: None),
                (measure.Run, "floor_sampler", lambda self, mode: floor),
                (measure.Session, "capture", lambda self, operation, count: MadeUpGraph(operation, count)),
                (torch.cuda, "stream", lambda stream: contextlib.nullcontext()),
                (torch.cuda, "synchronize", lambda: None),
                *((measure.Session, name, value) for name, value in replaced.items()),
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
        run, contents = self.run_with([COMPILED, self.OURS], modes=("event_cold",))
        self.assertEqual(run.failures, 0)
        self.assertEqual({row["mage"].get("form") for row in contents["benchmarks"]}, {"aten", None})
        self.assertGreater(run.seconds["compile"], 0)

    def test_what_is_wrong_after_the_rounds_loses_its_times(self):
        variants = [EAGER, self.OURS]
        remembered = []

        def build(session, variant):
            if variant.library_variant:
                return measure.OurOperation(session.clock, session.problem, variant, session.inputs, "cpu", 128)
            remembered.append(families.FAMILIES["gelu"].eager(*session.inputs.values())[0].clone())
            return measure.TorchOperation(lambda *_: (remembered[0].clone(),), session.inputs)

        run, contents = self.run_with(variants, build=build)
        self.assertEqual(run.failures, 2)
        self.assertEqual({row["mage"]["variant"] for row in contents["benchmarks"]}, {self.OURS.name})
        self.assertIn("on fresh inputs", contents["mage"]["failed"][0]["reason"])

    def test_what_cannot_be_built_is_said_and_the_rest_measured(self):
        missing = store.Variant("mage_none", "mage_bench", "n.cu", library_variant="none")
        run, contents = self.run_with([missing, self.OURS])
        self.assertEqual(run.failures, 2)
        self.assertIn("this build has no variant 'none'", contents["mage"]["failed"][0]["reason"])
        self.assertEqual(len(contents["benchmarks"]), 4 * 2)


if __name__ == "__main__":
    unittest.main()
