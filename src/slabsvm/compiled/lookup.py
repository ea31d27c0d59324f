"""Compiled sums of one-dimensional functions that are given as tables, one for each feature.

Every function here is h(t) for t >= 0 with h(0) = 0. A table finds its piece by the bits of t, which are ordered as the
numbers are: the bits above some position name a cell, whatever the scale of the feature and however long its tail.
Each stage is a loop over many t without a branch, so that lookups overlap instead of waiting for each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slabsvm.runtime.arrays import FloatArray, IntArray
from slabsvm.runtime.compilation import compiler

_compiled = compiler(error_model="numpy")
# For what compiled code calls: a second copy, compiled on its own, may round otherwise (docs/developers/method.md).
_inlined = compiler(error_model="numpy", forceinline=True)

# Up to this many knots, summing over them is faster than looking one up.
FEW_LINES = 48
FEW_FRACTIONS = 24
DEGREE = 5
WIDTH = DEGREE + 3  # a piece of the chi2 table, one cache line: its centre, 2/length, and DEGREE + 1 coefficients
TOGETHER = 4  # fractions that are brought to one denominator
# Products of TOGETHER values of this size and any weight are finite, and those of its reciprocals are not 0.
LARGEST = 1e45


class Lines(NamedTuple):
    """Piecewise linear functions of d features, with knots u: h(t) = intercept + slope t after the last u <= t.

    Attributes
    ----------
    starts, counts : (d,) arrays of int64
        Where each feature's knots begin, and how many there are; sentinels follow them.
    knots, weights, intercepts, slopes : (k,) arrays of float64
        h(t) = sum of weight min(u, t) over a feature's knots; there is one more piece than knots.
    cell_starts, lows, shifts, n_cells, widths : (d,) arrays of int64
        Cell (bits(t) - low) >> shift, and how many knots there are in the fullest.
    cells : (c,) array of int32
        From which knot on t's place is to be looked for; within width knots it is found.
    """

    starts: IntArray
    counts: IntArray
    knots: FloatArray
    weights: FloatArray
    intercepts: FloatArray
    slopes: FloatArray
    cell_starts: IntArray
    lows: IntArray
    shifts: IntArray
    n_cells: IntArray
    widths: IntArray
    cells: npt.NDArray[np.int32]


class Fractions(NamedTuple):
    """Sums over d features' knots u of weight 2 t u / (t + u), or polynomials that stand for them.

    With a feature's scale c and weights and knots as they are stored, the sum is that of weight c t / (c t + knot).

    Attributes
    ----------
    starts, counts : (d,) arrays of int64
        A multiple of TOGETHER of knots for each feature.
    scales : (d,) array of float64
        Powers of two, which bring the knots to at most 1.
    knots, weights : (k,) arrays of float64
        scale u, and 2 u times the coefficient.
    piece_starts, lows, n_pieces : (d,) arrays of int64
        n_pieces = 0: the sum itself. Otherwise piece (bits(t) - low) >> shift, the last being a polynomial in 1/t.
    shift : int
    pieces : (p, WIDTH) array of float64
    """

    starts: IntArray
    counts: IntArray
    scales: FloatArray
    knots: FloatArray
    weights: FloatArray
    piece_starts: IntArray
    lows: IntArray
    n_pieces: IntArray
    shift: int
    pieces: FloatArray


@_inlined
def _bits(t: Any) -> Any:
    """Return the bits of a float64."""
    return np.float64(t).view(np.int64)


@_inlined
def _polynomial(piece: Any, t: Any, to_infinity: Any) -> Any:
    """Return the value at t of a piece of Fractions; the piece that reaches to infinity is a polynomial in 1/t."""
    variable = 1.0 / t if to_infinity else t
    x = (variable - piece[0]) * piece[1]
    value = piece[7]
    value = value * x + piece[6]
    value = value * x + piece[5]
    value = value * x + piece[4]
    value = value * x + piece[3]
    return value * x + piece[2]


@_inlined
def _add_lines(t: Any, table: Any, j: int, sums: Any) -> None:
    """Add feature j's piecewise linear function of t to sums."""
    start, count = table.starts[j], table.counts[j]
    if count <= FEW_LINES:
        for k in range(start, start + count):
            knot = table.knots[k]
            weight = table.weights[k]
            for r in range(t.shape[0]):
                sums[r] += weight * (t[r] if t[r] < knot else knot)
        return
    bits = t.view(np.int64)
    cells = table.cells[table.cell_starts[j] :]
    knots = table.knots[start:]
    intercepts = table.intercepts[start:]
    slopes = table.slopes[start:]
    low = table.lows[j]
    shift = table.shifts[j]
    last = table.n_cells[j] - 1
    place = np.empty(t.shape[0], np.int64)  # allocated here, where the compiler sees that nothing else points to it
    for r in range(t.shape[0]):
        place[r] = cells[min((max(bits[r], low) - low) >> shift, last)]
    width = table.widths[j]
    while width > 0:
        half = (width + 1) // 2
        for r in range(t.shape[0]):
            place[r] = place[r] + half if knots[place[r] + half - 1] <= t[r] else place[r]
        width -= half
    for r in range(t.shape[0]):
        sums[r] += intercepts[place[r]] + slopes[place[r]] * t[r]


@_inlined
def _add_fractions(t: Any, table: Any, j: int, sums: Any) -> None:
    """Add feature j's sum of fractions of t to sums."""
    if table.n_pieces[j] == 0:
        scale = table.scales[j]
        for k in range(table.starts[j], table.starts[j] + table.counts[j], TOGETHER):
            # Four fractions cost one division.
            u, v, w, x = table.knots[k], table.knots[k + 1], table.knots[k + 2], table.knots[k + 3]
            of_u, of_v, of_w, of_x = table.weights[k], table.weights[k + 1], table.weights[k + 2], table.weights[k + 3]
            for r in range(t.shape[0]):
                value = min(t[r] * scale, LARGEST)
                a, b, c, d = value + u, value + v, value + w, value + x
                ab, cd = a * b, c * d
                sums[r] += value * (((of_u * b + of_v * a) * cd + (of_w * d + of_x * c) * ab) / (ab * cd))
        return
    bits = t.view(np.int64)
    pieces = table.pieces[table.piece_starts[j] :]
    low = table.lows[j]
    last = table.n_pieces[j] - 1
    place = np.empty(t.shape[0], np.int64)
    for r in range(t.shape[0]):
        place[r] = min((max(bits[r], low) - low) >> table.shift, last)
    for r in range(t.shape[0]):
        sums[r] += _polynomial(pieces[place[r]], t[r], place[r] == last)


@_compiled
def lines_of_columns(columns: Any, table: Any, sums: Any) -> None:
    """Write to sums (n,) the sum over features of Lines, of columns (d, n)."""
    sums[:] = 0.0
    for j in range(columns.shape[0]):
        if table.counts[j] > 0:
            _add_lines(columns[j], table, j, sums)


@_compiled
def fractions_of_columns(columns: Any, table: Any, sums: Any) -> None:
    """Write to sums (n,) the sum over features of Fractions, of columns (d, n)."""
    sums[:] = 0.0
    for j in range(columns.shape[0]):
        if table.counts[j] > 0:
            _add_fractions(columns[j], table, j, sums)


@_compiled
def lines_of_each(columns: Any, table: Any, values: Any) -> None:
    """Add to values (d, n) the Lines of each feature, of columns (d, n)."""
    for j in range(columns.shape[0]):
        if table.counts[j] > 0:
            _add_lines(columns[j], table, j, values[j])


@_compiled
def fractions_of_each(columns: Any, table: Any, values: Any) -> None:
    """Add to values (d, n) the Fractions of each feature, of columns (d, n)."""
    for j in range(columns.shape[0]):
        if table.counts[j] > 0:
            _add_fractions(columns[j], table, j, values[j])


@_compiled
def lines_of_csr(indptr: Any, indices: Any, data: Any, table: Any, sums: Any) -> None:
    """Write to sums (n,) the sum over features of Lines, of an (n, d) CSR matrix."""
    for i in range(sums.shape[0]):
        total = 0.0
        for position in range(indptr[i], indptr[i + 1]):
            j, t = indices[position], np.float64(data[position])
            start, count = table.starts[j], table.counts[j]
            if count <= FEW_LINES:
                for k in range(start, start + count):
                    total += table.weights[k] * min(t, table.knots[k])
                continue
            cell = min((max(_bits(t), table.lows[j]) - table.lows[j]) >> table.shifts[j], table.n_cells[j] - 1)
            place = start + table.cells[table.cell_starts[j] + cell]
            width = table.widths[j]
            while width > 0:
                half = (width + 1) // 2
                place = place + half if table.knots[place + half - 1] <= t else place
                width -= half
            total += table.intercepts[place] + table.slopes[place] * t
        sums[i] = total


@_compiled
def fractions_of_csr(indptr: Any, indices: Any, data: Any, table: Any, sums: Any) -> None:
    """Write to sums (n,) the sum over features of Fractions, of an (n, d) CSR matrix."""
    for i in range(sums.shape[0]):
        total = 0.0
        for position in range(indptr[i], indptr[i + 1]):
            j, t = indices[position], np.float64(data[position])
            if t <= 0.0:
                continue
            if table.n_pieces[j] == 0:
                value = min(t * table.scales[j], LARGEST)
                for k in range(table.starts[j], table.starts[j] + table.counts[j]):
                    total += table.weights[k] * (value / (value + table.knots[k]))
                continue
            place = min((max(_bits(t), table.lows[j]) - table.lows[j]) >> table.shift, table.n_pieces[j] - 1)
            total += _polynomial(table.pieces[table.piece_starts[j] + place], t, place == table.n_pieces[j] - 1)
        sums[i] = total


@_compiled
def fill_lines(table: Any, knots_per_cell: float) -> int:
    """Fill in all of Lines but starts, counts, knots and weights, which are given; return how many cells were used.

    cells must have room for 1 + counts / knots_per_cell of them for each feature, rounded up.
    """
    used = 0
    for j in range(table.starts.shape[0]):
        start, count = table.starts[j], table.counts[j]
        if count == 0:
            continue
        # Summed from the last knot backwards and from the first forwards: no difference of large sums.
        slope = 0.0
        for k in range(start + count, start - 1, -1):
            table.slopes[k] = slope
            if k > start:
                slope += table.weights[k - 1]
        intercept = 0.0
        for k in range(start, start + count + 1):
            table.intercepts[k] = intercept
            if k < start + count:
                intercept += table.weights[k] * table.knots[k]
        table.cell_starts[j] = used
        if count <= FEW_LINES:
            continue
        bits = table.knots[start : start + count].view(np.int64)
        low = bits[0]
        span = bits[count - 1] - low
        shift = 0
        while (span >> shift) + 1 > count / knots_per_cell:
            shift += 1
        n_cells = (span >> shift) + 1
        before = 0
        fullest = 0
        for cell in range(n_cells):
            first = before
            while before < count and (bits[before] - low) >> shift == cell:
                before += 1
            table.cells[used + cell] = first
            fullest = max(fullest, before - first)
        # The search must not read beyond the feature's knots: starting earlier finds the same place.
        for cell in range(n_cells):
            table.cells[used + cell] = min(table.cells[used + cell], count - fullest)
        table.lows[j], table.shifts[j] = low, shift
        table.n_cells[j], table.widths[j] = n_cells, fullest
        used += n_cells
    return used


@_compiled
def sum_fractions(nodes: Any, knots: Any, weights: Any, values: Any) -> None:
    """Write to values (n,) the sum over knots of weight 2 u t / (t + u) at nodes t (n,), all > 0."""
    even = knots.shape[0] // 2 * 2
    for i in range(nodes.shape[0]):
        inverse = 1.0 / nodes[i]
        total = 0.0
        for k in range(0, even, 2):
            one, other = 1.0 + knots[k] * inverse, 1.0 + knots[k + 1] * inverse
            total += (weights[k] * knots[k] * other + weights[k + 1] * knots[k + 1] * one) / (one * other)
        for k in range(even, knots.shape[0]):
            total += weights[k] * knots[k] / (1.0 + knots[k] * inverse)
        values[i] = 2.0 * total
