"""Sample weights and groups for detectors of any library: who takes them, and how a pipeline hands them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config

from slabsvm.data.checks import reading
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.sklearn_private import _check_sample_weight, _num_samples

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


def checked_weights(sample_weight: Any, X: Any) -> FloatArray | None:
    """Return the weights of the rows of X as numbers, shape (n_samples,), or None where all weigh alike.

    Raises ValueError for negative weights, and where all are zero.
    """
    if sample_weight is None:
        return None
    with reading(sample_weight, "sample_weight"):
        given = np.asarray(sample_weight)
        # Before scikit-learn says it, from some version on, without a remedy. Texts are refused below.
        if given.dtype.kind != "U" and not given.any():
            raise ValueError(
                "All sample weights are zero, so there is nothing to learn from. Give at least one sample a positive "
                "weight, or leave sample_weight out."
            )
        rows = np.empty((_num_samples(X), 0))
        weights: FloatArray = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    return weights


def routed(model: Any, weights: Any) -> dict[str, Any]:
    """Return the parameters of fit by which a detector, or every step of a pipeline that takes them, gets weights.

    Raises ValueError for weights that the detector does not take.
    """
    # It loads what draws estimators in notebooks, which one that is not in a pipeline does without.
    from sklearn.pipeline import Pipeline

    if weights is None:
        return {}
    final = model[-1] if isinstance(model, Pipeline) else model
    if not _takes_weight(final):
        raise ValueError(
            f"{type(final).__name__}.fit takes no sample_weight. Leave it out, repeat rows as often as their weights "
            "say, or use a detector that takes weights."
        )
    return routed_before(model, weights) if isinstance(model, Pipeline) else {"sample_weight": weights}


def routed_before(steps: Pipeline, weights: Any) -> dict[str, Any]:
    """Return the same for steps of a pipeline of which none need take weights."""
    if weights is None:
        return {}
    taking = [name for name, step in steps.steps if _takes_weight(step)]
    return _to_steps(taking, "sample_weight", weights) if taking else {}


def fit_with(detector: Any, X: Any, parameters: Mapping[str, Any]) -> Any:
    """Fit a detector with these parameters of its fit, a pipeline's sample_weight and groups routed, and return it."""
    from sklearn.pipeline import Pipeline

    given = dict(parameters)
    weights, groups = given.pop("sample_weight", None), given.pop("groups", None)
    if groups is not None and takes_groups(detector):
        given |= (
            _to_steps([detector.steps[-1][0]], "groups", groups)
            if isinstance(detector, Pipeline)
            else {"groups": groups}
        )
    return detector.fit(X, **given, **routed(detector, weights))


def takes_groups(model: Any) -> bool:
    """Return whether the fit of a detector, or of the last step of a pipeline, takes groups of rows."""
    from sklearn.pipeline import Pipeline

    final = model[-1] if isinstance(model, Pipeline) else model
    return "groups" in signature(final.fit).parameters


def _to_steps(names: Sequence[str], parameter: str, value: Any) -> dict[str, Any]:
    """Return the parameters of a pipeline's fit by which these steps get a value, if they ask for it under routing."""
    if get_config()["enable_metadata_routing"]:
        return {parameter: value}
    return {f"{name}__{parameter}": value for name in names}


def _takes_weight(step: Any) -> bool:
    fit = getattr(step, "fit", None)
    return fit is not None and any(
        parameter.name == "sample_weight" or parameter.kind is Parameter.VAR_KEYWORD
        for parameter in signature(fit).parameters.values()
    )
