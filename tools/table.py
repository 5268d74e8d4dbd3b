#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of README.md and docs/ from committed stores, so that no figure is typed by hand.

A table stands between two marks:

    <!-- table store=PATH problems=P,P modes=M,M [families=F,F] [variants=REGEX] [beside=FAMILY] -->
    <!-- end table -->

One row a variant (with `variants`, each in whose name the expression finds something), one column a problem and mode:
the median over rounds in microseconds. With `beside`, the fastest row of that family in the same column over this row
follows in brackets: 1 means as fast as that. The two are of one run, but not paired by round. With `ceiling=yes` the
share of the limit that binds follows, in percent: what the run's own family `ceiling` allows over what was taken.
Letters are the row's flags; a line below the table says which.

In the same way, each with its own end mark:

    <!-- agreement A B -->                  how two stores agree, by tools/agreement.py
    <!-- selftest STORE PROOF [REGEX] -->   the checks of a proof of the self-test, or those that match
    <!-- peers FILE figures|telling -->     what other timers say, by tools/peer_timers.py
    <!-- torch STORE FAMILIES [PROBLEMS] -->  best beside PyTorch, by tools/torch_peers.py
    <!-- ncu FILE -->                       hardware counters, by tools/ncu_check.py
    <!-- csv FILE [REGEX] -->               a file of comma-separated values, or its lines that match

    tools/table.py README.md docs/*.md      rewrite the tables
    tools/table.py --check README.md        exit 1 where a table is not what its store says
"""

import argparse
import csv
import json
import re
import sys
from pathlib import Path

import agreement
import ncu_check
import peer_timers

ROOT = Path(__file__).resolve().parent.parent
KEYS = {"store", "problems", "modes", "families", "variants", "beside", "ceiling"}


LETTERS = {
    "above_ceiling": "b",
    "above_dram_peak": "a",
    "clock_moved": "c",
    "clock_unsettled": "u",
    "fewer_samples": "s",
    "counter_example": "e",
    "floor_dominated": "f",
    "gains_by_repetition": "r",
    "gate_missed": "g",
    "launch_bound": "l",
    "missing_rounds": "m",
    "persisting_l2_denied": "d",
    "perturbed": "p",
    "throttled": "t",
    "unstable": "x",
    "unverified_after": "v",
}


class TableError(Exception):
    """What is wrong with a table's mark or its store, in words for the user."""


def parse_spec(text: str) -> dict[str, str]:
    spec = {}
    for item in text.split():
        key, equals, value = item.partition("=")
        if not equals or key not in KEYS:
            raise TableError(f"'{item}' is no setting of a table; known: {', '.join(sorted(KEYS))}")
        if key in spec:
            raise TableError(f"{key}= twice")
        spec[key] = value
    if spec.get("ceiling", "yes") != "yes":
        raise TableError(f"ceiling={spec['ceiling']}: it is yes, or left out")
    for key in ("store", "problems", "modes"):
        if key not in spec:
            raise TableError(f"a table needs {key}=")
    return spec


def expression(text: str) -> re.Pattern:
    try:
        return re.compile(text)
    except re.error as error:
        raise TableError(f"'{text}' is no regular expression: {error}") from error


def read_medians(path: Path) -> dict[tuple[str, str, str, str], dict]:
    """Aggregates of a store by (family, variant, problem, mode)."""
    try:
        store = json.loads(path.read_text())
        rows = {}
        for row in store["mage"]["aggregates"]:
            family, variant, problem, mode = row["name"].split("/")
            rows[family, variant, problem, mode] = row
            if not row["median_us"] > 0:
                raise ValueError("a median that is not positive")
            if not all(isinstance(text, str) for text in (*row["flags"], row.get("picked", ""))):
                raise ValueError("a flag or a picked variant that is no text")
            if row.get("ceiling"):
                float(row["ceiling"]["fraction"])
        return rows
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: not a readable store: {error!r}") from error


def letters(row: dict) -> str:
    return "".join(sorted(LETTERS.get(flag, "?") for flag in row.get("flags", [])))


def microseconds(median: float) -> str:
    return f"{median:.2f}" if median < 100 else f"{median:.1f}"


def cell(rows: dict, key: tuple[str, str, str, str], beside: str | None, ceiling: bool = False) -> str:
    row = rows.get(key)
    if row is None:
        return "-"
    median = row["median_us"]
    text = microseconds(median)
    if ceiling and row.get("ceiling"):
        text += f" ({100 * row['ceiling']['fraction']:.0f} %)"
    if beside:
        _, _, problem, mode = key
        peers = [r["median_us"] for k, r in rows.items() if (k[0], k[2], k[3]) == (beside, problem, mode)]
        if not peers:
            raise TableError(f"the store has no row of family {beside} for {problem}/{mode}")
        text += f" ({min(peers) / median:.3f})"
    return f"{text} {letters(row)}".rstrip()


def render(spec_text: str, root: Path) -> str:
    spec = parse_spec(spec_text)
    rows = read_medians(root / spec["store"])
    columns = [(p, m) for p in spec["problems"].split(",") for m in spec["modes"].split(",")]
    families = spec["families"].split(",") if "families" in spec else sorted({key[0] for key in rows})
    pattern = expression(spec.get("variants", ""))
    names = sorted({key[:2] for key in rows if key[0] in families and key[2:] in columns and pattern.search(key[1])})
    for what, wanted, there in (
        ("family", families, {key[0] for key in rows}),
        ("problem", spec["problems"].split(","), {key[2] for key in rows if key[0] in families}),
        ("mode", spec["modes"].split(","), {key[3] for key in rows if key[0] in families}),
    ):
        for name in wanted:
            if name not in there:
                raise TableError(f"{spec['store']} has no {what} {name} for this table")
    if not names:
        raise TableError(f"{spec['store']} has no row for this table")
    lines = ["| us | " + " | ".join(f"{p} {m}" for p, m in columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for family, variant in names:
        cells = [cell(rows, (family, variant, p, m), spec.get("beside"), "ceiling" in spec) for p, m in columns]
        lines.append(f"| {family}/{variant} | " + " | ".join(cells) + " |")
    shown = {flag for key, row in rows.items() if key[:2] in names and key[2:] in columns for flag in row["flags"]}
    if shown:
        lines += ["", "Flags: " + ", ".join(f"{LETTERS.get(flag, '?')} {flag}" for flag in sorted(shown)) + "."]
    return "\n".join(lines) + "\n"


def words(spec: str, count: int, kind: str) -> list[str]:
    found = spec.split()
    if len(found) != count:
        raise TableError(f"a mark of {kind} takes {count} words, not '{spec}'")
    return found


def render_agreement(spec: str, root: Path) -> str:
    first, second = words(spec, 2, "agreement")
    return agreement.summary(root / first, root / second)


def render_selftest(spec: str, root: Path) -> str:
    path, name, pattern = words(spec if len(spec.split()) > 2 else spec + " .", 3, "selftest")
    try:
        proofs = {proof["name"]: proof for proof in json.loads((root / path).read_text())["mage"]["selftest"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: not the store of a self-test: {error!r}") from error
    if name not in proofs:
        raise TableError(f"{path} has no proof {name}; it has {', '.join(proofs)}")
    proof = proofs[name]
    shown = [check for check in proof["checks"] if expression(pattern).search(check["what"])]
    if not shown:
        raise TableError(f"{path}: no check of {name} matches {pattern}")
    lines = ["| what | expected | measured | verdict |", "| --- | --- | --- | --- |"]
    for check in shown:
        verdict = "-" if check["expected"] == "(shown only)" else check["outcome"]
        texts = (check["what"], check["expected"], check["measured"], verdict)
        cells = (text.replace("|", "\\|") for text in texts)
        lines.append(f"| {' | '.join(cells)} |")
    end = f"{name}: {proof['outcome']}{'. ' + proof['reason'] if proof['reason'] else ''}"
    if len(shown) < len(proof["checks"]):
        bad = sum(check["outcome"] == "failed" for check in proof["checks"])
        end += f"; {len(shown)} of {len(proof['checks'])} checks shown, {bad} failed in all"
    return "\n".join(lines) + f"\n\n{end}\n"


def render_peers(spec: str, root: Path) -> str:
    path, which = words(spec, 2, "peers")
    try:
        result = json.loads((root / path).read_text())
        tables = {"figures": peer_timers.figures_table, "telling": peer_timers.telling_table}
        return tables[which](result) + "\n"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableError(f"{path}: no table '{which}' of tools/peer_timers.py: {error!r}") from error


def render_torch(spec: str, root: Path) -> str:
    path, families, problems = words(spec if len(spec.split()) > 2 else spec + " .", 3, "torch")
    wanted = families.split(",")
    rows = {
        key: row
        for key, row in read_medians(root / path).items()
        if key[0] in wanted and (problems == "." or key[2] in problems.split(","))
    }
    shapes = sorted({(key[0], key[2]): None for key in rows}, key=lambda shape: wanted.index(shape[0]))
    if {family for family, _ in shapes} != set(wanted):
        raise TableError(f"{path} has not each of {families} with a problem of {problems}")
    columns = ("torch_eager", "torch_compile", "mage_best")
    modes = sorted({key[3] for key in rows}, reverse=True)
    head = []
    for mode in modes:
        head += [f"{column.split('_')[1]} {mode}" for column in columns] + ["compile / best"]
    table = [["us", *head, "best runs"]]
    for family, problem in shapes:
        line, runs = [problem if len(wanted) == 1 else f"{family} {problem}"], []
        for mode in modes:
            found = [rows.get((family, column, problem, mode)) for column in columns]
            line += [
                "-" if row is None else f"{microseconds(row['median_us'])} {letters(row)}".rstrip() for row in found
            ]
            compiled, ours = found[1:]
            line.append(f"**{compiled['median_us'] / ours['median_us']:.3f}**" if compiled and ours else "-")
            if ours and ours.get("picked", "-") not in runs:
                runs.append(ours["picked"])
        table.append([*line, " ".join(runs) or "-"])
    if not any(key[1] in columns for key in rows):
        raise TableError(f"{path} has none of {', '.join(columns)}: tools/torch_peers.py did not write it")
    shown = {flag for key, row in rows.items() if key[1] in columns for flag in row["flags"]}
    legend = ", ".join(f"{LETTERS.get(flag, '?')} {flag}" for flag in sorted(shown))
    return "\n".join(markdown(table)) + "\n" + (f"\nFlags: {legend}.\n" if shown else "")


def render_ncu(spec: str, root: Path) -> str:
    (path,) = words(spec, 1, "ncu")
    try:
        readings, found = ncu_check.from_json(json.loads((root / path).read_text()))
        tables = [ncu_check.table_rows(readings), ncu_check.check_rows(found)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: not written by tools/ncu_check.py: {error!r}") from error
    return "\n".join("\n".join(markdown(rows)) + "\n" for rows in tables if len(rows) > 1)


def render_csv(spec: str, root: Path) -> str:
    path, pattern = words(spec if len(spec.split()) > 1 else spec + " .", 2, "csv")
    wanted = expression(pattern)
    if not (root / path).is_file():
        raise TableError(f"{path}: there is no such file")
    try:
        with (root / path).open(newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text, strict=True)
            rows = [(lines.line_num, row) for row in lines if row]
    except (OSError, ValueError, csv.Error) as error:
        raise TableError(f"{path}: not a file of comma-separated values: {error!r}") from error
    head = rows[0][1] if rows else []
    if len(head) < 2:
        raise TableError(f"{path}: its first line must name two columns or more, separated by commas")
    for line, row in rows:
        if len(row) != len(head):
            raise TableError(f"{path}: line {line} has {len(row)} values, the first has {len(head)}")
        if any("\n" in cell or "<!--" in cell for cell in row):
            raise TableError(f"{path}: line {line} has a value that no table can hold: a line break, or a mark")
    shown = [row for _, row in rows[1:] if wanted.search(",".join(row))]
    if not shown:
        raise TableError(f"{path}: no line behind the first matches {pattern}")
    return "\n".join(markdown([[cell.replace("|", "\\|") for cell in row] for row in (head, *shown)])) + "\n"


def markdown(rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return [lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]


RENDERERS = {
    "table": render,
    "agreement": render_agreement,
    "selftest": render_selftest,
    "peers": render_peers,
    "ncu": render_ncu,
    "torch": render_torch,
    "csv": render_csv,
}
BLOCK = re.compile(
    rf"<!-- (?P<kind>{'|'.join(RENDERERS)}) (?P<spec>[^>]*?) -->\n(?P<body>.*?)<!-- end (?P=kind) -->", re.DOTALL
)


def check_marks(text: str) -> None:
    """A broken end mark would swallow what stands between two tables."""
    found = [match[0] for match in BLOCK.finditer(text)]
    begins = len(re.findall(rf"<!-- (?:{'|'.join(RENDERERS)}) ", text))
    ends = len(re.findall(rf"<!-- end (?:{'|'.join(RENDERERS)}) -->", text))
    if not begins == ends == len(found) or any(block.count("<!-- ") != 2 for block in found):
        raise TableError(f"{begins} marks begin a table and {ends} end one; each needs its own end mark")


def rewrite(text: str, root: Path) -> str:
    check_marks(text)
    return BLOCK.sub(
        lambda m: f"<!-- {m['kind']} {m['spec']} -->\n{RENDERERS[m['kind']](m['spec'], root)}<!-- end {m['kind']} -->",
        text,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a table differs")
    options = parser.parse_args()
    stale = 0
    for page in options.pages:
        try:
            old = page.read_text()
            new = rewrite(old, ROOT)
        except (OSError, UnicodeDecodeError, TableError, agreement.StoreError) as error:
            print(f"{page}: {error}", file=sys.stderr)
            return 2
        if new == old:
            continue
        stale += 1
        if not options.check:
            beside = page.with_name(page.name + ".part")
            try:  # whole or not at all: a disk that fills up leaves the page that was there
                beside.write_text(new)
                beside.replace(page)
            except OSError as error:
                beside.unlink(missing_ok=True)
                print(f"{page}: {error}", file=sys.stderr)
                return 2
        print(f"{page}: {'differs from its store; run tools/table.py on it' if options.check else 'rewritten'}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
