#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/statistics_scipy.json: what NumPy and SciPy say of fixed samples.

    python3 tools/make_statistics_data.py test/data/statistics_scipy.json

Needs numpy and scipy; the versions used stand in the file.
"""

import argparse
import json
import pathlib

import numpy
import scipy
from scipy import stats

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)
LEVELS = (0.9, 0.95, 0.99)


def sample_sets():
    generator = numpy.random.default_rng(20240229)
    noisy = 31.2 * numpy.exp(0.01 * generator.standard_normal(25))
    drifting = 12.0 + 0.05 * numpy.arange(30) + 0.02 * generator.standard_normal(30)
    heavy = 8.0 + numpy.abs(generator.standard_cauchy(16))
    return {
        "noisy_25": noisy,
        "drifting_30": drifting,
        "heavy_tail_16": heavy,
        "rounds_10": 104.0 * numpy.exp(0.004 * generator.standard_normal(10)),
        "rounds_11": 104.0 * numpy.exp(0.004 * generator.standard_normal(11)),
        "ties": numpy.array([2.0, 2.0, 2.016, 2.016, 2.016, 2.032, 2.016, 2.016, 2.048]),
        "two": numpy.array([5.0, 5.25]),
        "wide_range": numpy.array([1e-3, 1e-2, 1e3, 1e6, 3.5, 0.7]),
    }


def lag1(x):
    d = x - x.mean()
    return float(numpy.dot(d[1:], d[:-1]) / numpy.dot(d, d))


def describe(x):
    logs = numpy.log(x)
    half = len(x) // 2
    t_intervals = []
    for level in LEVELS:
        low, high = stats.t.interval(level, len(x) - 1, loc=logs.mean(), scale=stats.sem(logs))
        t_intervals.append({"level": level, "low": float(numpy.exp(low)), "high": float(numpy.exp(high))})
    bootstrap = stats.bootstrap(
        (x,), numpy.median, method="percentile", n_resamples=200_000, confidence_level=0.95, rng=1
    ).confidence_interval
    return {
        "samples": x.tolist(),
        "median": float(numpy.median(x)),
        "mad": float(1.4826 * stats.median_abs_deviation(x)),
        "quantiles": [{"p": p, "value": float(numpy.quantile(x, p))} for p in QUANTILES],
        "lag1": lag1(x),
        "drift": float(numpy.median(x[-half:]) / numpy.median(x[:half]) - 1),
        "t_intervals": t_intervals,
        "bootstrap_95": {"low": float(bootstrap.low), "high": float(bootstrap.high)},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, help="where to write")
    file = parser.parse_args().file

    # Nothing very near 1/2: there SciPy itself is 1e-9 off (its t.ppf(0.4999, 4) against the closed form).
    t_grid = [
        {"p": p, "dof": dof, "value": float(stats.t.ppf(p, dof))}
        for dof in (1, 1.5, 2, 3, 4, 9, 9.7, 19, 29, 63, 64, 100, 1000, 100000)
        for p in (1e-9, 1e-4, 0.005, 0.025, 0.25, 0.45, 0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.99999)
    ]
    tails = [2.0**-e for e in (1, 2, 3, 4, 8, 16, 24, 32, 33, 53, 100, 300, 1000, 1022, 1074)]
    upper = [1 - 2.0**-e for e in (2, 3, 4, 8, 16, 24, 32, 33, 53)]
    # 0.075 and 0.925 are where the central approximation of AS 241 ends; exp(-25) where its middle one does.
    seams = [0.0749999, 0.075, 0.0750001, 0.4, 0.5000001, 0.6, 0.9249999, 0.925, 0.9250001, 1.38e-11, 1.39e-11]
    normal_grid = [{"p": p, "value": float(stats.norm.ppf(p))} for p in tails + upper + seams]

    content = {
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "sets": {name: describe(x) for name, x in sample_sets().items()},
        "student_t_quantile": t_grid,
        "normal_quantile": normal_grid,
    }
    file.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
