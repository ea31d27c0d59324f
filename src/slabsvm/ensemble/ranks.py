"""What ranks say: the normal scores of features, and how surprising a detector's score is among left-out ones.

Scores of different detectors have no common unit. The share of training rows that score no more has one, and minus its
logarithm can be added up: 0 for the most normal row, 1 in the mean of new rows, log(n + 1) for a row below all others.
Below the lowest score the logarithm goes on as an exponential tail does, of which the mean excess is that of the
lowest tenth of the scores, so that far rows still differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import reading
from slabsvm.fitted.training import checked_weights
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.objects import INLINE, Array, Number, atomic

# So many values of a feature are off by less than a thousandth in the ranks of 20,000 rows.
MOST_VALUES = 1000
# The share of the lowest scores that give the tail its mean excess, and their least number: two can be one by chance.
TAIL = 0.1
FEWEST = 5
# A tail's mean excess is at least this share of the usual score: an SVM scores all that it has learned alike.
SHORTEST = 0.05
# Scores within this share of the tail's mean excess are one: rows that repeat a learned one differ by rounding.
TIE = 1e-4
# Tails are no shorter than this share of the scores.
ALIKE = 1e-6
# Surprises are no larger, so that sums of them are finite in float32, too.
LARGEST = 1e30


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
    .. [1] B. L. van der Waerden, "Order tests for the two-sample problem and their power", Indag. Math. 14, 1952.

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
        return self.scores_of(self._checked(X, reset=False))

    def scores_of(self, X: Any) -> FloatArray:
        """Return the normal scores of rows that were checked, shape (n_samples, n_features), float64."""
        with np.errstate(over="ignore"):
            slopes = 1.0 / self.scale_
        return _continued(X.astype(np.float64, copy=False), self.values_, self.scores_, slopes)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return values of which rows, shape (n_samples, n_features), are the normal scores, interpolated."""
        check_is_fitted(self)
        return _continued(np.asarray(X, dtype=np.float64), self.scores_, self.values_, self.scale_)

    def _checked(self, X: Any, *, reset: bool) -> Any:
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


@dataclass(frozen=True)
class Shares:
    """The p-values of scores: the share of training rows that score no more, (1 + number) / (1 + all)."""

    # What training rows score without themselves, ascending
    scores: Annotated[FloatArray, Array("references", order="ascending")]
    # How many rows the first of them are, by weight; a row of mean weight is one
    rows: Annotated[FloatArray, Array("numbers", order="ascending")]

    @classmethod
    def of(cls, scores: FloatArray, weights: FloatArray | None, n: float | None = None) -> Shares:
        """Return the function for training rows of these weights, alike for None, n in all or one for each; NaN is no
        score.
        """
        known = np.flatnonzero(~np.isnan(scores))
        order = known[np.argsort(scores[known])]
        masses = np.ones(len(order)) if weights is None else weights[order]
        rows = np.concatenate([[0.0], np.cumsum(masses)])
        rows *= (len(known) if n is None else n) / rows[-1]
        return cls(scores[order], rows)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return the shares, (n,)."""
        below = np.searchsorted(self.scores, scores, side="right")
        shares: FloatArray = (1.0 + self.rows[below]) / (1.0 + self.rows[-1])
        return shares


@dataclass(frozen=True)
class Surprise:
    """Minus the logarithm of scores' p-values, continued below the lowest score."""

    shares: Annotated[Shares, INLINE]
    # The mean excess of the tail, in the unit of the scores
    excess: Annotated[float, Number(above=0.0)]

    @classmethod
    def of(
        cls, scores: FloatArray, weights: FloatArray | None, n: float | None = None, *, unit: float = 0.0
    ) -> Surprise:
        """Return the function for the left-out scores of training rows of these weights, alike for None. unit is a size
        of the scores' own: what is far less is rounding.
        """
        shares = Shares.of(scores, weights, n)
        ordered = shares.scores
        n_low = max(1, int(TAIL * len(ordered)), min(FEWEST, len(ordered) // 3))
        excess = float(np.mean(ordered[min(n_low, len(ordered) - 1)] - ordered[:n_low]))
        # Scores that are alike have no tail to read.
        least = ALIKE * max(unit, float(np.abs(ordered).max()), float(np.finfo(np.float32).tiny))
        least = max(least, SHORTEST * float(np.median(np.abs(ordered))))
        return cls(shares, max(excess, least))

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return the surprise of new rows' scores, (n,): from 0 on."""
        with np.errstate(over="ignore"):
            found = np.maximum(self.shares.scores[0] - scores, 0.0) / self.excess
        return np.asarray(np.minimum(found, LARGEST) - np.log(self.shares(scores + TIE * self.excess)))

    def of_learned(self, scores: FloatArray) -> FloatArray:
        """Return the surprise of training rows' own left-out scores, (n,), as that of a new row among the others."""
        rows, ordered = self.shares.rows, self.shares.scores
        below = np.searchsorted(ordered, scores + TIE * self.excess, side="right")
        found = -np.log(np.maximum(rows[below], np.finfo(np.float64).tiny) / rows[-1])
        if len(ordered) > 1:
            with np.errstate(over="ignore"):
                found += np.minimum(np.maximum(ordered[1] - scores, 0.0) / self.excess, LARGEST)
        return np.asarray(found)
