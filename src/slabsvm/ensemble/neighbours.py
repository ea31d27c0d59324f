"""Nearest neighbours: accept where the training samples are near."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.base import Detector, fit_with_groups, parameters
from slabsvm.ensemble.nearest import Nearest
from slabsvm.ensemble.scales import refuse_scales
from slabsvm.fitted.explanation import Explanation, of_distances
from slabsvm.fitted.model import Model, rounding_of
from slabsvm.fitted.training import Training
from slabsvm.kernels.expansion import TYPICAL_ROWS
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.objects import cached_property
from slabsvm.runtime.sklearn_private import Interval


@dataclass(frozen=True, kw_only=True)
class NeighboursModel(Model):
    """A neighbourhood with its threshold."""

    nearest: Nearest
    n_neighbours: int

    def scores(self, X: Any) -> FloatArray:
        """Return minus the mean distance of validated rows from the nearest samples, (n,)."""
        return -self.nearest.of_rows(X, self.n_neighbours).mean(self.n_neighbours)

    @cached_property
    def typical(self) -> FloatArray:
        """The mean squared distance of samples from the others in each feature, (d,)."""
        rows, k = self.nearest.samples[:TYPICAL_ROWS], self.n_neighbours + 1
        return np.asarray(self.nearest.by_feature(rows, self.nearest.of_rows(rows, k), k, further=1).mean(axis=0))


@parameters
class NeighboursDetector(Detector):
    """Nearest neighbours detector: accept where the nearest training samples are near.

    The score of a row is minus the mean of its Euclidean distances from the nearest training samples. Features should
    have a common unit: use `StandardScaler`, or `slabsvm.NormalScores` if tails are heavy.

    Parameters
    ----------
    n_neighbours : int, default=5
        The number of nearest training samples. Repeated samples count as often as they occur.
    nu : float in (0, 1], default=0.1
        The share of samples that may be rejected.
    calibration : {"auto", "held-out", "training"}, default="auto"
        Which scores set the threshold, at their nu-quantile. "auto" scores each training sample by the others: the
        model then accepts a share of *new* positives near 1 - nu. "held-out" does not learn 1,000 of the rows, a tenth
        if that is more, half if that is fewer, and takes their scores. "training" counts the sample itself, too.
    random_state : int, RandomState or None, default=0
        Which rows are held out.

    Attributes
    ----------
    offset_ : float
        The least score that is accepted.
    expected_recall_, expected_recall_error_ : float
        As for `OneClassSlabSVM`. Not with calibration="training".
    calibration_scores_ : (n_samples,) array of float64
        The exact score of each training sample by the others, without one of its copies if it is repeated, and NaN
        where the weight is 0, and for learned rows where others were held out. Not with calibration="training".
    n_samples_fit_, n_features_in_ : int
    feature_names_in_ : (n_features,) array of str

    References
    ----------
    .. [1] F. Angiulli, C. Pizzuti, "Fast outlier detection in high dimensional spaces", PKDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import NeighboursDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> NeighboursDetector().fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    n_neighbours: int = 5
    nu: float = 0.1

    model_: NeighboursModel = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbours": [Interval(Integral, 1, None, closed="left")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    fit = fit_with_groups

    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the mean distance of each row from its nearest training samples, shape (n_samples,)."""
        check_is_fitted(self)
        return self.model_.scores(self._checked(X, reset=False))

    def _explanation(self, X: Any) -> Explanation:
        X, fit = self._checked(X, reset=False), self.model_
        found = fit.nearest.of_rows(X, fit.n_neighbours)
        decisions = -found.mean(fit.n_neighbours) - self.offset_
        by_feature = fit.nearest.by_feature(X, found, fit.n_neighbours)
        return of_distances(by_feature, fit.typical, decisions, reference=self._typical_decision())

    def _learn(self, training: Training) -> NeighboursModel:
        refuse_scales(training.samples)
        learned, out = self._learned(training)
        k, nearest = int(self.n_neighbours), Nearest.of(learned.samples, learned.n_copies)
        (rows, _), groups = training.counted, training.groups
        if out.any():
            of_rows = np.full(training.n_rows, np.nan)
            of_rows[out] = -nearest.of_rows(training.X[out], k).mean(k)
        elif not self._left_out(out):
            of_rows = training.by_row(-nearest.of_rows(training.X[rows], k).mean(k))
        elif groups is None:
            of_rows = training.by_row(-nearest.of_samples(k).mean(k))
        else:
            found = nearest.of_groups(training.X[rows], k, groups.numbers, groups.of_samples)
            of_rows = training.by_row(-found.mean(k))
        calibration = training.calibration(~np.isnan(of_rows), held_out=bool(out.any()))
        scores = of_rows[calibration.rows]
        offset = self._threshold(calibration, scores, self.nu)
        rounding = rounding_of(abs(offset))
        return NeighboursModel(
            offset=offset - rounding,
            rounding=rounding,
            nearest=nearest,
            n_neighbours=k,
            **self._calibrated(training, of_rows, calibration, (scores - offset + rounding)[None]),
        )

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _diagnosis(self) -> str:
        if len(self.model_.nearest.counts) == 1:
            return "All samples are the same point, so every other row is rejected. Check the features for constants."
        return ""
