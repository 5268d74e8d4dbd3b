# SPDX-License-Identifier: Apache-2.0
"""What libmage_launch.so says of arguments that it cannot take; needs no GPU."""

import ctypes
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

from program_support import EXECUTABLE, SOURCE

sys.path.insert(0, str(SOURCE / "tools"))
import torch_peers
from peers import families, store, timer

LIBRARY = Path(EXECUTABLE).with_name("libmage_launch.so")  # only on demand


class Loading(unittest.TestCase):
    def test_a_library_that_cannot_be_loaded_is_said_once(self):
        for library in ("/no/such.so", "libc.so.6"):
            with (
                mock.patch.object(families, "torch", mock.Mock()),
                self.assertRaisesRegex(store.UsageError, f"cannot load {library}: .*; build the target") as caught,
            ):
                torch_peers.measure(types.SimpleNamespace(library=Path(library)), [], [], [])
            self.assertEqual(str(caught.exception).count("build"), 1, caught.exception)


@unittest.skipUnless(LIBRARY.exists(), "needs libmage_launch.so: build the target mage_launch")
class Arguments(unittest.TestCase):
    def test_each_null_pointer_is_named(self):
        library, one = timer.Library(LIBRARY), ctypes.c_int()
        slots, gelu = (ctypes.c_void_p * 3)(), b"gelu/best/64x1024"
        for name, arguments, says in (
            ("launch_open", (None, slots, 3), "benchmark is null"),
            ("launch_open", (gelu, None, 3), "pointers is null"),
            ("launch_operands", (None,), "benchmark is null"),
            ("launch_run", (None, None), "handle is null"),
            ("timer_open", (0, None), "peak_gbytes_per_s is null"),
            ("timer_round", (0, None, None), "index is null"),
            ("timer_round", (0, one, None), "stream is null"),
            ("timer_end", (None, one), "span_us is null"),
            ("timer_end", (ctypes.c_double(), None), "held is null"),
            ("timer_clock", (None,), "sm_mhz is null"),
            ("timer_graph", (None, one, one), "graph is null"),
            ("timer_graph", (None, None, one), "kernel_nodes is null"),
            ("timer_graph", (None, one, None), "other_nodes is null"),
            ("timer_graph_replay", (None,), "graph is null"),
        ):
            result = getattr(library.raw, f"mage_{name}")(*arguments)
            self.assertIn(result, (1, None), name)
            self.assertEqual(str(library.error()), f"mage_{name}: {says}")

    def test_scratch_is_placed_on_a_device_only(self):
        library = timer.Library(LIBRARY)
        for name, arguments in (("place_scratch", (1,)), ("scratch_offsets", ()), ("sweep", ())):
            self.assertIn(getattr(library.raw, f"mage_timer_{name}")(*arguments), (1, None))
            self.assertEqual(str(library.error()), f"mage_timer_{name}: call mage_timer_open first")

    def test_a_wrong_problem_is_said_beside_a_right_one(self):
        library = timer.Library(LIBRARY)
        for name, says in (
            (b"gelu", "'gelu' is not family/variant/problem, as in gelu/best/64x1024"),
            (b"gelu/v00_naive/64", "gelu/64 is no problem: it does not begin with ROWSxCOLS, both"),
            (
                b"gelu/v00_naive/64x64-o64",
                "-o is not followed by an offset from 0 to 63 elements. Right are gelu/",
            ),
        ):
            self.assertIsNone(library.raw.mage_launch_operands(name))
            self.assertIn(says, str(library.error()))

    def test_a_wrong_number_of_operands_is_said_before_any_is_read(self):
        library, one = timer.Library(LIBRARY), (ctypes.c_void_p * 1)()
        for many in (-1, 0, 2**31 - 1):
            self.assertIsNone(library.raw.mage_launch_open(b"gelu/v00_naive/64x1024", one, many))
            self.assertIn(f"has 3 operands, {many} pointers were given", str(library.error()))

    def test_operands_that_are_null_or_misaligned_are_named(self):
        library = timer.Library(LIBRARY)
        memory = (ctypes.c_float * 4096)()
        base = (ctypes.addressof(memory) + 255) // 256 * 256
        for variant in ("cpu_v00_scalar", "v00_naive"):
            for problem, pointers, says in (
                ("4x64", (0, base, base), "operand x of gelu/4x64 is null"),
                ("4x64", (base, base, 0), "operand y of gelu/4x64 is null"),
                (
                    "4x64",
                    (base, base + 4, base),
                    "operand bias of gelu/4x64 is at 0x{1:x}, which is not 16-byte aligned",
                ),
                ("4x64", (base, base, base + 8), "operand y of gelu/4x64 is at 0x{2:x}, which is not 16-byte aligned"),
                (
                    "4x64-o1",
                    (base, base, base),
                    "operand x of gelu/4x64-o1 is at 0x{0:x}, which is not 4 bytes behind a 16-byte boundary",
                ),
                (
                    "4x64-o7",
                    (base + 12, base, base),
                    "operand y of gelu/4x64-o7 is at 0x{2:x}, which is not 12 bytes behind a 16-byte boundary",
                ),
            ):
                with self.subTest(variant=variant, problem=problem, pointers=pointers):
                    name = f"gelu/{variant}/{problem}".encode()
                    self.assertIsNone(library.raw.mage_launch_open(name, (ctypes.c_void_p * 3)(*pointers), 3))
                    self.assertEqual(str(library.error()), f"mage_launch_open: {says.format(*pointers)}")

    def test_operands_that_lie_right_are_taken_and_run(self):
        library = timer.Library(LIBRARY)
        memory = (ctypes.c_float * 4096)()
        base = (ctypes.addressof(memory) + 255) // 256 * 256
        for problem, shift in (("4x64", 0), ("4x64", 16), ("4x64-o1", 4), ("4x64-o4", 0), ("4x64-o7", 28)):
            with self.subTest(problem=problem):
                pointers = (base + shift, base + 2048, base + 4096 + shift)
                handle = library.raw.mage_launch_open(
                    f"gelu/cpu_v00_scalar/{problem}".encode(), (ctypes.c_void_p * 3)(*pointers), 3
                )
                self.assertIsNotNone(handle, str(library.error()))
                library.call("mage_launch_run", handle, None)
                library.raw.mage_launch_close(handle)

    def test_what_is_not_there_is_said_beside_what_is(self):
        library = timer.Library(LIBRARY)
        for name, says in (
            (b"nope/v00_naive/64x64", r"there is no family 'nope'; there are ceiling, copy, gelu"),
            (b"gelu/nope/64x64", r"this build has no variant gelu/nope; it has .*best, .*v00_naive"),
            (b"gelu/v01_float4/64x3", r"gelu/v01_float4 does not accept the problem 64x3"),
            (b"n" * 100_000 + b"/v/p", r"there is no family 'n{80}\.\.\.'"),
            (b"n" * 100_000, r"'n{80}\.\.\.' is not family/variant/problem"),
        ):
            with self.subTest(name=name[:20]):
                self.assertIsNone(library.raw.mage_launch_operands(name))
                self.assertRegex(str(library.error()), says)
                self.assertLess(len(str(library.error())), 1000)


if __name__ == "__main__":
    unittest.main()
