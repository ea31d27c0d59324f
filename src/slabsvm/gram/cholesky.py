"""The Cholesky factor of a matrix that rounding may have made indefinite, its inverse, and solves with it.

Python looks at an interruption between calls of LAPACK, never inside. What would take a call longer than a fraction of
a second is therefore divided into blocks of a bounded size, so that Ctrl-C is answered: a factor of 10,000 samples
takes eight seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from slabsvm.data.pieces import pieces
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray

# The least ridge above 0, relative to its unit.
LEAST_RIDGE = 1e-15
# The rows of a band of a triangular inverse.
BAND = 64
LARGEST_BANDED = 700
# LAPACK factors and inverts up to so many rows in a call, in a quarter of a second; more take a tenth longer in blocks
LARGEST_WHOLE = 3000
# of so many columns, in calls of at most about so many multiplications.
BLOCK = 256
WORK = 2_000_000_000
# A solve is for so many columns at least: with fewer, reading the factor is what costs.
LEAST_COLUMNS = 32


def solve_lower(
    factor: AnyFloatArray, right: AnyFloatArray, *, transposed: bool = False, work: int = WORK
) -> AnyFloatArray:
    """Return L^-1 right, or with transposed L'^-1 right, shape (n, k), for a lower triangular L, (n, n)."""
    (trtrs,) = get_lapack_funcs(("trtrs",), dtype=factor.dtype)
    n, k = right.shape
    solved = [
        trtrs(factor, right[:, some], lower=True, trans=int(transposed))[0]
        for some in pieces(k, n**2, max(work, LEAST_COLUMNS * n**2)) or [slice(0)]
    ]
    return np.asarray(solved[0] if len(solved) == 1 else np.hstack(solved))


def inverse_of_lower(factor: AnyFloatArray, *, whole: int = LARGEST_WHOLE) -> AnyFloatArray:
    """Return the inverse of a lower triangular matrix, (n, n), by bands of rows.

    They leave nearly all of the work to products: at n = 300 this is a third faster than LAPACK's trtri, which a larger
    matrix is left to, up to `whole` rows.
    """
    (trtri,) = get_lapack_funcs(("trtri",), (factor,))
    if LARGEST_BANDED < len(factor) <= whole:
        return np.asarray(trtri(factor, lower=True)[0])
    # Zeros of new memory cost nothing until they are used; of zeros_like they are written, in one long call.
    inverse = np.zeros(factor.shape, factor.dtype, order="F")
    band = BAND if len(factor) <= LARGEST_BANDED else BLOCK
    for first in range(0, len(factor), band):
        rows = slice(first, first + band)
        inverse[rows, rows] = trtri(factor[rows, rows], lower=True)[0]
        if first and band == BAND:
            inverse[rows, :first] = -inverse[rows, rows] @ (factor[rows, :first] @ inverse[:first, :first])
        elif first:
            _fill(inverse, factor, rows)
    return inverse


def _fill(inverse: AnyFloatArray, factor: AnyFloatArray, rows: slice) -> None:
    """Fill a band of rows of the inverse but for its last block, block by block; the rows above are triangular, too."""
    first = rows.start
    # Transposed, as in `_factored_in_blocks`.
    corner = -inverse[rows, rows].T
    for begin in range(0, first, BLOCK):
        columns = slice(begin, begin + BLOCK)
        inverse.T[columns, rows] = (inverse[begin:first, columns].T @ factor[rows, begin:first].T) @ corner


def cholesky(
    make: Callable[[], AnyFloatArray],
    unit: float | FloatArray,
    *,
    ridge: float,
    most: float,
    whole: int = LARGEST_WHOLE,
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
    whole : int
        A matrix of more rows is factored in blocks.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where no ridge up to `most` is enough.
    """
    while ridge <= most:
        matrix = make()
        matrix.reshape(-1, order="A")[:: len(matrix) + 1] += ridge * unit
        factor = _factored(matrix) if len(matrix) <= whole else _factored_in_blocks(matrix)
        if factor is not None:
            return factor
        ridge = max(10.0 * ridge, LEAST_RIDGE)
    raise np.linalg.LinAlgError("the kernel matrix is far from positive semidefinite")


def _factored(matrix: AnyFloatArray) -> AnyFloatArray | None:
    """Return the lower triangular factor of a matrix, which is overwritten; None where it is not positive definite."""
    (potrf,) = get_lapack_funcs(("potrf",), (matrix,))
    factor, failed = potrf(matrix, lower=True, clean=True, overwrite_a=True)
    return None if failed else np.asarray(factor)


def _factored_in_blocks(matrix: AnyFloatArray) -> AnyFloatArray | None:
    """Do what `_factored` does block by block: a block's columns are K's less the products of the columns before it."""
    factor = np.asfortranarray(matrix)
    trsm, syrk = get_blas_funcs(("trsm", "syrk"), (factor,))
    for first in range(0, len(factor), BLOCK):
        own, end = slice(first, first + BLOCK), min(first + BLOCK, len(factor))
        factor[:first, own] = 0.0
        before = np.asfortranarray(factor[own, :first])
        square = np.asfortranarray(factor[own, own])
        corner = _factored(syrk(-1.0, before, 1.0, square, lower=True, overwrite_c=True) if first else square)
        if corner is None:
            return None
        factor[own, own] = corner
        for piece in pieces(len(factor) - end, BLOCK * end, max(WORK, BLOCK**2 * end)):
            rows = slice(end + piece.start, end + piece.stop)
            # Transposed, since an array's columns are next to each other here, and a product's rows.
            rest = factor[rows, own] - (before @ factor[rows, :first].T).T
            factor[rows, own] = trsm(1.0, corner, rest, side=1, lower=1, trans_a=1, overwrite_b=True)
    return factor
