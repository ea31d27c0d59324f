"""What a graph gives for each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slabsvm.files.onnx.graph import Tensor, where


@dataclass(frozen=True)
class Answer:
    """How a detector answers rows.

    Attributes
    ----------
    score, decision : (n,) Tensor
        NaN for rows that the detector refuses.
    log_mass : (n,) Tensor or None
        The log kernel mass, where it orders the rows that have no more of it than the least: those out of reach.
    least : float
        The logarithm of the least mass.
    p_values : (n,) Tensor or None
        Of a calibrated detector.
    """

    score: Tensor
    decision: Tensor
    log_mass: Tensor | None = None
    least: float = -np.inf
    p_values: Tensor | None = None

    def outputs(self) -> dict[str, Tensor]:
        """Return what a graph gives for each row, by the names of its outputs."""
        label = where(self.decision >= 0.0, np.array(1), np.array(-1))
        found = {"label": label, "scores": self.decision, "score_samples": self.score}
        return found if self.p_values is None else {**found, "p_values": self.p_values}
