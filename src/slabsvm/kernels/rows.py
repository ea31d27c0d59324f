"""Arithmetic on rows, dense or CSR, that kernels are made of: products and sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, dense, pieces

Rows = Any  # a dense array or CSR matrix: whatever has rows that an index array can pick

# Bytes that right-hand CSR rows may take when they are laid out densely.
DENSE_BYTES = 2**25


def product(left: Rows, right: Rows, out: AnyFloatArray | None) -> AnyFloatArray:
    """Return left @ right' as a dense array, written to out when given.

    For float32 rows of five columns OpenBLAS's AVX-512 kernels also multiply what happens to lie beside them, which may
    be a signalling NaN, and drop the results: the warning is not for the user.
    """
    if not sp.issparse(left):
        with np.errstate(invalid="ignore"):
            return np.matmul(left, dense(right).T, out=out)
    if out is None:
        out = np.empty((left.shape[0], right.shape[0]), dtype=left.dtype)
    for columns in pieces(right.shape[0], right.shape[1] * out.itemsize, DENSE_BYTES):
        out[:, columns] = left @ np.ascontiguousarray(dense(right[columns]).T)
    return out


def row_sums(X: Rows, power: int = 1) -> FloatArray:
    """Return sum_j x_j^power of each row, in float64; infinity where it overflows."""
    # Not as a decorator, which in NumPy 1 is one object for all threads.
    with np.errstate(over="ignore"):
        if sp.issparse(X):
            wide = X.astype(np.float64, copy=False)
            return np.asarray((wide if power == 1 else wide.multiply(wide)).sum(axis=1)).ravel()
        if power == 1:
            return np.asarray(X.sum(axis=1, dtype=np.float64))
        return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))
