"""The linear kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.kernels.base import Centre, Kernel
from slabsvm.kernels.rows import Rows, product, row_sums
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, dense


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
        del gamma
        return cls(None if needs_origin or sp.issparse(X) else np.average(X, axis=0, weights=weights))

    def prepare(self, X: Rows, dtype: npt.DTypeLike = np.float64) -> Rows:
        """Return x - c."""
        if self.centre is None:
            return super().prepare(X, dtype)
        return np.subtract(dense(X), self.centre).astype(dtype, copy=False)

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return left @ right'."""
        return product(left, right, out)

    def diagonal(self, X: Rows) -> FloatArray:
        """Return |x - c|^2."""
        return row_sums(X if self.centre is None else self.prepare(X), power=2)

    def diagonal_by_feature(self, X: Rows) -> FloatArray:
        """Return (x_j - c_j)^2."""
        rows = self.prepare(X, np.float64)
        with np.errstate(over="ignore"):
            return np.asarray(np.square(dense(rows)))
