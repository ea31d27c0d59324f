"""Sample weights in a search: handed to every step that takes them, and rows in proportion to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _check_sample_weight, _num_samples, has_fit_parameter

FloatArray = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

# Strangers are made of so many rows, or of all distinct ones if these are more, where rows differ in weight.
PROPORTIONATE = 1000


def checked_weights(sample_weight: Any, X: Any) -> FloatArray | None:
    """Return the weights of the rows, (n,), as numbers, or None where all weigh alike."""
    if sample_weight is None:
        return None
    n_samples = _num_samples(X)
    weights: FloatArray = _check_sample_weight(
        sample_weight, np.empty((n_samples, 0)), dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError(
            "All sample weights are zero, so that there is nothing to learn from; give at least one sample a positive "
            "weight, or leave sample_weight out."
        )
    return weights


def routed(model: Any, weights: FloatArray | None) -> dict[str, Any]:
    """Return the parameters of fit by which a detector, or every step of a pipeline that takes them, gets weights."""
    if weights is None:
        return {}
    if not isinstance(model, Pipeline):
        _refuse_without(model)
        return {"sample_weight": weights}
    _refuse_without(model[-1])
    takers = [name for name, step in model.steps if has_fit_parameter(step, "sample_weight")]
    return {f"{name}__sample_weight": weights for name in takers}


def routed_before(model: Pipeline, weights: FloatArray | None) -> dict[str, Any]:
    """Return the same for the steps before the detector, `model` being these alone."""
    if weights is None:
        return {}
    return {f"{name}__sample_weight": weights for name, step in model.steps if has_fit_parameter(step, "sample_weight")}


def in_proportion(weights: FloatArray) -> Rows:
    """Return which of k distinct rows, (k,), stand for all of them, each as often as its weight asks, in order.

    Equal weights, each row once. Others, at even steps along the sum of weights, PROPORTIONATE rows, or k if that is
    more: rows that repeat and rows that weigh more give the same.
    """
    k = len(weights)
    if (weights == weights[0]).all():
        return np.arange(k)
    n = max(k, PROPORTIONATE)
    reached = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(reached, (np.arange(n) + 0.5) / n), k - 1)


def _refuse_without(detector: Any) -> None:
    if not has_fit_parameter(detector, "sample_weight"):
        raise ValueError(
            f"{type(detector).__name__} takes no sample_weight, so that a search over it cannot either. Leave "
            "sample_weight out, or search over a detector that takes it."
        )
