"""Functions x -> sum_i c_i k(x_i, x): what a fitted kernel model is, and how it is evaluated on new rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slabsvm.data.pieces import pieces
from slabsvm.data.wide_sums import product
from slabsvm.kernels.base import Kernel
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD

# Kernel values between new rows and training samples that are held at once.
BLOCK_BYTES = 2**24


@dataclass(frozen=True)
class Expansion:
    """One or several sums of kernel functions over the same samples.

    Attributes
    ----------
    kernel : Kernel or None
        None where rows to evaluate at are kernel values against all training rows ("precomputed").
    samples : (n, d) array or CSR matrix, or (n,) array of intp
        The x_i; for kernel None the columns that belong to them.
    coefficients : (n,) or (n, q) array of float64
        c_i, a column for each sum.
    error : float
        How far the sums may be off, beyond rounding: not at all.
    """

    kernel: Kernel | None
    samples: Any
    coefficients: FloatArray
    error: ClassVar[float] = 0.0

    def __call__(self, X: Any) -> FloatArray:
        """Return the sums at each row of X, shape (n_rows,) or (n_rows, q)."""
        values = np.empty((X.shape[0], *self.coefficients.shape[1:]))
        for rows, some in self.chunks(X):
            values[rows] = some
        return values

    def chunks(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Yield consecutive stretches of rows with the sums there, each from one block and one product."""
        n_samples = len(self.coefficients)
        right = None if self.kernel is None else self.kernel.prepare(self.samples)
        for rows in pieces(X.shape[0], 8 * n_samples, BLOCK_BYTES):
            # Products with rows far out may overflow.
            with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
                if self.kernel is None:
                    block = np.asarray(X[rows][:, self.samples], dtype=np.float64)
                else:
                    block = np.asarray(self.kernel.block(self.kernel.prepare(X[rows]), right))
                sums = product(block, self.coefficients)
            yield rows, sums
