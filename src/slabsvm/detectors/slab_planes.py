"""What a slab is once w and its planes are known, however they were found."""

from __future__ import annotations

from dataclasses import field
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from slabsvm.detectors.base import parameters
from slabsvm.detectors.constraints import FiniteReal
from slabsvm.detectors.explanation import Explanation, Usual, of_distances, of_parts
from slabsvm.detectors.two_sided import LogMass, TwoSided
from slabsvm.dual.solution import Status
from slabsvm.kernels.surroundings import Surroundings
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.sklearn_private import Interval, StrOptions

# A weight of this, beside 1.
ROUNDED_AWAY = float(np.finfo(np.float64).eps)
# Planes nearer to each other than this, relative to their offsets, have no slab between them.
NO_WIDTH = 1e-6
# Reasons fade nearer to the peak than this share of the way to the plane.
FADING = 0.5


@parameters
class Slab:
    """A model that accepts what projects between two planes.

    What it is mixed into says how rows are projected, and sets what `_planes_at` finds.
    """

    nu_lower: float = 0.1
    nu_upper: float = 0.01
    epsilon: float = 2 / 3
    ranking: str = "two-sided"

    status_: str = field(init=False)
    offset_: float = field(init=False)
    rho_lower_: float = field(init=False)
    rho_upper_: float = field(init=False)
    # None where the score is the position, or the distance from the slab's centre.
    _two_sided: TwoSided | None = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "nu_lower": [Interval(Real, 0.0, 1.0, closed="right")],
        "nu_upper": [Interval(Real, 0.0, 1.0, closed="neither")],
        "epsilon": [FiniteReal(0.0, closed="left")],
        "ranking": [StrOptions({"two-sided", "centre"})],
    }

    def _ranked(self, along: FloatArray, log_mass: LogMass | None = None) -> FloatArray:
        """Return the score of positions along w, (n,), by `ranking`; at epsilon = 0 the position itself."""
        if np.isinf(self.rho_upper_):
            return along
        if self._two_sided is not None:
            return self._two_sided(along, log_mass)
        return -np.abs(along - 0.5 * (self.rho_lower_ + self.rho_upper_))

    @property
    def _peak(self) -> tuple[float, float]:
        """The position whose decision is the highest, of a slab with two planes, and that decision."""
        if self._two_sided is None:
            return 0.5 * (self.rho_lower_ + self.rho_upper_), 0.5 * (self.rho_upper_ - self.rho_lower_)
        position = self._two_sided.side * self._two_sided.peak
        return position, float(self._two_sided(np.array([position]))[0])

    def _explained_along(self, along: FloatArray, parts: FloatArray, usual: Usual) -> Explanation:
        """Return the explanation of rows at these positions along w, (n,), to which features add these parts, (n, d).

        Towards the peak, where a decision turns, deviations fade: which side a row is on is no reason there.
        """
        decisions = self._ranked(along) - self.offset_
        if np.isinf(self.rho_upper_):
            return of_parts(parts, usual, decisions, reference=float(usual.means.sum()) - self.offset_)
        peak, reference = self._peak
        beyond = along - peak
        plane = np.where(beyond > 0, self.rho_upper_, self.rho_lower_) - peak
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            slope = np.divide(decisions - reference, beyond, out=np.zeros_like(along), where=beyond != 0)
            slope *= np.minimum(1.0, beyond / (FADING * plane))
        return of_parts(parts, usual, decisions, reference=reference, slope=slope)

    def _explained_around(self, surroundings: Surroundings, X: Any) -> Explanation:
        """Return the explanation of validated rows, of a slab with two planes, by what is around them."""
        around = surroundings.around(X)
        decisions = self._ranked(around.sums, lambda some: around.log_mass[some]) - self.offset_
        peak, reference = self._peak
        too_near = around.sums > peak if self.epsilon < 1 else around.sums < peak
        return of_distances(around.distances, surroundings.typical, decisions, reference=reference, too_near=too_near)

    def _refuse_impossible_parameters(self) -> None:
        if self.epsilon == 0:
            return
        if not ROUNDED_AWAY <= float(self.epsilon) <= 1 / ROUNDED_AWAY:
            raise ValueError(
                f"epsilon must be 0, or between {ROUNDED_AWAY:.2g} and {1 / ROUNDED_AWAY:.2g}, got {self.epsilon:.3g}: "
                "it is the upper plane's weight beside the lower one's, and the smaller of the two would be lost "
                "in rounding. The paper uses 2/3; 0 leaves the upper plane out."
            )
        if self.nu_lower + self.nu_upper >= 1:
            raise ValueError(
                f"nu_lower + nu_upper must be less than 1, got {self.nu_lower:g} + {self.nu_upper:g}: the lower "
                "plane would be put above the upper one, and nothing would lie between them. Typical values are "
                "nu_lower=0.1 and nu_upper=0.01."
            )
        if self.epsilon == 1:
            raise ValueError(
                "epsilon must not be 1: both planes would pull equally, and w = 0 would be the solution. The "
                "paper uses 2/3; values above 1 exchange the roles of the planes."
            )

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu_lower - (0.0 if self.epsilon == 0 else self.nu_upper)

    def _planes_at(
        self, offsets: FloatArray, rounding: float, *, scores: FloatArray, weights: FloatArray, local: bool
    ) -> dict[str, Any]:
        """Return the attributes that say where planes at these offsets are, moved outwards by rounding.

        scores and weights, (m,) arrays, are of the samples whose quantiles the offsets are, or of a part of them; local
        is the kernel's.
        """
        lower = float(offsets[0]) - rounding
        if len(offsets) == 1:
            return {"rho_lower_": lower, "rho_upper_": np.inf, "offset_": lower, "_two_sided": None}
        upper = float(offsets[1]) + rounding
        planes = {"rho_lower_": lower, "rho_upper_": upper}
        if self.ranking == "centre":
            return {**planes, "offset_": -0.5 * (upper - lower), "_two_sided": None}
        score = TwoSided.of_positives(
            scores,
            weights,
            side=1.0 if self.epsilon < 1 else -1.0,
            planes=(lower, upper),
            nus=(float(self.nu_lower), float(self.nu_upper)),
            local=local,
            rounding=rounding,
        )
        return {**planes, "offset_": 0.0, "_two_sided": score}

    def _statement(self) -> tuple[str, str]:
        if np.isinf(self.rho_upper_):
            nus = f"nu {self.nu_lower:g}, epsilon 0 (one-class SVM)"
            return nus, f"plane            {self.rho_lower_:.6g} <= s"
        nus = f"nu {self.nu_lower:g} below and {self.nu_upper:g} above, epsilon {self.epsilon:.4g}"
        return nus, f"planes           {self.rho_lower_:.6g} <= s <= {self.rho_upper_:.6g}"

    def _without_width(self, rounding: float, *, cause: str, remedy: str, spread: float = np.inf) -> str:
        """Return what is wrong with w, or with planes moved by rounding that have nothing between them, or nothing.

        cause says why the scores of different samples may be the same, and remedy what to use then. spread is by how
        much they differ, where that is known: a slab that is narrow beside its offsets may be wide beside it.
        """
        if self.status_ == "degenerate":
            return f"The fitted w is zero: {Status.DEGENERATE.value}."
        width = self.rho_upper_ - self.rho_lower_
        largest = max(abs(self.rho_lower_), abs(self.rho_upper_)) if np.isfinite(width) else 0.0
        if width <= NO_WIDTH * min(largest, spread) + 4 * rounding:
            return (
                f"The slab has no width: its planes are at {self.rho_lower_:.6g} and {self.rho_upper_:.6g}. "
                f"Either all samples are (nearly) the same point of feature space, or {cause} that the scores "
                f"of different samples do not differ by more than rounding. Use {remedy}, and check the "
                "features for constants."
            )
        return ""
