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


def hodges_lehmann(x):
    """From all pairs: SciPy has none."""
    i, j = numpy.triu_indices(len(x))
    return float(numpy.median((x[i] + x[j]) / 2))


def signed_rank_sets():
    """Differences by name. SciPy is told how to get the p-value that is meant by `exact` and by the approximation."""
    generator = numpy.random.default_rng(20240301)
    return {
        "one": numpy.array([0.3]),
        "three_positive": numpy.array([0.1, 0.2, 0.3]),
        "ten": generator.standard_normal(10) + 0.4,
        "ten_shifted": generator.standard_normal(10) + 2,
        "fifty": generator.standard_normal(50) - 0.2,
        "fifty_shifted": generator.standard_normal(50) + 1,
        "ties_9": numpy.array([1, -1, 2, 2, 2, -3, 4, 4, 1.0]),
        "ties_and_zeros_12": numpy.array([0, 1, -1, 2, 2, 0, 2, 3, 4, 4, 0, 1.0]),
        "fifty_one": generator.standard_normal(51) + 0.3,
        "eighty_with_ties_and_zeros": numpy.round(generator.standard_normal(80) * 4 + 1),
        "two_hundred": generator.standard_normal(200) - 0.1,
    }


def signed_rank(x):
    kept = x[x != 0]
    if len(kept) > 50:
        result = stats.wilcoxon(x, correction=True, method="asymptotic")
    elif len(numpy.unique(numpy.abs(kept))) < len(kept):  # every way to choose the signs
        result = stats.wilcoxon(kept, method=stats.PermutationMethod(n_resamples=numpy.inf))
    else:
        result = stats.wilcoxon(kept, method="exact")
    return {"differences": x.tolist(), "p": float(result.pvalue), "hodges_lehmann": hodges_lehmann(x)}


def rank_sum_sets():
    generator = numpy.random.default_rng(20240302)
    normal = generator.standard_normal
    return {
        "one_and_one": (numpy.array([1.0]), numpy.array([2.0])),
        "one_and_four": (numpy.array([5.0]), numpy.array([1.0, 2.0, 3.0, 4.0])),
        "ten_and_ten": (normal(10), normal(10) + 0.5),
        "ten_and_ten_apart": (normal(10), normal(10) + 9),
        "seven_and_twelve": (normal(7) + 1, normal(12)),
        "twenty_five_each": (normal(25), normal(25) + 0.7),
        "ties_5_and_7": (numpy.array([1, 2, 2, 3, 5.0]), numpy.array([2, 3, 3, 4, 5, 5, 6.0])),
        "ties_all_equal": (numpy.full(4, 2.0), numpy.full(5, 2.0)),
        "thirty_and_forty": (normal(30), normal(40) - 0.4),
        "ties_40_and_40": (numpy.round(normal(40) * 2), numpy.round(normal(40) * 2 + 1)),
    }


def rank_sum(x, y):
    both = numpy.concatenate([x, y])
    if len(both) > 50:
        result = stats.mannwhitneyu(x, y, method="asymptotic")
    elif len(numpy.unique(both)) < len(both):  # every way to deal the samples out
        result = stats.mannwhitneyu(x, y, method=stats.PermutationMethod(n_resamples=numpy.inf))
    else:
        result = stats.mannwhitneyu(x, y, method="exact")
    described = {
        "baseline": x.tolist(),
        "candidate": y.tolist(),
        "p": float(result.pvalue),
        "hodges_lehmann_shift": float(numpy.median(numpy.subtract.outer(y, x))),
    }
    if len(x) > 1 and len(y) > 1 and x.var() + y.var() > 0:
        welch = stats.ttest_ind(y, x, equal_var=False)
        interval = welch.confidence_interval(0.95)
        described["welch"] = {
            "dof": float(welch.df),
            "p": float(welch.pvalue),
            "low": float(interval.low),
            "high": float(interval.high),
        }
    return described


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
    # From both sides of t = 3, where the formula of mage_bench changes, to where doubles end.
    t_p_grid = [
        {"t": t, "dof": dof, "value": float(2 * stats.t.sf(t, dof))}
        for dof in (1, 1.5, 2, 3, 4.3, 9, 9.7, 19, 63, 100, 1000, 100000)
        for t in (0.0, 1e-3, 0.7, 1.0, 2.2, 2.9999, 3.0, 3.1, 5.0, 12.0, 36.0, 400.0, 1e5, 1e12)
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
        "student_t_p_value": [point for point in t_p_grid if point["value"] > 1e-290],
        "signed_rank": {name: signed_rank(x) for name, x in signed_rank_sets().items()},
        "rank_sum": {name: rank_sum(x, y) for name, (x, y) in rank_sum_sets().items()},
        "normal_quantile": normal_grid,
    }
    file.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
