# SPDX-License-Identifier: Apache-2.0
"""Family gelu_tanh: y = t (1 + tanh(sqrt(2 / pi) (t + 0.044715 t^3))) / 2, t = x + bias."""

import math
import struct

import mpmath

PROBLEMS = {
    # name: (rows, cols, distribution, seed). The offset -o1 moves buffers, not values.
    "7x127": (7, 127, "normal", 0),
    "3x1025-s7-o1": (3, 1025, "normal", 7),
    "16x128-tail": (16, 128, "tail", 0),
    "9x96-special": (9, 96, "special", 0),
}


def gelu_tanh(x, bias):
    if math.isnan(x) or math.isnan(bias):
        return math.nan
    if math.isinf(x):
        return math.inf if x > 0 else math.nan  # -inf * 0 in the closed form
    t = mpmath.mpf(x) + mpmath.mpf(bias)
    cubic = mpmath.mpf("0.044715") * t**3
    return float(t * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (t + cubic))) / 2)


def tensors(generate, rows, cols, distribution, seed):
    x = generate(rows, cols, distribution, seed, stream=0)
    bias = generate(1, cols, "normal", seed, stream=1)
    xs, biases = struct.unpack(f"<{rows * cols}f", x), struct.unpack(f"<{cols}f", bias)
    y = [gelu_tanh(value, biases[i % cols]) for i, value in enumerate(xs)]
    return {  # the widest type first, so that every tensor is aligned
        "y_exact": ("F64", [rows, cols], struct.pack(f"<{len(y)}d", *y)),
        "x": ("F32", [rows, cols], x),
        "bias": ("F32", [1, cols], bias),
    }
