"""A threshold at a false-alarm rate, around any detector: some rows are learned, and those held out calibrate it.

Rows out of the reach of an RBF kernel come below all others (`slabsvm.conformal.far`). Each calibration ends with the
p-value of a row infinitely far away, and warns where that row would be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.stats import false_discovery_control
from sklearn.base import OutlierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from slabsvm.conformal.far import far_rows, largest_answer, limit_of, ordered
from slabsvm.conformal.p_values import MOST_SAMPLES, WHOLE, largest_rejected, ranked, whole_up
from slabsvm.data.checks import canonical
from slabsvm.data.distinct import equal_rows, near_copies, numbered
from slabsvm.detectors.answers import (
    Wrapping,
    detector_and_rows,
    explanation_of,
    refuse_classifier,
    refuse_other_polarity,
)
from slabsvm.detectors.base import Detector, parameters, rows_of, scale_warning
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.fitted.explanation import Explanation
from slabsvm.fitted.training import checked_weights, fit_with, may_be_counts
from slabsvm.fitted.warnings import FitWarning, alike, few_distinct_warning, near_copies_warning, uneven_weights_warning
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import silenced, warn
from slabsvm.runtime.estimators import (
    HasMethods,
    Interval,
    _check_method_params,
    _fit_context,
    _num_samples,
    _safe_indexing,
    _safe_split,
    atomic,
    cached_property,
)

# What the warnings of one calibration and of several classes' have in common.
FAR_REMEDY = (
    "If a score grows or levels off with distance, use a slab, SVDD or the RBF kernel. If calibration scores tie at "
    "the lowest, use a smoother estimator (a smaller gamma)."
)
REACH_REMEDY = (
    "They score like rows infinitely far away, and only their kernel mass decides what is accepted there. Use a "
    "smaller gamma, or more samples."
)
ROUNDING_DECIDES = "rounding of its scores may decide which rows are rejected, and whether rows infinitely far away are"


@dataclass(frozen=True)
class FitArguments:
    """The arguments of fit, of n rows."""

    X: Any
    parameters: Mapping[str, Any]  # parameters of the detector's fit
    weights: FloatArray  # (n,): how many calibration rows each row is; with groups, the share of its group that it is
    groups: IndexArray | None = None  # (n,), or None: the number of each row's group

    @cached_property
    def distinct(self) -> IndexArray:
        """The number, from 0, of the distinct row that each is equal to, (n,), in the order in which these appear."""
        if np.iscomplexobj(self.X):
            return np.arange(len(self.weights))
        try:
            return numbered(equal_rows(self.X), len(self.weights))
        except (TypeError, ValueError):
            # Rows that cannot be compared are taken for distinct.
            return np.arange(len(self.weights))

    @property
    def repeats(self) -> float:
        """The share of rows of positive weight that have an equal one."""
        kept = self.distinct[self.weights > 0]
        return float((np.bincount(kept)[kept] > 1).mean())

    @property
    def may_be_counts(self) -> bool:
        """Whether weights may say how often rows were seen; of tables that are no numbers, they may."""
        X, kept = self._numbers(), np.flatnonzero(self.weights > 0)
        if X is None:
            return True
        _, first, of_rows = np.unique(self.distinct[kept], return_index=True, return_inverse=True)
        return may_be_counts(np.bincount(of_rows, self.weights[kept]).astype(np.float64), X[kept[first]])

    def near_copies(self, *, pairwise: bool) -> float:
        """Return the share of distinct rows that have near copies; 0 where rows are no numbers."""
        X, kept = self._numbers(), np.flatnonzero(self.weights > 0)
        if X is None:
            return 0.0
        some = kept[np.unique(self.distinct[kept], return_index=True)[1]]
        if pairwise:
            return near_copies(X, some)
        return near_copies(canonical(X)[some] if sp.issparse(X) else X[some])

    def _numbers(self) -> Any:
        """Return the rows as an array or a CSR matrix, or None where they are no table of numbers."""
        X = sp.csr_array(self.X) if sp.issparse(self.X) else np.asarray(self.X)
        return X if X.ndim == 2 and X.dtype.kind in "fiu" else None


def fit_arguments(X: Any, groups: Any, parameters: Mapping[str, Any]) -> FitArguments:
    """Return the arguments of fit, of which weights and groups are checked; each group counts as one row."""
    weights = checked_weights(parameters.get("sample_weight"), X)
    weights = np.ones(_num_samples(X)) if weights is None else weights
    with np.errstate(over="ignore"):
        if groups is not None:
            numbers = numbered(groups, len(weights))
            of_rows = np.bincount(numbers, weights=weights)[numbers]
            shares = np.divide(weights, of_rows, out=np.zeros_like(weights), where=weights > 0)
            return FitArguments(X, {**parameters, "groups": numbers}, shares, numbers)
        if not weights.sum() <= MOST_SAMPLES:
            raise ValueError(
                f"Calibration takes sample weights as counts of rows. These add up to {weights.sum():.3g}. "
                f"Counts above {MOST_SAMPLES:.0e} are not exact. Divide the weights."
            )
    return FitArguments(X, parameters, weights)


def parted(given: FitArguments, share: float, random: np.random.RandomState) -> tuple[IndexArray, IndexArray]:
    """Return which rows of positive weight to learn, and which to hold out: a share of the distinct rows, or groups.

    Equal rows, or a group, stay together.
    """
    kept = np.flatnonzero(given.weights > 0)
    together = (given.distinct if given.groups is None else given.groups)[kept]
    # Of three distinct rows two can be learned, and one held out.
    if given.groups is None and len(np.unique(together)) < 3:
        together = np.arange(len(kept))
    units = np.unique(together)
    least, what, number = (2, "samples", "n_samples") if given.groups is None else (1, "groups", "number of groups")
    total = len(units)
    held = max(1, int(share * total))
    if total - held < least:
        raise ValueError(
            f"Cannot learn and calibrate from {number} = {total}: at least {least} {what} must be learned and 1 held "
            f"out. Give more {what}."
        )
    inside = np.isin(together, units[random.permutation(total)[:held]])
    return kept[~inside], kept[inside]


def no_direction_warning(detector: Any) -> str:
    """Return the warning of a fit that found w = 0, so that chance decides which rows it rejects, or nothing."""
    model, _ = detector_and_rows(detector)
    # A ball needs no direction: around the origin it tells near from far.
    kinds = (OneClassSlabSVM, OneClassSVM)
    return model.warning_ if isinstance(model, kinds) and model.status_ == "degenerate" else ""


@parameters
class ConformalDetector(OutlierMixin, Wrapping):
    """Any detector, with p-values and a threshold at a false-alarm rate of your choice.

    `predict` rejects a sample if its conformal p-value is at most alpha. If samples are exchangeable, a new positive is
    rejected with probability at most alpha, on average over calibration sets, whatever the model is. Half of the
    samples calibrate, and are not learned; with fewer than 1/alpha - 1 of these nothing is rejected.

    Parameters
    ----------
    estimator : detector, default=None
        A detector or pipeline with decision_function, score_samples or predict; larger is more normal. None is
        `OneClassSlabSVM()`. In scikit-learn's `FrozenEstimator` it is fitted, and all rows given to `fit` calibrate it.
    alpha : float in (0, 1), default=0.05
        The share of new positives that may be rejected. It takes 1/alpha - 1 calibration samples or more.
    calibration_size : float in (0, 1), default=0.5
        The share of distinct rows that is held out and calibrates. Equal rows are held out together, so that fewer than
        alpha are rejected where new rows repeat training rows.
    random_state : int, RandomState or None, default=0
        The seed with which held-out rows are drawn.

    Attributes
    ----------
    estimator_ : fitted detector
    calibration_scores_ : (n,) array of float64
        The scores of the held-out positives, in the unit of the estimator's decision_function, in increasing order.
        Of rows out of an RBF kernel's reach it is their log kernel mass less 1e6.
    held_out_ : (n,) array of int
        The numbers, from 0, of the held-out rows among those given to `fit`.
    smallest_p_value_ : float
        The p-value of a row below all calibration rows: ``1 / (n_calibration_ + 1)``.
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
    .. [2] S. Bates et al., "Testing for outliers with conformal p-values", Annals of Statistics 51, 2023.

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
    calibration_size: float = 0.5
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit"), None],
        "alpha": [Interval(Real, 0.0, 1.0, closed="neither")],
        "calibration_size": [Interval(Real, 0.0, 1.0, closed="neither")],
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
            The name of each row's group, such as its patient, if new rows come from *new* groups. Whole groups are held
            out; each counts as one row, divided among its rows by sample_weight. A fit that takes groups gets them.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative counts of rows: a row of weight 2 is two rows, in learning and in calibration, and is held out
            or learned as a whole. Weights below 1 add up, and their sum is rounded down.
        **fit_params : other parameters of the estimator's fit; those with an entry for each row are split as the rows

        Warns
        -----
        slabsvm.FitWarning
            If there are fewer than 1/alpha - 1 calibration samples, so that nothing can be rejected; if a row
            infinitely far away is accepted; if the fit found w = 0; if more than alpha of the calibration rows are out
            of reach; if calibration rows repeat and fewer than 1/alpha of them are distinct; if few rows set a
            feature's scale; if many rows have near copies; if calibration rows have uneven weights.
        """
        self.learn(X, groups, fit_params)
        return self

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit_predict(self, X: Any, y: Any = None, groups: Any = None, **fit_params: Any) -> npt.NDArray[np.intp]:
        """Learn and calibrate; return -1 for each row of X that is an outlier among the others, +1 for the rest.

        A learned row is judged by its leave-one-out score. Where there is none, as in detectors of other libraries and
        in SVMs that have learned more than 2,000 rows, it gets the answer of `predict`. No rate is promised for
        training rows. The parameters are those of `fit`.
        """
        learned = self.learn(X, groups, fit_params)
        graded, (model, _) = self.score_samples(X), detector_and_rows(self.estimator_)
        if learned is not None and hasattr(model, "calibration_scores_"):
            left_out = model.calibration_decisions_
            known = ~np.isnan(left_out)
            graded[learned[known]] = self.ranking_.graded(left_out[known])
        return np.where(graded >= self.offset_, 1, -1)

    def p_values(self, X: Any) -> FloatArray:
        """Return the conformal p-value of each row, shape (n_samples,): a multiple of ``1 / (n_calibration_ + 1)``."""
        scores = self.scores(X)  # which says first where there is no fit
        return self.ranking_.p_values(scores)

    def score_samples(self, X: Any) -> FloatArray:
        """Return graded p-values, shape (n_samples,): at most one step below p, as fine as the detector's scores."""
        scores = self.scores(X)
        return self.ranking_.graded(scores)

    def predict(self, X: Any, alpha: float | None = None) -> npt.NDArray[np.intp]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,).

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        alpha : float in (0, 1), default=None
            A rate of false alarms to use instead of the detector's own, without a refit. Warns with a
            slabsvm.FitWarning of fewer than 1/alpha - 1 calibration samples: all rows are accepted.
        """
        return np.where(self.score_samples(X) >= self._sufficient_level(alpha), 1, -1)

    def novelties(self, X: Any, fdr: float = 0.1) -> npt.NDArray[np.bool_]:
        """Return which rows of a batch are outliers; on average at most a share fdr of them are false alarms.

        That is `scipy.stats.false_discovery_control` of the p-values. They depend on each other, and it is valid for
        them nevertheless (Bates et al. 2023).
        """
        if not 0 < fdr < 1:
            raise ValueError(
                f"fdr must be a share between 0 and 1, got {fdr!r}; .1 means that one in ten may be false."
            )
        # Rounding may put the smallest share at which a row is named just above fdr.
        return np.asarray(false_discovery_control(self.p_values(X)) <= fdr * (1 + WHOLE))

    def threshold(self, alpha: float | None = None) -> float:
        """Return the level of the estimator's decision_function below which rows are rejected at a rate alpha.

        The level is -inf, with a warning, if there are too few calibration samples. It needs no refit. Raises
        ValueError if a row infinitely far away would be above it.
        """
        check_is_fitted(self)
        last = round(self._sufficient_level(alpha) * (self.n_calibration_ + 1))
        if not last:
            return -np.inf
        passed = whole_up(np.cumsum(self.ranking_.weights))
        level = float(self.ranking_.values[np.searchsorted(passed, last)])
        if limit_of(self.estimator_) >= level:
            raise ValueError(
                "At this rate no threshold of decision_function rejects rows infinitely far away, because "
                "calibration samples score no more than these. Use predict(X, alpha=...), which separates them by "
                "their kernel mass, or a smaller gamma."
            )
        return level

    def level(self, alpha: float) -> float:
        """Return the largest p-value that is rejected at a rate alpha, or 0 if there is none."""
        return largest_rejected(alpha, self.n_calibration_)

    @property
    def smallest_p_value_(self) -> float:
        """The p-value of a row below all calibration rows."""
        return 1 / (self.n_calibration_ + 1)

    def _nominal_recall(self) -> float:
        return 1.0 - self.alpha

    @property
    def calibration_scores_(self) -> FloatArray:
        """The scores of the held-out positives, (n,), in increasing order."""
        return self.ranking_.values

    def taken(self, X: Any) -> Any:
        """Return validated rows as the estimator takes them: of a kernel matrix the columns that it has learned."""
        return X if self.columns_ is None else np.asarray(X)[:, self.columns_]

    def scores(self, X: Any) -> FloatArray:
        """Return the estimator's scores of rows, (n,), in an order to infinity (`slabsvm.conformal.far`)."""
        check_is_fitted(self)
        return ordered(self.estimator_, self.taken(self._table(X, reset=False)))[0]

    @property
    def _detector(self) -> Any:
        return self.estimator.estimator if self._is_fitted_before else super()._detector

    @property
    def _is_fitted_before(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator)

    def learn(self, X: Any, groups: Any, fit_params: Mapping[str, Any], *, of_class: bool = False) -> IndexArray | None:
        """Learn, calibrate and warn; return which rows the detector has learned, or None where it came fitted.

        What is odd about the calibration of one class of many is for those who know all to say.

        :meta private:
        """
        refuse_classifier(self._detector, self)
        X = self._table(X, reset=True)
        given, learned = fit_arguments(X, groups, fit_params), None
        if self._is_fitted_before:
            check_is_fitted(self._detector)
            self.estimator_, self.held_out_ = self._detector, np.flatnonzero(given.weights > 0)
            rows = _safe_indexing(X, self.held_out_)
        else:
            random = check_random_state(self.random_state)
            learned, self.held_out_ = parted(given, self.calibration_size, random)
            detector = clone(self._detector)
            own = _check_method_params(X, given.parameters, indices=learned)
            # Where the detector puts its own threshold does not matter here: the calibration has warnings of its own.
            with silenced(FitWarning):
                self.estimator_ = fit_with(detector, _safe_split(detector, X, None, learned)[0], own)
            rows, _ = _safe_split(detector, X, None, self.held_out_, learned)
        scores, is_far = ordered(self.estimator_, rows)
        refuse_other_polarity(self.estimator_, rows, scores)
        weights = given.weights[self.held_out_]
        self.ranking_ = ranked(scores, weights)
        # Rows that are held out by the user repeat learned ones as new rows do.
        self.repeats_ = 0.0 if learned is None else given.repeats
        self.grouped_ = given.groups is not None
        # A kernel matrix's columns belong to training rows, of which the model has learned some.
        pairwise = bool(get_tags(self._detector).input_tags.pairwise)
        self.columns_ = learned if pairwise else None
        self.n_calibration_ = self.ranking_.count
        self.out_of_reach_ = float(weights[is_far].sum() / weights.sum())
        self.offset_ = self.level(self.alpha)
        self.far_p_value_ = largest_answer(self.p_values, far_rows(X, pairwise=pairwise))
        odd = self._odd_rows(given, scores, weights, pairwise=pairwise)
        for text in filter(None, odd if of_class else chain(self._warnings(), odd)):
            warn(text, FitWarning)
        return learned

    def _sufficient_level(self, alpha: float | None) -> float:
        """Return the level of a rate, the detector's own for None, and warn where there is none."""
        rate = self.alpha if alpha is None else alpha
        level = self.level(rate)
        if level == 0:
            warn(self._too_few(rate), FitWarning)
        return level

    def _too_few(self, alpha: float) -> str:
        """Return the warning where no p-value is as small as alpha."""
        needed = int(np.ceil(min(1 / alpha, MOST_SAMPLES) - WHOLE)) - 1
        return (
            f"Nothing will be rejected: with {self.n_calibration_} calibration samples the smallest p-value is "
            f"{self.smallest_p_value_:.3g}, and alpha is {alpha:g}. Give at least {needed} calibration samples (or "
            "groups, if you gave groups), or a larger alpha."
        )

    def _warnings(self) -> Iterator[str]:
        """Give the warnings after calibration."""
        if self.offset_ == 0:
            yield self._too_few(self.alpha)
            return
        if warned := no_direction_warning(self.estimator_):
            yield f"The fit of the estimator found w = 0: {ROUNDING_DECIDES}. The fit's own warning: {warned}"
        elif self.far_p_value_ > self.offset_ * (1 + WHOLE):
            p_value = f"one has the p-value {self.far_p_value_:.3g}, and alpha is {self.alpha:g}"
            yield f"Rows infinitely far away are accepted: {p_value}. {FAR_REMEDY}"
        if self.out_of_reach_ > self.alpha:
            yield f"{self.out_of_reach_:.0%} of the calibration samples are out of the kernel's reach. {REACH_REMEDY}"

    def _odd_rows(
        self, given: FitArguments, scores: FloatArray, weights: FloatArray, *, pairwise: bool
    ) -> Iterator[str]:
        """Give warnings of rows by which a calibration is not what it seems, or empty texts."""
        calibrates = given.groups is None and self.offset_ > 0
        # A fit that was given has said itself that a few rows make its scale.
        if not self._is_fitted_before:
            model, rows = detector_and_rows(self.estimator_, given.X)
            if isinstance(model, Detector) and not get_tags(model).input_tags.pairwise:
                yield scale_warning(model, rows_of(model, rows))
            if calibrates:
                remedy = "Give each row once, or name the copies of each as groups: fit(X, groups=...)."
                yield near_copies_warning(given.near_copies(pairwise=pairwise), remedy)
        if calibrates:
            distinct = given.distinct[self.held_out_]
            # At these calibration scores, the lowest ones, a new row is rejected.
            low = 1.0 + np.cumsum(self.ranking_.weights) <= self.alpha * (self.n_calibration_ + 1)
            rejected = distinct[np.isin(scores, self.ranking_.values[: np.count_nonzero(low)])]
            n_distinct, n_rejected = len(np.unique(distinct)), len(np.unique(rejected))
            uneven = "" if alike(weights) else uneven_weights_warning(weights, 1.0 - self.alpha)
            # Weights that are no counts repeat no row.
            matter = bool(uneven) and not given.may_be_counts
            yield few_distinct_warning(
                n_distinct, len(weights) if matter else self.n_calibration_, n_rejected, self.alpha
            )
            yield uneven if matter else ""

    def _explanation(self, X: Any) -> Explanation:
        found = explanation_of(self.estimator_, X)
        reference = self.ranking_.graded(np.array([found.reference])) - self.offset_
        return found.carried_over(self.decision_function(X), float(reference[0]))
