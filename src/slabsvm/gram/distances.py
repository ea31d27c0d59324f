"""Squared distances kept from one RBF kernel to the next: along a path of gammas or nus they are the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from slabsvm.data.pieces import pieces
from slabsvm.gram.base import Gram
from slabsvm.gram.computed import Computed
from slabsvm.gram.products import gram_of
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.rows import Rows
from slabsvm.runtime.arrays import AnyFloatArray, IndexArray

# Rows are computed and copied in pieces of so many bytes.
PIECE_BYTES = 2**23


class Distances:
    """Rows of squared distances between samples, in the order in which they were asked for, as many as memory allows.

    Parameters
    ----------
    samples : (m, d) dense array or CSR matrix
    centre, differences
        As of the `RBF` kernel that needs them.
    capacity : float
        Bytes that the rows, and the samples as they are prepared for them, may take.
    """

    def __init__(self, samples: Rows, centre: AnyFloatArray | None, capacity: float, *, differences: bool):
        self.differences = differences
        # In the unit of the features: that of one gamma may leave no digits for another's.
        self._kernel = RBF(1.0, centre, differences=differences)
        with np.errstate(over="ignore", invalid="ignore"):
            self._prepared = self._kernel.prepare(samples)
            farthest = self._kernel.exponents(self._prepared, self._prepared[:1]).min()
        n_samples = samples.shape[0]
        prepared_bytes = 8 * n_samples * samples.shape[1]
        n_rows = int(max(0.0, capacity - prepared_bytes) // (8 * n_samples)) if np.isfinite(farthest) else 0
        self._rows = np.empty((min(n_samples, n_rows), n_samples))
        self._n_kept = 0
        self._place = np.full(n_samples, -1, dtype=np.intp)

    def keep(self, samples: IndexArray) -> None:
        """Compute the rows of these samples that are not here, as long as there is room."""
        missing = samples[self._place[samples] < 0][: len(self._rows) - self._n_kept]
        for piece in pieces(len(missing), 8 * self._rows.shape[1], PIECE_BYTES):
            some = missing[piece]
            kept = slice(self._n_kept, self._n_kept + len(some))
            np.negative(self._kernel.exponents(self._prepared[some], self._prepared), out=self._rows[kept])
            self._place[some] = np.arange(kept.start, kept.stop)
            self._n_kept = kept.stop

    def known(self, samples: IndexArray) -> npt.NDArray[np.bool_]:
        """Return of which samples the rows are here."""
        return self._place[samples] >= 0

    def between(self, samples: IndexArray, columns: IndexArray | None) -> npt.NDArray[np.float64]:
        """Return a copy of the rows of known samples, of all columns or of some."""
        place = self._place[samples]
        return self._rows[place] if columns is None else self._rows[np.ix_(place, columns)]


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

        mapped = map if self._threads is None else self._threads.map
        list(mapped(fill, pieces(len(places), 8 * filled.shape[1], PIECE_BYTES)))
        return filled


def shared_distances(capacity: float, least_features: int) -> Callable[[Kernel, Rows, int], Gram]:
    """Return what makes the Gram matrices of all fits on a path, in place of `gram_of`.

    Parameters
    ----------
    capacity : float
        Bytes that the distances may take.
    least_features : int
        Of fewer features none are kept.

    Returns
    -------
    gram_of : function of a kernel, samples, which must be the same at every call, and a number of threads
    """
    kept: list[Distances] = []

    def gram(kernel: Kernel, samples: Rows, n_threads: int) -> Gram:
        if not isinstance(kernel, RBF) or samples.shape[1] < least_features:
            return gram_of(kernel, samples, n_threads)
        if kept and kernel.differences and not kept[0].differences:
            # This gamma sees differences that rounding hides in those distances.
            kept.clear()
        if not kept:
            kept.append(Distances(samples, kernel.centre, capacity, differences=kernel.differences))
        made = FromDistances(kernel, samples, n_threads)
        made.distances = kept[0]
        return made

    return gram
