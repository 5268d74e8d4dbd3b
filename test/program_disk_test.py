# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up: the program says so, leaves no broken store, and what was measured can be recovered."""

import os
import shutil
import subprocess
import unittest

from program_support import HOST, LONG, QUICK, ProgramTest, entries_of, merged, recovery_command, rows_of

PAGE = os.sysconf("SC_PAGE_SIZE")
FULL = "No space left on device"


class FullDisk(ProgramTest):
    def mount(self, size):
        """A file system of `size` bytes under disk/."""
        disk = self.folder / "disk"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            self.skipTest("there is no mount here")
        if done.returncode != 0:
            self.skipTest(f"mounting a small disk needs root: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", str(disk)], check=True)
        return disk

    def run_full(self, *flags):
        flags = merged([f"--benchmark_filter={HOST}", "--benchmark_out=disk/store.json", *QUICK], flags)
        done = self.expect(1, *flags)
        self.assertIn(FULL, done.stderr)
        return done

    def recover_as_told(self, done):
        """Does what the message says; the rows that come of it."""
        command = recovery_command(done.stderr)
        self.assertEqual(command, "--mage_recover=disk/store.json.journal.jsonl")
        self.expect(0, command, "--benchmark_out=elsewhere.json")
        return self.load("elsewhere.json")

    def test_the_journal_fills_up_in_mid_run(self):
        disk = self.mount(32 * PAGE)
        done = self.run_full(*LONG)
        self.assertIn("cannot write the journal disk/store.json.journal.jsonl", done.stderr)
        self.assertEqual(os.listdir(disk), ["store.json.journal.jsonl"])
        rows = rows_of(self.journal("disk/store.json"))
        self.assertGreater(len(rows), 1)
        self.assertIn(f"\n{len(rows)} rows stand in disk/store.json.journal.jsonl", done.stderr)
        store = self.recover_as_told(done)
        self.assertEqual(len(store["benchmarks"]), len(rows))
        self.assertIs(store["mage"]["complete"], False)
        self.assertIsNone(store["mage"]["end"])

    def test_the_journal_fits_and_the_store_does_not(self):
        flags = ("--mage_rounds=40", "--mage_samples=100", "--mage_round_budget=1")
        self.measure(*flags, store="size.json")
        size = (self.folder / "size.json").stat().st_size
        disk = self.mount(3 * size // 2)
        done = self.run_full(*flags)
        self.assertIn("cannot write the store disk/store.json", done.stderr)
        self.assertEqual(os.listdir(disk), ["store.json.journal.jsonl"])
        self.assertEqual(entries_of(self.journal("disk/store.json"))[-1]["kind"], "end")
        store = self.recover_as_told(done)
        self.assertEqual(len(store["benchmarks"]), 80)
        self.assertIs(store["mage"]["complete"], True)
        for row in store["benchmarks"]:
            self.assertNotIn("unverified_after", row["mage"]["flags"])

    def test_recovering_onto_the_full_disk_is_an_error(self):
        disk = self.mount(32 * PAGE)
        self.run_full(*LONG)
        done = self.expect(1, "--mage_recover=disk/store.json.journal.jsonl", says=FULL)
        self.assertIn("cannot write the store disk/store.json", done.stderr)
        self.assertEqual(os.listdir(disk), ["store.json.journal.jsonl"])

    def test_an_old_store_survives(self):
        disk = self.mount(32 * PAGE)
        self.measure(store="disk/store.json")
        old = (disk / "store.json").read_bytes()
        self.run_full(*LONG, "--mage_overwrite")
        self.assertEqual((disk / "store.json").read_bytes(), old)
        self.assertEqual(sorted(os.listdir(disk)), ["store.json", "store.json.journal.jsonl"])

    def test_a_disk_that_is_full_before_the_first_row(self):
        disk = self.mount(4 * PAGE)
        (disk / "filler").write_bytes(b"x" * shutil.disk_usage(disk).free)
        done = self.run_full()
        self.assertNotIn("recovered", done.stderr, "nothing was measured, so there is nothing to recover")
        self.assertEqual(os.listdir(disk), ["filler"], "an empty journal would only block the next run")


if __name__ == "__main__":
    unittest.main()
