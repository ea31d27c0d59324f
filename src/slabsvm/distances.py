"""Squared distances kept from one RBF kernel to the next: along a path of gammas or nus they are the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slabsvm.gram import AnyFloatArray, Computed, Samples
from slabsvm.kernels import RBF, Kernel, Rows
from slabsvm.products import gram_of


class Distances:
    """Rows of squared distances between samples, in the order in which they were asked for, as many as memory allows.

    Parameters
    ----------
    kernel : RBF
        Of any gamma; it says how exactly the distances must be computed.
    samples : (m, d) dense array or CSR matrix
    capacity : float
        Bytes that the rows may take.
    """

    def __init__(self, kernel: RBF, samples: Rows, capacity: float) -> None:
        self._kernel = kernel
        self._prepared = kernel.prepare(samples)
        n_samples = samples.shape[0]
        n_rows = min(n_samples, int(capacity // (8 * n_samples)))
        # Memory that is never written is never taken.
        self._rows = np.empty((n_rows, n_samples))
        self._n_kept = 0
        self.place = np.full(n_samples, -1, dtype=np.intp)

    def keep(self, samples: Samples) -> None:
        """Compute the rows of these samples that are not here, as long as there is room."""
        missing = samples[self.place[samples] < 0][: len(self._rows) - self._n_kept]
        if len(missing) == 0:
            return
        end = self._n_kept + len(missing)
        exponents = self._kernel.exponents(self._prepared[missing], self._prepared)
        np.divide(exponents, -self._kernel.gamma, out=self._rows[self._n_kept : end])
        self.place[missing] = np.arange(self._n_kept, end)
        self._n_kept = end

    def between(self, places: Samples, columns: Samples | None) -> npt.NDArray[np.float64]:
        """Return a copy of the rows at these places, of all columns or of some."""
        return self._rows[places] if columns is None else self._rows[np.ix_(places, columns)]


class FromDistances(Computed):
    """K of an RBF kernel: rows whose distances are kept cost one exponential, others are computed.

    Those of a subset are: its distances are not kept.
    """

    kernel: RBF
    distances: Distances | None = None

    def block(
        self,
        rows: Samples,
        columns: Samples | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return the kernel's block."""
        if self.distances is None:
            return super().block(rows, columns, dtype, out)
        if columns is None:
            self.distances.keep(rows)
        place = self.distances.place[rows]
        known = place >= 0
        if not known.any():
            return super().block(rows, columns, dtype, out)
        if out is None:
            out = np.empty((len(rows), self.n_samples if columns is None else len(columns)), dtype=dtype)
        if not known.all():
            out[~known] = super().block(rows[~known], columns, dtype)
        values = self.distances.between(place[known], columns)
        values *= -self.kernel.gamma
        if known.all():
            return np.exp(values, out=out, casting="same_kind")
        out[known] = np.exp(values, out=values)
        return out


class SharedDistances:
    """What makes the Gram matrices of all fits on a path, from the same samples."""

    def __init__(self, capacity: float) -> None:
        self._capacity = capacity
        self._distances: Distances | None = None

    def gram_of(self, kernel: Kernel, samples: Rows, n_threads: int) -> Computed:
        """Return K over the samples, which are the same at every call."""
        if not isinstance(kernel, RBF):
            return gram_of(kernel, samples, n_threads)
        if self._distances is None:
            self._distances = Distances(kernel, samples, self._capacity)
        gram = FromDistances(kernel, samples, n_threads)
        gram.distances = self._distances
        return gram
