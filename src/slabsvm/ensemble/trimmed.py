"""A detector for contaminated training rows: the least normal are not learned, but still count for the threshold.

Outliers in a cluster look normal to each other under a narrow kernel. So a smooth detector judges the rows, by
leave-one-out scores. In rounds, the rows that it finds least normal are left out of the next fit, until the same rows
are left out again (Rousseeuw and Van Driessen 1999). The detector then learns the other rows alone.

*All* rows set the threshold, by scores without themselves: by the learned rows alone, with a fifth trimmed and no
outliers, a recall of .9 would become .72. Outliers score low and can only replace good rows below the threshold, so
the recall of new good rows is no smaller.
"""

from __future__ import annotations

from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import OutlierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.p_values import whole_up
from slabsvm.detectors.answers import (
    Wrapping,
    answer,
    detector_and_rows,
    explanation_of,
    left_out_decisions,
    refuse_classifier,
)
from slabsvm.detectors.base import distinct_of, parameters
from slabsvm.detectors.label_free import promised_recall
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.fitted.model import rounding_of
from slabsvm.fitted.warnings import FitWarning
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.caller import silenced
from slabsvm.runtime.estimators import HasMethods, Interval, _fit_context, _num_samples, _safe_indexing, atomic
from slabsvm.svm.program import weighted_quantile


@parameters
class TrimmedDetector(OutlierMixin, Wrapping):
    """A detector that does not learn the least normal of its training rows, because some may be outliers.

    Parameters
    ----------
    estimator : detector, default=None
        One of this package with calibration="auto", or a pipeline that ends in one. None is `OneClassSlabSVM()`.
    trim : float in (0, .5], default=0.2
        The share of rows that is not learned. Choose more than the share of outliers that you expect: good rows are
        among the least normal too, and outliers that are learned cost much (docs/how-to/contaminated-data.md).
    judge : detector, default=None
        It says which rows are the least normal, with the same requirements as `estimator`. None is
        `OneClassSVM(gamma="scale", nu=0.5)`; if the estimator is a pipeline, behind its steps.
    max_rounds : int >= 1, default=4
        The largest number of rounds.

    Attributes
    ----------
    estimator_ : fitted detector
        It has learned the rows that were not trimmed.
    trimmed_ : (n_trimmed,) array of int
        The numbers, from 0, of the rows that were not learned, ascending. They need not be outliers.
    decisions_ : (n_samples,) array of float64
        The decision_function of each training row, had it not been learned.
    offset_ : float
        ``decision_function = score_samples - offset_``, where score_samples is the estimator's decision_function.
    n_rounds_ : int
    n_features_in_, feature_names_in_ : int, (n_features,) array of str
        The names only when X has names that are all strings.

    References
    ----------
    .. [1] P. Rousseeuw, K. Van Driessen, "A fast algorithm for the minimum covariance determinant estimator",
       Technometrics 41, 1999: the rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import TrimmedDetector
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(180, 2)), rng.normal(5.0, 0.3, size=(20, 2))])
    >>> TrimmedDetector().fit(X).predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    """

    estimator: Any = field(default=None, kw_only=False)
    trim: float = 0.2
    judge: Any = None
    max_rounds: int = 4

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit"), None],
        "trim": [Interval(Real, 0.0, 0.5, closed="right")],
        "judge": [HasMethods("fit"), None],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
    }

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, *, outlier_rows: Any = None) -> Self:
        """Learn from rows of which a share may be outliers.

        Raises ValueError for parameters, shapes or values that make no sense, for an estimator or a judge without
        leave-one-out scores, or with kernel="precomputed".

        Parameters
        ----------
        X : array-like, frame or CSR matrix of shape (n_samples, n_features)
            What the estimator takes.
        y : ignored
        outlier_rows : array-like of int, default=None
            The numbers, from 0, of rows of X that are known outliers. They are never learned, and have no say in the
            threshold.
            trim is the share of all that is not learned; of more known outliers these alone.
        """
        refuse_classifier(self._detector, self)
        if any(get_tags(one).input_tags.pairwise for one in (self._detector, self._judge)):
            raise ValueError(
                "TrimmedDetector needs rows, not a kernel matrix. Give the estimator and the judge another kernel "
                "than 'precomputed'. The kernel may be a function."
            )
        X = self._table(X, reset=True)
        n = _num_samples(X)
        known = _mask_of(outlier_rows, n)
        n_known = int(np.count_nonzero(known))
        count = max(int(whole_up(self.trim * n)), n_known)
        if n - count < 2:
            raise ValueError(
                f"trim={self.trim:g} leaves {n - count} of n_samples={n} to learn from, where at least 2 are needed. "
                "Give more rows, or trim less."
            )
        learned = ~known
        # Where the judge puts thresholds of its own does not matter.
        with silenced(FitWarning):
            for done in range(1, self.max_rounds + 1):
                judge, found, _ = _fitted_with_decisions(clone(self._judge), X, learned)
                earlier, learned = learned, ~known
                # Rows that score alike are ordered by what is in them.
                model, rows = detector_and_rows(judge, X)
                others = np.lexsort((distinct_of(model, rows, np.ones(n)).inverse, found))
                learned[others[~known[others]][: count - n_known]] = False
                self.n_rounds_ = done
                if (learned == earlier).all():
                    break
        self.trimmed_: IndexArray = np.flatnonzero(~learned)
        self.estimator_, decisions, own = _fitted_with_decisions(clone(self._detector), X, learned)
        asked = float((decisions[learned & own] >= 0).mean())
        # Learned rows with a decision in the detector's own unit stand for all learned ones.
        weights = np.where(learned, np.count_nonzero(learned) / np.count_nonzero(learned & own), 1.0)[~known & own]
        deciding = decisions[~known & own]
        offset = weighted_quantile(deciding, weights, max(1.0 - asked, 1.0 / len(deciding)))
        # One row that is far out does not make the others' rounding.
        self.offset_ = offset - rounding_of(abs(offset) + float(np.median(np.abs(decisions))))
        self.decisions_: FloatArray = decisions - self.offset_
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Return the estimator's decision_function of each row, shape (n_samples,)."""
        check_is_fitted(self)
        return answer(self.estimator_, self._table(X, reset=False)).values

    def fit_predict(self, X: Any, y: Any = None) -> npt.NDArray[np.intp]:
        """Learn from X, and return -1 for each of its rows that is an outlier among the others: ``decisions_ < 0``."""
        return np.where(self.fit(X, y).decisions_ >= 0, 1, -1)

    @property
    def _judge(self) -> Any:
        if self.judge is not None:
            return self.judge
        # It may leave half of the rows outside: it is to know what most rows are like.
        smooth = OneClassSVM(gamma="scale", nu=0.5)
        detector = self._detector
        return Pipeline([*detector.steps[:-1], ("judge", smooth)]) if isinstance(detector, Pipeline) else smooth

    def _nominal_recall(self) -> float:
        return promised_recall(self.estimator_)

    def _shares(self, X: Any) -> FloatArray:
        return np.asarray(explanation_of(self.estimator_, X).less(self.offset_).shares)


def _mask_of(rows: Any, n: int) -> BoolArray:
    """Return which of n rows are named by their numbers, (n,)."""
    marked, numbers = np.zeros(n, dtype=bool), np.asarray([] if rows is None else rows)
    whole = numbers.ndim == 1 and (numbers.dtype.kind in "iu" or not len(numbers))
    if not whole or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < n):
        raise ValueError(f"outlier_rows must be a list of row numbers of X, whole and from 0 to {n - 1}.")
    marked[numbers.astype(np.intp)] = True
    return marked


def _fitted_with_decisions(detector: Any, X: Any, learned: BoolArray) -> tuple[Any, FloatArray, BoolArray]:
    """Return a detector fitted to some rows, each row's decision without itself, (n,), and whether that is its own.

    Of an SVM that has learned more than 2,000 rows most have no left-out scores: each half of them has its decisions by
    a model of the other half. These are in the order of outlyingness, but not in the detector's own unit.
    """
    rows = np.flatnonzero(learned)
    every = len(rows) == len(learned)
    detector.fit(X if every else _safe_indexing(X, rows))
    decisions = np.empty(len(learned)) if every else np.array(answer(detector, X).values, dtype=np.float64)
    decisions[rows] = left_out_decisions(
        detector, needed_by="TrimmedDetector", remedy="Use a detector such as OneClassSVM, OneClassSlabSVM or SVDD."
    )
    known = ~np.isnan(decisions)
    if not known.all():
        first = np.random.default_rng(0).random(len(rows)) < 0.5
        for half in (first, ~first):
            asked = rows[~half & ~known[rows]]
            model = clone(detector).fit(_safe_indexing(X, rows[half]))
            decisions[asked] = answer(model, _safe_indexing(X, asked)).values
    return detector, decisions, known
