# SPDX-License-Identifier: Apache-2.0
"""What the tests of mage_compare share: running it, and made-up stores, whose times are the same on any machine."""

import json
import os
import statistics
import sys
from pathlib import Path

from program_support import EXECUTABLE, ProgramTest, load_strict

COMPARE = Path(EXECUTABLE).with_name("mage_compare")  # built beside it
if not os.access(COMPARE, os.X_OK):
    sys.exit(f"{COMPARE} is no program: build the target mage_compare")

SCHEMA = "mage_bench/store/1"
# Rounds differ by a part in a thousand or so, each variant's in another order.
WOBBLE = (1.0, 1.001, 0.9985, 1.0005, 0.9995)
NOISE = (1.0, 1.06, 0.94, 1.03, 0.98)
DEVICE = {
    "name": "NVIDIA Made-up",
    "uuid": "GPU-00000000-0000-0000-0000-000000000001",
    "cuda_driver_api": "13.0",
    "cuda_runtime": "13.0",
    "nvml": {"driver_version": "580.1"},
}


def benchmark(name, us, *, rounds=None, spread=WOBBLE, flags=(), floor_us=2.5, parts=None, inputs="ab" * 32):
    """Rows and aggregate of one benchmark: `us` times a spread, in `rounds` of five."""
    family, variant, problem, mode = name.split("/")
    start = sum(name.encode()) % len(spread)
    medians = {k: round(us * spread[(start + k) % len(spread)], 6) for k in (range(5) if rounds is None else rounds)}
    flags = sorted({*flags, *(("missing_rounds",) if len(medians) < 5 else ())})
    rows = [
        {
            "name": name,
            "run_name": name,
            "run_type": "iteration",
            "repetitions": 5,
            "repetition_index": k,
            "threads": 1,
            "iterations": 1,
            "real_time": median,
            "cpu_time": 1000.0,
            "time_unit": "us",
            "family_index": 0,
            "per_family_instance_index": 0,
            "samples_us": [median],
            "mage": {
                "family": family,
                "variant": variant,
                "problem": problem,
                "mode": mode,
                "provider": "mage_bench",
                "parent": None,
                "inputs_sha256": inputs,
                "round": k,
                "rounds": 5,
                "flags": flags,
                "work": {"flops": 512.0, "bytes_read": 2048.0, "bytes_written": 2048.0},
            },
        }
        for k, median in medians.items()
    ]
    aggregate = {
        "name": name,
        "rounds": len(rows),
        "rounds_planned": 5,
        "median_us": statistics.median(medians.values()),
        "quantum_us": 0.001,
        "floor_us": floor_us,
        "part_medians_us": parts or {},
        "flags": flags,
    }
    return rows, aggregate


def store(benchmarks, *, unavailable=(), failed=(), device=DEVICE, run_id="0a1b2c3d" * 4, complete=True):
    return {
        "context": {"date": "2026-01-02T03:04:05+00:00", "mage_schema": SCHEMA, "mage_run_id": run_id},
        "benchmarks": [row for rows, _ in benchmarks for row in rows],
        "mage": {
            "schema": SCHEMA,
            "complete": complete,
            "provenance": {
                "run_id": run_id,
                "started_utc": "2026-01-02T03:04:05Z",
                "git_commit": "0123456789abcdef" * 2 + "01234567",
                "git_dirty": False,
                "executable_sha256": "cd" * 32,
                "kernel_sources_sha256": "ef" * 32,
            },
            "options": {"seed": 1},
            "device": device,
            "aggregates": [aggregate for _, aggregate in benchmarks],
            "unavailable": list(unavailable),
            "failed": list(failed),
            "floors": [{"device": "cuda", "mode": "event", "median_us": 2.5}],
        },
    }


def absence(name, status, reason, code=None):
    return {"name": name, "status": status, "code": code, "reason": reason}


def all_words():
    """A run in which every word of a verdict stands, and every mode."""
    variants = {
        "v00_plain": 10.0,
        "v01_fast": 8.0,
        "v02_slow": 13.0,
        "v03_same": 10.0,
        "v04_slower_still": 16.0,
    }
    event = [benchmark(f"twice/{variant}/64x8/event", us) for variant, us in variants.items()]
    event += [
        benchmark("twice/v05_noisy/64x8/event", 10.3, spread=NOISE),
        benchmark("twice/v06_shaky/64x8/event", 20.0, flags=["unstable", "throttled"]),
        benchmark("twice/v07_late/64x8/event", 8.5, rounds=(1, 2, 4)),
    ]
    gap = {"kernel_0_us": 7.5, "gap_us": 2.4, "span_us": 9.9}
    others = [
        benchmark("twice/v01_fast/64x8/kernel", 5.5, floor_us=0.5, parts=gap, flags=["perturbed"]),
        benchmark("twice/v00_plain/64x8/batch", 8.5, flags=["launch_bound"]),
        benchmark("twice/v00_plain/64x8/graph", 7.75),
        benchmark("twice/v01_fast/64x8/batch", 6.5),
        benchmark("twice/v01_fast/64x8/graph", 6.0),
        benchmark("twice/v00_plain/64x8/host", 19.0, parts={"submit_us": 4.0}),
        benchmark("twice/v01_fast/64x8/host", 17.0, parts={"submit_us": 4.1}),
        benchmark("twice/reference/64x8/host", 900.0, floor_us=None, parts={"submit_us": 899.0}),
        benchmark("twice/cpu_v00_loop/64x8/host", 90.0, floor_us=None, parts={"submit_us": 89.0}),
        benchmark("twice/v01_fast/1x1/event_cold", 3.0, flags=["floor_dominated"]),
        benchmark("twice/v02_slow/1x1/event_cold", 3.3),
    ]
    return store(
        event + others,
        unavailable=[absence("twice/v03_same/1x1/event_cold", "unsupported", "does not take this problem")],
        failed=[absence("twice/v00_plain/64x8/kernel", "wrong", 'y[3] is nan, "poison"')],
    )


def later_run(**changes):
    """The same on another day: v01_fast became slower, v03_same has other inputs, v05_noisy failed, v08_new is new."""
    return store(
        [
            benchmark("twice/v00_plain/64x8/event", 10.002),
            benchmark("twice/v01_fast/64x8/event", 9.0),
            benchmark("twice/v02_slow/64x8/event", 11.0),
            benchmark("twice/v03_same/64x8/event", 10.0, inputs="ba" * 32),
            benchmark("twice/v08_new/64x8/event", 7.0),
        ],
        failed=[absence("twice/v05_noisy/64x8/event", "failed", "out of memory")],
        run_id="9f8e7d6c" * 4,
        **changes,
    )


def write(folder, name, contents):
    (folder / name).write_text(json.dumps(contents))


class CompareTest(ProgramTest):
    """run.json holds every word; new.json is a later run of a part of it."""

    def setUp(self):
        super().setUp()
        write(self.folder, "run.json", all_words())
        write(self.folder, "new.json", later_run())

    def compare(self, code, *flags, says=None, **options):
        """Runs mage_compare, which must exit with `code` and say `says` on stderr."""
        done = self.bench(*flags, executable=COMPARE, **options)
        self.assertEqual(done.returncode, code, f"{flags}: {done.stdout}{done.stderr}")
        if says is not None:
            self.assertTrue(done.stderr.startswith("mage_compare: "), done.stderr)
            self.assertIn(says, done.stderr)
        elif code in (0, 1):
            self.assertEqual(done.stderr, "")
        return done

    def rows(self, code, *flags):
        return load_strict(self.compare(code, *flags, "--format=json").stdout)["rows"]

    def names(self, code, *flags):
        return {row["name"] for row in self.rows(code, *flags)}
