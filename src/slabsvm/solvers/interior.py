"""The paper's own method: a primal-dual interior point, with Mehrotra's predictor and corrector.

The problem is the Dual, with its multipliers v (P x m), the slacks u = cap - v, and the dual variables z >= 0 of
v >= 0, y >= 0 of u >= 0 and lambda of the P sums. On the central path of mu,

    sigma_p s - lambda_p - z + y = 0,   sum(v_p) = total_p,   s = K beta + c,   v z = u y = mu

A Newton step solves (S'KS + D) dv - dlambda = r with D = z/v + y/u diagonal. With E = sum_p 1/D_p this needs K only
through one solve with I + K E, which the Gram provides; the sums add a P x P Schur complement. The promise is the
certificate: the gap is computed from the scores K beta of the multipliers that are returned.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slabsvm.dual.face import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution, Status, certified
from slabsvm.gram.base import HELD_BYTES, Dense, Gram
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.solvers.loop import OPTIMAL, TUNING

# Shares of the caps below which a multiplier is moved to its bound; the gap decides which is kept.
BOUND_SHARES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
MAX_ITER = 100
# Rounds without so much less gap (`Tuning.progress`) after which a fit is called stalled.
PATIENCE = 8
# A step keeps this share of the way to the boundary.
STEP_SHARE = 0.995


@ONE_BLAS_THREAD
def solve(
    dual: Dual,
    gram: Gram,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_bytes: float = 1e9,
    start: FloatArray | None = None,
) -> Solution:
    """Solve the Dual to a relative gap of min(tol, OPTIMAL) where rounding allows it; refuse an indefinite K.

    Parameters
    ----------
    dual : Dual
    gram : Gram
        K over the same m samples; held as a matrix of m x m float64 unless it is a product of thin factors.
    tol : float
        The relative duality gap that counts as converged.
    max_iter : int
        Limit on the Newton steps, -1 for MAX_ITER.
    cache_bytes, start : ignored, as an interior point has no use for them
    """
    del cache_bytes, start
    gram.check()
    gram = gram.held()
    mean_diagonal = float(gram.diagonal.mean())
    interior = _Interior(dual, gram)
    best = point = _point(dual, gram, dual.project_sums(interior.v))
    gaps = [dual.relative(point.gap, point.objective, mean_diagonal)]
    rounds_since = 0
    unfinished = Status.ITERATION_LIMIT
    for _ in range(max_iter if max_iter >= 0 else MAX_ITER):
        if point.gap <= dual.gap_target(point.objective, mean_diagonal, min(tol, OPTIMAL), gram.resolution):
            break
        if rounds_since >= PATIENCE or not interior.step():
            unfinished = Status.STALLED
            break
        point = _point(dual, gram, dual.project_sums(interior.v))
        gaps.append(dual.relative(point.gap, point.objective, mean_diagonal))
        rounds_since = 0 if point.gap < TUNING.progress * best.gap else rounds_since + 1
        best = min(best, point, key=lambda one: one.gap)
    return certified(
        _at_the_vertex_of(best, gram),
        mean_diagonal=mean_diagonal,
        resolution=gram.resolution,
        tol=tol,
        iterations=len(gaps) - 1,
        unfinished=unfinished,
        history=tuple((dual.n_samples, gap) for gap in gaps),
    )


def _point(dual: Dual, gram: Gram, multipliers: FloatArray) -> Point:
    return Point(dual, multipliers, dual.linear + gram.dot(dual.beta(multipliers)))


def _at_the_vertex_of(best: Point, gram: Gram) -> Point:
    """Return a point with multipliers that are nearly at a bound put there, and the rest at the optimum of its face.

    Each of BOUND_SHARES counts as near in turn; the face whose optimum has the least gap is the right one.
    """
    dual, v = best.dual, best.multipliers
    held = isinstance(gram, Dense)
    tried: set[bytes] = set()
    for share in BOUND_SHARES:
        rounded = np.where(v < share * dual.caps, 0.0, np.where(v > (1 - share) * dual.caps, dual.caps, v))
        point = _point(dual, gram, dual.project_sums(rounded))
        latest = b""
        for _ in range(2):
            bounds = ((point.multipliers > 0) * 2 + (point.multipliers < dual.caps)).tobytes()
            if bounds != latest:
                if bounds in tried:
                    break
                tried.add(bounds)
                latest, face = bounds, Face(dual, point.multipliers)
                n_free = len(face.samples)
                solvable = n_free >= 2 and (held or 8 * n_free**2 <= HELD_BYTES)
                if solvable:
                    face.factor(gram.block(face.samples, face.samples), divide=gram.divide)
            if solvable:
                point = _point(dual, gram, face.step(point.multipliers, point.scores))
            best = min(best, point, key=lambda one: one.gap)
    return best


class _Interior:
    """The iterate, and one predictor-corrector step of it."""

    def __init__(self, dual: Dual, gram: Gram) -> None:
        self.dual = dual
        self.gram = gram
        caps = dual.caps
        self.v = caps * (dual.totals / caps.sum(axis=1))[:, None]
        scores = dual.linear + gram.dot(dual.beta(self.v))
        self.lam = dual.signs * dual.offsets(scores)
        slopes = dual.signs[:, None] * scores - self.lam[:, None]
        size = np.abs(slopes).mean() + 1e-3 * np.abs(scores).mean() + np.finfo(np.float64).tiny
        self.z = np.maximum(slopes, 0.0) + size
        self.y = np.maximum(-slopes, 0.0) + size
        # Some planes may have all multipliers at their caps (nu = 1): nothing there can move, and u would be zero.
        self.u = np.maximum(caps - self.v, 1e-8 * caps)

    def step(self) -> bool:
        """Take one step; return whether it moved at all."""
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return self._step()
        except np.linalg.LinAlgError:
            return False

    def _step(self) -> bool:
        dual, v, u, z, y = self.dual, self.v, self.u, self.z, self.y
        scores = dual.linear + self.gram.dot(dual.beta(v))
        slope_residual = -(dual.signs[:, None] * scores - self.lam[:, None] - z + y)
        sum_residual = dual.totals - v.sum(axis=1)
        cap_residual = dual.caps - v - u
        mu = (np.vdot(v, z) + np.vdot(u, y)) / (2 * v.size)
        newton = self._newton(slope_residual, sum_residual, cap_residual)

        dv, du, dz, dy, _ = newton(-v * z, -u * y)
        reach = _reach((v, dv), (u, du), (z, dz), (y, dy))
        if not np.isfinite(reach):
            return False
        predicted = (np.vdot(v + reach * dv, z + reach * dz) + np.vdot(u + reach * du, y + reach * dy)) / (2 * v.size)
        target = mu * (predicted / mu) ** 3
        dv, du, dz, dy, dlam = newton(target - v * z - dv * dz, target - u * y - du * dy)
        reach = STEP_SHARE * _reach((v, dv), (u, du), (z, dz), (y, dy))
        if not np.isfinite(reach) or reach < 1e-12 or not np.isfinite(dv).all():
            return False
        self.v = v + reach * dv
        self.u = u + reach * du
        self.z = z + reach * dz
        self.y = y + reach * dy
        self.lam = self.lam + reach * dlam
        return True

    def _newton(
        self, slope_residual: FloatArray, sum_residual: FloatArray, cap_residual: FloatArray
    ) -> Callable[[FloatArray, FloatArray], tuple[FloatArray, ...]]:
        """Factor the Newton system once, and return the map from the complementarity residuals to the step."""
        v, u, z, y = self.v, self.u, self.z, self.y
        signs = self.dual.signs[:, None]
        inverse = 1.0 / (z / v + y / u)
        damped = self.gram.damped(inverse.sum(axis=0))

        def approximate(rights: FloatArray) -> FloatArray:
            scores = damped((self.dual.signs @ (rights * inverse)).T).T
            return np.asarray((rights - signs * scores[:, None]) * inverse)

        def reduced(rights: FloatArray) -> FloatArray:
            """Return (S'KS + D)^-1 of right-hand sides, shape (k, P, m), refined once: D spans many magnitudes."""
            x = approximate(rights)
            scores = self.gram.dot((self.dual.signs @ x).T).T
            return x + approximate(rights - signs * scores[:, None] - x / inverse)

        responses = reduced(np.eye(self.dual.n_planes)[:, :, None] * np.ones_like(v))
        schur = responses.sum(axis=2).T

        def solve(low: FloatArray, high: FloatArray) -> tuple[FloatArray, ...]:
            right = slope_residual + low / v - (high - y * cap_residual) / u
            free = reduced(right[None])[0]
            missing = sum_residual - free.sum(axis=1)
            # Near the ends of float64's range a system may overflow; LAPACK would say so on the terminal.
            if not (np.isfinite(schur).all() and np.isfinite(missing).all()):
                raise np.linalg.LinAlgError("the Newton system is beyond float64")
            dlam = np.linalg.lstsq(schur, missing, rcond=None)[0]
            dv = free + np.tensordot(dlam, responses, axes=1)
            du = cap_residual - dv
            return dv, du, (low - z * dv) / v, (high - y * du) / u, dlam

        return solve


def _reach(*pairs: tuple[FloatArray, FloatArray]) -> float:
    """Return the largest step, at most 1, that keeps every value + step * change >= 0."""
    reach = 1.0
    for value, change in pairs:
        shrinking = change < 0
        if shrinking.any():
            reach = min(reach, float((value[shrinking] / -change[shrinking]).min()))
    return reach
