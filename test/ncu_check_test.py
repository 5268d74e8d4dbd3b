# SPDX-License-Identifier: Apache-2.0
"""tools/ncu_check.py on a file in ncu's format (test/data/ncu_raw.csv, made up), and behind a made-up ncu."""

import contextlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import ncu_check

ROOT = Path(__file__).resolve().parent.parent
RAW = (ROOT / "test" / "data" / "ncu_raw.csv").read_text()
CACHE = ncu_check.GROUPS[0]
COLD = "ceiling/v01_read/read-16MiB/event_cold"
SECTORS = ncu_check.SECTORS_READ
WARM = "ceiling/v01_read/read-16MiB/event"

# Prints what lies in $MAGE_NCU_ANSWERS: one file a benchmark's mode and group of metrics.
FAKE_NCU = """#!{python}
import os, pathlib, sys, time
if "--version" in sys.argv:
    sys.exit(print("Version 2025.1.0.0"))
flags = dict(zip(sys.argv, sys.argv[1:]))
mode = next(a for a in sys.argv if a.startswith("--benchmark_filter=")).rstrip("$").rsplit("/", 1)[1]
group = "dram" if "dram" in flags["--metrics"] else "cache"
answers = pathlib.Path(os.environ["MAGE_NCU_ANSWERS"])
with open(answers / "calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
answer = answers / f"{{mode}}_{{group}}"
if mode in os.environ.get("MAGE_NCU_HANGS", "").split():
    (answers / "hangs").write_text(str(os.getpid()))
    time.sleep(60)
if not answer.exists():
    print("==ERROR== The application returned an error code (1).")
    sys.exit(1)
pathlib.Path(flags["--log-file"]).write_text(answer.read_text())
store = next(a for a in sys.argv if a.startswith("--benchmark_out=")).split("=", 1)[1]
pathlib.Path(store).write_text('{{"mage": []}}')
print("a line of the program's own")
"""


def launches(*rows, metrics=CACHE):
    """ncu's table of (kernel, values...)."""
    lines = [",".join(f'"{name}"' for name in ("ID", "Kernel Name", *metrics))]
    lines += [",".join(f'"{cell}"' for cell in (i, *row)) for i, row in enumerate(rows)]
    return "\n".join(lines) + "\n"


def warm(time=5000, passes=1):
    body = launches(
        ("void mage::ceiling::read<4>(int)", 5, 1, 1),
        ("mage_harness_speckle(x)", 1, 1, 1),
        ("mage_harness_delay(x)", 60000, 1, 1),
        ("void mage::ceiling::read<4>(int)", time, 95, 1000),
    )
    units = '"","","ns","%","sector"\n'
    head, rest = body.split("\n", 1)
    return f'==PROF== Profiling "x" - 0: 0%....50%....100% - {passes} passes\n{head}\n{units}{rest}'


def dram(gate, read):
    text = launches((gate, 1, 2), ("read", read, 64), metrics=ncu_check.GROUPS[1])
    head, rest = text.split("\n", 1)
    return f'{head}\n"","","byte","byte"\n{rest}'


class Parsing(unittest.TestCase):
    def test_every_launch_of_the_sample_file(self):
        report = ncu_check.parse(RAW, CACHE)
        self.assertEqual(len(report.launches), 16)
        self.assertEqual(report.passes, 1)
        first = report.launches[0]
        self.assertTrue(first.kernel.startswith("ceiling_v01_read("))
        self.assertEqual(
            first.values, {ncu_check.TIME: 5.024, ncu_check.HIT_RATE: 96.8, ncu_check.SECTORS_READ: 524352.0}
        )

    def test_only_what_lies_between_the_stamps_counts(self):
        timed = ncu_check.between_stamps(ncu_check.parse(RAW, CACHE).launches, "event_cold")
        self.assertEqual(
            [[launch.values[ncu_check.TIME] for launch in sample] for sample in timed], [[6.72], [6.688], [6.752]]
        )
        with self.assertRaisesRegex(ncu_check.NcuError, "mage_harness_delay"):
            ncu_check.between_stamps(ncu_check.parse(RAW, CACHE).launches, "event")

    def test_an_operation_of_two_kernels_is_their_sum(self):
        gate, a, b, other = (
            ("mage_harness_delay()", 9, 9, 9),
            ("a", 1, 10, 1),
            ("b", 2, 50, 3),
            ("mage_harness_x", 9, 9, 9),
        )
        report = ncu_check.parse(launches(gate, a, b, a, b, other, gate, a, b, other), CACHE)
        timed = ncu_check.between_stamps(report.launches, "event")
        self.assertEqual([len(sample) for sample in timed], [2, 2])
        samples = ncu_check.per_sample(timed, CACHE)
        self.assertEqual(samples[ncu_check.TIME], [3, 3])
        self.assertEqual(samples[ncu_check.HIT_RATE], [40, 40])
        broken = ncu_check.parse(launches(gate, a, b, a, other, gate, a, b, other), CACHE)
        with self.assertRaisesRegex(ncu_check.NcuError, "2 kernels in one sample and .3. in others"):
            ncu_check.between_stamps(broken.launches, "event")

    def test_units_of_all_versions(self):
        for unit, microseconds in (("nsecond", 0.007), ("ns", 0.007), ("us", 7), ("usecond", 7), ("msecond", 7000)):
            head, rest = launches(("k", 7, 1, 1)).split("\n", 1)
            report = ncu_check.parse(f'{head}\n"","","{unit}","%","sector"\n{rest}', CACHE)
            self.assertAlmostEqual(report.launches[0].values[ncu_check.TIME], microseconds)

    def test_what_cannot_be_read_is_an_error_and_never_a_number(self):
        for text, says in (
            ("", "no kernel was profiled"),
            ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "may not read counters"),
            ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
            (launches(("k", 1, 1, 1)).replace(ncu_check.HIT_RATE, "other"), f"no column {ncu_check.HIT_RATE}"),
            (launches(("k", "n/a", 1, 1)), "'n/a' for gpu__time_duration.sum"),
            *((launches(("k", 1, 1, value)), f"'{value}' for {SECTORS}") for value in ("nan", "inf", "-1", "1e400")),
            (launches(("k" * 200000, 1, 1, 1)), "table cannot be read: field larger than field limit"),
            (launches(), "no launch"),
            (launches(("k", 1, 1)), "has 4 fields, its head 5"),
            (
                launches(("k", 1, 1, 1), ("", 1, 1, 1)).replace('"0"', '""', 1).replace('"k","1"', '"","fortnight"', 1),
                "'fortnight'",
            ),
        ):
            with self.subTest(text=text[:200]), self.assertRaisesRegex(ncu_check.NcuError, says):
                ncu_check.parse(text, CACHE)

    def test_names_are_escaped_for_ncu(self):
        self.assertEqual(
            ncu_check.nvtx_filter("gelu/v01_float4/64x1024/event"),
            r"mage_bench@gelu\/v01_float4\/64x1024\/event/samples/",
        )
        for name in ("gelu/v01/64x1024", "gelu/v01/64x1024/event/more", "gelu/v01/64x1024/graph"):
            with self.assertRaises(ncu_check.NcuError):
                ncu_check.parts(name)

    def test_the_gates_are_kernels_of_the_harness(self):
        source = (ROOT / "src" / "device" / "harness_kernels.cu").read_text()
        for gate in ncu_check.GATES.values():
            self.assertIn(f"__global__ void {gate}(", source)


class Program(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.ncu = self.folder / "ncu"
        self.ncu.write_text(FAKE_NCU.format(python=sys.executable))
        self.ncu.chmod(0o755)
        os.environ["MAGE_NCU_ANSWERS"] = str(self.folder)
        self.addCleanup(os.environ.pop, "MAGE_NCU_ANSWERS")
        self.answer("event_cold_cache", RAW)
        self.answer("event_cold_dram", dram("mage_harness_read_sweep()", 16000000))
        self.answer("event_cache", warm())
        self.answer("event_dram", dram("mage_harness_delay()", 64))

    def answer(self, name, text):
        (self.folder / name).write_text(text)

    def run_tool(self, *arguments, ncu=None):
        """Exit code, standard output, standard error."""
        out, err = io.StringIO(), io.StringIO()
        flags = [f"--bench={sys.executable}", f"--ncu={ncu or self.ncu}"]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = ncu_check.main([*flags, *map(str, arguments)])
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), err.getvalue()

    def test_cold_is_cold_and_warm_is_warm(self):
        out = self.folder / "out.json"
        code, text, error = self.run_tool(WARM, COLD, f"--out={out}")
        self.assertEqual((code, error), (0, ""), text)
        self.assertRegex(text, rf"{COLD} +3 +1 +6\.720 +2\.1 +16\.78 +16\.00 +0\.00\n")
        self.assertEqual(text.count(" ok"), 2)
        stored = json.loads(out.read_text())
        self.assertEqual(stored["benchmarks"][1]["samples"][ncu_check.TIME], [6.72, 6.688, 6.752])
        self.assertIsNone(stored["stopped"])
        self.assertEqual(stored["origin"], {"provenance": None, "device": None, "ncu": "2025.1.0.0"})
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertEqual(len(calls), 4, "a run a group of counters")
        for flag in ("--clock-control none", "--cache-control none", "--page raw", "--mage_problem=ceiling/read-16MiB"):
            self.assertTrue(all(flag in call for call in calls), flag)
        self.assertIn("--benchmark_filter=^ceiling/v01_read/read-16MiB/event$", calls[0])

    def test_a_cold_read_that_hits_and_a_warm_one_that_misses_fail(self):
        self.answer("event_dram", dram("mage_harness_delay()", 20000))
        code, text, _ = self.run_tool(WARM, COLD)
        self.assertEqual((code, text.count("FAILED")), (1, 1))
        self.answer("event_cold_dram", dram("mage_harness_read_sweep()", 1000000))
        code, text, _ = self.run_tool(WARM, COLD)
        self.assertEqual((code, text.count("FAILED")), (1, 2))

    def test_a_benchmark_alone_is_shown_and_not_judged(self):
        code, text, _ = self.run_tool(WARM)
        self.assertEqual(code, 0)
        self.assertNotIn("check", text)

    def test_a_kernel_that_was_replayed_fails(self):
        self.answer("event_cache", warm(passes=3))
        code, text, _ = self.run_tool(WARM)
        self.assertEqual(code, 1)
        self.assertIn("3: counters are not of one run", text)

    def test_the_time_of_the_store(self):
        store = self.folder / "store.json"
        for median, code in ((5.1, 0), (4.0, 1)):
            rows = [{"name": "ceiling/v01_read/read-16MiB/kernel", "median_us": median}]
            store.write_text(json.dumps({"mage": {"aggregates": rows}}))
            self.assertEqual(self.run_tool(WARM, f"--store={store}")[0], code)
        store.write_text(json.dumps({"mage": {"aggregates": []}}))
        code, text, _ = self.run_tool(WARM, f"--store={store}")
        self.assertEqual(code, 1)
        self.assertIn("it has no ceiling/v01_read/read-16MiB/kernel", text)

    def test_what_goes_wrong_is_said(self):
        (self.folder / "event_dram").unlink()
        code, _, error = self.run_tool(WARM)
        self.assertEqual(code, 1)
        self.assertIn("The application returned an error", error)
        self.assertEqual(self.run_tool(WARM, ncu="/nowhere/ncu")[0], 3)
        for wrong in (["--bench=/nowhere"], ["a/b"], ["a/b/c/graph"], ["--samples=1"], ["--store=/nowhere.json"]):
            self.assertEqual(self.run_tool(*wrong)[0], 2, wrong)
        code, _, error = self.run_tool("--bench=/")
        self.assertEqual(code, 2)
        self.assertIn("--bench=/ is no program", error)

    def test_a_store_that_has_no_time_is_refused_before_any_run(self):
        store = self.folder / "store.json"
        name = "ceiling/v01_read/read-16MiB/kernel"
        rows = [(name, value) for value in ("0", "-1", "null", '"5"', "true", "NaN", "1e400", "1" + "0" * 400, "[]")]
        for name, median in [*rows, (7, "5"), ([], "5")]:
            row = f'{{"name": {json.dumps(name)}, "median_us": {median}}}'
            store.write_text(f'{{"mage": {{"aggregates": [{row}]}}}}')
            code, _, error = self.run_tool(WARM, f"--store={store}")
            self.assertEqual(code, 2, row)
            self.assertIn(f"{store}: not a readable store: ", error)
        self.assertFalse((self.folder / "calls").exists())

    def test_where_out_cannot_be_made_nothing_is_run(self):
        mine = self.folder / "mine.json"
        mine.write_text("mine")
        for out, says in (
            (self.folder / "none" / "x.json", f"made in {self.folder}/none: No such file or directory; choose another"),
            (mine / "x.json", f"made in {mine}: Not a directory; choose another"),
            (self.folder, f"--out={self.folder} is a directory: name a file"),
            (mine, f"--out={mine} exists; nothing is overwritten"),
            ("/dev/full", "--out=/dev/full exists"),
            ("/proc/x.json", "--out=/proc/x.json: no file can be made in /proc: "),
        ):
            code, text, error = self.run_tool(WARM, f"--out={out}")
            self.assertEqual((code, text), (2, ""), error)
            self.assertIn(says, error)
        self.assertEqual(mine.read_text(), "mine")
        self.assertFalse((self.folder / "calls").exists())

    def test_an_out_that_fails_at_the_end_leaves_the_table(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        made = ncu_check.as_json

        def as_json(*arguments):  # the last thing before the file is written
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
            return made(*arguments)

        with mock.patch.object(ncu_check, "as_json", as_json):
            code, text, error = self.run_tool(WARM, f"--out={self.folder}/x.json")
        self.assertEqual(code, 1)
        self.assertIn(WARM, text)
        self.assertEqual(
            error,
            f"ncu_check: --out={self.folder}/x.json was not written whole: File too large; the table has the medians\n",
        )

    def test_what_was_read_before_a_failure_is_shown_and_written(self):
        (self.folder / "event_cold_dram").unlink()
        out = self.folder / "x.json"
        code, text, error = self.run_tool(WARM, COLD, f"--out={out}")
        self.assertEqual(code, 1)
        self.assertIn(WARM, text)
        self.assertNotIn(COLD, text)
        self.assertIn(f"ncu_check: {COLD}: exit code 1 of", error)
        self.assertTrue(error.endswith("\nncu_check: 1 of 2 benchmarks were read\n"), error)
        stored = json.loads(out.read_text())
        self.assertEqual([benchmark["name"] for benchmark in stored["benchmarks"]], [WARM])
        self.assertIn("The application returned an error", stored["stopped"])

    def test_what_reads_nothing_has_no_share_of_it(self):
        self.answer("event_cache", warm().replace('"1000"', '"0"'))
        code, text, _ = self.run_tool(WARM, COLD)
        self.assertEqual((code, text.count("FAILED")), (1, 1))
        self.assertIn("it reads nothing", text)

    def start(self, *arguments, **options):
        tool = [sys.executable, "-B", ROOT / "tools" / "ncu_check.py", f"--bench={sys.executable}", f"--ncu={self.ncu}"]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        return subprocess.Popen([*tool, *arguments], env=buffered, stderr=subprocess.PIPE, text=True, **options)

    def test_a_full_stdout_is_said_and_the_file_is_written(self):
        with open("/dev/full", "w") as full:
            process = self.start(WARM, f"--out={self.folder}/x.json", stdout=full)
        _, said = process.communicate(timeout=60)
        says = "ncu_check: cannot write to stdout: No space left on device\n"
        self.assertEqual((process.returncode, said), (1, says))
        self.assertTrue((self.folder / "x.json").exists())

    def test_an_interrupt_keeps_what_was_read(self):
        os.environ["MAGE_NCU_HANGS"] = "event_cold"
        self.addCleanup(os.environ.pop, "MAGE_NCU_HANGS")
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child would go on ignoring it
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        out, hangs = self.folder / "x.json", self.folder / "hangs"
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(WARM, COLD, f"--out={out}", stdout=subprocess.PIPE)
            self.addCleanup(process.kill)
            while not (hangs.exists() and hangs.read_text()) and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(number)
            text, said = process.communicate(timeout=20)
            self.assertEqual(process.returncode, 130, said)
            self.assertEqual(said, "ncu_check: interrupted\nncu_check: 1 of 2 benchmarks were read\n")
            self.assertIn(WARM, text)
            self.assertEqual(json.loads(out.read_text())["stopped"], "interrupted")
            with self.assertRaises(ProcessLookupError, msg="ncu still runs"):
                for _ in range(200):
                    os.kill(int(hangs.read_text()), 0)
                    time.sleep(0.01)
            out.unlink()
            hangs.unlink()


if __name__ == "__main__":
    unittest.main()
