"""Counts of a one-class detector's decisions on known and novel samples, and rates from them."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Counts:
    """Decisions of a detector on samples of the known class and of novel ones.

    Attributes
    ----------
    accepted, rejected : int
        Known samples inside and outside (true positives, false negatives).
    wrongly_accepted, rightly_rejected : int
        Novel samples inside and outside (false positives, true negatives).
    """

    accepted: int
    rejected: int
    wrongly_accepted: int
    rightly_rejected: int

    @classmethod
    def of(cls, inside: NDArray[Any], known: NDArray[Any]) -> Counts:
        """Count the decisions `inside` against the truth `known`; both boolean, of shape (n,)."""
        inside, known = np.asarray(inside, dtype=bool), np.asarray(known, dtype=bool)
        return cls(
            accepted=int(np.sum(inside & known)),
            rejected=int(np.sum(~inside & known)),
            wrongly_accepted=int(np.sum(inside & ~known)),
            rightly_rejected=int(np.sum(~inside & ~known)),
        )

    @property
    def mcc(self) -> float:
        """Matthews correlation, in [-1, 1]; 0 where a row or a column of the table of counts is empty."""
        tp, fn, fp, tn = self.accepted, self.rejected, self.wrongly_accepted, self.rightly_rejected
        scale = sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        return (tp * tn - fp * fn) / scale if scale > 0 else 0.0

    @property
    def recall(self) -> float:
        """Share of the known samples that are accepted; nan when there are none."""
        return _share(self.accepted, self.rejected)

    @property
    def false_acceptance(self) -> float:
        """Share of the novel samples that are accepted; nan when there are none."""
        return _share(self.wrongly_accepted, self.rightly_rejected)


def _share(hits: int, misses: int) -> float:
    return hits / (hits + misses) if hits + misses else float("nan")
