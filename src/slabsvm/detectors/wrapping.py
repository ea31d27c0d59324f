"""The base class of estimators around a detector: checked tables, labels and explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import reading
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.runtime.arrays import FloatArray


class Wrapping(BaseEstimator):
    """An estimator whose parameter `estimator` is a detector, or None for `OneClassSlabSVM()`."""

    estimator: Any
    _explanation: Any

    @property
    def _detector(self) -> Any:
        return OneClassSlabSVM() if self.estimator is None else self.estimator

    def explain(self, X: Any) -> FloatArray:
        """Return what each feature adds to the decision of each row, shape (n_samples, n_features).

        The shares of a row add up to its decision_function. A negative share pushes the row out. They are the
        estimator's shares, rescaled to p-values. Raises ValueError for an estimator that `slabsvm.explain` refuses, and
        of an `OpenSetClassifier`, whose `models_` explain.
        """
        check_is_fitted(self)
        return np.ascontiguousarray(self._shares(self._table(X, reset=False)))

    def _shares(self, X: Any) -> FloatArray:
        return np.asarray(self._explanation(X).shares)

    def decision_function(self: Any, X: Any) -> FloatArray:
        """Return ``score_samples(X) - offset_``, shape (n_samples,): >= 0 for rows that are accepted."""
        decision: FloatArray = self.score_samples(X) - self.offset_
        return decision

    def predict(self: Any, X: Any) -> npt.NDArray[Any]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Return a table whose rows can be indexed; its values are for the detector to check."""
        with reading(X):
            X = indexable(X)[0]
            if not reset and np.ndim(X) == 1:
                raise ValueError("X must be a table of two dimensions. Reshape your data: X.reshape(1, -1) is one row.")
            validate_data(self, X=X, reset=reset, skip_check_array=True)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._detector).input_tags
        return tags
