"""The detector at the end of pipelines and searches, and what stands before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline


def unwrapped(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the steps before the detector at the end of pipelines and fitted searches, by their names, and it."""
    if isinstance(model, Pipeline):
        before, final = unwrapped(model[-1])
        own = [(name, step) for name, step in model.steps[:-1] if step not in (None, "passthrough")]
        return [*own, *before], final
    return unwrapped(model.best_estimator_) if hasattr(model, "best_estimator_") else ([], model)


def final_detector(model: Any) -> Any:
    """Return the detector at the end of pipelines and fitted searches: the model itself if it is neither."""
    return unwrapped(model)[1]


def predict_learned(model: Any, X: Any) -> npt.NDArray[np.intp]:
    """Return what `fit_predict` answers rows that a pipeline, a search or a detector was fitted to, (n_samples,)."""
    final = final_detector(model)
    # A detector of another library knows no row without itself.
    return np.asarray(
        final._predict_learned(as_taken(model, X)) if hasattr(final, "_predict_learned") else model.predict(X)
    )


def as_taken(model: Any, X: Any) -> Any:
    """Return rows as the detector at the end of fitted pipelines and searches takes them."""
    return taken_by(unwrapped(model)[0], X)


def taken_by(steps: Iterable[tuple[str, Any]], X: Any) -> Any:
    """Return rows as what comes behind some steps takes them."""
    for _, step in steps:
        X = step.transform(X)
    return X
