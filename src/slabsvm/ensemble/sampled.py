"""Learning from a sample of more rows than a model is fitted on, and putting its threshold by all the others.

Two passes read all rows, wherever they are: one draws the sample, and sees that all values are finite; the other scores
the rows that were not drawn, which the model has not learned: no leave-one-out is needed.

Scores are kept, 8 bytes a row, so that the quantile is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slabsvm.data.passes import Rows, Source
from slabsvm.fitted.sources import refuse_what_is_not_finite
from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray

# Of fewer rows none are left for the threshold: half of them would be too few to learn from.
FEWEST_SAMPLED = 20


@dataclass(frozen=True)
class Sample:
    """Some rows of a source."""

    source: Source
    numbers: IndexArray  # (n,): which rows they are, in ascending order
    rows: Rows  # (n, d) array or CSR array of float64
    weights: FloatArray  # (n,)

    @classmethod
    def of(cls, source: Source, most: int, seed: int) -> Sample:
        """Draw rows of positive weight: all of them or, where there are more than most, no more than half of them.

        Which rows are drawn depends on the seed and on their number alone. Raises ValueError where any value of any row
        is not finite.
        """
        n_counted = source.n_samples if source.weights is None else int(np.count_nonzero(source.weights))
        numbers = source.drawn(n_counted if n_counted <= max(most, FEWEST_SAMPLED) else min(most, n_counted // 2), seed)
        survey = source.survey(numbers, refuse_what_is_not_finite)
        return cls(source, numbers, survey.rows, survey.weights)

    @property
    def others(self) -> BoolArray:
        """Which rows, (n_samples,), are of positive weight and were not drawn."""
        counted = np.ones(self.source.n_samples, dtype=bool)
        if self.source.weights is not None:
            counted &= self.source.weights > 0
        counted[self.numbers] = False
        return counted

    @property
    def whole(self) -> bool:
        """Whether all rows of positive weight were drawn."""
        return not self.others.any()

    def spread(self, own: FloatArray) -> FloatArray:
        """Return values of the sample, (n,), for all rows, (n_samples,); NaN where a row was not drawn."""
        values = np.full(self.source.n_samples, np.nan)
        values[self.numbers] = own
        return values

    def scores(self, own: FloatArray, score: Callable[[Rows], FloatArray]) -> FloatArray:
        """Return what each row of the source scores without itself, (n_samples,); NaN where its weight is 0.

        own are the left-out scores of the sample, (n,); score is the function that gives the others theirs, of which
        none was learned.
        """
        scores = self.source.scores(score)
        if self.source.weights is not None:
            scores[self.source.weights == 0] = np.nan
        scores[self.numbers] = own
        return scores

    @property
    def weights_of_others(self) -> FloatArray | None:
        """The weights of the rows that were not drawn; None where they weigh alike."""
        return None if self.source.weights is None else self.source.weights[self.others]


@dataclass(frozen=True)
class Drawn(Training):
    """What members learn from, where it was drawn from a source."""

    sample: Sample

    @property
    def n_rows(self) -> int:
        """The number of rows that were given."""
        return self.sample.source.n_samples
