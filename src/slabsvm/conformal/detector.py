"""A threshold for the false-alarm rate that is asked for, around any detector.

`slabsvm.conformal.p_values` makes p-values from the scores of positives that the detector has not learned. Where those
come from makes the method. *Split*: from rows that are held out; the promise P(p <= alpha) <= alpha holds for any data
and model. *Cross* (Vovk 2015; Barber et al. 2021): each fold is scored by the model of the others, and a new sample by
all of these models, so that a score is only ever compared with scores of one model; the promise is 2 alpha, the rate
in practice near alpha. *Leave-one-out*: from the closed-form scores of one fit; no promise, and no row is lost.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context, clone
from sklearn.model_selection import KFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from slabsvm.conformal.p_values import WHOLE, Tail, benjamini_hochberg, combined, graded, in_order, tail_of
from slabsvm.detectors.base import Detector
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.dual.program import FloatArray
from slabsvm.selection.judging import answer, left_out_values

Rows = npt.NDArray[np.intp]

METHODS = ("split", "cross", "leave-one-out", "prefit")


class CalibrationWarning(UserWarning):
    """There are too few held-out positives for the rate that was asked for: nothing can be rejected."""


class ConformalDetector(OutlierMixin, BaseEstimator):
    """Any detector, with p-values and a threshold for the false-alarm rate that you ask for.

    `predict` rejects a sample where its conformal p-value is at most alpha: a new positive with probability at most
    alpha, if it comes from where the training samples came from.

    Parameters
    ----------
    estimator : detector, default=None
        Learns from positives alone, and has decision_function, score_samples or predict; larger is more normal. None is
        `OneClassSlabSVM()`. A pipeline will do.
    alpha : float in (0, 1), default=0.05
        The share of new positives that may be rejected. At least 1/alpha - 1 calibration samples are needed.
    method : {"split", "cross", "leave-one-out", "prefit"}, default="split"
        "split" holds out rows, and holds its promise for any data and model. "cross" learns from all rows in `cv` fits,
        and predicts with all of them. "leave-one-out" fits once, with no row held out, and takes closed-form
        leave-one-out scores: for this package's detectors with offsets="leave-one-out". "prefit" takes the estimator as
        it is, already fitted, and all rows given to `fit` as held out.
    two_sided : bool, default=False
        Whether a score that is too high is rejected too. The slab's score has both sides already: it is minus the
        distance from the slab's centre. For a one-class SVM, True makes a slab of it.
    calibration_size : float in (0, 1), default=0.5
        The share of rows that "split" holds out.
    cv : int or splitter, default=5
        The folds of "cross". Give `DistinctKFold` where rows were copied: a copy of a row that was learned is not new.
    n_jobs : int or None, default=None
        Of the fits of "cross"; None is 1 unless in a `joblib.parallel_config` context, -1 all.
    random_state : int, RandomState or None, default=0
        What rows are held out with.

    Attributes
    ----------
    estimators_ : list of fitted detectors
        One, or one for each fold.
    calibration_scores_ : list of (n_k,) arrays of float64
        What each of them gives its held-out positives, in the unit of its decision_function, in increasing order.
    n_calibration_ : int
        How many there are in all.
    offset_ : float
        decision_function = score_samples - offset_: the largest p-value that is rejected, alpha rounded down to a
        multiple of 1/(n_calibration_ + 1).
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only when X has feature names that are all strings.

    References
    ----------
    .. [1] V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005.
    .. [2] V. Vovk, "Cross-conformal predictors", Annals of Mathematics and Artificial Intelligence 74, 2015.
    .. [3] R. Barber, E. Candes, A. Ramdas, R. Tibshirani, "Predictive inference with the jackknife+", Annals of
       Statistics 49, 2021: the 2 alpha of "cross".
    .. [4] S. Bates et al., "Testing for outliers with conformal p-values", Annals of Statistics 51, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import ConformalDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = ConformalDetector(alpha=0.05).fit(X)
    >>> detector.predict([[0.5, 0.5], [9.0, 9.0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit"), None],
        "alpha": [Interval(Real, 0.0, 1.0, closed="neither")],
        "method": [StrOptions(set(METHODS))],
        "two_sided": ["boolean"],
        "calibration_size": [Interval(Real, 0.0, 1.0, closed="neither")],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods("split")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        alpha: float = 0.05,
        method: str = "split",
        two_sided: bool = False,
        calibration_size: float = 0.5,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.method = method
        self.two_sided = two_sided
        self.calibration_size = calibration_size
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    # The estimator validates its own parameters.
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from positive samples, and calibrate on those that were not learned.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            What the estimator takes; rows must be exchangeable.
        y : ignored

        Raises
        ------
        ValueError
            For parameters, shapes or values that make no sense; the text says what to do.

        Warns
        -----
        slabsvm.conformal.detector.CalibrationWarning
            Where there are fewer than 1/alpha - 1 calibration samples, so that nothing can be rejected.
        """
        del y
        self._calibrate(X)
        if self.offset_ == 0:
            needed = int(np.ceil(self._sides / self.alpha - WHOLE)) - 1
            warnings.warn(
                f"Nothing will be rejected: with {self.n_calibration_} calibration samples the smallest p-value is "
                f"{self._sides / (self.n_calibration_ + 1):.3g}, and alpha is {self.alpha:g}. Give at least {needed} "
                "calibration samples, or a larger alpha; 'cross' and 'leave-one-out' calibrate on every row.",
                CalibrationWarning,
                stacklevel=3,
            )
        return self

    def p_values(self, X: Any) -> FloatArray:
        """Return the conformal p-value of each row, shape (n_samples,): a multiple of 1/(n_calibration_ + 1)."""
        return combined(*self._tails(X), self.n_calibration_, self.two_sided)

    def score_samples(self, X: Any) -> FloatArray:
        """Return graded p-values, shape (n_samples,): below p by at most a step, fine as the detector's scores."""
        lower, upper = self._tails(X)
        step = 1.0 / (self.n_calibration_ + 1)
        score = step * graded(lower)
        return np.minimum(1.0, 2.0 * np.minimum(score, step * graded(upper))) if self.two_sided else score

    def decision_function(self, X: Any) -> FloatArray:
        """Return score_samples(X) - offset_, shape (n_samples,): >= 0 for rows that are accepted."""
        decision: FloatArray = self.score_samples(X) - self.offset_
        return decision

    def predict(self, X: Any, alpha: float | None = None) -> npt.NDArray[np.intp]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,).

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        alpha : float in (0, 1), default=None
            Another rate of false alarms than the detector's own; it needs no refit.
        """
        scores = self.score_samples(X)
        return np.where(scores >= (self.offset_ if alpha is None else self._level(alpha)), 1, -1)

    def novelties(self, X: Any, fdr: float = 0.1) -> npt.NDArray[np.bool_]:
        """Return which rows of a batch are novelties; of those named, a share of at most fdr is false on average.

        By `benjamini_hochberg`. The promise is that of "split" and "prefit".
        """
        return benjamini_hochberg(self.p_values(X), fdr)

    def threshold(self, alpha: float | None = None) -> float:
        """Return the level of the one estimator's decision_function below which rows are rejected at a rate alpha.

        -inf where there are too few calibration samples. It needs no refit.

        Raises
        ------
        ValueError
            With method="cross" or two_sided=True, where no one level does it.
        """
        check_is_fitted(self)
        if len(self.estimators_) > 1 or self.two_sided:
            raise ValueError(
                "There is no single threshold with method='cross', which has several models, or with two_sided=True. "
                "Use predict(X, alpha=...), which needs no refit either."
            )
        last = round(self._level(self.alpha if alpha is None else alpha) * (self.n_calibration_ + 1))
        return float(self.calibration_scores_[0][last - 1]) if last else -np.inf

    def _calibrate(self, X: Any) -> None:
        X = indexable(X)[0]
        validate_data(self, X=X, reset=True, skip_check_array=True)
        detector = OneClassSlabSVM() if self.estimator is None else self.estimator
        members = self._members(detector, X)
        self.estimators_ = [member.detector for member in members]
        self.calibration_scores_ = [in_order(member.scores) for member in members]
        # A kernel matrix's columns belong to training rows, of which each model has learned some.
        pairwise = get_tags(detector).input_tags.pairwise
        self._columns = [member.learned if pairwise else None for member in members]
        self.n_calibration_ = sum(map(len, self.calibration_scores_))
        self.offset_ = self._level(self.alpha)

    def _members(self, detector: Any, X: Any) -> Sequence[_Member]:
        if self.method == "prefit":
            check_is_fitted(detector)
            return [_Member(detector, answer(detector, X).values, None)]
        if self.method == "leave-one-out":
            fitted = clone(detector).fit(X)
            return [_Member(fitted, _left_out(fitted), None)]
        members: list[_Member] = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_and_score)(clone(detector), X, learned, held_out) for learned, held_out in self._splits(X)
        )
        return members

    def _splits(self, X: Any) -> Sequence[tuple[Rows, Rows]]:
        count, random = _num_samples(X), check_random_state(self.random_state)
        held = max(1, int(self.calibration_size * count))
        if count - (1 if self.method == "cross" else held) < 2:
            raise ValueError(
                f"Cannot learn and calibrate from n_samples = {count} with method={self.method!r}: at least 2 samples "
                "are to be learned and 1 is to be held out. Give more samples."
            )
        if self.method == "cross":
            folds = KFold(min(self.cv, count), shuffle=True, random_state=random) if _is_number(self.cv) else self.cv
            return list(check_cv(folds).split(X))
        order = random.permutation(count)
        return [(np.sort(order[held:]), np.sort(order[:held]))]

    def _level(self, alpha: float) -> float:
        """Return the largest p-value that is rejected at a rate alpha, 0 where there is none."""
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be a rate between 0 and 1, got {alpha:g}.")
        steps = np.floor(alpha * (self.n_calibration_ + 1) / self._sides + WHOLE)
        return float(self._sides * steps * (1.0 / (self.n_calibration_ + 1)))

    @property
    def _sides(self) -> int:
        return 2 if self.two_sided else 1

    def _tails(self, X: Any) -> tuple[list[Tail], list[Tail]]:
        check_is_fitted(self)
        X = as_rows(X)
        validate_data(self, X=X, reset=False, skip_check_array=True)
        lower, upper = [], []
        for detector, ordered, columns in zip(self.estimators_, self.calibration_scores_, self._columns, strict=True):
            scores = answer(detector, X if columns is None else np.asarray(X)[:, columns]).values
            lower.append(tail_of(ordered, scores))
            upper.append(tail_of(-ordered[::-1], -scores))
        return lower, upper

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input: the estimator's own answer."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(OneClassSlabSVM() if self.estimator is None else self.estimator).input_tags
        return tags


@dataclass(frozen=True)
class _Member:
    """A fitted detector, the scores of positives that it has not learned, and its rows where it learned but some."""

    detector: Any
    scores: FloatArray
    learned: Rows | None


def _fit_and_score(detector: Any, X: Any, learned: Rows, held_out: Rows) -> _Member:
    detector.fit(_safe_split(detector, X, None, learned)[0])
    held_out_X, _ = _safe_split(detector, X, None, held_out, learned)
    return _Member(detector, answer(detector, held_out_X).values, learned)


def _left_out(fitted: Any) -> FloatArray:
    """Return the decision_function of each training row under the model without it."""
    final = fitted[-1] if isinstance(fitted, Pipeline) else fitted
    if not isinstance(final, Detector) or not hasattr(final, "loo_scores_"):
        raise ValueError(
            "method='leave-one-out' needs the closed-form leave-one-out scores of this package's detectors with "
            f"offsets='leave-one-out'; {type(final).__name__} has none here. Use method='split' or 'cross'."
        )
    return left_out_values(final)


def _is_number(cv: Any) -> bool:
    return isinstance(cv, Integral)


def as_rows(X: Any) -> Any:
    """Return a table of any kind that rows can be picked of; a single row is refused."""
    X = indexable(X)[0]
    if np.ndim(X) == 1:
        raise ValueError(
            "Rows are expected in a table of two dimensions. Reshape your data: X.reshape(1, -1) is one row."
        )
    return X
