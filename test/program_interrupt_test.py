# SPDX-License-Identifier: Apache-2.0
"""Runs that do not come to their end: signals, kill -9, and what --mage_recover makes of the journal."""

import os
import random
import signal
import subprocess
import unittest
from pathlib import Path

from program_support import (
    EXECUTABLE,
    HOST,
    HOST_NAMES,
    LONG,
    QUICK,
    ProgramTest,
    entries_of,
    environment,
    journal_of,
    rows_of,
)

JOURNAL = str(journal_of("store.json"))


def catches(pid, number):
    """Whether the process still handles the signal itself."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


class Interrupt(ProgramTest):
    def check_interrupted(self, process, at_least):
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("interrupted: the store holds what was measured", err)
        self.assertIn("store: store.json", out)
        self.assertEqual(self.files(), ["store.json"], "the journal is gone once the store is safe")
        store = self.load("store.json")
        self.assertIs(store["mage"]["complete"], False)
        self.assertIs(store["mage"]["end"]["interrupted"], True)
        rows = store["benchmarks"]
        self.assertGreaterEqual(len(rows), at_least)
        counts = {(row["name"], len(row["samples_us"])) for row in rows}
        self.assertEqual(len(counts), len({row["name"] for row in rows}), "half a round is no round")
        for row in rows:
            self.assertIn("unverified_after", row["mage"]["flags"])
        for aggregate in store["mage"]["aggregates"]:
            self.assertEqual(aggregate["rounds_planned"], 500)
            self.assertLessEqual({"missing_rounds", "unverified_after"}, set(aggregate["flags"]))
        return store

    def check_signal(self, number):
        process = self.start(rows=5)
        process.send_signal(number)
        store = self.check_interrupted(process, at_least=5)
        self.assertEqual(sorted({row["name"] for row in store["benchmarks"]}), HOST_NAMES)

    def test_sigint_saves_what_was_measured(self):
        self.check_signal(signal.SIGINT)

    def test_sigterm_saves_what_was_measured(self):
        self.check_signal(signal.SIGTERM)

    def test_a_lost_terminal_saves_what_was_measured(self):
        self.check_signal(signal.SIGHUP)

    def test_nohup_is_respected(self):
        command = ["nohup", EXECUTABLE, f"--benchmark_filter={HOST}", "--benchmark_out=store.json", *LONG]
        command[-3] = "--mage_rounds=40"
        with subprocess.Popen(
            command, cwd=self.folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            self.wait_for(process, lambda: rows_of(self.journal()), "a row")
            process.send_signal(signal.SIGHUP)
            self.assertEqual(process.wait(timeout=60), 0)
        self.assertIs(self.load("store.json")["mage"]["complete"], True)

    def test_a_reader_that_leaves_does_not_end_the_run(self):
        command = [EXECUTABLE, f"--benchmark_filter={HOST}", "--benchmark_out=store.json", *QUICK]
        with subprocess.Popen(
            command, cwd=self.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            process.stdout.close()
            self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(len(self.load("store.json")["benchmarks"]), 4)

    def test_a_sigint_before_the_first_row(self):
        process = self.start(
            "--mage_problem=gelu/1023x2048", "--benchmark_filter=gelu/cpu_v00_scalar/1023x2048", rows=0
        )
        self.wait_for(process, lambda: entries_of(self.journal()), "a journal with its header")
        process.send_signal(signal.SIGINT)
        self.check_interrupted(process, at_least=0)

    def test_a_second_sigint_ends_the_program_at_once(self):
        # A sample of some ten milliseconds: the first signal is looked at between two of them.
        process = self.start("--benchmark_filter=gelu/cpu_v00_scalar/1024x4096/host", "--mage_samples=3")
        process.send_signal(signal.SIGINT)
        self.wait_until_default(process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        # It may have come to its orderly end in between; both ends must be whole.
        self.assertIn(process.returncode, (-signal.SIGINT, 130))
        if process.returncode == 130:
            self.assertEqual(self.files(), ["store.json"])
        else:
            # The second one may have come while the store was written: what there was of it is left beside the journal.
            self.assertIn(self.files(), ([JOURNAL], [JOURNAL, f"store.json.tmp.{process.pid}"]))
            self.expect(0, f"--mage_recover={JOURNAL}")
        self.assertIs(self.load("store.json")["mage"]["complete"], False)

    def wait_until_default(self, process):
        try:
            while catches(process.pid, signal.SIGINT):
                pass
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            pass  # it has ended

    def test_a_signal_while_verifying(self):
        process = self.start("--mage_verify_only", "--benchmark_filter=gelu/", rows=0)
        self.wait_for(process, lambda: catches(process.pid, signal.SIGINT), "a handler of SIGINT")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.files(), [])


class Recovery(ProgramTest):
    def test_a_journal_that_is_being_written_is_not_recovered(self):
        process = self.start()
        for flags in ((), ("--benchmark_out=other.json",), ("--mage_overwrite",)):
            done = self.expect(1, f"--mage_recover={JOURNAL}", *flags)
            self.assertEqual(
                done.stderr,
                f"mage_bench: the journal {JOURNAL} is still being written by another process; "
                "wait for it or stop it\n",
            )
            self.assertEqual(self.files(), [JOURNAL])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, "the run was disturbed")
        self.load("store.json")


class Kill(ProgramTest):
    """A journal as kill -9 leaves it."""

    def setUp(self):
        super().setUp()
        process = self.start(rows=9)
        process.kill()
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertEqual(self.files(), [JOURNAL])
        self.left = self.journal()

    def test_the_journal_becomes_a_store_with_every_row(self):
        rows = rows_of(self.left)
        done = self.expect(0, f"--mage_recover={JOURNAL}")
        self.assertIn(f"recovered {len(rows)} rows of 2 benchmarks", done.stdout)
        store = self.load("store.json")
        self.assertIs(store["mage"]["complete"], False)
        self.assertIsNone(store["mage"]["end"])
        for row, recovered in zip(rows, store["benchmarks"], strict=True):
            row["mage"]["flags"].append("unverified_after")
            self.assertEqual(recovered, row)
        header = entries_of(self.left)[0]
        self.assertEqual(store["context"], header["context"])
        self.assertEqual(store["mage"]["provenance"], header["provenance"])
        self.assertEqual(store["mage"]["plan"], header["plan"])
        self.assertEqual(self.journal(), self.left, "the journal is the user's to delete")

    def test_recovering_overwrites_on_demand_only(self):
        (self.folder / "store.json").write_text("precious")
        self.expect(1, f"--mage_recover={JOURNAL}", says="the store store.json exists; use --mage_overwrite")
        self.assertEqual((self.folder / "store.json").read_text(), "precious")
        self.expect(0, f"--mage_recover={JOURNAL}", "--mage_overwrite")
        self.load("store.json")

    def test_recovering_twice_gives_the_same_bytes(self):
        texts = []
        for name in ("a.json", "b.json"):
            self.expect(0, f"--mage_recover={JOURNAL}", f"--benchmark_out={name}")
            texts.append((self.folder / name).read_bytes())
        self.assertEqual(texts[0], texts[1])

    def test_recovering_elsewhere(self):
        self.expect(0, f"--mage_recover={JOURNAL}", "--benchmark_out=elsewhere/other.json")
        self.assertEqual(self.files(), ["elsewhere/other.json", JOURNAL])
        self.load("elsewhere/other.json")

    def test_a_journal_cut_anywhere_is_recovered_or_refused(self):
        first = self.left.index(b"\n")
        ends = [i for i, byte in enumerate(self.left) if byte == ord("\n")]
        draw = random.Random(20)
        cuts = {
            0,
            1,
            first - 1,
            first,
            first + 1,
            first + 2,
            ends[-1],
            ends[-1] + 1,
            len(self.left) - 1,
            len(self.left),
        }
        cuts |= {draw.randrange(first) for _ in range(4)} | {draw.randrange(first, len(self.left)) for _ in range(30)}
        for cut in sorted(cuts):
            with self.subTest(cut=cut):
                self.check_cut(self.left[:cut], readable=cut >= first)

    def check_cut(self, contents, readable):
        (self.folder / "cut.json.journal.jsonl").write_bytes(contents)
        done = self.bench("--mage_recover=cut.json.journal.jsonl")
        store = self.folder / "cut.json"
        if not readable:
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("cut.json.journal.jsonl", done.stderr)
            self.assertRegex(done.stderr, "not a (line of a )?mage_bench journal")
            self.assertFalse(store.exists())
            return
        rows = rows_of(contents)
        self.assertEqual(done.returncode, 0 if rows else 3, done.stderr)
        self.assertIn(f"recovered {len(rows)} rows", done.stdout)
        whole = all(line == b"" or line.endswith(b"}") for line in contents.split(b"\n")[-1:])
        if not whole:
            self.assertIn("1 lines are cut off or damaged", done.stderr)
        sequence = [row["mage"]["sequence"] for row in self.load("cut.json")["benchmarks"]]
        self.assertEqual(sequence, [row["mage"]["sequence"] for row in rows])
        os.unlink(store)


if __name__ == "__main__":
    unittest.main()
