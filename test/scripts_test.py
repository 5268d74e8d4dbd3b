# SPDX-License-Identifier: Apache-2.0
"""tools/test.sh and its like refuse what they do not know. The preset is no preset, so that nothing is ever built."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent / "tools"
MODES = "until-fail|until-pass|after-timeout"
WRONG_REPEATS = ("3", "until-fail", "until-fail:", "until-fail:0", "until_fail:3", "after-timeout:3:3")
NO_PRESET = "mage_bench: MAGE_PRESET=none is no preset."


def run(script, *arguments, preset="none"):
    environment = {**os.environ, "MAGE_PRESET": preset}
    return subprocess.run(
        ["bash", TOOLS / script, *arguments], env=environment, capture_output=True, text=True, timeout=60
    )


class Scripts(unittest.TestCase):
    def test_tests_refuse_what_ctest_would_take_for_nothing(self):
        for arguments, says in (
            (["gpu"], "unknown argument 'gpu'"),
            (["-L", "gpu", "word"], "unknown argument 'word'"),
            (["--no_such_flag"], "unknown argument '--no_such_flag'"),
            (["--mage_requiregpu"], "unknown argument '--mage_requiregpu'"),
            ([""], "unknown argument ''"),
            (["-L"], "-L has no value"),
            (["-R", "--mage_require_gpu"], "-R has no value"),
            (["-j", "0"], "-j '0' is no whole number from 1 to 999999999"),
            (["-j", "two"], "-j 'two' is no whole number from 1 to 999999999"),
            (["--timeout", "1.5"], "--timeout '1.5' is no whole number from 1 to 999999999"),
            (["--timeout", "9999999999"], "--timeout '9999999999' is no whole number from 1 to 999999999"),
            *(
                (["--repeat", value], f"--repeat '{value}' is not MODE:N, MODE one of {MODES}")
                for value in WRONG_REPEATS
            ),
            (["-L", "gpu", "-R", "a", "-L", "cpu"], "-L was given twice"),
            (["-V", "-V"], "-V was given twice"),
            (["--mage_require_gpu", "--mage_require_gpu"], "--mage_require_gpu was given twice"),
        ):
            done = run("test.sh", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(f"mage_bench: {says}.\nUsage: tools/test.sh", done.stderr)

    @unittest.skipUnless(shutil.which("ctest"), "needs ctest")
    def test_tests_refuse_what_is_no_regular_expression(self):
        for flag in ("-R", "-E", "-L", "-LE"):
            for regex in ("[", "(", ")", "*", "a**", "a\\"):
                done = run("test.sh", flag, regex)
                self.assertEqual((done.returncode, done.stdout), (2, ""), regex)
                self.assertIn(f"mage_bench: {flag} '{regex}' is no regular expression of ctest's.\nUsage:", done.stderr)

    def test_a_preset_without_tests_is_refused(self):
        done = run("test.sh", "-N", preset="fuzz")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("MAGE_PRESET=fuzz has no tests. Run tools/fuzz.sh", done.stderr)

    def test_tests_pass_on_what_they_know(self):
        for arguments in (
            [],
            ["-L", "gpu", "--mage_require_gpu"],
            ["-R", "^Gate", "-E", "slow", "-LE", "gpu", "-j", "2", "-V", "-N"],
            ["-R", "a|^b.*(c)[de]+$", "-L", "gpu", "--repeat", "after-timeout:12"],
            ["--repeat", "until-fail:3", "--timeout", "9", "--rerun-failed", "--output-on-failure"],
        ):
            done = run("test.sh", *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertTrue(done.stderr.startswith(NO_PRESET), done.stderr)

    def test_help(self):
        done = run("test.sh", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--mage_require_gpu", done.stdout)

    def test_what_is_to_be_sourced_is_not_run(self):
        done = run("build.sh", "all")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("tools/test.sh or tools/bench.sh", done.stderr)


if __name__ == "__main__":
    unittest.main()
