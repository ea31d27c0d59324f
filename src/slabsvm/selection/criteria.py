"""Criteria that choose a detector's parameters with positives alone.

What a criterion is, `slabsvm.selection.criterion` says. No criterion sees a negative sample, so each rests on an
assumption about them, and fails where it does not hold; the classes say which.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from slabsvm.detectors.answers import Answer
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import callers_level
from slabsvm.runtime.sklearn_private import Interval, StrOptions
from slabsvm.selection.consistency import Consistency
from slabsvm.selection.criterion import Criterion, Measured, WithStrangers
from slabsvm.selection.curves import ExcessMass, MassVolume
from slabsvm.selection.synthetic_outliers import MAKERS, Strangers

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
    "WithStrangers",
    "log_volume_of",
]


class RecallMissedWarning(UserWarning):
    """The candidate that was chosen does not keep the recall that the criterion asks for."""


class NothingToldApartWarning(UserWarning):
    """What a search chose tells positives from strangers no better than chance, or all its candidates did alike."""


class Recall(Criterion):
    """The largest recall on held-out positives: what the slab's paper does (Fragoso et al. 2016, appendix).

    It fails nearly always. A detector that accepts everything has a recall of 1, so it prefers the loosest candidate.
    """

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the recall."""
        del candidates, n_held_out
        return measured["recall"]


class TightestAtRecall(WithStrangers):
    """The smallest acceptance of strangers among the candidates that keep a recall.

    With strangers that carry volume this is the classical rule: the smallest volume that holds a given share of the
    positives (the minimum volume set; Polonik 1997, Scott and Nowak 2006).

    A candidate keeps the recall unless it is measured below it by more than chance explains. Otherwise, of candidates
    that are asked for just this recall, some keep it by luck alone, and luck would choose among them. Those that miss
    it rank below all that keep it, by how much they miss. It fails where no candidate keeps it, where strangers of this
    kind are all rejected by candidates that differ (the largest recall then decides), and where the negatives differ
    from positives in a way that strangers do not.

    Parameters
    ----------
    kind : {"marginals", "filled", "swaps", "volume", "shifting"}, default="marginals"
        How strangers are made, see `slabsvm.selection.synthetic_outliers`.
    recall : float in (0, 1], default=0.9
        The share of new positives that must be accepted.
    n_strangers : int, default=1000
        In each fold.
    slack : float >= 0, default=1.0
        By how many standard deviations of a binomial share the measured recall may be below it.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **WithStrangers._parameter_constraints,
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

    def measure(self, positives: Answer, strangers: Answer | None, made: Strangers | None) -> Measured:
        """Return the recall, the share of strangers that are accepted, and the logarithm of their volume, if any."""
        assert strangers is not None
        assert made is not None
        shares = {"recall": positives.share, "acceptance": strangers.share}
        if made.log_volume is None:
            return shares
        return {**shares, "log_volume": log_volume_of(strangers.accepted, made.log_volume)}

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return minus the acceptance where recall is kept; below all of these, by how much it is missed, elsewhere."""
        del candidates
        tightness = -measured["log_volume" if "log_volume" in measured else "acceptance"]
        missing = np.maximum(self._least(n_held_out) - measured["recall"], 0.0)
        kept = missing == 0
        floor = tightness[kept].min() if kept.any() else 0.0
        return np.asarray(np.where(kept, tightness, floor - 1.0 - missing))

    def warn_of(self, recall: float, n_held_out: int) -> None:
        """Warn if the candidate that was chosen does not keep the recall."""
        least = self._least(n_held_out)
        if recall < least:
            warnings.warn(
                f"No candidate keeps the recall: {self.recall:.3g} is asked for, at least {least:.3g} with "
                f"{self.slack:g} standard deviations of chance, and the one that is chosen accepts {recall:.3g} of the "
                "held-out positives. Add candidates that reject less to the grid, such as smaller nu and smaller "
                "gamma; where the grid is fixed, as in AutoSlabSVM, ask for a smaller recall or give more samples.",
                RecallMissedWarning,
                stacklevel=callers_level(),
            )

    def _least(self, n_held_out: int) -> float:
        """Return the recall that must be measured at least."""
        return float(self.recall - self.slack * np.sqrt(self.recall * (1.0 - self.recall) / n_held_out))


class WithAcceptance(WithStrangers):
    """A criterion of the share of strangers that are accepted, which means nothing of points that sample volume."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **WithStrangers._parameter_constraints,
        "kind": [StrOptions(set(MAKERS) - {"volume"})],
    }


class BalancedAccuracy(WithAcceptance):
    """The largest mean of recall and of the share of strangers that are rejected (Wang et al. 2018).

    The paper's error is over strangers by shifting and over positives moved inwards; here the held-out positives take
    the place of the latter. It fails as its strangers do, and where a false alarm costs more or less than a miss.

    Parameters
    ----------
    kind : {"shifting", "swaps", "marginals", "filled"}, default="shifting"
    n_strangers : int, default=1000
        In each fold; "shifting" makes as many as there are positives at the edge, if these are fewer.

    References
    ----------
    S. Wang, Q. Liu, E. Zhu, F. Porikli, J. Yin, "Hyperparameter selection of one-class support vector machine by
    self-adaptive data shifting", Pattern Recognition 74, 2018.
    """

    def __init__(self, kind: str = "shifting", n_strangers: int = 1000) -> None:
        self.kind = kind
        self.n_strangers = n_strangers

    def measure(self, positives: Answer, strangers: Answer | None, made: Strangers | None) -> Measured:
        """Return the recall and the share of strangers that are accepted."""
        assert strangers is not None
        del made
        return {"recall": positives.share, "acceptance": strangers.share}

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the mean of recall and rejection."""
        del candidates, n_held_out
        return np.asarray(0.5 * (measured["recall"] + 1.0 - measured["acceptance"]))


class RecallSquaredOverAcceptance(WithAcceptance):
    """The largest recall^2 / share of strangers that are accepted (Lee, Liu 2003).

    With unlabelled data in place of strangers it behaves like the squared F1 score: it needs no recall to aim at. It
    fails as its strangers do, and favours candidates that accept next to none of them, whatever their recall.

    Parameters
    ----------
    kind : {"marginals", "filled", "swaps", "shifting"}, default="marginals"
    n_strangers : int, default=1000
        In each fold. Acceptance counts as at least half a stranger.

    References
    ----------
    W. S. Lee, B. Liu, "Learning with positive and unlabeled examples using weighted logistic regression", ICML 2003.
    """

    def __init__(self, kind: str = "marginals", n_strangers: int = 1000) -> None:
        self.kind = kind
        self.n_strangers = n_strangers

    def measure(self, positives: Answer, strangers: Answer | None, made: Strangers | None) -> Measured:
        """Return the recall and the share of strangers that are accepted."""
        assert strangers is not None
        del made
        return {"recall": positives.share, "acceptance": strangers.share}

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
