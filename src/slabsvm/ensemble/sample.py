"""A sample of rows that are too many to learn, and the scores of all others.

Two passes read all rows: one draws the sample, and sees that all values are finite; the other scores the rows that were
not drawn. Scores are kept, 8 bytes a row, so that the quantile is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slabsvm.data.passes import Source
from slabsvm.fitted.training import Training, refuse_what_is_not_finite
from slabsvm.runtime.arrays import FloatArray, IndexArray, Rows


@dataclass(frozen=True)
class Sample:
    """Some rows of a source."""

    source: Source
    numbers: IndexArray  # (n,): which rows they are, in ascending order
    rows: Rows  # (n, d) array or CSR array of float64

    @classmethod
    def of(cls, source: Source, most: int, seed: int) -> Sample:
        """Draw some of more than most rows of positive weight; ValueError where any row is not finite."""
        n = source.n_samples if source.weights is None else int(np.count_nonzero(source.weights))
        numbers = source.drawn(n_learned(n, most), seed)
        return cls(source, numbers, source.taken(numbers, refuse_what_is_not_finite))

    @property
    def weights(self) -> FloatArray:
        """The weights of the drawn rows, (n,)."""
        weights = self.source.weights
        return np.ones(len(self.numbers)) if weights is None else weights[self.numbers]

    def scores(self, score: Callable[[Rows], FloatArray]) -> FloatArray:
        """Return the scores of the rows that were not drawn, (n_samples,); NaN for the others."""
        source = self.source
        scores = source.scores(score)
        scores[self.numbers] = np.nan
        if source.weights is not None:
            scores[source.weights == 0] = np.nan
        return scores


@dataclass(frozen=True)
class Drawn(Training):
    """What is learned, where it was drawn from a source."""

    sample: Sample

    @property
    def n_rows(self) -> int:
        """The number of rows that were given."""
        return self.sample.source.n_samples


def n_learned(n: int, most: int) -> int:
    """Return how many of n rows, which are more than most, are learned: time grows with their product.

    10,000 at least, or most, if that is less.
    """
    return max(min(most, 10_000), most * most // n)
