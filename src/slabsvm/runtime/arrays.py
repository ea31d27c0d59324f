"""Arrays: their types; rows, dense or CSR, cut into pieces and stacked; products and sums that survive overflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

FloatArray = npt.NDArray[np.float64]
AnyFloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]
IndexArray = npt.NDArray[np.intp]
IntArray = npt.NDArray[np.int64]
Rows = Any  # a dense array or CSR matrix: whatever has rows that an index array can pick

# What is computed at a time takes 32 MB: little beside a fit, and much beside the cost of a call. Blocks of the RBF
# kernel at 20,000 columns took 2.6 (d = 16) to 6.6 (d = 784) times longer with 0.5 MB.
PIECE_BYTES = 2**25
# Kernel values, distances or differences that one step holds for some rows and all samples take 16 MB.
STEP_BYTES = 2**24


def pieces(n_rows: int, bytes_per_row: int, budget: int = PIECE_BYTES) -> list[slice]:
    """Return consecutive slices over n_rows, each of at most about budget bytes, and of one row at least."""
    height = max(1, budget // max(1, bytes_per_row))
    return [slice(first, min(first + height, n_rows)) for first in range(0, n_rows, height)]


def dense(rows: Any) -> Any:
    """Return rows, dense or sparse, as a dense array."""
    return rows.toarray() if sp.issparse(rows) else rows


def stacked(tables: Sequence[Any]) -> Any:
    """Return tables of rows below each other, all dense or all sparse: a CSR matrix then."""
    return sp.csr_array(sp.vstack(tables)) if sp.issparse(tables[0]) else np.concatenate(tables)


def product(rows: Any, coefficients: FloatArray) -> FloatArray:
    """Return rows @ coefficients, (n, d) dense or CSR by (d,) or (d, q), of finite numbers: infinite only where the sum
    is.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.asarray(rows @ coefficients)
        far = np.flatnonzero(~np.isfinite(sums.reshape(len(sums), -1)).all(axis=1))
        if len(far):
            # A power of two is exact, and terms that underflow are negligible in a sum that overflows without it.
            unit = 2.0**-600
            sums[far] = ((rows[far] * unit) @ coefficients) / unit
    return sums


def row_products(left: Rows, right: Rows, out: AnyFloatArray | None) -> AnyFloatArray:
    """Return left @ right' as a dense array, written to out when given.

    For float32 rows of five columns OpenBLAS's AVX-512 kernels also multiply what happens to lie beside them, which may
    be a signalling NaN, and drop the results: the warning is not for the user.
    """
    if not sp.issparse(left):
        with np.errstate(invalid="ignore"):
            return np.matmul(left, dense(right).T, out=out)
    if out is None:
        out = np.empty((left.shape[0], right.shape[0]), dtype=left.dtype)
    for columns in pieces(right.shape[0], right.shape[1] * out.itemsize):
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
