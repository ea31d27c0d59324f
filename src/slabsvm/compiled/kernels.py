"""Compiled arithmetic of kernels: exponentials, and blocks of the additive kernels.

Without AVX-512, NumPy's exponential of float64 takes one number at a time; the one here is a polynomial, and takes as
many as a register holds: with AVX2, six to ten times as many in the same time. It is exact to a few units of 1's
rounding. Its arguments are not positive.

Blocks of the additive kernels, sums over features of a function of two numbers, take the second factor transposed,
(d, n_right), so that the innermost loop runs along contiguous right-hand samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.runtime.compilation import compiler

# With Python's error model, a division could raise, and no loop around it would be vectorised.
_compiled = compiler(error_model="numpy")
_inlined = compiler(error_model="numpy", forceinline=True)

LOG2 = 0.6931471805599453
PER_LOG2 = 1.0 / LOG2
# exp(LEAST) is 1e-304. What is less would be no normal number, and is 0.
LEAST = -700.0

LANES = 512  # right-hand samples whose partial sums stay in the first-level cache


@_inlined
def _exponential(x: Any) -> Any:
    """Return exp(x) of x <= 0, which is 2^k exp(r) with |r| <= log(2) / 2: of exp(r) the first terms of its series."""
    bounded = max(x, LEAST)
    k = np.rint(bounded * PER_LOG2)
    r = bounded - k * LOG2
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    # The bits of 2^k.
    power = np.int64((np.int64(np.int32(k)) + 1023) << 52).view(np.float64)
    return p * power if x >= LEAST else 0.0


@_compiled
def exponentials(values: Any) -> None:
    """Replace values, (n,), none of them positive, by their exponentials."""
    for i in range(len(values)):
        values[i] = _exponential(values[i])


@_compiled
def intersection_rows(indptr: Any, indices: Any, data: Any, right: Any, out: Any) -> None:
    """Write out[i, j] = sum_k min(x_ik, z_jk) for CSR rows x >= 0 and right = z', shape (d, n_right), z >= 0."""
    n_left, n_right = out.shape
    # Whatever out's layout is, the innermost loops run along contiguous sums.
    lanes = np.empty(LANES, out.dtype)
    for first in range(0, n_right, LANES):
        last = min(first + LANES, n_right)
        sums = lanes[: last - first]
        for i in range(n_left):
            sums[:] = 0.0
            for position in range(indptr[i], indptr[i + 1]):
                x = data[position]
                z = right[indices[position], first:last]
                for j in range(last - first):
                    sums[j] += min(x, z[j])
            out[i, first:last] = sums


# A compiler that may reorder products would multiply x by z first, which underflows or overflows.
@compiler(error_model="numpy", fastmath=False)
def chi2_rows(indptr: Any, indices: Any, data: Any, right: Any, out: Any) -> None:
    """Write out[i, j] = sum_k 2 x_ik z_jk / (x_ik + z_jk) for CSR rows x > 0 and right = z', (d, n_right), z >= 0."""
    n_left, n_right = out.shape
    lanes = np.empty(LANES, out.dtype)
    for first in range(0, n_right, LANES):
        last = min(first + LANES, n_right)
        sums = lanes[: last - first]
        for i in range(n_left):
            sums[:] = 0.0
            for position in range(indptr[i], indptr[i + 1]):
                x = data[position]
                z = right[indices[position], first:last]
                for j in range(last - first):
                    sums[j] += z[j] * (x / (x + z[j]))
            for j in range(last - first):
                out[i, first + j] = sums[j] + sums[j]
