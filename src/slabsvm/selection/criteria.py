"""Criteria that choose a detector's parameters with positives alone.

A criterion is shown, for each candidate and each fold, how the detector treats the held-out positives and how it treats
*strangers* made from them (`slabsvm.selection.strangers`). It turns that into numbers (`measure`), and the numbers'
means over the folds into a score for each candidate, the larger the better (`scores`). No criterion sees a negative
sample, so each rests on an assumption about them, and fails where it does not hold; the classes say which.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

from slabsvm.selection.strangers import MAKERS, Strangers

FloatArray = npt.NDArray[np.float64]
Measured = dict[str, float]


@dataclass(frozen=True)
class Answer:
    """How a detector answers rows.

    Attributes
    ----------
    values : (n,) array of float64
        How normal it holds each to be, the larger the more.
    accepted : (n,) array of bool
    """

    values: FloatArray
    accepted: npt.NDArray[np.bool_]

    @property
    def share(self) -> float:
        """The share of rows that are accepted."""
        return float(self.accepted.mean())


class RecallMissedWarning(UserWarning):
    """The candidate that was chosen does not keep the recall that the criterion asks for."""


class Criterion(ABC):
    """What makes one candidate better than another, for people who have positives alone."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def validate(self) -> None:
        """Refuse parameters that make no sense.

        Raises
        ------
        ValueError
            The text says which, and what it may be.
        """
        validate_parameter_constraints(self._parameter_constraints, vars(self), caller_name=type(self).__name__)

    def warn_of(self, recall: float, n_held_out: int) -> None:
        """Warn if the candidate that was chosen, of this recall on so many held-out positives, misses what is asked."""
        del recall, n_held_out

    def strangers(self, positives: Any, generator: np.random.Generator) -> Strangers | None:
        """Return the strangers that each candidate shall be shown, made from a fold's held-out positives, or None."""
        del positives, generator
        return None

    @abstractmethod
    def measure(self, positives: Answer, strangers: Answer | None, made: Strangers | None) -> Measured:
        """Return what is seen of one candidate in one fold, by name; always with "recall".

        Parameters
        ----------
        positives, strangers : how the detector answers the held-out positives, and the strangers
        made : the strangers
        """

    @abstractmethod
    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the score of each of c candidates, the larger the better.

        Parameters
        ----------
        measured : what `measure` returned, by name, each (c,): the means over the folds
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

    It fails nearly always. A detector that accepts everything has a recall of 1, so it prefers the loosest candidate.
    """

    def measure(self, positives: Answer, strangers: Answer | None, made: Strangers | None) -> Measured:
        """Return the recall."""
        del strangers, made
        return {"recall": positives.share}

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the recall."""
        del candidates, n_held_out
        return measured["recall"]


class WithStrangers(Criterion):
    """A criterion that shows strangers of one kind."""

    kind: str
    n_strangers: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kind": [StrOptions(set(MAKERS))],
        "n_strangers": [Interval(Integral, 1, None, closed="left")],
    }

    def strangers(self, positives: Any, generator: np.random.Generator) -> Strangers | None:
        """Return strangers made from the positives."""
        return MAKERS[self.kind](positives, self.n_strangers, generator)


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
    kind : {"marginals", "swaps", "volume", "shifting"}, default="marginals"
        How strangers are made, see `slabsvm.selection.strangers`.
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
        """Return the recall and the share of strangers that are accepted, or the logarithm of the accepted volume."""
        assert strangers is not None
        assert made is not None
        if made.log_volume is None:
            return {"recall": positives.share, "acceptance": strangers.share}
        return {"recall": positives.share, "log_volume": log_volume_of(strangers.accepted, made.log_volume)}

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
                stacklevel=4,
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
    kind : {"shifting", "swaps", "marginals"}, default="shifting"
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
    kind : {"marginals", "swaps", "shifting"}, default="marginals"
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


class Consistency(Criterion):
    """The most complex candidate whose error on new positives is what it was asked to be (Tax, Mueller 2004).

    A candidate is consistent if the share of held-out positives that it rejects is at most `rejection` plus two
    standard deviations of a binomial share. Among these the most complex one wins; of equally complex ones, the one
    whose rejection is nearest to what was asked for. Inconsistent ones rank below, by their excess.

    It fails with offsets that are calibrated, as offsets="leave-one-out" is: these are consistent at every complexity,
    so that the most complex candidate of the grid wins, however far the grid goes.

    Parameters
    ----------
    rejection : float in (0, 1), default=0.1
        The share of positives that the detector is asked to reject (nu).
    complexity : str, default="gamma"
        The parameter, the larger the more complex, by its name in the grid or the last part of it.

    References
    ----------
    D. Tax, K.-R. Mueller, "A consistency-based model selection for one-class classification", ICPR 2004.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rejection": [Interval(Real, 0.0, 1.0, closed="neither")],
        "complexity": [str],
    }

    def __init__(self, rejection: float = 0.1, complexity: str = "gamma") -> None:
        self.rejection = rejection
        self.complexity = complexity

    def measure(self, positives: Answer, strangers: Answer | None, made: Strangers | None) -> Measured:
        """Return the recall."""
        del strangers, made
        return {"recall": positives.share}

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the rank of the complexity, less how far the rejection is from what was asked for."""
        rejected = 1.0 - measured["recall"]
        allowed = self.rejection + 2.0 * np.sqrt(self.rejection * (1.0 - self.rejection) / n_held_out)
        _, rank = np.unique([self._complexity(candidate) for candidate in candidates], return_inverse=True)
        distance = np.abs(rejected - self.rejection)
        return np.asarray(np.where(rejected <= allowed, 1.0 + rank - 0.5 * distance, -(rejected - allowed)))

    def _complexity(self, candidate: Mapping[str, Any]) -> float:
        for name, value in candidate.items():
            if name == self.complexity or name.rpartition("__")[2] == self.complexity:
                try:
                    return float(value)
                except (TypeError, ValueError) as error:
                    raise ValueError(
                        f"The consistency criterion orders candidates by {name}, which must be a number and is "
                        f"{value!r} here."
                    ) from error
        raise ValueError(
            f"The consistency criterion orders candidates by their complexity, and the grid has no "
            f"{self.complexity!r}; it has {', '.join(sorted(candidate)) or 'no parameters'}. Name one with "
            "Consistency(complexity=...)."
        )


def log_volume_of(accepted: npt.NDArray[np.bool_], log_volume: FloatArray) -> float:
    """Return the logarithm of the volume of the accepted points; of none, that of half the smallest point."""
    if not accepted.any():
        return float(log_volume.min() - np.log(2.0))
    return float(logsumexp(log_volume[accepted]))
