# SPDX-License-Identifier: Apache-2.0
"""tools/peer_timers.py without a GPU: its rule for telling a slowdown, and the tables of a saved file."""

import importlib.util
import itertools
import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "tools" / "peer_timers.py"
sys.path.insert(0, str(TOOL.parent))
spec = importlib.util.spec_from_file_location("peer_timers", TOOL)
peer_timers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer_timers)

try:
    import scipy.stats  # noqa: F401

    HAVE_SCIPY = True
except ImportError:
    HAVE_SCIPY = False

RESULT = {
    "variant": "v",
    "versions": {},
    "unavailable": {"nvbench": "ModuleNotFoundError: none"},
    "figures": {"8x8": {"do_bench": {"us": 3.25}, "nvbench": {"summaries": {"nv/cold/time/gpu/mean": 4.5}}}},
    "telling": {"8x8": {"do_bench": [{"told": True, "calls": 3, "seconds": 0.5, "ratio": 1.01}]}},
}


def store_of(rounds):
    rows = [
        {"name": name, "real_time": us, "mage": {"round": k, "host_us_begin": 0, "host_us_end": 1e6}}
        for name, medians in rounds.items()
        for k, us in enumerate(medians)
    ]
    return {"benchmarks": rows, "mage": {"end": {"inside_samples_s": 1.0, "wall_s": 2.0}}}


@unittest.skipUnless(HAVE_SCIPY, "needs scipy")
class Telling(unittest.TestCase):
    def timer(self, noise):
        wobble = itertools.cycle(noise)
        return lambda operation: operation * math.exp(next(wobble))

    def test_a_difference_beyond_the_noise_is_told(self):
        seen = peer_timers.seconds_to_tell(self.timer([0, 1e-4, -1e-4, 2e-4, 1e-4]), 100.0, 101.0)
        self.assertTrue(seen["told"])
        self.assertAlmostEqual(seen["ratio"], 1.01, delta=1e-3)
        self.assertLess(seen["calls"], 5)

    def test_none_is_not_and_calls_are_limited(self):
        seen = peer_timers.seconds_to_tell(self.timer([0.05, -0.05, -0.05, 0.05]), 100.0, 100.0)
        self.assertFalse(seen["told"])
        self.assertEqual(seen["calls"], peer_timers.MOST_CALLS)

    def test_faster_is_not_told_as_slower(self):
        self.assertFalse(peer_timers.seconds_to_tell(self.timer([0, 1e-4, -1e-4]), 101.0, 100.0)["told"])

    def test_rounds_of_a_store(self):
        store = store_of({"a": [10, 10.01, 9.99, 10], "b": [10.1, 10.11, 10.09, 10.1], "c": [9, 11, 10, 10.5]})
        told = peer_timers.mage_seconds_to_tell(store, "a", "b")
        self.assertTrue(told["told"])
        self.assertEqual((told["calls"], told["seconds"]), (3, 12))
        self.assertFalse(peer_timers.mage_seconds_to_tell(store, "a", "c")["told"])


class Printing(unittest.TestCase):
    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True)

    def test_a_file_is_printed_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "peers.json"
            path.write_text(json.dumps(RESULT))
            seen = self.run_tool("--print", path)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        self.assertIn("| do_bench | 3.25 |", seen.stdout)
        self.assertIn("| nvbench cold mean | 4.50 |", seen.stdout)
        self.assertIn("| do_bench | 8x8 | 1 of 1 | 0.50 | 3 | 1.0100 |", seen.stdout)
        self.assertIn("nvbench: ModuleNotFoundError", seen.stdout)

    def test_an_out_that_cannot_be_made_is_refused_before_all_else(self):
        for out, says in (("/no/such/x.json", "made in /no/such: No such file"), ("/dev/full", "/dev/full exists")):
            seen = subprocess.run([sys.executable, TOOL, f"--out={out}"], capture_output=True, text=True)
            self.assertEqual(seen.returncode, 2, seen.stderr)
            self.assertIn(says, seen.stderr)

    def test_what_is_no_such_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "peers.json"
            for text in ("", "[]", '{"figures": {}}', "NaN"):
                path.write_text(text)
                seen = self.run_tool("--print", path)
                self.assertEqual(seen.returncode, 2, text)
                self.assertIn("not a file that this script wrote", seen.stderr)
            self.assertEqual(self.run_tool("--out", path).returncode, 2)
        self.assertEqual(self.run_tool().returncode, 2)


if __name__ == "__main__":
    unittest.main()
