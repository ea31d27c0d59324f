"""Leave-one-out spans of faces too large to factor, from each sample's nearest neighbours and some exact values.

The closed form (`slabsvm.dual.leave_one_out`) needs the diagonal of K_FF^-1, or of a sample at its bound the variance
given F; the rest are solves for the planes' columns. A sparse factor from the nearest neighbours
(`slabsvm.gram.neighbours`) gives an estimate of each value, and the estimate from half as many neighbours tells how
fast it converges. For some samples, most of them near the planes, where the quantiles are taken, conjugate gradients
give the exact value: by a regression on these the logarithms of all estimates are corrected, and its residuals say how
far off a plane can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slabsvm.dual.face import LEAST_SHARE, Face
from slabsvm.dual.solution import Solution
from slabsvm.gram.base import Blocks
from slabsvm.gram.neighbours import NeighbourFactor, Neighbours
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True)
class SpanTuning:
    """How exact the estimates are.

    Attributes
    ----------
    neighbours : int
        Of each sample.
    exact : int
        Samples near each plane whose values are computed exactly.
    window : float
        The share of all samples, by their scores' ranks, that is near a plane.
    variance_tol, border_tol : float
        Conjugate gradients end where a step changes a value, or the residual is, less than this share.
    iterations : int
        Of conjugate gradients, at most.
    largest_error : float
        In standard deviations of the scores: an estimate that may be further off at a plane is none. Where it is
        infinite there always is one, whose error is infinite too where conjugate gradients did not converge.
    """

    neighbours: int = 32
    exact: int = 20
    window: float = 0.1
    variance_tol: float = 3e-3
    border_tol: float = 1e-4
    iterations: int = 40
    largest_error: float = 0.15


TUNING = SpanTuning()
# Of a face of more samples, twice the neighbours cost less than the products that they save, or than exact values.
MANY = 5000
# A factor of a face of n samples and its inverse take as long as n / 30 products: this share of n may be made.
PRODUCTS_SHARE = 0.01
# Four times the neighbours take 64 times the regressions, and a third of the products or fewer.
THOROUGH = SpanTuning(neighbours=128, iterations=200)
# What is divided by is no less.
LEAST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Spans:
    """S_i^2 and A_i'q_i of the samples of a face, and of others at their bounds, with the error at a plane.

    Attributes
    ----------
    samples : (n,) array of intp
        The face's, then the others.
    spans, falls : (n,) arrays
    error : float
        About how far the offsets that the leave-one-out scores give can be off, in the scores' unit.
    """

    samples: IndexArray
    spans: FloatArray
    falls: FloatArray
    error: float


def usual(n_samples: int) -> SpanTuning:
    """Return how exact the estimates of a face of so many samples are tried to be."""
    iterations = max(TUNING.iterations, int(PRODUCTS_SHARE * n_samples))
    return replace(TUNING, neighbours=TUNING.neighbours * (2 if n_samples > MANY else 1), iterations=iterations)


def neighbour_spans(
    face: Face, bound: IndexArray, K: Blocks, solution: Solution, tuning: SpanTuning | None = None
) -> Spans | None:
    """Return estimates of the spans, or None where too little can be said of them.

    Parameters
    ----------
    face : Face
    bound : (b,) array of intp
        Support vectors that are not in the face.
    K : Blocks
        Over the face's samples and, behind them, the bound ones, in float32.
    solution : Solution
    tuning : SpanTuning or None
        None for the usual one.
    """
    return _Estimate(face, bound, K, tuning or usual(len(face.samples))).spans(solution)


class _Estimate:
    """K over the face's samples, which come first, and those at their bounds, with the face's sparse factor.

    A *value* is an element of the diagonal of K_FF^-1, or of a sample at its bound the variance given F.
    """

    def __init__(self, face: Face, bound: IndexArray, K: Blocks, tuning: SpanTuning) -> None:
        self.face, self.K, self.tuning = face, K, tuning
        self.samples = np.concatenate([face.samples, bound])
        self.n_free = len(face.samples)
        neighbours = Neighbours(K, tuning.neighbours, limit=self.n_free)
        everyone = np.arange(len(self.samples))
        factor = neighbours.factor(everyone)
        self.factor = factor.leading(self.n_free)
        self.values = self._values(factor)
        self.values_of_fewer = self._values(neighbours.factor(everyone, tuning.neighbours // 2))

    def _values(self, factor: NeighbourFactor) -> FloatArray:
        return np.concatenate([factor.leading(self.n_free).diagonal, factor.variances[self.n_free :]])

    def spans(self, solution: Solution) -> Spans | None:
        border = self.face.memberships[self.samples]
        removed = self.face.dual.beta(solution.multipliers)[self.samples]
        weights = self._start(border[: self.n_free], removed[: self.n_free])
        solved = self._solve(border[: self.n_free], weights)
        if not solved and np.isfinite(self.tuning.largest_error):
            return None
        schur = np.linalg.inv(border[: self.n_free].T @ weights)
        rest = self.K.times(weights, slice(self.n_free, len(self.samples))) - border[self.n_free :]

        def assembled(values: FloatArray) -> tuple[FloatArray, FloatArray]:
            """Return the spans S_i^2 and the planes' falls A_i'q_i that such values give."""
            values, variances = values[: self.n_free], values[self.n_free :]
            inverse = values - np.einsum("ij,jk,ik->i", weights, schur, weights)
            spans = np.divide(1.0, inverse, out=np.zeros(self.n_free), where=inverse > LEAST_SHARE * values)
            falls = -spans * np.einsum("ij,jk,ik->i", border[: self.n_free], schur, weights)
            bound_spans = np.maximum(variances + np.einsum("ij,jk,ik->i", rest, schur, rest), 0.0)
            bound_falls = np.einsum("ij,jk,ik->i", border[self.n_free :], schur, rest)
            return np.concatenate([spans, bound_spans]), np.concatenate([falls, bound_falls])

        def scores(values: FloatArray) -> FloatArray:
            spans, falls = assembled(values)
            return np.asarray(solution.scores[self.samples] - removed * (spans + falls))

        near = self._near_planes(solution, scores(self.values))
        values, residuals = self._corrected(np.unique(np.concatenate(near)))
        estimated = scores(values)
        shifts = np.abs(scores(values * np.exp(residuals)) - estimated)
        # A plane lies between a few scores, of which one is seldom off by more than twice what they are off on average.
        error = 2.0 * max(float(np.sqrt(np.square(shifts[some]).mean())) for some in near)
        # Divided, an infinite largest error allows any, also beside scores without a spread.
        if not error / self.tuning.largest_error <= float(estimated.std()):
            return None
        return Spans(self.samples, *assembled(values), error if solved else np.inf)

    def _near_planes(self, solution: Solution, scores: FloatArray) -> list[IndexArray]:
        """Return for each plane some of the samples that score next to where it will be, evenly spread among them."""
        everyone = solution.scores.copy()
        everyone[self.samples] = scores
        width = max(self.tuning.exact, int(self.tuning.window * len(scores)))
        chosen = []
        for offset in self.face.dual.offsets(everyone):
            nearest = np.argsort(np.abs(scores - offset), kind="stable")[:width]
            chosen.append(np.sort(nearest[np.linspace(0, len(nearest) - 1, self.tuning.exact).astype(int)]))
        return chosen

    def _corrected(self, known: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return the values, each times what a regression on the known ones says, and the logarithm's residuals there.

        Where half the neighbours say the same as all, there is nothing to correct; no value is corrected by more than
        one that is known.
        """
        gains = np.log(self.values / self.values_of_fewer)
        regressors = gains[:, None] * np.column_stack([np.ones_like(gains), np.log(self.values), gains])
        corrected, residuals = self.values.copy(), np.zeros(len(self.values))
        free = np.arange(len(self.values)) < self.n_free
        for kind in (free, ~free):
            some = known[kind[known]]
            if len(some):
                missing = np.log(self._exact(some) / self.values[some])
                coefficients = np.linalg.lstsq(regressors[some], missing, rcond=None)[0]
                most = float(np.abs(missing).max())
                predicted = np.clip(regressors[kind] @ coefficients, -most, most)
                corrected[kind] *= np.exp(predicted)
                residuals[some] = missing - np.log(corrected[some] / self.values[some])
        return corrected, residuals

    def _exact(self, some: IndexArray) -> FloatArray:
        """Return the values of some samples, by conjugate gradients, each step of which adds to right'K_FF^-1 right."""
        bound = some >= self.n_free
        right = np.zeros((self.n_free, len(some)))
        right[some[~bound], np.flatnonzero(~bound)] = 1.0
        right[:, bound] = self.K.among(some[bound], np.arange(self.n_free)).T
        x = np.zeros_like(right)
        explained = self._conjugate(right, x, lambda gained, total, _: gained <= self.tuning.variance_tol * total)
        diagonal = self.K.gram.diagonal[some]
        # Where K_FF is singular a first step may not be taken: the factor's value, finite by its ridge, stands.
        explained = np.where(bound | (explained > 0), explained, self.values[some])
        return np.where(bound, np.maximum(diagonal - explained, np.finfo(np.float32).eps * diagonal), explained)

    def _start(self, right: FloatArray, beta: FloatArray) -> FloatArray:
        """Return a start for K_FF^-1 right: beta, where the scores are nearly equal, or what the factor gives."""
        start = self.factor.solve(right)
        if right.shape[1] == 1:
            image = self._times(beta[:, None])
            scaled = beta[:, None] * (float(image[:, 0] @ right[:, 0]) / max(float(image[:, 0] @ image[:, 0]), LEAST))
            if np.abs(self._times(scaled) - right).sum() < np.abs(self._times(start) - right).sum():
                return scaled
        return start

    def _solve(self, right: FloatArray, x: FloatArray) -> bool:
        """Go on from x to K_FF^-1 right, (f, c), in place; return whether conjugate gradients converged."""
        energies = np.einsum("ij,ij->j", right, self.factor.solve(right))
        enough = self.tuning.border_tol**2 * float(energies.min())
        self._conjugate(right, x, lambda _, __, square: square <= enough)
        residual = right - self._times(x)
        return bool((np.einsum("ij,ij->j", residual, self.factor.solve(residual)) <= 4 * enough).all())

    def _conjugate(
        self, right: FloatArray, x: FloatArray, finished: Callable[[FloatArray, FloatArray, FloatArray], BoolArray]
    ) -> FloatArray:
        """Go on from x towards K_FF^-1 right, in place, by conjugate gradients; return what they add to right'x.

        A column ends where finished says so, of what its step has gained, of all it has gained and of the square of its
        residual; and, without another step, where K_FF has no curvature along it, as a singular one.
        """
        total = np.zeros(right.shape[1])
        columns, eps = np.arange(right.shape[1]), np.finfo(self.K.dtype).eps
        residual = right - self._times(x) if x.any() else right.copy()
        direction = self.factor.solve(residual)
        square = np.einsum("ij,ij->j", residual, direction)
        for _ in range(self.tuning.iterations):
            image = self._times(direction)
            curvature = np.einsum("ij,ij->j", direction, image)
            # By Kantorovich's inequality no K of a condition below 1 / eps^2 has less.
            rounding = eps * np.linalg.norm(direction, axis=0) * np.linalg.norm(image, axis=0)
            curved = curvature > rounding
            length = np.divide(square, curvature, out=np.zeros_like(square), where=curved)
            x[:, columns] += length * direction
            residual -= length * image
            gained = length * square
            total[columns] += gained
            step = self.factor.solve(residual)
            square, previous = np.einsum("ij,ij->j", residual, step), square
            direction = step + square / np.maximum(previous, LEAST) * direction
            going = curved & ~finished(gained, total[columns], square)
            if not going.all():
                columns, square = columns[going], square[going]
                residual, direction = residual[:, going], np.ascontiguousarray(direction[:, going])
            if len(columns) == 0:
                break
        return total

    def _times(self, x: FloatArray) -> FloatArray:
        """Return K_FF x."""
        return self.K.times(x, slice(0, self.n_free))
