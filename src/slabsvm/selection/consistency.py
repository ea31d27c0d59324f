"""The criterion that trusts a detector's nominal error: the most complex candidate whose error is the one asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.sklearn_private import Interval
from slabsvm.selection.criterion import Criterion
from slabsvm.selection.edges import named


class Consistency(Criterion):
    """The most complex candidate whose error on new positives is the one asked for (Tax, Mueller 2004).

    A candidate is consistent if the share of held-out positives that it rejects is at most `rejection` plus two
    standard deviations of a binomial share. Among these the most complex one wins; of equally complex ones, the one
    whose rejection is nearest to what was asked for. Inconsistent ones rank below, by their excess.

    The criterion is for grids of complexity alone: the rejection is one number for all candidates, whatever their nu,
    and among equally complex ones the one with the nearest nu wins. It fails with calibrated offsets, such as
    offsets="leave-one-out", and the more so with cv="leave-one-out", where each candidate rejects what its nu asks for
    by construction. Candidates are then consistent at every complexity, so that the most complex one of the grid wins,
    however far the grid goes. Use the criterion with offsets="training".

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

    def scores(
        self, measured: Mapping[str, FloatArray], candidates: Sequence[Mapping[str, Any]], n_held_out: int
    ) -> FloatArray:
        """Return the rank of the complexity, less half the distance of the rejection from the one asked for."""
        rejected = 1.0 - measured["recall"]
        allowed = self.rejection + 2.0 * np.sqrt(self.rejection * (1.0 - self.rejection) / n_held_out)
        _, rank = np.unique([self._complexity(candidate) for candidate in candidates], return_inverse=True)
        distance = np.abs(rejected - self.rejection)
        return np.asarray(np.where(rejected <= allowed, 1.0 + rank - 0.5 * distance, -(rejected - allowed)))

    def _complexity(self, candidate: Mapping[str, Any]) -> float:
        name = named([candidate], self.complexity)
        if name is None:
            raise ValueError(
                f"The consistency criterion orders candidates by their complexity, and the grid has no "
                f"{self.complexity!r}; it has {', '.join(sorted(candidate)) or 'no parameters'}. Name one with "
                "Consistency(complexity=...)."
            )
        try:
            return float(candidate[name])
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The consistency criterion orders candidates by {name}, which must be a number and is "
                f"{candidate[name]!r} here."
            ) from error
