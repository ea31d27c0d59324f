"""A kernel that the user gives as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slabsvm.kernels.base import Kernel, NotFiniteError
from slabsvm.kernels.rows import Rows
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, dense, pieces

# Rows of a block off which the diagonal is read.
DIAGONAL_ROWS = 64


class FromFunction(Kernel):
    """k given as a function of two arrays of rows, (n, d) and (n', d), that returns their (n, n') block."""

    trusted = False

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def block(self, left: Rows, right: Rows, out: AnyFloatArray | None = None) -> AnyFloatArray:
        """Return the function's block, checked for its shape and for finite values."""
        values = self._values(left, right)
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            raise NotFiniteError(np.flatnonzero(~finite))
        if out is None:
            return values
        out[...] = values
        return out

    def diagonal(self, X: Rows) -> FloatArray:
        """Return the diagonal, from blocks along it; infinite for rows so long that their square overflows."""
        blocks = [self._values(X[rows], X[rows]) for rows in pieces(X.shape[0], 1, DIAGONAL_ROWS)]
        values = np.concatenate([np.diagonal(block) for block in blocks]) if blocks else np.zeros(0)
        if np.isnan(values).any():
            raise NotFiniteError(np.flatnonzero(np.isnan(values)))
        return values

    def _values(self, left: Rows, right: Rows) -> FloatArray:
        """Return the function's block, checked for its shape."""
        try:
            with np.errstate(under="ignore"):
                found = self.function(left, right)
            values = np.asarray(dense(found))
            if np.iscomplexobj(values):
                raise TypeError("it returned complex numbers, and a kernel is real")
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The kernel function failed on arrays of rows of shapes {left.shape} and {right.shape} ({error}). It "
                "must take two arrays of rows, not two samples, and return the block of all pairs."
            ) from error
        expected = (left.shape[0], right.shape[0])
        if values.shape != expected:
            raise ValueError(
                f"The kernel function returned an array of shape {values.shape} for rows of shapes {left.shape} and "
                f"{right.shape}; it must return the block of all pairs, of shape {expected}."
            )
        return np.asarray(values)
