"""Whether one method is better than another on the same data sets, or only luckier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata, wilcoxon

# Below this a corrected p counts as more than chance.
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Comparison:
    """A method against another, each measured once on every data set.

    Attributes
    ----------
    difference : float
        Median of the differences; above 0 where the first is better.
    wins, losses : int
        Data sets on which the first is better, and worse.
    rank_sum : float
        Sum of the signed ranks of the differences: what the test judges. Above 0 where the first is better, also where
        so many differences are 0 that their median is.
    p : float
        Of a Wilcoxon signed-rank test, two-sided, in which differences of 0 do not take part; 1 where all are 0.
    corrected : float
        The same, corrected for the number of comparisons, see :func:`holm`.
    """

    difference: float
    wins: int
    losses: int
    rank_sum: float
    p: float
    corrected: float

    @property
    def word(self) -> str:
        """What it comes to."""
        if self.corrected >= SIGNIFICANT:
            return "level"
        return "better" if self.rank_sum > 0 else "worse"


def compare(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Set what one method reaches against what another reaches on the same data sets, in the same order."""
    differences = np.subtract(first, second)
    apart = differences[differences != 0]
    p = float(wilcoxon(apart).pvalue) if len(apart) else 1.0
    return Comparison(
        difference=float(np.median(differences)),
        wins=int(np.sum(apart > 0)),
        losses=int(np.sum(apart < 0)),
        rank_sum=float(np.sign(apart) @ rankdata(np.abs(apart))),
        p=p,
        corrected=p,
    )


def holm(found: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Correct several comparisons, so that all words on them are right at once but with probability SIGNIFICANT.

    References
    ----------
    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979.
    """
    corrected, largest = {}, 0.0
    for place, name in enumerate(sorted(found, key=lambda name: found[name].p)):
        largest = max(largest, min(1.0, (len(found) - place) * found[name].p))
        corrected[name] = replace(found[name], corrected=largest)
    return {name: corrected[name] for name in found}
