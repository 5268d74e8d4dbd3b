# SPDX-License-Identifier: Apache-2.0
"""Family layernorm: y = (x - mean) rstd gamma + beta, rstd = 1 / sqrt(variance + 1e-5), over each row."""

import math
import struct

import mpmath

PROBLEMS = {
    # name: (rows, cols, distribution, seed). The offset -o1 moves buffers, not values.
    "7x127": (7, 127, "normal", 0),
    "2x1025-s7-o1": (2, 1025, "normal", 7),
    "6x128-shifted": (6, 128, "shifted", 0),
    "9x96-special": (9, 96, "special", 0),
}


def statistics(row):
    """mean and rstd of a row, exact but for 50 digits; what is no number as IEEE arithmetic has it."""
    if not all(map(math.isfinite, row)):
        return math.fsum(row) if len({value for value in row if math.isinf(value)}) < 2 else math.nan, math.nan
    values = [mpmath.mpf(value) for value in row]
    mean = mpmath.fsum(values) / len(row)
    variance = mpmath.fsum((value - mean) ** 2 for value in values) / len(row)
    return mean, 1 / mpmath.sqrt(variance + mpmath.mpf("1e-5"))


def normalise(row, gamma, beta, mean, rstd):
    if math.isnan(rstd):
        return [math.nan] * len(row)
    return [float((mpmath.mpf(value) - mean) * rstd * g + b) for value, g, b in zip(row, gamma, beta, strict=True)]


def tensors(generate, rows, cols, distribution, seed):
    x = generate(rows, cols, distribution, seed, stream=0)
    gamma = generate(1, cols, "normal", seed, stream=1)
    beta = generate(1, cols, "normal", seed, stream=2)
    xs, gs, bs = (struct.unpack(f"<{len(data) // 4}f", data) for data in (x, gamma, beta))
    y, means, rstds = [], [], []
    for r in range(rows):
        row = xs[r * cols : (r + 1) * cols]
        mean, rstd = statistics(row)
        y += normalise(row, gs, bs, mean, rstd)
        means.append(float(mean))
        rstds.append(float(rstd))
    return {  # the widest type first, so that every tensor is aligned
        "y_exact": ("F64", [rows, cols], struct.pack(f"<{rows * cols}d", *y)),
        "mean_exact": ("F64", [rows, 1], struct.pack(f"<{rows}d", *means)),
        "rstd_exact": ("F64", [rows, 1], struct.pack(f"<{rows}d", *rstds)),
        "x": ("F32", [rows, cols], x),
        "gamma": ("F32", [1, cols], gamma),
        "beta": ("F32", [1, cols], beta),
    }
