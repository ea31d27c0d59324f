"""Newton steps on faces too large to factor, where the slab has collapsed or nearly so.

There most samples are support vectors, strictly inside their boxes, and a descent takes many steps for each of them.
K is close to the identity: its neighbours' factor (`slabsvm.gram.neighbours`) solves with K_FF nearly, and a few
products with K do the rest. On a face, each product extends a subspace, whose optimum under the planes' sums is the
next point; nothing is forgotten within a face, so that no bound that was met costs what was learned. The subspace
starts from groups of near samples: what they have in common is what a few neighbours do not see. Where the optimum of
the face leaves the boxes, it is projected into them, and those that violate optimality join the next face. Each point
that is kept is feasible, and its scores are products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from slabsvm.dual.active_set import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point
from slabsvm.gram.blocks import Blocks
from slabsvm.gram.cholesky import cholesky
from slabsvm.gram.neighbours import NeighbourFactor, Neighbours
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.solvers.equal_scores import multipliers_of, surplus


@dataclass(frozen=True)
class Tuning:
    """How long to go on.

    Attributes
    ----------
    products : int
        With K, at most; each costs what reading K costs.
    groups : int
        Of near samples, with which a subspace starts.
    on_face : int
        Products on one face, at most.
    reduction : float
        A face whose optimum lies outside the boxes is left when the squared residual has fallen to this share.
    surplus : float
        Where equal scores need more of one plane, relative to what it has, the attempt is not begun.
    crowd : float
        Where a larger share of samples leaves the boxes, the slab has not collapsed: the attempt ends.
    faces, progress : int, float
        The attempt ends when the first face, or so many in turn, leave a gap above this share of the least before.
    """

    products: int = 100
    groups: int = 16
    on_face: int = 12
    reduction: float = 1e-2
    surplus: float = 1.3
    crowd: float = 0.05
    faces: int = 3
    progress: float = 0.7


TUNING = Tuning()
# A direction's length under K is rounding alone below this many roundings of K.
SEEN = 8.0
# Added to the products of directions, which have length 1: they need not be independent.
RIDGE = 1e-9
# Multipliers whose beta is off by no more than this share of the largest are those of that beta.
EXACT = 1e-12


def equal_score_beta(dual: Dual, factor: NeighbourFactor) -> FloatArray:
    """Return a beta, shape (m,), near that of equal scores, c K^-1 1.

    If it fits the boxes, all scores are equal and no pair of multipliers can improve: it is optimal where c' beta is 0.

    Parameters
    ----------
    dual : Dual
    factor : NeighbourFactor
        Of all samples.
    """
    beta = factor.solve(np.ones(dual.n_samples))
    total = float(dual.signs @ dual.totals)
    return beta * (total / beta.sum()) if beta.sum() != 0 else beta


def near_equal_scores(
    dual: Dual,
    K: Blocks,
    enough: Callable[[Point], bool],
    tuning: Tuning = TUNING,
) -> tuple[Point, bool]:
    """Return the point of the least gap that Newton steps from equal scores lead to, and whether any were worth taking.

    None are where the planes are apart. The point's scores are from one product.

    Parameters
    ----------
    dual : Dual
    K : Blocks
    enough : function of a Point
        Whether a feasible point will do.
    tuning : Tuning
    """
    steps = _Steps(dual, K, tuning)
    beta = equal_score_beta(dual, steps.factor)
    start = multipliers_of(dual, beta)
    point = Point(dual, start, dual.linear + K.times(dual.beta(start)))
    worth = surplus(dual, beta) <= tuning.surplus
    return steps.run(point, enough) if worth else point, worth


class _Steps:
    """From face to face: the neighbours' factor, the subspace and the products taken so far."""

    def __init__(self, dual: Dual, K: Blocks, tuning: Tuning) -> None:
        self.dual, self.K, self.tuning = dual, K, tuning
        self.neighbours = Neighbours(K)
        self.face = np.arange(dual.n_samples)
        self.factor = self.neighbours.factor(self.face)
        self.products = 3
        self.hopeless = False

    def run(self, point: Point, enough: Callable[[Point], bool]) -> Point:
        dual, tuning = self.dual, self.tuning
        self.subspace = _Subspace(self.K, tuning.groups)
        best, gaps = point, [point.gap]
        while not (enough(point) or self.hopeless or self.products >= tuning.products):
            face = Face(dual, point.multipliers, self._free(point))
            if len(face.samples) < 2:
                break
            if not np.array_equal(face.samples, self.face):
                self.factor = self.neighbours.factor(face.samples)
                self.subspace.leave(np.setdiff1d(self.face, face.samples))
                self.face = face.samples
            point = self._across(face, point, enough)
            gaps.append(point.gap)
            best = min(best, point, key=lambda each: each.gap)
            recent = min(tuning.faces, len(gaps) - 1) if len(gaps) > 2 else 1
            if min(gaps[-recent:]) > tuning.progress * min(gaps[:-recent]):
                break
        # Sums of many images would be off by the rounding of each.
        return Point(dual, best.multipliers, dual.linear + self._times(best.beta))

    def _free(self, point: Point) -> BoolArray:
        """Return which multipliers are strictly inside their boxes, or violate optimality."""
        values, caps, distances = point.multipliers, self.dual.caps, point.distances
        inside = (values > 0) & (values < caps)
        return np.asarray(inside | ((values <= 0) & (distances < 0)) | ((values >= caps) & (distances > 0)))

    def _times(self, beta: FloatArray) -> FloatArray:
        self.products += 1
        return self.K.times(beta)

    def _across(self, face: Face, point: Point, enough: Callable[[Point], bool]) -> Point:
        """Return a feasible point on the way to the face's optimum."""
        dual, tuning = self.dual, self.tuning
        border = face.memberships[face.samples]
        change, scores = np.zeros(dual.n_samples), point.scores
        trial, exact, first, outside = point.multipliers, True, np.inf, 0
        for step in range(tuning.on_face):
            slopes = scores[face.samples]
            residual = border @ np.linalg.lstsq(border, slopes, rcond=None)[0] - slopes
            direction = np.zeros(dual.n_samples)
            direction[face.samples] = self.factor.solve(residual)
            square = float(residual @ direction[face.samples])
            first = square if step == 0 else first
            done = not exact and square < tuning.reduction * first
            if done or not square > 0 or self.products >= tuning.products:
                break
            self.subspace.extend(direction, self._times(direction))
            try:
                moved, risen = self.subspace.best(scores, face)
            except np.linalg.LinAlgError:
                # Rounding has made the directions' products those of no vectors.
                self.hopeless = True
                break
            change, scores = change + moved, scores + risen
            trial = multipliers_of(dual, point.beta + change)
            outside = self._outside(point.beta + change)
            exact = np.abs(dual.beta(trial) - point.beta - change).max() <= EXACT * np.abs(trial).max()
            if exact and enough(Point(dual, trial, scores)):
                break
        if exact:
            return Point(dual, trial, scores)
        self.hopeless = self.hopeless or outside > tuning.crowd * dual.n_samples
        move = dual.beta(trial) - point.beta
        image = self._times(move)
        slope, curvature = float(point.scores @ move), float(move @ image)
        if slope >= 0:
            self.hopeless = True
            return point
        reach = min(1.0, -slope / curvature) if curvature > 0 else 1.0
        return Point(dual, multipliers_of(dual, point.beta + reach * move), point.scores + reach * image)

    def _outside(self, beta: FloatArray) -> int:
        """Return how many samples' beta no multipliers can have."""
        largest = (
            np.maximum(self.dual.signs, 0.0) @ self.dual.caps,
            np.maximum(-self.dual.signs, 0.0) @ self.dual.caps,
        )
        return int(np.count_nonzero((beta > largest[0]) | (beta < -largest[1])))


class _Subspace:
    """Directions among all samples, (n, m), with their images under K, and the optimum among them on a face.

    The first directions are the indicators of groups: of the samples nearest to each of the first few.
    """

    def __init__(self, K: Blocks, n_groups: int) -> None:
        self.K = K
        n_samples, diagonal = K.gram.n_samples, K.gram.diagonal
        self.mean_diagonal = float(diagonal.mean())
        likeness = K.among(np.arange(min(n_groups, n_samples)), np.arange(n_samples))
        group = (likeness / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))[: len(likeness), None]).argmax(axis=0)
        self.directions = (np.unique(group)[:, None] == group).astype(np.float64)
        self.images = np.ascontiguousarray(K.times(np.ascontiguousarray(self.directions.T)).T)
        self._scale(slice(None))
        self.products = self.directions @ self.images.T

    def _scale(self, which: slice) -> None:
        """Give directions the length 1 under K, and take back those that rounding alone moves."""
        directions, images = self.directions[which], self.images[which]
        squares = np.einsum("ij,ij->i", directions, images)
        smallest = SEEN * float(np.finfo(self.K.dtype).eps) * self.mean_diagonal
        seen = squares > smallest * np.einsum("ij,ij->i", directions, directions)
        scales = np.divide(1.0, np.sqrt(squares, where=seen, out=np.ones_like(squares)), where=seen, out=0.0 * squares)
        directions *= scales[:, None]
        images *= scales[:, None]

    def extend(self, direction: FloatArray, image: FloatArray) -> None:
        """Add a direction, shape (m,), with its image under K."""
        self.directions = np.vstack([self.directions, direction])
        self.images = np.vstack([self.images, image])
        self._scale(slice(-1, None))
        size = len(self.directions)
        products = np.empty((size, size))
        products[:-1, :-1] = self.products
        products[-1] = products[:, -1] = self.images @ self.directions[-1]
        self.products = products

    def leave(self, samples: IndexArray) -> None:
        """Let no direction move these samples."""
        if len(samples):
            moved = np.zeros_like(self.directions)
            moved[:, samples] = self.directions[:, samples]
            self.images -= self.K.times(np.ascontiguousarray(moved.T)).T
            self.directions[:, samples] = 0.0
            self.products = self.directions @ self.images.T

    def best(self, scores: FloatArray, face: Face) -> tuple[FloatArray, FloatArray]:
        """Return the best change of beta that keeps the sums, and that of the scores, each of shape (m,)."""
        sums = self.directions[:, face.samples] @ face.memberships[face.samples]
        right = np.column_stack([-self.directions @ scores, sums])
        factor = cholesky(self.products.copy, np.ones(len(right)), ridge=RIDGE, most=1.0)
        answers = scipy.linalg.cho_solve((factor, True), right, check_finite=False)
        free, bound = answers[:, 0], answers[:, 1:]
        coefficients = free - bound @ np.linalg.lstsq(sums.T @ bound, sums.T @ free, rcond=None)[0]
        return coefficients @ self.directions, coefficients @ self.images
