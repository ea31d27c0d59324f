"""Sample weights for detectors of any kind: who takes them, and how a pipeline hands them on."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _check_sample_weight

from slabsvm.dual.program import FloatArray


def checked_weights(sample_weight: Any, X: Any) -> FloatArray:
    """Return weights of the rows of X as numbers, shape (n_samples,): ones for None; refuse negative and no weight."""
    if sample_weight is not None and not np.any(sample_weight):
        raise ValueError(
            "All sample weights are zero, so that there is nothing to learn from; leave sample_weight out."
        )
    weights: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return weights


def fit_with(detector: Any, X: Any, parameters: Mapping[str, Any]) -> Any:
    """Fit a detector with these parameters of its fit, and return it.

    A pipeline's sample_weight goes to each step that takes one.

    Raises
    ------
    ValueError
        For a sample_weight that the detector does not take.
    """
    given = dict(parameters)
    weight = given.pop("sample_weight", None)
    if weight is None:
        return detector.fit(X, **given)
    final = detector[-1] if isinstance(detector, Pipeline) else detector
    if not _takes_weight(final):
        raise ValueError(
            f"{type(final).__name__}.fit takes no sample_weight. Leave it out, repeat rows as often as their weights "
            "say, or use a detector that takes weights."
        )
    if not isinstance(detector, Pipeline):
        return detector.fit(X, sample_weight=weight, **given)
    steps = {f"{name}__sample_weight": weight for name, step in detector.steps if _takes_weight(step)}
    return detector.fit(X, **steps, **given)


def _takes_weight(step: Any) -> bool:
    fit = getattr(step, "fit", None)
    return fit is not None and any(
        parameter.name == "sample_weight" or parameter.kind is Parameter.VAR_KEYWORD
        for parameter in signature(fit).parameters.values()
    )
