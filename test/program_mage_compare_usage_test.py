# SPDX-License-Identifier: Apache-2.0
"""mage_compare as a program: exit codes, what it refuses, its formats, large stores, and upstream's compare.py."""

import csv
import importlib.util
import io
import json
import os
import pty
import re
import resource
import subprocess
import sys
import time
import unittest
from pathlib import Path

from compare_support import COMPARE, CompareTest, all_words, benchmark, store, write
from program_support import HOST_NAMES, SOURCE, load_strict

UPSTREAM = Path("/usr/share/benchmark/compare.py")
MISSING = [module for module in ("numpy", "scipy") if importlib.util.find_spec(module) is None]
ESCAPE = "\033["


class Usage(CompareTest):
    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_standard_output_that_is_full_is_an_error(self):
        for flags in (["--help"], ["--version"], ["run.json", "--no_fail"], ["run.json", "--format=json"]):
            with self.subTest(flags), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [COMPARE, *flags], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True
                )
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stderr, "mage_compare: cannot write standard output: No space left on device\n")

    def test_errors_name_the_flag_and_exit_with_2(self):
        for flags, says in (
            ([], "STORE is required"),
            (["run.json", "new.json", "third.json"], "third.json"),
            (["run.json", "--nonsense"], "--nonsense"),
            *(
                (["run.json", f"--{flag}=(", "--baseline=v00"], f"--{flag}: '('")
                for flag in ("family", "variant", "problem", "mode")
            ),
            (["run.json", "--baseline=["], "--baseline: '['"),
            (["run.json", "--family=" + "a" * 1001], "--family: has more than 1000 characters"),
            *((["run.json", f"--alpha={value}"], "--alpha") for value in ("0", "0.6", "-1", "nan", "x")),
            *((["run.json", f"--claim_alpha={value}"], "--claim_alpha") for value in ("0", "0.6", "nan")),
            (["run.json", "--alpha=1e-17"], "--alpha: 1e-17 is not from 1e-12 to 0.5"),
            (["run.json", "--alpha=9e-13"], "--alpha: 9e-13 is not from 1e-12 to 0.5"),
            *((["run.json", f"--min_effect={value}"], "--min_effect") for value in ("-0.1", "1", "nan", "x")),
            (["run.json", "--format=xml"], "--format: 'xml' is not one of table, markdown, json, csv"),
            (["run.json", "--color=blue"], "--color: 'blue'"),
            (["run.json", "--mode="], "--mode=: has no value"),
            (["run.json", "--ranking", "--decompose"], "--ranking: cannot be given with --decompose"),
            (["run.json", "new.json", "--ranking"], "--ranking: reads one store"),
            (["run.json", "new.json", "--decompose"], "--decompose: reads one store"),
            (["run.json", "new.json", "--baseline=v00"], "--baseline: chooses inside one store"),
            (["run.json", "--ranking", "--baseline=v00"], "--baseline: has no part in --ranking"),
            (["run.json", "--allow_different_machines"], "--allow_different_machines: needs two stores"),
            (["run.json", "--out=run.json"], "--out: 'run.json' is a store that is read"),
            (["run.json", "--out=./run.json"], "--out: './run.json' is a store that is read"),
            (["none.json"], "none.json"),
            (["run.json", "none.json"], "none.json"),
            (["run.json", "--out=none/report.txt"], "cannot write --out=none/report.txt: No such file"),
        ):
            with self.subTest(flags):
                done = self.compare(2, *flags, says=says)
                self.assertEqual(done.stdout, "")
        self.assertEqual(load_strict((self.folder / "run.json").read_text()), all_words())

    def test_what_is_no_store(self):
        for text in ("", "{", "[]", '{"benchmarks": []}', "\x00", json.dumps(all_words())[:-100]):
            with self.subTest(text[:20]):
                (self.folder / "bad.json").write_text(text)
                self.compare(2, "bad.json", says="bad.json")

    def test_help_and_version(self):
        help_text = self.compare(0, "--help").stdout
        for flag in (
            "--baseline",
            "--family",
            "--variant",
            "--problem",
            "--mode",
            "--allow_different_machines",
            "--alpha",
            "--claim_alpha",
            "--min_effect",
            "--no_fail",
            "--ranking",
            "--decompose",
            "--format",
            "--out",
            "--color",
        ):
            self.assertRegex(help_text, rf"(?m)^  {flag}\b", flag)
            self.assertRegex(help_text, rf"mage_compare \S+.* {flag}\b", f"no example of {flag}")
        self.assertIn("the whole interval beyond the minimum effect", help_text)
        self.assertRegex(self.compare(0, "--version").stdout, r"^mage_compare \d+\.\d+\.\d+ \(.+\)\n$")

    def test_a_regression_fails_unless_asked_not_to(self):
        self.compare(1, "run.json")
        self.compare(0, "run.json", "--no_fail")
        self.compare(0, "run.json", "--variant=v01|v03")
        self.compare(0, "run.json", "--ranking")

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [COMPARE, "run.json"], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True
            )
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write standard output", done.stderr)
        self.compare(2, "run.json", "--out=/dev/full", says="cannot write --out=/dev/full")

    def test_a_report_is_replaced_whole_or_not_at_all(self):
        report = self.folder / "report.txt"
        report.write_text("old")
        report.chmod(0o640)
        (self.folder / "link.txt").symlink_to("report.txt")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

        before = {path.name for path in self.folder.iterdir()}
        for name in ("report.txt", "link.txt"):
            self.compare(2, "run.json", f"--out={name}", says=f"cannot write --out={name}", preexec_fn=limit)
            self.assertEqual(report.read_text(), "old")
        self.assertEqual({path.name for path in self.folder.iterdir()}, before)
        for name in ("report.txt", "link.txt"):
            report.write_text("old")
            self.compare(1, "run.json", f"--out={name}")
            self.assertEqual(report.read_text(), self.compare(1, "run.json").stdout)
        self.assertEqual(report.stat().st_mode & 0o777, 0o640)
        self.assertTrue((self.folder / "link.txt").is_symlink())
        self.assertEqual({path.name for path in self.folder.iterdir()}, before)


class Formats(CompareTest):
    def test_csv_and_json_hold_the_same(self):
        for flags in (["--no_fail"], ["--ranking"], ["--decompose"]):
            rows = self.rows(0, "run.json", *flags)
            table = list(csv.DictReader(io.StringIO(self.compare(0, "run.json", *flags, "--format=csv").stdout)))
            self.assertEqual(len(table), len(rows))
            for line, row in zip(table, rows, strict=True):
                self.assertEqual(list(line), list(row))
                for key, value in row.items():
                    if value is None:
                        self.assertEqual(line[key], "")
                    elif isinstance(value, list):
                        self.assertEqual(line[key], "; ".join(value))
                    elif isinstance(value, str):
                        self.assertEqual(line[key], value)
                    else:
                        self.assertEqual(float(line[key]), value)

    def test_every_row_names_its_boundary(self):
        for row in self.rows(1, "run.json"):
            self.assertGreater(len(row["boundary"]), 30)
        text = self.compare(1, "run.json").stdout
        for mode in ("event", "event_cold", "batch", "graph", "host", "kernel"):
            self.assertEqual(len(re.findall(rf"(?m)^{mode}: ", text)), 1, mode)

    def test_the_documentation_names_every_field_and_column(self):
        page = (SOURCE / "docs" / "compare.md").read_text()
        for flags in (["run.json"], ["run.json", "new.json"], ["run.json", "--ranking"], ["run.json", "--decompose"]):
            report = load_strict(self.bench(*flags, "--format=json", executable=COMPARE).stdout)
            for field in [*report, *report["rows"][0]]:
                self.assertTrue(f"`{field}`" in page or field in ("alpha", "min_effect"), field)
            lines = self.bench(*flags, "--format=markdown", executable=COMPARE).stdout.splitlines()
            for column in next(line for line in lines if line.startswith("| ")).strip("| ").split(" | "):
                self.assertRegex(page, rf"(?m)^\| ([^|]*, )?{column}(,[^|]*)? \||`{column}`", column)

    def test_colour_only_where_it_is_wanted(self):
        self.assertNotIn(ESCAPE, self.compare(1, "run.json").stdout)
        self.assertIn(ESCAPE, self.compare(1, "run.json", "--color=yes").stdout)
        self.compare(1, "run.json", "--out=report.txt")
        self.assertEqual((self.folder / "report.txt").read_text(), self.compare(1, "run.json").stdout)
        for flags, colored in (([], True), (["--color=no"], False)):
            ours, theirs = pty.openpty()
            done = subprocess.run(
                [COMPARE, "run.json", "--variant=v01", "--mode=^event$", *flags],
                cwd=self.folder,
                stdout=theirs,
                check=False,
            )
            os.close(theirs)
            text = os.read(ours, 1 << 20).decode()
            os.close(ours)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(ESCAPE in text, colored)

    def test_names_cannot_break_a_format(self):
        name = 'f/v01_a|b",*\x1b[31m/p/event'
        write(self.folder, "s.json", store([benchmark("f/v00_a/p/event", 5.0), benchmark(name, 4.0)]))
        self.assertEqual(self.rows(0, "s.json")[0]["name"], name)
        line = next(csv.DictReader(io.StringIO(self.compare(0, "s.json", "--format=csv").stdout)))
        self.assertEqual(line["name"], name)
        for flags in ([], ["--format=markdown"]):
            self.assertNotIn(ESCAPE, self.compare(0, "s.json", *flags).stdout)
        controls = [chr(code) for code in (*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
        kept = "\u00a0\u00e9\u2029\u202f\u2065\u206a"
        odd = f"f/v02_{''.join(controls)}{kept}/p/event"
        write(self.folder, "odd.json", store([benchmark("f/v00_a/p/event", 5.0), benchmark(odd, 4.0)]))
        self.assertEqual(self.rows(0, "odd.json")[0]["name"], odd)
        for flags in ([], ["--format=markdown"], ["--ranking"]):
            text = self.compare(0, "odd.json", *flags).stdout
            self.assertEqual([hex(ord(character)) for character in controls if character in text], [])
            self.assertIn("?" * len(controls) + kept, text)
        rows = [line for line in self.compare(0, "s.json", "--format=markdown").stdout.splitlines() if line[:1] == "|"]
        self.assertEqual({len(re.findall(r"(?<!\\)\|", row)) for row in rows}, {13})


class Upstream(CompareTest):
    @unittest.skipUnless(UPSTREAM.exists(), f"{UPSTREAM} is not installed")
    @unittest.skipIf(MISSING, f"{sys.executable} has no {' and no '.join(MISSING)}, which compare.py imports")
    def test_compare_py_names_the_same_benchmarks(self):
        for name in ("a.json", "b.json"):
            self.measure("--mage_rounds=3", store=name)
        for old, new in (("run.json", "new.json"), ("a.json", "b.json")):
            command = [sys.executable, "-B", str(UPSTREAM), "-d", "diff.json", "benchmarks", old, new]
            subprocess.run(command, cwd=self.folder, capture_output=True, timeout=60, check=True)
            theirs = {entry["name"] for entry in json.loads((self.folder / "diff.json").read_text())}
            done = self.bench(old, new, "--format=json", executable=COMPARE)
            ours = {row["name"] for row in load_strict(done.stdout)["rows"]}
            self.assertGreater(len(ours), 1)
            self.assertEqual(ours, theirs - {"OVERALL_GEOMEAN"})
        self.assertEqual(ours, set(HOST_NAMES))


class Large(CompareTest):
    def test_a_hundred_thousand_rows_are_soon_compared(self):
        benchmarks = [
            benchmark(f"f/v{k % 40:02}_x/{k // 40}x1/event", 5 + k % 7, spread=(1.0, 1.001, 0.999))
            for k in range(20000)
        ]
        write(self.folder, "s.json", store(benchmarks))

        def limit():
            if b"__asan_init" not in COMPARE.read_bytes():  # the sanitizer reserves terabytes of addresses
                resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

        begin = time.monotonic()
        done = self.bench("s.json", "--format=csv", executable=COMPARE, preexec_fn=limit)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.count("\n"), 1 + 20000 - 500)
        self.assertLess(time.monotonic() - begin, 30)  # a busy machine's; a square would take far longer


if __name__ == "__main__":
    unittest.main()
