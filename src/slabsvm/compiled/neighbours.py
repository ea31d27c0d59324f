"""Compiled loops of a sparse inverse factor: nearest earlier samples, small regressions on them, products.

K is a dense block; a list of samples that ends early is filled up with -1. Every sample's work is its own, so that
threads may take ranges of samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.runtime.compilation import compiler

_compiled = compiler(error_model="numpy")

DEPENDENT = 2.0  # times its ridge: a pivot of less is rounding
LANES = 64  # values that are compared at once with the least of the nearest


@_compiled
def nearest_earlier(rows: Any, scales: Any, first: int, nearest: Any) -> None:
    """Fill nearest[i] with the samples j < i of the largest K_ij scales_j, in order, for the rows of K from i = first.

    Samples beyond the rows' end are nobody's neighbours.
    """
    n_nearest = nearest.shape[1]
    values = np.empty(n_nearest, rows.dtype)
    scaled = np.empty(LANES, rows.dtype)
    half = LANES // 2
    folded = np.empty(half, rows.dtype)
    for i in range(first, first + len(rows)):
        row = rows[i - first]
        count = 0
        end = min(i, rows.shape[1])
        for begin in range(0, end, LANES):
            width = min(LANES, end - begin)
            if width == LANES:
                some = row[begin : begin + LANES]
                their = scales[begin : begin + LANES]
                for lane in range(LANES):
                    scaled[lane] = some[lane] * their[lane]
                for lane in range(half):
                    folded[lane] = scaled[lane] if scaled[lane] > scaled[half + lane] else scaled[half + lane]
                highest = folded[0]
                for lane in range(half):
                    highest = folded[lane] if folded[lane] > highest else highest
                if count == n_nearest and highest <= values[count - 1]:
                    continue
            else:
                for lane in range(width):
                    scaled[lane] = row[begin + lane] * scales[begin + lane]
            for lane in range(width):
                value = scaled[lane]
                if count == n_nearest:
                    if value <= values[count - 1]:
                        continue
                    count -= 1
                place = count
                while place > 0 and values[place - 1] < value:
                    values[place] = values[place - 1]
                    nearest[i, place] = nearest[i, place - 1]
                    place -= 1
                values[place] = value
                nearest[i, place] = begin + lane
                count += 1
        nearest[i, count:] = -1


@_compiled
def regress(
    K: Any, index: Any, ridges: Any, face: Any, places: Any, nearest: Any, first: int, last: int, chosen: Any, u: Any
) -> None:
    """Regress each sample of a face on its nearest ones there, and fill column a of the factor, first <= a < last.

    Parameters
    ----------
    K : (n, n) array of float32 or float64
        Among samples that hold all that are needed.
    index : (m,) array of intp
        Where in K each of them is.
    ridges : (m,) array
        Added to K's diagonal.
    face : (f,) array of intp
        In ascending order.
    places : (m,) array of intp
        Where in face each sample is; -1 for others.
    nearest : (m, n) array of int32
        Each sample's nearest earlier ones.
    chosen : (f, n) array of int32
        Filled with the places of those that are in the face.
    u : (f, n + 1) array of float64
        Filled with their entries in the factor's column, and with the diagonal's behind them.
    """
    n_nearest = nearest.shape[1]
    factor = np.empty((n_nearest, n_nearest))
    weights = np.empty(n_nearest)
    samples = np.empty(n_nearest, np.int64)
    added = np.empty(n_nearest)
    for a in range(first, last):
        own = ridges[face[a]]
        i = index[face[a]]
        count = 0
        for j in nearest[face[a]]:
            if j >= 0 and places[j] >= 0:
                samples[count] = index[j]
                added[count] = ridges[j]
                chosen[a, count] = places[j]
                count += 1
        chosen[a, count:] = -1
        variance = np.float64(K[i, i]) + own
        for x in range(count):
            j = samples[x]
            for y in range(x + 1):
                inner = np.float64(K[j, samples[y]])
                if x == y:
                    inner += added[x]
                for z in range(y):
                    inner -= factor[x, z] * factor[y, z]
                if x == y:
                    # What depends on those before it explains nothing more; divided by its pivot, rounding would grow.
                    factor[x, x] = np.sqrt(inner) if inner > DEPENDENT * added[x] else 0.0
                else:
                    factor[x, y] = inner / factor[y, y] if factor[y, y] > 0 else 0.0
            weight = np.float64(K[i, j])
            for z in range(x):
                weight -= factor[x, z] * weights[z]
            weights[x] = weight / factor[x, x] if factor[x, x] > 0 else 0.0
            # Nor can more be explained than there is.
            if weights[x] * weights[x] > variance - own:
                weights[x] = 0.0
            variance -= weights[x] * weights[x]
        root = 1.0 / np.sqrt(max(variance, own))
        for x in range(count - 1, -1, -1):
            weight = weights[x]
            for z in range(x + 1, count):
                weight -= factor[z, x] * weights[z]
            weights[x] = weight / factor[x, x] if factor[x, x] > 0 else 0.0
            u[a, x] = -weights[x] * root
        u[a, n_nearest] = root


@_compiled
def product(chosen: Any, u: Any, right: Any, result: Any) -> None:
    """Add U U' right to the result, both (f, k), for the factor U whose columns `regress` filled."""
    n_nearest, n_columns = chosen.shape[1], right.shape[1]
    inner = np.empty(n_columns)
    for a in range(len(right)):
        root = u[a, n_nearest]
        for c in range(n_columns):
            inner[c] = root * right[a, c]
        for x in range(n_nearest):
            if chosen[a, x] < 0:
                break
            for c in range(n_columns):
                inner[c] += u[a, x] * right[chosen[a, x], c]
        for c in range(n_columns):
            result[a, c] += root * inner[c]
        for x in range(n_nearest):
            if chosen[a, x] < 0:
                break
            for c in range(n_columns):
                result[chosen[a, x], c] += u[a, x] * inner[c]


@_compiled
def diagonal(chosen: Any, u: Any) -> Any:
    """Return the diagonal of U U', shape (f,)."""
    n_nearest = chosen.shape[1]
    result = np.zeros(len(chosen))
    for a in range(len(chosen)):
        result[a] += u[a, n_nearest] * u[a, n_nearest]
        for x in range(n_nearest):
            if chosen[a, x] < 0:
                break
            result[chosen[a, x]] += u[a, x] * u[a, x]
    return result
