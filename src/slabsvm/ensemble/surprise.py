"""How surprising a score is: its p-value among left-out scores, and minus the logarithm of that.

Scores of different detectors have no common unit. The share of training rows that score no more has one, and minus its
logarithm can be added up: 0 for the most normal row, 1 in the mean of new rows, log(n + 1) for a row below all others.
Below the lowest score the logarithm goes on as an exponential tail does, of which the mean excess is that of the
lowest tenth of the scores, so that far rows still differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.fields import INLINE, Array, Number
from slabsvm.runtime.objects import cached_property

# The share of the lowest scores that give the tail its mean excess, and of few scores their number: the lowest two of
# twenty can be one by chance, and then they say of any row below that it is beyond measure.
TAIL = 0.1
FEWEST = 5
# A tail's mean excess is at least this share of the scores' usual size. A support vector machine scores all patterns
# that it has learned alike.
SHORTEST = 0.05
# Scores nearer to each other than this share of the tail's mean excess are one: rows that repeat a learned one score
# as it does but for rounding.
TIE = 1e-4
# Tails are no shorter than this share of the scores.
ALIKE = 1e-6
# Surprises are no larger, so that sums of them are finite in float32, too.
LARGEST = 1e30


@dataclass(frozen=True)
class Shares:
    """The p-values of scores: the share of training rows that score no more, (1 + number) / (1 + all)."""

    # What training rows score without themselves, ascending
    scores: Annotated[FloatArray, Array("references")]
    # How many rows the first of them are, by weight; a row of mean weight is one
    rows: Annotated[FloatArray, Array("numbers")]

    @classmethod
    def of(cls, scores: FloatArray, weights: FloatArray | None, n: float | None = None) -> Shares:
        """Return the function for training rows of these weights, alike for None; NaN is the score of no row.

        n says how many rows they are, or how many groups; None: one for each score.
        """
        known = np.flatnonzero(~np.isnan(scores))
        order = known[np.argsort(scores[known])]
        masses = np.ones(len(order)) if weights is None else weights[order]
        rows = np.concatenate([[0.0], np.cumsum(masses)])
        rows *= (len(known) if n is None else n) / rows[-1]
        return cls(scores[order], rows)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return the shares, (n,)."""
        below = np.searchsorted(self.scores, scores, side="right")
        shares: FloatArray = (1.0 + self.rows[below]) / (1.0 + self.rows[-1])
        return shares


@dataclass(frozen=True)
class Surprise:
    """Minus the logarithm of scores' p-values, continued below the lowest score."""

    shares: Annotated[Shares, INLINE]
    # The mean excess of the tail, in the unit of the scores
    excess: Annotated[float, Number(above=0.0)]

    @classmethod
    def of(
        cls, scores: FloatArray, weights: FloatArray | None, n: float | None = None, *, unit: float = 0.0
    ) -> Surprise:
        """Return the function for the left-out scores of training rows of these weights, alike for None.

        unit is a size of the scores' own: what is far less than it and than the scores is rounding.
        """
        shares = Shares.of(scores, weights, n)
        ordered = shares.scores
        n_low = max(1, int(TAIL * len(ordered)), min(FEWEST, len(ordered) // 3))
        excess = float(np.mean(ordered[min(n_low, len(ordered) - 1)] - ordered[:n_low]))
        # Scores that are alike have no tail to read.
        least = ALIKE * max(unit, float(np.abs(ordered).max()), float(np.finfo(np.float32).tiny))
        least = max(least, SHORTEST * float(np.median(np.abs(ordered))))
        return cls(shares, max(excess, least))

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return the surprise of new rows' scores, (n,): from 0 on."""
        with np.errstate(over="ignore"):
            found = np.maximum(self.shares.scores[0] - scores, 0.0) / self.excess
        np.minimum(found, LARGEST, out=found)
        found += self._of_rank[np.searchsorted(self.shares.scores, scores + TIE * self.excess, side="right")]
        return np.asarray(found)

    @cached_property
    def _of_rank(self) -> FloatArray:
        """Minus the logarithm of the p-value of a score with so many at most as large, (m + 1,)."""
        rows = self.shares.rows
        return np.asarray(-np.log((1.0 + rows) / (1.0 + rows[-1])))

    def of_learned(self, scores: FloatArray) -> FloatArray:
        """Return the surprise of training rows' own left-out scores, (n,), as that of a new row among the others."""
        rows, ordered = self.shares.rows, self.shares.scores
        below = np.searchsorted(ordered, scores + TIE * self.excess, side="right")
        found = -np.log(np.maximum(rows[below], np.finfo(np.float64).tiny) / rows[-1])
        if len(ordered) > 1:
            with np.errstate(over="ignore"):
                found += np.minimum(np.maximum(ordered[1] - scores, 0.0) / self.excess, LARGEST)
        return np.asarray(found)
