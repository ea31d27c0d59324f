"""Compiled blocks of the additive kernels: sums over features of a function of two numbers.

Both functions take the second factor transposed, (d, n_right), so that the innermost loop runs along contiguous
right-hand samples, and four features of a left-hand row at a time, so that sums are read and written a quarter as
often.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.runtime.compilation import compiler

# With Python's error model, a division could raise, and no loop around it would be vectorised.
_compiled = compiler(error_model="numpy")

LANES = 512  # right-hand samples whose partial sums stay in the first-level cache
# Reciprocals of zeros, in the unit of the largest value: products of two (float32) and of four (float64) are finite,
# and their own reciprocals are below any rounding.
ZERO_RECIPROCAL_SINGLE = 1e18
ZERO_RECIPROCAL = 1e75


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
            position, end = indptr[i], indptr[i + 1]
            while position + 4 <= end:
                a, b, c, d = data[position], data[position + 1], data[position + 2], data[position + 3]
                of_a = right[indices[position], first:last]
                of_b = right[indices[position + 1], first:last]
                of_c = right[indices[position + 2], first:last]
                of_d = right[indices[position + 3], first:last]
                for j in range(last - first):
                    sums[j] += (min(a, of_a[j]) + min(b, of_b[j])) + (min(c, of_c[j]) + min(d, of_d[j]))
                position += 4
            while position < end:
                a = data[position]
                of_a = right[indices[position], first:last]
                for j in range(last - first):
                    sums[j] += min(a, of_a[j])
                position += 1
            out[i, first:last] = sums


@_compiled
def chi2_rows(indptr: Any, indices: Any, data: Any, right: Any, out: Any) -> None:
    """Write out[i, j] = sum_k 2 x_ik z_jk / (x_ik + z_jk) for CSR rows x >= 0 and right = z', (d, n_right), z >= 0.

    A term is 2 / (1/x + 1/z). With reciprocals computed once, and terms brought to common denominators before they are
    divided, four terms cost one division in float64 and two in float32.
    """
    n_left, n_right = out.shape
    n_features = right.shape[0]
    unit = right.dtype.type(0.0)
    for position in range(indptr[0], indptr[n_left]):
        unit = max(unit, data[position])
    for k in range(n_features):
        for j in range(n_right):
            unit = max(unit, right[k, j])
    if unit == 0.0:
        out[:, :] = 0.0
        return
    single = right.itemsize == 4
    largest = right.dtype.type(ZERO_RECIPROCAL_SINGLE if single else ZERO_RECIPROCAL)
    left = np.empty(indptr[n_left] - indptr[0], right.dtype)
    for position in range(left.shape[0]):
        left[position] = min(unit / data[indptr[0] + position], largest)
    reciprocals = np.empty((n_features, min(LANES, n_right)), right.dtype)
    twice = unit + unit
    negligible = right.dtype.type(2 * n_features) / largest  # nothing but zeros
    lanes = np.empty(LANES, out.dtype)
    for first in range(0, n_right, LANES):
        last = min(first + LANES, n_right)
        for k in range(n_features):
            for j in range(last - first):
                reciprocals[k, j] = min(unit / right[k, first + j], largest)
        sums = lanes[: last - first]
        for i in range(n_left):
            sums[:] = 0.0
            position, end = indptr[i], indptr[i + 1]
            while position + 4 <= end:
                at = position - indptr[0]
                of_a, of_b = reciprocals[indices[position]], reciprocals[indices[position + 1]]
                of_c, of_d = reciprocals[indices[position + 2]], reciprocals[indices[position + 3]]
                u, v, w, x = left[at], left[at + 1], left[at + 2], left[at + 3]
                if single:
                    for j in range(last - first):
                        a, b, c, d = u + of_a[j], v + of_b[j], w + of_c[j], x + of_d[j]
                        sums[j] += (a + b) / (a * b) + (c + d) / (c * d)
                else:
                    for j in range(last - first):
                        a, b, c, d = u + of_a[j], v + of_b[j], w + of_c[j], x + of_d[j]
                        ab, cd = a * b, c * d
                        sums[j] += ((a + b) * cd + (c + d) * ab) / (ab * cd)
                position += 4
            while position < end:
                a = left[position - indptr[0]]
                of_a = reciprocals[indices[position]]
                for j in range(last - first):
                    sums[j] += right.dtype.type(1.0) / (a + of_a[j])
                position += 1
            for j in range(last - first):
                out[i, first + j] = twice * sums[j] if sums[j] > negligible else 0.0


@_compiled
def intersection_products(starts: Any, order: Any, values: Any, beta: Any, first: int, last: int, out: Any) -> None:
    """Add to out (m,) sum_j sum_i beta_i min(x_ij, x_kj) over the features j from first to last, for all k.

    order holds each feature's samples with x > 0, ascending from starts[j] to starts[j + 1], and values their x. With
    the samples below k behind it and those above ahead, k's sum is that of beta x behind and x_k times beta ahead.
    """
    for j in range(first, last):
        ahead = 0.0
        for place in range(starts[j], starts[j + 1]):
            ahead += beta[order[place]]
        behind = 0.0
        for place in range(starts[j], starts[j + 1]):
            weight, value = beta[order[place]], values[place]
            behind += weight * value
            ahead -= weight
            out[order[place]] += behind + ahead * value
