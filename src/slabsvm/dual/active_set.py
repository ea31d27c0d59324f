"""The face of the feasible set on which a solution lies: what moves freely, and how the planes bind it.

On a face the variables at their bounds are fixed, and the Dual becomes linear: with F the samples that are strictly
inside a box of some plane, and A their |F| x P indicator of planes, every question about it is one solve with the
bordered matrix

    M = [[K_FF, A], [A', 0]]

A sample inside the boxes of both planes ties the planes together (they coincide); A then has one column of ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import get_blas_funcs

from slabsvm.data.pieces import pieces
from slabsvm.dual.program import Dual
from slabsvm.gram.cholesky import cholesky, inverse_of_lower, solve_lower
from slabsvm.runtime.arrays import AnyFloatArray, BoolArray, FloatArray, IndexArray

# Added to K_FF's diagonal, relative to its mean: duplicates make K_FF singular, rounding makes it slightly indefinite.
RIDGE: dict[Any, float] = {np.float64: 1e-13, np.float32: 1e-6}
# A factor of less precision than K_FF is only for one that is well-conditioned.
ROUNDED_RIDGE = 1e-7

# K_FF is copied in pieces of so many bytes, between which an interruption is looked at.
COPIED_BYTES = 2**26
# The number of times that the sums' error is solved for,
REFINEMENTS = 2
# and at most that of a factor of float32, until a correction is no more than this share of the solution.
SINGLE_REFINEMENTS = 10
REFINED = 1e-13
# Of (M^-1)_gg, relative to 1 / the diagonal of K: less is rounding, where none that stays can take what leaves.
LEAST_SHARE = 1e-10
# A change whose sums are off by more than this share of what it moves is spoiled.
SPOILED = 1e-3


class Walk(NamedTuple):
    """Where a way along faces has led.

    Attributes
    ----------
    multipliers : (P, m) array of float64
        Feasible.
    met : int
        The number of bounds that were met.
    arrived : bool
        Whether they are the optimum of the face that these leave.
    """

    multipliers: FloatArray
    met: int
    arrived: bool


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

    def factor(
        self, gram_block: AnyFloatArray, precision: type[np.floating[Any]] | None = None, *, regular: bool = False
    ) -> None:
        """Factor M, given K_FF, shape (f, f), in the given precision, or in its own; f^3/3 multiplications.

        Because A'x is given, K may be replaced by K + lift A A' without changing any answer. That makes it regular
        where M is and K_FF is not: with a linear kernel there are often more free samples than features. Where rounding
        has made it indefinite all the same, a growing ridge is added, or with regular=True numpy.linalg.LinAlgError is
        raised.
        """
        self.gram_block = gram_block
        border = self.memberships[self.samples]
        diagonal = float(np.diagonal(gram_block).mean())
        self.lift = diagonal if diagonal > 0 else 1.0
        dtype = np.dtype(gram_block.dtype if precision is None else precision)
        (add_square,) = get_blas_funcs(("syr",), dtype=dtype)

        def lifted() -> AnyFloatArray:
            # K is symmetric: its transpose is the same matrix in the order that LAPACK wants.
            matrix = np.empty(gram_block.shape, dtype, order="F")
            for rows in pieces(len(matrix), matrix.itemsize * len(matrix), COPIED_BYTES):
                matrix.T[rows] = gram_block[rows]
            for members in border.T:
                matrix = add_square(self.lift, members, lower=True, a=matrix, overwrite_a=True)
            return matrix

        ridge = RIDGE[dtype.type] if dtype == gram_block.dtype else ROUNDED_RIDGE
        self._cholesky = cholesky(lifted, self.lift, ridge=ridge, most=ridge if regular else 1.0)
        self.border = self.half_solve(border)
        square = self.border.T @ self.border
        self.schur = 1.0 / square if len(square) == 1 else np.linalg.inv(square)
        self._of_sums = self._solve_once(np.zeros(border.shape), np.eye(border.shape[1]))

    @property
    def least_pivot(self) -> float:
        """The least squared pivot of the factor, relative to K's diagonal: near 0 where samples are dependent."""
        return float(self._cholesky.diagonal().min()) ** 2 / self.lift

    def half_solve(self, right: FloatArray) -> FloatArray:
        """Return L^-1 right, shape (f, k), with L L' the lifted K_FF."""
        return np.asarray(solve_lower(self._cholesky, right), dtype=np.float64)

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
                x += self._of_sums @ (sums - members.T @ x)
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

    def passed_on(self, right: FloatArray, sums: FloatArray, leaving: IndexArray, held: FloatArray) -> FloatArray:
        """Return the change of beta_F, (f,), as some of F lose all they held and the others take that over.

        That is z_F - N_Fg y of `slabsvm.dual.leave_one_group_out`.

        Parameters
        ----------
        right, sums : (f,) and (c,) arrays
            K_FH beta_H and A_H'beta_H of samples H that leave besides.
        leaving : (g,) array of intp
            The places in F.
        held : (f,) array
            beta_F.
        """
        # One pass over the factor, which is large, for what leaves and what H held.
        sides = np.zeros((len(held), len(leaving) + 1))
        sides[leaving, np.arange(len(leaving))] = 1.0
        sides[:, -1] = right
        sides = self.half_solve(sides)
        units, half = sides[:, :-1], self._off_border(sides[:, -1:], sums[:, None])
        ahead = units.T @ half
        own = self._off_border(units, np.zeros((len(sums), len(leaving))))
        half -= own @ _solved_twice(own, held[leaving, None] + ahead, LEAST_SHARE / self.lift)
        return np.asarray(solve_lower(self._cholesky, half, transposed=True), dtype=np.float64)[:, 0]

    def _off_border(self, half: FloatArray, sums: FloatArray) -> FloatArray:
        """Return L'x, shape (f, k), of the x whose sums A'x are these, (c, k), for L^-1 of the right-hand side."""
        return np.asarray(half - self.border @ (self.schur @ (self.border.T @ half - sums)))

    def _solve_once(self, right: FloatArray, sums: FloatArray) -> FloatArray:
        half = self.half_solve(right + self.lift * self.memberships[self.samples] @ sums)
        half = self._off_border(half, sums)
        return np.asarray(solve_lower(self._cholesky, half, transposed=True), dtype=np.float64)

    def newton_step(self, multipliers: FloatArray, scores: FloatArray) -> tuple[FloatArray, float]:
        """Return the multipliers, shape (P, m), at the face's optimum, and how far towards it no bound is crossed.

        1.0 is all of the way: these multipliers are feasible then.
        """
        moves = self._split(self._to_optimum(scores), self.free[:, self.samples])
        now = multipliers[:, self.samples]
        updated = multipliers.copy()
        updated[:, self.samples] = now + moves
        return updated, min(1.0, float(self._reaches(now, moves).min()))

    def walk(self, multipliers: FloatArray, scores: FloatArray, most: int) -> Walk:
        """Go from feasible multipliers, shape (P, m), at which samples have these scores, towards the face's optimum.

        It turns where a multiplier meets its bound, at most so often: that one stays there, and the optimum of the
        smaller face is the next aim. All turns are solved with the one factor: that the samples H stay where they are
        takes a solve with (M^-1)_HH, and M^-1's columns of H. Where rounding spoils these, the walk ends.
        """
        free, caps = self.free[:, self.samples].copy(), self.dual.caps[:, self.samples]
        now = multipliers[:, self.samples].copy()
        ahead, held = self._to_optimum(scores), np.zeros(0, dtype=np.intp)
        columns = np.empty((most, len(self.samples)))
        met, reach = 0, 0.0
        while met < most:
            change = self._held(ahead, columns[: len(held)], held) if len(held) else ahead
            if change is None:
                break
            moves = self._split(change, free)
            reaches = self._reaches(now, moves)
            reach = min(1.0, float(reaches.min()))
            now = np.clip(now + reach * moves, 0.0, caps)
            ahead = ahead - reach * change
            if reach == 1.0:
                break
            met += 1
            plane, blocking = np.unravel_index(reaches.argmin(), reaches.shape)
            now[plane, blocking] = caps[plane, blocking] if moves[plane, blocking] > 0 else 0.0
            free[plane, blocking] = False
            if self._binds_otherwise(free):
                break
            if not free[:, blocking].any():
                unit = np.zeros((len(self.samples), 1))
                unit[blocking] = 1.0
                columns[len(held)] = self.solve(unit, np.zeros((self.memberships.shape[1], 1)))[:, 0]
                held = np.append(held, blocking)
        updated = multipliers.copy()
        updated[:, self.samples] = now
        return Walk(updated, met, reach == 1.0)

    def _held(self, change: FloatArray, columns: FloatArray, held: IndexArray) -> FloatArray | None:
        """Return a change of beta_F, shape (f,), but for the samples that are held; None where rounding spoils it.

        columns are those of M^-1, (h, f), that belong to the samples held, (h,).
        """
        try:
            left = change - np.linalg.solve(columns[:, held], change[held]) @ columns
        except np.linalg.LinAlgError:
            return None
        left[held] = 0.0
        members = self.memberships[self.samples]
        members[held] = 0.0
        off = members.T @ left
        # NaN is spoiled too.
        if not np.abs(off).max() <= SPOILED * np.abs(left).sum():
            return None
        return np.asarray(left - members @ (off / members.sum(axis=0)))

    def _binds_otherwise(self, free: BoolArray) -> bool:
        """Return whether the planes of the samples that are left, (P, f), bind them in another way than F's did.

        A plane with a single free sample moves nothing, and two planes that have come to share none are tied no more.
        """
        if self.memberships.shape[1] < self.dual.n_planes and self.free.any(axis=1).all():
            return not (free.sum(axis=0) > 1).any()
        return bool((free.sum(axis=1) == 1).any())

    def _to_optimum(self, scores: FloatArray) -> FloatArray:
        """Return the change of beta_F, shape (f,), from where samples have these scores to the face's optimum."""
        return self.solve(-scores[self.samples, None], np.zeros((self.memberships.shape[1], 1)))[:, 0]

    def _reaches(self, now: FloatArray, moves: FloatArray) -> FloatArray:
        """Return how many times its move each multiplier of F can make before it meets a bound, shape (P, f)."""
        room = np.where(moves > 0, self.dual.caps[:, self.samples] - now, now)
        return np.divide(room, np.abs(moves), out=np.full_like(room, np.inf), where=moves != 0)

    def _split(self, change: FloatArray, free: BoolArray) -> FloatArray:
        """Return the change of each plane's multipliers, shape (P, f), for a change of beta_F with A'change = 0."""
        signed = self.dual.signs[:, None] * change * free
        shared = free.sum(axis=0) > 1
        if shared.any():
            signed[:, shared] *= 0.5
            signed[:, shared] -= signed.sum(axis=1, keepdims=True) / np.count_nonzero(shared)
        return signed


def _solved_twice(factor: FloatArray, right: FloatArray, least: float) -> FloatArray:
    """Return (W'W)^-1 right for W, shape (f, g), where W'W is no less than this; nothing along what it is less."""
    _, sizes, directions = np.linalg.svd(np.linalg.qr(factor, mode="r"), full_matrices=False)
    kept = sizes**2 > least
    directions = directions[kept]
    return np.asarray(directions.T @ ((directions @ right) / sizes[kept, None] ** 2))
