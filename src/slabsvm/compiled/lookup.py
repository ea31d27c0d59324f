"""Compiled sums of one-dimensional functions, one for each feature, each given by its knots.

Every function here is h(t) for t >= 0 with h(0) = 0. Values are given by column: those of feature j are
values[starts[j]:starts[j + 1]], all rows' or only the nonzero ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slabsvm.runtime.arrays import FloatArray, IntArray
from slabsvm.runtime.compilation import compiler

_compiled = compiler(error_model="numpy")

TOGETHER = 4  # fractions that are brought to one denominator
# Products of TOGETHER values of this size and any weight are finite, and those of its reciprocals are not 0.
LARGEST = 1e45


class Lines(NamedTuple):
    """Piecewise linear functions of d features, with knots u: h(t) = intercept + slope t after the last u <= t.

    Attributes
    ----------
    starts, counts : (d,) arrays of int64
        Where each feature's knots begin, and how many there are; one more slot follows them.
    knots, intercepts, slopes : (k,) arrays of float64
        There is one more piece than knots.
    """

    starts: IntArray
    counts: IntArray
    knots: FloatArray
    intercepts: FloatArray
    slopes: FloatArray


class Fractions(NamedTuple):
    """Sums over d features' knots u of weight 2 t u / (t + u).

    With a feature's scale c and weights and knots as they are stored, the sum is that of weight c t / (c t + knot).

    Attributes
    ----------
    starts, counts : (d,) arrays of int64
        A multiple of TOGETHER of knots for each feature.
    scales : (d,) array of float64
        Powers of two, which bring the knots to at most 1.
    knots, weights : (k,) arrays of float64
        scale u, and 2 u times the coefficient.
    """

    starts: IntArray
    counts: IntArray
    scales: FloatArray
    knots: FloatArray
    weights: FloatArray


@_compiled
def fill_lines(table: Any, weights: Any) -> None:
    """Fill in the intercepts and slopes of h(t) = sum of weight min(u, t), for weights (k,) in the knots' slots."""
    for j in range(table.starts.shape[0]):
        start, count = table.starts[j], table.counts[j]
        # Summed from the last knot backwards and from the first forwards: no difference of large sums.
        slope = 0.0
        for k in range(start + count, start - 1, -1):
            table.slopes[k] = slope
            if k > start:
                slope += weights[k - 1]
        intercept = 0.0
        for k in range(start, start + count + 1):
            table.intercepts[k] = intercept
            intercept += weights[k] * table.knots[k]


@_compiled
def lines(table: Any, starts: Any, values: Any, found: Any) -> None:
    """Write to found what Lines make of values; a binary search without a branch, so that lookups overlap."""
    for j in range(table.starts.shape[0]):
        t = values[starts[j] : starts[j + 1]]
        knots = table.knots[table.starts[j] :]
        intercepts = table.intercepts[table.starts[j] :]
        slopes = table.slopes[table.starts[j] :]
        place = np.zeros(t.shape[0], np.int64)
        width = table.counts[j]
        while width > 0:
            half = (width + 1) // 2
            for r in range(t.shape[0]):
                place[r] = place[r] + half if knots[place[r] + half - 1] <= t[r] else place[r]
            width -= half
        for r in range(t.shape[0]):
            found[starts[j] + r] = intercepts[place[r]] + slopes[place[r]] * t[r]


@_compiled
def fractions(table: Any, starts: Any, values: Any, found: Any) -> None:
    """Write to found what Fractions make of values: four fractions cost one division."""
    found[:] = 0.0
    for j in range(table.starts.shape[0]):
        t = values[starts[j] : starts[j + 1]]
        sums = found[starts[j] : starts[j + 1]]
        scale = table.scales[j]
        for k in range(table.starts[j], table.starts[j] + table.counts[j], TOGETHER):
            u, v, w, x = table.knots[k], table.knots[k + 1], table.knots[k + 2], table.knots[k + 3]
            of_u, of_v, of_w, of_x = table.weights[k], table.weights[k + 1], table.weights[k + 2], table.weights[k + 3]
            for r in range(t.shape[0]):
                value = min(t[r] * scale, LARGEST)
                a, b, c, d = value + u, value + v, value + w, value + x
                ab, cd = a * b, c * d
                sums[r] += value * (((of_u * b + of_v * a) * cd + (of_w * d + of_x * c) * ab) / (ab * cd))


@_compiled
def add_up(columns: Any, sums: Any) -> None:
    """Add columns, (d, n), to sums, (n,), one after the other: no sum depends on how many rows there are."""
    for j in range(columns.shape[0]):
        for r in range(columns.shape[1]):
            sums[r] += columns[j, r]
