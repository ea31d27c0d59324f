"""Detectors in PyOD's terms: a larger score is less normal, and a label is 1 for an outlier and 0 for other rows.

PyOD learns from rows of which some are outliers, and asks how abnormal each of these is. By the model that has learned
them that is no question: a row raises its own score. So training rows are scored as the model without each would, in
closed form.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.answers import answer, final_detector, refuse_other_polarity
from slabsvm.detectors.base import Detector
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import ExtraMissingError

try:
    from pyod.models.base import BaseDetector

    MISSING = False
except ImportError:
    BaseDetector, MISSING = object, True

# PyOD takes standard deviations of scores: their squares have to be numbers.
LARGEST = 1e150


class PyODDetector(BaseDetector):
    """A detector of PyOD around a one-class model.

    Parameters
    ----------
    estimator : detector, default=None
        Any of this package, or a pipeline that ends in one, such as make_pipeline(StandardScaler(), SVDD()), or a
        search for either. None is `OneClassSlabSVM()`.
    contamination : float in (0, 0.5], default=0.1
        The share of training rows that get the label 1. It sets the threshold only. What the estimator learns depends
        on its own nu.

    Attributes
    ----------
    estimator_ : detector
        The fitted estimator.
    decision_scores_ : (n_samples,) array of float64
        How abnormal each training row is: minus `loo_decisions_`, the estimator's decision had it not learned the row.
        If the estimator has none, minus its decision_function.
    threshold_ : float
        The quantile 1 - contamination of `decision_scores_`: new rows that score more get the label 1.
    labels_ : (n_samples,) array of int
        Of training rows: 1 for outliers, 0 for the others.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import PyODDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = PyODDetector(contamination=0.05).fit(X)  # doctest: +SKIP
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0]])  # doctest: +SKIP
    array([0, 1])
    """

    def __init__(self, estimator: Any = None, contamination: float = 0.1) -> None:
        if MISSING:
            raise ExtraMissingError.of("PyODDetector", "pyod", "slabsvm[pyod]")
        super().__init__(contamination=contamination)
        self.estimator = estimator

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows of which most are normal.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), of any kind that the estimator takes
        y : ignored

        Raises
        ------
        ValueError
            For what the estimator refuses, and for an estimator whose larger scores are less normal; the text says what
            to do.
        """
        self._set_n_classes(y)
        self.estimator_ = clone(OneClassSlabSVM() if self.estimator is None else self.estimator).fit(X)
        final = final_detector(self.estimator_)
        if isinstance(final, Detector) and hasattr(final, "loo_scores_"):
            normal = final.loo_decisions_
        else:
            normal = answer(self.estimator_, X).values
            refuse_other_polarity(self.estimator_, X, normal)
        self.decision_scores_ = _outlier_scores(normal)
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return how abnormal each row is, shape (n_samples,): minus the estimator's decision_function."""
        check_is_fitted(self, "estimator_")
        return _outlier_scores(answer(self.estimator_, X).values)


def _outlier_scores(normal: FloatArray) -> FloatArray:
    return np.clip(-normal, -LARGEST, LARGEST)
