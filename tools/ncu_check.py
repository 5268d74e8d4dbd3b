#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hardware counters of benchmarks, read by Nsight Compute: is what is called cold cold, and what is called warm warm?

    tools/ncu_check.py [--bench build/gpu/mage_bench] [--ncu ncu] [--store STORE.json] [--out FILE.json] [NAME ...]

Runs each benchmark under ncu, looks at the launches between the stamps of its counted samples alone, and prints a
median a sample: the GPU's time, the L2 hit rate, the bytes that memory moved. Checked is

- where event and event_cold of one variant and problem are both asked for: of the bytes that the SMs read from L2,
  memory delivered most cold and next to none warm. Choose an operation that only reads, and whose data L2 can hold.
  It is the share of memory that is judged, not the hit rate of a slice of L2, which is shown: on a GPU whose L2 has
  two halves, what crosses from one to the other is looked up, and counted, in both;
- with --store: the time of a benchmark in mode event against the store's median in mode kernel.

Clocks are left alone. Caches too, since by default ncu flushes them before each kernel. So a kernel must not be
replayed: a second pass would find what the first one left. The counters are read in groups that fit into one pass, a
run of the program each; where ncu says that one did not fit the check fails. Where it does not say, passes are 0.

The first benchmark that fails, or an interrupt, ends the run; what was read by then is shown, checked and written.

Exit codes: 0 every check holds, 1 one does not or something went wrong, 2 usage, 3 ncu is not there, 130 interrupted.
"""

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import output
from ncu.report import (
    DRAM_READ,
    DRAM_WRITTEN,
    GATES,
    GROUPS,
    HIT_RATE,
    SECTORS_READ,
    TIME,
    NcuError,
    between_stamps,
    parse,
    per_sample,
)

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = [
    "ceiling/v01_read/read-16MiB/event",
    "ceiling/v01_read/read-16MiB/event_cold",
    "gelu/v02_unrolled/8192x16384/event",
]
NVTX_SPECIAL = r"\/,@[]*+"
REGEX_SPECIAL = r"\.[](){}*+?|^$"

SECTOR_BYTES = 32
COLD_ABOVE_PERCENT = 50
WARM_BELOW_PERCENT = 10


@dataclass
class Reading:
    """One benchmark: for each counter a value a sample."""

    name: str
    kernels: int = 0  # an operation
    passes: int = 0
    samples: dict[str, list[float]] = field(default_factory=dict)
    store: dict = field(default_factory=dict)  # of its last run

    def median(self, metric: str) -> float:
        return statistics.median(self.samples[metric])


@dataclass
class Check:
    what: str
    expected: str
    measured: str
    holds: bool


def parts(name: str) -> tuple[str, str, str, str]:
    split = name.split("/")
    if len(split) != 4 or not all(split):
        raise NcuError(f"'{name}' is no benchmark: family/variant/problem/mode")
    if split[3] not in GATES:
        raise NcuError(f"{name}: mode {split[3]} has no launches between two stamps; choose {' or '.join(GATES)}")
    return split[0], split[1], split[2], split[3]


def escaped(text: str, special: str) -> str:
    return "".join("\\" + c if c in special else c for c in text)


def nvtx_filter(name: str) -> str:
    """The ranges of its counted samples. A slash nests ranges, so those of the name are escaped."""
    return f"mage_bench@{escaped(name, NVTX_SPECIAL)}/samples/"


def command(ncu: str, bench: Path, name: str, metrics: list[str], samples: int, folder: Path) -> list[str]:
    family, _, problem, _ = parts(name)
    tool = {
        "--clock-control": "none",
        "--cache-control": "none",
        "--nvtx-include": nvtx_filter(name),
        "--page": "raw",
        "--print-units": "base",
        "--metrics": ",".join(metrics),
        "--log-file": str(folder / "ncu.csv"),
    }
    program = [
        f"--benchmark_filter=^{escaped(name, REGEX_SPECIAL)}$",
        f"--mage_problem={family}/{problem}",
        "--mage_rounds=1",
        f"--mage_samples={samples}",
        "--mage_round_budget=60",  # under ncu a sample takes far longer
        f"--benchmark_out={folder / 'store.json'}",
    ]
    return [ncu, "--csv", "--nvtx", *(word for pair in tool.items() for word in pair), str(bench), *program]


def run(arguments: list[str], folder: Path) -> str:
    """What ncu wrote, to its log and to standard output. Digits are grouped and pointed by locale: here by none."""
    environment = {**os.environ, "LC_ALL": "C"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(arguments, env=environment, process_group=0, **pipes) as process:
        try:
            printed = [stream.decode(errors="replace") for stream in process.communicate()]
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)  # the program under ncu, too
            raise
    log = folder / "ncu.csv"
    text = "\n".join((log.read_text(errors="replace") if log.exists() else "", *printed))
    if process.returncode != 0:
        end = "\n".join(text.strip().splitlines()[-8:])
        raise NcuError(f"exit code {process.returncode} of: {' '.join(arguments)}\n{end}")
    return text


def origin(ncu: str, store: dict) -> dict:
    """Where the counters come from: the run's own provenance and device, and ncu's version."""
    try:
        said = subprocess.run([ncu, "--version"], capture_output=True, check=False).stdout.decode(errors="replace")
    except OSError:
        said = ""
    version = next((word for word in said.split() if word[:1].isdigit() and "." in word), None)
    mage = store.get("mage")
    mage = mage if isinstance(mage, dict) else {}
    return {"provenance": mage.get("provenance"), "device": mage.get("device"), "ncu": version}


def measure(ncu: str, bench: Path, name: str, samples: int) -> Reading:
    reading = Reading(name)
    for metrics in GROUPS:
        with tempfile.TemporaryDirectory(prefix="mage_ncu_") as holder:
            folder = Path(holder)
            try:
                report = parse(run(command(ncu, bench, name, metrics, samples, folder), folder), metrics)
                reading.store = json.loads((folder / "store.json").read_text())
                timed = between_stamps(report.launches, parts(name)[3])
            except (NcuError, OSError, ValueError) as error:
                raise NcuError(f"{name}: {error}") from None
        reading.kernels = len(timed[0])
        reading.passes = max(reading.passes, report.passes)
        reading.samples.update(per_sample(timed, metrics))
    return reading


def kernel_medians(path: Path) -> dict[str, float]:
    """Medians of the store's benchmarks in mode kernel, by name without the mode."""
    try:
        rows = json.loads(path.read_text())["mage"]["aggregates"]
        medians = {row["name"]: row["median_us"] for row in rows if row["name"].endswith("/kernel")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NcuError(f"{path}: not a readable store: {error!r}") from error
    for name, median in medians.items():
        if type(median) not in (int, float) or not 0 < median <= sys.float_info.max:
            raise NcuError(f"{path}: not a readable store: the median_us of {name} is {median!r}, no time")
    return {name.removesuffix("/kernel"): median for name, median in medians.items()}


def read_from_memory(reading: Reading, mode: str) -> Check:
    """Of what was read through L2, how much memory delivered."""
    through = SECTOR_BYTES * reading.median(SECTORS_READ)
    share = 100 * reading.median(DRAM_READ) / through if through else math.nan
    if mode == "event_cold":
        limit, holds = f"> {COLD_ABOVE_PERCENT} %", share > COLD_ABOVE_PERCENT
    else:
        limit, holds = f"< {WARM_BELOW_PERCENT} %", share < WARM_BELOW_PERCENT
    measured = f"{share:.1f} %" if through else "it reads nothing"
    return Check(f"{reading.name}: read from memory", limit, measured, holds)


def checks(readings: list[Reading], store: dict[str, float] | None, tolerance: float) -> list[Check]:
    found = []
    names = {reading.name for reading in readings}
    for reading in readings:
        stem, mode = reading.name.rsplit("/", 1)
        if reading.passes > 1:
            found.append(Check(f"{reading.name}: passes", "1", f"{reading.passes}: counters are not of one run", False))
        if {f"{stem}/event", f"{stem}/event_cold"} <= names:
            found.append(read_from_memory(reading, mode))
        if store is not None and mode == "event":
            if stem not in store:
                found.append(Check(f"{reading.name}: time", "that of the store", f"it has no {stem}/kernel", False))
                continue
            ratio = reading.median(TIME) / store[stem]
            found.append(
                Check(
                    f"{reading.name}: time over the store's {store[stem]:.2f} us in mode kernel",
                    f"1 within {100 * tolerance:g} %",
                    f"{ratio:.4f}",
                    abs(ratio - 1) <= tolerance,
                )
            )
    return found


def aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def table_rows(readings: list[Reading]) -> list[list[str]]:
    rows = [["benchmark", "samples", "kernels", "gpu time us", "L2 hit %", "L2 read MB", "DRAM read MB", "written MB"]]
    for reading in readings:
        rows.append(
            [
                reading.name,
                str(len(reading.samples[TIME])),
                str(reading.kernels),
                f"{reading.median(TIME):.3f}",
                f"{reading.median(HIT_RATE):.1f}",
                f"{reading.median(SECTORS_READ) * SECTOR_BYTES / 1e6:.2f}",
                f"{reading.median(DRAM_READ) / 1e6:.2f}",
                f"{reading.median(DRAM_WRITTEN) / 1e6:.2f}",
            ]
        )
    return rows


def check_rows(found: list[Check]) -> list[list[str]]:
    rows = [["check", "expected", "measured", ""]]
    return rows + [[check.what, check.expected, check.measured, "ok" if check.holds else "FAILED"] for check in found]


def from_json(stored: dict) -> tuple[list[Reading], list[Check]]:
    """What as_json() wrote."""
    readings = [Reading(b["name"], b["kernels"], b["passes"] or 0, b["samples"]) for b in stored["benchmarks"]]
    return readings, [Check(**check) for check in stored["checks"]]


def as_json(readings: list[Reading], found: list[Check], origin: dict, stopped: str | None) -> str:
    return json.dumps(
        {
            "schema": "mage_bench/ncu_check/1",
            "origin": origin,
            "stopped": stopped,  # by what, where not all was read that was asked for
            "benchmarks": [
                {"name": r.name, "kernels": r.kernels, "passes": r.passes or None, "samples": r.samples}
                for r in readings
            ],
            "checks": [vars(check) for check in found],
        },
        indent=1,
    )


def say(text: str) -> None:
    print(f"ncu_check: {text}", file=sys.stderr, flush=True)


def parse_arguments(argv: list[str]):
    """The options, the names to measure, the medians of the store."""
    parser = argparse.ArgumentParser(
        description="Hardware counters of benchmarks, by Nsight Compute", epilog=f"Without names: {', '.join(DEFAULT)}"
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="family/variant/problem/mode, mode event or event_cold"
    )
    parser.add_argument("--bench", type=Path, default=ROOT / "build/gpu/mage_bench", help="the program")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command line tool")
    parser.add_argument("--samples", type=int, default=12, help="counted samples a benchmark [%(default)s]")
    parser.add_argument("--store", type=Path, help="a store with the same benchmarks in mode kernel")
    parser.add_argument("--tolerance", type=float, default=0.1, help="of the time against the store [%(default)s]")
    parser.add_argument("--out", type=Path, help="where every sample goes, as JSON")
    options = parser.parse_args(argv)
    if options.samples < 3 or not 0 < options.tolerance < 1:
        parser.error("--samples must be at least 3, --tolerance inside (0, 1)")
    names = list(dict.fromkeys(options.names or DEFAULT))
    try:
        for name in names:
            parts(name)
        store = kernel_medians(options.store) if options.store else None
    except NcuError as error:
        parser.error(str(error))
    if not options.bench.is_file() or not os.access(options.bench, os.X_OK):
        parser.error(f"--bench={options.bench} is no program: build it with tools/test.sh, or name it")
    if options.out and (why := output.why_not(options.out, options.out.parent)):
        parser.error(why)
    return options, names, store


def report(options, readings: list[Reading], store: dict[str, float] | None, stopped: str | None) -> bool:
    """Prints and writes what was read; whether that was possible and every check holds."""
    found = checks(readings, store, options.tolerance)
    tables = [table_rows(readings), *([check_rows(found)] if found else [])]
    failures = [output.show("\n\n".join(map(aligned, tables)))]
    if options.out:
        try:
            with options.out.open("x") as file:
                file.write(as_json(readings, found, origin(options.ncu, readings[-1].store), stopped) + "\n")
        except OSError as error:
            failures.append(f"--out={options.out} was not written whole: {error.strerror}; the table has the medians")
    for failure in filter(None, failures):
        say(failure)
    return not any(failures) and all(check.holds for check in found)


def run_all(options, names: list[str], store: dict[str, float] | None) -> int:
    readings: list[Reading] = []
    code, stopped = 0, None
    try:
        for name in names:
            readings.append(measure(options.ncu, options.bench.resolve(), name, options.samples))
    except NcuError as error:
        code, stopped = 1, str(error)
    except KeyboardInterrupt:
        code, stopped = 130, "interrupted"
    if stopped:
        say(f"{stopped}\nncu_check: {len(readings)} of {len(names)} benchmarks were read")
    if readings and not report(options, readings, store, stopped):
        code = code or 1
    return code


def main(argv: list[str]) -> int:
    try:
        options, names, store = parse_arguments(argv)
        if shutil.which(options.ncu) is None:
            say(f"'{options.ncu}' was not found: install Nsight Compute or name it with --ncu")
            return 3
        return run_all(options, names, store)
    except KeyboardInterrupt:  # before the first run, or while what was read is written
        say("interrupted")
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
