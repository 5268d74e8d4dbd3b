# SPDX-License-Identifier: Apache-2.0
"""The table behind tools/torch_peers.py: its mathematics, by PyTorch on the CPU."""

import sys
import unittest

from program_support import SOURCE

sys.path.insert(0, str(SOURCE / "tools"))
from peers import families


@unittest.skipUnless(families.torch, f"needs PyTorch: {families.WHY_NO_TORCH}")
class Mathematics(unittest.TestCase):
    def test_every_form_is_inside_the_bound_and_a_changed_one_is_not(self):
        for name, family in families.FAMILIES.items():
            for rows, cols in ((1, 1), (3, 7), (64, 1024), (33, 257), (700, 40)):
                inputs = families.make_inputs(family, rows, cols, 5, "cpu")
                expected = families.expect(family, inputs)
                for form in (family.eager, *family.compiled.values()):
                    with self.subTest(name, rows=rows, cols=cols, form=form.__name__):
                        outputs = form(*inputs.values())
                        worst, where = families.worst_error(family, outputs, expected)
                        self.assertLessEqual(worst, 1, where)
                        for k in range(len(outputs)):
                            changed = [output.clone() for output in outputs]
                            changed[k].view(-1)[-1] = float("nan")
                            self.assertEqual(families.worst_error(family, changed, expected)[0], float("inf"))
                            changed[k].copy_(outputs[k] * (1 + 2e-3) + 2e-3)
                            self.assertGreater(families.worst_error(family, changed, expected)[0], 1)

    def test_backward_is_the_derivative_of_forward(self):
        torch = families.torch
        for forward, backward in (("gelu", "gelu_backward"), ("layernorm", "layernorm_backward")):
            family = families.FAMILIES[backward]
            inputs = families.make_inputs(family, 6, 40, 3, "cpu")
            wide = {name: tensor.double() for name, tensor in inputs.items()}
            names = ["x", "bias"] if forward == "gelu" else ["x", "gamma"]
            leaves = [wide[name].clone().requires_grad_() for name in names]
            if forward == "layernorm":
                leaves.append(torch.zeros(40, dtype=torch.float64, requires_grad=True))
            value = families.FAMILIES[forward].expected(*leaves)[0][0]
            gradients = torch.autograd.grad(value, leaves, wide["dy"])
            expected = [item[0] for item in family.expected(*wide.values())]
            for got, want in zip(gradients, expected, strict=True):
                torch.testing.assert_close(got, want, rtol=2e-6, atol=2e-6)  # mean and rstd are rounded to FP32

    def test_inputs_are_repeatable_and_fingerprints_see_one_bit_and_the_order(self):
        family = families.FAMILIES["layernorm_backward"]
        first, again, other = (families.make_inputs(family, 8, 16, seed, "cpu") for seed in (1, 1, 2))
        for name in family.inputs:
            self.assertEqual(families.fingerprint(first[name]), families.fingerprint(again[name]))
            self.assertNotEqual(families.fingerprint(first[name]), families.fingerprint(other[name]))
        before = families.fingerprint(first["x"])
        first["x"][0, 0], first["x"][0, 1] = first["x"][0, 1].clone(), first["x"][0, 0].clone()
        self.assertNotEqual(families.fingerprint(first["x"]), before)


if __name__ == "__main__":
    unittest.main()
