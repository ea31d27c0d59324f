"""What wraps any detector has in common: its tables, the reasons of its decisions, and what it warns of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.conformal.remoteness import innermost
from slabsvm.data.checks import reading
from slabsvm.detectors.base import takes_unnamed
from slabsvm.detectors.linear_slab import LinearOneClassSlabSVM
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.runtime.arrays import FloatArray

# The largest number of calibration samples that a message asks for.
MOST_SAMPLES = 1e15

# What the warnings of one calibration and of several classes' have in common.
FAR_REMEDY = (
    "If a score grows or levels off with distance, use two_sided=True, SVDD or the RBF kernel. If calibration scores "
    "tie at the lowest, use a smoother estimator (a smaller gamma)."
)
REACH_REMEDY = (
    "They score like rows infinitely far away, and only their kernel mass decides what is accepted there. Use a "
    "smaller gamma, or more samples."
)
BY_CHANCE = "rounding of its scores may decide which rows are rejected, and whether rows infinitely far away are"


class CalibrationWarning(UserWarning):
    """A calibration keeps its rate, and yet accepts every row, or rows that are far away, or separates no rows."""


class Wrapping(BaseEstimator):
    """An estimator whose parameter `estimator` is a detector, or None for `OneClassSlabSVM()`."""

    estimator: Any

    @property
    def _detector(self) -> Any:
        return OneClassSlabSVM() if self.estimator is None else self.estimator

    def explain(self, X: Any) -> FloatArray:
        """Return what each feature adds to the decision of each row, shape (n_samples, n_features).

        The shares of a row add up to its decision_function. In an `OpenSetClassifier` they add up to the largest of its
        `decisions`: that of the nearest class, whether the row is accepted or unknown. A negative share pushes the row
        out. The shares are those of the estimator, rescaled to p-values. A typical row has typical shares; what makes a
        row differ from it grows or shrinks as the decision does. With several models (method="cross") they are the
        mean.

        Raises
        ------
        ValueError
            For an estimator that `slabsvm.explain` refuses, and with a classifier.
        """
        check_is_fitted(self)
        return np.ascontiguousarray(self._shares(self._table(X, reset=False)))

    @abstractmethod
    def _shares(self, X: Any) -> FloatArray:
        """Return what each feature adds to the decisions of a table's rows."""

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Return a table whose rows can be indexed; its values are for the detector to check."""
        with reading(X):
            X = indexable(X)[0]
            if not reset and np.ndim(X) == 1:
                raise ValueError("X must be a table of two dimensions. Reshape your data: X.reshape(1, -1) is one row.")
            # scikit-learn's check takes .1 ms to find out that an array has no names.
            unnamed = type(X) is np.ndarray and X.ndim == 2
            if not (unnamed and takes_unnamed(self, X.shape[1], reset=reset)):
                validate_data(self, X=X, reset=reset, skip_check_array=True)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._detector).input_tags
        return tags


def found_no_direction(detectors: Sequence[Any]) -> list[str]:
    """Return the warnings of those fits of some detectors that found w = 0.

    What a solver leaves of such a w is rounding, or depends on where it stopped. Scores order rows by it that are as
    exchangeable as by any other, so that the rate is kept; but which rows are rejected is chance.
    """
    models = [innermost(detector)[0] for detector in detectors]
    # A ball needs no direction: around the origin it tells near from far.
    kinds = (OneClassSlabSVM, OneClassSVM, LinearOneClassSlabSVM)
    return [model.warning_ for model in models if isinstance(model, kinds) and model.status_ == "degenerate"]
