"""The types of arrays; rows in pieces of bounded size; sums whose terms are beyond the range of float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
