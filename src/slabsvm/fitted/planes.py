"""The planes of the slab, its two-sided score along w, and planes for rows that repeat.

Positives crowd below the upper plane and have a long tail towards the lower one. Distance from the slab's centre
would rank half of the typical ones below outliers that are just inside. So each side is measured on its own scale: the
score rises from 0 at the lower plane to 1 at the peak, which is where a positive is as far up the one tail as it
is up the other, in probability, and falls to 0 at the upper plane.

Beyond the planes the score falls on, as far as a row is abnormal. Under a local kernel (RBF) positions level off
far from all samples, where the logarithm of the kernel mass goes on falling; and no position beyond the upper
plane is far from the samples, so that the score falls there no lower than that of a positive that is as rare.

Left-out scores put planes for rows that were never seen. A new row that repeats a sample scores as this does, which a
slab may have raised beyond the plane that faces away from the origin; and where samples are few, w is longer without
any one of them, so that scores are less than left-out ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slabsvm.fitted.explanation import Explanation, TypicalParts, of_distances, of_parts
from slabsvm.kernels.expansion import SoftNeighbours
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.svm.program import Status, weighted_quantile

# Below this share of the lower offset a row's distance is read off its kernel mass, not off its position.
OUT_OF_REACH = 1e-3
# The peak is no nearer to a plane than this share of the slab's width: where many samples tie on a training
# plane, their scores would be what rounding makes of them.
LEAST_SIDE = 0.01
# The score of rows whose distances overflow: a number, since measures of a ranking take no infinity.
LOWEST = -1e300

# Returns the logarithm of the kernel mass of some rows, (n,), given which.
LogMass = Callable[[BoolArray], FloatArray]


@dataclass(frozen=True)
class TwoSided:
    """The score of positions along w: 1 at the most normal, 0 on both planes, negative beyond them."""

    # +1, or -1 where the upper plane is the one that parts the samples from the origin (epsilon > 1). In what follows,
    # positions are side * s.
    side: float
    # The planes: the one that rows unlike all samples are beyond, and the other one.
    inner: float
    outer: float
    peak: float  # the most normal position
    local: bool  # whether positions level off at 0 far from all samples
    depth: float = 1e-3  # how far the score falls beyond the outer plane, if positions level off; no less
    # The least distance from a plane to the peak that scores are measured in: of a slab without width they would be
    # what rounding makes of positions.
    least_unit: float = float(np.finfo(np.float64).tiny)

    @property
    def unit(self) -> float:
        """The distance from the inner plane to the peak, in the unit of s."""
        return max(self.peak - self.inner, self.least_unit)

    def __call__(self, along: FloatArray, log_mass: LogMass | None = None) -> FloatArray:
        """Return the score of each position, (n,).

        Without log_mass, positions out of reach are told apart by themselves alone.
        """
        position = self.side * along
        with np.errstate(over="ignore"):
            rising = (position - self.inner) / self.unit
            falling = (self.outer - position) / max(self.outer - self.peak, self.least_unit)
            scores: FloatArray = np.minimum(rising, falling)
            beyond = position > self.outer
            excess = position[beyond] - self.outer
            scores[beyond] = -excess / self.unit
            if self.local:
                scores[beyond] = -self.depth * excess / (excess + (self.outer - self.inner))
                below = position < self.inner
                scores[below] = self._below_inner(position, below, log_mass)
        return np.maximum(scores, LOWEST)

    def _below_inner(self, position: FloatArray, below: BoolArray, log_mass: LogMass | None) -> FloatArray:
        """Return the scores of positions below the inner plane, which is above 0: they fall with their logarithm.

        The slope is that of the score above the plane.
        """
        least = OUT_OF_REACH * self.inner
        # Rounding may make a ratio of what is below the plane 1, but no difference 0.
        logs = np.log1p((np.maximum(position[below], least) - self.inner) / self.inner)
        far = position < least
        if far.any():
            further = (position[far] - least) / self.inner
            if log_mass is not None:
                # Mass is as much as the position is, or more where signs cancel.
                further += np.minimum(log_mass(far) - np.log(least), 0.0)
            logs[far[below]] += further
        return np.asarray(np.maximum(logs * (self.inner / self.unit), LOWEST))


@dataclass(frozen=True)
class SlabPlanes:
    """The planes of a fitted slab, and what it scores positions along w."""

    # The planes' offsets, moved outwards by rounding; upper is infinite at epsilon = 0.
    lower: float
    upper: float
    two_sided: TwoSided | None  # the score; None where it is the position, or the distance from the slab's centre

    @property
    def offset(self) -> float:
        """The score from which on rows are accepted."""
        if np.isinf(self.upper):
            return self.lower
        return -0.5 * (self.upper - self.lower) if self.two_sided is None else 0.0

    @property
    def attributes(self) -> dict[str, Any]:
        """The public attributes of a detector with these planes, by their names."""
        return {"rho_lower_": self.lower, "rho_upper_": self.upper, "offset_": self.offset, "planes_": self}

    @property
    def peak(self) -> tuple[float, float]:
        """The position whose decision is the highest, of a slab with two planes, and that decision."""
        if self.two_sided is None:
            return 0.5 * (self.lower + self.upper), 0.5 * (self.upper - self.lower)
        position = self.two_sided.side * self.two_sided.peak
        return position, float(self.two_sided(np.array([position]))[0])

    @property
    def scores_by_mass(self) -> bool:
        """Whether the score beyond the planes falls with the kernel mass."""
        return self.two_sided is not None and self.two_sided.local

    def score(self, along: FloatArray, log_mass: LogMass | None = None) -> FloatArray:
        """Return the score of positions along w, (n,); at epsilon = 0 the position itself."""
        if np.isinf(self.upper):
            return along
        if self.two_sided is not None:
            return self.two_sided(along, log_mass)
        return -np.abs(along - 0.5 * (self.lower + self.upper))

    def explained_along(self, along: FloatArray, parts: FloatArray, usual: TypicalParts) -> Explanation:
        """Return the explanation of rows at these positions along w, (n,), to which features add these parts, (n, d).

        Towards the peak, where a decision turns, deviations fade: which side a row is on is no reason there.
        """
        decisions = self.score(along) - self.offset
        if np.isinf(self.upper):
            return of_parts(parts, usual, decisions, reference=float(usual.means.sum()) - self.offset)
        peak, reference = self.peak
        beyond = along - peak
        plane = np.where(beyond > 0, self.upper, self.lower) - peak
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            slope = np.divide(decisions - reference, beyond, out=np.zeros_like(along), where=beyond != 0)
            slope *= np.minimum(1.0, beyond / (0.5 * plane))  # nearer than half of the way to the plane
        return of_parts(parts, usual, decisions, reference=reference, slope=slope)

    def explained_around(self, neighbours: SoftNeighbours, X: Any, epsilon: float) -> Explanation:
        """Return the explanation of validated rows, of a slab with two planes, by what is around them."""
        near = neighbours.distances(X)
        decisions = self.score(near.sums, lambda some: near.log_mass[some]) - self.offset
        peak, reference = self.peak
        too_near = near.sums > peak if epsilon < 1 else near.sums < peak
        return of_distances(near.distances, neighbours.typical, decisions, reference=reference, too_near=too_near)

    def statement(self, nu_lower: float, nu_upper: float, epsilon: float) -> tuple[str, str]:
        """Return, for a summary, the parameters of the slab and where its planes lie."""
        if np.isinf(self.upper):
            return f"nu {nu_lower:g}, epsilon 0 (one-class SVM)", f"plane            {self.lower:.6g} <= s"
        nus = f"nu {nu_lower:g} below and {nu_upper:g} above, epsilon {epsilon:.4g}"
        return nus, f"planes           {self.lower:.6g} <= s <= {self.upper:.6g}"

    def without_width(self, status: str, rounding: float, *, remedy: str, spread: float) -> str:
        """Return what is wrong with w, or with planes moved by rounding that have nothing between them, or nothing.

        status is the solver's, and remedy what to use. spread is by how much scores differ, where that is known: a slab
        that is narrow beside its offsets may be wide beside it.
        """
        if status == "degenerate":
            return f"The fitted w is zero: {Status.DEGENERATE.value}."
        width = self.upper - self.lower
        largest = max(abs(self.lower), abs(self.upper)) if np.isfinite(width) else 0.0
        if width <= 1e-6 * min(largest, spread) + 4 * rounding:
            return (
                f"The slab has no width: its planes are at {self.lower:.6g} and {self.upper:.6g}. "
                "Either all samples are (nearly) the same point of feature space, or the kernel matrix is so close to "
                "the identity that the scores of different samples do not differ by more than rounding. Use "
                f"{remedy}, and check the features for constants."
            )
        return ""


def planes_at(
    offsets: FloatArray,
    rounding: float,
    parameters: Any,
    *,
    scores: FloatArray,
    weights: FloatArray,
    local: bool,
) -> SlabPlanes:
    """Return planes at these offsets, (P,), moved outwards by rounding: one at epsilon = 0.

    parameters has nu_lower, nu_upper, epsilon and ranking; scores and weights, (m,), are of the samples whose quantiles
    the offsets are; local is the kernel's.
    """
    lower = float(offsets[0]) - rounding
    if len(offsets) == 1:
        return SlabPlanes(lower, np.inf, None)
    upper = float(offsets[1]) + rounding
    if parameters.ranking == "centre":
        return SlabPlanes(lower, upper, None)
    side = 1.0 if parameters.epsilon < 1 else -1.0
    nu_lower, nu_upper = float(parameters.nu_lower), float(parameters.nu_upper)
    inner, outer, near, far = (lower, upper, nu_lower, nu_upper) if side > 0 else (-upper, -lower, nu_upper, nu_lower)

    def quantile(share: float) -> float:
        return weighted_quantile(side * scores, weights, share)

    # A share p of positives is below the peak and 1 - p above it, with p / near = (1 - p) / far.
    least = LEAST_SIDE * (outer - inner)
    peak = min(max(quantile(near / (near + far)), inner + least), outer - least)
    # 1e4 times the planes' margin for rounding.
    least_unit = max(1e4 * rounding, TwoSided.least_unit)
    score = TwoSided(side, inner, outer, peak, local and inner > 0, least_unit=least_unit)
    # As many are beyond both: a share far of the share near, and near of far.
    rare = score(side * np.array([quantile(near * far / (near + far))]))
    return SlabPlanes(lower, upper, replace(score, depth=max(score.depth, -float(rare[0]))))


def refuse_impossible(nu_lower: float, nu_upper: float, epsilon: float) -> None:
    """Raise ValueError for parameters that no slab has."""
    if epsilon == 0:
        return
    lost = float(np.finfo(np.float64).eps)  # beside 1
    if not lost <= float(epsilon) <= 1 / lost:
        raise ValueError(
            f"epsilon must be 0, or between {lost:.2g} and {1 / lost:.2g}, got {epsilon:.3g}: "
            "it is the upper plane's weight beside the lower one's, and the smaller of the two would be lost "
            "in rounding. The paper uses 2/3; 0 leaves the upper plane out."
        )
    if nu_lower + nu_upper >= 1:
        raise ValueError(
            f"nu_lower + nu_upper must be less than 1, got {nu_lower:g} + {nu_upper:g}: the lower "
            "plane would be put above the upper one, and nothing would lie between them. Typical values are "
            "nu_lower=0.1 and nu_upper=0.01."
        )
    if epsilon == 1:
        raise ValueError(
            "epsilon must not be 1: both planes would pull equally, and w = 0 would be the solution. The "
            "paper uses 2/3; values above 1 exchange the roles of the planes."
        )
