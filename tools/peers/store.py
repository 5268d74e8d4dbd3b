# SPDX-License-Identifier: Apache-2.0
"""What is measured becomes a store (docs/store.md): lines of a journal, of which mage_bench --mage_recover makes the
store, so that its aggregates are those of any other run."""

import datetime
import hashlib
import json
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import output

SCHEMA = "mage_bench/store/1"
PROTOCOL = 3  # of mage_bench's protocols, the one that this tool follows (docs/peers.md)
FLOOR_FACTOR = 3
INVALID_SHARE = 0.2
PLAIN = re.compile(r"(\d+)x(\d+)")
# What this tool reads of mage_bench --mage_list=json: of every variant, and of those that this build holds.
NUMBER, TEXT_OR_NULL = (int, float), (str, type(None))
LISTED = {
    **dict.fromkeys(("name", "family", "variant", "problem", "mode", "source"), str),
    **{"skipped": TEXT_OR_NULL, **dict.fromkeys(("flops", "bytes_read", "bytes_written"), NUMBER)},
}
LISTED_OF_BUILT = {**LISTED, "provider": str, "parent": TEXT_OR_NULL, "accepts": bool}


class UsageError(Exception):
    """What the user can mend, in words."""


class JournalError(Exception):
    """What was measured cannot be written down."""


@dataclass(frozen=True)
class Problem:
    family: str
    name: str
    rows: int
    cols: int
    work: dict


@dataclass(frozen=True)
class Variant:
    """One side of the comparison, as rows name it."""

    name: str
    provider: str
    source: str
    parent: str | None = None
    note: str = ""
    library_variant: str | None = None  # of ours: its name in the registry


def run_bench(bench: Path, *flags: str, may_be_empty: bool = False) -> str:
    try:
        done = subprocess.run([bench, *flags], capture_output=True, text=True)
    except OSError as error:
        raise UsageError(
            f"cannot run {bench}: {error.strerror}; build the target mage_bench, or name it by --bench"
        ) from error
    if done.returncode and not (may_be_empty and done.returncode == 3):  # 3: no row has a time
        raise RuntimeError(f"{bench.name} {' '.join(flags)} exited with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def list_benchmarks(bench: Path) -> list[dict]:
    """All that this build has on a GPU, once a problem: the lists of problems and of work are the families' own."""
    try:
        listed = json.loads(run_bench(bench, "--mage_list=json", "--benchmark_filter=.", "--mage_modes=event_cold"))
        for entry in listed:
            for field, kind in (LISTED if entry["skipped"] else LISTED_OF_BUILT).items():
                if not isinstance(entry[field], kind):
                    raise TypeError(f"{field} is {entry[field]!r}")
        return [entry for entry in listed if entry["mode"] == "event_cold"]
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else error
        raise UsageError(
            f"{bench} is no mage_bench: it does not list benchmarks ({why}); name one by --bench"
        ) from error


def choose_families(listed: list[dict], known: list[str], wanted: list[str] | None) -> tuple[list[str], list[str]]:
    """Those to measure; and where none were named, those of the table that this build lacks."""
    there = list(dict.fromkeys(entry["family"] for entry in listed))
    for family in wanted or []:
        if family not in known:
            raise UsageError(f"--families: PyTorch's side of '{family}' is not known; known are {', '.join(known)}")
        if family not in there:
            raise UsageError(f"--families: this build has no family '{family}'; it has {', '.join(there)}")
    chosen = list(dict.fromkeys(wanted)) if wanted else [family for family in known if family in there]
    if not chosen:
        raise UsageError(f"this build has none of the families {', '.join(known)}; it has {', '.join(there)}")
    return chosen, [] if wanted else [family for family in known if family not in there]


def choose_problems(listed: list[dict], families: list[str], pattern: str) -> list[Problem]:
    try:
        search = re.compile(pattern).search
    except re.error as error:
        raise UsageError(f"--problems={pattern} is no regular expression: {error}") from error
    problems = {}
    for entry in listed:
        name = entry["problem"]
        key = (entry["family"], name)
        if entry["family"] not in families or key in problems or not search(name):
            continue
        plain = PLAIN.fullmatch(name)
        if not plain:
            raise UsageError(f"{entry['family']}/{name}: only problems of the form ROWSxCOLS can be made; exclude it")
        work = {what: entry[what] for what in ("flops", "bytes_read", "bytes_written")}
        problems[key] = Problem(*key, int(plain[1]), int(plain[2]), work)
    if not problems:
        there = dict.fromkeys(entry["problem"] for entry in listed if entry["family"] in families)
        raise UsageError(f"--problems={pattern} matches none of {', '.join(there)}")
    return sorted(problems.values(), key=lambda problem: families.index(problem.family))


def on_gpu(listed: list[dict], family: str) -> dict[str, dict]:
    own = [entry for entry in listed if entry["family"] == family and not entry["skipped"]]
    return {entry["variant"]: entry for entry in own if not entry["source"].endswith(".cpp")}


def choose_ours(listed: list[dict], family: str, names: list[str], known: list[str]) -> list[Variant]:
    there = on_gpu(listed, family)
    for name in names:
        if name not in there:
            having = ", ".join(other for other in known if name in on_gpu(listed, other)) or "none"
            raise UsageError(
                f"--variants: {family} has no GPU variant '{name}' in this build; it has {', '.join(there) or 'none'}; "
                f"families that have '{name}': {having}"
            )
    return [
        Variant(
            f"mage_{name}", there[name]["provider"], there[name]["source"], there[name]["parent"], library_variant=name
        )
        for name in names
    ]


def of_variant(listed: list[dict], problem: Problem, name: str | None) -> dict:
    """What the build says of this variant on this problem; empty for none of ours."""
    for entry in listed:
        if (entry["family"], entry["problem"], entry["variant"]) == (problem.family, problem.name, name):
            return entry
    return {}


def some_benchmark(listed: list[dict], problem: Problem) -> str:
    """A GPU benchmark of this problem that the build can run."""
    for entry in listed:
        here = (entry["family"], entry["problem"]) == (problem.family, problem.name)
        if here and not entry["skipped"] and entry["accepts"]:
            return entry["name"].rsplit("/", 1)[0] + "/event"
    raise UsageError(f"this build has no GPU variant that takes {problem.family}/{problem.name}")


def name_of(problem: Problem, variant: Variant, mode: str) -> str:
    return f"{problem.family}/{variant.name}/{problem.name}/{mode}"


def utc_now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def probe_run(bench: Path, benchmark: str) -> dict:
    """The store of the shortest run there is: what mage_bench says of the machine, the build and itself."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "probe.json"
        run_bench(
            bench, f"--benchmark_filter=^{benchmark}$", "--mage_rounds=1", "--mage_samples=1", f"--benchmark_out={out}"
        )
        return json.loads(out.read_text())


def sha256_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def header_of(probe: dict, peers: dict, options: dict, plan: dict) -> dict:
    """The journal's first line. The program that ran is Python, so the executable has no hash; the library has one."""
    run_id = secrets.token_hex(16)
    arguments = [Path(sys.argv[0]).name, *sys.argv[1:]]
    provenance = {
        **probe["mage"]["provenance"],
        "run_id": run_id,
        "started_utc": utc_now(),
        "argv": arguments,
        "executable_sha256": None,
        "peers": peers,
    }
    return {
        "kind": "header",
        "schema": SCHEMA,
        "protocol": PROTOCOL,
        "context": {**probe["context"], "executable": arguments[0], "mage_schema": SCHEMA, "mage_run_id": run_id},
        "provenance": provenance,
        "options": options,
        "device": probe["mage"]["device"],
        "plan": plan,
    }


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


class Quanta:
    """The step of the clock by mode: the smallest difference between two samples that this run has seen."""

    def __init__(self):
        self.smallest = {}

    def __call__(self, mode: str, samples_us: list[float]) -> float | None:
        ordered = sorted(samples_us)
        steps = [round(b - a, 6) for a, b in zip(ordered, ordered[1:], strict=False)]
        seen = [step for step in (*steps, self.smallest.get(mode, 0)) if step > 0]
        if seen:
            self.smallest[mode] = min(seen)
        return self.smallest.get(mode)


def flags_of(median_us: float, samples, floor_us: float | None, settled: bool, clocks: tuple) -> list[str]:
    before, after = clocks
    flags = []
    if not settled:
        flags.append("clock_unsettled")
    if before and after and abs(after / before - 1) > 0.01:
        flags.append("clock_moved")
    if samples.gate_missed:
        flags.append("gate_missed")
    if samples.gate_missed > INVALID_SHARE * len(samples.us) or not settled:
        flags.append("unstable")
    if floor_us and median_us < FLOOR_FACTOR * floor_us:
        flags.append("floor_dominated")
    return flags


def row_of(problem: Problem, variant: Variant, mode: str, samples, block: dict) -> dict:
    """A row of `benchmarks`; `block` holds what this module cannot know of its `mage`."""
    median_us = statistics.median(samples.us)
    if not median_us > 0:
        raise RuntimeError(f"the median of {len(samples.us)} samples is {median_us} us: too short for this mode")
    name = name_of(problem, variant, mode)
    moved = problem.work["bytes_read"] + problem.work["bytes_written"]
    deviations = [abs(us - median_us) for us in samples.us]
    row = {
        "name": name,
        "run_name": name,
        "run_type": "iteration",
        "repetitions": block["rounds"],
        "repetition_index": block["round"],
        "threads": 1,
        "iterations": 1,
        "real_time": median_us,
        "cpu_time": block["host_us_end"] - block["host_us_begin"],
        "time_unit": "us",
        "family_index": block.pop("fixture"),
        "per_family_instance_index": 0,
        "samples": len(samples.us),
        "mad_us": 1.4826 * statistics.median(deviations),
        "min_us": min(samples.us),
        **{f"p{q}_us": quantile(samples.us, q / 100) for q in (10, 90, 99)},
        "gbytes_per_s": moved / median_us / 1e3,
        "tflops": problem.work["flops"] / median_us / 1e6,
        "samples_us": samples.us,
    }
    row["mage"] = {
        "family": problem.family,
        "variant": variant.name,
        "problem": problem.name,
        "mode": mode,
        "provider": variant.provider,
        "parent": f"mage_{variant.parent}" if variant.parent else None,
        "source": variant.source,
        "device": "cuda",
        "work": problem.work,
        "kernels": [],
        "figures": samples.figures,
        "gate_missed": samples.gate_missed,
        "parts_us": samples.parts,
        **block,
    }
    return row


def journal_of(out: Path) -> Path:
    return out.with_name(out.name + ".journal.jsonl")


def how_to_recover(out: Path) -> str:
    """A store that was saved in mid-run is in the way of the whole one."""
    return f"mage_bench --mage_recover={journal_of(out)}" + (" --mage_overwrite" if out.exists() else "")


def check_out(out: Path) -> None:
    """Where its folder is still to be made, it is the nearest one above that must be writable."""
    try:
        if out.name and journal_of(out).exists():
            raise UsageError(
                f"{journal_of(out)} exists: an earlier run did not end, or still runs; make its store by "
                f"{how_to_recover(out)}, or move it away"
            )
        folder = next(folder for folder in out.absolute().parents if folder.exists())
    except OSError as error:
        raise UsageError(f"--out={out}: {error.strerror}; choose another") from error
    if why := output.why_not(out, folder):
        raise UsageError(why)


class Journal:
    """What was measured, line by line, and the store that is made of it."""

    def __init__(self, bench: Path, out: Path):
        self.bench, self.out = bench, out
        self.path = journal_of(out)
        check_out(out)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("xb", buffering=0)  # what failed is not written again later
        except OSError as error:
            raise UsageError(f"cannot create {self.path}: {error.strerror}; choose another --out") from error
        self.saved = False
        self.rows = 0

    def append(self, entry: dict) -> None:
        line = (json.dumps(entry, allow_nan=False) + "\n").encode()
        try:
            while line:
                line = line[self.file.write(line) :]
        except OSError as error:
            raise self.error(f"cannot write {self.path}: {error.strerror}") from error
        self.rows += entry["kind"] == "row"

    def error(self, what: str) -> JournalError:
        return JournalError(f"{what}; free space, then make a store of what was measured: {how_to_recover(self.out)}")

    def save(self) -> None:
        """Makes the store of all that is in the journal so far."""
        if not self.rows:
            return
        overwrite = ["--mage_overwrite"] if self.saved else []
        flags = [f"--mage_recover={self.path}", f"--benchmark_out={self.out}", *overwrite]
        try:
            run_bench(self.bench, *flags, may_be_empty=True)
        except (RuntimeError, UsageError) as error:
            raise self.error(str(error)) from error
        self.saved = True

    def close(self) -> None:
        """The journal goes once its store is there; without a row there is none."""
        self.save()
        self.file.close()
        self.path.unlink()
