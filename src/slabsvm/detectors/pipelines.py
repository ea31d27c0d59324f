"""The detector at the end of pipelines and searches, and what stands before it."""

from __future__ import annotations

from typing import Any

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


def as_taken(model: Any, X: Any) -> Any:
    """Return rows as the detector at the end of fitted pipelines and searches takes them."""
    for _, step in unwrapped(model)[0]:
        X = step.transform(X)
    return X
