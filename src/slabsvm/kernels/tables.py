"""Scores without support vectors: one weight vector, or for additive kernels a sum of one-dimensional functions.

With k(x, z) = sum_j k(x_j, z_j), the score s(x) = sum_i beta_i k(v_i, x) is sum_j h_j(x_j), where h_j depends on x_j
alone (Maji, Berg, Malik 2008). A table keeps each feature's sorted values, with the sum of the coefficients behind
each: the support vectors cannot be put together again from it.

Intersection: h_j is piecewise linear with its knots at these values; the table is exact.

Chi2: h_j(t) = sum of beta u 2 t / (t + u) over knots u is interpolated by polynomials of degree 5 at Chebyshev nodes,
on M equal pieces of each octave of t. For one knot, on a piece [a, a + w] with w <= t/M, the error is at most

    max |h^(6)|/6! * 2 (w/4)^6  =  u^2 w^6 / (1024 (t + u)^7)  <=  u/M^6 * max_r r^6/(1 + r)^7 / 1024  <  5.6e-5 u/M^6

Below a 4M-th of the least knot one piece reaches down to 0, and above 2M times the largest one piece, a polynomial in
1/t, reaches up to infinity; the same formula gives them smaller errors. Knots may be tiny without limit, which would
ask for as many octaves: the lowest piece [0, e] may therefore contain knots, at an error of at most 7 e for each unit
of their |beta|, since h is within e |beta| of a constant there, interpolation amplifies that less than 3.2 times, and
making it 0 at 0 doubles it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.kernels.rows import Rows
from slabsvm.runtime.arrays import FloatArray, pieces, product
from slabsvm.runtime.blas import ONE_BLAS_THREAD

# Bytes of features that are laid out for lookups at once: enough rows that a feature's table, once in the cache, is
# used often (512 rows of 256 features take up to twice the time of 2,048).
LAID_OUT_BYTES = 2**22
# CSR rows with more nonzeros than this share are laid out densely.
SPARSE = 0.25
# The number of knots in each cell, if they were evenly spread.
KNOTS_PER_CELL = 0.5
# max_r r^6/(1 + r)^7 / 1024 at r = 6, rounded up.
PIECE_ERROR = 5.6e-5
LOWEST_PIECE_ERROR = 7.0
MOST_PIECES_PER_OCTAVE = 64
MANTISSA_BITS = 52
# The least exponent of a power of two in use: below it, and beyond its reciprocal, float64 has not all its bits.
LEAST_EXPONENT = -1000


class Projection(ABC):
    """s(x) = sum_i beta_i k(v_i, x) for fixed v_i and beta_i, in a form that new samples are scored by.

    Attributes
    ----------
    error : float
        A bound of how far s(x) may be off for any x, beyond rounding.
    """

    error: float = 0.0

    @abstractmethod
    def __call__(self, X: Rows) -> FloatArray:
        """Return s of each row of X, dense or CSR, shape (n,)."""

    @abstractmethod
    def by_feature(self, X: Rows) -> FloatArray:
        """Return what each feature adds to s of each row of X, dense or CSR, shape (n, d)."""


class WeightVector(Projection):
    """s(x) = <w, Phi(x)> with w = sum_i beta_i Phi(v_i), for a kernel whose feature map Phi is explicit.

    Parameters
    ----------
    features : callable
        Phi: takes rows and returns their images, (n, d) dense or CSR.
    vectors : (n, d) array or CSR matrix
    coefficients : (n,) array
    """

    def __init__(self, features: Callable[[Rows], Rows], vectors: Rows, coefficients: FloatArray) -> None:
        self.features = features
        self.weights = np.asarray(features(vectors).T @ coefficients, dtype=np.float64)

    @classmethod
    def of_weights(cls, features: Callable[[Rows], Rows], weights: FloatArray) -> Self:
        """Return the same of a known w, (d,)."""
        made = cls.__new__(cls)
        made.features, made.weights = features, weights
        return made

    @ONE_BLAS_THREAD
    def __call__(self, X: Rows) -> FloatArray:
        """Return Phi(x)'w of each row, some thousand rows at a time."""
        scores = np.empty(X.shape[0])
        for rows in pieces(X.shape[0], 8 * X.shape[1], LAID_OUT_BYTES):
            scores[rows] = product(self.features(X[rows]), self.weights)
        return scores

    def by_feature(self, X: Rows) -> FloatArray:
        """Return Phi_j(x_j) w_j."""
        images = self.features(X)
        with np.errstate(over="ignore"):
            return np.asarray(images.toarray() if sp.issparse(images) else images) * self.weights


class _SumOfFunctions(Projection):
    """s(x) = sum_j h_j(x_j), by functions of `slabsvm.compiled.lookup` that sum over columns and over CSR rows."""

    of_columns: str
    of_each: str
    of_csr: str
    table: Any

    def __call__(self, X: Rows) -> FloatArray:
        """Return the sum of the features' functions of each row, some thousand rows at a time."""
        from slabsvm.compiled import lookup as _lookup

        scores = np.empty(X.shape[0])
        for rows in pieces(X.shape[0], 8 * X.shape[1], LAID_OUT_BYTES):
            some, sums = X[rows], scores[rows]
            if sp.issparse(some) and some.nnz <= SPARSE * some.shape[0] * some.shape[1]:
                getattr(_lookup, self.of_csr)(some.indptr, some.indices, some.data, self.table, sums)
                continue
            dense = some.toarray() if sp.issparse(some) else some
            getattr(_lookup, self.of_columns)(np.ascontiguousarray(dense.T, dtype=np.float64), self.table, sums)
        return scores

    def by_feature(self, X: Rows) -> FloatArray:
        """Return h_j(x_j)."""
        from slabsvm.compiled import lookup as _lookup

        values = np.empty(X.shape)
        for rows in pieces(X.shape[0], 8 * X.shape[1], LAID_OUT_BYTES):
            some = X[rows].toarray() if sp.issparse(X) else X[rows]
            columns = np.ascontiguousarray(some.T, dtype=np.float64)
            found = np.zeros(columns.shape)
            getattr(_lookup, self.of_each)(columns, self.table, found)
            values[rows] = found.T
        return values


def _lines(counts: npt.NDArray[np.int64], values: FloatArray, weights: FloatArray) -> Any:
    """Return the compiled table of each feature's knots, as of `knots`."""
    from slabsvm.compiled import lookup as _lookup

    slots = counts + (counts > 0)
    cells = np.empty(int(np.ceil(counts / KNOTS_PER_CELL).sum()) + len(counts), dtype=np.int32)
    table = _lookup.Lines(
        starts=_starts(slots),
        counts=counts,
        knots=_laid_out(values, counts, slots),
        weights=_laid_out(weights, counts, slots),
        intercepts=np.zeros(int(slots.sum())),
        slopes=np.zeros(int(slots.sum())),
        cell_starts=np.zeros_like(counts),
        lows=np.zeros_like(counts),
        shifts=np.zeros_like(counts),
        n_cells=np.zeros_like(counts),
        widths=np.zeros_like(counts),
        cells=cells,
    )
    used = _lookup.fill_lines(table, KNOTS_PER_CELL)
    return table._replace(cells=cells[:used].copy())


class IntersectionTable(_SumOfFunctions):
    """s(x) = sum_i beta_i sum_j min(v_ij, x_j), to rounding, in O(d log n) or better for each row.

    Parameters
    ----------
    vectors : (n, d) array or CSR matrix, >= 0
    coefficients : (n,) array
    """

    of_columns = "lines_of_columns"
    of_each = "lines_of_each"
    of_csr = "lines_of_csr"

    def __init__(self, vectors: Rows, coefficients: FloatArray) -> None:
        self.table = _lines(*knots(vectors, coefficients))

    @classmethod
    def of_knots(cls, counts: npt.NDArray[np.int64], values: FloatArray, weights: FloatArray) -> Self:
        """Return the table of each feature's knots, as of `knots`."""
        table = cls.__new__(cls)
        table.table = _lines(counts, values, weights)
        return table

    @property
    def knots(self) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
        """The knots that the table was made of, as of `knots`."""
        table = self.table
        given = np.ones(len(table.knots), dtype=bool)
        given[(table.starts + table.counts)[table.counts > 0]] = False
        return table.counts, table.knots[given], table.weights[given]


class Chi2Table(_SumOfFunctions):
    """s(x) = sum_i beta_i sum_j 2 v_ij x_j / (v_ij + x_j), off by no more than a bound.

    Parameters
    ----------
    vectors : (n, d) array or CSR matrix, >= 0
    coefficients : (n,) array
    allowed : float >= 0, default=0
        How far s(x) may be off for any x. Where that is less than some 1e-15 of the sum of all terms, as for 0, the sum
        itself is computed.
    """

    of_columns = "fractions_of_columns"
    of_each = "fractions_of_each"
    of_csr = "fractions_of_csr"

    @classmethod
    def of_table(cls, table: Any, error: float) -> Self:
        """Return what a table of `slabsvm.compiled.lookup.Fractions`, off by no more than error, makes."""
        made = cls.__new__(cls)
        made.table, made.error = table, error
        return made

    def __init__(self, vectors: Rows, coefficients: FloatArray, allowed: float = 0.0) -> None:
        from slabsvm.compiled import lookup as _lookup

        counts, values, weights = knots(vectors, coefficients)
        starts = _starts(counts)
        n_features = len(counts)
        size = float(np.abs(weights * values).sum())
        per_octave, lowest, error = _resolution(size, float(np.abs(weights).sum()), allowed)
        shift = MANTISSA_BITS - int(per_octave).bit_length() + 1
        pieces, lows = [], np.zeros(n_features, dtype=np.int64)
        n_pieces = np.zeros(n_features, dtype=np.int64)
        scales = np.ones(n_features)
        filled = np.flatnonzero(counts)
        scales[filled] = 0.5 ** np.maximum(np.frexp(values[starts[filled] + counts[filled] - 1])[1], LEAST_EXPONENT)
        for j in np.flatnonzero(counts > _lookup.FEW_FRACTIONS) if per_octave else ():
            own = slice(starts[j], starts[j] + counts[j])
            lows[j], made = _polynomials(values[own], weights[own], per_octave, lowest, shift)
            n_pieces[j] = len(made)
            pieces.append(made)
            self.error = error
        slots = -(-counts // _lookup.TOGETHER) * _lookup.TOGETHER
        doubled = _laid_out(2.0 * weights * values, counts, slots)
        scaled = _laid_out(values * np.repeat(scales, counts), counts, slots, fill=1.0)
        self.table = _lookup.Fractions(
            starts=_starts(slots),
            counts=slots,
            scales=scales,
            knots=np.maximum(scaled, 1.0 / _lookup.LARGEST),
            weights=doubled,
            piece_starts=_starts(n_pieces),
            lows=lows,
            n_pieces=n_pieces,
            shift=shift,
            pieces=np.concatenate(pieces) if pieces else np.zeros((0, _lookup.WIDTH)),
        )


def knots(vectors: Rows, coefficients: FloatArray) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Return each feature's distinct positive values in ascending order, with the sum of the coefficients behind each.

    Returns
    -------
    counts : (d,) array of int64
        How many there are of each feature.
    values, weights : (counts.sum(),) arrays of float64
    """
    entries = sp.coo_array(vectors)
    row, feature = entries.coords
    order = np.argsort(entries.data)
    order = order[entries.data[order] > 0]
    # A stable sort of 16-bit numbers is by radix, several times faster.
    narrow = np.uint16 if vectors.shape[1] <= np.iinfo(np.uint16).max else np.int64
    order = order[np.argsort(feature[order].astype(narrow), kind="stable")]
    feature, value = feature[order], entries.data[order].astype(np.float64)
    weight = np.asarray(coefficients, dtype=np.float64)[row[order]]
    new = np.ones(len(value), dtype=bool)
    new[1:] = (np.diff(value) != 0) | (np.diff(feature) != 0)
    first = np.flatnonzero(new)
    counts = np.bincount(feature[first], minlength=vectors.shape[1]).astype(np.int64)
    return counts, value[first], np.add.reduceat(weight, first) if len(first) else weight


def _starts(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where stretches of these sizes begin, laid end to end."""
    return np.cumsum(sizes) - sizes


def _laid_out(
    values: FloatArray, counts: npt.NDArray[np.int64], slots: npt.NDArray[np.int64], fill: float = 0.0
) -> FloatArray:
    """Return each feature's values at the beginning of its slots, with fill behind them."""
    laid = np.full(int(slots.sum()), fill)
    laid[np.arange(len(values)) + np.repeat(_starts(slots) - _starts(counts), counts)] = values
    return laid


def _resolution(size: float, total: float, allowed: float) -> tuple[int, float, float]:
    """Return M, how far the lowest piece may reach whatever it contains, and the error bound; M = 0 for the exact sum.

    size and total are the sums over all knots u of |beta| u and of |beta|.
    """
    per_octave = 1
    while per_octave <= MOST_PIECES_PER_OCTAVE and PIECE_ERROR * size > 0.5 * allowed * per_octave**6:
        per_octave *= 2
    if not 0 < size < np.inf or per_octave > MOST_PIECES_PER_OCTAVE:
        return 0, 0.0, 0.0
    lowest = 0.5 * allowed / (LOWEST_PIECE_ERROR * total)
    if lowest < 2.0 ** (LEAST_EXPONENT + 1):
        return 0, 0.0, 0.0
    return per_octave, lowest, PIECE_ERROR * size / per_octave**6 + 0.5 * allowed


def _polynomials(
    values: FloatArray, weights: FloatArray, per_octave: int, lowest: float, shift: int
) -> tuple[int, FloatArray]:
    """Return a feature's pieces, shape (p, WIDTH), and the bits at which the second of them begins, less one piece.

    values are ascending and > 0. The pieces are [0, first edge], M for each octave, and [last edge, infinity].
    """
    from slabsvm.compiled import lookup as _lookup

    # By exponents: a quotient of the least knot might be 0.
    octaves = int(per_octave).bit_length() - 1
    bottom = max(np.frexp(values[0])[1] - octaves - 3, np.frexp(lowest)[1] - 1)
    top = min(max(np.frexp(values[-1])[1] + octaves + 1, bottom + 1), -LEAST_EXPONENT)
    within = 2.0 ** np.arange(bottom, top)[:, None] * (1.0 + np.arange(per_octave) / per_octave)
    edges = np.append(within.ravel(), 2.0**top)
    x = np.cos(np.pi * (np.arange(_lookup.DEGREE + 1) + 0.5) / (_lookup.DEGREE + 1))
    left, right = np.append(np.append(0.0, edges[:-1]), 0.0), np.append(edges, 1.0 / edges[-1])
    centre, half = 0.5 * (left + right), 0.5 * (right - left)
    nodes = centre[:, None] + half[:, None] * x
    nodes[-1] = 1.0 / nodes[-1]
    sums = np.empty(nodes.size)
    _lookup.sum_fractions(nodes.ravel(), values, weights, sums)
    coefficients = sums.reshape(nodes.shape) @ np.linalg.inv(np.vander(x, increasing=True)).T
    # No feature, no contribution: the lowest polynomial is made to vanish at 0.
    coefficients[0, 0] -= coefficients[0] @ (-1.0) ** np.arange(_lookup.DEGREE + 1)
    low = int(edges[:1].view(np.int64)[0]) - (1 << shift)
    return low, np.column_stack([centre, 1.0 / half, coefficients])
