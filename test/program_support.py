# SPDX-License-Identifier: Apache-2.0
"""What the tests of the executable share: running it, reading its store strictly, and catching it in mid-run.

GPUs are hidden from it unless a test asks for them, so that the same rows exist on every machine.
"""

import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

EXECUTABLE = os.environ.get("MAGE_BENCH_EXECUTABLE", "")
if not os.access(EXECUTABLE, os.X_OK):
    sys.exit(f"MAGE_BENCH_EXECUTABLE='{EXECUTABLE}' is no program: set it to the path of a built mage_bench")
SOURCE = Path(__file__).resolve().parent.parent

# Two fixtures that need no GPU, the same with the CUDA ones beside them, and the latter alone.
HOST = "copy/(reference|cpu_v00_memcpy)/64x1024/host"
HOST_NAMES = ["copy/cpu_v00_memcpy/64x1024/host", "copy/reference/64x1024/host"]
MIXED = "copy/.*/64x1024/host"
CUDA = "copy/v00_float4/64x1024/host"
QUICK = ("--mage_rounds=2", "--mage_samples=3", "--mage_round_budget=0.01")
# Seconds of work in rounds of milliseconds: a signal finds it between two of them.
LONG = ("--mage_rounds=500", "--mage_samples=1000", "--mage_round_budget=0.05")

INTERFERING = ("BENCHMARK_", "CUDA_", "NVTX_", "MAGE_", "OMP_")


def environment(**variables):
    """This process's environment without what would steer the program, and with no GPU in sight.

    One OpenMP thread: on a busy machine a team waits milliseconds for the one of it that was put aside.
    """
    clean = {key: value for key, value in os.environ.items() if not key.startswith(INTERFERING)}
    return {**clean, "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1", **variables}


def _unique(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key stands twice in {keys}")
    return dict(pairs)


def _no_constant(text):
    raise ValueError(f"{text} is no JSON")


def _finite(text):
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} does not fit a double")
    return value


def load_strict(text):
    """JSON as the standard has it: no NaN, no Infinity, no key twice."""
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)


def merged(defaults, flags):
    """`flags` and those of `defaults` that they don't give again."""
    given = {flag.split("=")[0] for flag in flags}
    return [flag for flag in defaults if flag.split("=")[0] not in given] + list(flags)


def journal_of(store):
    return Path(f"{store}.journal.jsonl")


def entries_of(journal_bytes):
    """The entries of all lines that are whole; a last line may be, even without its newline."""
    entries = []
    for line in journal_bytes.split(b"\n"):
        try:
            entries.append(json.loads(line))
        except ValueError:
            break
    return entries


def rows_of(journal_bytes):
    return [entry["row"] for entry in entries_of(journal_bytes) if entry["kind"] == "row"]


class ProgramTest(unittest.TestCase):
    """Each test has an empty folder, in which the program runs."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="mage_program_")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def bench(self, *flags, executable=EXECUTABLE, **options):
        """Runs the program to its end; `options` go to subprocess.run."""
        options = {"cwd": self.folder, "env": environment(), "timeout": 120, **options}
        return subprocess.run([executable, *map(str, flags)], capture_output=True, text=True, **options)

    def expect(self, code, *flags, says=None, **options):
        """Runs the program, which must exit with `code` and say `says` on stderr."""
        done = self.bench(*flags, **options)
        self.assertEqual(done.returncode, code, f"{flags}: {done.stdout}{done.stderr}")
        if says is not None:
            self.assertIn(says, done.stderr)
        if code in (1, 2, 3):
            self.assertTrue(done.stderr.startswith("mage_bench: "), done.stderr)
        return done

    def measure(self, *flags, store="store.json", select=HOST, **options):
        """The store of a quick run that must succeed."""
        flags = merged([f"--benchmark_filter={select}", f"--benchmark_out={store}", *QUICK], flags)
        self.expect(0, *flags, **options)
        return self.load(store)

    def load(self, store):
        contents = load_strict((self.folder / store).read_bytes().decode())
        self.check_store(contents)
        return contents

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if not path.is_dir())

    def start(self, *flags, store="store.json", rows=1, env=None):
        """Starts a long run and returns it once its journal holds `rows` rows."""
        command = [EXECUTABLE, *merged([f"--benchmark_filter={HOST}", f"--benchmark_out={store}", *LONG], flags)]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=env or environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end, process)
        self.wait_for(process, lambda: len(rows_of(self.journal(store))) >= rows, f"{rows} rows in the journal")
        return process

    def kill_a_run(self, rows):
        """Leaves a journal of at least `rows` rows that nobody writes any more."""
        self._end(self.start(rows=rows))

    def wait_for(self, process, condition, what):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertIsNone(process.poll(), f"the run ended before: {what}")
            self.assertLess(time.monotonic(), deadline, f"not within 30 s: {what}")
            time.sleep(0.005)

    def journal(self, store="store.json"):
        try:
            return (self.folder / journal_of(store)).read_bytes()
        except FileNotFoundError:  # a run that begins creates it, removes it, and creates it again behind the trials
            return b""

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def check_store(self, store):
        """What holds for every store, whole or recovered."""
        self.assertEqual(list(store), ["context", "benchmarks", "mage"])
        context, rows, mage = store["context"], store["benchmarks"], store["mage"]
        self.assertEqual(context["mage_schema"], mage["schema"])
        self.assertRegex(context["mage_run_id"], "^[0-9a-f]{32}$")
        self.assertEqual(context["mage_run_id"], mage["provenance"]["run_id"])
        for row in rows:
            self._check_row(row)
        sequence = [row["mage"]["sequence"] for row in rows]
        self.assertEqual(sequence, sorted(set(sequence)))
        rounds = [(row["name"], row["repetition_index"]) for row in rows]
        self.assertEqual(len(rounds), len(set(rounds)), "a round stands twice")
        names = list(dict.fromkeys(row["name"] for row in rows))
        without_time = {entry["name"] for entry in mage["unavailable"] + mage["failed"]}
        self.assertFalse(without_time & set(names), "a row without a right answer has a time")
        self.assertEqual([aggregate["name"] for aggregate in mage["aggregates"]], names)
        for aggregate in mage["aggregates"]:
            self._check_aggregate(aggregate, [row for row in rows if row["name"] == aggregate["name"]])

    def _check_row(self, row):
        block = row["mage"]
        name = "/".join(block[part] for part in ("family", "variant", "problem", "mode"))
        self.assertEqual((row["name"], row["run_name"]), (name, name))
        self.assertEqual((row["run_type"], row["time_unit"]), ("iteration", "us"))
        self.assertEqual((row["iterations"], row["threads"]), (1, 1))
        self.assertEqual((row["repetition_index"], row["repetitions"]), (block["round"], block["rounds"]))
        self.assertIn(row["repetition_index"], range(row["repetitions"]))
        samples = row["samples_us"]
        self.assertIn(len(samples), range(1, block["samples_asked"] + 1))
        self.assertEqual(row["samples"], len(samples))
        self.assertAlmostEqual(row["real_time"], statistics.median(samples), places=9)
        self.assertGreater(row["real_time"], 0)
        self.assertGreaterEqual(row["cpu_time"], 0)
        for part in block["parts_us"].values():
            self.assertEqual(len(part), len(samples))

    def _check_aggregate(self, aggregate, rows):
        medians = [row["real_time"] for row in rows]
        self.assertEqual(aggregate["rounds"], len(rows))
        self.assertEqual(aggregate["samples"], sum(len(row["samples_us"]) for row in rows))
        self.assertAlmostEqual(aggregate["median_us"], statistics.median(medians), places=9)
        self.assertEqual(aggregate["min_round_us"], min(medians))
        self.assertEqual(aggregate["max_round_us"], max(medians))
        work = rows[0]["mage"]["work"]
        moved = work["bytes_read"] + work["bytes_written"]
        self.assertAlmostEqual(aggregate["gbytes_per_s"], moved / aggregate["median_us"] * 1e6 / 1e9, places=6)
        self.assertEqual("missing_rounds" in aggregate["flags"], len(rows) < aggregate["rounds_planned"])


def recovery_command(stderr):
    """The flags that a message tells the user to run the program with."""
    found = re.search(r"mage_bench (--mage_recover=\S+) --benchmark_out=PATH", stderr)
    return found.group(1) if found else None
