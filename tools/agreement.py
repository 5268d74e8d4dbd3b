#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well two runs agree: tools/agreement.py A.json B.json [--within 1.0]

One line a mode for GPU rows and one for host variants: how many rows were compared (those that either store calls
floor_dominated are left out), how many of their medians agree within so many percent, the largest difference, and, in
microseconds, the median shift of the rows and of their floors from A to B. Then the rows outside, largest first.
A description, not a comparison: the runs are unpaired, and what moves between runs no interval of one run contains.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path


class StoreError(Exception):
    """A store that cannot be read, in words for the user."""


def read_store(path: Path) -> tuple[dict[str, dict], int]:
    """Its aggregates by name, and its protocol."""
    try:
        mage = json.loads(path.read_text())["mage"]
        return {row["name"]: row for row in mage["aggregates"]}, mage.get("protocol", 1)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not a readable store: {error!r}") from error


def group(name: str) -> str:
    _, variant, _, mode = name.split("/")
    return "host variants" if variant == "reference" or variant.startswith("cpu_") else mode


def shared_rows(first: dict[str, dict], second: dict[str, dict]) -> dict[str, tuple[dict, dict]]:
    pairs = {
        name: (row, second[name])
        for name, row in first.items()
        if name in second and "floor_dominated" not in row["flags"] + second[name]["flags"]
    }
    if not pairs:
        raise StoreError("the stores share no row that is not floor-dominated")
    return pairs


def percent(pair: tuple[dict, dict]) -> float:
    return 100 * (pair[1]["median_us"] / pair[0]["median_us"] - 1)


def summary(first: Path, second: Path, within: float = 1.0) -> str:
    (before, old), (after, new) = read_store(first), read_store(second)
    pairs = shared_rows(before, after)
    lines = [
        f"| rows | compared | within {within:g} % | largest difference | shift us | shift of the floors us |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key in sorted({group(name) for name in pairs}):
        members = [pair for name, pair in pairs.items() if group(name) == key]
        differences = [percent(pair) for pair in members]
        shift = statistics.median(b["median_us"] - a["median_us"] for a, b in members)
        floors = [b["floor_us"] - a["floor_us"] for a, b in members if a["floor_us"] and b["floor_us"]]
        floor_shift = f"{statistics.median(floors):+.3f}" if floors else "-"
        inside = sum(abs(value) <= within for value in differences)
        largest = max(differences, key=abs)
        lines.append(f"| {key} | {len(members)} | {inside} | {largest:+.2f} % | {shift:+.3f} | {floor_shift} |")
    if old != new:
        lines += ["", f"Different protocols: {old}, then {new}; docs/store.md says what changed."]
    return "\n".join(lines) + "\n"


def outside(first: Path, second: Path, within: float) -> str:
    pairs = shared_rows(read_store(first)[0], read_store(second)[0])
    rows = sorted(((percent(pair), name) for name, pair in pairs.items()), key=lambda row: -abs(row[0]))
    return "".join(f"{value:+6.2f} %  {name}\n" for value, name in rows if abs(value) > within)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs=2, type=Path)
    parser.add_argument("--within", type=float, default=1.0, help="percent")
    options = parser.parse_args()
    try:
        text = summary(*options.stores, options.within) + "\n" + outside(*options.stores, options.within)
    except StoreError as error:
        print(f"agreement: {error}", file=sys.stderr)
        return 2
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough
    return 0


if __name__ == "__main__":
    sys.exit(main())
