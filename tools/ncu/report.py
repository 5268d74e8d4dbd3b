# SPDX-License-Identifier: Apache-2.0
"""What Nsight Compute printed of a run: its launches, and which of them are a sample's operation."""

import csv
import math
import re
from dataclasses import dataclass

TIME = "gpu__time_duration.sum"
HIT_RATE = "lts__t_sector_hit_rate.pct"
SECTORS_READ = "lts__t_sectors_op_read.sum"
DRAM_READ = "dram__bytes_read.sum"
DRAM_WRITTEN = "dram__bytes_write.sum"
GROUPS = [[TIME, HIT_RATE, SECTORS_READ], [DRAM_READ, DRAM_WRITTEN]]

# What the harness launches just before the begin stamp, by mode. Names as in src/device/harness_kernels.cu.
HARNESS = "mage_harness_"
GATES = {"event": "mage_harness_delay", "event_cold": "mage_harness_read_sweep"}

# ncu's units, by version, in microseconds, bytes, percent and sectors.
UNITS = {
    **{"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9},
    **{"%": 1.0, "sector": 1.0, "": 1.0},
}


class NcuError(Exception):
    """What went wrong and what to do, in words for the user."""


@dataclass
class Launch:
    kernel: str
    values: dict[str, float]


@dataclass
class Report:
    """What ncu said of one run."""

    launches: list[Launch]
    passes: int  # the most that any kernel took; 0 where it was not said


def number(text: str, metric: str, unit: str) -> float:
    if unit not in UNITS:
        raise NcuError(f"{metric} is in '{unit}', a unit that tools/ncu_check.py does not know")
    try:
        value = float(text.replace(",", "")) * UNITS[unit]
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise NcuError(f"ncu has '{text}' for {metric}: this GPU or this user cannot read that counter")
    return value


def parse(text: str, metrics: list[str]) -> Report:
    """The launches of `ncu --csv --page raw`, in order. Other lines, the program's or ncu's, are left out."""
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if line.lstrip("\ufeff").startswith('"ID"')), None)
    if head is None:
        said = [line for line in lines if line.startswith(("==ERROR==", "==WARNING=="))]
        if any("ERR_NVGPUCTRPERM" in line for line in lines):
            said.append("this user may not read counters: see https://developer.nvidia.com/ERR_NVGPUCTRPERM")
        raise NcuError("ncu printed no table: " + ("; ".join(said) or "no kernel was profiled"))
    try:
        rows = list(csv.reader(line for line in lines[head:] if line.startswith('"')))
    except csv.Error as error:
        raise NcuError(f"ncu's table cannot be read: {error}") from None
    columns = {name: i for i, name in enumerate(rows[0])}
    missing = [name for name in ["Kernel Name", *metrics] if name not in columns]
    if missing:
        raise NcuError(f"ncu's table has no column {', '.join(missing)}; it has {', '.join(columns)}")
    units = {name: "" for name in metrics}
    launches = []
    for row in rows[1:]:
        if len(row) != len(columns):
            raise NcuError(f"a line of ncu's table has {len(row)} fields, its head {len(columns)}: {row[:5]}")
        if row[0] == "":  # the units: a line without an id
            units = {name: row[columns[name]] for name in metrics}
            continue
        values = {name: number(row[columns[name]], name, units[name]) for name in metrics}
        launches.append(Launch(row[columns["Kernel Name"]], values))
    if not launches:
        raise NcuError("ncu's table has no launch")
    passes = [int(count) for count in re.findall(r"^==PROF== Profiling .* - (\d+) pass(?:es)?\b", text, re.MULTILINE)]
    return Report(launches, max(passes, default=0))


def between_stamps(launches: list[Launch], mode: str) -> list[list[Launch]]:
    """For each sample the launches of the timed operation.

    Behind the gate stand the timed operation and, but for the last sample of a round, the untimed one of the next.
    """
    runs: list[list[Launch]] = []
    inside = False
    for launch in launches:
        name = re.sub(r"^(?:void )?(?:\w+::)*", "", launch.kernel)
        if name.startswith(HARNESS):
            inside = name.startswith(GATES[mode])
            if inside:
                runs.append([])
        elif inside:
            runs[-1].append(launch)
    runs = [run for run in runs if run]
    if not runs:
        raise NcuError(f"none of {len(launches)} launches lies behind {GATES[mode]}: no sample was profiled whole")
    kernels = min(len(run) for run in runs)
    odd = sorted({len(run) for run in runs} - {kernels, 2 * kernels})
    if odd:
        raise NcuError(f"an operation launches {kernels} kernels in one sample and {odd} in others")
    return [run[:kernels] for run in runs]


def per_sample(samples: list[list[Launch]], metrics: list[str]) -> dict[str, list[float]]:
    """Sums over an operation's kernels; of the hit rate the mean, weighted by what the kernels read."""
    result: dict[str, list[float]] = {}
    for metric in metrics:
        if metric != HIT_RATE:
            result[metric] = [sum(launch.values[metric] for launch in sample) for sample in samples]
            continue
        result[metric] = []
        for sample in samples:
            weights = [launch.values[SECTORS_READ] for launch in sample]
            if sum(weights) == 0:
                weights = [1.0] * len(sample)
            rates = [launch.values[HIT_RATE] for launch in sample]
            result[metric].append(sum(r * w for r, w in zip(rates, weights, strict=True)) / sum(weights))
    return result
