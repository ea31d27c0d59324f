"""The Cholesky factor of a matrix that rounding may have made indefinite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_lapack_funcs

from slabsvm.runtime.arrays import AnyFloatArray, FloatArray

# The least ridge above 0, relative to its unit.
LEAST_RIDGE = 1e-15
# The rows of a band of a triangular inverse.
BAND = 64
LARGEST_BANDED = 700


def inverse_of_lower(factor: AnyFloatArray) -> AnyFloatArray:
    """Return the inverse of a lower triangular matrix, (n, n), by bands of rows.

    They leave nearly all of the work to products: at n = 300 this is a third faster than LAPACK's trtri, which a larger
    matrix is left to.
    """
    (trtri,) = get_lapack_funcs(("trtri",), (factor,))
    if len(factor) > LARGEST_BANDED:
        return np.asarray(trtri(factor, lower=True)[0])
    inverse = np.zeros_like(factor, order="F")
    for first in range(0, len(factor), BAND):
        rows = slice(first, first + BAND)
        inverse[rows, rows] = trtri(factor[rows, rows], lower=True)[0]
        if first:
            inverse[rows, :first] = -inverse[rows, rows] @ (factor[rows, :first] @ inverse[:first, :first])
    return inverse


def cholesky(
    make: Callable[[], AnyFloatArray], unit: float | FloatArray, *, ridge: float, most: float
) -> AnyFloatArray:
    """Return the lower triangular factor of a matrix with the least of growing ridges that lets it be factored.

    Parameters
    ----------
    make : function that returns the matrix, (n, n), anew
        Its memory is used for the factor; columns next to each other save a copy.
    unit : float or (n,) array
        What a ridge is in the unit of.
    ridge, most : float
        The first ridge, which may be 0, and the largest.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where no ridge up to `most` is enough.
    """
    while ridge <= most:
        matrix = make()
        matrix.reshape(-1, order="A")[:: len(matrix) + 1] += ridge * unit
        (potrf,) = get_lapack_funcs(("potrf",), (matrix,))
        factor, failed = potrf(matrix, lower=True, clean=True, overwrite_a=True)
        if not failed:
            return np.asarray(factor)
        ridge = max(10.0 * ridge, LEAST_RIDGE)
    raise np.linalg.LinAlgError("the kernel matrix is far from positive semidefinite")
