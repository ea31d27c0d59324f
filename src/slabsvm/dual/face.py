"""The face of the feasible set on which a solution lies: what moves freely, and how the planes bind it.

On a face the variables at their bounds are fixed, and the Dual becomes linear: with F the samples that are strictly
inside a box of some plane, and A their |F| x P indicator of planes, every question about it is one solve with the
bordered matrix

    M = [[K_FF, A], [A', 0]]

A sample inside the boxes of both planes ties the planes together (they coincide); A then has one column of ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.linalg import get_blas_funcs

from slabsvm.dual.program import Dual
from slabsvm.gram.cholesky import BLOCK, RIDGE, cholesky, in_turn, inverse_of_lower, solve_lower
from slabsvm.runtime.arrays import AnyFloatArray, BoolArray, FloatArray, pieces

# The number of times that the sums' error is solved for.
REFINEMENTS = 2
# A change whose sums are off by more than this share of what it moves is spoiled by rounding.
SPOILED = 1e-3
# Of (M^-1)_gg, relative to 1 / the diagonal of K: less is rounding, where none that stays can take what leaves.
LEAST_SHARE = 1e-10


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
        self,
        gram_block: AnyFloatArray,
        *,
        regular: bool = False,
        divide: Callable[..., None] = in_turn,
    ) -> None:
        """Factor M, given K_FF, shape (f, f), in its precision; f^3/3 multiplications.

        Because A'x is given, K may be replaced by K + lift A A' without changing any answer. That makes it regular
        where M is and K_FF is not: with a linear kernel there are often more free samples than features. Where rounding
        has made it indefinite all the same, a growing ridge is added, or with regular=True numpy.linalg.LinAlgError is
        raised. `divide` is as in `slabsvm.gram.cholesky`.
        """
        self._divide = divide
        border = self.memberships[self.samples]
        diagonal = float(np.diagonal(gram_block).mean())
        self.lift = diagonal if diagonal > 0 else 1.0
        dtype = gram_block.dtype
        (add_square,) = get_blas_funcs(("syr",), dtype=dtype)

        def lifted() -> AnyFloatArray:
            # K is symmetric: its transpose is the same matrix in the order that LAPACK wants.
            matrix = np.empty(gram_block.shape, dtype, order="F")
            # An interruption is looked at between pieces.
            for rows in pieces(len(matrix), matrix.itemsize * len(matrix)):
                matrix.T[rows] = gram_block[rows]
            for members in border.T:
                matrix = add_square(self.lift, members, lower=True, a=matrix, overwrite_a=True)
            return matrix

        ridge = RIDGE[dtype.type]
        self._cholesky = cholesky(lifted, self.lift, ridge=ridge, most=ridge if regular else 1.0, divide=divide)
        self.border = self.half_solve(border)
        square = self.border.T @ self.border
        self.schur = 1.0 / square if len(square) == 1 else np.linalg.inv(square)
        self._of_sums, _ = self.response(np.zeros(border.shape), np.eye(border.shape[1]), refinements=0)

    @property
    def least_pivot(self) -> float:
        """The least squared pivot of the factor, relative to K's diagonal: near 0 where samples are dependent."""
        return float(self._cholesky.diagonal().min()) ** 2 / self.lift

    def half_solve(self, right: FloatArray) -> FloatArray:
        """Return L^-1 right, shape (f, k), with L L' the lifted K_FF."""
        return np.asarray(solve_lower(self._cholesky, right), dtype=np.float64)

    def inverse_root(self) -> AnyFloatArray:
        """Return L^-1, shape (f, f), in K_FF's precision."""
        return inverse_of_lower(self._cholesky, divide=self._divide)

    def solve(self, right: FloatArray, sums: FloatArray) -> FloatArray:
        """Return x with K_FF x + A q = right and A'x = sums; right is (f, k), sums (c, k).

        An ill-conditioned K_FF leaves the sums off by more than rounding, and a certificate holds for the right sums
        only: what they are off by is solved for in turn.
        """
        return self.response(right, sums)[0]

    def response(
        self, right: FloatArray, sums: FloatArray, refinements: int = REFINEMENTS
    ) -> tuple[FloatArray, FloatArray]:
        """Return x and q with K_FF x + A q = right and A'x = sums; x is (f, k), q and sums (c, k)."""
        members = self.memberships[self.samples]
        half = self.half_solve(right + self.lift * members @ sums)
        q = self.schur @ (self.border.T @ half - sums)
        half -= self.border @ q
        x = np.asarray(solve_lower(self._cholesky, half, transposed=True), dtype=np.float64)
        for _ in range(refinements):
            x += self._of_sums @ (sums - members.T @ x)
        return x, q

    def inverse(self) -> tuple[FloatArray, FloatArray]:
        """Return M^-1's part of F and F, shape (f, f), and its part of A and F, (c, f)."""
        root = self.inverse_root()
        coupling = np.asarray(solve_lower(self._cholesky, self.border, transposed=True), dtype=np.float64)
        corner = self.schur @ coupling.T
        inverse = np.empty(root.shape)

        def fill(first: int) -> None:
            some, until = slice(first, first + BLOCK), min(first + BLOCK, len(root))
            inverse[:until, some] = root[first:, :until].T @ root[first:, some]
            inverse[:until, some] -= coupling[:until] @ corner[:, some]
            inverse[some, :first] = inverse[:first, some].T

        self._divide(fill, range(0, len(root), BLOCK))
        return inverse, corner

    def inverse_diagonal(self) -> tuple[FloatArray, FloatArray]:
        """Return M^-1's diagonal over F, shape (f,), and its part of A and F, (c, f)."""
        inverse_root = self.inverse_root()
        coupling = np.asarray(self.border.T.astype(inverse_root.dtype) @ inverse_root, dtype=np.float64)
        corner = self.schur @ coupling
        diagonal = np.asarray(np.einsum("ij,ij->j", inverse_root, inverse_root), dtype=np.float64)
        return diagonal - np.einsum("ij,ij->j", coupling, corner), corner

    def beside(self, rows: FloatArray, members: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k'M^-1 k, (b,), and (M^-1 k)_A, (c, b), of other samples: k' is (rows, members), (b, f) and (b, c)."""
        half = self.half_solve((rows + self.lift * (members @ self.memberships[self.samples].T)).T)
        rest = self.border.T @ half - members.T
        corner = self.schur @ rest
        squares = np.einsum("ij,ij->j", half, half) - np.einsum("ij,ij->j", rest, corner)
        return squares - self.lift * np.einsum("ij,ij->i", members, members), corner

    def to_optimum(self, scores: FloatArray) -> FloatArray:
        """Return the change of beta_F, shape (f,), from where samples have these scores to the face's optimum."""
        return self.solve(-scores[self.samples, None], np.zeros((self.memberships.shape[1], 1)))[:, 0]

    def step(self, multipliers: FloatArray, scores: FloatArray) -> FloatArray:
        """Return multipliers at the optimum of the face, (P, m), or where the first of them meets its bound on the way.

        They stay where rounding spoils the way.
        """
        change, members = self.to_optimum(scores), self.memberships[self.samples]
        off = change @ members
        if not np.abs(off).max(initial=0.0) <= SPOILED * np.abs(change).sum():
            return multipliers
        change = change - members @ (off / members.sum(axis=0))
        free = self.free[:, self.samples]
        moves = self.dual.signs[:, None] * change * free
        shared = free.sum(axis=0) > 1
        if shared.any():
            moves[:, shared] *= 0.5
            moves[:, shared] -= moves.sum(axis=1, keepdims=True) / np.count_nonzero(shared)
        values, caps = multipliers[:, self.samples], self.dual.caps[:, self.samples]
        room = np.where(moves > 0, caps - values, values)
        reaches = np.divide(room, np.abs(moves), out=np.full_like(room, np.inf), where=moves != 0)
        reach = min(1.0, float(reaches.min(initial=np.inf)))
        stepped = multipliers.copy()
        blocked = reaches <= reach if reach < 1.0 else np.zeros_like(free)
        stepped[:, self.samples] = np.where(
            blocked, np.where(moves > 0, caps, 0.0), np.clip(values + reach * moves, 0.0, caps)
        )
        return stepped
