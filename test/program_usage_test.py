# SPDX-License-Identifier: Apache-2.0
"""Exit codes, flags, environment and the actions that measure nothing."""

import json
import os
import re
import subprocess
import unittest

from program_support import CUDA, EXECUTABLE, HOST, HOST_NAMES, MIXED, QUICK, SOURCE, ProgramTest, environment


class Usage(ProgramTest):
    def tearDown(self):
        self.assertEqual(self.files(), [], "a run that measured nothing left files")

    def test_help_names_the_flags_and_the_exit_codes(self):
        for flag in ("--help", "-h"):
            done = self.expect(0, flag)
            self.assertEqual(done.stderr, "")
            for text in ("family/variant/problem/mode", "--benchmark_filter", "--mage_recover", "130 interrupted"):
                self.assertIn(text, done.stdout)

    def test_help_does_not_offer_what_is_refused(self):
        self.assertNotIn("benchmark_repetitions", self.bench("--help").stdout)

    def test_unknown_flags_and_bad_values_are_usage_errors(self):
        for flag, says in {
            "--mage_no_such_flag": "--mage_no_such_flag",
            "--benchmark_no_such_flag=1": "--benchmark_no_such_flag",
            "stray": "stray",
            "--benchmark_filter=(": "is no regular expression",
            "--mage_rounds=0": "not in range",
            "--mage_rounds=many": "--mage_rounds",
            "--mage_samples=0": "not in range",
            "--mage_round_budget=0": "not in range",
            "--mage_round_budget=nan": "--mage_round_budget",
            "--mage_seed=one": "--mage_seed",
            "--mage_seed=-1": "--mage_seed",
            "--mage_seed=18446744073709551616": "--mage_seed",
            "--mage_device=-1": "--mage_device",
            "--mage_modes=event,warm": "'warm' is no timing mode; choose from event, event_cold",
            "--mage_list=xml": "'xml' is no list format; choose json or text",
            "--mage_max_bytes=much": "--mage_max_bytes",
            "--mage_max_bytes=0": "0 bytes leave nothing to measure",
            "--mage_max_bytes=-5": "--mage_max_bytes",
            "--mage_max_bytes=18446744073709551616": "--mage_max_bytes",
            "--mage_max_bytes=99999999999EiB": "--mage_max_bytes",
            "--benchmark_context=lonely": "'lonely' is not of the form key=value",
            "--benchmark_context=a=1,a=2": "'a' is given twice",
            "--benchmark_context=date=5": "key 'date' is the run's own; choose another",
            "--benchmark_color=purple": "--benchmark_color",
        }.items():
            with self.subTest(flag=flag):
                select = [] if "_filter" in flag else [f"--benchmark_filter={HOST}"]
                done = self.expect(2, *select, flag)
                self.assertIn(says, done.stderr)
                self.assertIn("Run mage_bench --help", done.stderr)
                self.assertEqual(done.stdout, "")

    def test_bad_problems_are_usage_errors(self):
        for problem, says in {
            "copy": "--mage_problem=copy: not of the form family/problem, as in gelu/1000x3001",
            "nothing/64x64": "there is no family 'nothing'; there are ceiling, copy, gelu",
            "copy/64": "copy/64 is no problem: it does not begin with ROWSxCOLS",
            "copy/0x4": "copy/0x4 is no problem: it does not begin with ROWSxCOLS, both from 1 on",
            "copy/99999999999x99999999999": "fewer than 2^50 elements in all. Right are copy/64x1024 and copy/",
            "gelu/658812288346769702x1": "fewer than 2^50 elements in all",
            "gelu/064x3": "gelu/064x3 is no problem: the number 064 begins with a zero",
            "gelu/" + "9" * 100_000: f"gelu/{'9' * 80}... is no problem: ",
            "n" * 100_000: f"--mage_problem={'n' * 80}...: not of the form family/problem",
            "n" * 100_000 + "/64x64": f"--mage_problem={'n' * 80}...: there is no family '{'n' * 80}...'; there are",
            "gelu/5x32-o64": "-o is not followed by an offset from 0 to 63 elements. Right are gelu/64x1024 and gelu/",
        }.items():
            with self.subTest(problem=problem):
                done = self.expect(2, f"--mage_problem={problem}", f"--benchmark_filter={HOST}", says=says)
                self.assertLess(len(done.stderr), 1000)

    def test_flags_that_break_the_protocol_are_refused_with_the_reason(self):
        for flag, reason in {
            "benchmark_repetitions": "use --mage_rounds",
            "benchmark_min_time": "use --mage_samples and --mage_round_budget",
            "benchmark_min_warmup_time": "settles the clock",
            "benchmark_enable_random_interleaving": "unseeded and unrecorded",
            "benchmark_report_aggregates_only": "every sample is kept",
            "benchmark_display_aggregates_only": "one row a fixture already",
            "benchmark_format": "the store is JSON",
            "benchmark_out_format": "would lose the samples",
            "benchmark_counters_tabular": "columns are fixed",
            "benchmark_perf_counters": "would change it",
            "benchmark_time_unit": "microseconds",
        }.items():
            for given in ([f"--{flag}"], [f"--{flag}=1"], []):
                with self.subTest(flag=flag, given=given):
                    env = environment() if given else environment(**{flag.upper(): "1"})
                    done = self.expect(2, *given, f"--benchmark_filter={HOST}", env=env, says=f"--{flag}: refused: ")
                    self.assertIn(reason, done.stderr)

    def test_blocking_launches_are_refused(self):
        env = environment(CUDA_LAUNCH_BLOCKING="1")
        self.expect(2, f"--benchmark_filter={HOST}", env=env, says="CUDA_LAUNCH_BLOCKING=1 makes every launch wait")
        self.expect(0, "--mage_list", env=env)

    def test_a_filter_that_matches_nothing_says_what_exists(self):
        for action in ([], ["--mage_list"], ["--mage_list=json"], ["--mage_dry_run"], ["--mage_verify_only"]):
            with self.subTest(action=action):
                done = self.expect(3, "--benchmark_filter=no_such_kernel", *action)
                self.assertIn("no benchmark matches --benchmark_filter=no_such_kernel", done.stderr)
                self.assertRegex(done.stderr, r"\n  copy/\{[^}]*reference[^}]*\}/\{[^}]*64x1024[^}]*\}\n")
                self.assertRegex(done.stderr, r"\n  gelu/")
                self.assertEqual(done.stdout, "")

    def test_a_filter_that_matches_unavailable_rows_only_says_why(self):
        done = self.expect(3, f"--benchmark_filter={CUDA}", says="nothing that was selected can be measured here")
        self.assertRegex(done.stdout, r"unavailable: no CUDA device.* \(1 rows of copy/v00_float4\)")
        self.expect(3, "--benchmark_filter=copy/reference", "--mage_modes=event")  # no such row: a host variant

    def test_a_required_gpu_that_is_not_there_is_a_failure(self):
        done = self.expect(1, f"--benchmark_filter={MIXED}", *QUICK, "--mage_require_gpu")
        self.assertIn("--mage_require_gpu: no CUDA device", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_too_many_bytes_are_unavailable(self):
        done = self.expect(3, f"--benchmark_filter={HOST}", "--mage_max_bytes=64KiB")
        self.assertRegex(done.stdout, r"unavailable: needs \d+ bytes .*65536 are allowed .*\(2 rows of ")


class Actions(ProgramTest):
    def tearDown(self):
        self.assertEqual(self.files(), [], "an action that measures nothing left files")

    def listed(self, *flags, **options):
        return self.expect(0, "--mage_list=json", *flags, **options).stdout

    def test_all_lists_have_the_same_names(self):
        names = [entry["name"] for entry in json.loads(self.listed())]
        self.assertEqual(len(names), len(set(names)))
        self.assertLess({"copy/reference/64x1024/host", "gelu/v00_naive/4096x4096/event_cold"}, set(names))
        for flag in ("--benchmark_list_tests", "--benchmark_list_tests=true"):
            self.assertEqual(self.expect(0, flag).stdout.splitlines(), names, flag)
        for flag in ("--mage_list", "--mage_list=text"):
            self.assertEqual([line.split("  ")[0] for line in self.expect(0, flag).stdout.splitlines()], names, flag)
        self.assertEqual(self.listed("--no_benchmark_list_tests"), self.listed())

    def test_the_list_is_the_same_whether_a_gpu_is_there_or_not(self):
        visible = {key: value for key, value in environment().items() if key != "CUDA_VISIBLE_DEVICES"}
        self.assertEqual(self.listed(env=visible), self.listed())

    def test_a_json_list_describes_each_row(self):
        entries = json.loads(self.listed())
        variants = {(entry["family"], entry["variant"]) for entry in entries}
        for entry in entries:
            name = "/".join(entry[part] for part in ("family", "variant", "problem", "mode"))
            self.assertEqual(entry["name"], name)
            self.assertTrue((SOURCE / entry["source"]).is_file(), entry["source"])
            self.assertGreater(entry["bytes_written"], 0)
            self.assertTrue(entry["tolerance"])
            if entry["skipped"] is not None:
                self.assertIn(entry["skipped"], ("cuda_toolkit_missing", "package_missing"))
                self.assertNotIn("parent", entry)
                continue
            self.assertIsInstance(entry["accepts"], bool)
            self.assertIsInstance(entry["deterministic"], bool)
            self.assertTrue(entry["note"])
            if entry["parent"]:
                self.assertIn((entry["family"], entry["parent"]), variants)
        copied = next(entry for entry in entries if entry["name"] == "copy/reference/64x1024/host")
        self.assertEqual(copied["bytes_read"], 4 * 64 * 1024)
        self.assertEqual(copied["source"], "src/reference/copy.cpp")

    def test_a_text_list_marks_counter_examples_and_what_is_not_deterministic(self):
        lines = []
        for entry in json.loads(self.listed()):
            marks = "  (counter-example)" if "counter_example" in entry else ""
            marks += "" if entry.get("deterministic", True) else "  (not deterministic)"
            lines.append(entry["name"] + marks)
        self.assertEqual(self.expect(0, "--mage_list").stdout.splitlines(), lines)

    def names(self, *flags, **options):
        return self.expect(0, "--benchmark_list_tests", *flags, **options).stdout.splitlines()

    def test_filters_select(self):
        everything = self.names()
        for pattern in (HOST, "gelu", "/event$", "64x1024"):
            chosen = [name for name in everything if re.search(pattern, name)]
            self.assertTrue(chosen)
            self.assertEqual(self.names(f"--benchmark_filter={pattern}"), chosen)
            others = [name for name in everything if name not in chosen]
            self.assertEqual(self.names(f"--benchmark_filter=-{pattern}"), others)
        for pattern in ("all", ""):
            self.assertEqual(self.names(env=environment(BENCHMARK_FILTER=pattern)), everything)
        modes = self.names("--mage_modes=event,kernel")
        self.assertEqual(modes, [name for name in everything if name.endswith(("/event", "/kernel"))])

    def test_the_environment_filters_and_a_flag_overrides_it(self):
        env = environment(BENCHMARK_FILTER=HOST)
        self.assertEqual(self.names(env=env), HOST_NAMES)
        self.assertEqual(self.names("--benchmark_filter=copy/reference/64x1024", env=env), HOST_NAMES[1:])

    def test_a_dry_run_prints_the_plan(self):
        done = self.expect(0, "--mage_dry_run", f"--benchmark_filter={MIXED}", *QUICK, "--mage_seed=7")
        self.assertRegex(done.stdout, r"^\d+ fixtures, 2 of them runnable here, 4 rounds in all; seed 7\n")
        for name in HOST_NAMES:
            self.assertIn(f"  {name}  rounds 2\n", done.stdout)
        self.assertIn(f"  {CUDA}  unavailable: no CUDA device", done.stdout)
        orders = re.findall(r"^    round (\d+) host: (.*)$", done.stdout, re.M)
        self.assertEqual([number for number, _ in orders], ["0", "1"])
        # Two fixtures in a Williams design: each is first once.
        self.assertEqual(sorted(order for _, order in orders), ["cpu_v00_memcpy reference", "reference cpu_v00_memcpy"])

    def test_two_actions_at_once_are_a_usage_error(self):
        for flags in (
            ("--mage_list", "--mage_dry_run"),
            ("--mage_list", "--mage_recover=x.journal.jsonl"),
            ("--mage_list", "--mage_verify_only"),
            ("--benchmark_list_tests", "--mage_verify_only"),
            ("--mage_dry_run", "--mage_verify_only"),
        ):
            with self.subTest(flags=flags):
                done = self.expect(2, *flags, says="excludes")
                self.assertEqual(done.stdout, "")

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_standard_output_that_is_full_is_an_error(self):
        for flag in ("--mage_list", "--mage_list=json", "--benchmark_list_tests", "--mage_dry_run", "--help"):
            with self.subTest(flag=flag), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [EXECUTABLE, flag, f"--benchmark_filter={HOST}"],
                    cwd=self.folder,
                    env=environment(),
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr, "mage_bench: cannot write to stdout: No space left on device\n")

    def test_an_unbalanced_order_is_called_so(self):
        for rounds, balanced in ((2, True), (3, False), (4, True)):
            done = self.expect(0, "--mage_dry_run", f"--benchmark_filter={HOST}", f"--mage_rounds={rounds}")
            self.assertEqual("order NOT balanced" not in done.stdout, balanced, rounds)

    def test_verifying_measures_nothing(self):
        done = self.expect(0, "--mage_verify_only", f"--benchmark_filter={MIXED}")
        for name in HOST_NAMES:
            self.assertRegex(done.stdout, rf"(?m)^ok    {name}  worst error / bound 0\.000$")
        self.assertIn("unavailable: no CUDA device", done.stdout)
        self.assertIn("2 passed both gates, 0 wrong or failed\n", done.stdout)
        self.assertNotIn("median us", done.stdout)

    def test_verifying_unavailable_rows_only_is_no_success(self):
        done = self.expect_quiet(3, "--mage_verify_only", f"--benchmark_filter={CUDA}")
        self.assertIn("0 passed both gates", done.stdout)

    def expect_quiet(self, code, *flags):
        done = self.bench(*flags)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_colour_only_where_it_is_asked_for(self):
        plain = self.expect(0, "--mage_verify_only", f"--benchmark_filter={MIXED}")
        self.assertNotIn("\033", plain.stdout)
        for value, coloured in (("true", True), ("yes", True), ("false", False), ("auto", False)):
            done = self.expect(0, "--mage_verify_only", f"--benchmark_filter={MIXED}", f"--benchmark_color={value}")
            self.assertEqual("\033[33m" in done.stdout, coloured, value)

    def test_the_program_runs_under_any_name_and_path(self):
        (self.folder / "renamed").symlink_to(EXECUTABLE)
        self.expect(0, "--mage_list", executable="./renamed")
        (self.folder / "renamed").unlink()


if __name__ == "__main__":
    unittest.main()
