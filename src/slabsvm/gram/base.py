"""The kernel matrix K of the training samples, as solvers see it, who never see the data; and K given as a matrix.

A solver reads blocks of K, products K beta, K's diagonal, and (interior point) solves with I + K E.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.linalg.lapack import dpotrf

from slabsvm.gram.cholesky import cholesky
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, IndexArray, pieces

# Where w = 0 is optimal, no gap below this share of the largest objective that the boxes allow can be told from
# rounding: the share of its diagonal to which a matrix in float64 is known.
ROUNDING_GAP = 1e-14
# Up to so many samples all of K is held.
SMALL = 500
# The number of samples on which a kernel of the user's is verified.
VERIFIED = 2000
# An eigenvalue or a squared distance below minus this share of the diagonal is no rounding.
INDEFINITE = 1e-6
NOT_SEMIDEFINITE = "The kernel matrix is not positive semidefinite"
CONVEX = "The slab is a convex problem only for positive semidefinite kernels."


def refuse_negative_curvature(curvature: float, mean_diagonal: float, rounding: float = 0.0) -> None:
    """Refuse a K that has a pair of samples of this squared distance, beside the mean of its diagonal.

    rounding is how far values of K are off, relative to that.
    """
    if curvature < -(INDEFINITE + rounding) * mean_diagonal:
        raise ValueError(
            f"{NOT_SEMIDEFINITE}: two samples have the squared distance {curvature:.3g} in feature space. {CONVEX}"
        )


class Gram(ABC):
    """K over m samples.

    Attributes
    ----------
    n_samples : int
        m.
    resolution : float
        How exactly K is known, as a share of its diagonal.
    cheap_products : bool
        Whether K beta costs less than reading the rows of K that it takes, so that no rows need be kept.
    """

    n_samples: int
    cheap_products: bool = False
    resolution: float = ROUNDING_GAP

    def check(self) -> None:
        """Raise ValueError where K is seen not to be symmetric positive semidefinite.

        The leading VERIFIED samples' block is factored where K is a matrix or a function of the user's; a larger K may
        hide what is wrong with it behind them.
        """
        if (least := self.diagonal.min()) < 0:
            raise ValueError(
                f"{NOT_SEMIDEFINITE}: its diagonal holds {least:.3g}, which would be a squared length. {CONVEX}"
            )
        if self._trusted:
            return
        some = np.arange(min(self.n_samples, VERIFIED))
        block = np.array(self.block(some, some), dtype=np.float64)
        largest = float(self.diagonal.max())
        if largest == 0 and block.any():
            raise ValueError(
                f"{NOT_SEMIDEFINITE}: its diagonal is zero and its other entries are not, as in a matrix of distances. "
                f"{CONVEX}"
            )
        if np.abs(block - block.T).max() > INDEFINITE * largest:
            raise ValueError("The kernel is not symmetric: k(x, z) and k(z, x) differ. A kernel must be symmetric.")
        # A matrix that was computed in float32, whatever its dtype now, has eigenvalues that are off by so much.
        allowed = max(INDEFINITE, len(some) * float(np.finfo(np.float32).eps)) * largest
        block.flat[:: len(some) + 1] += allowed
        if largest > 0 and dpotrf(block, lower=True, overwrite_a=True)[1] != 0:
            raise ValueError(
                f"{NOT_SEMIDEFINITE}: it has an eigenvalue below {-allowed:.2g}, more than rounding explains. {CONVEX}"
            )

    @property
    def _trusted(self) -> bool:
        return False

    @abstractmethod
    def block(
        self,
        rows: IndexArray,
        columns: IndexArray | None,
        dtype: npt.DTypeLike = np.float64,
        out: AnyFloatArray | None = None,
    ) -> AnyFloatArray:
        """Return K[rows][:, columns], all columns for None, in the given dtype; written to out when given."""

    @property
    @abstractmethod
    def diagonal(self) -> FloatArray:
        """K_ii, shape (m,)."""

    @property
    def single_precision_error(self) -> float:
        """About how far float32 blocks are off, relative to the diagonal; inf where they may not be used."""
        return np.inf

    @abstractmethod
    def subset(self, samples: IndexArray) -> Gram:
        """Return K over some of the samples."""

    def dot(self, beta: FloatArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return K beta, shape (m,), from the columns at which beta is not zero; sums are in float64."""
        support = np.flatnonzero(beta)
        total = np.zeros(self.n_samples)
        for columns in pieces(len(support), self.n_samples * np.dtype(dtype).itemsize):
            some = support[columns]
            total += beta[some].astype(dtype) @ self.block(some, None, dtype)
        return total

    @abstractmethod
    def held(self) -> Gram:
        """Return the same K in the form that many products and damped solves are cheapest with."""

    def divide(self, task: Callable[..., None], *items: Iterable[Any]) -> None:
        """Do a task for each item, or for each of several items side by side; where there are threads, these share."""
        for each in zip(*items, strict=True):
            task(*each)

    @abstractmethod
    def damped(self, damping: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the map W -> (I + K E)^-1 K W, shape (m, k), for E = diag(damping), shape (m,), all > 0."""


def solver_of_damped(make: Callable[[], FloatArray], diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return V -> (I + M)^-1 V, shape (m, k), for a positive semidefinite M, where rounding may outweigh the I.

    make returns M, shape (m, m), anew; its diagonal is given besides.
    """

    def damped() -> FloatArray:
        matrix = make()
        matrix.flat[:: len(matrix) + 1] += 1.0
        # A symmetric matrix is its transpose, and that has the order of columns that LAPACK wants.
        return matrix.T

    factor = cholesky(damped, 1.0 + diagonal, ridge=0.0, most=1.0)
    return lambda V: np.asarray(scipy.linalg.cho_solve((factor, True), V, check_finite=False))


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
