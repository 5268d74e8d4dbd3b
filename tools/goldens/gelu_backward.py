# SPDX-License-Identifier: Apache-2.0
"""Family gelu_backward: dx = dy (Phi(t) + t phi(t)), t = x + bias, and dbias, the sum of dx over the rows."""

import math
import struct

import mpmath

PROBLEMS = {
    # name: (rows, cols, distribution, seed). The offset -o1 moves buffers, not values.
    "7x127": (7, 127, "normal", 0),
    "3x515-s7-o1": (3, 515, "normal", 7),
    "150x12-tail": (150, 12, "tail", 0),  # more rows than one slab of any variant
    "9x96-special": (9, 96, "special", 0),
}


def dx_of(x, bias, dy):
    if not math.isfinite(x):
        return mpmath.nan  # t phi(t) is inf * 0 in the closed form
    t = mpmath.mpf(x) + mpmath.mpf(bias)
    cdf = mpmath.erfc(-t / mpmath.sqrt(2)) / 2
    pdf = mpmath.exp(-t * t / 2) / mpmath.sqrt(2 * mpmath.pi)
    return mpmath.mpf(dy) * (cdf + t * pdf)


def tensors(generate, rows, cols, distribution, seed):
    x = generate(rows, cols, distribution, seed, stream=0)
    bias = generate(1, cols, "normal", seed, stream=1)
    dy = generate(rows, cols, "normal", seed, stream=2)
    xs, biases = struct.unpack(f"<{rows * cols}f", x), struct.unpack(f"<{cols}f", bias)
    dys = struct.unpack(f"<{rows * cols}f", dy)
    dx = [dx_of(value, biases[i % cols], dys[i]) for i, value in enumerate(xs)]
    dbias = [mpmath.fsum(dx[column::cols]) for column in range(cols)]
    return {  # the widest type first, so that every tensor is aligned
        "dx_exact": ("F64", [rows, cols], struct.pack(f"<{len(dx)}d", *map(float, dx))),
        "dbias_exact": ("F64", [1, cols], struct.pack(f"<{cols}d", *map(float, dbias))),
        "x": ("F32", [rows, cols], x),
        "bias": ("F32", [1, cols], bias),
        "dy": ("F32", [rows, cols], dy),
    }
