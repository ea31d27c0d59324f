"""Compiled searches for the nearest samples.

A search is decided by the squared differences of few samples. Of few features samples lie in boxes of as many as are
compared at once. A row's squared distance from a box bounds those of the samples in it: the nearest box is searched,
then each that is nearer than the farthest of the nearest found so far. Of many features products in float32 bound the
distances: those samples are compared that may be near within what these round. Either is exact: squared differences
have all their digits, and each row's are its own, whatever is asked for together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.runtime.compilation import compiler

_compiled = compiler(error_model="numpy")
_inlined = compiler(error_model="numpy", forceinline=True)

# So many values are compared at once with the least of the nearest, and of so many samples the least bounds are kept;
# the columns of products are a multiple of it.
LANES = 64
# A product, a sum and a number of float32 are each off by no more than this share.
ROUNDING = 2.0**-24
# numba takes a product of float32 and an integer to float64.
TWO, UP, DOWN = np.float32(2.0), np.float32(1.0 + 4.0 * ROUNDING), np.float32(8.0 * ROUNDING)


@_inlined
def _add_squares(total: Any, x: Any, z: Any) -> None:
    """Add the squared differences between a row, (d,), and samples, (d, m), to total, (m,)."""
    d = len(z)
    for k in range(0, d - 1, 2):
        x0, x1 = x[k], x[k + 1]
        z0, z1 = z[k], z[k + 1]
        for j in range(len(total)):
            total[j] += (x0 - z0[j]) * (x0 - z0[j]) + (x1 - z1[j]) * (x1 - z1[j])
    if d % 2:
        x0 = x[d - 1]
        z0 = z[d - 1]
        for j in range(len(total)):
            total[j] += (x0 - z0[j]) * (x0 - z0[j])


@_inlined
def _put(value: Any, number: int, best: Any, which: Any) -> None:
    """Put a value in its place among the least ones, ascending, and its number beside it; the last falls out."""
    place = len(best) - 1
    while place > 0 and best[place - 1] > value:
        best[place], which[place] = best[place - 1], which[place - 1]
        place -= 1
    best[place], which[place] = value, number


@_compiled
def nearest_in_boxes(
    rows: Any, own: Any, boxes: Any, low: Any, high: Any, numbers: Any, labels: Any, squares: Any, near: Any
) -> None:
    """Fill squares, (n, k), with squared distances of rows from the nearest samples, ascending, and near with these.

    Parameters
    ----------
    rows : (n, d) array
    own : (n,) array of intp
        Samples of this label are left out for a row.
    boxes : (b, d, m) array
        m samples in each box, each in a column; infinite where there are fewer.
    low, high : (d, b) arrays
        The boxes' ends.
    numbers : (b, m) array of intp
    labels : (b, m) array of intp
    squares : (n, k) array
        Infinite where there are fewer samples, of number 0.
    near : (n, k) array of intp
    """
    n_boxes, d, m = boxes.shape
    least, inside = np.empty(n_boxes), np.empty(m)
    for i in range(len(rows)):
        best, which = squares[i], near[i]
        best[:], which[:] = np.inf, 0
        last = len(best) - 1
        least[:] = 0.0
        for k in range(d):
            x, a, b = rows[i, k], low[k], high[k]
            for j in range(n_boxes):
                beyond = max(a[j] - x, x - b[j], 0.0)
                least[j] += beyond * beyond
        nearest_one = least.min()
        first = 0
        while least[first] > nearest_one:
            first += 1
        for turn in range(-1, n_boxes):
            box = first if turn < 0 else turn
            if turn == first or least[box] >= best[last]:
                continue
            inside[:] = 0.0
            _add_squares(inside, rows[i], boxes[box])
            for j in range(m):
                if inside[j] < best[last] and labels[box, j] != own[i]:
                    _put(inside[j], numbers[box, j], best, which)


@_compiled
def nearest_by_products(
    rows: Any, samples: Any, products: Any, slopes: Any, norms: Any, roots: Any, squares: Any, near: Any
) -> None:
    """Fill squares and near as `nearest_in_boxes` does, by bounds on |z|^2 - 2 x'z.

    Parameters
    ----------
    rows, squares, near : arrays
        As there.
    samples : (m, d) array
    products : (n, p) array of float32
        x'z of each row and sample about a common centre; p is a multiple of LANES, of which the first m are samples. A
        sample of -inf is left out.
    slopes : (n,) array of float32
        2 x'z is off by no more than a slope times |z|.
    norms, roots : (p,) arrays of float32
        |z|^2, infinite beyond the samples, and |z|, at most 1.
    """
    m, last = len(samples), squares.shape[1] - 1
    bounds = np.empty(len(norms), np.float32)
    least, lesser = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for i in range(len(rows)):
        best, which, slope = squares[i], near[i], slopes[i]
        least[:] = np.inf
        for begin in range(0, len(norms), LANES):
            some, product = bounds[begin : begin + LANES], products[i, begin : begin + LANES]
            z2, z = norms[begin : begin + LANES], roots[begin : begin + LANES]
            for j in range(LANES):
                some[j] = UP * z2[j] + slope * z[j] - TWO * product[j]
                # In another array: stores of what is less alone are masked, which some processors do slowly.
                lesser[j] = min(least[j], some[j])
            least, lesser = lesser, least
        best[:], which[:] = np.inf, 0
        for j in range(LANES):
            if least[j] < best[last]:
                _put(least[j], 0, best, which)
        bound = best[last]
        best[:], which[:] = np.inf, 0
        x = rows[i]
        for lane in range(LANES):
            # No sample is further from the centre than 1.
            if least[lane] - TWO * slope - DOWN > bound:
                continue
            for j in range(lane, m, LANES):
                if bounds[j] - TWO * slope * roots[j] - DOWN * norms[j] <= bound and bounds[j] < np.inf:
                    z = samples[j]
                    total = 0.0
                    for k in range(len(x)):
                        total += (x[k] - z[k]) * (x[k] - z[k])
                    if total < best[last]:
                        _put(total, j, best, which)
