"""The paper's own solver, for a kernel matrix: a primal-dual interior point with Mehrotra's predictor and corrector.

The slab's dual has planes p = 1..P of signs sigma_p, multipliers v (P x m), and beta = sum_p sigma_p v_p:

    minimise  1/2 beta'K beta + c'beta    over  0 <= v_p <= b_p  (row by row),  sum(v_p) = total_p

With the slacks u = b - v, and the dual variables z >= 0 of v >= 0, y >= 0 of u >= 0 and lambda of the P sums, the
central path of mu is

    sigma_p s - lambda_p - z + y = 0,   sum(v_p) = total_p,   s = K beta + c,   v z = u y = mu

A Newton step solves (S'KS + D) dv - dlambda = r, with S'KS the P x P blocks sigma_p sigma_q K and D = z/v + y/u
diagonal. With E = sum_p 1/D_p it takes one Cholesky factor of I + E^(1/2) K E^(1/2); the sums add a P x P Schur
complement. The predictor aims at mu = 0; how far it gets chooses the mu that the corrector aims at.

The gap is computed from the multipliers that are returned, which are feasible: with t_p = sigma_p (s - rho_p), how far
rows are above plane p, it is the sum of v t+ + (upper bound - v) (-t)+, which no other multipliers can undercut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# A step keeps this share of the way to the boundary.
STEP_SHARE = 0.95
# Steps without this share less gap after which no more are taken: rounding allows no smaller one.
PATIENCE, PROGRESS = 8, 0.9
# The first ridge of a matrix that rounding made indefinite, and what each next one is multiplied by.
RIDGE, MORE = 1e-15, 10.0


@dataclass(frozen=True)
class Problem:
    """The program of the module's head, without K."""

    signs: FloatArray  # (P,): sigma_p, +1 or -1
    upper_bounds: FloatArray  # (P, m)
    totals: FloatArray  # (P,)
    linear: FloatArray  # (m,): c

    @classmethod
    def slab(cls, m: int, nu_lower: float, nu_upper: float, epsilon: float) -> Problem:
        """Return the dual of the paper's slab over m rows, epsilon > 0."""
        upper_bounds = np.array([[1.0 / (nu_lower * m)], [epsilon / (nu_upper * m)]])
        return cls(np.array([1.0, -1.0]), np.tile(upper_bounds, m), np.array([1.0, epsilon]), np.zeros(m))


@dataclass(frozen=True)
class Optimum:
    """Feasible multipliers, and how far from the optimum they can be."""

    multipliers: FloatArray  # (P, m)
    offsets: FloatArray  # (P,): rho_p
    objective: float
    gap: float  # the objective is within it of the optimum
    iterations: int


def interior_point(K: FloatArray, problem: Problem, *, tol: float = 1e-12, max_iter: int = 100) -> Optimum:
    """Solve the problem for a positive semidefinite K, (m, m), to a gap of tol of the objective if rounding allows it.

    Returns the best of the points that the iterates pass, and the number of Newton steps that were taken.
    """
    iterate = _Iterate(K, problem)
    best = found = _optimum(K, problem, iterate.v, 0)
    since = 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while found.gap > tol * abs(found.objective) and found.iterations < max_iter and since < PATIENCE:
            try:
                moved = iterate.step()
            except np.linalg.LinAlgError:
                break
            if not moved:
                break
            found = _optimum(K, problem, iterate.v, found.iterations + 1)
            since = 0 if found.gap < PROGRESS * best.gap else since + 1
            best = min(best, found, key=lambda one: one.gap)
    return Optimum(best.multipliers, best.offsets, best.objective, best.gap, found.iterations)


def _optimum(K: FloatArray, problem: Problem, v: FloatArray, iterations: int) -> Optimum:
    """Return the feasible point nearest to v, with its offsets and its gap."""
    v = np.clip(v, 0.0, problem.upper_bounds)
    offsets, gap = np.empty(len(v)), 0.0
    for values, upper_bounds, total in zip(v, problem.upper_bounds, problem.totals, strict=True):
        # What a sum lacks is spread over the room of each multiplier, so that one at its bound stays there.
        missing = total - values.sum()
        room = np.minimum(values, upper_bounds - values)
        if room.sum() <= abs(missing):
            room = upper_bounds - values if missing > 0 else values
        if room.sum() > 0:
            values[:] = np.clip(values + missing * room / room.sum(), 0.0, upper_bounds)
    beta = problem.signs @ v
    scores = K @ beta + problem.linear
    for p, sign in enumerate(problem.signs):
        # The offset is where the upper bounds of the rows below it sum to the total.
        order = np.argsort(sign * scores, kind="stable")
        held = np.cumsum(problem.upper_bounds[p, order])
        offsets[p] = scores[order[min(np.searchsorted(held, (1.0 - 1e-12) * problem.totals[p]), len(order) - 1)]]
        above = sign * (scores - offsets[p])
        gap += float(np.where(above > 0, v[p], v[p] - problem.upper_bounds[p]) @ above)
    return Optimum(v, offsets, float(0.5 * beta @ (scores + problem.linear)), gap, iterations)


class _Iterate:
    """A point inside all bounds, and one predictor-corrector step of it."""

    def __init__(self, K: FloatArray, problem: Problem) -> None:
        self.K, self.problem = K, problem
        upper_bounds = problem.upper_bounds
        self.v = upper_bounds * (problem.totals / upper_bounds.sum(axis=1))[:, None]
        start = _optimum(K, problem, self.v, 0)
        scores = K @ (problem.signs @ self.v) + problem.linear
        self.lam = problem.signs * start.offsets
        slopes = problem.signs[:, None] * scores - self.lam[:, None]
        size = np.abs(slopes).mean() + 1e-3 * np.abs(scores).mean() + np.finfo(np.float64).tiny
        self.z = np.maximum(slopes, 0.0) + size
        self.y = np.maximum(-slopes, 0.0) + size
        # Where nu is 1 all multipliers of a plane are at their upper bounds: nothing can move, and u would be zero.
        self.u = np.maximum(upper_bounds - self.v, 1e-8 * upper_bounds)

    def step(self) -> bool:
        """Take one step; return whether there was one."""
        problem, v, u, z, y = self.problem, self.v, self.u, self.z, self.y
        scores = self.K @ (problem.signs @ v) + problem.linear
        newton = self._newton(
            slopes=-(problem.signs[:, None] * scores - self.lam[:, None] - z + y),
            sums=problem.totals - v.sum(axis=1),
            slacks=problem.upper_bounds - v - u,
        )
        mu = (np.vdot(v, z) + np.vdot(u, y)) / (2 * v.size)
        dv, du, dz, dy, _ = newton(-v * z, -u * y)
        reach = _reach((v, dv), (u, du), (z, dz), (y, dy))
        predicted = (np.vdot(v + reach * dv, z + reach * dz) + np.vdot(u + reach * du, y + reach * dy)) / (2 * v.size)
        target = mu * (predicted / mu) ** 3
        dv, du, dz, dy, dlam = newton(target - v * z - dv * dz, target - u * y - du * dy)
        reach = STEP_SHARE * _reach((v, dv), (u, du), (z, dz), (y, dy))
        if not (np.isfinite(dv).all() and reach > 0):
            return False
        self.v, self.u = v + reach * dv, u + reach * du
        self.z, self.y = z + reach * dz, y + reach * dy
        self.lam = self.lam + reach * dlam
        return True

    def _newton(
        self, slopes: FloatArray, sums: FloatArray, slacks: FloatArray
    ) -> Callable[[FloatArray, FloatArray], tuple[FloatArray, ...]]:
        """Factor the Newton system of these residuals; return the map from those of v z and u y to the step."""
        v, u, z, y, signs = self.v, self.u, self.z, self.y, self.problem.signs
        inverse = 1.0 / (z / v + y / u)
        root = np.sqrt(inverse.sum(axis=0))
        factor = _cholesky(root[:, None] * self.K * root)

        def approximate(rights: FloatArray) -> FloatArray:
            """Return (S'KS + D)^-1 of right-hand sides, shape (k, P, m), by the factor."""
            scores = self.K @ (signs @ (rights * inverse)).T
            scores = scipy.linalg.cho_solve(factor, root[:, None] * scores) / root[:, None]
            return np.asarray((rights - signs[:, None] * scores.T[:, None]) * inverse)

        def reduced(rights: FloatArray) -> FloatArray:
            """Return the same, refined once: D spans many magnitudes."""
            x = approximate(rights)
            scores = (self.K @ (signs @ x).T).T
            return x + approximate(rights - signs[:, None] * scores[:, None] - x / inverse)

        responses = reduced(np.eye(len(signs))[:, :, None] * np.ones_like(v))
        schur = responses.sum(axis=2).T

        def step(low: FloatArray, high: FloatArray) -> tuple[FloatArray, ...]:
            free = reduced((slopes + low / v - (high - y * slacks) / u)[None])[0]
            dlam = scipy.linalg.lstsq(schur, sums - free.sum(axis=1))[0]
            dv = free + np.tensordot(dlam, responses, axes=1)
            du = slacks - dv
            return dv, du, (low - z * dv) / v, (high - y * du) / u, dlam

        return step


def _cholesky(matrix: FloatArray) -> tuple[NDArray[Any], bool]:
    """Return the factor of I + a positive semidefinite matrix, with the least ridge that lets it be factored."""
    diagonal, ridge = 1.0 + np.diagonal(matrix), 0.0
    while np.isfinite(diagonal).all() and ridge <= 1.0:
        try:
            return np.linalg.cholesky(matrix + np.diag(1.0 + ridge * diagonal)), True
        except np.linalg.LinAlgError:
            ridge = max(MORE * ridge, RIDGE)
    raise np.linalg.LinAlgError("the Newton system is beyond float64")


def _reach(*pairs: tuple[FloatArray, FloatArray]) -> float:
    """Return the largest step, at most 1, that keeps every value + step * change >= 0."""
    reach = 1.0
    for value, change in pairs:
        shrinking = change < 0
        if shrinking.any():
            reach = min(reach, float((value[shrinking] / -change[shrinking]).min()))
    return reach
