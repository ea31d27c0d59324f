"""Which way a detector's scores run: larger is more normal here and in scikit-learn, and stranger in some libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.detectors.base import Detector

REMEDY = (
    "Wrap it in a class whose decision_function is minus this one's and whose predict gives +1 for rows that are "
    "accepted and -1 for the others, as scikit-learn's detectors do."
)


def refuse_other_polarity(detector: Any, X: Any, values: npt.NDArray[np.float64]) -> None:
    """Raise ValueError where larger values of a fitted detector are stranger, as far as its predictions tell.

    Parameters
    ----------
    detector : fitted detector
    X : rows that it has answered
    values : (n_samples,) array
        What its decision_function gave them.
    """
    if isinstance(detector, Detector) or not hasattr(detector, "predict"):
        return
    name, answers = type(detector).__name__, np.asarray(detector.predict(X))
    if answers.shape != values.shape:
        return
    # The predict of a mixture names a component.
    names_components = hasattr(detector, "score_samples") and not hasattr(detector, "decision_function")
    if np.isin(answers, (0, 1)).all() and (answers == 0).any() and not names_components:
        raise ValueError(
            f"{name}.predict answers 0 and 1, as in libraries where 1 is an outlier and a larger score is stranger "
            f"(PyOD); here larger is more normal, and every answer would be inverted. {REMEDY}"
        )
    high, low = values[answers == -1], values[answers == 1]
    if len(high) and len(low) and high.min() >= low.max() and high.max() > low.min():
        raise ValueError(
            f"{name} gives the rows that it rejects larger scores than those that it accepts, so that its scores run "
            f"the other way: larger must be more normal. {REMEDY}"
        )
