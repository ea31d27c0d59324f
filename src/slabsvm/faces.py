"""The face of the feasible set on which a solution lies: what moves freely, and how the planes bind it.

On a face the variables at their bounds are fixed, and the Dual becomes linear: with F the samples that are strictly inside
a box of some plane, and A their |F| x P indicator of planes, every question about it is one solve with the bordered matrix

    M = [[K_FF, A], [A', 0]]

A sample inside the boxes of both planes ties the planes together (they coincide); A then has one column of ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.linalg

from slabsvm.dual import Dual, FloatArray

# Added to K_FF's diagonal, relative to its mean: duplicates make K_FF singular, rounding makes it slightly indefinite.
RIDGE = 1e-13


class Face:
    """The free samples of feasible multipliers, and solves with the bordered matrix over them.

    Attributes
    ----------
    samples : (f,) array of intp
        F.
    memberships : (m, c) array of float64
        To which of M's c columns of A each sample of the Dual would belong if it were free: one column for each plane
        that has a free sample, or a single column where a sample is free in two planes.
    """

    def __init__(self, dual: Dual, multipliers: FloatArray) -> None:
        self.dual = dual
        self.free = (multipliers > 0) & (multipliers < dual.caps)
        self.samples: npt.NDArray[np.intp] = np.flatnonzero(self.free.any(axis=0))
        positive = multipliers > 0
        if (self.free.sum(axis=0) > 1).any():
            self.memberships = np.ones((dual.n_samples, 1))
        else:
            bound = self.free.any(axis=1)
            owner = np.where(self.free.any(axis=0), self.free, positive & ~self.free.any(axis=0))
            self.memberships = owner[bound].T.astype(np.float64)

    def factor(self, gram_block: FloatArray) -> None:
        """Factor M, given K_FF, shape (f, f). Cost: f^3/3."""
        n = len(self.samples)
        matrix = np.array(gram_block, dtype=np.float64)
        ridge = RIDGE * float(np.diagonal(matrix).mean())
        for attempt in range(8):
            try:
                matrix.flat[:: n + 1] += ridge * (10.0**attempt - 10.0 ** (attempt - 1) * (attempt > 0))
                self._cholesky = scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
                break
            except scipy.linalg.LinAlgError:
                continue
        else:
            raise scipy.linalg.LinAlgError("K_FF is indefinite")
        self._border = self._half_solve(self.memberships[self.samples])
        self._schur = np.linalg.pinv(self._border.T @ self._border, hermitian=True)

    def solve(self, right: FloatArray, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (x, q) with K_FF x + A q = right and A'x = sums; right is (f, k), sums (c, k)."""
        half = self._half_solve(right)
        q = self._schur @ (self._border.T @ half - sums)
        x = scipy.linalg.solve_triangular(
            self._cholesky, half - self._border @ q, lower=True, trans="T", check_finite=False
        )
        return x, q

    def _half_solve(self, right: FloatArray) -> FloatArray:
        return np.asarray(scipy.linalg.solve_triangular(self._cholesky, right, lower=True, check_finite=False))

    def newton_step(self, multipliers: FloatArray, scores: FloatArray) -> tuple[FloatArray, float]:
        """Return the multipliers, shape (P, m), at the face's optimum or where a bound blocks the way, and the reach.

        The reach is 1.0 if nothing blocked.
        """
        change, _ = self.solve(-scores[self.samples, None], np.zeros((self.memberships.shape[1], 1)))
        moves = self.split(change[:, 0])
        now, caps = multipliers[:, self.samples], self.dual.caps[:, self.samples]
        room = np.where(moves > 0, caps - now, now)
        far = np.divide(room, np.abs(moves), out=np.full_like(room, np.inf), where=moves != 0)
        reach = min(1.0, float(far.min()))
        moved = np.clip(now + reach * moves, 0.0, caps)
        if reach < 1.0:
            plane, blocking = np.unravel_index(far.argmin(), far.shape)
            moved[plane, blocking] = caps[plane, blocking] if moves[plane, blocking] > 0 else 0.0
        updated = multipliers.copy()
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
