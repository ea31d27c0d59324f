"""Every private name of scikit-learn that slabsvm uses, in one place: these may change from one version to the next.

What parameters may be beyond its constraints is here, too. pyproject.toml bounds the versions on both sides:
./scripts/matrix tests the oldest and the newest that it allows.
"""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _check_sample_weight, _num_samples

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
    "nearest_of",
    "validate_parameters",
]


def validate_parameters(estimator: Any) -> None:
    """Raise scikit-learn's InvalidParameterError, a ValueError, for parameters that an estimator's `fit` refuses."""
    estimator._validate_params()


class FiniteReal(Interval):
    """Real numbers from `least` on that are numbers of float64: 10**400 is none, though finite."""

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

    With return_distance also the distances, (n, k). Each thread takes rows of its own, so that their number changes no
    bit.
    """
    from sklearn.metrics._pairwise_distances_reduction import ArgKmin

    found = ArgKmin.compute(
        X=rows, Y=samples, k=k, metric="euclidean", strategy="parallel_on_X", return_distance=return_distance
    )
    return (found[1], found[0]) if return_distance else found
