"""How sure a classifier of any library is of each class."""

from __future__ import annotations

from copy import copy
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from slabsvm.conformal.remoteness import innermost
from slabsvm.fitted.weighting import routed
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.sklearn_private import _safe_indexing

# A table of decisions tells known from unknown better than the probabilities that are made of it, which add up to 1.
METHODS = ("decision_function", "predict_proba")


def fitted_classifier(classifier: Any, X: Any, y: npt.NDArray[Any], weights: FloatArray | None) -> Any:
    """Return a clone that has learned the rows X of classes y, in a joblib worker."""
    model = clone(classifier)
    return model.fit(X, y, **routed(model, weights))


def confidences(classifier: Any, X: Any, classes: npt.NDArray[Any]) -> FloatArray:
    """Return how sure a fitted classifier is of each class, shape (n_samples, n_classes); the name is the largest.

    Of a support vector classifier that has learned pairs of classes (`sklearn.svm.SVC`, `NuSVC`) this is the least of a
    class's margins against the others. Its own decision_function counts the pairs that a class wins, of which a sample
    of no known class has as many. Of others it is decision_function, or else predict_proba.

    Raises
    ------
    ValueError
        For what is no classifier, for one that has neither, or no column for each class, and for NaN.
    """
    if not hasattr(classifier, "classes_"):
        raise ValueError(
            f"{type(classifier).__name__} is no classifier: its fit sets no classes_. Give one, such as SVC()."
        )
    if not np.array_equal(classifier.classes_, classes):
        raise ValueError(f"{_name(classifier)} has learned other classes than those of y; give one that keeps labels.")
    final, _ = innermost(classifier)
    # Of rows far out sums overflow, and what comes of it is looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(final, "decision_function_shape") and len(classes) > 2:
            table = _least_margins(*innermost(classifier, X), len(classes))
        else:
            table = _table(classifier, X)
    if table.shape[1] != len(classes):
        raise ValueError(
            f"{_name(classifier)} gives {table.shape[1]} columns for {len(classes)} classes; it must give one for each."
        )
    if np.isnan(table).any():
        raise ValueError(f"{_name(classifier)} is NaN for some sample and class; it cannot say how sure it is.")
    return table


def confidences_if_any(classifier: Any, X: Any, classes: npt.NDArray[Any], deciding: BoolArray) -> FloatArray:
    """Return `confidences`, with -inf for rows of which the classifier has none and whose names do not depend on it.

    deciding, (n_samples,), says whose do. Classifiers refuse rows far out, or give NaN: forests beyond float32, linear
    ones where sums overflow.
    """
    try:
        return confidences(classifier, X, classes)
    except ValueError:
        if deciding.all():
            raise
    if len(deciding) == 1:
        return np.full((1, len(classes)), -np.inf)
    half = len(deciding) // 2
    parts = (slice(0, half), slice(half, len(deciding)))
    return np.concatenate(
        [confidences_if_any(classifier, _safe_indexing(X, some), classes, deciding[some]) for some in parts]
    )


def _table(classifier: Any, X: Any) -> FloatArray:
    method = next((name for name in METHODS if hasattr(classifier, name)), None)
    if method is None:
        raise ValueError(
            f"{_name(classifier)} has neither decision_function nor predict_proba, so that it cannot say how sure it "
            "is of a name. Give one that has, or wrap it in CalibratedClassifierCV."
        )
    values = np.asarray(getattr(classifier, method)(X), dtype=np.float64)
    # With two classes, one number is how sure it is of the second.
    return np.column_stack([-values, values]) if values.ndim == 1 else values


def _least_margins(final: Any, X: Any, n_classes: int) -> FloatArray:
    """Return each class's least margin against another, of a classifier that has learned all pairs."""
    pairwise = copy(final)
    pairwise.decision_function_shape = "ovo"
    margins = np.asarray(pairwise.decision_function(X), dtype=np.float64)
    table = np.full((len(margins), n_classes), np.inf)
    for margin, (first, second) in zip(margins.T, combinations(range(n_classes), 2), strict=True):
        table[:, first] = np.minimum(table[:, first], margin)
        table[:, second] = np.minimum(table[:, second], -margin)
    return table


def _name(classifier: Any) -> str:
    return f"The classifier {type(classifier).__name__}"
