"""Squared distances that are computed once and serve every RBF kernel over the same samples.

One store is behind a path of fits and a search. Fits on a path ask for the rows that their solver wants, and the store
keeps as many as memory allows. A search wants everything: all rows of the samples, and those of the tables that each
candidate is judged by. Its store computes these at once, and holds the kernel's values at the present gamma besides,
which candidates that differ in nu alone share.
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

# Rows are computed and copied in pieces of so many bytes.
PIECE_BYTES = 2**23
# The kernel's values are computed in pieces of so many bytes, which stay in a processor's cache.
CACHED_BYTES = 2**19


class Distances:
    """Rows of squared distances from samples, in the order in which they were asked for, as many as memory allows.

    Parameters
    ----------
    kernel : RBF
        One over the samples: its centre, and whether differences tell the distances, are those of the store.
    samples : (m, d) dense array or CSR matrix
    capacity : float
        Bytes that the rows, and the samples as they are prepared for them, may take.
    others : sequence of (n, d) tables of the same kind
        Further rows, numbered on from the samples', of which the distances from the samples are kept too.
    """

    def __init__(self, kernel: RBF, samples: Rows, capacity: float, others: Sequence[Rows] = ()) -> None:
        # In the unit of the features: that of one gamma may leave no digits for another's.
        self._kernel = RBF(1.0, kernel.centre, differences=kernel.differences)
        self.n_samples = samples.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            self._prepared = _stacked([self._kernel.prepare(table) for table in (samples, *others)])
            self._samples = self._prepared[: self.n_samples]
            farthest = self._kernel.exponents(self._prepared, self._prepared[:1]).min()
        n_rows = self._prepared.shape[0]
        room = max(0.0, capacity - 8 * n_rows * samples.shape[1]) if np.isfinite(farthest) else 0.0
        self._rows = np.empty((min(n_rows, int(room // (8 * self.n_samples))), self.n_samples))
        self._n_kept = 0
        self._place = np.full(n_rows, -1, dtype=np.intp)

    @property
    def exact(self) -> bool:
        """Whether they are sums of squared differences, which rows far from the centre need."""
        return self._kernel.differences

    def keep(self, rows: IndexArray) -> None:
        """Compute those of these rows that are not here, as long as there is room."""
        missing = rows[self._place[rows] < 0][: len(self._rows) - self._n_kept]
        for piece in pieces(len(missing), 8 * self.n_samples, PIECE_BYTES):
            some = missing[piece]
            kept = slice(self._n_kept, self._n_kept + len(some))
            np.negative(self._kernel.exponents(self._prepared[some], self._samples), out=self._rows[kept])
            self._place[some] = np.arange(kept.start, kept.stop)
            self._n_kept = kept.stop

    def known(self, rows: IndexArray) -> npt.NDArray[np.bool_]:
        """Return which of these rows are here."""
        return self._place[rows] >= 0

    def between(self, rows: IndexArray, columns: IndexArray | None) -> FloatArray:
        """Return a copy of known rows, of all columns or of some."""
        place = self._place[rows]
        return self._rows[place] if columns is None else self._rows[np.ix_(place, columns)]

    def everything(self) -> FloatArray | None:
        """Return all rows in their order, if nothing was asked for before; None where there is no room for them."""
        if len(self._rows) < len(self._place):
            return None
        self.keep(np.arange(len(self._place)))
        return self._rows


class FromDistances(Computed):
    """K of an RBF kernel: rows whose distances are kept cost one exponential, others are computed.

    Those of a subset are: its distances are not kept.
    """

    kernel: RBF
    distances: Distances | None = None

    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return the kernel's block."""
        distances = self.distances
        if distances is None:
            return super().block(rows, columns, dtype, out)
        if columns is None:
            distances.keep(rows)
        known = distances.known(rows)
        if not known.any():
            return super().block(rows, columns, dtype, out)
        filled = (
            np.empty((len(rows), self.n_samples if columns is None else len(columns)), dtype) if out is None else out
        )
        strange = np.flatnonzero(~known)
        for piece in pieces(len(strange), 8 * filled.shape[1], PIECE_BYTES):
            filled[strange[piece]] = super().block(rows[strange[piece]], columns, dtype)
        places = np.flatnonzero(known)

        def fill(piece: slice) -> None:
            values = distances.between(rows[places[piece]], columns)
            # What overflows is infinitely far.
            with np.errstate(over="ignore"):
                values *= -self.kernel.gamma
                exponents = values.astype(dtype, copy=False)
            filled[places[piece]] = np.exp(exponents, out=exponents)

        self.divide(fill, pieces(len(places), 8 * filled.shape[1], PIECE_BYTES))
        return filled


class Tabled(Computed):
    """K of an RBF kernel of which all values lie in a table; float32 blocks are theirs, rounded."""

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
        """Return a copy of part of the table."""
        whole = columns is None and np.array_equal(rows, np.arange(self.n_samples))
        chosen = self.values if whole else self.values[rows] if columns is None else self.values[np.ix_(rows, columns)]
        if out is None:
            return chosen.astype(dtype, copy=whole)
        out[...] = chosen
        return out

    def subset(self, samples: IndexArray) -> Gram:
        """Return K over some of the samples, with a table of their values."""
        return Tabled(self.kernel, self.X[samples], self.values[np.ix_(samples, samples)])

    def held(self) -> Gram:
        """Return the table as a matrix."""
        return Dense(self.values, self.resolution, trusted=self._trusted)


class SharedDistances:
    """The Gram matrices of all fits over the same samples, from one store of distances.

    It takes the place of `gram_of`: what makes a Gram matrix of a kernel, the samples and a number of threads.

    Parameters
    ----------
    capacity : float
        Bytes that the distances may take; the kernel's values at one gamma, which a search holds, take as many again.
    least_features : int, default=0
        Of fewer features none are kept.
    judged : sequence of (n, d) tables, default=None
        What the kernel's values are asked for besides, as dense as the samples are. All distances are then kept;
        without it, those that are asked for.
    """

    def __init__(self, capacity: float, *, least_features: int = 0, judged: Sequence[Rows] | None = None) -> None:
        self._capacity = capacity
        self._least_features = least_features
        self._tables = judged
        self._distances: Distances | None = None
        self._gamma = np.nan
        self._values = np.empty((0, 0))
        self._last: tuple[tuple[float, bool, int], Gram] | None = None

    def __call__(self, kernel: Kernel, samples: Rows, n_threads: int) -> Gram:
        """Return access to K; the samples are the same at every call, and while the kernel is, so is what is returned.

        Of a few samples it is a matrix.
        """
        if not isinstance(kernel, RBF):
            return gram_of(kernel, samples, n_threads)
        key = (kernel.gamma, kernel.differences, n_threads)
        if self._last is None or self._last[0] != key:
            self._last = None
            made = self._made(kernel, samples, n_threads)
            self._last = (key, made.held() if made.n_samples <= SMALL else made)
        return self._last[1]

    def _made(self, kernel: RBF, samples: Rows, n_threads: int) -> Gram:
        if samples.shape[1] < self._least_features:
            return gram_of(kernel, samples, n_threads)
        found = self._distances
        # A gamma may see differences that rounding hides in the distances that were kept for another.
        if found is None or (kernel.differences and not found.exact):
            found = self._distances = Distances(kernel, samples, self._capacity, self._tables or ())
            self._gamma = np.nan
        if self._tables is not None:
            return Tabled(kernel, samples, self._at(kernel.gamma, found)[: samples.shape[0]])
        made = FromDistances(kernel, samples, n_threads)
        made.distances = found
        return made

    def judged(self) -> list[FloatArray]:
        """Return the values between each judged table and the samples, of the kernel that was last asked for."""
        assert self._tables is not None
        ends = self._values.shape[1] + np.cumsum([table.shape[0] for table in self._tables], dtype=np.intp)
        return [self._values[end - table.shape[0] : end] for end, table in zip(ends, self._tables, strict=True)]

    def _at(self, gamma: float, distances: Distances) -> FloatArray:
        """Return the kernel's values in all rows, which hold until another gamma's are asked for."""
        if gamma == self._gamma:
            return self._values
        squared = distances.everything()
        if squared is None:
            raise MemoryError(f"Distances of more than {self._capacity:.3g} bytes, or infinite ones, are not kept.")
        self._gamma = np.nan
        if self._values.shape != squared.shape:
            self._values = np.empty_like(squared)
        for rows in pieces(len(squared), 8 * squared.shape[1], CACHED_BYTES):
            some = self._values[rows]
            with np.errstate(over="ignore"):
                np.exp(np.multiply(squared[rows], -gamma, out=some), out=some)
        # Rounding moves samples away from themselves.
        np.fill_diagonal(self._values[: squared.shape[1]], 1.0)
        self._gamma = gamma
        return self._values


def _stacked(tables: list[Rows]) -> Rows:
    """Return prepared tables below each other."""
    if len(tables) == 1:
        return tables[0]
    return sp.csr_array(sp.vstack(tables)) if sp.issparse(tables[0]) else np.concatenate(tables)
