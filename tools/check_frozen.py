#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A family's first version is frozen: fails where a v00 file differs from the commit that added it, or is gone.

Later variants are compared with the first, so it has to stay what it was when it was measured. A mistake in one is
mended in a new file, as v01.
"""

import fnmatch
import pathlib
import subprocess
import sys

PATTERNS = ("src/kernels/*/v00_*", "src/kernels/*/cpu_v00_*")


def git(root: pathlib.Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True).stdout


def added_in(root: pathlib.Path) -> dict[str, str]:
    """The commit that first added each frozen path, of all that HEAD's history has had."""
    first: dict[str, str] = {}
    commit = ""
    log = git(root, "log", "--reverse", "--no-renames", "--diff-filter=A", "--format=commit %H", "--name-only", "HEAD")
    for line in log.splitlines():
        if line.startswith("commit "):
            commit = line.removeprefix("commit ")
        elif any(fnmatch.fnmatch(line, pattern) and line.count("/") == 3 for pattern in PATTERNS):
            first.setdefault(line, commit)
    return first


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    try:
        git(root, "rev-parse", "--verify", "HEAD")
    except subprocess.CalledProcessError:
        print("check_frozen: no commit yet, so nothing is frozen")
        return 0
    if git(root, "rev-parse", "--is-shallow-repository").strip() == "true":
        print("check_frozen: the history is cut off here, so changes before its start go unseen")

    broken = 0
    frozen = added_in(root)
    for path, commit in sorted(frozen.items()):
        file = root / path
        if not file.exists():
            print(f"{path}: frozen since {commit[:12]}, and gone. Bring it back: git checkout {commit[:12]} -- {path}")
            broken += 1
        elif git(root, "diff", "--name-only", "--no-renames", commit, "--", path):
            print(
                f"{path}: frozen since {commit[:12]}, and changed. Bring it back with git checkout {commit[:12]} -- "
                f"{path}, and put the change into a new variant"
            )
            broken += 1
    print(f"check_frozen: {len(frozen)} frozen files, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
