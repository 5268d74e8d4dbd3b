# SPDX-License-Identifier: Apache-2.0
"""Where operands and outputs of tools/torch_peers.py lie: what is drawn, and, with PyTorch on the CPU, what follows."""

import sys
import unittest
from unittest import mock

from program_support import SOURCE

sys.path.insert(0, str(SOURCE / "tools"))
from peers import families, placement

MIB = 1 << 20


class Drawn(unittest.TestCase):
    def test_a_seed_follows_from_all_that_is_named(self):
        names = [(1, "gelu", "8x8", 0), (2, "gelu", "8x8", 0), (1, "copy", "8x8", 0), (1, "gelu", "8x9", 0)]
        names += [(1, "gelu", "8x8", 1), (1, "gelu", "8x8", 0, "mage_best", "graph")]
        seeds = [placement.seed_of(*name) for name in names]
        self.assertEqual(seeds, [placement.seed_of(*name) for name in names])
        self.assertEqual(len(set(seeds)), len(names))
        self.assertTrue(all(0 <= seed < 2**64 for seed in seeds))

    def test_an_operand_lies_at_a_multiple_of_256_bytes_inside_the_slack(self):
        slacks = [placement.slack_of(placement.seed_of(1, number), "x") for number in range(4000)]
        self.assertEqual({slack % 256 for slack in slacks}, {0})
        self.assertGreaterEqual(min(slacks), 0)
        self.assertLessEqual(max(slacks), 8 * MIB)
        self.assertLess(min(slacks), 8 * MIB / 100)
        self.assertGreater(max(slacks), 8 * MIB * 99 / 100)
        self.assertGreater(len(set(slacks)), 3500)  # of 32769 places
        self.assertNotEqual(placement.slack_of(1, "x"), placement.slack_of(1, "bias"))
        self.assertEqual(placement.slack_of(1, "x"), placement.slack_of(1, "x"))

    def test_fillers_are_of_the_pools_that_they_are_for(self):
        drawn = [placement.fillers_of(placement.seed_of(number)) for number in range(4000)]
        for sizes, least, most in ((0, 512, MIB), (1, MIB + 512, 9 * MIB)):
            of_pool = [pair[sizes] for pair in drawn]
            self.assertEqual({size % 512 for size in of_pool}, {0})
            self.assertGreaterEqual(min(of_pool), least)
            self.assertLessEqual(max(of_pool), most)
            self.assertGreater(len(set(of_pool)), 1500)
        self.assertEqual(placement.fillers_of(7), placement.fillers_of(7))


@unittest.skipUnless(families.torch, f"needs PyTorch: {families.WHY_NO_TORCH}")
class Placed(unittest.TestCase):
    def operands(self, name="layernorm_backward", rows=33, cols=257):
        family = families.FAMILIES[name]
        inputs = families.make_inputs(family, rows, cols, 1, "cpu")
        return placement.Operands(inputs, family.output_shapes(rows, cols), "cpu")

    def test_operands_lie_where_they_are_said_to_and_keep_their_values(self):
        operands, seen = self.operands(), []
        bases = {name: arena.memory.data_ptr() for name, arena in operands.arenas.items()}
        for number in range(3):
            operands.place(placement.seed_of(number))
            self.assertEqual([*operands.inputs, *operands.outputs], list(operands.tensors))
            for name, tensor in operands.tensors.items():
                offset = operands.offset_of(name)
                self.assertEqual(tensor.data_ptr(), bases[name] + offset)
                self.assertEqual(offset, 4096 + placement.slack_of(placement.seed_of(number), name))
                after = operands.arenas[name].memory.numel() * 4 - offset - tensor.numel() * 4
                self.assertGreaterEqual(after, 4096)
                self.assertTrue(tensor.is_contiguous())
            for name, tensor in operands.inputs.items():
                families.torch.testing.assert_close(tensor, operands.originals[name], rtol=0, atol=0)
                tensor.zero_()  # what a round leaves behind, the next one does not find
            seen.append([operands.offset_of(name) for name in operands.tensors])
        for places in zip(*seen, strict=True):
            self.assertEqual(len(set(places)), 3)
        operands.place(placement.seed_of(0))
        self.assertEqual([operands.offset_of(name) for name in operands.tensors], seen[0])

    def test_other_inputs_come_to_the_same_places(self):
        operands = self.operands()
        operands.place(5)
        before = {name: tensor.data_ptr() for name, tensor in operands.tensors.items()}
        fresh = families.make_inputs(families.FAMILIES["layernorm_backward"], 33, 257, 2, "cpu")
        operands.load(fresh)
        self.assertEqual({name: tensor.data_ptr() for name, tensor in operands.tensors.items()}, before)
        for name, tensor in operands.inputs.items():
            families.torch.testing.assert_close(tensor, fresh[name], rtol=0, atol=0)

    def test_offsets_behind_fillers(self):
        fillers = placement.Fillers(3, 1000, "cpu")
        small, large = placement.fillers_of(3)
        self.assertEqual([kept.numel() for kept in fillers.kept], [large, small])
        begin = fillers.regions[1][0]

        def at(address):
            return fillers.offset_of(mock.Mock(data_ptr=lambda: address))

        self.assertEqual([at(begin), at(begin + 512), at(begin + 2 * MIB - 512)], [0, 512, 2 * MIB - 512])
        self.assertIsNone(at(1))

    def test_what_is_compiled_for_one_place_serves_all(self):
        torch, family = families.torch, families.FAMILIES["layernorm"]
        operands = self.operands("layernorm", 8, 64)
        operands.place(1)
        compiled = torch.compile(family.compiled["formula"], dynamic=False, fullgraph=True)
        with torch.no_grad():
            compiled(*operands.inputs.values())
            with torch.compiler.set_stance("fail_on_recompile"):
                for seed in range(2, 6):
                    operands.place(seed)
                    for got, want in zip(
                        compiled(*operands.inputs.values()), family.eager(*operands.inputs.values()), strict=True
                    ):
                        torch.testing.assert_close(got, want)
                with self.assertRaisesRegex(RuntimeError, "recompile"):
                    compiled(*self.placed(8, 32).values())

    def placed(self, rows, cols):
        operands = self.operands("layernorm", rows, cols)
        operands.place(1)
        return operands.inputs


if __name__ == "__main__":
    unittest.main()
