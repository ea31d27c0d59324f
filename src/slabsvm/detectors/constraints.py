"""What parameters may be, beyond the constraints that scikit-learn knows."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from slabsvm.runtime.sklearn_private import Interval


class FiniteReal(Interval):
    """Real numbers from `least` on that are numbers of float64: 10**400 is none, though finite."""

    def __init__(self, least: float, *, closed: str) -> None:
        super().__init__(Real, least, None, closed=closed)

    def is_satisfied_by(self, val: Any) -> bool:
        """Return whether val is such a number."""
        try:
            return bool(super().is_satisfied_by(val)) and float(val) < np.inf
        except OverflowError:
            return False

    def __str__(self) -> str:
        """Say so in the text of a refusal."""
        return f"{super().__str__()} that float64 holds"
