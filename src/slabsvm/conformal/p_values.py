"""Conformal p-values from scores, on arrays.

Let c_1, ..., c_n be the scores of positives that a detector has not learned (larger is more normal). A new sample of
score s gets

    p = (1 + #{i: c_i <= s}) / (n + 1).

If the held-out positives and the new one are exchangeable, P(p <= alpha) <= alpha for every alpha, whatever the data
and the model (Vovk, Gammerman, Shafer 2005). Many novel samples may share the lowest p; a *graded* p-value tells them
apart: it lies between p - 1/(n + 1) and p, by where s lies between its neighbours among the c_i.

A held-out positive of weight w counts as w of them. The weight of those passed is rounded up to a whole number, and n
down, so that the guarantee for weights that count repetitions holds for all weights.

Let K groups (patients, machines, videos) be held out, and each row of one of N count as 1 / N. With
p = (1 + sum of w_i over c_i <= s) / (K + 1), P(p <= alpha) <= alpha holds for a row of a new group, if groups are
exchangeable, and the rows of each are (Lee, Barber, Willett, arXiv 2306.06342): p is no less than the share of weight,
its whole group's included, that scores no more than the new row, which is a random row of a random group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.fitted.model import ROUNDING_UNITS
from slabsvm.runtime.arrays import FloatArray

# alpha (n + 1) counts as a whole number if it is within this share of one.
WHOLE = 1e-9
# The largest number of calibration samples that can be told apart, and that a message asks for.
MOST_SAMPLES = 1e15
# The largest share of a step: it stays below the next step.
LARGEST_SHARE = 1.0 - 1e-9


@dataclass(frozen=True)
class Ranking:
    """The scores of held-out positives in increasing order, and the weight of each."""

    # (n,) each, in increasing order of values
    values: FloatArray
    weights: FloatArray

    @property
    def count(self) -> int:
        """The number of held-out positives: the sum of weights, rounded down."""
        return whole_down(float(self.weights.sum()))

    def p_values(self, scores: FloatArray) -> FloatArray:
        """Return the p-values of new samples, in an array of the scores' shape."""
        _, place = self._places(scores)
        return np.minimum(1.0, (1.0 + self._passed(place)) / (self.count + 1))

    def graded(self, scores: FloatArray, share: FloatArray | None = None) -> FloatArray:
        """Return the graded p-values of new samples, in the scores' shape; share in [0, 1) is the part of a step that
        each has.
        """
        new, place = self._places(scores)
        return (self._passed(place) + (self._share(new, place) if share is None else share)) / (self.count + 1)

    def _places(self, scores: FloatArray) -> tuple[FloatArray, npt.NDArray[np.intp]]:
        """Return scores, and after how many others they come: they have reached those they equal but for rounding."""
        if np.isnan(scores).any():
            raise ValueError("A score is NaN: the detector cannot score that row. Correct the row, or leave it out.")
        # Rounding is of the number's or the median's size: by the maximum, one far sample would make the others equal.
        size = np.maximum(np.where(np.isfinite(scores), np.abs(scores), 0.0), usual_size(self.values))
        new = scores + ROUNDING_UNITS * float(np.finfo(np.float64).eps) * size
        return new, np.searchsorted(self.values, new, side="right")

    def _passed(self, place: npt.NDArray[np.intp]) -> FloatArray:
        """Return the weight of the first `place` held-out positives, rounded up."""
        return whole_up(np.concatenate([[0.0], np.cumsum(self.weights)])[place])

    def _share(self, new: FloatArray, place: npt.NDArray[np.intp]) -> FloatArray:
        """Return the share of the way to the next score that new ones have come; beyond the last, to infinity."""
        values, unit = self.values, unit_of(self.values)
        below, above = values[np.maximum(place - 1, 0)], values[np.minimum(place, len(values) - 1)]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            beyond = 1.0 - 1.0 / (1.0 + (new - below) / unit)
            share = np.where(place == len(values), beyond, (new - below) / (above - below))
            share = np.where(place == 0, 1.0 / (1.0 + (above - new) / unit), share)
        return np.asarray(np.clip(np.nan_to_num(share, nan=0.0), 0.0, LARGEST_SHARE))


def ranked(scores: Any, weights: FloatArray | None = None) -> Ranking:
    """Return held-out positives of these scores, (n,), in order; refuse none and NaN. Without weights each is one."""
    values = np.asarray(scores, dtype=np.float64).reshape(-1)
    if len(values) == 0:
        raise ValueError("There are no calibration scores; give those of at least one held-out positive.")
    if np.isnan(values).any():
        row = int(np.isnan(values).argmax())
        raise ValueError(f"Calibration row {row}, from 0, has the score NaN. Check the detector's parameters.")
    order = np.argsort(values, kind="stable")
    return Ranking(values[order], (np.ones(len(values)) if weights is None else weights)[order])


def largest_rejected(alpha: float, count: int) -> float:
    """Return the largest p-value that is rejected at a rate alpha with `count` calibration scores, 0 where none is."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be a rate between 0 and 1, got {alpha!r}.")
    return float(np.floor(alpha * (count + 1) + WHOLE) * (1.0 / (count + 1)))


def whole_down(weight: float) -> int:
    """Return a sum of weights, rounded down to a whole number of rows."""
    return int(np.floor(weight * (1 + WHOLE)))


def whole_up(weight: float | FloatArray) -> FloatArray:
    """Return sums of weights, rounded up to whole numbers of rows."""
    return np.ceil(weight * (1 - WHOLE))


def usual_size(values: FloatArray) -> float:
    """Return the size of numbers of which some may be infinite: the median, 0 where there are none."""
    finite = values[np.isfinite(values)]
    return float(np.median(np.abs(finite))) if len(finite) else 0.0


def unit_of(values: FloatArray) -> float:
    """Return the standard deviation of some numbers, a unit for those beyond; without a spread all others are far."""
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        unit = float(np.std(finite)) if len(finite) > 1 else 0.0
    return unit if 0 < unit < np.inf else float(np.finfo(np.float64).tiny)
