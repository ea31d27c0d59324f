"""A threshold at a false-alarm rate, around any detector.

P(p <= alpha) <= alpha holds with *split* for any data and model. With *cross* (Vovk 2015; Barber et al. 2021) scores
are only compared within one model; the guarantee is 2 alpha, the rate in practice near alpha. *Leave-one-out* has none.

Rows out of the reach of an RBF kernel come below all others (`slabsvm.conformal.remoteness`). Each calibration ends
with the p-value of a row infinitely far away, and warns where that row would be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.conformal.held_out import Calibrated, FitArguments, calibrated, fit_arguments
from slabsvm.conformal.p_values import (
    MOST_SAMPLES,
    WHOLE,
    Tail,
    benjamini_hochberg,
    combined,
    combined_graded,
    largest_rejected,
    pooled,
    ranked,
    whole_down,
    whole_up,
)
from slabsvm.conformal.remoteness import deciding_reach, far_rows, final_estimator, largest_answer, limit_of
from slabsvm.data.checks import reading
from slabsvm.detectors.answers import answer, explanation_of, refuse_classifier
from slabsvm.detectors.base import Detector, SlabCollapseWarning, parameters, rows_of, scale_by_few
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.fitted.explanation import Explanation, mean_of
from slabsvm.fitted.recall import alike, misjudged_repeats, nearly_copied, too_uneven
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.caller import warn
from slabsvm.runtime.objects import atomic
from slabsvm.runtime.sklearn_private import HasMethods, Interval, StrOptions, _fit_context, _num_samples, _safe_indexing

METHODS = ("split", "cross", "leave-one-out", "prefit")
# What the warnings of one calibration and of several classes' have in common.
FAR_REMEDY = (
    "If a score grows or levels off with distance, use two_sided=True, SVDD or the RBF kernel. If calibration scores "
    "tie at the lowest, use a smoother estimator (a smaller gamma)."
)
REACH_REMEDY = (
    "They score like rows infinitely far away, and only their kernel mass decides what is accepted there. Use a "
    "smaller gamma, or more samples."
)
BY_CHANCE = "rounding of its scores may decide which rows are rejected, and whether rows infinitely far away are"


class CalibrationWarning(UserWarning):
    """A calibration that keeps its rate, but accepts every row or rows far away, or tells no rows apart."""


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
        estimator's shares, rescaled to p-values; with several models (method="cross") their mean. Raises ValueError for
        an estimator that `slabsvm.explain` refuses, and of an `OpenSetClassifier`, whose `models_` explain.
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


def found_no_direction(detectors: Sequence[Any]) -> list[str]:
    """Return the warnings of those fits of some detectors that found w = 0: which rows they reject is chance."""
    models = [final_estimator(detector)[0] for detector in detectors]
    # A ball needs no direction: around the origin it tells near from far.
    kinds = (OneClassSlabSVM, OneClassSVM)
    return [model.warning_ for model in models if isinstance(model, kinds) and model.status_ == "degenerate"]


@parameters
class ConformalDetector(OutlierMixin, Wrapping):
    """Any detector, with p-values and a threshold at a false-alarm rate of your choice.

    `predict` rejects a sample if its conformal p-value is at most alpha. A new positive from the distribution of the
    training samples is rejected with probability at most alpha.

    Parameters
    ----------
    estimator : detector, default=None
        It learns from positives alone, and has decision_function, score_samples or predict; larger is more normal. It
        may be a pipeline. None is `OneClassSlabSVM()`.
    alpha : float in (0, 1), default=0.05
        The share of new positives that may be rejected. It takes 1/alpha - 1 calibration samples or more.
    method : {"split", "cross", "leave-one-out", "prefit"}, default="split"
        "split" holds out rows; its guarantee holds for any data and model. "cross" learns all rows in `cv` fits, and
        predicts with all of these. Both hold equal rows out together, like a row of larger weight, so that fewer than
        alpha are rejected where new rows repeat training rows. "leave-one-out" fits once, on all rows, and needs a
        detector of this package with offsets="leave-one-out". "prefit" takes a fitted estimator; all rows given to
        `fit` then count as held out.
    two_sided : bool, default=False
        Whether to reject scores that are too high, too, which a slab does by itself. A one-class SVM becomes a slab.
    calibration_size : float in (0, 1), default=0.5
        The share of rows that "split" holds out.
    cv : int or splitter, default=5
        The folds of "cross". Beware of a splitter that puts equal rows into different folds: a copy of a training row
        is not new.
    n_jobs : int or None, default=None
        The number of fits of "cross" at once; None is 1 unless in a `joblib.parallel_config` context, -1 all.
    random_state : int, RandomState or None, default=0
        The seed with which held-out rows are drawn.

    Attributes
    ----------
    estimators_ : list of fitted detectors
        One, or one for each fold.
    calibration_scores_ : list of (n_k,) arrays of float64
        The scores of each detector's held-out positives, in the unit of its decision_function, in increasing order.
    held_out_ : list of (n_k,) arrays of int
        The numbers of these rows among those given to `fit`.
    smallest_p_value_ : float
        The p-value of a row below all calibration rows: ``1 / (n_calibration_ + 1)``, or twice it with two_sided=True.
    n_calibration_ : int
        The number of calibration rows, or groups; with sample_weight, the sum of rows' weights, rounded down.
    far_p_value_ : float
        The largest p-value among a few rows infinitely far from the training rows; NaN if such rows cannot be made
        (some columns are not numbers) or the estimator refuses them.
    out_of_reach_ : float
        The share of calibration rows that are out of reach of the estimator's RBF kernel and score like a row
        infinitely far away. Their kernel mass orders them.
    offset_ : float
        ``decision_function = score_samples - offset_``: the largest p-value that is rejected, alpha rounded down to a
        multiple of ``1 / (n_calibration_ + 1)``.
    n_features_in_, feature_names_in_ : int, (n_features,) array of str
        The names only when X has names that are all strings.

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

    estimator: Any = field(default=None, kw_only=False)
    alpha: float = 0.05
    method: str = "split"
    two_sided: bool = False
    calibration_size: float = 0.5
    cv: Any = 5
    n_jobs: int | None = None
    random_state: Any = 0

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

    # The estimator validates its own parameters.
    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, groups: Any = None, **fit_params: Any) -> Self:
        """Learn from positive samples, and calibrate on held-out ones.

        Raises ValueError for parameters, shapes or values that make no sense, for an estimator whose larger scores are
        less normal, and for sample_weight with an estimator that does not take it.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            What the estimator takes. Rows must be exchangeable; with groups, the groups, and the rows within each.
        y : ignored
        groups : array-like of shape (n_samples,), default=None
            The name of each row's group (patient, machine, video), if new rows come from *new* groups. Whole groups are
            held out, and each counts as one row, divided among its rows by sample_weight. An estimator whose fit takes
            groups gets them.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative counts of rows: a row of weight 2 is two rows, in learning and in calibration, and is held out
            or learned as a whole. Weights below 1 add up, and their sum is rounded down.
        **fit_params : other parameters of the estimator's fit; those with an entry for each row are split as the rows

        Warns
        -----
        slabsvm.CalibrationWarning
            If there are fewer than 1/alpha - 1 calibration samples, so that nothing can be rejected; if a row
            infinitely far away is accepted; if the estimator's fit found w = 0; if more than alpha of the calibration
            rows are out of reach.
        slabsvm.SlabCollapseWarning
            If a few rows set the scale of a feature; if many rows have near copies; if calibration rows have uneven
            weights; with method="leave-one-out" also if many rows repeat and far more or fewer of these are accepted.
        """
        self._learn(X, groups, fit_params)
        return self

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit_predict(self, X: Any, y: Any = None, groups: Any = None, **fit_params: Any) -> npt.NDArray[np.intp]:
        """Learn and calibrate; return -1 for each row of X that is an outlier among the others, +1 for the rest.

        The p-value of a row comes from a model that has not learned it: the model that held it out, or for a row that
        "split" has learned, its leave-one-out score. Detectors of other libraries and rows of weight 0 have none and
        get the answer of `predict`. With method="cross" the scores of all models are compared. No rate is promised for
        training rows. The parameters are those of `fit`.
        """
        members = self._learn(X, groups, fit_params)
        X = self._table(X, reset=False)
        scores, reach = np.full(_num_samples(X), np.nan), np.full(_num_samples(X), np.inf)
        for member in members:
            scores[member.held_out], reach[member.held_out] = member.scores, member.deciding_reach
        if self.method == "split":
            members[0].leave_out_learned(X, scores, reach)
        answers, new = np.ones(len(scores), dtype=np.intp), np.isnan(scores)
        answers[~new] = np.where(self._accepts(scores[~new], reach[~new]), 1, -1)
        if new.any():
            rows = _safe_indexing(X, np.flatnonzero(new))
            answers[new] = np.where(self.score_samples(rows) >= self.offset_, 1, -1)
        return answers

    def p_values(self, X: Any) -> FloatArray:
        """Return the conformal p-value of each row, shape (n_samples,): a multiple of ``1 / (n_calibration_ + 1)``."""
        return combined(*self.tails(X), self.n_calibration_, self.two_sided)

    def score_samples(self, X: Any) -> FloatArray:
        """Return graded p-values, shape (n_samples,): at most one step below p, as fine as the detector's scores."""
        return combined_graded(*self.tails(X), self.n_calibration_, self.two_sided)

    def predict(self, X: Any, alpha: float | None = None) -> npt.NDArray[np.intp]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,).

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        alpha : float in (0, 1), default=None
            A rate of false alarms to use instead of the detector's own. It needs no refit. Warns with a
            slabsvm.CalibrationWarning of fewer than 1/alpha - 1 calibration samples: all rows are accepted.
        """
        scores = self.score_samples(X)
        return np.where(scores >= self._sufficient_level(alpha), 1, -1)

    def novelties(self, X: Any, fdr: float = 0.1) -> npt.NDArray[np.bool_]:
        """Return which rows of a batch are outliers; on average at most a share fdr of them are false alarms.

        It uses `benjamini_hochberg`. The guarantee holds for "split" and "prefit".
        """
        return benjamini_hochberg(self.p_values(X), fdr)

    def threshold(self, alpha: float | None = None) -> float:
        """Return the level of the estimator's decision_function below which rows are rejected at a rate alpha.

        The level is -inf, with a warning, if there are too few calibration samples. It needs no refit. Raises
        ValueError if there is no single level: with method="cross" or two_sided=True, or if a row infinitely far away
        would be above it.
        """
        check_is_fitted(self)
        if len(self.estimators_) > 1 or self.two_sided:
            raise ValueError(
                "There is no single threshold with method='cross', which has several models, or with two_sided=True. "
                "Use predict(X, alpha=...), which needs no refit either."
            )
        last = round(self._sufficient_level(alpha) * (self.n_calibration_ + 1))
        if not last:
            return -np.inf
        far, near = self.rankings_[0].far, self.rankings_[0].near
        n_far = float(far.weights.sum())
        passed = whole_up(n_far + np.cumsum(near.weights))
        level = float(near.values[np.searchsorted(passed, last)]) if n_far < last else -np.inf
        if limit_of(self.estimators_[0]) >= level:
            raise ValueError(
                "At this rate no threshold of decision_function rejects rows infinitely far away, because "
                "calibration samples score no more than these. Use predict(X, alpha=...), which separates them by "
                "their kernel mass, or a smaller gamma."
            )
        return level

    def level(self, alpha: float) -> float:
        """Return the largest p-value that is rejected at a rate alpha, or 0 if there is none."""
        return largest_rejected(alpha, self.n_calibration_, self._sides)

    def tails(self, X: Any) -> tuple[list[Tail], list[Tail]]:
        """Return where rows stand among the calibration rows of each detector, from the lowest and from the highest."""
        check_is_fitted(self)
        X = self._table(X, reset=False)
        lower, upper = [], []
        for detector, ranking, columns in zip(self.estimators_, self.rankings_, self.columns_, strict=True):
            rows = X if columns is None else np.asarray(X)[:, columns]
            scores = answer(detector, rows).values
            low, high = ranking.tails(scores, deciding_reach(detector, rows, scores))
            lower.append(low)
            upper.append(high)
        return lower, upper

    @property
    def smallest_p_value_(self) -> float:
        """The p-value of a row below all calibration rows."""
        return min(1.0, self._sides / (self.n_calibration_ + 1))

    def _learn(self, X: Any, groups: Any, fit_params: Mapping[str, Any]) -> Sequence[Calibrated]:
        """Learn, calibrate and warn; return the fitted detectors with the positives that they have not learned."""
        refuse_classifier(self._detector, self)
        X = self._table(X, reset=True)
        given = fit_arguments(X, groups, fit_params)
        members = calibrated(self._detector, given, self)
        self.estimators_ = [member.detector for member in members]
        self.calibration_scores_ = [np.sort(member.scores) for member in members]
        self.rankings_ = [ranked(member.scores, member.deciding_reach, member.weights) for member in members]
        self.held_out_ = [member.held_out for member in members]
        # Rows that are held out by the user repeat learned ones as new rows do.
        self.repeats_ = 0.0 if self.method == "prefit" else given.repeats
        # A kernel matrix's columns belong to training rows, of which each model has learned some.
        self.columns_ = [member.learned if self._pairwise else None for member in members]
        total = sum(ranking.total for ranking in self.rankings_)
        self.n_calibration_ = whole_down(total)
        self.out_of_reach_ = sum(float(member.weights[member.reach < np.inf].sum()) for member in members) / total
        self.offset_ = self.level(self.alpha)
        self.far_p_value_ = largest_answer(self.p_values, far_rows(given.X, pairwise=self._pairwise))
        for text in self._warnings():
            warn(text, CalibrationWarning)
        for text in filter(None, self._odd_rows(given, members)):
            warn(text, SlabCollapseWarning)
        return members

    def _accepts(self, scores: FloatArray, reach: FloatArray) -> BoolArray:
        """Return whether rows are accepted, (n,), of these scores by models that have not learned them."""
        lower, upper = pooled(self.rankings_).tails(scores, reach)
        p_values = combined([lower], [upper], self.n_calibration_, self.two_sided)
        return np.asarray(p_values > self.offset_ * (1 + WHOLE))

    def _sufficient_level(self, alpha: float | None) -> float:
        """Return the level of a rate, the detector's own for None, and warn where there is none."""
        rate = self.alpha if alpha is None else alpha
        level = self.level(rate)
        if level == 0:
            warn(self._too_few(rate), CalibrationWarning)
        return level

    def _too_few(self, alpha: float) -> str:
        """Return the warning where no p-value is as small as alpha."""
        needed = int(np.ceil(min(self._sides / alpha, MOST_SAMPLES) - WHOLE)) - 1
        return (
            f"Nothing will be rejected: with {self.n_calibration_} calibration samples the smallest p-value is "
            f"{self.smallest_p_value_:.3g}, and alpha is {alpha:g}. Give at least {needed} calibration samples (or "
            "groups, if you gave groups), or a larger alpha; 'cross' and 'leave-one-out' calibrate on every row."
        )

    def _warnings(self) -> list[str]:
        """Return the warnings after calibration."""
        if self.offset_ == 0:
            return [self._too_few(self.alpha)]
        texts = []
        warned, n_fits = found_no_direction(self.estimators_), len(self.estimators_)
        if warned:
            fits = "The fit" if n_fits == 1 else f"{len(warned)} of {n_fits} fits"
            texts.append(f"{fits} of the estimator found w = 0: {BY_CHANCE}. The fit's own warning: {warned[0]}")
        if self.far_p_value_ > self.offset_ * (1 + WHOLE) and len(warned) < n_fits:
            texts.append(
                f"Rows infinitely far away are accepted: one has the p-value {self.far_p_value_:.3g}, and alpha is "
                f"{self.alpha:g}. {FAR_REMEDY}"
            )
        if self.out_of_reach_ > self.alpha:
            share = f"{self.out_of_reach_:.0%} of the calibration samples"
            texts.append(f"{share} are out of the kernel's reach. {REACH_REMEDY}")
        return texts

    def _odd_rows(self, given: FitArguments, members: Sequence[Calibrated]) -> list[str]:
        """Return warnings of rows by which a calibration is not what it seems, or empty texts."""
        texts = [self._misjudged_repeats(given.X, members[0])]
        if self.method != "prefit":
            # A fit that was given has said itself that a few rows make its scale.
            model, rows = final_estimator(self.estimators_[0], given.X)
            if isinstance(model, Detector) and not get_tags(model).input_tags.pairwise:
                texts.append(scale_by_few(model, rows_of(model, rows)))
        if given.groups is not None or self.offset_ == 0:
            return texts
        if self.method != "prefit":
            remedy = "Give each row once, or name the copies of each as groups: fit(X, groups=...)."
            texts.append(nearly_copied(given.near_copies(pairwise=self._pairwise), remedy))
        weights = np.concatenate([member.weights for member in members])
        uneven = "" if alike(weights) else too_uneven(weights, 1.0 - self.alpha)
        return [*texts, uneven] if uneven and not given.may_be_counts else texts

    def _misjudged_repeats(self, X: Any, calibrated: Calibrated) -> str:
        """Return a warning where leave-one-out scores misjudge rows that repeat, or nothing."""
        distinct = calibrated.distinct
        if distinct is None or self.offset_ == 0:
            return ""

        def left_out() -> BoolArray:
            accepted = np.zeros(len(distinct.group), dtype=bool)
            accepted[distinct.group >= 0] = self._accepts(calibrated.scores, calibrated.deciding_reach)
            return accepted

        return misjudged_repeats(
            distinct,
            1.0 - self.alpha,
            accepted=lambda some: self.predict(_safe_indexing(X, distinct.representatives[some])) == 1,
            left_out=left_out,
            seen="Use method='split'",
            held_out="method='prefit'",
        )

    @property
    def _pairwise(self) -> bool:
        return bool(get_tags(self._detector).input_tags.pairwise)

    @property
    def _sides(self) -> int:
        return 2 if self.two_sided else 1

    def _explanation(self, X: Any) -> Explanation:
        found = [explanation_of(detector, X) for detector in self.estimators_]
        places = [
            ranking.tails(np.array([one.reference]), np.array([np.inf]))
            for ranking, one in zip(self.rankings_, found, strict=True)
        ]
        lower, upper = (list(tails) for tails in zip(*places, strict=True))
        reference = combined_graded(lower, upper, self.n_calibration_, self.two_sided) - self.offset_
        return mean_of(found).carried_over(self.decision_function(X), float(reference[0]))
