"""Kernel matrices whose products K beta cost far less than their columns.

Where K beta for all m samples costs O(m d), whatever the number of support vectors, a solver need not hold or compute
columns of K to keep its scores up to date: the blocks of its working sets are enough.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.gram.computed import Computed
from slabsvm.kernels.additive import Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.rows import Rows
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.objects import cached_property

# The number of shares in which features are summed: a constant, so that rounding does not depend on the threads.
SHARES = 8


class Thin(Computed):
    """K = Z Z' with explicit rows Z: K beta is Z (Z'beta)."""

    cheap_products = True

    def dot(self, beta: FloatArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return K beta, in float64."""
        del dtype
        features = self._prepared_rows(np.float64)
        return np.asarray(features @ (features.T @ beta))


class Sorted(Computed):
    """K of the intersection kernel: K beta by prefix sums over each feature's samples, sorted once.

    Memory: 12 bytes for each value of X that is not zero.
    """

    cheap_products = True

    def dot(self, beta: FloatArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return K beta, in float64; the threads divide the shares of the features among them."""
        from slabsvm.compiled import additive as _additive

        del dtype
        starts, order, values = self._sorted
        sums = np.zeros((SHARES, self.n_samples))

        def add(part: int, first: int, last: int) -> None:
            _additive.intersection_products(starts, order, values, beta, first, last, sums[part])

        bounds = np.linspace(0, len(starts) - 1, SHARES + 1).astype(int)
        self.divide(add, range(SHARES), bounds[:-1], bounds[1:])
        return np.asarray(sums.sum(axis=0))

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], FloatArray]:
        """Where each feature begins, its samples with x > 0 in ascending order of x, and their x."""
        if sp.issparse(self.X):
            columns = sp.csc_array(self.X)
            starts = columns.indptr.astype(np.int64)
            order, values = np.empty(columns.nnz, dtype=np.int32), np.empty(columns.nnz)
            indices, data = columns.indices, columns.data
        else:
            n_samples, n_features = self.X.shape
            starts = np.arange(n_features + 1, dtype=np.int64) * n_samples
            order, values = np.empty(self.X.size, dtype=np.int32), np.empty(self.X.size)
            indices, data = None, None

        def sort(j: int) -> None:
            own = slice(starts[j], starts[j + 1])
            column = self.X[:, j] if data is None else data[own]
            ascending = np.argsort(column)
            order[own] = ascending if indices is None else indices[own][ascending]
            values[own] = column[ascending]

        self.divide(sort, np.flatnonzero(np.diff(starts)).tolist())
        return starts, order, values


def gram_of(kernel: Kernel, X: Rows, n_threads: int) -> Computed:
    """Return K over the rows of X, shape (m, d), with the cheapest products that the kernel allows."""
    if isinstance(kernel, Intersection):
        return Sorted(kernel, X, n_threads)
    return (Thin if kernel.explicit else Computed)(kernel, X, n_threads)
