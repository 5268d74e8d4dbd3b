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
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))


def exit_at_once(*_) -> None:
    os.write(2, b"torch_peers.py: interrupted: nothing was measured\n")
    os._exit(130)


def on_signals(handler) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell has it of what runs in the background
            signal.signal(number, handler)


if __name__ == "__main__":
    on_signals(exit_at_once)  # importing PyTorch takes seconds

import output  # noqa: E402
from peers import families, say, store, timer  # noqa: E402
from peers.measure import MODES, Run  # noqa: E402
from peers.session import COMPILE_MODES  # noqa: E402
from peers.store import JournalError, UsageError, Variant  # noqa: E402

PROVIDERS = ("eager", *COMPILE_MODES)


def words(known: tuple[str, ...] | None):
    def parse(text: str) -> list[str]:
        found = list(dict.fromkeys(word for word in text.split(",") if word))
        unknown = [word for word in found if known and word not in known]
        if unknown or not found:
            raise argparse.ArgumentTypeError(f"'{text}'" + (f" is not of {','.join(known)}" if known else " is empty"))
        return found

    return parse


def count(most: int):
    def parse(text: str) -> int:
        if not re.fullmatch("[1-9][0-9]{0,4}", text) or int(text) > most:
            raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to {most}")
        return int(text)

    return parse


def path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("names nothing")
    return Path(text)


def absolute(text: str) -> Path:
    """Of what is run or loaded: a Path drops './', and PATH or the system's folders would be searched."""
    return path(text).absolute()


def pattern(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("is empty: leave it out, or give '.', for all problems")
    return text


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--out", type=path, required=True, help="the store to write; an existing one is not overwritten"
    )
    parser.add_argument(
        "--families", type=words(None), help=f"of {','.join(families.FAMILIES)} [all that this build has]"
    )
    parser.add_argument("--problems", type=pattern, default=".", help="regular expression on the problems' names [all]")
    parser.add_argument("--modes", type=words(MODES), default=list(MODES), help="[%(default)s]")
    parser.add_argument(
        "--providers",
        type=words(PROVIDERS),
        default=["eager", "compile"],
        help=f"of {','.join(PROVIDERS)} [eager,compile]",
    )
    parser.add_argument("--variants", type=words(None), default=["best"], help="of ours, measured as mage_NAME [best]")
    parser.add_argument("--rounds", type=count(1000), help="[at least 10, a whole number of balanced designs]")
    parser.add_argument("--event_samples", type=count(99999), default=25, help="a round [%(default)s]")
    parser.add_argument("--graph_samples", type=count(99999), default=8, help="a round [%(default)s]")
    parser.add_argument(
        "--seed", type=count(99999), default=1, help="of the inputs, the order and the places [%(default)s]"
    )
    parser.add_argument("--bench", type=absolute, default=ROOT / "build/gpu/mage_bench")
    parser.add_argument("--library", type=absolute, default=ROOT / "build/gpu/libmage_launch.so")
    parser.add_argument(
        "--compile_cache", type=path, help="folder in which torch.compile keeps what it made [none kept]"
    )
    parser.add_argument("--dry_run", action="store_true", help="print what would be measured, and exit; needs no GPU")
    return parser.parse_args()


def plan_of(arguments, listed):
    """[(problem, variants, rounds)] to measure, and [(problem, variant)] that the variant does not take."""
    known = list(families.FAMILIES)
    chosen, lacking = store.choose_families(listed, known, arguments.families)
    if lacking:
        say(f"this build has no family {', '.join(lacking)}: not measured")
    problems = store.choose_problems(listed, chosen, arguments.problems)
    theirs = [Variant(f"torch_{provider}", "pytorch", "tools/peers/families.py") for provider in arguments.providers]
    ours = {family: store.choose_ours(listed, family, arguments.variants, known) for family in chosen}
    planned, unsupported = [], []
    for problem in problems:
        variants = list(theirs)
        for variant in ours[problem.family]:
            takes = store.of_variant(listed, problem, variant.library_variant)["accepts"]
            (variants if takes else unsupported).append(variant if takes else (problem, variant))
        planned.append((problem, variants, arguments.rounds or timer.default_rounds(len(variants))))
    return planned, unsupported


def unbalanced(planned) -> list[tuple[int, int]]:
    """(rounds, length of the design) where the rounds are no whole number of designs."""
    pairs = dict.fromkeys((rounds, len(timer.williams(len(variants)))) for _, variants, rounds in planned)
    return [(rounds, design) for rounds, design in pairs if rounds % design]


def order_of(arguments, planned, unsupported):
    """The steps of each planned problem, and what the store says of them."""
    fixtures, orders, all_steps = [], [], []
    for problem, variants, rounds in planned:
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
        all_steps.append(steps)
    fixtures += [store.name_of(*pair, mode) for pair in unsupported for mode in arguments.modes]
    return all_steps, {"fixtures": fixtures, "problems": orders}


def print_plan(arguments, planned, unsupported) -> int:
    modes = arguments.modes
    lines = [store.name_of(problem, v, mode) for problem, variants, _ in planned for v in variants for mode in modes]
    lines += [f"unsupported: {store.name_of(*pair, mode)}" for pair in unsupported for mode in modes]
    sets = Counter((rounds, len(variants)) for _, variants, rounds in planned)
    lines += [f"rounds: {rounds} of {size} variants, problems: {many}" for (rounds, size), many in sets.items()]
    lines += [f"not balanced: {rounds} is no multiple of {design}" for rounds, design in unbalanced(planned)]
    if failure := output.show("\n".join(lines)):
        raise RuntimeError(failure)
    return 0


def make_cache(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UsageError(f"--compile_cache={folder} cannot be written: {error.strerror}; name another") from error


def options_of(arguments, planned) -> dict:
    return {
        "filter": f"tools/torch_peers.py --problems={arguments.problems}",
        "modes": arguments.modes,
        "rounds": arguments.rounds,
        "samples": {"event_cold": arguments.event_samples, "graph": arguments.graph_samples},
        "seed": arguments.seed,
        "device": 0,
        "balanced": not unbalanced(planned),
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


def measure(arguments, listed, planned, unsupported) -> int:
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
    all_steps, plan = order_of(arguments, planned, unsupported)
    journal = store.Journal(arguments.bench, arguments.out)
    journal.append(store.header_of(probe, versions(arguments), options_of(arguments, planned), plan))
    run = Run(arguments, listed, clock, journal, plan)
    for problem, variant in unsupported:
        for mode in arguments.modes:
            run.status(store.name_of(problem, variant, mode), "unsupported", "the variant does not accept this problem")
    interrupted = broken = False
    try:
        for index, ((problem, variants, _), steps) in enumerate(zip(planned, all_steps, strict=True)):
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
    on_signals(raise_interrupt)
    begun = False
    try:
        store.check_out(arguments.out)
        if arguments.compile_cache and not arguments.dry_run:
            make_cache(arguments.compile_cache)
        planned, unsupported = plan_of(arguments, listed := store.list_benchmarks(arguments.bench))
        if arguments.dry_run:
            return print_plan(arguments, planned, unsupported)
        if reason := why_no_gpu():
            say(reason)
            return 3
        with tempfile.TemporaryDirectory(prefix="torch_peers_", ignore_cleanup_errors=True) as temporary:
            cache = arguments.compile_cache.resolve() if arguments.compile_cache else Path(temporary)
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
            os.environ["TRITON_CACHE_DIR"] = str(cache / "triton")
            begun = True
            return measure(arguments, listed, planned, unsupported)
    except UsageError as error:
        say(str(error))
        return 2
    except (JournalError, RuntimeError, OSError) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:  # outside of the rounds
        left = begun and store.journal_of(arguments.out).exists()
        say(f"interrupted: {store.how_to_recover(arguments.out) if left else 'nothing was measured'}")
        return 130


if __name__ == "__main__":
    sys.exit(main())
