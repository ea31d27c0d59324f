"""Models along a path of parameters: each fit starts from the last one's solution, and keeps its distances."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from slabsvm.distances import SharedDistances
from slabsvm.support import SupportVectorDetector

Model = TypeVar("Model", bound=SupportVectorDetector)

# Distances are kept of samples with so many features or more; of fewer, computing them anew was measured to be cheaper.
MANY_FEATURES = 400
# Of cache_size they take this share, and each fit the rest.
SHARE_OF_DISTANCES = 0.5


def fit_path(model: Model, X: Any, sample_weight: Any = None, **values: Iterable[Any]) -> Iterator[Model]:
    """Fit a model at each value of one parameter, or of several that change together.

    Each fit starts from the last one's solution, so give neighbouring values in order; of samples with hundreds of
    features, an RBF kernel's distances are kept, in half of cache_size. Each model is what an independent fit would be,
    to within tol.

    Parameters
    ----------
    model : OneClassSlabSVM, OneClassSVM or SVDD
        What all fits have in common; it is not fitted, nor changed.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        As for the model's `fit`.
    sample_weight : array-like of shape (n_samples,), default=None
        As for the model's `fit`.
    **values : iterables of one length
        Values of the model's parameters, for example gamma=[.1, .2, .4] or nu_lower=[.05, .1].

    Yields
    ------
    model : as the given one
        Fitted at each value in turn, as soon as the last one was asked for.

    Raises
    ------
    TypeError
        For a model that is none of the above, such as a pipeline.
    ValueError
        For no values, iterables of different lengths, or names that are no parameters; and what `fit` raises.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import OneClassSlabSVM, fit_path
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> [model.gamma_ for model in fit_path(OneClassSlabSVM(), X, gamma=[0.1, 0.2, 0.4])]
    [0.1, 0.2, 0.4]
    """
    if not isinstance(model, SupportVectorDetector):
        raise TypeError(
            f"A path is for OneClassSlabSVM, OneClassSVM and SVDD, not {type(model).__name__}. Of a pipeline, "
            "transform the data first and pass the last step; LabelFreeSearchCV takes any detector."
        )
    steps = [dict(zip(values, step, strict=True)) for step in _together(values)]
    for step in steps:
        clone(model).set_params(**step)
    return _fits(model, X, sample_weight, steps)


def _together(values: dict[str, Iterable[Any]]) -> list[tuple[Any, ...]]:
    columns = [list(column) for column in values.values()]
    lengths = {name: len(column) for name, column in zip(values, columns, strict=True)}
    if not columns or len(set(lengths.values())) > 1 or not columns[0]:
        raise ValueError(
            "Give at least one value of a parameter, as in fit_path(model, X, gamma=[0.1, 0.2]), and as many of every "
            f"other one; there are {lengths or 'none'}."
        )
    return list(zip(*columns, strict=True))


def _fits(model: Model, X: Any, sample_weight: Any, steps: list[dict[str, Any]]) -> Iterator[Model]:
    walker: Any = clone(model)
    share = SHARE_OF_DISTANCES if model.kernel == "rbf" and np.shape(X)[-1] >= MANY_FEATURES else 0.0
    if share:
        walker._gram_of = SharedDistances(share * model.cache_size * 1e6).gram_of
    for step in steps:
        walker.set_params(**step)
        asked = {name: getattr(walker, name) for name in ("warm_start", "cache_size")}
        walker.set_params(warm_start=True, cache_size=(1 - share) * walker.cache_size)
        walker.fit(X, sample_weight=sample_weight)
        walker.set_params(**asked)
        fitted = copy.copy(walker)
        fitted.__dict__.pop("_gram_of", None)
        if not fitted.warm_start:
            fitted._last = None
        yield fitted
