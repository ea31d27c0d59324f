"""Support vector data description, written anew: what a detector's one file has to say (tests/test_recipes.py)."""

from dataclasses import field, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from slabsvm.detectors.base import parameters
from slabsvm.detectors.kernelized import common_length
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.fitted.model import Solved, SupportVectorModel, Unseen
from slabsvm.fitted.training import Training
from slabsvm.kernels.base import Kernel
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.estimators import Interval
from slabsvm.svm.gram import Gram
from slabsvm.svm.program import DualProblem, hypersphere


@parameters
class Ball(SupportVectorDetector):
    """Accept what lies in the smallest ball around most of the training samples."""

    nu: float = 0.1

    radius_: float = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"nu": [Interval(Real, 0.0, 1.0, closed="right")]}

    def _dual(self, weights: FloatArray, kernel: Kernel | None, gram: Gram) -> DualProblem:
        # Since the multipliers sum to 1, a constant may be taken off the diagonal.
        return hypersphere(weights, self.nu, gram.diagonal - _constant(kernel, gram))

    def _boundary(self, solved: Solved, unseen: Unseen, offsets: FloatArray, rounding: float) -> dict[str, float]:
        del unseen
        # |Phi(x) - a|^2 = |a|^2 + the constant - 2 s(x), with s the dual problem's score.
        constant = _constant(solved.kernel, solved.gram)
        squared_radius = solved.squared_norm + constant - 2.0 * (float(offsets[0]) - rounding)
        return {"offset_": -squared_radius, "radius_": float(np.sqrt(max(squared_radius, 0.0)))}

    def _read_off(self, training: Training, learned: Training, out: BoolArray, solved: Solved) -> SupportVectorModel:
        found = super()._read_off(training, learned, out, solved)
        if found.calibration_scores is None:
            return found
        constant = _constant(solved.kernel, solved.gram)
        return replace(found, calibration_scores=2.0 * found.calibration_scores - constant - found.squared_norm)

    def _far_score(self, training: Training, solved: Solved) -> None:
        """Return None: of rows far away k(x, x) - 2 <Phi(x), a> is never less than of the samples."""
        del training, solved

    def score_along(self, along: FloatArray, X: Any) -> FloatArray:
        return 2.0 * along - self.model_.squared_lengths(X) - self.model_.squared_norm

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _statement(self) -> tuple[str, str]:
        return f"nu {self.nu:g}", f"ball             |Phi(x) - a| <= {self.radius_:.6g}"

    def _diagnosis(self) -> str:
        return self._equal_scores_warning() or self._planes_warning()


def _constant(kernel: Kernel | None, gram: Gram) -> float:
    """Return k(x, x) where it is the same for all samples, else 0."""
    return common_length(kernel, gram, "Ball") or 0.0
