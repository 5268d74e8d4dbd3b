# SPDX-License-Identifier: Apache-2.0
"""tools/torch_peers.py without a GPU: its plan against mage_bench's, its arithmetic, and the store that mage_compare
reads. What needs PyTorch, libmage_launch.so or a GPU has files of its own: torch_peers_*_test.py."""

import contextlib
import errno
import io
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

from compare_support import CompareTest
from program_support import EXECUTABLE, SOURCE, ProgramTest, environment, load_strict

sys.path.insert(0, str(SOURCE / "tools"))
import torch_peers
from peers import families, measure, store, timer

TOOL = SOURCE / "tools" / "torch_peers.py"
BENCH = Path(EXECUTABLE)
LISTED = store.list_benchmarks(BENCH)


class Plan(ProgramTest):
    def tool(self, *flags, **options):
        return self.bench(TOOL, f"--bench={BENCH}", *flags, executable=sys.executable, **options)

    def refused(self, says, *flags):
        done = self.tool(*flags)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(says, done.stderr)

    def with_a_gpu_variant(self):
        """Flags: a program that lists what the build lists, with gelu/v00_naive whether or not CUDA was there."""
        built = {"skipped": None, "provider": "mage_bench", "parent": None, "accepts": True}
        listed = [entry | built if entry["source"] == "src/kernels/gelu/v00_naive.cu" else entry for entry in LISTED]
        (self.folder / "listed.json").write_text(json.dumps(listed))
        program = self.program(f"cat '{self.folder}/listed.json'")
        return f"--bench={program}", "--families=gelu", "--variants=v00_naive"

    def test_problems_are_those_of_the_build(self):
        done = self.tool("--out=x.json", *self.with_a_gpu_variant(), "--modes=graph", "--dry_run")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        planned = {tuple(line.split("/")) for line in lines if line.startswith("gelu/")}
        problems = {entry["problem"] for entry in LISTED if entry["family"] == "gelu"}
        variants = ("torch_eager", "torch_compile", "mage_v00_naive")
        self.assertEqual(planned, {("gelu", v, p, "graph") for v in variants for p in problems})
        self.assertEqual(lines[len(planned) :], [f"rounds: 12 of 3 variants, problems: {len(problems)}"])

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
        self.refused("--problems: is empty: leave it out, or give '.'", "--out=x.json", "--problems=")
        self.refused("--bench: names nothing", "--out=x.json", "--bench=")
        self.refused("no GPU variant 'none'", "--out=x.json", "--families=gelu", "--variants=none")
        self.refused("--modes: 'event'", "--out=x.json", "--modes=event")
        self.refused("--providers: 'eager,jax'", "--out=x.json", "--providers=eager,jax")
        self.refused("--rounds: '0'", "--out=x.json", "--rounds=0")
        self.refused("no number from 1 to 1000", "--out=x.json", "--rounds=1001")
        self.refused("--compile_cache: names nothing", "--out=x.json", "--compile_cache=")
        self.refused("--compile_cache=/dev/null/x cannot be written", "--out=x.json", "--compile_cache=/dev/null/x")
        self.refused("--dry", "--out=x.json", "--dry")
        self.refused("--out", "--families=gelu")
        self.refused("build the target mage_bench", "--out=x.json", "--bench=no_such_program")
        self.assertEqual(self.files(), [])

    def test_what_lists_no_benchmarks_is_no_mage_bench(self):
        for says in ("", "words", '[{"mode": "event_cold"}]', "[1]", "7"):
            program = self.program(f"echo '{says}'")
            self.refused("program is no mage_bench", "--out=x.json", f"--bench={program}")
        program = self.program("echo 'no such flag' >&2; exit 1")
        self.refused(
            "--mage_modes=event_cold exited with 1: no such flag); name one", "--out=x.json", "--bench=program"
        )

    def test_what_lists_other_types_is_no_mage_bench(self):
        good = next(entry for entry in LISTED if entry["family"] == "gelu") | {
            **{"skipped": None, "provider": "mage_bench", "parent": None, "accepts": True}
        }
        for field, wrong in (
            *(("problem", 5), ("family", None), ("source", 3), ("name", []), ("flops", "1"), ("mode", None)),
            *(("skipped", 1), ("provider", None), ("parent", 7), ("accepts", "yes")),
        ):
            (self.folder / "listed.json").write_text(json.dumps([good, good | {field: wrong}]))
            program = self.program("cat listed.json")
            says = f"program is no mage_bench: it does not list benchmarks ({field} is {wrong!r}); name one by --bench"
            self.refused(says, "--out=x.json", f"--bench={program}")
        (self.folder / "listed.json").write_text(json.dumps([{k: v for k, v in good.items() if k != "source"}]))
        self.refused("(no 'source')", "--out=x.json", "--bench=program")

    def test_what_is_run_or_loaded_lies_where_it_is_said_to(self):
        with mock.patch.object(sys, "argv", ["x", "--out=x.json", "--bench=./a", "--library=./b.so"]):
            arguments = torch_peers.parse_arguments()
        self.assertEqual((arguments.bench, arguments.library), (Path.cwd() / "a", Path.cwd() / "b.so"))
        done = self.tool("--out=x.json", *self.with_a_gpu_variant()[1:], "--bench=./program", "--dry_run")
        self.assertEqual(done.returncode, 0, done.stderr)

    def program(self, body):
        path = self.folder / "program"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def test_signals_while_planning(self):
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child would go on ignoring it
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        program = self.program("touch begun; exec sleep 30")
        for number in (signal.SIGINT, signal.SIGTERM):
            command = [sys.executable, TOOL, "--out=x.json", f"--bench={program}"]
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            self.addCleanup(self._end, process)
            self.wait_for(process, (self.folder / "begun").exists, "planning begun")
            process.send_signal(number)
            _, said = process.communicate(timeout=20)
            self.assertEqual((process.returncode, said), (130, "torch_peers.py: interrupted: nothing was measured\n"))
            (self.folder / "begun").unlink()

    def test_a_dry_run_whose_output_cannot_be_written(self):
        command = [sys.executable, TOOL, "--out=x.json", *self.with_a_gpu_variant(), "--dry_run"]
        reading, writing = os.pipe()
        os.close(reading)
        for stdout, code, says in ((writing, 0, ""), (os.open("/dev/full", os.O_WRONLY), 1, "cannot write to stdout")):
            done = subprocess.run(
                command, cwd=self.folder, env=environment(), stdout=stdout, stderr=subprocess.PIPE, text=True
            )
            os.close(stdout)
            self.assertEqual(done.returncode, code, done.stderr)
            said = [line for line in done.stderr.splitlines() if "this build has no family" not in line]
            self.assertEqual(len(said), 1 if says else 0, said)
            self.assertIn(says, done.stderr)

    def test_a_dry_run_says_what_is_unsupported_and_not_balanced(self):
        other = store.Variant("mage_w", "mage_bench", "w.cu", library_variant="w")
        planned = [(PROBLEM, list(VARIANTS.values()), rounds) for rounds in (10, 12)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            torch_peers.print_plan(types.SimpleNamespace(modes=["graph"]), planned, [(PROBLEM, other)])
        self.assertEqual(
            printed.getvalue().splitlines()[6:],
            [
                "unsupported: gelu/mage_w/8x8/graph",
                "rounds: 10 of 3 variants, problems: 1",
                "rounds: 12 of 3 variants, problems: 1",
                "not balanced: 10 is no multiple of 6",
            ],
        )

    def test_a_variant_of_other_families_is_refused_with_their_names(self):
        listed = [
            {"family": family, "variant": variant, "skipped": False, "source": "a.cu"}
            for family, variant in (("gelu", "a"), ("copy", "b"), ("layernorm", "b"))
        ]
        with self.assertRaisesRegex(store.UsageError, "it has a; families that have 'b': layernorm$"):
            store.choose_ours(listed, "gelu", ["b"], ["gelu", "layernorm"])

    def test_out_is_checked_by_a_dry_run_too(self):
        self.refused("--out: names nothing", "--out=", "--dry_run")
        self.refused("--out=. is a directory", "--out=.", "--dry_run")
        for out in ("/proc/x.json", "/proc/no/such/x.json", "/dev/null/x.json"):
            self.refused(f"--out={out}: no file can be made in /", f"--out={out}", "--dry_run")
        done = self.tool("--out=a/b/x.json", *self.with_a_gpu_variant(), "--dry_run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.folder / "a").exists())
        (self.folder / "x.json").write_text("mine")
        self.refused("x.json exists", "--out=x.json", "--dry_run")
        (self.folder / "x.json.journal.jsonl").touch()
        says = "by mage_bench --mage_recover=x.json.journal.jsonl --mage_overwrite, or"
        self.refused(says, "--out=x.json", "--dry_run")

    def test_a_family_of_the_table_that_the_build_lacks_is_refused_by_name(self):
        listed = [entry for entry in LISTED if entry["family"] != "gelu"]
        with self.assertRaisesRegex(store.UsageError, "this build has no family 'gelu'; it has ceiling"):
            store.choose_families(listed, list(families.FAMILIES), ["gelu"])

    def test_an_existing_store_is_not_overwritten(self):
        (self.folder / "x.json").write_text("mine")
        self.refused("x.json exists", "--out=x.json", "--families=gelu")
        self.assertEqual((self.folder / "x.json").read_text(), "mine")

    def test_without_pytorch_or_gpu_the_exit_code_is_3_and_nothing_is_left(self):
        flags, before = self.with_a_gpu_variant(), self.files()
        done = self.tool("--out=x.json", *flags)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"^torch_peers.py: PyTorch (cannot be imported|sees no CUDA device)")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual(self.files(), before)


class Arithmetic(unittest.TestCase):
    def test_length_of_the_long_graph(self):
        for operation_us, expected in ((0, 100), (4, 100), (16, 25), (133, 3), (1666, 3), (1667, 2), (9000, 2)):
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

    def test_an_order_leaves_the_kept_design_as_it_is(self):
        before = timer.williams(4)
        timer.steps_of(4, ["graph"], 8, "1")
        self.assertEqual(timer.williams(4), before)
        self.assertIsInstance(before, tuple)

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
    block.update(offsets=[4096, 4352, None], scratch_offsets=[])  # None: PyTorch put the output elsewhere
    return {"kind": "row", "row": store.row_of(PROBLEM, VARIANTS[variant], mode, samples, block)}


class Store(CompareTest):
    """Fabricated samples, by the tool's own functions, on a probe that ran on the host."""

    def test_its_protocol_is_that_of_mage_bench(self):
        probe = store.probe_run(BENCH, "copy/reference/64x1024/host")
        self.assertEqual(store.header_of(probe, {}, {}, {})["protocol"], probe["mage"]["protocol"])

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
        self.assertEqual(row["mage"]["offsets"], [4096, 4352, None])
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

    def test_a_full_disk_is_no_fault_of_the_variant(self):
        journal = self.journal()
        journal.file.close()
        journal.file = mock.Mock()
        journal.file.write.side_effect = OSError(errno.ENOSPC, "No space left on device")
        run = mock.Mock()
        says = "No space left on device; .*: mage_bench --mage_recover=.*/peers.json.journal.jsonl$"
        with self.assertRaisesRegex(store.JournalError, says):
            measure.Run.guarded(run, None, None, ["graph"], lambda: journal.append({"kind": "end"}))
        run.drop.assert_not_called()

    def test_a_store_that_cannot_be_made_says_how_to_make_it(self):
        journal = self.journal()
        (self.folder / "peers.json").mkdir()
        with self.assertRaisesRegex(store.JournalError, "mage_bench --mage_recover="):
            journal.save()
        journal.file.close()

    def test_nothing_measured_leaves_nothing(self):
        journal = store.Journal(BENCH, self.folder / "none.json")
        journal.append({"kind": "header"})
        journal.close()
        self.assertFalse([name for name in self.files() if name.startswith("none")])


if __name__ == "__main__":
    unittest.main()
