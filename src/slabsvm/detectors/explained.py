"""Explanations of models in models: a detector at the end of a pipeline, or the best one of a search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import Normalizer
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.explanation import Explanation
from slabsvm.detectors.pipelines import as_taken, unwrapped
from slabsvm.runtime.arrays import FloatArray

# Their features have the names of those that they are given, and depend on the whole row: its length.
MIXERS = (Normalizer, TfidfTransformer)


def explain(model: Any, X: Any) -> FloatArray:
    """Return what each feature adds to the decision of each row, shape (n_samples, n_features).

    That is `model.explain(X)`, for pipelines and searches too: a step that takes each feature by itself, such as a
    scaler, leaves shares as they are.

    Parameters
    ----------
    model : fitted detector of this package, or a pipeline that ends in one, or a search for either
        Of an `OpenSetClassifier` rows add up to the largest of a row's decisions.
    X : array-like or sparse matrix of shape (n_samples, n_features)

    Returns
    -------
    shares : (n_samples, n_features) array of float64
        Rows add up to the decision_function. A negative share pushes the row out.

    Raises
    ------
    ValueError
        For a step that mixes features, a kernel that does not know them one by one, and detectors of other libraries.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from slabsvm import OneClassSlabSVM, explain
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = make_pipeline(StandardScaler(), OneClassSlabSVM()).fit(X)
    >>> explain(model, [[0.0, 7.0, 0.0]]).argmin(axis=1)
    array([1])
    """
    final, rows = last_step(model, X)
    if not hasattr(final, "explain"):
        raise _silent(final)
    return np.asarray(final.explain(rows))


def explanation_of(model: Any, X: Any) -> Explanation:
    """Return the explanation of rows by a fitted model, a pipeline or a search."""
    final, rows = last_step(model, X)
    if not hasattr(final, "_explanation"):
        raise _silent(final)
    found: Explanation = final._explanation(rows)
    return found


def last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the detector at the end of pipelines and searches, and rows as it takes them, feature by feature.

    Raises ValueError for a step that makes other features of those given.
    """
    check_is_fitted(model)
    before, final = unwrapped(model)
    refuse_mixers(before)
    return final, as_taken(model, X)


def refuse_mixers(steps: Iterable[tuple[str, Any]]) -> None:
    """Raise ValueError where one of a pipeline's steps makes other features of those given."""
    for name, step in steps:
        if not isinstance(step, OneToOneFeatureMixin) or isinstance(step, MIXERS):
            raise ValueError(
                f"The pipeline's step {name!r} ({type(step).__name__}) makes other features of those given, so "
                "that shares of the latter are unknown. Explain what it makes of them: "
                "pipeline[-1].explain(pipeline[:-1].transform(X))."
            )


def _silent(final: Any) -> ValueError:
    """Return the error of a detector that does not say what features add."""
    return ValueError(
        f"{type(final).__name__} is no detector of this package, and does not say what each feature adds to a "
        "decision. AutoSlabSVM and the other detectors here do."
    )
