"""What a search passes on of its chosen and refitted detector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OutlierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.pipelines import predict_learned
from slabsvm.runtime.arrays import FloatArray


def _refitted_has(name: str) -> Callable[[Any], bool]:
    """Return a check that the chosen detector, or before the fit the one that is searched over, has a method."""

    def check(search: Any) -> bool:
        if not search.refit:
            raise AttributeError(
                f"This {type(search).__name__} was made with refit=False, so that {name} is not available: there is "
                "no detector fitted with the best parameters. Use refit=True, or fit one with best_params_."
            )
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


class ChosenDetector(MetaEstimatorMixin, OutlierMixin, BaseEstimator):
    """A search that answers rows as its `best_estimator_` does, where refit=True made one."""

    refit: bool
    best_estimator_: Any

    @property
    def n_features_in_(self) -> int:
        """The number of features that the best detector was fitted on."""
        return int(self._best_detector("n_features_in_").n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Their names, where they have any."""
        return self._best_detector("feature_names_in_").feature_names_in_

    @property
    def offset_(self) -> Any:
        """The best detector's offset: ``decision_function = score_samples - offset_``."""
        return self._best_detector("offset_").offset_

    @available_if(_refitted_has("predict"))
    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """Return the best detector's +1 or -1 for each row, shape (n_samples,)."""
        check_is_fitted(self)
        answers: npt.NDArray[np.intp] = self.best_estimator_.predict(X)
        return answers

    @available_if(_refitted_has("predict"))
    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> npt.NDArray[np.intp]:
        """Search, and return -1 for each row of X that is an outlier among the others, +1 for the rest.

        As the best detector's own fit_predict would: by its left-out decisions, where it has them.
        """
        return predict_learned(self.fit(X, y, **kwargs), X)

    @available_if(_refitted_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Return the best detector's decision for each row, shape (n_samples,): >= 0 for accepted ones."""
        check_is_fitted(self)
        values: FloatArray = self.best_estimator_.decision_function(X)
        return values

    @available_if(_refitted_has("score_samples"))
    def score_samples(self, X: Any) -> FloatArray:
        """Return how normal the best detector holds each row to be, shape (n_samples,)."""
        check_is_fitted(self)
        values: FloatArray = self.best_estimator_.score_samples(X)
        return values

    def _best_detector(self, attribute: str) -> Any:
        """Return the best detector, or say in scikit-learn's way that there is no such attribute."""
        try:
            check_is_fitted(self)
        except NotFittedError as error:
            raise AttributeError(f"{type(self).__name__} has no {attribute} before it is fitted.") from error
        if not self.refit:
            raise AttributeError(f"{type(self).__name__} has no {attribute}, since it was made with refit=False.")
        return self.best_estimator_
