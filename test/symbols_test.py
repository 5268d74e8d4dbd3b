# SPDX-License-Identifier: Apache-2.0
"""No two variant files define the same kernel. Templates and clones are weak symbols: where a copied file keeps its
parent's names the linker merges the two without a word, and one of them is measured under the other's name."""

import os
import re
import shutil
import subprocess
import unittest
from collections import defaultdict
from pathlib import Path

BUILD = Path(os.environ.get("MAGE_BENCH_EXECUTABLE", ".")).resolve().parent
OBJECTS = sorted(BUILD.glob("CMakeFiles/mage_kernels.dir/src/kernels/*/*.o"))


def defined(obj: Path, *flags: str) -> set[str]:
    """Functions and objects in the namespace of the file's family; with -g the external ones only."""
    listing = subprocess.run(["nm", "-C", "--defined-only", *flags, obj], capture_output=True, text=True, check=True)
    names = (re.sub(r"^[0-9a-f]* *\w ", "", line) for line in listing.stdout.splitlines())
    own = re.compile(rf"(?:void |float |float4 )?mage::{obj.parent.name}::(?!\(anonymous)")
    return {name for name in names if own.match(name)}


def duplicates(symbols: dict[str, set[str]]) -> dict[str, list[str]]:
    files = defaultdict(list)
    for file, names in symbols.items():
        for name in names:
            files[name].append(file)
    return {name: sorted(where) for name, where in files.items() if len(where) > 1}


class Symbols(unittest.TestCase):
    def test_every_kernel_is_defined_once(self):
        self.assertTrue(shutil.which("nm"), "binutils are needed to read symbols")
        self.assertTrue(OBJECTS, f"no objects of variants under {BUILD}")
        found = duplicates({obj.name: defined(obj, "-g") for obj in OBJECTS})
        self.assertEqual(found, {}, "rename the kernel to <family>_<file's stem>, and its helpers with it")

    def test_the_objects_do_hold_kernels_where_cuda_was_built(self):
        cuda = [obj for obj in OBJECTS if obj.name.endswith(".cu.o")]
        for obj in cuda:
            if not obj.name.startswith("v"):
                continue
            stem = obj.name.removesuffix(".cu.o")
            with self.subTest(obj.name):
                kernel = f"{obj.parent.name}_{stem}"
                self.assertTrue(any(kernel in name for name in defined(obj)), f"no kernel is named {kernel}")

    def test_a_planted_duplicate_is_found(self):
        found = duplicates({"a.o": {"mage::f::k()", "mage::f::a()"}, "b.o": {"mage::f::k()"}})
        self.assertEqual(found, {"mage::f::k()": ["a.o", "b.o"]})


if __name__ == "__main__":
    unittest.main()
