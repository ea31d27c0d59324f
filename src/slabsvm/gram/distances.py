"""Squared distances that are computed once and serve every RBF kernel that a search tries on the same samples.

A search judges each candidate by tables of other rows, whose kernel values with the samples it asks for here. The
kernel's values at the present gamma are held besides, which candidates that differ in nu alone share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.gram.base import SMALL, Gram
from slabsvm.gram.computed import Computed
from slabsvm.gram.dense import Dense
from slabsvm.gram.products import gram_of
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.rows import Rows
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, IndexArray, pieces

# Distances are computed, and the kernel's values from them, in pieces of so many bytes: the latter stay in a
# processor's cache.
PIECE_BYTES, CACHED_BYTES = 2**23, 2**19


class Held(Computed):
    """K of an RBF kernel of which all values are held; float32 blocks are theirs, rounded."""

    kernel: RBF

    def __init__(self, kernel: RBF, X: Rows, values: FloatArray) -> None:
        super().__init__(kernel, X)
        self.values = values

    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return a copy of part of K."""
        whole = columns is None and np.array_equal(rows, np.arange(self.n_samples))
        chosen = self.values if whole else self.values[rows] if columns is None else self.values[np.ix_(rows, columns)]
        if out is None:
            return chosen.astype(dtype, copy=whole)
        out[...] = chosen
        return out

    def subset(self, samples: IndexArray) -> Gram:
        """Return K over some of the samples."""
        return Held(self.kernel, self.X[samples], self.values[np.ix_(samples, samples)])

    def held(self) -> Gram:
        """Return K as a matrix."""
        return Dense(self.values, self.resolution, trusted=self._trusted)


class SharedDistances:
    """The Gram matrices of all fits over the same samples, from one store of squared distances.

    It takes the place of `gram_of`: what makes a Gram matrix of a kernel, the samples and a number of threads.

    Parameters
    ----------
    capacity : float
        Bytes that the distances may take; the kernel's values take as many again. MemoryError is raised for more.
    judged : sequence of (n, d) tables
        What the kernel's values are asked for besides, as dense as the samples are.
    """

    def __init__(self, capacity: float, judged: Sequence[Rows]) -> None:
        self._capacity, self._tables = capacity, judged
        self._distances = self._values = np.empty((0, 0))
        # Whether distances are sums of squared differences, which rows far from the centre need; None for no distances.
        self._exact: bool | None = None
        self._last: tuple[tuple[float, bool, int], Gram] | None = None

    def __call__(self, kernel: Kernel, samples: Rows, n_threads: int) -> Gram:
        """Return access to K; the samples are the same at every call, and while the kernel is, so is what is returned.

        Of a few samples it is a matrix. Its values hold until another gamma is asked for.
        """
        if not isinstance(kernel, RBF):
            return gram_of(kernel, samples, n_threads)
        key = (kernel.gamma, kernel.differences, n_threads)
        if self._last is None or self._last[0] != key:
            self._last = None
            # A gamma may see differences that rounding hides in the distances that were computed for another.
            if self._exact is None or (kernel.differences and not self._exact):
                self._compute_distances(kernel, samples)
            made = Held(kernel, samples, self._at(kernel.gamma)[: samples.shape[0]])
            self._last = key, made.held() if made.n_samples <= SMALL else made
        return self._last[1]

    def judged(self) -> list[FloatArray]:
        """Return the values between each judged table and the samples, of the kernel that was last asked for."""
        ends = self._values.shape[1] + np.cumsum([table.shape[0] for table in self._tables], dtype=np.intp)
        return [self._values[end - table.shape[0] : end] for end, table in zip(ends, self._tables, strict=True)]

    def _compute_distances(self, kernel: RBF, samples: Rows) -> None:
        # In the unit of the features: that of one gamma may leave no digits for another's.
        unit = RBF(1.0, kernel.centre, differences=kernel.differences)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = _stacked([unit.prepare(table) for table in (samples, *self._tables)])
            finite = np.isfinite(unit.exponents(rows, rows[:1]).min())
        (n_rows, n_features), m = rows.shape, samples.shape[0]
        if not finite or 8 * n_rows * (m + n_features) > self._capacity:
            raise MemoryError(f"Distances of more than {self._capacity:.3g} bytes, or infinite ones, are not kept.")
        # Those of before go first.
        self._distances = self._values = np.empty((0, 0))
        self._distances, self._values = np.empty((n_rows, m)), np.empty((n_rows, m))
        for some in pieces(n_rows, 8 * m, PIECE_BYTES):
            np.negative(unit.exponents(rows[some], rows[:m]), out=self._distances[some])
        self._exact = kernel.differences

    def _at(self, gamma: float) -> FloatArray:
        """Return the kernel's values in all rows."""
        for rows in pieces(len(self._values), 8 * self._values.shape[1], CACHED_BYTES):
            some = self._values[rows]
            # What overflows is infinitely far.
            with np.errstate(over="ignore"):
                np.exp(np.multiply(self._distances[rows], -gamma, out=some), out=some)
        # Rounding moves samples away from themselves.
        np.fill_diagonal(self._values[: self._values.shape[1]], 1.0)
        return self._values


def _stacked(tables: list[Rows]) -> Rows:
    """Return prepared tables below each other."""
    if len(tables) == 1:
        return tables[0]
    return sp.csr_array(sp.vstack(tables)) if sp.issparse(tables[0]) else np.concatenate(tables)
