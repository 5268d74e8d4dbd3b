#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits and proves the exp2 form of GELU: erfc(a / sqrt 2) = 2^-(a q(a)) for a = |t|, q a polynomial.

    tools/fit_gelu_exp2.py fit      prints the constants of src/kernels/gelu/exp2_form.hpp, and those by which
                                    cpu_v01_simd.cpp computes 2^f for f in [-1/2, 1/2] (needs mpmath, numpy)
    tools/fit_gelu_exp2.py prove    reads them back from that header and tries every float t in [-20, 20] against
                                    |err| <= 8u|t| + 2u|y|, u = 2^-24 (needs numpy, scipy; minutes)

The fit is a Remez exchange on q with the weight that turns an error of q into an error of y in units of u |t|; where
that weight has died away (a > 6) a second weight keeps the exponent itself within a few units, so that the result
decays to zero instead of turning back. Everything is in h = t / 2, the kernels' variable: scaling a by 2 is exact.
"""

import argparse
import multiprocessing
import pathlib
import re
import sys

HEADER = pathlib.Path(__file__).resolve().parent.parent / "src/kernels/gelu/exp2_form.hpp"
DEGREE = 5
EXP2_DEGREE = 5
END = 13.5  # erfc(END / sqrt 2) is 1.6e-41, which ex2.approx.ftz flushes to 0
U = 2.0**-24
EX2_ERROR = 2.0**-22  # relative: 2 ulp of a result just above a power of two, 4 ulp just below one
CHUNK = 1 << 22


def remez(degree, low, a, target, weight):
    """The polynomial that minimises max |target - q| weight over the grid `a` of [low, a[-1]]: coefficients by rising
    power, and that maximum."""
    import mpmath
    import numpy as np

    mpmath.mp.dps = 40
    scaled = 2 * (a - low) / (a[-1] - low) - 1
    count = degree + 2
    points = np.round((1 - np.cos(np.pi * np.arange(count) / (count - 1))) / 2 * (len(a) - 1)).astype(int)
    for _ in range(60):
        matrix, right = mpmath.matrix(count, count), mpmath.matrix(count, 1)
        for i, k in enumerate(points):
            for j in range(degree + 1):
                matrix[i, j] = mpmath.cos(j * mpmath.acos(mpmath.mpf(float(scaled[k]))))
            matrix[i, degree + 1] = mpmath.mpf(-1) ** i / mpmath.mpf(float(weight[k]))
            right[i] = mpmath.mpf(float(target[k]))
        solution = mpmath.lu_solve(matrix, right)
        coefficients = np.array([float(solution[j]) for j in range(degree + 1)])
        error = (target - np.polynomial.chebyshev.chebval(scaled, coefficients)) * weight
        edges = np.flatnonzero(np.diff(np.sign(error))) + 1
        runs = np.split(np.arange(len(a)), edges)
        extrema = np.array([run[np.argmax(abs(error[run]))] for run in runs])
        while len(extrema) > count:  # keep the signs alternating: drop the weaker end
            extrema = extrema[1:] if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else extrema[:-1]
        if len(extrema) < count:
            raise RuntimeError("the exchange lost an extremum: refine the grid")
        worst = float(max(abs(error)))
        if worst < abs(float(solution[degree + 1])) * 1.0001:
            chebyshev = np.polynomial.Chebyshev(coefficients, domain=[low, a[-1]])
            return chebyshev.convert(kind=np.polynomial.Polynomial, domain=[-1, 1], window=[-1, 1]).coef, worst
        points = extrema
    raise RuntimeError("the exchange did not converge in 60 rounds")


def fit_erfc():
    import mpmath
    import numpy as np

    a = np.concatenate([np.linspace(0.0005, 6, 4000), np.linspace(6.005, END, 1500)])
    erfc = [mpmath.erfc(mpmath.mpf(float(v)) / mpmath.sqrt(2)) for v in a]
    target = np.array([float(-mpmath.log(e, 2) / mpmath.mpf(float(v))) for e, v in zip(erfc, a, strict=True)])
    # d y / d q = -(t/2) erfc ln2 a; divided by u |t|. The second weight lets the exponent err by 1 in natural units.
    weight = np.maximum(np.array([float(e) for e in erfc]) / (2 * U), 1.0) * np.log(2) * a
    return remez(DEGREE, 0, a, target, weight)


def fit_exp2():
    import mpmath
    import numpy as np

    f = np.linspace(-0.5, 0.5, 4001)
    f = f[f != 0]
    target = np.array([float((mpmath.mpf(2) ** mpmath.mpf(float(v)) - 1) / mpmath.mpf(float(v))) for v in f])
    return remez(EXP2_DEGREE - 1, -0.5, f, target, abs(f) / np.exp2(f) / U)


def literal(value):
    import numpy as np

    return re.sub("0+p", "p", float(np.float32(value)).hex()) + "f"


def fit():
    import mpmath

    mpmath.mp.dps = 40
    coefficients, worst = fit_erfc()
    print(f"// worst error of the unrounded fit: {worst:.3f} u|t|")
    for k, c in enumerate(coefficients):
        # exponent = -(a q(a)) = h (c0 + c1 h + ...) for a = 2 h
        print(f"inline constexpr float exp2_q{k} = {literal(-c * 2.0 ** (k + 1))};")
    print(f"inline constexpr float exp2_end = {END / 2}f;")
    coefficients, worst = fit_exp2()
    print(f"// 2^f = 1 + f (p1 + f (p2 + ...)): worst relative error of the unrounded fit {worst:.3f} u")
    for k, c in enumerate(coefficients, start=1):
        print(f"constexpr float p{k} = {literal(c)};")


def read_header():
    found = dict(re.findall(r"constexpr float exp2_(\w+) = ([^;]+)f;", HEADER.read_text(encoding="utf-8")))
    names = [f"q{k}" for k in range(DEGREE + 1)] + ["end"]
    missing = [name for name in names if name not in found]
    if missing:
        sys.exit(f"{HEADER}: no exp2_{missing[0]}; run `fit` and paste its output there")
    return [float.fromhex(found[name]) if "0x" in found[name] else float(found[name]) for name in names]


def evaluate(h, constants, ex2_factor):
    """The kernels' arithmetic on float32 h = t / 2. FMA through double: its second rounding moves a result by at most
    2^-29 of its size more than a real FMA would."""
    import numpy as np

    f32, f64 = np.float32, np.float64

    def fma(x, y, z):
        return (x.astype(f64) * y + z).astype(f32)

    *q, end = constants
    a = np.fmin(abs(h), f32(end))
    exponent = np.full_like(h, q[-1])
    for c in reversed(q[:-1]):
        exponent = fma(exponent, a.astype(f64), c)
    exponent = exponent * a
    tail = (np.exp2(exponent.astype(f64)) * ex2_factor).astype(f32)
    tail[tail < f32(2.0**-126)] = 0  # .ftz
    return fma(-a, tail.astype(f64), (h + abs(h)).astype(f64))


def worst_of_chunk(task):
    """Worst |err| / bound over float bit patterns [begin, end), both signs."""
    import numpy as np
    from scipy.special import erfc

    begin, end, constants = task
    magnitude = np.arange(begin, end, dtype=np.uint32).view(np.float32)
    worst = (0.0, 0.0, 0.0)
    for sign in (np.float32(1), np.float32(-1)):
        t = magnitude * sign
        exact_t = t.astype(np.float64)
        y = 0.5 * exact_t * erfc(-exact_t / np.sqrt(2.0))
        bound = 8 * U * abs(exact_t) + 2 * U * abs(y)
        for factor in (1 - EX2_ERROR, 1 + EX2_ERROR):
            ratio = abs(evaluate(t * np.float32(0.5), constants, factor) - y) / bound
            k = int(np.argmax(ratio))
            if not ratio[k] <= worst[0]:
                worst = (float(ratio[k]), float(t[k]), factor)
    return worst


def prove():
    import numpy as np

    constants = read_header()
    # Below 2^-100 the smallest results meet the subnormal range, which has no relative bound in any form of GELU;
    # between there and 2^-40 nothing changes but the scale, so every float from 2^-40 up is tried.
    begin = int(np.float32(2.0**-40).view(np.uint32))
    end = int(np.float32(20.0).view(np.uint32)) + 1
    tasks = [(k, min(k + CHUNK, end), constants) for k in range(begin, end, CHUNK)]
    with multiprocessing.Pool() as pool:
        worst = max(pool.imap_unordered(worst_of_chunk, tasks), key=lambda w: (w[0] != w[0], w[0]))
    print(f"{2 * (end - begin)} floats, |t| in [2^-40, 20], ex2 off by 2^-22 either way: worst |err| / bound")
    print(f"  {worst[0]:.4f} at t = {worst[1]!r} with ex2 x {worst[2]!r}")

    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, 3.4e38], dtype=np.float32)
    with np.errstate(invalid="ignore"):
        got = evaluate(special * np.float32(0.5), constants, 1.0)
    print("  specials:", ", ".join(f"{float(t)!r} -> {float(y)!r}" for t, y in zip(special, got, strict=True)))
    expected = [np.inf, np.nan, np.nan, 0, 0, special[5], 0, special[7]]
    good = np.array_equal(got, np.array(expected, dtype=np.float32), equal_nan=True)
    if not (worst[0] <= 1 and good):
        sys.exit("NOT inside the bound")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["fit", "prove"])
    {"fit": fit, "prove": prove}[parser.parse_args().step]()


if __name__ == "__main__":
    main()
