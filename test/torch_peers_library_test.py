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
            ("timer_graph_renew", (None,), "graph is null"),
            ("timer_graph_replay", (None,), "graph is null"),
        ):
            result = getattr(library.raw, f"mage_{name}")(*arguments)
            self.assertIn(result, (1, None), name)
            self.assertEqual(str(library.error()), f"mage_{name}: {says}")

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


if __name__ == "__main__":
    unittest.main()
