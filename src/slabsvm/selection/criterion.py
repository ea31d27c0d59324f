"""What a criterion is: how a candidate treats positives and strangers, turned into a score.

A criterion is shown, for each candidate and each fold, how the detector treats the held-out positives and how it treats
*strangers* made from them (`slabsvm.selection.synthetic_outliers`). It turns that into numbers (`measure`), and the
numbers' means over the folds into a score for each candidate, the larger the better (`scores`).
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
from slabsvm.selection.synthetic_outliers import MAKERS, Strangers

Measured = dict[str, float]

# What to do where strangers of a kind are accepted as positives are.
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

    def doubt(self, measured: Mapping[str, float], n_held_out: int) -> str:
        """Return why what was measured of the chosen candidate tells nothing apart, and what to do, or nothing."""
        del measured, n_held_out
        return ""

    @property
    def makes_strangers(self) -> bool:
        """Whether it shows strangers, which are made of features: of a precomputed kernel matrix there can be none."""
        return type(self).strangers is not Criterion.strangers

    def strangers(self, positives: Any, generator: np.random.Generator) -> Strangers | None:
        """Return the strangers that each candidate shall be shown, made from a fold's held-out positives, or None."""
        del positives, generator
        return None

    def measure(self, positives: Answer, strangers: Answer | None, made: Strangers | None) -> Measured:
        """Return what is seen of one candidate in one fold, numbers by name; always with "recall", here with it alone.

        Parameters
        ----------
        positives, strangers : how the detector answers the held-out positives, and the strangers
        made : the strangers
        """
        del strangers, made
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


class WithStrangers(Criterion):
    """A criterion that shows strangers of one kind."""

    kind: str
    n_strangers: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kind": [StrOptions(set(MAKERS))],
        "n_strangers": [Interval(Integral, 1, None, closed="left")],
    }

    def doubt(self, measured: Mapping[str, float], n_held_out: int) -> str:
        """Return that strangers are accepted as positives are, within chance, where they are."""
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
            f"The search has learned nothing that tells strangers from positives: by {self!r} the best candidate "
            f"accepts {accepted:.1%} of the strangers, made of the positives' features, and {recall:.1%} of the "
            f"positives. {REMEDIES[self.kind]}"
        )

    def strangers(self, positives: Any, generator: np.random.Generator) -> Strangers | None:
        """Return strangers made from the positives."""
        return MAKERS[self.kind](positives, self.n_strangers, generator)
