"""The additive kernels: sums over features of a function of two numbers.

With k(x, z) = sum_j k(x_j, z_j), the score s(x) = sum_i beta_i k(v_i, x) is sum_j h_j(x_j), where h_j depends on x_j
alone (Maji, Berg, Malik 2008): each feature has its part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm import core
from slabsvm.kernels.base import Centre, Kernel
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, Rows, dense, pieces, row_products, row_sums


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
