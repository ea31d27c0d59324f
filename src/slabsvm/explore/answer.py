"""The answer to a question: a slab that is fitted to its points, and where its grid lies along w."""

from __future__ import annotations

import base64
import threading
import time
import warnings
from typing import Any

import numpy as np

from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.explore.question import Question
from slabsvm.runtime.arrays import FloatArray


class EndedError(Exception):
    """No question is answered any more."""


class Answerer:
    """Fits one question after the other, each from the last one's solution, until it is ended."""

    def __init__(self) -> None:
        # A slab may be so narrow that a gap of the default tol would show; and tables would put positions off.
        self._model = OneClassSlabSVM(warm_start=True, tol=1e-6, prediction_tol=0.0)
        # Warnings are caught for the whole process.
        self._one_at_a_time = threading.Lock()
        self._ended = False

    def end(self) -> None:
        """Answer none of the questions that wait; the one that is being answered is answered."""
        self._ended = True

    def answer(self, question: Question) -> dict[str, Any]:
        """Return what the page shows, as plain values for JSON.

        Raises ValueError where the parameters or the points make no slab; the text says what to do. Raises EndedError
        where its turn comes after the end.
        """
        with self._one_at_a_time, warnings.catch_warnings(record=True) as caught:
            if self._ended:
                raise EndedError
            warnings.simplefilter("always")
            begun = time.perf_counter()
            model = self._model.set_params(**question.parameters).fit(question.points)
            answer = _read_off(model, question)
            answer["milliseconds"] = 1e3 * (time.perf_counter() - begun)
        answer["warnings"] = list(dict.fromkeys(str(one.message) for one in caught))
        return answer


def _read_off(model: OneClassSlabSVM, question: Question) -> dict[str, Any]:
    nodes = np.stack(np.meshgrid(question.across, question.up), axis=-1).reshape(-1, 2)
    coefficients = np.zeros(len(question.points))
    coefficients[model.support_] = model.dual_coef_[0]
    left_out = question.parameters["offsets"] == "leave-one-out"
    return {
        "positions": _packed(model.project(nodes)),
        "rho_lower": model.rho_lower_,
        "rho_upper": None if np.isinf(model.rho_upper_) else model.rho_upper_,
        "gamma": getattr(model, "gamma_", None),
        "objective": model.dual_objective_,
        "gap": model.duality_gap_,
        "relative_gap": model.relative_gap_,
        "status": model.status_,
        "expected_recall": model.expected_recall_,
        "points": {
            "coefficients": coefficients.tolist(),
            "positions": model.project(question.points).tolist(),
            "left_out": model.loo_scores_.tolist() if left_out else None,
            "accepted": (model.predict(question.points) == 1).tolist(),
        },
        "strangers": _judged(model, question.strangers),
    }


def _judged(model: OneClassSlabSVM, strangers: FloatArray) -> dict[str, list[float]]:
    if not len(strangers):
        return {"positions": [], "decisions": []}
    return {
        "positions": model.project(strangers).tolist(),
        "decisions": model.decision_function(strangers).tolist(),
    }


def _packed(values: FloatArray) -> str:
    """Return numbers as base64 of little-endian float64: a fifth of the time that decimals take, and exact."""
    return base64.b64encode(values.astype("<f8").tobytes()).decode("ascii")
