"""Criteria that choose a detector's parameters with positives alone.

`slabsvm.selection.criterion` says what a criterion is. No criterion sees a negative sample: each rests on an assumption
about the negatives, which its class states, and fails where it does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from slabsvm.detectors.answers import Answer
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import warn
from slabsvm.runtime.sklearn_private import Interval, StrOptions
from slabsvm.selection.consistency import Consistency
from slabsvm.selection.criterion import Criterion, Measured, WithSyntheticOutliers
from slabsvm.selection.curves import ExcessMass, MassVolume
from slabsvm.selection.synthetic_outliers import MAKERS, SyntheticOutliers

__all__ = [
    "Answer",
    "BalancedAccuracy",
    "Consistency",
    "Criterion",
    "ExcessMass",
    "MassVolume",
    "Measured",
    "NothingToldApartWarning",
    "Recall",
    "RecallMissedWarning",
    "RecallSquaredOverAcceptance",
    "TightestAtRecall",
    "WithSyntheticOutliers",
    "log_volume_of",
]


class RecallMissedWarning(UserWarning):
    """The chosen candidate does not keep the recall that the criterion asks for."""


class NothingToldApartWarning(UserWarning):
    """The chosen candidate tells positives from synthetic outliers no better than chance, or all have one score."""


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


class TightestAtRecall(WithSyntheticOutliers):
    """The smallest acceptance of synthetic outliers among the candidates that keep a recall.

    With synthetic outliers that carry volume this is the classical rule: the smallest volume that holds a given share
    of the positives (the minimum volume set; Polonik 1997, Scott and Nowak 2006).

    A candidate keeps the recall unless the measured recall is below it by more than chance explains. Without this
    slack, of candidates whose true recall is exactly the one asked for, luck would choose. Candidates that miss the
    recall rank below all that keep it, by how much they miss it.

    The criterion fails where no candidate keeps the recall, where candidates that differ all reject every synthetic
    outlier of this kind (the largest recall then decides), and where the negatives differ from positives in a way that
    synthetic outliers do not.

    Parameters
    ----------
    kind : {"marginals", "filled", "swaps", "volume", "shifting"}, default="marginals"
        How synthetic outliers are made, see `slabsvm.selection.synthetic_outliers`.
    recall : float in (0, 1], default=0.9
        The share of new positives that must be accepted.
    n_strangers : int, default=1000
        The number of synthetic outliers in each fold.
    slack : float >= 0, default=1.0
        By how many standard errors the measured recall may be below `recall`. Some rows put the threshold of a
        candidate, and about as many judge it: the error is that of the difference between two binomial shares.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **WithSyntheticOutliers._parameter_constraints,
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
        missing = np.maximum(self._least(n_held_out) - measured["recall"], 0.0)
        kept = missing == 0
        floor = tightness[kept].min() if kept.any() else 0.0
        return np.asarray(np.where(kept, tightness, floor - 1.0 - missing))

    def warn_of(self, recall: float, n_held_out: int) -> None:
        """Warn if the chosen candidate does not keep the recall."""
        least = self._least(n_held_out)
        if recall < least:
            warn(
                f"No candidate keeps the recall: {self.recall:.3g} is asked for, at least {least:.3g} with "
                f"{self.slack:g} standard errors of chance, and the chosen one accepts {recall:.3g} of the "
                "held-out positives. Add candidates that reject less to the grid, such as smaller nu and smaller "
                "gamma; where the grid is fixed, ask for a smaller recall or give more samples.",
                RecallMissedWarning,
            )

    def _least(self, n_held_out: int) -> float:
        """Return the smallest measured recall with which a candidate still keeps the recall asked for."""
        return float(self.recall - self.slack * np.sqrt(2.0 * self.recall * (1.0 - self.recall) / n_held_out))


class WithAcceptance(WithSyntheticOutliers):
    """A criterion of the accepted share of synthetic outliers; points that sample volume have no meaningful share."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **WithSyntheticOutliers._parameter_constraints,
        "kind": [StrOptions(set(MAKERS) - {"volume"})],
    }

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> Measured:
        """Return the recall and the share of synthetic outliers that are accepted."""
        assert outliers is not None
        del made
        return {"recall": positives.share, "acceptance": outliers.share}


class BalancedAccuracy(WithAcceptance):
    """The largest mean of recall and of the share of synthetic outliers that are rejected (Wang et al. 2018).

    The paper measures errors on positives shifted outwards and on positives moved inwards; here held-out positives take
    the place of the latter. The criterion fails where its synthetic outliers do, and where a false alarm costs more or
    less than a miss.

    Parameters
    ----------
    kind : {"shifting", "swaps", "marginals", "filled"}, default="shifting"
    n_strangers : int, default=1000
        The number of synthetic outliers in each fold; "shifting" makes as many as there are positives at the edge, if
        these are fewer.

    References
    ----------
    S. Wang, Q. Liu, E. Zhu, F. Porikli, J. Yin, "Hyperparameter selection of one-class support vector machine by
    self-adaptive data shifting", Pattern Recognition 74, 2018.
    """

    def __init__(self, kind: str = "shifting", n_strangers: int = 1000) -> None:
        self.kind = kind
        self.n_strangers = n_strangers

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the mean of recall and rejection."""
        del candidates, n_held_out
        return np.asarray(0.5 * (measured["recall"] + 1.0 - measured["acceptance"]))


class RecallSquaredOverAcceptance(WithAcceptance):
    """The largest recall^2 / accepted share of synthetic outliers (Lee, Liu 2003).

    With unlabelled data in place of synthetic outliers it behaves like the squared F1 score, and needs no recall to aim
    at. It fails where its synthetic outliers do, and favours candidates that accept next to none of them, whatever
    their recall.

    Parameters
    ----------
    kind : {"marginals", "filled", "swaps", "shifting"}, default="marginals"
    n_strangers : int, default=1000
        The number of synthetic outliers in each fold. No acceptance counts as less than half
        of one of them.

    References
    ----------
    W. S. Lee, B. Liu, "Learning with positive and unlabeled examples using weighted logistic regression", ICML 2003.
    """

    def __init__(self, kind: str = "marginals", n_strangers: int = 1000) -> None:
        self.kind = kind
        self.n_strangers = n_strangers

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return recall^2 / acceptance."""
        del candidates, n_held_out
        return np.asarray(measured["recall"] ** 2 / np.maximum(measured["acceptance"], 0.5 / self.n_strangers))


def log_volume_of(accepted: npt.NDArray[np.bool_], log_volume: FloatArray) -> float:
    """Return the logarithm of the volume of the accepted points; of none, that of half the smallest point."""
    if not accepted.any():
        return float(log_volume.min() - np.log(2.0))
    return float(logsumexp(log_volume[accepted]))
