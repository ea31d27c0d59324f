"""The types of arrays; rows in pieces, dense, and below each other; sums whose terms are beyond float64's range."""

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

# Terms are multiplied by this power of two, and their sum divided by it: terms that underflow are negligible in it.
UNIT = 2.0**-600

# What a solver computes or copies a piece at a time takes so many bytes: small beside the memory of a fit, and large
# beside the cost of a call.
PIECE_BYTES = 2**25


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
    """Return rows @ coefficients, (n, d) dense or CSR by (d,) or (d, q): never NaN, infinite only where the sum is.

    All rows and coefficients are finite, and the latter at most 1e60.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.asarray(rows @ coefficients)
        far = np.flatnonzero(~np.isfinite(sums.reshape(len(sums), -1)).all(axis=1))
        if len(far):
            sums[far] = ((rows[far] * UNIT) @ coefficients) / UNIT
    return sums
