"""The additive kernels, sums over features of a function of two numbers, and tables of what scores under them add up.

With k(x, z) = sum_j k(x_j, z_j), the score s(x) = sum_i beta_i k(v_i, x) is sum_j h_j(x_j), where h_j depends on x_j
alone (Maji, Berg, Malik 2008). A table keeps each feature's sorted values, with the sum of the coefficients behind
each: the support vectors cannot be put together again from it. For the intersection kernel h_j is piecewise linear with
its knots at these values; for chi2 it is a sum over them. Products need one weight vector, and no table.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.kernels.base import LAID_OUT_BYTES, Centre, Kernel, Projection
from slabsvm.runtime.arrays import (
    DENSE_BYTES,
    AnyFloatArray,
    FloatArray,
    IntArray,
    Rows,
    dense,
    pieces,
    row_products,
    row_sums,
)
from slabsvm.runtime.objects import Array, cached_property

# The least exponent of a power of two in use: below it, and beyond its reciprocal, float64 has not all its bits.
LEAST_EXPONENT = -1000

# Each feature's distinct positive values in ascending order, end to end, with the sum of the coefficients behind each:
# counts (d,), values and weights (counts.sum(),).
Knots = tuple[npt.NDArray[np.int64], FloatArray, FloatArray]


@dataclass(eq=False)
class Linear(Kernel):
    """k(x, z) = (x - c)'(z - c), with the origin c at 0 by default. The scores are those of one weight vector."""

    # c, for models that are the same wherever it is: near the samples, products of rows have less rounding. None for
    # sparse data, whose zeros it would destroy.
    centre: Centre = None

    explicit = True
    additive = True

    @classmethod
    def of_samples(cls, X: Rows, weights: FloatArray, *, gamma: str | float, needs_origin: bool) -> Linear:
        """Return the kernel with its origin at the samples' mean, where a model lets it and X is dense."""
        return cls(None if needs_origin or sp.issparse(X) else np.average(X, axis=0, weights=weights))

    def prepare(self, X: Rows, dtype: npt.DTypeLike = np.float64) -> Rows:
        """Return x - c."""
        if self.centre is None:
            return super().prepare(X, dtype)
        return np.subtract(dense(X), self.centre).astype(dtype, copy=False)

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return left @ right'."""
        return row_products(left, right, out)

    def diagonal(self, X: Rows) -> FloatArray:
        """Return |x - c|^2."""
        return row_sums(X if self.centre is None else self.prepare(X), power=2)

    def diagonal_by_feature(self, X: Rows) -> FloatArray:
        """Return (x_j - c_j)^2."""
        rows = self.prepare(X, np.float64)
        with np.errstate(over="ignore"):
            return np.asarray(np.square(dense(rows)))


class _Additive(Kernel):
    """A sum over features, of which each is as long as it is large."""

    non_negative = True
    additive = True

    def diagonal(self, X: Rows) -> FloatArray:
        """Return sum_j x_j."""
        return row_sums(X)

    def diagonal_by_feature(self, X: Rows) -> FloatArray:
        """Return x_j."""
        return np.array(dense(X), dtype=np.float64)


class Hellinger(_Additive):
    """k(x, z) = sum_j sqrt(x_j z_j), for non-negative features: linear on their square roots."""

    explicit = True

    def prepare(self, X: Rows, dtype: npt.DTypeLike = np.float64) -> Rows:
        """Return the square roots."""
        return np.sqrt(X.astype(dtype, copy=False))

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return the product of the square roots."""
        return row_products(left, right, out)

    def far_score(self, vectors: Rows, coefficients: FloatArray) -> float:
        """Return the limit of sqrt(t) sum_j w_j for t to infinity, w = sum_i c_i sqrt(v_i)."""
        slope = float(np.sum(self.prepare(vectors).T @ coefficients))
        return float(np.copysign(np.inf, slope)) if slope else 0.0


class _CompiledAdditive(_Additive):
    """An additive kernel whose blocks are computed by a loop of `slabsvm.compiled.kernels`."""

    loop: str  # its name
    limit: float  # k(x, z) / sum_j z_j as all x_j grow beyond bounds

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return the block, a few right-hand rows at a time where they are sparse and wide."""
        from slabsvm.compiled import kernels as _loops

        rows = sp.csr_array(left)
        if out is None:
            out = np.empty((left.shape[0], right.shape[0]), dtype=left.dtype)
        for columns in pieces(right.shape[0], right.shape[1] * out.itemsize, DENSE_BYTES):
            transposed = np.ascontiguousarray(dense(right[columns]).T)
            getattr(_loops, self.loop)(rows.indptr, rows.indices, rows.data, transposed, out[:, columns])
        return out

    def far_score(self, vectors: Rows, coefficients: FloatArray) -> float:
        """Return limit * sum_i c_i sum_j v_ij."""
        return self.limit * float(coefficients @ self.diagonal(vectors))


class Intersection(_CompiledAdditive):
    """k(x, z) = sum_j min(x_j, z_j), for non-negative features such as histograms."""

    loop = "intersection_rows"
    limit = 1.0

    def projection(self, vectors: Rows, coefficients: FloatArray) -> IntersectionTable:
        """Return the table of the vectors' knots."""
        return IntersectionTable(*knots_of(vectors, coefficients))


class Chi2(_CompiledAdditive):
    """k(x, z) = sum_j 2 x_j z_j / (x_j + z_j) with 0/0 = 0, for non-negative features (Vedaldi, Zisserman 2012).

    This is the additive kernel, and not exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j)), which also goes by the name.
    """

    loop = "chi2_rows"
    limit = 2.0

    def projection(self, vectors: Rows, coefficients: FloatArray) -> Chi2Table:
        """Return the table of the vectors' knots."""
        return Chi2Table.of_knots(knots_of(vectors, coefficients))


class _Table(Projection):
    """s(x) = sum_j h_j(x_j), by a function of `slabsvm.compiled.kernels` of this name."""

    functions: ClassVar[str]

    @property
    @abstractmethod
    def table(self) -> Any:
        """The table of the features' functions."""

    def __call__(self, X: Rows) -> FloatArray:
        """Return the sum of the features' functions of each row, some thousand rows at a time."""
        from slabsvm.compiled import kernels as _loops

        scores = np.zeros(X.shape[0])
        per_row = X.shape[1] if not sp.issparse(X) else -(-X.nnz // max(X.shape[0], 1))
        for rows in pieces(X.shape[0], 8 * per_row, LAID_OUT_BYTES):
            if sp.issparse(X):
                some = sp.csc_array(X[rows])
                values = self._values(some.indptr, some.data)
                scores[rows] = np.bincount(some.indices, values, minlength=some.shape[0])
            else:
                _loops.add_up(self.by_feature(X[rows]).T, scores[rows])
        return scores

    def by_feature(self, X: Rows) -> FloatArray:
        """Return h_j(x_j)."""
        columns = dense(X).T
        starts = np.arange(columns.shape[0] + 1) * columns.shape[1]
        return self._values(starts, columns.ravel()).reshape(columns.shape).T

    def _values(self, starts: IntArray, values: FloatArray) -> FloatArray:
        """Return h_j of values that are given by column, of the same shape."""
        from slabsvm.compiled import kernels as _loops

        found = np.empty(len(values))
        getattr(_loops, self.functions)(self.table, starts, values.astype(np.float64, copy=False), found)
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
        from slabsvm.compiled import kernels as _loops

        slots = self.counts + 1
        empty = np.zeros(int(slots.sum()))
        laid = _laid_out(self.values, self.counts, slots)
        table = _loops.Lines(_starts(slots), self.counts, laid, intercepts=empty, slopes=empty.copy())
        _loops.fill_lines(table, _laid_out(self.weights, self.counts, slots))
        return table


@dataclass(frozen=True, eq=False)
class Chi2Table(_Table):
    """s(x) = sum_i beta_i sum_j 2 v_ij x_j / (v_ij + x_j), by a table of `slabsvm.compiled.kernels.Fractions`."""

    functions: ClassVar[str] = "fractions"
    # As of `Fractions`
    counts: Annotated[IntArray, Array("d", dtype=("i8",), least=0)]
    scales: Annotated[FloatArray, Array("d", above=0.0)]
    knots: Annotated[FloatArray, Array("knots", above=0.0)]
    weights: Annotated[FloatArray, Array("knots")]

    @cached_property
    def table(self) -> Any:
        """The fractions."""
        from slabsvm.compiled import kernels as _loops

        return _loops.Fractions(_starts(self.counts), self.counts, self.scales, self.knots, self.weights)

    @classmethod
    def of_knots(cls, knots: Knots) -> Self:
        """Return the table of the knots of the v_i."""
        from slabsvm.compiled import kernels as _loops

        counts, values, weights = knots
        scales = np.ones(len(counts))
        filled = np.flatnonzero(counts)
        largest = values[np.cumsum(counts)[filled] - 1]
        scales[filled] = 0.5 ** np.maximum(np.frexp(largest)[1], LEAST_EXPONENT)
        slots = -(-counts // _loops.TOGETHER) * _loops.TOGETHER
        scaled = _laid_out(values * np.repeat(scales, counts), counts, slots, fill=1.0)
        laid = _laid_out(2.0 * weights * values, counts, slots)
        return cls(slots, scales, np.maximum(scaled, 1.0 / _loops.LARGEST), laid)


def knots_of(vectors: Rows, coefficients: FloatArray) -> Knots:
    """Return the knots of sum_i c_i h(v_i, x) for vectors, (n, d) dense or sparse, of these coefficients, (n,)."""
    entries = sp.coo_array(vectors)
    row, feature = entries.coords
    order = np.lexsort((entries.data, feature))
    order = order[entries.data[order] > 0]
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
