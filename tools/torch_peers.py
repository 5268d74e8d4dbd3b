#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures PyTorch, eager and compiled, beside this project's kernels: tools/torch_peers.py --out PEERS.json

The same tensors, sweep, delay, events, streams and rounds for all, through libmage_launch.so (target mage_launch), on
the problems that mage_bench lists. The result is a store: mage_compare PEERS.json --baseline=torch_compile compares it,
paired by round. docs/peers.md says how it is measured.

Exit codes: 0 measured, 1 something was wrong or failed, 2 usage, 3 no PyTorch or no GPU, 130 interrupted.
"""

import argparse
import os
import platform
import re
import signal
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers import families, store, timer  # noqa: E402
from peers.measure import COMPILE_MODES, MODES, Run, say  # noqa: E402
from peers.store import UsageError, Variant  # noqa: E402

PROVIDERS = ("eager", *COMPILE_MODES)


def words(known: tuple[str, ...] | None):
    def parse(text: str) -> list[str]:
        found = list(dict.fromkeys(word for word in text.split(",") if word))
        unknown = [word for word in found if known and word not in known]
        if unknown or not found:
            raise argparse.ArgumentTypeError(f"'{text}'" + (f" is not of {','.join(known)}" if known else " is empty"))
        return found

    return parse


def count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,4}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 99999")
    return int(text)


def multiple_of_four(text: str) -> int:
    if not re.fullmatch(r"\d{1,7}", text) or int(text) % 4:
        raise argparse.ArgumentTypeError(f"'{text}' is no multiple of 4: operands are aligned to 16 bytes")
    return int(text)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, required=True, help="the store to write; an existing one is not overwritten"
    )
    parser.add_argument(
        "--families", type=words(None), help=f"of {','.join(families.FAMILIES)} [all that this build has]"
    )
    parser.add_argument("--problems", default=".", help="regular expression on the problems' names [all]")
    parser.add_argument("--modes", type=words(MODES), default=list(MODES), help="[%(default)s]")
    parser.add_argument(
        "--providers",
        type=words(PROVIDERS),
        default=["eager", "compile"],
        help=f"of {','.join(PROVIDERS)} [eager,compile]",
    )
    parser.add_argument("--variants", type=words(None), default=["best"], help="of ours, measured as mage_NAME [best]")
    parser.add_argument("--rounds", type=count, help="[at least 10, a whole number of balanced designs]")
    parser.add_argument("--event_samples", type=count, default=25, help="a round [%(default)s]")
    parser.add_argument("--graph_samples", type=count, default=8, help="a round [%(default)s]")
    parser.add_argument("--seed", type=count, default=1, help="of the inputs and the order [%(default)s]")
    parser.add_argument("--bench", type=Path, default=ROOT / "build/gpu/mage_bench")
    parser.add_argument("--library", type=Path, default=ROOT / "build/gpu/libmage_launch.so")
    parser.add_argument(
        "--fence", type=multiple_of_four, default=families.FENCE, help="elements around an operand [%(default)s]"
    )
    parser.add_argument(
        "--compile_cache", type=Path, help="folder in which torch.compile keeps what it made [none kept]"
    )
    parser.add_argument("--dry_run", action="store_true", help="print what would be measured, and exit; needs no GPU")
    return parser.parse_args()


def plan_of(arguments, listed):
    """[(problem, variants, steps)], and what the store says of it."""
    chosen, lacking = store.choose_families(listed, list(families.FAMILIES), arguments.families)
    if lacking:
        say(f"this build has no family {', '.join(lacking)}: not measured")
    problems = store.choose_problems(listed, chosen, arguments.problems)
    theirs = [Variant(f"torch_{provider}", "pytorch", "tools/peers/families.py") for provider in arguments.providers]
    ours = {family: store.choose_ours(listed, family, arguments.variants) for family in chosen}
    planned, unsupported, fixtures, orders, balanced = [], [], [], [], True
    for problem in problems:
        variants = list(theirs)
        for variant in ours[problem.family]:
            takes = store.of_variant(listed, problem, variant.library_variant)["accepts"]
            (variants if takes else unsupported).append(variant if takes else (problem, variant))
        rounds = arguments.rounds or timer.default_rounds(len(variants))
        balanced = balanced and rounds % len(timer.williams(len(variants))) == 0
        steps = timer.steps_of(
            len(variants), arguments.modes, rounds, f"{arguments.seed} {problem.family} {problem.name}"
        )
        places = {}
        for index, variant in enumerate(variants):
            for mode in arguments.modes:
                places[index, mode] = len(fixtures)
                fixtures.append(store.name_of(problem, variant, mode))
        numbered = [[places[index, mode], number] for number, mode, index in steps]
        orders.append({"family": problem.family, "problem": problem.name, "traced": False, "steps": numbered})
        planned.append((problem, variants, steps))
    fixtures += [store.name_of(*pair, mode) for pair in unsupported for mode in arguments.modes]
    return planned, unsupported, balanced, {"fixtures": fixtures, "problems": orders}


def options_of(arguments, balanced: bool) -> dict:
    return {
        "filter": f"tools/torch_peers.py --problems={arguments.problems}",
        "modes": arguments.modes,
        "rounds": arguments.rounds,
        "samples": {"event_cold": arguments.event_samples, "graph": arguments.graph_samples},
        "seed": arguments.seed,
        "device": 0,
        "balanced": balanced,
        "fence": arguments.fence,
    }


def versions(arguments) -> dict:
    torch = families.torch
    try:
        from triton import __version__ as triton
    except ImportError:
        triton = None
    return {
        "tool": "tools/torch_peers.py",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "torch_cuda": torch.version.cuda,
        "triton": triton,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "tf32": False,
        "compile": {
            provider: COMPILE_MODES[provider] or "default"
            for provider in arguments.providers
            if provider in COMPILE_MODES
        },
        "launch_library_sha256": store.sha256_of(arguments.library),
    }


def why_no_gpu() -> str | None:
    if families.torch is None:
        return f"PyTorch cannot be imported ({families.WHY_NO_TORCH}): install torch with CUDA"
    if not families.torch.cuda.is_available():
        return "PyTorch sees no CUDA device: there is nothing to measure on"
    return None


def raise_interrupt(*_) -> None:
    raise KeyboardInterrupt


def measure(arguments, listed, planned, unsupported, balanced: bool, plan: dict) -> int:
    torch = families.torch
    torch.set_float32_matmul_precision("highest")  # no TF32, as the contracts have it
    try:
        clock = timer.Timer(timer.Library(arguments.library))
    except OSError as error:
        raise UsageError(
            f"cannot load {arguments.library}: {error}; build the target mage_launch, or name it by --library"
        ) from error
    # A kernel of ours that is there anyway: its run says what there is to say of the machine and the build.
    smallest = min(planned, key=lambda item: item[0].rows * item[0].cols)[0]
    probe = store.probe_run(arguments.bench, store.some_benchmark(listed, smallest))
    journal = store.Journal(arguments.bench, arguments.out)
    journal.append(store.header_of(probe, versions(arguments), options_of(arguments, balanced), plan))
    run = Run(arguments, listed, clock, journal, plan)
    for problem, variant in unsupported:
        for mode in arguments.modes:
            run.status(store.name_of(problem, variant, mode), "unsupported", "the variant does not accept this problem")
    interrupted = broken = False
    signal.signal(signal.SIGTERM, raise_interrupt)
    try:
        for index, (problem, variants, steps) in enumerate(planned):
            run.measure(problem, variants, steps)
            run.forget()
            if index + 1 == len(planned) or planned[index + 1][0].family != problem.family:
                journal.save()
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted: the store holds what was measured; its newest rows lack the closing check")
    except (
        RuntimeError
    ) as error:  # of the device, outside of any one operation: what was measured is saved all the same
        broken = True
        say(f"gave up: {error}")
    run.end(interrupted or broken)
    journal.close()
    say(f"store: {arguments.out}" if journal.saved else "nothing was measured, so there is no store")
    if interrupted:
        return 130
    return 1 if broken or run.failures or not journal.saved else 0


def main() -> int:
    arguments = parse_arguments()
    try:
        listed = store.list_benchmarks(arguments.bench)
        planned, unsupported, balanced, plan = plan_of(arguments, listed)
        if arguments.dry_run:
            for name in plan["fixtures"]:
                print(name)
            return 0
        if arguments.out.exists():
            raise UsageError(f"{arguments.out} exists; nothing is overwritten: choose another --out, or move it away")
        if reason := why_no_gpu():
            print(f"torch_peers.py: {reason}", file=sys.stderr)
            return 3
        with tempfile.TemporaryDirectory(prefix="torch_peers_", ignore_cleanup_errors=True) as temporary:
            cache = arguments.compile_cache.resolve() if arguments.compile_cache else Path(temporary)
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
            os.environ["TRITON_CACHE_DIR"] = str(cache / "triton")
            return measure(arguments, listed, planned, unsupported, balanced, plan)
    except UsageError as error:
        print(f"torch_peers.py: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"torch_peers.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
