# SPDX-License-Identifier: Apache-2.0
"""tools/torch_peers.py without a GPU: its plan against mage_bench's, its arithmetic, and the store that mage_compare
reads. What needs PyTorch is in torch_peers_math_test.py."""

import itertools
import statistics
import sys
import unittest
from pathlib import Path

from compare_support import CompareTest
from program_support import EXECUTABLE, SOURCE, ProgramTest, load_strict

sys.path.insert(0, str(SOURCE / "tools"))
from peers import families, store, timer

TOOL = SOURCE / "tools" / "torch_peers.py"
BENCH = Path(EXECUTABLE)
LISTED = store.list_benchmarks(BENCH)
ON_GPU = [entry["variant"] for entry in LISTED if entry["family"] == "gelu" and not entry["skipped"]]
WHY_NO_CUDA = "built without CUDA: there is no GPU variant to stand beside"


class Plan(ProgramTest):
    def tool(self, *flags, **options):
        return self.bench(TOOL, f"--bench={BENCH}", *flags, executable=sys.executable, **options)

    def refused(self, says, *flags):
        done = self.tool(*flags)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(says, done.stderr)

    @unittest.skipUnless(ON_GPU, WHY_NO_CUDA)
    def test_problems_are_those_of_the_build(self):
        done = self.tool("--out=x.json", "--families=gelu", f"--variants={ON_GPU[0]}", "--modes=graph", "--dry_run")
        self.assertEqual(done.returncode, 0, done.stderr)
        planned = {tuple(name.split("/")) for name in done.stdout.split()}
        problems = {entry["problem"] for entry in LISTED if entry["family"] == "gelu"}
        variants = ("torch_eager", "torch_compile", f"mage_{ON_GPU[0]}")
        self.assertEqual(planned, {("gelu", v, p, "graph") for v in variants for p in problems})

    def test_families_that_the_build_has_are_found_and_others_said(self):
        there = {entry["family"] for entry in LISTED}
        chosen, lacking = store.choose_families(LISTED, list(families.FAMILIES), None)
        self.assertEqual(chosen, [family for family in families.FAMILIES if family in there])
        self.assertEqual(sorted([*chosen, *lacking]), sorted(families.FAMILIES))
        self.assertIn("gelu", chosen)

    def test_work_is_the_contract_s(self):
        for problem in store.choose_problems(LISTED, ["gelu"], "^1024x4096$"):
            self.assertEqual((problem.rows, problem.cols), (1024, 4096))
            entry = next(e for e in LISTED if (e["family"], e["problem"]) == ("gelu", "1024x4096"))
            self.assertEqual(problem.work["bytes_read"], entry["bytes_read"])

    def test_what_is_unknown_is_refused(self):
        self.refused("--families: PyTorch's side of 'matmul' is not known", "--out=x.json", "--families=matmul")
        self.refused("matches none of 64x1024", "--out=x.json", "--families=gelu", "--problems=^7x7$")
        self.refused("no regular expression", "--out=x.json", "--problems=(")
        self.refused("no GPU variant 'none'", "--out=x.json", "--families=gelu", "--variants=none")
        self.refused("--modes: 'event'", "--out=x.json", "--modes=event")
        self.refused("--providers: 'eager,jax'", "--out=x.json", "--providers=eager,jax")
        self.refused("--rounds: '0'", "--out=x.json", "--rounds=0")
        self.refused("--out", "--families=gelu")
        self.refused("build the target mage_bench", "--out=x.json", "--bench=no_such_program")
        self.assertEqual(self.files(), [])

    def test_a_family_of_the_table_that_the_build_lacks_is_refused_by_name(self):
        listed = [entry for entry in LISTED if entry["family"] != "gelu"]
        with self.assertRaisesRegex(store.UsageError, "this build has no family 'gelu'; it has ceiling"):
            store.choose_families(listed, list(families.FAMILIES), ["gelu"])

    @unittest.skipUnless(ON_GPU, WHY_NO_CUDA)
    def test_an_existing_store_is_not_overwritten(self):
        (self.folder / "x.json").write_text("mine")
        self.refused("x.json exists", "--out=x.json", "--families=gelu", f"--variants={ON_GPU[0]}")
        self.assertEqual((self.folder / "x.json").read_text(), "mine")

    @unittest.skipUnless(ON_GPU, WHY_NO_CUDA)
    def test_without_pytorch_or_gpu_the_exit_code_is_3_and_nothing_is_left(self):
        done = self.tool("--out=x.json", "--families=gelu", f"--variants={ON_GPU[0]}")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"^torch_peers.py: PyTorch (cannot be imported|sees no CUDA device)")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual(self.files(), [])


class Arithmetic(unittest.TestCase):
    def test_length_of_the_long_graph(self):
        for operation_us, expected in ((0, 100), (5, 100), (40, 25), (300, 4), (1250, 4), (1300, 2), (9000, 2)):
            self.assertEqual(timer.graph_operations(operation_us), expected, operation_us)

    def test_slope_between_the_graphs(self):
        self.assertEqual(timer.per_operation_us(7.5, 7.5 + 24 * 1.25, 25), 1.25)

    def test_delay_covers_enqueueing(self):
        self.assertEqual(timer.delay_for(1), 60)
        self.assertEqual(timer.delay_for(100), 430)
        self.assertEqual(timer.delay_for(1e6), 4000)

    def test_quantiles(self):
        self.assertEqual(store.quantile([4, 1, 3, 2], 0.5), 2.5)
        self.assertEqual(store.quantile([7], 0.99), 7)

    def test_a_design_has_each_neighbourhood_equally_often(self):
        for treatments in range(1, 8):
            design = timer.williams(treatments)
            self.assertTrue(all(sorted(row) == list(range(treatments)) for row in design))
            pairs = [pair for row in design for pair in itertools.pairwise(row)]
            self.assertEqual(len(set(map(pairs.count, pairs))), min(treatments - 1, 1), design)
            self.assertEqual(len(set(pairs)), treatments * (treatments - 1))
        self.assertEqual([timer.default_rounds(n) for n in (1, 2, 3, 4)], [10, 10, 12, 12])

    def test_steps_have_all_once_a_round_and_mode_and_are_repeatable(self):
        steps = timer.steps_of(3, ["event_cold", "graph"], 7, "1 a")
        self.assertEqual(len(set(steps)), 7 * 2 * 3)
        self.assertEqual([number for number, _, _ in steps], sorted(number for number, _, _ in steps))
        self.assertEqual(steps, timer.steps_of(3, ["event_cold", "graph"], 7, "1 a"))
        self.assertNotEqual(steps, timer.steps_of(3, ["event_cold", "graph"], 7, "2 a"))

    def test_the_clock_s_step_is_the_smallest_difference_seen(self):
        quanta = store.Quanta()
        self.assertIsNone(quanta("graph", [1.0, 1.0]))
        self.assertEqual(quanta("graph", [1.0, 1.5, 1.0]), 0.5)
        self.assertEqual(quanta("graph", [1.0, 3.0]), 0.5)
        self.assertEqual(quanta("event_cold", [1.0, 1.032]), 0.032)

    def test_flags(self):
        samples = timer.Samples()
        samples.us = [5.0] * 4
        self.assertEqual(store.flags_of(5.0, samples, 1.0, True, (1980, 1979)), [])
        self.assertEqual(store.flags_of(5.0, samples, 2.0, True, (1980, 1900)), ["clock_moved", "floor_dominated"])
        samples.gate_missed = 1
        self.assertEqual(store.flags_of(5.0, samples, None, True, (None, None)), ["gate_missed", "unstable"])


PROBLEM = store.Problem("gelu", "8x8", 8, 8, {"flops": 384.0, "bytes_read": 288.0, "bytes_written": 256.0})
VARIANTS = {
    "torch_eager": store.Variant("torch_eager", "pytorch", "p.py"),
    "torch_compile": store.Variant("torch_compile", "pytorch", "p.py"),
    "mage_best": store.Variant("mage_best", "mage_bench", "b.cu", "v00_naive", library_variant="best"),
}


def a_row(variant, mode, number, us, rounds=6):
    samples = timer.Samples()
    samples.us = [us, us * 1.01, us * 0.99]
    block = {"fixture": 0, "round": number, "rounds": rounds, "flags": [], "floor_us": 0.5, "quantum_us": 0.001}
    block.update(host_us_begin=0.0, host_us_end=9.0, inputs_sha256="ab", peak_gbytes_per_s=None, form=None)
    return {"kind": "row", "row": store.row_of(PROBLEM, VARIANTS[variant], mode, samples, block)}


class Store(CompareTest):
    """Fabricated samples, by the tool's own functions, on a probe that ran on the host."""

    def journal(self, failed=()):
        probe = store.probe_run(BENCH, "copy/reference/64x1024/host")
        journal = store.Journal(BENCH, self.folder / "peers.json")
        journal.append(store.header_of(probe, {"torch": "2"}, {"seed": 1}, {"fixtures": [], "problems": []}))
        for number in range(6):
            base = 10 + number  # what moves from round to round cancels in pairs
            for mode in ("event_cold", "graph"):
                for variant, share in (("torch_eager", 2.0), ("torch_compile", 1.0), ("mage_best", 0.8 + number / 1e4)):
                    journal.append(a_row(variant, mode, number, base * share))
        for variant in VARIANTS:
            for mode in ("event_cold", "graph"):
                name = f"gelu/{variant}/8x8/{mode}"
                if variant in failed:
                    journal.append({"kind": "status", "name": name, "status": "wrong", "code": None, "reason": "y"})
                else:
                    journal.append({"kind": "gate", "name": name, "when": "after", "ok": True})
        return journal

    def test_mage_compare_reads_it_and_pairs_by_round(self):
        self.journal().close()
        self.assertNotIn("peers.json.journal.jsonl", self.files())
        rows = self.rows(0, "peers.json", "--baseline=torch_compile", "--variant=^mage_")
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertEqual((row["candidate"], row["baseline"], row["word"]), ("mage_best", "torch_compile", "faster"))
            self.assertEqual((row["rounds"], row["pairing"]), (6, "paired by round"))
            self.assertAlmostEqual(row["ratio"], 0.80025, places=5)
            self.assertLess(row["ratio_high"] - row["ratio_low"], 0.002)
        slower = self.rows(1, "peers.json", "--baseline=torch_compile", "--variant=torch_eager")
        self.assertEqual({row["word"] for row in slower}, {"slower"})

    def test_a_table_can_be_printed_from_it(self):
        self.journal().close()
        contents = load_strict((self.folder / "peers.json").read_text())
        medians = {row["name"]: row["median_us"] for row in contents["mage"]["aggregates"]}
        self.assertEqual(len(medians), 6)
        self.assertAlmostEqual(medians["gelu/torch_compile/8x8/graph"], 12.5)
        row = contents["benchmarks"][0]
        self.assertEqual(row["real_time"], statistics.median(row["samples_us"]))
        self.assertEqual(row["mage"]["provider"], "pytorch")
        self.assertEqual(contents["mage"]["provenance"]["peers"], {"torch": "2"})
        self.assertIsNone(contents["mage"]["provenance"]["executable_sha256"])

    def test_what_is_wrong_has_no_time(self):
        self.journal(failed=["torch_eager"]).close()
        contents = load_strict((self.folder / "peers.json").read_text())
        self.assertFalse(any(row["mage"]["variant"] == "torch_eager" for row in contents["benchmarks"]))
        self.assertEqual({entry["rounds_withheld"] for entry in contents["mage"]["failed"]}, {6})

    def test_it_is_saved_in_mid_run_and_never_over_another(self):
        journal = self.journal()
        journal.save()
        before = load_strict((self.folder / "peers.json").read_text())
        self.assertFalse(before["mage"]["complete"])
        with self.assertRaisesRegex(store.UsageError, "exists"):
            store.Journal(BENCH, self.folder / "peers.json")
        journal.append({"kind": "end", "interrupted": False})
        journal.close()
        self.assertTrue(load_strict((self.folder / "peers.json").read_text())["mage"]["complete"])

    def test_nothing_measured_leaves_nothing(self):
        journal = store.Journal(BENCH, self.folder / "none.json")
        journal.append({"kind": "header"})
        journal.close()
        self.assertFalse([name for name in self.files() if name.startswith("none")])


if __name__ == "__main__":
    unittest.main()
