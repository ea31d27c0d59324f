"""Expansions x -> sum_i c_i k(x_i, x): the scores of a fitted kernel model on new rows, and the samples near these.

Each sample's share of the RBF kernel's mass at x, sum_i |c_i| exp(-gamma |x - x_i|^2), is a weight p_i(x), and

    D_j(x) = gamma sum_i p_i(x) (x_j - x_ij)^2

is how far x is, in feature j, from the samples that are near (Kauffmann, Mueller, Montavon 2020).

A function f of sums over samples that is no distance, such as a reconstruction error, is followed along the straight
line from the mean of the near samples, sum_i p_i x_i, to x. What it changes by is the sum over features of

    I_j(x) = integral of df/dx_j dx_j

(Aumann, Shapley 1974; Sundararajan, Taly, Yan 2017). Farther along the line than 6 bandwidths no sample is near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from slabsvm.kernels.base import Kernel, NotFiniteError
from slabsvm.kernels.named import RBF
from slabsvm.runtime.arrays import STEP_BYTES, FloatArray, IndexArray, Rows, dense, pieces, product
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.estimators import cached_property

# What is typical is read off 256 samples: their order is a hash, and as good as random.
TYPICAL_ROWS = 256
# Distances of rows so far out that squares overflow add up to this.
INFINITE = 1e300


@dataclass(frozen=True)
class Expansion:
    """One or several sums of kernel functions over the same samples."""

    kernel: Kernel | None  # None where rows are kernel values against all training rows ("precomputed")
    samples: Any  # (n, d) array or CSR matrix: the x_i; for kernel None the (n,) columns that belong to them
    coefficients: FloatArray  # (n,) or (n, q): c_i, a column for each sum

    def __call__(self, X: Any) -> FloatArray:
        """Return the sums at each row of X, shape (n_rows,) or (n_rows, q)."""
        values = np.empty((X.shape[0], *self.coefficients.shape[1:]))
        for rows, some in self.chunks(X):
            values[rows] = some
        return values

    def chunks(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Yield stretches of rows with the sums; ValueError names a row where a kernel function is not finite."""
        kernel = self.kernel
        samples = self.samples if kernel is None else self.prepared(kernel)
        n_samples = len(self.coefficients)
        at_once = n_samples if kernel is None else min(n_samples, kernel.columns_at_once or n_samples)
        for rows in pieces(X.shape[0], 8 * at_once, STEP_BYTES):
            # Products with rows far out may overflow.
            with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
                if kernel is None:
                    sums = product(np.asarray(X[rows][:, samples], dtype=np.float64), self.coefficients)
                else:
                    try:
                        sums = kernel.sums(kernel.prepare(X[rows]), samples, self.coefficients)
                    except NotFiniteError as error:
                        raise ValueError(
                            f"The kernel function returned NaN or infinity for row {rows.start + error.row:,}, counted "
                            "from 0. Leave such rows out, or have the function return finite values for rows as far "
                            "out."
                        ) from error
            yield rows, sums

    def by_feature(self, X: Any) -> FloatArray:
        """Return what each feature adds to one sum at each row of X, (n_rows, n_features), of an additive kernel, of
        which a feature that is zero adds nothing.
        """
        rows = sp.csr_array(X)
        alone = sp.csr_array((rows.data, rows.indices, np.arange(rows.nnz + 1)), shape=(rows.nnz, rows.shape[1]))
        found = np.zeros(rows.shape)
        found[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices] = self(alone)
        return found

    @ONE_BLAS_THREAD
    def log_mass(self, X: Any, *, own: bool = False, apart: tuple[IndexArray, IndexArray] | None = None) -> FloatArray:
        """Return log sum_i |c_i| k(x_i, x) of each row of X, shape (n_rows,), for a local kernel, of the last of
        several sums.

        It does not underflow; -inf for rows whose distances overflow. own says that rows are samples, which do not
        count for themselves. apart has the groups of rows, (n_rows,), and of samples, (n,), which do not count for
        their own.
        """
        kernel = self.kernel
        assert kernel is not None
        right = self.prepared(kernel)
        coefficients = np.abs(self.coefficients.reshape(len(self.coefficients), -1)[:, -1])
        mass = np.empty(X.shape[0])
        for rows in pieces(X.shape[0], 8 * len(coefficients), STEP_BYTES):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                exponents = kernel.exponents(kernel.prepare(X[rows]), right)
                # Rows whose distances overflow float64 are infinitely far.
                exponents[~np.isfinite(exponents)] = -np.inf
                if own:
                    exponents[np.arange(len(exponents)), exponents.argmax(axis=1)] = -np.inf
                if apart is not None:
                    exponents[apart[0][rows, None] == apart[1]] = -np.inf
                # Of sums of exponentials whose exponents are all -inf, nothing is left.
                largest = np.maximum(exponents.max(axis=1), -float(np.finfo(np.float64).max))
                shares = np.exp(np.subtract(exponents, largest[:, None], out=exponents), out=exponents)
                mass[rows] = largest + np.log(np.multiply(shares, coefficients, out=shares).sum(axis=1))
        return mass

    def prepared(self, kernel: Kernel) -> Rows:
        """The samples in the form that the kernel computes from, kept for the next call if it takes 64 MB at most."""
        prepared = self.__dict__.get("_kept")
        if prepared is None:
            prepared = kernel.prepare(self.samples)
            if (prepared.data if sp.issparse(prepared) else prepared).nbytes <= 2**26:
                self.__dict__["_kept"] = prepared
        return prepared

    @cached_property
    def soft_neighbours(self) -> SoftNeighbours | None:
        """What says which samples are near a row, under the RBF kernel; None under others."""
        return SoftNeighbours(self.kernel, self.samples, self.coefficients) if isinstance(self.kernel, RBF) else None

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what is kept besides is made again."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True)
class SoftDistances:
    """How far rows are from the samples near them, and the sums of kernels there."""

    distances: FloatArray  # (n, d): D_j, in the kernel's exponent: without a unit, and finite for rows at any distance
    sums: FloatArray  # (n,) or (n, q): sum_i c_i k(x_i, x)
    log_mass: FloatArray  # (n,): -inf for rows whose squared distances overflow


@dataclass(frozen=True)
class SoftNeighbours:
    """Samples of an RBF kernel with their coefficients. No row's answer depends on the rows asked for with it."""

    kernel: RBF
    samples: Any  # (n, d) array or CSR matrix
    coefficients: FloatArray  # (n,) or (n, q): c_i; of several columns the last is the one whose mass counts

    def distances(self, X: Any) -> SoftDistances:
        """Return how far each row of X, (n, d) dense or CSR, is from the samples near it."""
        n_rows = X.shape[0]
        found = SoftDistances(np.empty(X.shape), np.empty((n_rows, *self.coefficients.shape[1:])), np.empty(n_rows))
        for rows, some, exponents in self._stretches(X):
            found.sums[rows] = self._sums(exponents)
            weights, found.log_mass[rows] = self._weights(exponents)
            found.distances[rows] = self._distances(some, weights)
        return found

    def along_lines(self, X: Any, slopes: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return I_j of each row of X, (n, d) dense or CSR; slopes gives the derivatives of f by the sums."""
        nodes, parts = np.polynomial.legendre.leggauss(16)
        found = np.empty(X.shape)
        for rows, some, exponents in self._stretches(X):
            with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
                start = self._combined(self._weights(exponents)[0])
                # At 6 bandwidths kernel values are exp(-36).
                step = _shortened_difference(dense(some), start, 6.0 / np.sqrt(self.kernel.gamma))
                total = np.zeros(start.shape)
                for node, part in zip(0.5 + 0.5 * nodes, 0.5 * parts, strict=True):
                    total += part * self._gradient(start + node * step, slopes)
            found[rows] = step * total
        return found

    @cached_property
    def typical(self) -> FloatArray:
        """The mean D_j of the samples, each from the others, shape (d,); zeros for a single sample."""
        some = self.samples[:TYPICAL_ROWS]
        total = np.zeros(some.shape[1])
        for rows, stretch, exponents in self._stretches(some):
            exponents[np.arange(len(exponents)), np.arange(rows.start, rows.stop)] = -np.inf
            total += self._distances(stretch, self._weights(exponents)[0]).sum(axis=0)
        return np.asarray(total / some.shape[0])

    def _stretches(self, X: Any) -> Iterator[tuple[slice, Any, FloatArray]]:
        """Yield consecutive stretches of rows, as dense as the samples are, with the exponents of kernel values."""
        if sp.issparse(self.samples):
            X = sp.csr_array(X)
        elif sp.issparse(X):
            X = X.toarray()
        for rows in pieces(X.shape[0], 8 * max(self.samples.shape), budget=2**22):
            yield rows, X[rows], self._exponents(X[rows])

    def _weights(self, exponents: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return p_i, (n_rows, n), and the logarithm of the mass, (n_rows,)."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.abs(self.coefficients.reshape(len(self.coefficients), -1)[:, -1]))
        weights = exponents + log_weights
        top = weights.max(axis=1)
        # From infinitely far away all samples look alike.
        unreached = np.isneginf(top)
        weights[unreached] = log_weights
        weights -= np.where(unreached, log_weights.max(), top)[:, None]
        np.exp(weights, out=weights)
        totals = weights.sum(axis=1)
        weights /= totals[:, None]
        return weights, top + np.log(totals)

    @ONE_BLAS_THREAD
    def _exponents(self, rows: Any) -> FloatArray:
        """Return -gamma |x - x_i|^2, (n_rows, n): of dense rows from differences, so that none depends on another."""
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(self.samples):
                samples = self.kernel.prepare(self.samples)
                exponents = np.asarray(self.kernel.exponents(self.kernel.prepare(sp.csr_array(rows)), samples))
            else:
                exponents = cdist(rows, self.samples, "sqeuclidean")
                exponents *= -self.kernel.gamma
        # What overflows is infinitely far.
        exponents[~np.isfinite(exponents)] = -np.inf
        return np.asarray(exponents, dtype=np.float64)

    def _sums(self, exponents: FloatArray) -> FloatArray:
        """Return the sums of kernel functions, a row at a time: what a product is rounded to depends on its shape."""
        with ONE_BLAS_THREAD:
            values = np.exp(exponents)
            if self.coefficients.ndim == 1:
                return np.asarray((values * self.coefficients).sum(axis=1))
            return np.asarray((values[:, None, :] @ self.coefficients)[:, 0])

    def _combined(self, weights: FloatArray) -> FloatArray:
        """Return sums of the samples with these weights, (n_rows, n), a row at a time: (n_rows, d)."""
        if sp.issparse(self.samples):
            return np.asarray(weights @ self.samples, dtype=np.float64)
        return np.asarray((weights[:, None, :] @ self.samples)[:, 0], dtype=np.float64)

    def _gradient(self, points: FloatArray, slopes: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return df/dx at dense points, (n_rows, d)."""
        exponents = self._exponents(points)
        found = slopes(self._sums(exponents)).reshape(len(points), 1, -1)
        coefficients = self.coefficients.reshape(len(self.coefficients), -1)
        pulls = np.exp(exponents) * (found @ coefficients.T)[:, 0]
        return np.asarray(2.0 * self.kernel.gamma * (self._combined(pulls) - points * pulls.sum(axis=1)[:, None]))

    @ONE_BLAS_THREAD
    def _distances(self, rows: Any, weights: FloatArray) -> FloatArray:
        """Return D_j of rows whose neighbours have these weights, (n_rows, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._by_moments(rows, weights)
            by_moments = (found.sum(axis=1) <= INFINITE) & (not self.kernel.differences)
            for i in np.flatnonzero(~by_moments):
                found[i] = self._by_differences(rows[[i]], weights[i])
            return found

    def _by_moments(self, rows: Any, weights: FloatArray) -> FloatArray:
        """Return D_j from the neighbours' means and mean squares, seen from the kernel's centre."""
        if sp.issparse(rows):
            x = rows.toarray().astype(np.float64, copy=False)
            means, squares = weights @ self.samples, weights @ self.samples.multiply(self.samples)
        else:
            centre = 0.0 if self.kernel.centre is None else self.kernel.centre
            x, samples = np.subtract(rows, centre, dtype=np.float64), self.samples - centre
            both = (weights[:, None, :] @ np.hstack([samples, np.square(samples)]))[:, 0]
            means, squares = np.split(both, 2, axis=1)
        return np.asarray(self.kernel.gamma * np.maximum(x * (x - 2.0 * means) + squares, 0.0))

    def _by_differences(self, row: Any, weights: FloatArray) -> FloatArray:
        """Return D_j of one row, (1, d), from differences: they have all their digits, and may be scaled."""
        near = np.flatnonzero(weights > 1e-20)  # a sample of less weight is no neighbour
        some = self.samples[near]
        apart = _difference(dense(row), dense(some))
        found = self.kernel.gamma * (weights[near] @ np.square(apart))
        if not found.sum() <= INFINITE:
            found = weights[near] @ np.square(apart / np.abs(apart).max())
            found *= INFINITE / found.sum()
        return np.asarray(found)


def _difference(rows: FloatArray, start: FloatArray) -> FloatArray:
    """Return the way from start to rows, no number of which is infinite."""
    largest = np.finfo(np.float64).max
    return np.asarray(np.clip(np.subtract(rows, start, dtype=np.float64), -largest, largest))


def _shortened_difference(rows: Any, start: FloatArray, reach: float) -> FloatArray:
    """Return the way from start to rows, (n, d) each, made no longer than reach; squares of it may overflow."""
    way = _difference(rows, start)
    size = np.maximum(np.abs(way).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    unit = way / size
    length = np.sqrt(np.square(unit).sum(axis=1, keepdims=True))
    far = size > reach / np.maximum(length, 1.0)
    return np.asarray(np.where(far, unit * (reach / np.maximum(length, 1.0)), way))
