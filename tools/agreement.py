#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well the medians of two stores agree, row by row: tools/agreement.py A.json B.json [--within 1.0]

Rows that either store calls floor_dominated are left out. Prints a line a mode (GPU rows) and one for host variants,
then the rows that differ by more than --within percent, largest first. A description, not a comparison: the two runs
are unpaired, and what moves between them is what one run's interval cannot know.
"""

import argparse
import json
import sys
from pathlib import Path


def medians(path: Path) -> dict[str, dict]:
    store = json.loads(path.read_text())
    return {row["name"]: row for row in store["mage"]["aggregates"]}


def group(name: str) -> str:
    _, variant, _, mode = name.split("/")
    return "host variants" if variant == "reference" or variant.startswith("cpu_") else mode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs=2, type=Path)
    parser.add_argument("--within", type=float, default=1.0, help="percent")
    options = parser.parse_args()
    try:
        first, second = (medians(path) for path in options.stores)
    except (OSError, ValueError, KeyError) as error:
        print(f"agreement: not a readable store: {error!r}", file=sys.stderr)
        return 2
    differences = {
        name: 100 * (second[name]["median_us"] / row["median_us"] - 1)
        for name, row in first.items()
        if name in second and "floor_dominated" not in row["flags"] + second[name]["flags"]
    }
    if not differences:
        print("agreement: the stores share no row that is not floor-dominated", file=sys.stderr)
        return 2
    print("| rows | compared | within | largest difference |\n| --- | ---: | ---: | ---: |")
    for key in sorted({group(name) for name in differences}):
        members = [value for name, value in differences.items() if group(name) == key]
        inside = sum(abs(value) <= options.within for value in members)
        print(f"| {key} | {len(members)} | {inside} | {max(members, key=abs):+.2f} % |")
    print()
    for name, value in sorted(differences.items(), key=lambda item: -abs(item[1])):
        if abs(value) > options.within:
            print(f"{value:+6.2f} %  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
