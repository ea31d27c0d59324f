"""Functions x -> sum_i c_i k(x_i, x): what a fitted kernel model is, and how it is evaluated on new rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.kernels.base import Kernel, NotFiniteError
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.rows import Rows
from slabsvm.kernels.soft_neighbours import SoftNeighbours
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray, pieces, product
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.objects import cached_property

# Bytes of kernel values between new rows and training samples that are held at once.
BLOCK_BYTES = 2**24
# Of sums of exponentials whose exponents are all less, nothing is left.
LEAST_EXPONENT = -float(np.finfo(np.float64).max)
# Prepared samples of more bytes are not kept from one call to the next.
KEPT_BYTES = 2**26


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
        """Yield stretches of rows with the sums; ValueError names all rows where a kernel function is not finite."""
        kernel = self.kernel
        for rows in self._stretches(X):
            # Products with rows far out may overflow.
            with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
                if kernel is None:
                    sums = product(np.asarray(X[rows][:, self.samples], dtype=np.float64), self.coefficients)
                else:
                    try:
                        sums = kernel.sums(kernel.prepare(X[rows]), self.prepared(kernel), self.coefficients)
                    except NotFiniteError as error:
                        raise self._not_finite(kernel, X) from error
            yield rows, sums

    @ONE_BLAS_THREAD
    def log_mass(
        self, X: Any, own: BoolArray | None = None, *, apart: tuple[IndexArray, IndexArray] | None = None
    ) -> FloatArray:
        """Return log sum_i |c_i| k(x_i, x) of each row of X, shape (n_rows,), for a kernel that is an exponential.

        It does not underflow: far from all samples it still tells how far a row is. Of several sums the last one's
        coefficients count. -inf for rows whose distances overflow.

        own, (n_rows,), says which rows are samples themselves: that sample does not count for them. apart has the
        groups of rows, (n_rows,), and of samples, (n,): those of a row's own group do not count for it.
        """
        kernel = self.kernel
        assert kernel is not None
        right = self.prepared(kernel)
        coefficients = np.abs(self.coefficients.reshape(len(self.coefficients), -1)[:, -1])
        mass = np.empty(X.shape[0])
        for rows in pieces(X.shape[0], 8 * len(coefficients), BLOCK_BYTES):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                exponents = kernel.exponents(kernel.prepare(X[rows]), right)
                # Rows whose distances overflow float64 are infinitely far.
                exponents[~np.isfinite(exponents)] = -np.inf
                if own is not None:
                    some = np.flatnonzero(own[rows])
                    exponents[some, exponents[some].argmax(axis=1)] = -np.inf
                if apart is not None:
                    exponents[apart[0][rows, None] == apart[1]] = -np.inf
                largest = np.maximum(exponents.max(axis=1), LEAST_EXPONENT)
                shares = np.exp(np.subtract(exponents, largest[:, None], out=exponents), out=exponents)
                mass[rows] = largest + np.log(np.multiply(shares, coefficients, out=shares).sum(axis=1))
        return mass

    def _stretches(self, X: Any) -> list[slice]:
        """Return the consecutive stretches of rows whose kernel values are held at once."""
        n_samples = len(self.coefficients)
        at_once = n_samples if self.kernel is None else min(n_samples, self.kernel.columns_at_once or n_samples)
        return pieces(X.shape[0], 8 * at_once, BLOCK_BYTES)

    def _not_finite(self, kernel: Kernel, X: Any) -> ValueError:
        """Return the error for all rows at which the kernel is not finite."""
        found = []
        for rows in self._stretches(X):
            try:
                kernel.block(kernel.prepare(X[rows]), self.prepared(kernel))
            except NotFiniteError as error:
                found.append(rows.start + error.rows)
        return NotFiniteError(np.concatenate(found)).among(X.shape[0])

    def prepared(self, kernel: Kernel) -> Rows:
        """The samples in the form that the kernel computes from, kept for the next call if it is small."""
        prepared = self.__dict__.get("_kept")
        if prepared is None:
            prepared = kernel.prepare(self.samples)
            if (prepared.data if sp.issparse(prepared) else prepared).nbytes <= KEPT_BYTES:
                self.__dict__["_kept"] = prepared
        return prepared

    @cached_property
    def soft_neighbours(self) -> SoftNeighbours | None:
        """What says which samples are near a row, under the RBF kernel; None under others."""
        return SoftNeighbours(self.kernel, self.samples, self.coefficients) if isinstance(self.kernel, RBF) else None

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what is kept besides is made again."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
