"""Compiled blocks of the additive kernels: sums over features of a function of two numbers.

Both functions take the second factor transposed, (d, n_right), so that the innermost loop runs along contiguous
right-hand samples and the compiler can vectorise it without reordering a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

LANES = 512  # right-hand samples whose partial sums stay in the first-level cache
TINY = 1e-300  # makes 0/0 zero in the chi2 kernel without a branch; far below any product of real features


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "contract"})
def intersection_rows(indptr: Any, indices: Any, data: Any, right: Any, out: Any) -> None:
    """Write out[i, j] = sum_k min(x_ik, z_jk) for CSR rows x >= 0 and right = z', shape (d, n_right), z >= 0."""
    n_left, n_right = out.shape
    for first in range(0, n_right, LANES):
        last = min(first + LANES, n_right)
        for i in range(n_left):
            sums = out[i, first:last]
            sums[:] = 0.0
            for position in range(indptr[i], indptr[i + 1]):
                value = data[position]
                column = right[indices[position], first:last]
                for j in range(last - first):
                    other = column[j]
                    sums[j] += value if value < other else other


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "contract"})
def chi2_rows(indptr: Any, indices: Any, data: Any, right: Any, out: Any) -> None:
    """Write out[i, j] = sum_k 2 x_ik z_jk / (x_ik + z_jk) for CSR rows x >= 0 and right = z', (d, n_right), z >= 0."""
    n_left, n_right = out.shape
    tiny = np.float64(TINY)
    for first in range(0, n_right, LANES):
        last = min(first + LANES, n_right)
        for i in range(n_left):
            sums = out[i, first:last]
            sums[:] = 0.0
            for position in range(indptr[i], indptr[i + 1]):
                value = data[position]
                twice = value + value
                column = right[indices[position], first:last]
                for j in range(last - first):
                    other = column[j]
                    sums[j] += twice * (other / (value + other + tiny))
