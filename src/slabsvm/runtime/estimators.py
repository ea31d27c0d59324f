"""What estimators are made of: scikit-learn's private names, and methods that change all or nothing.

Every private name of scikit-learn that slabsvm uses is here, as these may change from one version to the next:
pyproject.toml bounds the versions on both sides, and ./scripts/matrix tests the oldest and the newest that it allows.
What parameters may be beyond its constraints is here, too, with seeds, and properties that are computed once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import get_config, set_config
from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _check_sample_weight, _num_samples

from slabsvm.runtime.blas import safe_openmp

__all__ = [
    "FiniteReal",
    "HasMethods",
    "Interval",
    "StrOptions",
    "_check_method_params",
    "_check_sample_weight",
    "_fit_context",
    "_num_samples",
    "_safe_indexing",
    "_safe_split",
    "atomic",
    "cached_property",
    "nearest_of",
    "seed_of",
    "validate_parameters",
]


Method = TypeVar("Method", bound=Callable[..., Any])
Value_co = TypeVar("Value_co", covariant=True)


def validate_parameters(estimator: Any) -> None:
    """Raise scikit-learn's InvalidParameterError, a ValueError, for parameters that an estimator's `fit` refuses."""
    estimator._validate_params()


class FiniteReal(Interval):
    """Real numbers from `least` on that float64 holds; it does not hold 10**400, though that is finite."""

    def __init__(self, least: float, *, closed: str) -> None:
        super().__init__(Real, least, None, closed=closed)

    def is_satisfied_by(self, val: Any) -> bool:
        """Return whether val is such a number."""
        try:
            return bool(super().is_satisfied_by(val)) and float(val) < np.inf
        except OverflowError:
            return False

    def __str__(self) -> str:
        """Say so in the text of a refusal."""
        return str(super().__str__()).replace("a float", "a finite float", 1)


def nearest_of(rows: Any, samples: Any, k: int, *, return_distance: bool = False) -> Any:
    """Return the numbers of the k nearest of samples, (m, d), for each of rows, (n, d), both dense or CSR of float64.

    With return_distance also the distances, (n, k). Each thread takes rows of its own, so that the number of
    threads changes no bit.
    """
    from sklearn.metrics._pairwise_distances_reduction import ArgKmin

    with safe_openmp():
        found = ArgKmin.compute(
            X=rows, Y=samples, k=k, metric="euclidean", strategy="parallel_on_X", return_distance=return_distance
        )
    return (found[1], found[0]) if return_distance else found


def atomic(method: Method) -> Method:
    """Return a method that changes its object once, when it has succeeded.

    The method works on a copy, whose attributes are taken over by one assignment: an exception at any moment leaves the
    object unchanged, and a thread that uses it meanwhile sees the old attributes. scikit-learn's configuration is as
    before, too: interrupted inside of its `config_context`, it would go on without validation of parameters in this
    thread.
    """

    @functools.wraps(method)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        successor = object.__new__(type(self))
        successor.__dict__.update(self.__dict__)
        configuration = get_config()
        try:
            answer = method(successor, *args, **kwargs)
        except BaseException:
            set_config(**configuration)
            raise
        self.__dict__ = dict(successor.__dict__)
        return self if answer is successor else answer

    return cast(Method, whole)


def seed_of(random_state: Any) -> int:
    """Return a seed drawn from a random_state of scikit-learn's: an int, a RandomState or None."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


class cached_property(functools.cached_property[Value_co]):  # noqa: N801 - as that of functools
    """`functools.cached_property` as it is from Python 3.12 on, without a lock, on which threads and forked processes
    wait.
    """

    def __init__(self, compute: Callable[[Any], Value_co]) -> None:
        super().__init__(compute)
        self.lock = nullcontext()
