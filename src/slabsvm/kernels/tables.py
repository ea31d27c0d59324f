"""Scores without support vectors: one weight vector, or for additive kernels a sum of one-dimensional functions.

With k(x, z) = sum_j k(x_j, z_j), the score s(x) = sum_i beta_i k(v_i, x) is sum_j h_j(x_j), where h_j depends on x_j
alone (Maji, Berg, Malik 2008). A table keeps each feature's sorted values, with the sum of the coefficients behind
each: the support vectors cannot be put together again from it. For the intersection kernel h_j is piecewise linear with
its knots at these values; for chi2 it is a sum over them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.kernels.rows import Rows
from slabsvm.runtime.arrays import FloatArray, IntArray, dense, pieces, product
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.fields import Array
from slabsvm.runtime.objects import cached_property

# Bytes of values that are laid out at once: enough rows that a feature's table, once in the cache, is used often.
LAID_OUT_BYTES = 2**22
# The least exponent of a power of two in use: below it, and beyond its reciprocal, float64 has not all its bits.
LEAST_EXPONENT = -1000

# Each feature's distinct positive values in ascending order, end to end, with the sum of the coefficients behind each:
# counts (d,), values and weights (counts.sum(),).
Knots = tuple[npt.NDArray[np.int64], FloatArray, FloatArray]


class Projection(ABC):
    """s(x) = sum_i beta_i k(v_i, x) for fixed v_i and beta_i, in a form that new samples are scored by."""

    @abstractmethod
    def __call__(self, X: Rows) -> FloatArray:
        """Return s of each row of X, dense or CSR, shape (n,)."""

    @abstractmethod
    def by_feature(self, X: Rows) -> FloatArray:
        """Return what each feature adds to s of each row of X, dense or CSR, shape (n, d)."""


@dataclass(frozen=True, eq=False)
class WeightVector(Projection):
    """s(x) = <w, Phi(x)> for a kernel whose feature map Phi is explicit."""

    kernel: Any  # Phi is what it prepares rows by
    weights: Annotated[FloatArray, Array("d")]  # w

    @ONE_BLAS_THREAD
    def __call__(self, X: Rows) -> FloatArray:
        """Return Phi(x)'w of each row, some thousand rows at a time."""
        scores = np.empty(X.shape[0])
        for rows in pieces(X.shape[0], 8 * X.shape[1], LAID_OUT_BYTES):
            scores[rows] = product(self.kernel.prepare(X[rows]), self.weights)
        return scores

    def by_feature(self, X: Rows) -> FloatArray:
        """Return Phi_j(x_j) w_j."""
        images = self.kernel.prepare(X)
        with np.errstate(over="ignore"):
            return np.asarray(dense(images)) * self.weights


class _Table(Projection):
    """s(x) = sum_j h_j(x_j), by a function of `slabsvm.compiled.lookup` of this name."""

    functions: ClassVar[str]

    @property
    @abstractmethod
    def table(self) -> Any:
        """The table of the features' functions."""

    def __call__(self, X: Rows) -> FloatArray:
        """Return the sum of the features' functions of each row, some thousand rows at a time."""
        from slabsvm.compiled import lookup

        scores = np.zeros(X.shape[0])
        per_row = X.shape[1] if not sp.issparse(X) else -(-X.nnz // max(X.shape[0], 1))
        for rows in pieces(X.shape[0], 8 * per_row, LAID_OUT_BYTES):
            if sp.issparse(X):
                some = sp.csc_array(X[rows])
                values = self._values(some.indptr, some.data)
                scores[rows] = np.bincount(some.indices, values, minlength=some.shape[0])
            else:
                lookup.add_up(self.by_feature(X[rows]).T, scores[rows])
        return scores

    def by_feature(self, X: Rows) -> FloatArray:
        """Return h_j(x_j)."""
        columns = dense(X).T
        starts = np.arange(columns.shape[0] + 1) * columns.shape[1]
        return self._values(starts, columns.ravel()).reshape(columns.shape).T

    def _values(self, starts: IntArray, values: FloatArray) -> FloatArray:
        """Return h_j of values that are given by column, of the same shape."""
        from slabsvm.compiled import lookup

        found = np.empty(len(values))
        getattr(lookup, self.functions)(self.table, starts, values.astype(np.float64, copy=False), found)
        return found


@dataclass(frozen=True, eq=False)
class IntersectionTable(_Table):
    """s(x) = sum_i beta_i sum_j min(v_ij, x_j), in O(d log n) for each row, by the knots of the v_i."""

    functions: ClassVar[str] = "lines"
    # As of `Knots`
    counts: Annotated[IntArray, Array("d", dtype=("i8",), least=0)]
    values: Annotated[FloatArray, Array("knots", above=0.0)]
    weights: Annotated[FloatArray, Array("knots")]

    @cached_property
    def table(self) -> Any:
        """The lines between knots."""
        from slabsvm.compiled import lookup

        slots = self.counts + 1
        empty = np.zeros(int(slots.sum()))
        laid = _laid_out(self.values, self.counts, slots)
        table = lookup.Lines(_starts(slots), self.counts, laid, intercepts=empty, slopes=empty.copy())
        lookup.fill_lines(table, _laid_out(self.weights, self.counts, slots))
        return table


@dataclass(frozen=True, eq=False)
class Chi2Table(_Table):
    """s(x) = sum_i beta_i sum_j 2 v_ij x_j / (v_ij + x_j), by a table of `slabsvm.compiled.lookup.Fractions`."""

    functions: ClassVar[str] = "fractions"
    # As of `Fractions`
    counts: Annotated[IntArray, Array("d", dtype=("i8",), least=0)]
    scales: Annotated[FloatArray, Array("d", above=0.0)]
    knots: Annotated[FloatArray, Array("knots", above=0.0)]
    weights: Annotated[FloatArray, Array("knots")]

    @cached_property
    def table(self) -> Any:
        """The fractions."""
        from slabsvm.compiled import lookup

        return lookup.Fractions(_starts(self.counts), self.counts, self.scales, self.knots, self.weights)

    @classmethod
    def of_knots(cls, knots: Knots) -> Self:
        """Return the table of the knots of the v_i."""
        from slabsvm.compiled import lookup

        counts, values, weights = knots
        scales = np.ones(len(counts))
        filled = np.flatnonzero(counts)
        largest = values[np.cumsum(counts)[filled] - 1]
        scales[filled] = 0.5 ** np.maximum(np.frexp(largest)[1], LEAST_EXPONENT)
        slots = -(-counts // lookup.TOGETHER) * lookup.TOGETHER
        scaled = _laid_out(values * np.repeat(scales, counts), counts, slots, fill=1.0)
        laid = _laid_out(2.0 * weights * values, counts, slots)
        return cls(slots, scales, np.maximum(scaled, 1.0 / lookup.LARGEST), laid)


def knots_of(vectors: Rows, coefficients: FloatArray) -> Knots:
    """Return the knots of sum_i c_i h(v_i, x) for vectors, (n, d) dense or sparse, of these coefficients, (n,)."""
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
