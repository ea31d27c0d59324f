"""The normal scores of features: their ranks, as standard deviations of a normal distribution."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import is_plain, reading
from slabsvm.detectors.base import takes_unnamed
from slabsvm.fitted.weighting import checked_weights
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.objects import atomic

# A table of this many values of a feature, evenly spread over the normal scores, is off by less than a thousandth in
# the ranks of 20,000 rows (tests/detectors/test_normal_scores.py).
MOST_VALUES = 1000


class NormalScores(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Normal scores of each feature: the standard normal quantile of a value's mid-rank among the training rows.

    Heavy tails and any increasing transformation of a feature leave no trace, so a few rows cannot set the scale of all
    others. Equal values share the middle of their ranks. Values between two training values are interpolated. A value
    beyond the ends lies as many standard deviations of the feature beyond the last score.

    Attributes
    ----------
    values_ : list of n_features arrays of float64, each (n_values,)
        Distinct values of each feature, ascending: all of them, or 1,000 if there are more.
    scores_ : list of n_features arrays of float64, each (n_values,)
        Their normal scores, ascending.
    scale_ : (n_features,) array of float64
        The standard deviation of each feature, by which values beyond the ends are divided; 1 for a constant.
    n_features_in_, feature_names_in_ : int, (n_features,) array of str
        The names only when X has names that are all strings.

    References
    ----------
    .. [1] B. L. van der Waerden, "Order tests for the two-sample problem and their power", Indagationes Mathematicae
       14, 1952.

    Examples
    --------
    >>> from slabsvm import NormalScores
    >>> NormalScores().fit_transform([[1.0], [10.0], [1000.0], [10.0]]).round(2).ravel()
    array([-1.15,  0.  ,  1.15,  0.  ])
    """

    @atomic
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the ranks of each feature.

        Raises ValueError for sparse rows, missing or infinite values, and weights that are negative or all zero.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.
        """
        X = self._checked(X, reset=True)
        weights = checked_weights(sample_weight, X)
        if weights is not None:
            X, weights = X[weights > 0], weights[weights > 0]
        columns = [_ranked(column, weights) for column in X.T]
        self.values_ = [values for values, _, _ in columns]
        self.scores_ = [scores for _, scores, _ in columns]
        self.scale_ = np.array([scale for _, _, scale in columns])
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the normal scores of rows, shape (n_samples, n_features), float64."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        with np.errstate(over="ignore"):
            slopes = 1.0 / self.scale_
        return _continued(X, self.values_, self.scores_, slopes)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return values of which rows, shape (n_samples, n_features), are the normal scores; between values the middle.

        A score between two training values has a value between them.
        """
        check_is_fitted(self)
        return _continued(np.asarray(X, dtype=np.float64), self.scores_, self.values_, self.scale_)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if is_plain(X) and takes_unnamed(self, X.shape[1], reset=reset):
            return X.astype(np.float64, copy=False)
        with reading(X):
            X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        return X.astype(np.float64, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def _ranked(column: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray, float]:
    """Return a feature's distinct values, their normal scores, and its standard deviation or 1."""
    values, place = np.unique(column, return_inverse=True)
    masses = np.bincount(place.ravel(), weights=weights).astype(np.float64)
    scores = ndtri((np.cumsum(masses) - 0.5 * masses) / masses.sum())
    largest = float(np.abs(values).max())
    scale = 1.0
    if len(values) > 1:
        # Of values over their largest, whose squares neither overflow nor vanish.
        over = values / largest
        mean = float(masses @ over / masses.sum())
        scale = largest * float(np.sqrt(masses @ (over - mean) ** 2 / masses.sum()))
    if len(values) > MOST_VALUES:
        wanted = np.linspace(scores[0], scores[-1], MOST_VALUES)
        kept = np.unique(np.searchsorted(scores, wanted).clip(0, len(scores) - 1))
        values, scores = values[kept], scores[kept]
    return values, scores, scale if scale > 0 else 1.0


def _continued(X: FloatArray, given: list[FloatArray], found: list[FloatArray], slopes: FloatArray) -> FloatArray:
    """Return a piecewise linear function of each column of X through ascending points, and beyond these of a slope."""
    inside = np.empty(X.shape)
    for j, column in enumerate(np.ascontiguousarray(X.T)):
        inside[:, j] = np.interp(column, given[j], found[j])
    first, last = np.array([ends[[0, -1]] for ends in given]).T
    rows, columns = np.nonzero((first > X) | (last < X))
    if len(rows):
        far = X[rows, columns]
        with np.errstate(over="ignore"):
            beyond = np.where(far > last[columns], far - last[columns], far - first[columns])
            # A slope may be infinite, where a unit is subnormal.
            inside[rows, columns] += beyond * slopes[columns]
        largest = np.finfo(np.float64).max
        np.clip(inside, -largest, largest, out=inside)
    return inside
