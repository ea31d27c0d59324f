"""The kernels that have a name: the RBF kernel, and those that sum a function of two numbers over the features.

With k(x, z) = sum_j k(x_j, z_j), the score s(x) = sum_i beta_i k(v_i, x) is sum_j h_j(x_j), where h_j depends on x_j
alone (Maji, Berg, Malik 2008): each feature has its part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from slabsvm import core
from slabsvm.kernels.bandwidth import gamma_value
from slabsvm.kernels.base import Centre, Kernel
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, Rows, dense, pieces, row_products, row_sums

# Rows are infinitely far where gamma |x - c|^2 is more than this share of the largest number.
INFINITELY_FAR = 1e-8


@dataclass(eq=False)
class Linear(Kernel):
    """k(x, z) = (x - c)'(z - c), with the origin c at 0 by default. The scores are those of one weight vector."""

    # c, for models that are the same wherever it is: near the samples rounding is less. None for sparse data.
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
    """A sum over features, with k(x_j, x_j) = x_j."""

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
    """An additive kernel whose blocks are computed by a loop of the core."""

    loop: str  # its name
    limit: float  # k(x, z) / sum_j z_j as all x_j grow beyond bounds

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return the block, a few right-hand rows at a time where they are sparse and wide."""
        rows = sp.csr_array(left)
        if out is None:
            out = np.empty((left.shape[0], right.shape[0]), dtype=left.dtype)
        for columns in pieces(right.shape[0], right.shape[1] * out.itemsize):
            transposed = np.ascontiguousarray(dense(right[columns]).T)
            getattr(core, self.loop)(rows.indptr, rows.indices, rows.data, transposed, out[:, columns])
        return out

    def far_score(self, vectors: Rows, coefficients: FloatArray) -> float:
        """Return limit * sum_i c_i sum_j v_ij."""
        return self.limit * float(coefficients @ self.diagonal(vectors))


class Intersection(_CompiledAdditive):
    """k(x, z) = sum_j min(x_j, z_j), for non-negative features such as histograms."""

    loop = "intersection_rows"
    limit = 1.0


class Chi2(_CompiledAdditive):
    """k(x, z) = sum_j 2 x_j z_j / (x_j + z_j) with 0/0 = 0, for non-negative features (Vedaldi, Zisserman 2012).

    This is the additive kernel, and not exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j)), which also goes by the name.
    """

    loop = "chi2_rows"
    limit = 2.0


@dataclass(eq=False)
class RBF(Kernel):
    """k(x, z) = exp(-gamma |x - z|^2), from one matrix product and one exponential in place.

    The exponent is the product of a row (sqrt(2 gamma) x, -gamma |x|^2, 1) with another (sqrt(2 gamma) z, 1, -gamma
    |z|^2). Dense data are centred first: the exponent is off by about 4 eps gamma |x - c|^2.
    """

    gamma: float
    centre: Centre = None  # c, subtracted from every row; None for sparse data, whose zeros it would destroy
    # Whether to sum (x_j - z_j)^2 in place of the product: slower, and exact. For dense data alone.
    differences: bool = field(default=False, kw_only=True)

    single_precision = True
    local = True
    columns_at_once = 512

    @classmethod
    def of_samples(cls, X: Rows, weights: FloatArray, *, gamma: str | float, needs_origin: bool) -> RBF:
        """Return the kernel of gamma, a number or a rule for it."""
        return cls.at(gamma_value(gamma, X, weights), X, weights)

    @classmethod
    def at(cls, gamma: float, X: Rows, weights: FloatArray) -> RBF:
        """Return the kernel for samples such as X, (n, d), of weights (n,), as exact as they need it; ValueError for
        CSR rows too far from the origin.
        """
        # A product's exponent is off by this times gamma |x - c|^2.
        rounding = 4 * float(np.finfo(np.float64).eps)
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(X):
                typical = gamma * float(np.median(row_sums(X, power=2)))
                if not rounding * typical <= 1e-5:
                    raise ValueError(
                        f"The rows are so far from the origin (gamma |x|^2 is {typical:.3g}) that rounding hides their "
                        "distances from each other. Give dense data, which are centred for you; or centre or scale the "
                        "features, or use a smaller gamma, that is a larger bandwidth."
                    )
                return cls(gamma)
            centre = (X * weights[:, None]).sum(axis=0) / weights.sum()
            tiles = pieces(X.shape[0], 8 * X.shape[1])
            farthest = gamma * max(float(row_sums(X[rows] - centre, power=2).max()) for rows in tiles)
        return cls(gamma, centre, differences=not rounding * farthest <= 1e-9)

    def prepare(self, X: Rows, dtype: npt.DTypeLike = np.float64) -> Rows:
        """Return the rows (sqrt(2 gamma) x, -gamma |x|^2, 1), shape (n, d + 2), or (0, -inf, 1) too far out; x for
        differences.
        """
        n_samples, n_features = X.shape
        if sp.issparse(X) and self.centre is not None:
            X = X.toarray()
        # 2 gamma may overflow.
        root, farthest = 2.0 * np.sqrt(0.5 * self.gamma), INFINITELY_FAR * float(np.finfo(dtype).max)
        if sp.issparse(X):
            with np.errstate(over="ignore"):
                norms = -self.gamma * row_sums(X, power=2)
            far = ~(norms >= -farthest)
            norms[far] = -np.inf
            if far.any():
                X = sp.csr_array(sp.diags_array(np.where(far, 0.0, 1.0)) @ X)
            ends = np.column_stack([norms, np.ones(n_samples)])
            return sp.csr_array(sp.hstack([X * root, ends], format="csr"), dtype=dtype)
        rows = np.empty((n_samples, n_features + 2), dtype=dtype)
        scaled, norms = rows[:, :n_features], rows[:, -2]
        rows[:, -1] = 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            if self.differences:
                scaled[...] = X
                norms[...] = -self.gamma * np.einsum("ij,ij->i", scaled, scaled)
                return rows
            np.subtract(X, 0.0 if self.centre is None else self.centre, out=scaled, casting="same_kind")
            scaled *= root
            norms[...] = -0.5 * np.einsum("ij,ij->i", scaled, scaled)
            far = ~(norms >= -farthest)
        if far.any():
            scaled[far], norms[far] = 0.0, -np.inf
        return rows

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return exp of the product of left with right, after the last two columns of one have changed places."""
        if left.shape[0] <= right.shape[0]:
            left = _ends_exchanged(left)
        else:
            right = _ends_exchanged(right)
        if out is None:
            out = np.empty((left.shape[0], right.shape[0]), dtype=left.dtype)
        for rows in pieces(left.shape[0], right.shape[0] * out.itemsize):
            values = self._exponents(left[rows], right, out[rows] if out.dtype == left.dtype else None)
            if out.dtype == np.float32:
                # exp(-40) is 4e-18: below 1e-38 a processor takes ten times as long.
                np.maximum(values, -40.0, out=values)
            np.exp(values, out=out[rows], casting="same_kind")
        return out

    def sums(self, left: Rows, right: Rows, coefficients: FloatArray) -> FloatArray:
        """Return the sums, from tiles that are used while they are in the cache; few rows are not worth the copy."""
        if sp.issparse(left) or sp.issparse(right) or self.differences or left.shape[0] < 8:
            return super().sums(left, right, coefficients)
        left = _ends_exchanged(left)
        columns = np.ascontiguousarray(right.T)
        # OpenBLAS computes products of at most 10^6 multiplications without packing. Such tiles, of 160 rows at least,
        # are a third faster at 16 features than whole rows.
        side = math.isqrt(10**6 // len(columns))
        side = side if side >= 160 else self.columns_at_once
        totals = np.zeros((left.shape[0], *coefficients.shape[1:]))
        scratch = np.empty(side * side, dtype=left.dtype)
        for rows in pieces(left.shape[0], 1, side):
            some, sums = left[rows], totals[rows]
            for first in range(0, columns.shape[1], side):
                others = columns[:, first : first + side]
                tile = scratch[: len(some) * others.shape[1]].reshape(len(some), -1)
                core.exponentials(self._bounded(np.matmul(some, others, out=tile)).ravel())
                sums += tile @ coefficients[first : first + side]
        return totals

    def exponents(self, left: Rows, right: Rows) -> AnyFloatArray:
        """Return -gamma |x - z|^2 between prepared rows, shape (n_left, n_right)."""
        return self._exponents(_ends_exchanged(left), right, None)

    def _exponents(self, left: Rows, right: Rows, out: AnyFloatArray | None) -> AnyFloatArray:
        """Return the exponents; the last two columns of one side have changed places."""
        if self.differences:
            squared: AnyFloatArray = cdist(left[:, :-2], right[:, :-2], "sqeuclidean")
            # What overflows is infinitely far.
            with np.errstate(over="ignore"):
                return np.multiply(squared, -self.gamma, out=squared)
        return self._bounded(row_products(left, right, out))

    def _bounded(self, exponents: AnyFloatArray) -> AnyFloatArray:
        """Return the exponents: without a centre rounding may make more than 0 of those of rows far out."""
        return exponents if self.centre is not None else np.minimum(exponents, 0.0, out=exponents)

    def diagonal(self, X: Rows) -> FloatArray:
        """Return ones."""
        return np.ones(X.shape[0])

    def single_precision_error(self, rows: Rows) -> float:
        """Return the rounding error of the exponent of the sample farthest from the centre."""
        norms = dense(rows[:, [-2]])
        if not np.isfinite(norms).all():
            return np.inf
        return 4 * float(np.finfo(np.float32).eps) * float(-norms.min(initial=0.0))


def _ends_exchanged(rows: Rows) -> Rows:
    """Return a copy of the rows in which the last two columns have changed places."""
    if sp.issparse(rows):
        order = np.arange(rows.shape[1])
        order[-2:] = order[:-3:-1]
        return sp.csr_array(rows)[:, order]
    exchanged = rows.copy()
    exchanged[:, -2:] = rows[:, :-3:-1]
    return exchanged
