"""Compiled arithmetic of kernels: exponentials, blocks and products of the additive kernels, and sums given by knots.

Without AVX-512, NumPy's exponential of float64 takes one number at a time; the one here is a polynomial, and takes as
many as a register holds: with AVX2, six to ten times as many in the same time. It is exact to a few units of 1's
rounding. Its arguments are not positive.

Blocks of the additive kernels, sums over features of a function of two numbers, take the second factor transposed,
(d, n_right), so that the innermost loop runs along contiguous right-hand samples.

The functions of one number that scores under an additive kernel are sums of, one for each feature, are h(t) for t >= 0
with h(0) = 0, given by their knots. Values are given by column: those of feature j are
values[starts[j]:starts[j + 1]], all rows' or only the nonzero ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slabsvm.runtime.arrays import FloatArray, IntArray
from slabsvm.runtime.compilation import compiler

# With Python's error model, a division could raise, and no loop around it would be vectorised.
_compiled = compiler(error_model="numpy")
_inlined = compiler(error_model="numpy", forceinline=True)

LOG2 = 0.6931471805599453
PER_LOG2 = 1.0 / LOG2
# exp(LEAST) is 1e-304. What is less would be no normal number, and is 0.
LEAST = -700.0

LANES = 512  # right-hand samples whose partial sums stay in the first-level cache
TOGETHER = 4  # fractions that are brought to one denominator
# Products of TOGETHER values of this size and any weight are finite, and those of its reciprocals are not 0.
LARGEST = 1e45


@_inlined
def _exponential(x: Any) -> Any:
    """Return exp(x) of x <= 0, which is 2^k exp(r) with |r| <= log(2) / 2: of exp(r) the first terms of its series."""
    bounded = max(x, LEAST)
    k = np.rint(bounded * PER_LOG2)
    r = bounded - k * LOG2
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    # The bits of 2^k.
    power = np.int64((np.int64(np.int32(k)) + 1023) << 52).view(np.float64)
    return p * power if x >= LEAST else 0.0


@_compiled
def exponentials(values: Any) -> None:
    """Replace values, (n,), none of them positive, by their exponentials."""
    for i in range(len(values)):
        values[i] = _exponential(values[i])


@_compiled
def sums_without(rows: Any, samples: Any, targets: Any, gammas: Any, coefficients: Any) -> Any:
    """Return sum_j a_tj exp(-gamma_t s_ij), (n, q), s_ij the squared distance without feature targets[t].

    Parameters
    ----------
    rows : (n, d) array
    samples : (d, m) array
        A sample in each column.
    targets : (q,) array of intp
    gammas : (q,) array
    coefficients : (q, m) array
        a.
    """
    m = samples.shape[1]
    squares, terms = np.empty(m), np.empty(m)
    found = np.empty((len(rows), len(targets)))
    for i in range(len(rows)):
        squares[:] = 0.0
        for k in range(samples.shape[0]):
            x = rows[i, k]
            z = samples[k]
            for j in range(m):
                squares[j] += (x - z[j]) * (x - z[j])
        for t in range(len(targets)):
            x = rows[i, targets[t]]
            z = samples[targets[t]]
            a = coefficients[t]
            gamma = gammas[t]
            for j in range(m):
                without = max(squares[j] - (x - z[j]) * (x - z[j]), 0.0)
                terms[j] = a[j] * _exponential(-gamma * without)
            total = 0.0
            for j in range(m):
                total += terms[j]
            found[i, t] = total
    return found


@_compiled
def intersection_rows(indptr: Any, indices: Any, data: Any, right: Any, out: Any) -> None:
    """Write out[i, j] = sum_k min(x_ik, z_jk) for CSR rows x >= 0 and right = z', shape (d, n_right), z >= 0."""
    n_left, n_right = out.shape
    # Whatever out's layout is, the innermost loops run along contiguous sums.
    lanes = np.empty(LANES, out.dtype)
    for first in range(0, n_right, LANES):
        last = min(first + LANES, n_right)
        sums = lanes[: last - first]
        for i in range(n_left):
            sums[:] = 0.0
            for position in range(indptr[i], indptr[i + 1]):
                x = data[position]
                z = right[indices[position], first:last]
                for j in range(last - first):
                    sums[j] += min(x, z[j])
            out[i, first:last] = sums


# A compiler that may reorder products would multiply x by z first, which underflows or overflows.
@compiler(error_model="numpy", fastmath=False)
def chi2_rows(indptr: Any, indices: Any, data: Any, right: Any, out: Any) -> None:
    """Write out[i, j] = sum_k 2 x_ik z_jk / (x_ik + z_jk) for CSR rows x > 0 and right = z', (d, n_right), z >= 0."""
    n_left, n_right = out.shape
    lanes = np.empty(LANES, out.dtype)
    for first in range(0, n_right, LANES):
        last = min(first + LANES, n_right)
        sums = lanes[: last - first]
        for i in range(n_left):
            sums[:] = 0.0
            for position in range(indptr[i], indptr[i + 1]):
                x = data[position]
                z = right[indices[position], first:last]
                for j in range(last - first):
                    sums[j] += z[j] * (x / (x + z[j]))
            for j in range(last - first):
                out[i, first + j] = sums[j] + sums[j]


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
