"""How normal a row is by where it lies along w, where both ends may be strange: the slab's score.

Positives crowd below the upper plane and have a long tail towards the lower one. Distance from the slab's centre
would rank half of the typical ones below strangers that are just inside. So each side is measured on its own scale: the
score rises from 0 at the lower plane to 1 at the peak, which is where a positive is as far up the one tail as it
is up the other, in probability, and falls to 0 at the upper plane.

Beyond the planes the score falls on, as far as a row is strange. Under a local kernel (RBF) positions level off
far from all samples, where the logarithm of the kernel mass goes on falling; and no position beyond the upper
plane is far from the samples, so that the score falls there no lower than that of a positive that is as rare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slabsvm.dual.program import weighted_quantile
from slabsvm.runtime.arrays import BoolArray, FloatArray

# Below this share of the lower offset a row's distance is read off its kernel mass, not off its position.
OUT_OF_REACH = 1e-3
# In place of no distance at all between the peak and a plane.
TINY = float(np.finfo(np.float64).tiny)
# The peak is no nearer to a plane than this share of the slab's width: where many samples tie on a training
# plane, their scores would be what rounding makes of them.
LEAST_SIDE = 0.01
# Distances are measured in no less than this multiple of the planes' margin for rounding.
UNITS_OF_ROUNDING = 1e4
# The score of rows whose distances overflow: a number, since measures of a ranking take no infinity.
LOWEST = -1e300
# The score beyond the outer plane falls to minus this at least.
LEAST_DEPTH = 1e-3

# Returns the logarithm of the kernel mass of some rows, (n,), given which.
LogMass = Callable[[BoolArray], FloatArray]


@dataclass(frozen=True)
class TwoSided:
    """The score of positions along w: 1 at the most normal, 0 on both planes, negative beyond them.

    Attributes
    ----------
    side : float
        +1, or -1 where the upper plane is the one that parts the samples from the origin (epsilon > 1). In what
        follows, positions are side * s.
    inner, outer : float
        The planes: the one that rows unlike all samples are beyond, and the other one.
    peak : float
        The most normal position.
    local : bool
        Whether positions level off at 0 far from all samples.
    depth : float
        What the score falls to beyond the outer plane, if positions level off.
    least_unit : float
        The least distance from a plane to the peak that scores are measured in: of a slab without width they
        would be what rounding makes of positions.
    """

    side: float
    inner: float
    outer: float
    peak: float
    local: bool
    depth: float = LEAST_DEPTH
    least_unit: float = TINY

    @classmethod
    def of_positives(
        cls,
        scores: FloatArray,
        weights: FloatArray,
        *,
        side: float,
        planes: tuple[float, float],
        nus: tuple[float, float],
        local: bool,
        rounding: float,
    ) -> TwoSided:
        """Return the score for planes that leave shares of positives outside.

        Parameters
        ----------
        scores, weights : (m,) arrays
            Where positives lie, and how much each counts.
        side : +1 or -1
        planes, nus : (lower, upper)
            The planes' offsets, and the shares of positives that may lie beyond them.
        local : bool
        rounding : float
            By how much the planes were moved outwards.
        """
        inner, outer = planes if side > 0 else (-planes[1], -planes[0])
        near, far = nus if side > 0 else nus[::-1]
        positions = side * scores

        def quantile(share: float) -> float:
            return weighted_quantile(positions, weights, share)

        # A share p of positives is below the peak and 1 - p above it, with p / near = (1 - p) / far.
        least = LEAST_SIDE * (outer - inner)
        peak = min(max(quantile(near / (near + far)), inner + least), outer - least)
        least_unit = max(UNITS_OF_ROUNDING * rounding, TINY)
        score = cls(side, inner, outer, peak, local and inner > 0, least_unit=least_unit)
        # As many are beyond both: a share far of the share near, and near of far.
        rare = score(side * np.array([quantile(near * far / (near + far))]))
        return replace(score, depth=max(LEAST_DEPTH, -float(rare[0])))

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
            scores[beyond] = self._beyond_outer(position[beyond] - self.outer)
            if self.local:
                below = position < self.inner
                scores[below] = self._below_inner(position, below, log_mass)
        return scores

    def _beyond_outer(self, excess: FloatArray) -> FloatArray:
        if not self.local:
            return -excess / self.unit
        return -self.depth * excess / (excess + (self.outer - self.inner))

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
