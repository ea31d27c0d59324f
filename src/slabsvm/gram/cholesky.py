"""The Cholesky factor of a matrix that rounding may have made indefinite, its inverse, and solves with it.

Python looks at an interruption between calls of LAPACK, never inside. What would take a call longer than a fraction of
a second is therefore divided into blocks of a bounded size, so that Ctrl-C is answered: a factor of 10,000 samples
takes four seconds. Threads may share the blocks, whose sizes do not depend on how many there are: nor do the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from slabsvm.runtime.arrays import AnyFloatArray, pieces

# Added to K's diagonal, relative to it: duplicates make K singular, rounding makes it slightly indefinite.
RIDGE: dict[Any, float] = {np.float64: 1e-13, np.float32: 1e-6}
# LAPACK factors and inverts up to so many rows in a call, in a quarter of a second; more take a tenth longer in blocks
LARGEST_WHOLE = 3000
# of so many columns, in calls of at most about so many multiplications.
BLOCK = 256
WORK = 2_000_000_000
# Threads share pieces of so much of it.
SHARED_WORK = 250_000_000
# A solve is for so many columns at least: with fewer, reading the factor is what costs.
LEAST_COLUMNS = 32


def in_turn(task: Callable[[Any], None], items: Iterable[Any]) -> None:
    """Do a task for each item, one after the other."""
    for item in items:
        task(item)


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


def inverse_of_lower(
    factor: AnyFloatArray, *, whole: int = LARGEST_WHOLE, divide: Callable[..., None] = in_turn
) -> AnyFloatArray:
    """Return the inverse of a lower triangular matrix, (n, n), of more than `whole` rows by bands of them.

    `divide` is as in `cholesky`.
    """
    (trtri,) = get_lapack_funcs(("trtri",), (factor,))
    if len(factor) <= whole:
        return np.asarray(trtri(factor, lower=True)[0])
    # Zeros of new memory cost nothing until they are used; of zeros_like they are written, in one long call.
    inverse = np.zeros(factor.shape, factor.dtype, order="F")
    for first in range(0, len(factor), BLOCK):
        rows = slice(first, first + BLOCK)
        inverse[rows, rows] = trtri(factor[rows, rows], lower=True)[0]
        if first:
            _fill(inverse, factor, rows, divide)
    return inverse


def _fill(inverse: AnyFloatArray, factor: AnyFloatArray, rows: slice, divide: Callable[..., None]) -> None:
    """Fill a band of rows of the inverse but for its last block, block by block; the rows above are triangular, too."""
    first = rows.start
    # Transposed, as in `_factored_in_blocks`.
    corner = -inverse[rows, rows].T

    def fill(begin: int) -> None:
        columns = slice(begin, begin + BLOCK)
        inverse.T[columns, rows] = (inverse[begin:first, columns].T @ factor[rows, begin:first].T) @ corner

    divide(fill, range(0, first, BLOCK))


def cholesky(
    make: Callable[[], AnyFloatArray],
    unit: float,
    *,
    ridge: float,
    most: float,
    whole: int = LARGEST_WHOLE,
    divide: Callable[..., None] = in_turn,
) -> AnyFloatArray:
    """Return the lower triangular factor of a matrix with the least of growing ridges that lets it be factored.

    Parameters
    ----------
    make : function that returns the matrix, (n, n), anew
        Its memory is used for the factor; columns next to each other save a copy.
    unit : float
        What a ridge is in the unit of.
    ridge, most : float
        The first ridge, above 0, and the largest.
    whole : int
        A matrix of more rows is factored in blocks.
    divide : function of a task and an iterable of items
        Does the task for each item; threads may share them, as in `Gram.divide`.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where no ridge up to `most` is enough.
    """
    while ridge <= most:
        matrix = make()
        matrix.reshape(-1, order="A")[:: len(matrix) + 1] += ridge * unit
        factor = _factored(matrix) if len(matrix) <= whole else _factored_in_blocks(matrix, divide)
        if factor is not None:
            return factor
        ridge *= 10.0
    raise np.linalg.LinAlgError("the kernel matrix is far from positive semidefinite")


def _factored(matrix: AnyFloatArray) -> AnyFloatArray | None:
    """Return the lower triangular factor of a matrix, which is overwritten; None where it is not positive definite."""
    (potrf,) = get_lapack_funcs(("potrf",), (matrix,))
    factor, failed = potrf(matrix, lower=True, clean=True, overwrite_a=True)
    return None if failed else np.asarray(factor)


def _factored_in_blocks(matrix: AnyFloatArray, divide: Callable[..., None]) -> AnyFloatArray | None:
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
        divide(
            partial(_eliminate, factor, before, corner, trsm),
            (
                slice(end + piece.start, end + piece.stop)
                for piece in pieces(len(factor) - end, BLOCK * end, max(SHARED_WORK, BLOCK**2 * end))
            ),
        )
    return factor


def _eliminate(
    factor: AnyFloatArray, before: AnyFloatArray, corner: AnyFloatArray, trsm: Callable[..., Any], rows: slice
) -> None:
    """Bring some rows of the columns next to `before`, (BLOCK, first), to the factor's, below its corner."""
    first = before.shape[1]
    own = slice(first, first + len(corner))
    # Transposed, since an array's columns are next to each other here, and a product's rows.
    rest = factor[rows, own] - (before @ factor[rows, :first].T).T
    factor[rows, own] = trsm(1.0, corner, rest, side=1, lower=1, trans_a=1, overwrite_b=True)
