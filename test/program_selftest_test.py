# SPDX-License-Identifier: Apache-2.0
"""The self-test as a program: names, exit codes, the store, recovery, interrupts. What it finds is not asserted where
a busy machine could change it."""

import signal
import subprocess
import unittest

from program_support import EXECUTABLE, HOST, ProgramTest, entries_of, environment, journal_of

JOURNAL = str(journal_of("store.json"))
NAMES = [
    "known_duration",
    "triangulation",
    "null_comparisons",
    "sensitivity",
    "order",
    "cache_policy",
    "detectors",
    "failures",
    "provenance",
    "statistics_coverage",
]
GPU_ONLY = "triangulation,detectors"


def proofs_of(journal_bytes):
    return [entry for entry in entries_of(journal_bytes) if entry["kind"] == "proof"]


class SelfTestUsage(ProgramTest):
    def tearDown(self):
        self.assertEqual(self.files(), [], "a self-test that did not run left files")

    def test_an_unknown_proof_is_a_usage_error_that_lists_what_exists(self):
        for given, says in {
            "nothing": "'nothing' is no proof",
            "order,nothing": "'nothing' is no proof",
            "s": "'s' is the beginning of several proofs",
        }.items():
            with self.subTest(given=given):
                done = self.expect(2, f"--mage_selftest={given}", says=says)
                for name in NAMES:
                    self.assertIn(f"\n  {name}: ", done.stderr)
                self.assertEqual(done.stdout, "")

    def test_bad_values_are_usage_errors(self):
        for flags, says in {
            ("--mage_selftest=order,,null",): "names an empty proof",
            ("--mage_selftest=",): "has no value",
            ("--mage_selftest", "--mage_selftest_repeats=0"): "--mage_selftest_repeats",
            ("--mage_selftest_repeats=2",): "requires --mage_selftest",
            ("--mage_selftest", "--mage_rounds=3"): "excludes",
            ("--mage_selftest", "--mage_list"): "excludes",
            ("--mage_selftest", "--mage_verify_only"): "excludes",
        }.items():
            with self.subTest(flags=flags):
                self.expect(2, *flags, says=says)

    def test_the_environment_and_a_required_gpu_are_checked_as_for_a_measurement(self):
        self.expect(2, "--mage_selftest", env=environment(CUDA_LAUNCH_BLOCKING="1"), says="CUDA_LAUNCH_BLOCKING=1")
        self.expect(1, "--mage_selftest", "--mage_require_gpu", says="--mage_require_gpu: no CUDA device")

    def test_help_names_it(self):
        done = self.expect(0, "--help")
        self.assertIn("--mage_selftest", done.stdout)
        self.assertIn("--mage_selftest_repeats", done.stdout)


class SelfTest(ProgramTest):
    def selftest(self, names, *flags, codes=(0, 1)):
        done = self.bench(f"--mage_selftest={names}", "--benchmark_out=store.json", *flags)
        self.assertIn(done.returncode, codes, done.stderr)
        return done, self.load("store.json")["mage"]

    def test_the_host_forms_run_and_are_stored(self):
        names = ["known_duration", "null_comparisons", "sensitivity", "order"]
        done, mage = self.selftest(",".join(names), "--mage_selftest_repeats=2")
        self.assertEqual([proof["name"] for proof in mage["selftest"]], names)
        outcomes = [proof["outcome"] for proof in mage["selftest"]]
        self.assertEqual(done.returncode, 1 if "failed" in outcomes else 0)
        self.assertLessEqual(set(outcomes), {"passed", "failed"})
        self.assertEqual(mage["options"]["selftest"], names)
        self.assertEqual(mage["options"]["selftest_repeats"], 2)
        self.assertIs(mage["complete"], True)
        self.assertIsNone(mage["device"])
        for proof in mage["selftest"]:
            self.assertEqual(proof["data"]["device"], "host")
            self.assertTrue(proof["reason"].startswith("measured on the host: no CUDA device"), proof["reason"])
            self.assertRegex(proof["reason"], r"; repeated 2 times instead of its own \d+: weaker")
            self.assertTrue(proof["claim"])
            self.assertIn(f"{proof['name']}: {proof['claim']}\n", done.stdout)
            self.assertIn(f"{proof['name']}: {proof['outcome']}: ", done.stdout)
            for check in proof["checks"]:
                self.assertEqual(list(check), ["what", "expected", "measured", "outcome"])
                self.assertIn(f"  {check['what']} ", done.stdout)
            any_failed = any(check["outcome"] == "failed" for check in proof["checks"])
            self.assertEqual(proof["outcome"] == "failed", any_failed)
        self.check_samples(dict(zip(names, (proof["data"] for proof in mage["selftest"]), strict=True)))
        self.assertRegex(done.stdout, r"4 proofs: \d passed, \d failed, 0 skipped, 0 unavailable\n")
        passed = outcomes.count("passed")
        if passed:
            self.assertIn(f"\n{passed} of those that passed ran on the host", done.stdout)
        self.assertIn("store: store.json (4 proofs)", done.stdout)
        self.assertEqual(self.files(), ["store.json"])

    def check_samples(self, data):
        for duration in data["known_duration"]["durations"]:
            self.assertEqual(len(duration["span_us"]), 30)
            self.assertGreaterEqual(min(duration["stamped_us"]), duration["asked_us"])
        comparisons = data["null_comparisons"]["comparisons"]
        self.assertEqual(len(comparisons), 8)
        for comparison in comparisons:
            self.assertNotEqual(comparison["baseline"], comparison["candidate"])
            self.assertEqual(comparison["mode"], "host")
            low, high = comparison["interval"]
            self.assertLessEqual(low, comparison["ratio"])
            self.assertGreaterEqual(high, comparison["ratio"])
        self.assertEqual({cell["trials"] for cell in data["sensitivity"]["cells"]}, {2})
        self.assertEqual(len(data["sensitivity"]["cells"]), 5)
        self.assertEqual([entry["order"] for entry in data["order"]["orders"]][:3], ["balanced", "reversed", "random"])

    def test_proofs_that_need_a_gpu_say_so(self):
        done, mage = self.selftest(GPU_ONLY, codes=(3,))
        for proof in mage["selftest"]:
            self.assertEqual(proof["outcome"], "unavailable")
            self.assertTrue(proof["reason"].startswith("no CUDA device"), proof["reason"])
            self.assertEqual(proof["checks"], [])
        self.assertIn("2 proofs: 0 passed, 0 failed, 0 skipped, 2 unavailable\n", done.stdout)

    def test_a_temporary_folder_that_is_none_is_named(self):
        done = self.bench(
            "--mage_selftest=failures", "--benchmark_out=store.json", env=environment(TMPDIR="/no/such/folder")
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot create a folder /no/such/folder/", done.stdout)
        self.assertIn("set TMPDIR", done.stdout)

    def test_a_filter_that_selects_nothing_is_refused(self):
        self.expect(2, "--mage_selftest=null", "--benchmark_filter=nomatch", says="selects no benchmark")
        self.expect(2, "--mage_selftest=order", "--benchmark_filter=gelu", says="is for the proof null_comparisons")

    def test_a_filter_that_selects_nothing_to_clone_is_mentioned(self):
        done = self.bench(
            "--mage_selftest=null", "--mage_selftest_repeats=2", "--benchmark_filter=cpu_", "--benchmark_out=s.json"
        )
        self.assertRegex(done.stdout, r"what --benchmark_filter selects +\| .* \| no GPU variant that runs here")

    def test_a_store_is_overwritten_on_demand_only(self):
        (self.folder / "store.json").write_text("precious")
        self.expect(
            1, "--mage_selftest=triangulation", "--benchmark_out=store.json", says="exists; use --mage_overwrite"
        )
        self.assertEqual((self.folder / "store.json").read_text(), "precious")
        self.selftest("triangulation", "--mage_overwrite", codes=(3,))

    def test_the_default_place_is_that_of_a_measurement(self):
        self.expect_code(3, "--mage_selftest=triangulation")
        (name,) = self.files()
        self.assertRegex(name, r"^results/\d{8}T\d{6}Z-[0-9a-f]{8}\.json$")

    def expect_code(self, code, *flags):
        done = self.bench(*flags)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_a_measurement_has_no_such_part(self):
        self.assertNotIn("selftest", self.measure(select=HOST)["mage"])


class SelfTestEnds(ProgramTest):
    """A self-test that goes on for long, met in its second proof."""

    def start_selftest(self):
        process = subprocess.Popen(
            [
                EXECUTABLE,
                "--mage_selftest=triangulation,null,sensitivity",
                "--mage_selftest_repeats=2000",
                "--benchmark_out=store.json",
            ],
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end, process)
        self.wait_for(process, lambda: proofs_of(self.journal()), "a proof in the journal")
        return process

    def test_sigint_stores_what_was_done(self):
        process = self.start_selftest()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("interrupted: the store holds the proofs that were run", err)
        self.assertIn("1 not run", out)
        mage = self.load("store.json")["mage"]
        self.assertIs(mage["complete"], False)
        self.assertIs(mage["end"]["interrupted"], True)
        self.assertEqual(
            [(proof["name"], proof["outcome"]) for proof in mage["selftest"]],
            [("triangulation", "unavailable"), ("null_comparisons", "skipped")],
        )
        self.assertIn("interrupted", mage["selftest"][1]["reason"])
        self.assertEqual(self.files(), ["store.json"])

    def test_a_killed_one_is_recovered(self):
        process = self.start_selftest()
        process.kill()
        process.communicate()
        self.assertEqual(self.files(), [JOURNAL])
        done = self.expect(0, f"--mage_recover={JOURNAL}")
        self.assertIn("recovered 0 rows of 0 benchmarks and 1 proofs; store: store.json", done.stdout)
        mage = self.load("store.json")["mage"]
        self.assertIs(mage["complete"], False)
        (proof,) = mage["selftest"]
        (written,) = proofs_of(self.journal())
        self.assertEqual({"kind": "proof", **proof}, written)


if __name__ == "__main__":
    unittest.main()
