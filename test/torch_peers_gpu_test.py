# SPDX-License-Identifier: Apache-2.0
"""A short run of tools/torch_peers.py on a GPU: what only PyTorch's allocator, its graphs and the driver can show."""

import itertools
import os
import sys
import unittest
from pathlib import Path

from program_support import EXECUTABLE, SOURCE, ProgramTest, load_strict

sys.path.insert(0, str(SOURCE / "tools"))
from peers import families, placement, store

LIBRARY = Path(EXECUTABLE).with_name("libmage_launch.so")  # only on demand
ON_GPU = families.torch is not None and families.torch.cuda.is_available()
ROUNDS = 3
MODES = {"event_cold", "graph"}


@unittest.skipUnless(ON_GPU and LIBRARY.exists(), "needs PyTorch, a GPU and libmage_launch.so")
class OnGpu(ProgramTest):
    def rows_of(self, family, problem, variant):
        tool = SOURCE / "tools" / "torch_peers.py"
        flags = [f"--bench={EXECUTABLE}", f"--library={LIBRARY}", "--out=run.json", f"--families={family}"]
        flags += [f"--problems=^{problem}$", f"--variants={variant}", f"--rounds={ROUNDS}"]
        flags += ["--event_samples=3", "--graph_samples=2"]
        done = self.bench(tool, *flags, executable=sys.executable, env=dict(os.environ), timeout=540)
        self.assertEqual(done.returncode, 0, done.stderr)
        contents = load_strict((self.folder / "run.json").read_text())
        self.assertEqual(contents["mage"]["protocol"], store.PROTOCOL)
        self.assertEqual(contents["mage"]["failed"], [])
        rows = [row["mage"] for row in contents["benchmarks"]]
        variants = {"torch_eager", "torch_compile", f"mage_{variant}"}
        self.assertEqual(
            {(row["variant"], row["mode"]) for row in rows}, {(v, mode) for v in variants for mode in MODES}
        )
        self.assertEqual(len(rows), ROUNDS * len(MODES) * len(variants))
        return rows

    def check_inputs(self, rows, inputs):
        places = {
            number: {tuple(row["offsets"][:inputs]) for row in rows if row["round"] == number}
            for number in range(ROUNDS)
        }
        self.assertEqual([len(seen) for seen in places.values()], [1] * ROUNDS, "one place for all variants of a round")
        self.assertEqual(len(set.union(*places.values())), ROUNDS)
        for offset in itertools.chain(*set.union(*places.values())):
            self.assertEqual(offset % placement.ALIGNMENT, 0)
            self.assertTrue(0 <= offset - placement.FENCE_BYTES <= placement.SLACK_BYTES, offset)

    def check_outputs(self, rows, inputs):
        """Those of PyTorch lie behind the fillers, elsewhere in each round."""
        for key in itertools.product(("torch_eager", "torch_compile"), MODES):
            outputs = [row["offsets"][inputs:] for row in rows if (row["variant"], row["mode"]) == key]
            for places in zip(*outputs, strict=True):
                self.assertNotIn(None, places, f"{key}: {outputs}")
                self.assertEqual({place % placement.STEP_BYTES for place in places}, {0})
                self.assertEqual(len(set(places)), ROUNDS, f"{key}: {outputs}")

    def test_large_outputs_and_scratch(self):
        rows = self.rows_of("layernorm_backward", "4096x1024", "v07_groups")
        self.check_inputs(rows, 5)
        self.check_outputs(rows, 5)
        ours = [row for row in rows if row["variant"] == "mage_v07_groups"]
        self.assertTrue(all(row["scratch_offsets"] for row in ours), "it has scratch, and that lies in the arena")
        self.assertEqual(len({tuple(row["scratch_offsets"]) for row in ours}), ROUNDS * len(MODES))
        self.assertEqual(len({tuple(row["offsets"]) for row in ours}), ROUNDS)

    def test_small_outputs(self):
        rows = self.rows_of("gelu", "64x1024", "best")
        self.check_inputs(rows, 2)
        self.check_outputs(rows, 2)


if __name__ == "__main__":
    unittest.main()
