"""The face of the feasible set on which a solution lies: what moves freely, and how the planes bind it.

On a face the variables at their bounds are fixed, and the Dual becomes linear: with F the samples that are strictly
inside a box of some plane, and A their |F| x P indicator of planes, every question about it is one solve with the
bordered matrix

    M = [[K_FF, A], [A', 0]]

A sample inside the boxes of both planes ties the planes together (they coincide); A then has one column of ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from slabsvm.dual.program import Dual
from slabsvm.gram.cholesky import cholesky, inverse_of_lower
from slabsvm.runtime.arrays import AnyFloatArray, BoolArray, FloatArray

# Added to K_FF's diagonal, relative to its mean: duplicates make K_FF singular, rounding makes it slightly indefinite.
RIDGE: dict[Any, float] = {np.float64: 1e-13, np.float32: 1e-6}
# A factor of less precision than K_FF is only for one that is well-conditioned.
ROUNDED_RIDGE = 1e-7

# The number of times that the sums' error is solved for,
REFINEMENTS = 2
# and at most that of a factor of float32, until a correction is no more than this share of the solution.
SINGLE_REFINEMENTS = 10
REFINED = 1e-13


class Face:
    """The free samples of feasible multipliers, and solves with the bordered matrix over them.

    Parameters
    ----------
    dual : Dual
    multipliers : (P, m) array
    free : (P, m) bool array or None
        Which multipliers are taken for free; None for those strictly inside their boxes.

    Attributes
    ----------
    samples : (f,) array of intp
        F.
    memberships : (m, c) array of float64
        To which of A's columns each sample belongs by its multipliers: one column for each plane that has a free
        sample, or a single one where a sample is free in two planes.
    """

    def __init__(self, dual: Dual, multipliers: FloatArray, free: BoolArray | None = None) -> None:
        self.dual = dual
        self.free = (multipliers > 0) & (multipliers < dual.caps) if free is None else free
        free_somewhere = self.free.any(axis=0)
        self.samples: npt.NDArray[np.intp] = np.flatnonzero(free_somewhere)
        if (self.free.sum(axis=0) > 1).any():
            self.memberships = np.ones((dual.n_samples, 1))
        else:
            owners = np.where(free_somewhere, self.free, multipliers > 0)
            self.memberships = owners[self.free.any(axis=1)].T.astype(np.float64)

    def factor(self, gram_block: AnyFloatArray, precision: type[np.floating[Any]] | None = None) -> None:
        """Factor M, given K_FF, shape (f, f), in the given precision, or in its own; f^3/3 multiplications.

        Because A'x is given, K may be replaced by K + lift A A' without changing any answer. That makes it regular
        where M is and K_FF is not: with a linear kernel there are often more free samples than features.
        """
        self.gram_block = gram_block
        border = self.memberships[self.samples]
        diagonal = float(np.diagonal(gram_block).mean())
        self.lift = diagonal if diagonal > 0 else 1.0
        dtype = np.dtype(gram_block.dtype if precision is None else precision)
        (self._trtrs,) = get_lapack_funcs(("trtrs",), dtype=dtype)
        (add_square,) = get_blas_funcs(("syr",), dtype=dtype)

        def lifted() -> AnyFloatArray:
            # K is symmetric: its transpose is the same matrix in the order that LAPACK wants.
            matrix = gram_block.T.astype(dtype, order="F")
            for members in border.T:
                matrix = add_square(self.lift, members, lower=True, a=matrix, overwrite_a=True)
            return matrix

        ridge = RIDGE[dtype.type] if dtype == gram_block.dtype else ROUNDED_RIDGE
        self._cholesky = cholesky(lifted, self.lift, ridge=ridge, most=1.0)
        self.border = self.half_solve(border)
        square = self.border.T @ self.border
        self.schur = 1.0 / square if len(square) == 1 else np.linalg.inv(square)

    @property
    def least_pivot(self) -> float:
        """The least squared pivot of the factor, relative to K's diagonal: near 0 where samples are dependent."""
        return float(self._cholesky.diagonal().min()) ** 2 / self.lift

    def half_solve(self, right: FloatArray) -> FloatArray:
        """Return L^-1 right, shape (f, k), with L L' the lifted K_FF."""
        return np.asarray(self._trtrs(self._cholesky, right, lower=True)[0], dtype=np.float64)

    def inverse_root(self) -> AnyFloatArray:
        """Return L^-1, shape (f, f), in K_FF's precision."""
        return inverse_of_lower(self._cholesky)

    def solve(self, right: FloatArray, sums: FloatArray) -> FloatArray:
        """Return x with K_FF x + A q = right and A'x = sums; right is (f, k), sums (c, k).

        An ill-conditioned K_FF leaves the sums off by more than rounding, and a certificate holds for the right sums
        only: what they are off by is solved for in turn, and with a factor of less precision than K_FF all that is.
        """
        members = self.memberships[self.samples]
        x = self._solve_once(right, sums)
        if self._cholesky.dtype == self.gram_block.dtype:
            for _ in range(REFINEMENTS):
                x += self._solve_once(np.zeros_like(right), sums - members.T @ x)
            return x
        for _ in range(SINGLE_REFINEMENTS):
            rest = right - self.gram_block @ x
            # A q is no error, and next to it rounding would hide what is.
            rest -= members @ ((members.T @ rest) / members.sum(axis=0)[:, None])
            change = self._solve_once(rest, sums - members.T @ x)
            x += change
            if np.abs(change).max(initial=0.0) <= REFINED * np.abs(x).max(initial=0.0):
                break
        return x

    def _solve_once(self, right: FloatArray, sums: FloatArray) -> FloatArray:
        half = self.half_solve(right + self.lift * self.memberships[self.samples] @ sums)
        half -= self.border @ (self.schur @ (self.border.T @ half - sums))
        return np.asarray(self._trtrs(self._cholesky, half, lower=True, trans=1)[0], dtype=np.float64)

    def newton_step(
        self, multipliers: FloatArray, scores: FloatArray, *, blocked: bool = True
    ) -> tuple[FloatArray, float]:
        """Return the multipliers, shape (P, m), at the face's optimum or where a bound blocks the way, and the reach.

        The reach is 1.0 if nothing blocks. With blocked=False the whole step is taken whatever bounds it crosses.
        """
        change = self.solve(-scores[self.samples, None], np.zeros((self.memberships.shape[1], 1)))
        moves = self.split(change[:, 0])
        now, caps = multipliers[:, self.samples], self.dual.caps[:, self.samples]
        room = np.where(moves > 0, caps - now, now)
        far = np.divide(room, np.abs(moves), out=np.full_like(room, np.inf), where=moves != 0)
        reach = min(1.0, float(far.min()))
        updated = multipliers.copy()
        if not blocked:
            updated[:, self.samples] = now + moves
            return updated, reach
        moved = np.clip(now + reach * moves, 0.0, caps)
        if reach < 1.0:
            plane, blocking = np.unravel_index(far.argmin(), far.shape)
            moved[plane, blocking] = caps[plane, blocking] if moves[plane, blocking] > 0 else 0.0
        updated[:, self.samples] = moved
        return updated, reach

    def split(self, change: FloatArray) -> FloatArray:
        """Return the change of each plane's multipliers, shape (P, f), for a change of beta_F with A'change = 0."""
        free = self.free[:, self.samples]
        signed = self.dual.signs[:, None] * change * free
        shared = free.sum(axis=0) > 1
        if shared.any():
            signed[:, shared] *= 0.5
            signed[:, shared] -= signed.sum(axis=1, keepdims=True) / np.count_nonzero(shared)
        return signed
