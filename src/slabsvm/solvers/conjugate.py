"""Equal scores by conjugate gradients, where the slab has collapsed, or nearly so, and K is too large to factor.

There all samples score the same, but for the few that are held at bounds of their boxes: with F the others, H those,

    K_FF beta_F + K_FH beta_H + c_F = mu 1,        sum(beta) = sum_p sigma_p total_p

which is beta_F = mu x + y for two solves with K_FF. The neighbours' factor (`slabsvm.gram.neighbours`) makes them
cheap: the more neighbours, the fewer products with K, and more are taken where those yet to come would cost more. Each
product serves both solves, and gives the scores of all samples: a sample that leaves its box is held at its bound, one
that is held and scores on the wrong side of mu is let go, and the next face starts from the last one's solution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point
from slabsvm.gram.blocks import Blocks
from slabsvm.gram.neighbours import NeighbourFactor, Neighbours
from slabsvm.runtime.arrays import FloatArray
from slabsvm.solvers.equal_scores import multipliers_of, surplus


@dataclass(frozen=True)
class Tuning:
    """How long to go on.

    Attributes
    ----------
    products : int
        With a K that is held, at most. Each costs what reading K costs. The descent goes on from wherever they have
        led, and one of its steps for each sample costs some three.
    products_computed : int
        With a K that is computed for each, at most: without all of it the descent may not end.
    fewest, most : int
        Neighbours of each sample in the factor, at first and at most; they are doubled in between.
    judged : int
        Products after which the rate at which the residual falls is known.
    reduction : float
        A face is looked at again when the squared residual has fallen to this share.
    goal : float
        The share of the first squared residual at which scores will probably do.
    surplus : float
        Where equal scores need more of one plane, relative to what it has, the attempt is not begun.
    crowd : float
        Where a larger share of samples leaves the boxes, the slab has not collapsed: the attempt ends.
    faces : int
        At most.
    """

    products: int = 24
    products_computed: int = 300
    fewest: int = 16
    most: int = 128
    judged: int = 10
    reduction: float = 1e-4
    goal: float = 1e-10
    surplus: float = 1.3
    crowd: float = 0.05
    faces: int = 30


TUNING = Tuning()
# The cost of a factor of n neighbours for each of m samples, n^3, is that of a product with a K that is held, m, times
# this; of one that is computed, times that.
PRODUCT_HELD = 8.0
PRODUCT_COMPUTED = 32.0
# More neighbours are worth what they cost when this many times as much would be saved without them.
WORTH = 3.0
# Conjugate gradients grow faster as they go on, but not by more than this.
HOPE = 2.0
# What is divided by is no less.
LEAST = float(np.finfo(np.float64).tiny)
# A mean residual of scores of 1 below so many roundings of K is rounding alone.
SEEN = 8.0
# Multipliers whose beta is off by no more than this share of the largest are those of that beta.
EXACT = 1e-12


def near_equal_scores(
    dual: Dual,
    K: Blocks,
    enough: Callable[[Point], bool],
    tuning: Tuning = TUNING,
) -> Point:
    """Return the point of the least gap on the way to equal scores, which is not taken where the planes are apart.

    Its scores are from one product.

    Parameters
    ----------
    dual : Dual
    K : Blocks
    enough : function of a Point
        Whether a feasible point will do.
    tuning : Tuning
    """
    way = _Way(dual, K, tuning)
    beta = way.beta_of_factor()
    candidates = [beta, *([way.go(enough)] if surplus(dual, beta) <= tuning.surplus else [])]
    points = []
    for each in candidates:
        multipliers = multipliers_of(dual, each)
        points.append(Point(dual, multipliers, dual.linear + K.times(dual.beta(multipliers))))
    return min(points, key=lambda point: point.gap)


class _Way:
    """The two solves, with their images under K, and the samples that are held.

    Attributes
    ----------
    x : (m, 2) array
        Of the right-hand sides 1_F and -(c + K beta_H)_F; zeros in H.
    image : (m, 2) array
        K x.
    sides : (m,) array
        1 for samples that are held at the highest beta of their boxes, -1 at the lowest, 0 for others.
    let_go : (m,) bool array
        Which were held once: those that leave their boxes again stay, or faces might go round in circles.
    """

    def __init__(self, dual: Dual, K: Blocks, tuning: Tuning) -> None:
        self.dual, self.K, self.tuning = dual, K, tuning
        self.highest = np.maximum(dual.signs, 0.0) @ dual.caps
        self.lowest = -(np.maximum(-dual.signs, 0.0) @ dual.caps)
        self.total = float(dual.signs @ dual.totals)
        self.neighbours = Neighbours(K, tuning.most)
        self.n_nearest = tuning.fewest
        self.factor = self._factor()
        self.sides = np.zeros(dual.n_samples)
        self.let_go = np.zeros(dual.n_samples, dtype=bool)
        self.products_left = tuning.products_computed if K.matrix is None else tuning.products

    def _factor(self) -> NeighbourFactor:
        return self.neighbours.factor(np.arange(self.dual.n_samples), self.n_nearest)

    def beta_of_factor(self) -> FloatArray:
        """Return a beta, shape (m,), near that of equal scores, c K^-1 1, by the factor alone."""
        beta = self.factor.solve(np.ones(self.dual.n_samples))
        return beta * (self.total / beta.sum()) if beta.sum() != 0 else beta

    def go(self, enough: Callable[[Point], bool]) -> FloatArray:
        """Return beta, shape (m,), of the last face: of scores that are good enough, if any were."""
        tuning = self.tuning
        self.x = np.zeros((self.dual.n_samples, 2))
        self.at_first = np.inf
        for _ in range(tuning.faces):
            self._face()
            done = self._along(enough)
            beta = self._beta()
            sides = self._sides_at(beta)
            stays = bool((sides == self.sides).all()) and not self._unsettled()
            if done or stays or self._crowded(sides) or self.products_left <= 0:
                break
            self.let_go |= (self.sides != 0) & (sides == 0)
            self.sides = sides
        return beta

    def _unsettled(self) -> bool:
        """Return whether the residual is more than rounding."""
        return not np.abs(self.residual).mean() <= SEEN * np.finfo(self.K.dtype).eps

    def _crowded(self, sides: FloatArray) -> bool:
        return bool(np.count_nonzero(sides) > self.tuning.crowd * len(sides))

    def _face(self) -> None:
        """Begin on the face of the samples that are not held, from the solves that are there."""
        held = np.where(self.sides > 0, self.highest, np.where(self.sides < 0, self.lowest, 0.0))
        self.held, self.free = held, self.sides == 0
        self.x[~self.free] = 0.0
        images = self.K.times(np.column_stack([self.x, held]))
        self.products_left -= 1
        self.image = images[:, :2]
        self.pull = self.dual.linear + images[:, 2]
        self.residual = np.column_stack([np.ones(len(held)), -self.pull]) - self.image
        self._begin()

    def _begin(self) -> None:
        """Begin conjugate gradients, with the factor that is there."""
        self.residual[~self.free] = 0.0
        step = self._preconditioned()
        self.direction = step
        self.squares = [np.einsum("ij,ij->j", self.residual, step)]
        self.at_first = min(self.at_first, float(self.squares[0].sum()))

    def _preconditioned(self) -> FloatArray:
        step = self.factor.solve(self.residual)
        step[~self.free] = 0.0
        return step

    def _along(self, enough: Callable[[Point], bool]) -> bool:
        """Go on until the residual is small enough to look at the face again; return whether to end there.

        That is where the scores will do, where the products will not, and where K has no curvature along what is left,
        as a singular one.
        """
        tuning, first = self.tuning, self.squares[0].sum()
        while self.products_left > 0:
            if not self._step():
                return True
            square = self.squares[-1].sum()
            beta = self._beta()
            multipliers = multipliers_of(self.dual, beta)
            exact = np.abs(self.dual.beta(multipliers) - beta).max() <= EXACT * np.abs(multipliers).max()
            if exact and enough(Point(self.dual, multipliers, self._scores())):
                return True
            sides = self._sides_at(beta)
            crowded = len(self.squares) > tuning.judged and self._crowded(sides)
            if (sides != self.sides).any() and (square <= tuning.reduction * first or crowded):
                return False
            if not self._unsettled() or not square > 0:
                return False
            if self._worth_more_neighbours():
                self.n_nearest *= 2
                self.factor = self._factor()
                self._begin()
            elif self._out_of_reach():
                return True
        return False

    def _step(self) -> bool:
        """Take a step of either solve along which K has curvature, and return whether one had."""
        image = self.K.times(self.direction)
        self.products_left -= 1
        curvature = np.einsum("ij,ij->j", self.direction, image)
        # By Kantorovich's inequality no K of a condition below 1 / eps^2 has less between a direction and its image.
        rounding = np.finfo(self.K.dtype).eps * np.linalg.norm(self.direction, axis=0) * np.linalg.norm(image, axis=0)
        curved = curvature > rounding
        length = np.divide(self.squares[-1], curvature, out=np.zeros_like(curvature), where=curved)
        self.x += length * self.direction
        self.image += length * image
        self.residual -= length * image
        self.residual[~self.free] = 0.0
        step = self._preconditioned()
        self.squares.append(np.einsum("ij,ij->j", self.residual, step))
        self.direction = step + self.squares[-1] / np.maximum(self.squares[-2], LEAST) * self.direction
        return bool(curved.any())

    def _to_come(self) -> float:
        """Return how many products are still to come at the rate of the last ones; 0 while that is not known."""
        tuning = self.tuning
        if len(self.squares) <= tuning.judged:
            return 0.0
        now, before = self.squares[-1].sum(), self.squares[-1 - tuning.judged].sum()
        rate = float(np.log(before / now)) / tuning.judged
        left = float(np.log(now / (self.at_first * tuning.goal)))
        return left / rate if rate > 0 else np.inf

    def _worth_more_neighbours(self) -> bool:
        """Return whether the products that are still to come cost more than a better factor."""
        n_nearest = 2 * self.n_nearest
        cost = n_nearest**3 / (PRODUCT_COMPUTED if self.K.matrix is None else PRODUCT_HELD) / self.dual.n_samples
        return n_nearest <= self.tuning.most and self._to_come() > WORTH * cost + self.tuning.judged

    def _out_of_reach(self) -> bool:
        """Return whether there are too few products of a K that is computed: each costs as much as a long descent."""
        return self.K.matrix is None and self._to_come() > HOPE * self.products_left

    def _level(self) -> float:
        """Return mu, at which the sum of beta is what it must be."""
        sums = self.x.sum(axis=0)
        return float((self.total - self.held.sum() - sums[1]) / sums[0]) if sums[0] != 0 else 0.0

    def _beta(self) -> FloatArray:
        return np.asarray(self.held + self.x @ np.array([self._level(), 1.0]))

    def _scores(self) -> FloatArray:
        return np.asarray(self.pull + self.image @ np.array([self._level(), 1.0]))

    def _sides_at(self, beta: FloatArray) -> FloatArray:
        """Return the next face's sides: samples that leave their boxes are held, and those let go that want to be."""
        above = self._scores() - self._level()
        # Free samples should score the same: what they are off says what the scores of others are.
        wrong = (self.sides * above > np.abs(above[self.free]).max(initial=0.0)) & ~self.let_go
        kept = np.where(wrong, 0.0, self.sides)
        return np.where(self.free & (beta > self.highest), 1.0, np.where(self.free & (beta < self.lowest), -1.0, kept))
