"""Ranks: the normal scores of features, and how surprising a reading is among the training rows' readings.

Readings of different kinds have no common unit. The share of training rows whose reading is no smaller has one, and
minus its logarithm can be added up: 0 for the most normal row, 1 in the mean of new rows, log(n + 1) for a row beyond
all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import reading, refuse_lost_digits
from slabsvm.fitted.training import checked_weights
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.estimators import atomic

# Readings that differ by this share of themselves are one: rows that repeat a learned one differ by rounding.
TIE = 1e-9
# No excess of a reading over the largest, in units of the tail, is larger: it is finite in float32, too.
LARGEST_EXCESS = 1e30


class NormalScores(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Normal scores of each feature: the standard normal quantile of a value's rank among the training rows.

    Heavy tails and any increasing transformation of a feature leave no trace, so a few rows cannot set the scale of all
    others. A value that r of n rows are below, and e equal, has the normal quantile of (2 r + e + 1) / (2 n + 2): equal
    values share the middle of their ranks, and all values between two training values the middle of the gap. A value
    beyond the ends lies as many standard deviations of the feature beyond the outer gap.

    Attributes
    ----------
    values_ : list of n_features arrays of float64, each (n_values,)
        The distinct values of each feature, ascending.
    scores_ : list of n_features arrays of float64, each (n_values,)
        Their normal scores, ascending.
    gaps_ : list of n_features arrays of float64, each (n_values + 1,)
        The normal scores of values below the first, between each two, and above the last.
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
    array([-0.84,  0.  ,  0.84,  0.  ])
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
        self.values_ = [values for values, *_ in columns]
        self.scores_ = [scores for _, scores, *_ in columns]
        self.gaps_ = [gaps for *_, gaps, _ in columns]
        self.scale_ = np.array([scale for *_, scale in columns])
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the normal scores of rows, shape (n_samples, n_features), float64."""
        check_is_fitted(self)
        return self.scores_of(self._checked(X, reset=False))

    def scores_of(self, X: Any) -> FloatArray:
        """Return the normal scores of rows that were checked, shape (n_samples, n_features), float64."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        found, largest = np.empty(X.shape), np.finfo(np.float64).max
        for j, column in enumerate(np.ascontiguousarray(X.T)):
            values = self.values_[j]
            below = np.searchsorted(values, column, side="left")
            known = np.minimum(below, len(values) - 1)
            found[:, j] = np.where(values[known] == column, self.scores_[j][known], self.gaps_[j][below])
            beyond = np.flatnonzero((column < values[0]) | (column > values[-1]))
            if len(beyond):
                far = column[beyond]
                with np.errstate(over="ignore"):
                    # A unit may be subnormal.
                    further = (far - np.clip(far, values[0], values[-1])) / self.scale_[j]
                    found[beyond, j] = np.clip(found[beyond, j] + further, -largest, largest)
        return np.asarray(found)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return values of which rows, shape (n_samples, n_features), are the normal scores, interpolated."""
        check_is_fitted(self)
        X = np.array(X, dtype=np.float64)
        for j, column in enumerate(X.T):
            scores, values = self.scores_[j], self.values_[j]
            with np.errstate(over="ignore"):
                further = (column - np.clip(column, scores[0], scores[-1])) * self.scale_[j]
                largest = np.finfo(np.float64).max
                X[:, j] = np.clip(np.interp(column, scores, values) + further, -largest, largest)
        return np.asarray(X)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        with reading(X):
            if reset:
                refuse_lost_digits(X)
            X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        return X.astype(np.float64, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def _ranked(column: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return a feature's distinct values, their normal scores, those of the gaps, and its standard deviation or 1."""
    values, place = np.unique(column, return_inverse=True)
    masses = np.bincount(place.ravel(), weights=weights).astype(np.float64)
    # Weights that are no counts say how much of as many rows each is.
    counts = weights is None or (weights == np.rint(weights)).all()
    masses *= 1.0 if counts else len(column) / masses.sum()
    sums, rows = np.cumsum(masses), masses.sum()
    scores = ndtri((2.0 * sums - masses + 1.0) / (2.0 * rows + 2.0))
    gaps = ndtri((2.0 * np.append(0.0, sums) + 1.0) / (2.0 * rows + 2.0))
    if len(values) == 1:
        # What rounding makes of a constant is no rank.
        gaps[:] = scores[0]
    largest = float(np.abs(values).max())
    scale = 1.0
    if len(values) > 1:
        # Of values over their largest, whose squares neither overflow nor vanish.
        over = values / largest
        mean = float(masses @ over / masses.sum())
        scale = largest * float(np.sqrt(masses @ (over - mean) ** 2 / masses.sum()))
    return values, scores, gaps, scale if scale > 0 else 1.0


@dataclass(frozen=True)
class Surprise:
    """Minus the logarithm of readings' p-values among those of training rows, continued beyond the largest.

    A reading is the larger the less normal. Beyond all of n rows the surprise is log(n + 1) + log(1 + excess), where
    excess is in the unit of the mean excess of the largest tenth, so that far rows still differ.
    """

    readings: FloatArray  # (n,), in increasing order
    # (n + 1,): how many rows the last of them are, by weight; a row of mean weight is one
    rows: FloatArray
    unit: float

    @classmethod
    def of(cls, readings: FloatArray, masses: FloatArray, effective_size: float, *, least: float = 0.0) -> Surprise:
        """Return it for training rows of these masses, with this effective size, in a unit of least."""
        order = np.argsort(readings, kind="stable")
        ordered = readings[order]
        rows = np.concatenate([[0.0], np.cumsum(masses[order][::-1])])
        # The largest tenth give the tail its unit, of five readings at least: two can be one by chance.
        n_high = max(1, int(0.1 * len(ordered)), min(5, len(ordered) // 3))
        unit = float(np.mean(ordered[-n_high:] - ordered[-n_high]))
        # Tails are no shorter than this share of the readings.
        least = max(least, 1e-6 * float(np.abs(ordered).max()), float(np.finfo(np.float32).tiny))
        return cls(ordered, rows * (effective_size / rows[-1]), max(unit, least))

    def __call__(self, readings: FloatArray) -> FloatArray:
        """Return the surprise of new rows' readings, (n,), each as one more row."""
        above = self._above(readings)
        return np.asarray(self._beyond(readings, self.readings[-1]) - np.log((1.0 + above) / (1.0 + self.rows[-1])))

    def of_learned(self, readings: FloatArray) -> FloatArray:
        """Return the surprise of training rows' own readings, (n,), each as a new row among the others."""
        shares = np.maximum(self._above(readings), np.finfo(np.float64).tiny) / self.rows[-1]
        found: FloatArray = -np.log(np.minimum(shares, 1.0))
        if len(self.readings) > 1:
            found += self._beyond(readings, float(self.readings[-2]))
        return found

    def _above(self, readings: FloatArray) -> FloatArray:
        """Return how many rows have no smaller readings, or such that only rounding makes them smaller."""
        place = np.searchsorted(self.readings, readings - TIE * np.abs(readings), side="left")
        return np.asarray(self.rows[len(self.readings) - place])

    def _beyond(self, readings: FloatArray, last: float) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(np.log1p(np.minimum(np.maximum(readings - last, 0.0) / self.unit, LARGEST_EXCESS)))
