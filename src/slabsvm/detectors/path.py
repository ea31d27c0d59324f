"""Models along a path of parameters: each fit starts from the solution of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.fitted.model import Start
from slabsvm.fitted.training import Training
from slabsvm.gram.base import SMALL, Gram
from slabsvm.gram.computed import gram_of
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime.sklearn_private import validate_parameters

Model = TypeVar("Model", bound=SupportVectorDetector)


def fit_path(
    model: Model, X: Any, *, sample_weight: Any = None, groups: Any = None, **values: Iterable[Any]
) -> Iterator[Model]:
    """Fit a model at each value of one parameter, or of several that change together.

    Each fit starts from the last one's solution, so give neighbouring values in order. Each model equals an independent
    fit to within tol.

    Parameters
    ----------
    model : OneClassSlabSVM, OneClassSVM or SVDD
        The model with the common parameters. It is neither fitted nor changed.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        As for the model's `fit`. Do not change it before the last model was taken.
    sample_weight, groups : array-like of shape (n_samples,), default=None
        As for the model's `fit`.
    **values : iterables of one length
        Values of the model's parameters, for example gamma=[.1, .2, .4] or nu_lower=[.05, .1].

    Yields
    ------
    model : as the given one
        Fitted at each value in turn, when it is asked for.

    Raises
    ------
    TypeError
        For any other model, such as a pipeline, and for values that are not a list.
    ValueError
        Before the first fit: if there are no values, for iterables of different lengths, for names that are not
        parameters, and for invalid values. Later, what `fit` raises.

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
            f"A path is for OneClassSlabSVM(), OneClassSVM() and SVDD(), not {model!r}. For a pipeline, transform the "
            "data first and pass the last step."
        )
    steps = _steps(values)
    for step in steps:
        validate_parameters(clone(model).set_params(**step))
    return _fits(model, lambda validated: validated.training(X, sample_weight, groups), steps)


def _steps(values: dict[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return the parameters of each fit."""
    for name, column in values.items():
        if isinstance(column, str) or not np.iterable(column):
            raise TypeError(f"{name} must be a list of values, as in fit_path(model, X, {name}=[{column!r}]).")
    columns = [list(column) for column in values.values()]
    lengths = {name: len(column) for name, column in zip(values, columns, strict=True)}
    if not columns or len(set(lengths.values())) > 1 or not columns[0]:
        raise ValueError(
            "Give at least one value of a parameter, as in fit_path(model, X, gamma=[0.1, 0.2]), and equally many of "
            f"each parameter; got {lengths or 'none'}."
        )
    return [dict(zip(values, step, strict=True)) for step in zip(*columns, strict=True)]


def _fits(model: Model, validate: Callable[[Model], Training], steps: list[dict[str, Any]]) -> Iterator[Model]:
    last: tuple[Any, Gram | None] = (None, None)

    def access(kernel: Kernel, samples: Any, n_threads: int) -> Gram:
        """Return access to K, the same while gamma is: such fits share what they know of K."""
        nonlocal last
        key, gram = (kernel.gamma, kernel.differences, n_threads) if isinstance(kernel, RBF) else None, last[1]
        if gram is None or key is None or key != last[0]:
            gram = gram_of(kernel, samples, n_threads)
            gram = gram.held() if gram.n_samples <= SMALL else gram
            last = key, gram
        return gram

    start: Start | None = None
    training: Training | None = None
    for step in steps:
        if training is None or "kernel" in step:
            # What the rows are validated for depends on the kernel alone.
            validated = clone(model).set_params(**step)
            training = validate(validated)
        fitted = copy(validated).set_params(**step)
        start = fitted.fit_training(training, gram_of=access, start=start).start
        yield fitted
