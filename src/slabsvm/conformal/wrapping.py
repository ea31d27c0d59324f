"""An estimator around a detector of any library, with tables of any kind that this takes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import reading
from slabsvm.detectors.base import takes_unnamed
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.runtime.arrays import FloatArray


class Wrapping(BaseEstimator):
    """An estimator whose parameter `estimator` is a detector, or None for `OneClassSlabSVM()`."""

    estimator: Any

    @property
    def _detector(self) -> Any:
        return OneClassSlabSVM() if self.estimator is None else self.estimator

    def explain(self, X: Any) -> FloatArray:
        """Return what each feature adds to the decision of each row, shape (n_samples, n_features).

        Rows add up to decision_function; those of an `OpenSetClassifier` to the largest of a row's `decisions`, which
        is that of the class that it comes nearest to, whether it is accepted or unknown. A negative share pushes the
        row out. They are the estimator's own shares, carried over to p-values, or whatever the decision is made of: a
        typical row has typical shares, and what sets a row apart grows or shrinks as the decision does. Of several
        models (method="cross") they are the mean.

        Raises
        ------
        ValueError
            For an estimator that `slabsvm.explain` refuses, and beside a classifier.
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
                raise ValueError(
                    "Rows are expected in a table of two dimensions. Reshape your data: X.reshape(1, -1) is one row."
                )
            # scikit-learn's check takes .1 ms to find out that an array has no names.
            unnamed = type(X) is np.ndarray and X.ndim == 2
            if not (unnamed and takes_unnamed(self, X.shape[1], reset=reset)):
                validate_data(self, X=X, reset=reset, skip_check_array=True)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._detector).input_tags
        return tags
