"""K that is given as a matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from slabsvm.gram.base import Gram, solver_of_damped
from slabsvm.gram.precision import ROUNDING_GAP
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, IndexArray


class Dense(Gram):
    """K given as a matrix.

    Parameters
    ----------
    matrix : (m, m) array
    resolution : float
        How exactly each value is known, as a share of the diagonal.
    trusted : bool, default=False
        Whether it is known to be symmetric and positive semidefinite.
    """

    def __init__(self, matrix: FloatArray, resolution: float = ROUNDING_GAP, *, trusted: bool = False) -> None:
        self.matrix = matrix
        self.n_samples = matrix.shape[0]
        self.resolution = resolution
        self.trusted = trusted

    @property
    def _trusted(self) -> bool:
        return self.trusted

    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return a copy of part of the matrix."""
        chosen = self.matrix[rows] if columns is None else self.matrix[rows[:, None], columns]
        if out is None:
            return chosen.astype(dtype, copy=False)
        out[...] = chosen
        return out

    @property
    def diagonal(self) -> FloatArray:
        """K_ii, shape (m,)."""
        return np.diagonal(self.matrix)

    def subset(self, samples: IndexArray) -> Gram:
        """Return the principal block."""
        return Dense(self.matrix[np.ix_(samples, samples)], self.resolution, trusted=self.trusted)

    def dot(self, beta: FloatArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return K beta."""
        del dtype
        return np.asarray(self.matrix @ beta)

    def held(self) -> Dense:
        """Return K itself."""
        return self

    def damped(self, damping: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return K E^(1/2) (I + E^(1/2) K E^(1/2))^-1 E^(-1/2): a Cholesky factor of no eigenvalue below 1."""
        root = np.sqrt(damping)[:, None]

        def scaled() -> FloatArray:
            matrix = self.matrix * root
            matrix *= root.T
            return matrix

        solve_damped = solver_of_damped(scaled, self.diagonal * damping)
        return lambda W: solve_damped(root * (self.matrix @ W)) / root
