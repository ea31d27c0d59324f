"""Which samples are near a row under the RBF kernel, and how far they are from it in each feature.

The samples' mass at x, sum_i |c_i| exp(-gamma |x - x_i|^2), is a soft minimum of squared distances. Each sample's share
of it is a weight p_i(x), and

    D_j(x) = gamma sum_i p_i(x) (x_j - x_ij)^2

is how far x is, in feature j, from the samples that are near (Kauffmann, Mueller, Montavon 2020). The D_j add up to the
mean exponent, of which the logarithm of the mass is minus one part; the other depends on how many samples are near.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from slabsvm.data.pieces import pieces
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD

# Bytes of kernel values, or of features, that are held at once.
BLOCK_BYTES = 2**22
# A sample of less weight is no neighbour.
NEGLIGIBLE = 1e-20
# What is typical is read off so many samples: their order is a hash, and as good as random.
TYPICAL_ROWS = 256
# Distances of rows so far out that squares overflow add up to this.
INFINITE = 1e300


@dataclass(frozen=True)
class Around:
    """What is around some rows.

    Attributes
    ----------
    distances : (n, d) array of float64
        D_j, in the kernel's exponent: without a unit, and finite for rows at any distance.
    sums : (n,) or (n, q) array of float64
        sum_i c_i k(x_i, x).
    log_mass : (n,) array of float64
        -inf for rows whose squared distances overflow.
    """

    distances: FloatArray
    sums: FloatArray
    log_mass: FloatArray


@dataclass(frozen=True)
class Surroundings:
    """Samples of an RBF kernel with their coefficients.

    No row's answer depends on the rows that are asked for with it, to the last bit.

    Attributes
    ----------
    kernel : RBF
    samples : (n, d) array or CSR matrix
    coefficients : (n,) or (n, q) array of float64
        c_i; of several columns the last is the one whose mass counts.
    """

    kernel: RBF
    samples: Any
    coefficients: FloatArray

    def around(self, X: Any) -> Around:
        """Return what is around each row of X, (n, d) dense or CSR."""
        n_rows, n_features = X.shape
        found = Around(
            distances=np.empty((n_rows, n_features)),
            sums=np.empty((n_rows, *self.coefficients.shape[1:])),
            log_mass=np.empty(n_rows),
        )
        for rows, some in self._stretches(X, own=False):
            found.distances[rows], found.sums[rows], found.log_mass[rows] = some.distances, some.sums, some.log_mass
        return found

    @cached_property
    def typical(self) -> FloatArray:
        """The mean D_j of the samples, each from the others, shape (d,); zeros for a single sample."""
        some = self.samples[:TYPICAL_ROWS]
        total = np.zeros(some.shape[1])
        for _, stretch in self._stretches(some, own=True):
            total += stretch.distances.sum(axis=0)
        return np.asarray(total / some.shape[0])

    def _stretches(self, X: Any, *, own: bool) -> Iterator[tuple[slice, Around]]:
        """Yield what is around consecutive stretches of rows; own: these are the first samples, each without itself."""
        X = self._as_samples(X)
        log_weights = self._log_weights
        for rows in pieces(X.shape[0], 8 * max(self.samples.shape), BLOCK_BYTES):
            some = X[rows]
            with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                exponents = self._exponents(some)
                sums = self._sums(exponents)
                if own:
                    exponents[np.arange(len(exponents)), np.arange(rows.start, rows.stop)] = -np.inf
                exponents += log_weights
                top = exponents.max(axis=1)
                # From infinitely far away all samples look alike.
                unreached = np.isneginf(top)
                exponents[unreached] = log_weights
                exponents -= np.where(unreached, log_weights.max(), top)[:, None]
                weights = np.exp(exponents, out=exponents)
                totals = weights.sum(axis=1)
                weights /= totals[:, None]
                distances = self._of_csr(some, weights) if sp.issparse(some) else self._of_dense(some, weights)
            yield rows, Around(distances, sums, top + np.log(totals))

    def _as_samples(self, X: Any) -> Any:
        """Return rows as dense as the samples are."""
        if sp.issparse(self.samples):
            return sp.csr_array(X)
        return X.toarray() if sp.issparse(X) else X

    @property
    def _log_weights(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.abs(self.coefficients.reshape(len(self.coefficients), -1)[:, -1])))

    def _exponents(self, rows: Any) -> FloatArray:
        """Return -gamma |x - x_i|^2, (n_rows, n): of dense rows from differences, so that none depends on another."""
        if sp.issparse(rows):
            exponents = np.asarray(self.kernel.exponents(self.kernel.prepare(rows), self.kernel.prepare(self.samples)))
        else:
            exponents = cdist(rows, self.samples, "sqeuclidean")
            exponents *= -self.kernel.gamma
        # What overflows is infinitely far.
        exponents[~np.isfinite(exponents)] = -np.inf
        return np.asarray(exponents, dtype=np.float64)

    def _sums(self, exponents: FloatArray) -> FloatArray:
        """Return the sums of kernel functions, a row at a time: what a product is rounded to depends on its shape."""
        values = np.exp(exponents)
        if self.coefficients.ndim == 1:
            return np.asarray((values * self.coefficients).sum(axis=1))
        return np.asarray((values[:, None, :] @ self.coefficients)[:, 0])

    def _of_dense(self, rows: Any, weights: FloatArray) -> FloatArray:
        """Return D_j of dense rows, from differences, which have all their digits."""
        distances = np.empty(rows.shape)
        largest = np.finfo(np.float64).max
        for i, (row, weight) in enumerate(zip(rows, weights, strict=True)):
            near = np.flatnonzero(weight > NEGLIGIBLE)
            apart = np.subtract(self.samples[near], row, dtype=np.float64)
            found = self.kernel.gamma * (weight[near] @ np.square(apart))
            if not found.sum() <= INFINITE:
                apart = np.clip(apart, -largest, largest)
                found = weight[near] @ np.square(apart / np.abs(apart).max())
                found *= INFINITE / found.sum()
            distances[i] = found
        return distances

    def _of_csr(self, rows: Any, weights: FloatArray) -> FloatArray:
        """Return D_j of CSR rows, from the neighbours' means and mean squares."""
        x = rows.toarray().astype(np.float64, copy=False)
        means, squares = weights @ self.samples, weights @ self.samples.multiply(self.samples)
        distances = np.asarray(self.kernel.gamma * np.maximum(x * x - 2.0 * x * means + squares, 0.0))
        far = ~(distances.sum(axis=1) <= INFINITE)
        scaled = np.square(x[far] / np.abs(x[far]).max(axis=1, keepdims=True))
        distances[far] = scaled * (INFINITE / scaled.sum(axis=1, keepdims=True))
        return distances
