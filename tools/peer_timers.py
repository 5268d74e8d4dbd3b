#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other timers say of the very operation that mage_bench times: tools/peer_timers.py --out PEERS.json

Needs a GPU, PyTorch, Triton, build/gpu/mage_bench and build/gpu/libmage_launch.so (target mage_launch: the same sources
and flags). nvbench takes part where its wheel, cuda-bench, can be imported; where not, the reason is written down.
Measured: do_bench and do_bench_cudagraph of Triton, cold and batched means of nvbench, and mage_bench's modes, each by
its own defaults; then how many seconds each needs until it tells 1 % more rows from none.
  --print PEERS.json   prints the tables of a file again, and measures nothing
"""

import argparse
import ctypes
import importlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import output

ROOT = Path(__file__).resolve().parent.parent
PROBLEMS = ("64x1024", "1024x4096", "8192x16384")
PLANTED = {"1024x4096": "1034x4096", "8192x16384": "8274x16384"}
MODES = ("event_cold", "event", "graph", "batch", "kernel")
MOST_CALLS = 30  # of a timer on each side, before it is said not to have told
TRIALS = 3
NVBENCH_PAIRS = 4


def student_t_975(dof: float) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, dof))


class Operation:
    """family/variant on tensors of PyTorch, launched through the library. `like` lends its tensors, of which the first
    rows are used: so that one operation and one with fewer rows differ in nothing else."""

    def __init__(self, library, variant: str, problem: str, like=None):
        import torch

        rows, cols = map(int, problem.split("x"))
        generator = torch.Generator(device="cuda").manual_seed(1)
        self.x = like.x[:rows] if like else torch.randn(rows, cols, device="cuda", generator=generator)
        self.bias = like.bias if like else torch.randn(cols, device="cuda", generator=generator)
        self.y = like.y[:rows] if like else torch.empty(rows, cols, device="cuda")
        self.y.fill_(math.nan)
        pointers = (ctypes.c_void_p * 3)(self.x.data_ptr(), self.bias.data_ptr(), self.y.data_ptr())
        self.library = library
        self.handle = library.mage_launch_open(f"gelu/{variant}/{problem}".encode(), pointers, 3)
        if not self.handle:
            raise RuntimeError(library.mage_launch_error().decode())
        self()
        torch.cuda.synchronize()
        expected = torch.nn.functional.gelu(self.x + self.bias)
        if not torch.allclose(self.y, expected, rtol=1e-5, atol=1e-5):
            raise RuntimeError(f"{variant} on {problem}: the library's output is not gelu(x + bias)")

    def on(self, stream: int) -> None:
        if self.library.mage_launch_run(self.handle, stream):
            raise RuntimeError(self.library.mage_launch_error().decode())

    def check(self) -> None:
        """After a timer: whatever of its launches failed is no time."""
        import torch

        torch.cuda.synchronize()
        if self.library.mage_launch_check(torch.cuda.current_stream().cuda_stream):
            raise RuntimeError(self.library.mage_launch_error().decode())

    def __del__(self) -> None:
        self.library.mage_launch_close(getattr(self, "handle", None))

    def __call__(self) -> None:
        import torch

        self.on(torch.cuda.current_stream().cuda_stream)


def load_library(path: Path):
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise RuntimeError(f"{error}\nbuild it: cmake --build {path.parent} --target mage_launch") from error
    library.mage_launch_open.restype = ctypes.c_void_p
    library.mage_launch_open.argtypes = (ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
    library.mage_launch_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    library.mage_launch_check.argtypes = (ctypes.c_void_p,)
    library.mage_launch_close.argtypes = (ctypes.c_void_p,)
    library.mage_launch_error.restype = ctypes.c_char_p
    return library


def triton_timers() -> dict:
    from triton import testing

    return {
        "do_bench": lambda op: testing.do_bench(op, return_mode="median") * 1e3,
        "do_bench_cudagraph": lambda op: testing.do_bench_cudagraph(op, return_mode="median") * 1e3,
    }


def run_nvbench(operations: dict, cells: list[str]) -> dict:
    """All cells "problem#k" in one run, since nvbench runs once a process: {cell: (summaries, seconds it took)}."""
    bench = importlib.import_module("cuda.bench")
    spent = {}

    def measure(state) -> None:
        cell = state.get_string("cell")
        operation = operations[cell.split("#")[0]]
        begin = time.perf_counter()
        state.exec(lambda launch: operation.on(launch.get_stream().addressof()))
        spent[cell] = time.perf_counter() - begin

    bench.register(measure).set_name("operation").add_string_axis("cell", cells)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nvbench.json"
        bench.run_all_benchmarks(["nvbench", "--json", str(path), "--quiet"])
        states = json.loads(path.read_text())["benchmarks"][0]["states"]
    found = {}
    for state in states:
        cell = next(axis["value"] for axis in state["axis_values"] if axis["name"] == "cell")
        summaries = {}
        for summary in state["summaries"] or []:
            value = next((item["value"] for item in summary.get("data", []) if item["name"] == "value"), None)
            if "/time/gpu/" in summary["tag"] and "relative" not in summary["tag"] and value is not None:
                summaries[summary["tag"]] = float(value) * 1e6
        found[cell] = (summaries, spent[cell])
    return found


def told_from(logs: list[float]) -> tuple[bool, bool]:
    """Whether the 95 % t interval of the log ratios excludes 0, and whether it lies above."""
    half = student_t_975(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.mean(logs)
    return abs(mean) > half, mean > half


def seconds_to_tell(timer, base, slower) -> dict:
    """Calls the timer on both in turn until the 95 % t interval of the log ratios excludes 0."""
    logs, told, begin = [], False, time.perf_counter()
    while len(logs) < MOST_CALLS:
        base_us = timer(base)
        logs.append(math.log(timer(slower) / base_us))
        if len(logs) >= 3:
            decided, told = told_from(logs)
            if decided:
                break
    return {
        "told": told,
        "calls": len(logs),
        "seconds": time.perf_counter() - begin,
        "ratio": math.exp(statistics.mean(logs)),
    }


def nvbench_seconds_to_tell(found: dict, base: str, slower: str) -> dict:
    """The same rule on the cells of one run of nvbench."""
    tag, logs, seconds, told = "nv/cold/time/gpu/mean", [], 0.0, False
    for k in range(NVBENCH_PAIRS):
        (first, first_s), (second, second_s) = found[f"{base}#{k}"], found[f"{slower}#{k}"]
        logs.append(math.log(second[tag] / first[tag]))
        seconds += first_s + second_s
        if len(logs) >= 3:
            decided, told = told_from(logs)
            if decided:
                break
    return {"told": told, "calls": len(logs), "seconds": seconds, "ratio": math.exp(statistics.mean(logs))}


def mage_rounds(store: dict, name: str) -> list[tuple[float, float]]:
    """(log median, seconds spent in samples) of each round."""
    rows = [row for row in store["benchmarks"] if row["name"] == name]
    rows.sort(key=lambda row: row["mage"]["round"])
    return [
        (math.log(row["real_time"]), (row["mage"]["host_us_end"] - row["mage"]["host_us_begin"]) / 1e6) for row in rows
    ]


def mage_seconds_to_tell(store: dict, base: str, slower: str) -> dict:
    """The same rule on the rounds of two problems: unpaired, so Welch's interval. Samples take a share of a run's wall
    time; gates, settling and inputs the rest, which is shared out by it."""
    share = store["mage"]["end"]["inside_samples_s"] / store["mage"]["end"]["wall_s"]
    first, second = mage_rounds(store, base), mage_rounds(store, slower)
    most = min(len(first), len(second))
    if most < 3:
        raise RuntimeError(f"{base} and {slower} have fewer than 3 rounds each: there is nothing to tell from")
    told = False
    for n in range(3, most + 1):
        a, b = [x for x, _ in first[:n]], [x for x, _ in second[:n]]
        va, vb = statistics.variance(a) / n, statistics.variance(b) / n
        difference = statistics.mean(b) - statistics.mean(a)
        dof = (va + vb) ** 2 / max((va**2 + vb**2) / (n - 1), 1e-300)
        half = student_t_975(max(dof, 1)) * math.sqrt(va + vb)
        if abs(difference) > half:
            told = difference > 0
            break
    return {
        "told": told,
        "calls": n,
        "seconds": (sum(s for _, s in first[:n]) + sum(s for _, s in second[:n])) / share,
        "ratio": math.exp(difference),
    }


def run_mage(bench: Path, variant: str, out: Path) -> dict:
    problems = sorted({*PROBLEMS, *PLANTED.values()})
    pattern = f"^gelu/{variant}/({'|'.join(problems)})/({'|'.join(MODES)})$"
    extra = [f"--mage_problem=gelu/{problem}" for problem in PLANTED.values()]
    subprocess.run([bench, f"--benchmark_filter={pattern}", *extra, f"--benchmark_out={out}"], check=True)
    return json.loads(out.read_text())


def versions() -> dict:
    import torch
    import triton

    found = {"torch": torch.__version__, "triton": triton.__version__, "gpu": torch.cuda.get_device_name(0)}
    try:
        from importlib.metadata import version

        found["cuda-bench"] = version("cuda-bench")
    except ImportError:
        pass
    return found


def measure(arguments) -> dict:
    library = load_library(arguments.library)
    result = {"variant": arguments.variant, "versions": versions(), "unavailable": {}, "figures": {}, "telling": {}}
    store_path = arguments.out.with_name(arguments.out.stem + "_mage.json")
    store = run_mage(arguments.bench, arguments.variant, store_path)
    aggregates = {row["name"]: row for row in store["mage"]["aggregates"]}
    result["mage_store"] = store_path.name
    save(arguments.out, result)
    timers = triton_timers()
    operations = {name: Operation(library, arguments.variant, name) for name in PLANTED.values()}
    for problem in PROBLEMS:
        like = operations.get(PLANTED.get(problem))
        operations[problem] = Operation(library, arguments.variant, problem, like)
    for problem in PROBLEMS:
        figures = result["figures"].setdefault(problem, {})
        for mode in MODES:
            row = aggregates[f"gelu/{arguments.variant}/{problem}/{mode}"]
            figures[f"mage_bench {mode}"] = {"us": row["median_us"], "floor_us": row["floor_us"]}
        for name, timer in timers.items():
            figures[name] = {"us": timer(operations[problem])}
            operations[problem].check()
    for problem, planted in PLANTED.items():
        telling = result["telling"].setdefault(problem, {})
        for mode in MODES:
            names = (f"gelu/{arguments.variant}/{name}/{mode}" for name in (problem, planted))
            telling[f"mage_bench {mode}"] = [mage_seconds_to_tell(store, *names)]
        for name, timer in timers.items():
            say(f"{name} on {problem} and {planted}")
            telling[name] = [seconds_to_tell(timer, operations[problem], operations[planted]) for _ in range(TRIALS)]
            operations[problem].check()
            operations[planted].check()
            save(arguments.out, result)
    add_nvbench(result, operations)
    save(arguments.out, result)
    return result


def add_nvbench(result: dict, operations: dict) -> None:
    """Last, and all at once: nvbench runs once a process, and says nothing until it is done."""
    cells = [f"{problem}#0" for problem in PROBLEMS if problem not in PLANTED]
    for problem, planted in PLANTED.items():
        cells += [f"{name}#{k}" for k in range(NVBENCH_PAIRS) for name in (problem, planted)]
    say(f"nvbench on {len(cells)} cells")
    try:
        found = run_nvbench(operations, cells)
    except Exception as error:  # whatever a foreign wheel throws is what is written down
        result["unavailable"]["nvbench"] = f"{type(error).__name__}: {error}"
        return
    for problem in PROBLEMS:
        result["figures"][problem]["nvbench"] = {"summaries": found[f"{problem}#0"][0]}
    for problem, planted in PLANTED.items():
        result["telling"][problem]["nvbench cold mean"] = [nvbench_seconds_to_tell(found, problem, planted)]


def save(path: Path, result: dict) -> None:
    """After every stage: what was measured outlives whatever comes after it."""
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    partial.replace(path)


def say(what: str) -> None:
    print(f"peer_timers.py: {what}", file=sys.stderr, flush=True)


def figures_table(result: dict) -> str:
    problems = list(result["figures"])
    rows = {}
    for problem, figures in result["figures"].items():
        for name, figure in figures.items():
            if "us" in figure:
                rows.setdefault(name, {})[problem] = figure["us"]
            for tag, value in figure.get("summaries", {}).items():
                if tag.endswith(("/time/gpu/mean", "/time/gpu/median")):
                    rows.setdefault(f"nvbench {tag.split('/')[1]} {tag.split('/')[-1]}", {})[problem] = value
    lines = [f"| {result['variant']}, us | {' | '.join(problems)} |", "| --- |" + " ---: |" * len(problems)]
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[p]:.2f}" if p in row else "-" for p in problems) + " |")
    return "\n".join(lines)


def telling_table(result: dict) -> str:
    lines = ["| 1 % more rows | problem | told | seconds | calls or rounds a side | ratio found |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
    for problem, timers in result["telling"].items():
        for name, trials in timers.items():
            told = sum(trial["told"] for trial in trials)
            seconds, calls, ratio = (
                statistics.median(trial[key] for trial in trials) for key in ("seconds", "calls", "ratio")
            )
            lines.append(
                f"| {name} | {problem} | {told} of {len(trials)} | {seconds:.2f} | {calls:.0f} | {ratio:.4f} |"
            )
    return "\n".join(lines)


def absolute(text: str) -> Path:
    return Path(text).absolute()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to write the figures, as JSON; the store goes beside it")
    parser.add_argument("--print", dest="show", type=Path, help="print the tables of such a file")
    parser.add_argument("--variant", default="v02_unrolled")
    # Absolute, since PATH or the system's folders would be searched for a Path of one word.
    parser.add_argument("--bench", type=absolute, default=ROOT / "build/gpu/mage_bench")
    parser.add_argument("--library", type=absolute, default=ROOT / "build/gpu/libmage_launch.so")
    arguments = parser.parse_args()
    if bool(arguments.out) == bool(arguments.show):
        parser.error("give either --out or --print")
    if arguments.show:
        try:
            result = json.loads(arguments.show.read_text())
            print(f"{figures_table(result)}\n\n{telling_table(result)}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            parser.error(f"{arguments.show}: not a file that this script wrote: {error!r}")
        for what, why in result["unavailable"].items():
            print(f"\n{what}: {why}")
        return 0
    if why := output.why_not(arguments.out, arguments.out.parent):
        parser.error(why)
    try:
        result = measure(arguments)
    except (ImportError, OSError, RuntimeError, subprocess.CalledProcessError) as error:
        print(f"peer_timers.py: {error}", file=sys.stderr)
        return 1
    print(f"{figures_table(result)}\n\n{telling_table(result)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
