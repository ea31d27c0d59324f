"""Criteria that choose a detector's parameters with positives alone.

For each candidate and each fold, a criterion is shown how the detector answers the held-out positives and the synthetic
outliers made from them (`slabsvm.selection.synthetic_outliers`). `measure` turns these answers into numbers. `scores`
turns the numbers' means over the folds into a score for each candidate, the larger the better.

No criterion sees a negative sample: each rests on an assumption about the negatives, which its class states, and fails
where it does not hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from slabsvm.detectors.answers import Answer
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import warn
from slabsvm.runtime.sklearn_private import Interval, StrOptions, validate_parameter_constraints
from slabsvm.selection.synthetic_outliers import MAKERS, SyntheticOutliers

__all__ = [
    "NAMED",
    "Answer",
    "Criterion",
    "Measured",
    "NothingToldApartWarning",
    "Recall",
    "RecallMissedWarning",
    "TightestAtRecall",
    "log_volume_of",
]

Measured = dict[str, float]

# What to do where synthetic outliers of a kind are accepted as often as positives.
REMEDIES = {
    "volume": "Check the features for outliers, which stretch them, and add larger gammas to the grid.",
    "marginals": (
        "Where the features do not depend on each other that is as it must be: search by 'volume'. Otherwise they are "
        "scaled so that rare or noisy ones drown the rest, or there are too many for so few rows: leave the scaler out "
        "where all have one unit (words, counts), drop rare features (min_df), or take fewer (TruncatedSVD)."
    ),
}


class RecallMissedWarning(UserWarning):
    """The chosen candidate does not keep the recall that the criterion asks for."""


class NothingToldApartWarning(UserWarning):
    """The chosen candidate tells positives from synthetic outliers no better than chance, or all have one score."""


class Criterion(ABC):
    """What makes one candidate better than another, where only positives are known."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def validate(self) -> None:
        """Refuse parameters that make no sense.

        Raises
        ------
        ValueError
            The text names the parameter and what it may be.
        """
        validate_parameter_constraints(self._parameter_constraints, vars(self), caller_name=type(self).__name__)

    def warn_of(self, recall: float, n_held_out: int, nominal_recall: float = np.nan) -> None:
        """Warn if the chosen candidate, of this recall on so many held-out positives, misses the recall asked for.

        nominal_recall is what its parameters ask for, NaN where they do not say.
        """
        del recall, n_held_out, nominal_recall

    def doubt(self, measured: Mapping[str, float], n_held_out: int) -> str:
        """Return why the chosen candidate tells nothing apart, and what to do; an empty text where it does."""
        del measured, n_held_out
        return ""

    @property
    def makes_synthetic_outliers(self) -> bool:
        """Whether it makes synthetic outliers; they are made of features, and a precomputed kernel matrix has none."""
        return type(self).strangers is not Criterion.strangers

    def strangers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers | None:
        """Return synthetic outliers made from a fold's held-out positives, for each candidate to answer, or None."""
        del positives, generator
        return None

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return numbers by name for one candidate in one fold; "recall" is always among them, and here the only one.

        Parameters
        ----------
        positives, synthetic outliers : how the detector answers the held-out positives, and the synthetic outliers
        made : the synthetic outliers, with their volumes where these have a meaning
        """
        del outliers, made
        return {"recall": positives.share}

    @abstractmethod
    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the score of each of c candidates, the larger the better.

        Parameters
        ----------
        measured : what `measure` returned, by name, each (c,): the means over the folds; and "nominal_recall", what the
            candidates' parameters ask for, NaN where they do not say
        candidates : their parameters
        n_held_out : how many positives recall was measured on, over all folds
        """

    def __repr__(self) -> str:
        """Return the class and its parameters."""
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"

    def __eq__(self, other: object) -> bool:
        """Return whether the other is of the same class and parameters."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """Return a hash of the class and the parameters."""
        return hash(repr(self))


class Recall(Criterion):
    """The largest recall on held-out positives: what the slab's paper does (Fragoso et al. 2016, appendix).

    It fails nearly always: a detector that accepts everything has a recall of 1, so that the loosest candidate wins.
    """

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the recall."""
        del candidates, n_held_out
        return measured["recall"]


class TightestAtRecall(Criterion):
    """The smallest acceptance of synthetic outliers among the candidates that keep a recall.

    With synthetic outliers that carry volume this is the classical rule: the smallest volume that holds a given share
    of the positives (the minimum volume set; Polonik 1997, Scott and Nowak 2006).

    A candidate keeps the recall unless the measured recall is below it by more than chance explains. Without this
    slack, of candidates whose true recall is exactly the one asked for, luck would choose. A candidate whose parameters
    ask for a little less, as .89 for .9, is measured against what they ask for: where .89 itself counts as kept, a
    recall that is below .89 by chance does, too. Candidates that miss the recall rank below all that keep it, by how
    much they miss it.

    The criterion fails where no candidate keeps the recall, where candidates that differ all reject every synthetic
    outlier of this kind (the largest recall then decides), and where the negatives differ from positives in a way that
    synthetic outliers do not.

    Parameters
    ----------
    kind : {"marginals", "volume"}, default="marginals"
        How synthetic outliers are made, see `slabsvm.selection.synthetic_outliers`.
    recall : float in (0, 1], default=0.9
        The share of new positives that must be accepted.
    n_strangers : int, default=1000
        The number of synthetic outliers in each fold.
    slack : float >= 0, default=1.0
        By how many standard errors the measured recall may be below what is asked for. Some rows put the threshold of a
        candidate, and about as many judge it: the error is that of the difference between two binomial shares.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kind": [StrOptions(set(MAKERS))],
        "n_strangers": [Interval(Integral, 1, None, closed="left")],
        "recall": [Interval(Real, 0.0, 1.0, closed="right")],
        "slack": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(
        self, kind: str = "marginals", recall: float = 0.9, n_strangers: int = 1000, slack: float = 1.0
    ) -> None:
        self.kind = kind
        self.recall = recall
        self.n_strangers = n_strangers
        self.slack = slack

    def strangers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers | None:
        """Return synthetic outliers made from the positives."""
        return MAKERS[self.kind](positives, self.n_strangers, generator)

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return the recall, the accepted share of synthetic outliers, and the logarithm of their volume, if any."""
        assert outliers is not None
        assert made is not None
        shares = {"recall": positives.share, "acceptance": outliers.share}
        if made.log_volume is None:
            return shares
        return {**shares, "log_volume": log_volume_of(outliers.accepted, made.log_volume)}

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return minus the acceptance of candidates that keep the recall; the others are below, by what they miss."""
        del candidates
        tightness = -measured["log_volume" if "log_volume" in measured else "acceptance"]
        least = self._least(n_held_out, measured.get("nominal_recall", np.nan))
        missing = np.maximum(least - measured["recall"], 0.0)
        kept = missing == 0
        floor = tightness[kept].min() if kept.any() else 0.0
        return np.asarray(np.where(kept, tightness, floor - 1.0 - missing))

    def warn_of(self, recall: float, n_held_out: int, nominal_recall: float = np.nan) -> None:
        """Warn if the chosen candidate does not keep the recall."""
        least = float(self._least(n_held_out, nominal_recall))
        if recall < least:
            warn(
                f"No candidate keeps the recall: {self.recall:.3g} is asked for, at least {least:.3g} with "
                f"{self.slack:g} standard errors of chance, and the chosen one accepts {recall:.3g} of the "
                "held-out positives. Add candidates that reject less to the grid, such as smaller nu and smaller "
                "gamma; where the grid is fixed, ask for a smaller recall or give more samples.",
                RecallMissedWarning,
            )

    def doubt(self, measured: Mapping[str, float], n_held_out: int) -> str:
        """Return a warning where synthetic outliers are accepted as often as positives, within chance."""
        if "acceptance" not in measured:
            return ""
        accepted, recall = measured["acceptance"], measured["recall"]
        if self.kind == "volume":
            alike = accepted == 1.0
        else:
            chance = recall * (1.0 - recall) / n_held_out + accepted * (1.0 - accepted) / self.n_strangers
            alike = accepted >= recall - np.sqrt(chance)
        if not alike:
            return ""
        return (
            f"The search has learned nothing that tells synthetic outliers from positives: by {self!r} the best "
            f"candidate accepts {accepted:.1%} of the synthetic outliers, made of the positives' features, and "
            f"{recall:.1%} of the positives. {REMEDIES[self.kind]}"
        )

    def _least(self, n_held_out: int, nominal: npt.ArrayLike = np.nan) -> FloatArray:
        """Return the smallest measured recall with which candidates of these nominal recalls keep the recall asked for.

        The nominal recall is what a candidate is asked for where it is less than `recall` by no more than chance.
        """
        asked = np.where(np.asarray(nominal) >= self._less_chance(self.recall, n_held_out), nominal, self.recall)
        return np.asarray(self._less_chance(np.minimum(asked, self.recall), n_held_out))

    def _less_chance(self, recall: Any, n_held_out: int) -> Any:
        return recall - self.slack * np.sqrt(2.0 * recall * (1.0 - recall) / n_held_out)


def log_volume_of(accepted: npt.NDArray[np.bool_], log_volume: FloatArray) -> float:
    """Return the logarithm of the volume of the accepted points; of none, that of half the smallest point."""
    if not accepted.any():
        return float(log_volume.min() - np.log(2.0))
    return float(logsumexp(log_volume[accepted]))


# Every criterion by the name that a search takes for it.
NAMED: dict[str, Criterion] = {
    "recall": Recall(),
    "marginals": TightestAtRecall("marginals"),
    "volume": TightestAtRecall("volume", n_strangers=2000),
}
