"""What a criterion is: how a candidate answers positives and synthetic outliers, turned into a score.

For each candidate and each fold, a criterion is shown how the detector answers the held-out positives and the synthetic
outliers made from them (`slabsvm.selection.synthetic_outliers`). `measure` turns these answers into numbers. `scores`
turns the numbers' means over the folds into a score for each candidate, the larger the better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from slabsvm.detectors.answers import Answer
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.sklearn_private import Interval, StrOptions, validate_parameter_constraints
from slabsvm.selection.synthetic_outliers import MAKERS, SyntheticOutliers

Measured = dict[str, float]

# What to do where synthetic outliers of a kind are accepted as often as positives.
REMEDIES = {
    "volume": "Check the features for outliers, which stretch them, and add larger gammas to the grid.",
    "shifting": "Add larger gammas and nus to the grid, or search by 'volume' or 'marginals'.",
    **dict.fromkeys(
        ("marginals", "filled", "swaps"),
        "Where the features do not depend on each other that is as it must be: search by 'volume'. Otherwise they are "
        "scaled so that rare or noisy ones drown the rest, or there are too many for so few rows: leave the scaler out "
        "where all have one unit (words, counts), drop rare features (min_df), or take fewer (TruncatedSVD).",
    ),
}


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

    def warn_of(self, recall: float, n_held_out: int) -> None:
        """Warn if the chosen candidate, of this recall on so many held-out positives, misses the recall asked for."""
        del recall, n_held_out

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


class WithSyntheticOutliers(Criterion):
    """A criterion that makes synthetic outliers of one kind."""

    kind: str
    n_strangers: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kind": [StrOptions(set(MAKERS))],
        "n_strangers": [Interval(Integral, 1, None, closed="left")],
    }

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

    def strangers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers | None:
        """Return synthetic outliers made from the positives."""
        return MAKERS[self.kind](positives, self.n_strangers, generator)
