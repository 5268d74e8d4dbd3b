# SPDX-License-Identifier: Apache-2.0
"""Google Benchmark's own compare.py reads our stores: one repetition a round, its U test on the rounds' medians."""

import importlib.util
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

from program_support import HOST_NAMES, MIXED, ProgramTest

COMPARE = Path("/usr/share/benchmark/compare.py")  # where Debian's package puts it
MISSING = [module for module in ("numpy", "scipy") if importlib.util.find_spec(module) is None]


@unittest.skipUnless(COMPARE.exists(), f"{COMPARE} is not installed")
@unittest.skipIf(MISSING, f"{sys.executable} has no {' and no '.join(MISSING)}, which compare.py imports")
class Compare(ProgramTest):
    def setUp(self):
        super().setUp()
        self.stores = [self.measure("--mage_rounds=10", store=name, select=MIXED) for name in ("a.json", "b.json")]

    def compare(self, *arguments):
        command = [sys.executable, "-B", str(COMPARE), "--no-color", *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def times(self, store, name):
        return [row["real_time"] for row in store["benchmarks"] if row["name"] == name]

    def test_each_benchmark_is_named_with_all_its_rounds(self):
        out = self.compare("benchmarks", "a.json", "b.json")
        for name in HOST_NAMES:
            lines = [line.split() for line in out.splitlines() if line.split() and line.split()[0] == name]
            self.assertEqual(len(lines), 10)
            for fields, old, new in zip(lines, *(self.times(store, name) for store in self.stores), strict=True):
                self.assertAlmostEqual(float(fields[3]), old, delta=0.51)  # it prints whole microseconds
                self.assertAlmostEqual(float(fields[4]), new, delta=0.51)
            self.assertRegex(out, rf"(?m)^{name}_pvalue +.*U Test, Repetitions: 10 vs 10")
        self.assertNotIn("v00_float4", out, "a row without a time would read as 0 us")

    def test_the_figures_are_the_rounds_medians(self):
        self.compare("-d", "diff.json", "benchmarks", "a.json", "b.json")
        diff = {entry["name"]: entry for entry in json.loads((self.folder / "diff.json").read_text())}
        for name in HOST_NAMES:
            entry = diff[name]
            self.assertEqual(entry["time_unit"], "us")
            for side, store in zip(("real_time", "real_time_other"), self.stores, strict=True):
                self.assertEqual([measured[side] for measured in entry["measurements"]], self.times(store, name))

    def test_two_variants_of_one_store_can_be_compared(self):
        old, new = (f"copy/{variant}/" for variant in ("reference", "cpu_v00_memcpy"))
        out = self.compare("filters", "a.json", re.escape(old), re.escape(new))
        self.assertIn(f"[{re.escape(old)} vs. {re.escape(new)}]", out)


if __name__ == "__main__":
    unittest.main()
