# SPDX-License-Identifier: Apache-2.0
"""Family layernorm_backward: dx, dgamma and dbeta from x, dy, gamma and the saved FP32 mean and rstd."""

import math
import struct

import mpmath

PROBLEMS = {
    # name: (rows, cols, distribution, seed). The offset -o1 moves buffers, not values.
    "5x32": (5, 32, "normal", 0),
    "3x257-s7-o1": (3, 257, "normal", 7),
    "9x64-shifted": (9, 64, "shifted", 0),
    "9x48-special": (9, 48, "special", 0),
}


def to_float(value):
    """The nearest FP32; refuses a value so close to a tie that the roundings of a sum in double could decide it."""
    double = float(value)
    single = struct.unpack("<f", struct.pack("<f", double))[0]
    step = math.ldexp(1, math.frexp(single)[1] - 24)
    if value != double and abs(abs(double - single) - step / 2) < 1e-6 * step:
        raise ValueError(f"{double!r} is nearly a tie between two floats; take another problem")
    return single


def statistics(row):
    """Mean and rstd of a row, eps = 1e-5, rounded to FP32."""
    if not all(math.isfinite(value) for value in row):
        return sum(row), math.nan  # rows are all of one kind, so the sum is what a mean is
    mean = mpmath.fsum(row) / len(row)
    variance = mpmath.fsum((value - mean) ** 2 for value in row) / len(row)
    return to_float(mean), to_float(1 / mpmath.sqrt(variance + mpmath.mpf("1e-5")))


def gradients(xs, dys, means, rstds, gammas):
    cols = len(gammas)
    dx, dgamma, dbeta = [], [mpmath.mpf(0)] * cols, [mpmath.mpf(0)] * cols
    for x, dy, mean, rstd in zip(xs, dys, means, rstds, strict=True):
        xhat = [(mpmath.mpf(value) - mean) * rstd for value in x]
        w = [mpmath.mpf(gamma) * g for gamma, g in zip(gammas, dy, strict=True)]
        c1 = mpmath.fsum(w) / cols
        c2 = mpmath.fsum(a * b for a, b in zip(w, xhat, strict=True)) / cols
        dx += [float(rstd * (a - c1 - b * c2)) for a, b in zip(w, xhat, strict=True)]
        for c in range(cols):
            dgamma[c] += dy[c] * xhat[c]
            dbeta[c] += dy[c]
    return dx, [float(value) for value in dgamma], [float(value) for value in dbeta]


def tensors(generate, rows, cols, distribution, seed):
    x = generate(rows, cols, distribution, seed, stream=0)
    dy = generate(rows, cols, "normal", seed, stream=1)
    gamma = generate(1, cols, "normal", seed, stream=4)

    def split(data):
        values = struct.unpack(f"<{len(data) // 4}f", data)
        return [values[i : i + cols] for i in range(0, len(values), cols)]

    means, rstds = zip(*(statistics(row) for row in split(x)), strict=True)
    outputs = gradients(split(x), split(dy), means, rstds, split(gamma)[0])
    exact = dict(zip(("dx", "dgamma", "dbeta"), outputs, strict=True))
    return {  # the widest type first, so that every tensor is aligned
        f"{name}_exact": ("F64", [rows if name == "dx" else 1, cols], struct.pack(f"<{len(v)}d", *v))
        for name, v in exact.items()
    } | {
        "x": ("F32", [rows, cols], x),
        "dy": ("F32", [rows, cols], dy),
        "mean": ("F32", [rows, 1], struct.pack(f"<{rows}f", *means)),
        "rstd": ("F32", [rows, 1], struct.pack(f"<{rows}f", *rstds)),
        "gamma": ("F32", [1, cols], gamma),
    }
