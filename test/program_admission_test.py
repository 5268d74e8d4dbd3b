# SPDX-License-Identifier: Apache-2.0
"""Trials before a variant is measured: when they take place, what is remembered of them, and their own process."""

import json
import subprocess
import time
import unittest
from pathlib import Path

from program_support import EXECUTABLE, HOST, ProgramTest, environment

VARIANTS = ["copy/cpu_v00_memcpy", "copy/reference"]


class Admission(ProgramTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "admitted.jsonl"

    def admissions(self, *flags, store):
        done = self.measure(f"--mage_admission_cache={self.cache}", *flags, store=store)
        return {entry["variant"]: entry for entry in done["mage"]["admissions"]}

    def test_what_was_admitted_is_remembered_by_its_machine_code(self):
        first = self.admissions(store="first.json")
        self.assertEqual(sorted(first), VARIANTS)
        for entry in first.values():
            self.assertEqual((entry["status"], entry["reason"], entry["remembered"]), ("ok", None, False))
            for count in ("wall_s", "problems", "calls", "seed"):
                self.assertGreater(entry[count], 0, count)
            self.assertRegex(entry["code_sha256"], "^[0-9a-f]{64}$")
        lines = [json.loads(line) for line in self.cache.read_text().splitlines()]
        self.assertEqual(sorted(line["variant"] for line in lines), VARIANTS)
        again = self.admissions(store="again.json")
        for entry in again.values():
            self.assertTrue(entry["remembered"])
            self.assertEqual([entry[unknown] for unknown in ("problems", "calls", "seed")], [None, None, None])
        self.assertEqual(len(self.cache.read_text().splitlines()), 2, "it is written down once")

    def test_a_damaged_memory_remembers_what_is_whole(self):
        self.admissions(store="first.json")
        whole, cut = self.cache.read_text().splitlines()
        remembered = json.loads(whole)["variant"]
        self.cache.write_text(f"\x00\xff[1]\nnull\n{{}}\n{whole}\n{cut[: len(cut) // 2]}")
        again = self.admissions(store="again.json")
        self.assertEqual([name for name, entry in again.items() if entry["remembered"]], [remembered])

    def test_other_machine_code_is_tried_again(self):
        self.admissions(store="first.json")
        self.cache.write_text(self.cache.read_text().replace('"key":"', '"key":"0'))
        self.assertFalse(any(entry["remembered"] for entry in self.admissions(store="again.json").values()))

    def test_without_a_memory_every_run_tries(self):
        for store in ("first.json", "again.json"):
            done = self.measure("--mage_admission_cache=none", store=store)
            self.assertFalse(any(entry["remembered"] for entry in done["mage"]["admissions"]))

    def test_a_memory_that_cannot_be_written_costs_no_measurement(self):
        self.cache = self.folder / "first.json" / "below_a_file"
        (self.folder / "first.json").write_text("{}")
        flags = [f"--benchmark_filter={HOST}", "--mage_rounds=1", "--mage_samples=1", "--benchmark_out=store.json"]
        done = self.expect(0, *flags, f"--mage_admission_cache={self.cache}")
        self.assertIn("admissions cannot be remembered: ", done.stderr)
        self.assertIn("name another file with --mage_admission_cache", done.stderr)
        self.load("store.json")

    def test_the_memory_is_a_users_and_no_checkouts(self):
        env = environment(XDG_CACHE_HOME=str(self.folder / "cache"))
        self.measure(env=env)
        self.assertIn("cache/mage_bench/admitted.jsonl", self.files())

    def test_a_trial_prints_what_it_tries_and_its_verdict(self):
        done = self.expect(0, f"--mage_try={','.join(VARIANTS)}")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        verdicts = [line for line in lines if "status" in line]
        self.assertEqual([line["variant"] for line in verdicts], VARIANTS)
        for line in verdicts:
            self.assertEqual((line["status"], line["reason"], line["code"]), ("ok", "", None))
            self.assertGreater(line["problems"], 1)
            self.assertGreater(line["calls"], 100)
        self.assertTrue(any("two at the same time" in line.get("at", "") for line in lines))

    def test_a_run_that_is_killed_takes_its_trials_along(self):
        flags = ["--benchmark_filter=^layernorm_backward/.*/host$", "--mage_admission_cache=none"]
        command = [EXECUTABLE, *flags]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        run = subprocess.Popen(command, cwd=self.folder, env=environment(), **silent)
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        if not children.exists():
            run.kill()
            self.skipTest("this kernel does not say whose child a process is")

        def live(pid):
            try:
                return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
            except OSError:
                return False

        self.wait_until(lambda: children.read_text(), "no trial began")
        trials = children.read_text().split()
        run.kill()
        run.wait()
        self.wait_until(lambda: not any(map(live, trials)), "a trial outlived its run")

    def wait_until(self, holds, otherwise):
        deadline = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), deadline, otherwise)
            time.sleep(0.01)

    def test_a_trial_of_what_is_not_there_is_a_usage_error(self):
        for name in ("copy", "copy/none", "none/reference", "copy/reference/64x1024", ""):
            with self.subTest(name=name):
                done = self.bench(f"--mage_try={name}")
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn("--mage_try", done.stderr)


if __name__ == "__main__":
    unittest.main()
