"""The abstract detector: scikit-learn's outlier contract, and what every fit goes through.

A fit is a pipeline of values. Rows and weights become a `Training`, validated once; a model learns from it and returns
a frozen `Model`; `fit` puts that and its public attributes on the detector, in one place, and warns of what the model
finds odd about it. A model states how it learns, how it scores, and its warnings.

Where scores keep their scale though a tenth of the rows is missing, each row may be scored by a model of the other
folds (`scores_by_folds`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import canonical, is_plain, reading, refuse_lost_digits, without_unit
from slabsvm.data.distinct import Distinct, distinct_rows, fingerprints, groups_of, near_copies, numbered
from slabsvm.fitted import warnings
from slabsvm.fitted.explanation import Explanation
from slabsvm.fitted.model import Model
from slabsvm.fitted.threshold import Calibration
from slabsvm.fitted.training import Training, checked_weights, folds, held_out, rows_counted
from slabsvm.fitted.warnings import FitWarning
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import silenced, warn
from slabsvm.runtime.estimators import (
    StrOptions,
    _check_method_params,
    _fit_context,
    _num_samples,
    _safe_indexing,
    _safe_split,
    atomic,
)
from slabsvm.svm.program import weighted_quantile

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def parameters(model: type[T]) -> type[T]:
    """Make a class's annotated attributes its parameters: keywords of __init__, with these defaults.

    Each parameter is written once with what it may be, in the class that it belongs to, and scikit-learn sees one flat
    signature. What `fit` sets is annotated with field(init=False).
    """
    # Where scikit-learn looks for what a class's parameters may be.
    place = "_parameter_constraints"
    allowed = [vars(base).get(place, {}) for base in reversed(model.__mro__)]
    setattr(model, place, {name: values for each in allowed for name, values in each.items()})
    return dataclass(kw_only=True, eq=False, repr=False)(model)


@parameters
class Detector(OutlierMixin, BaseEstimator, ABC):
    """An outlier detector that learns from distinct positive samples, and accepts what scores at least `offset_`."""

    calibration: str = "auto"
    random_state: Any = 0

    offset_: float = field(init=False)
    n_samples_fit_: int = field(init=False)
    calibration_scores_: FloatArray = field(init=False)
    warning_: str = field(init=False)
    expected_recall_: float = field(init=False)
    expected_recall_error_: float = field(init=False)
    model_: Model = field(init=False)
    # The fingerprint of each row of positive weight, by which it is known again.
    learned_: npt.NDArray[np.uint64] | None = field(init=False)
    grouped_: bool = field(init=False)  # whether fit was given groups
    # What weights were divided by.
    _weight_unit: float = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "calibration": [StrOptions({"auto", "held-out", "training"})],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def score_samples(self, X: Any) -> FloatArray:
        """Return how normal each row is, shape (n_samples,): the larger the more normal."""

    def decision_function(self: Any, X: Any) -> FloatArray:
        """Return ``score_samples(X) - offset_``, shape (n_samples,): >= 0 for rows that are accepted."""
        decision: FloatArray = self.score_samples(X) - self.offset_
        return decision

    def predict(self: Any, X: Any) -> npt.NDArray[np.intp]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def explain(self: Any, X: Any) -> FloatArray:
        """Return what each feature adds to the decision_function of each row, shape (n_samples, n_features).

        The shares of a row add up to its decision_function, to rounding. A negative share pushes the row out. A row
        that is typical in every feature has shares of one sign. docs/developers/explanations.md says how shares are
        computed.

        Raises
        ------
        ValueError
            If the model does not know single features, as with kernel="precomputed" or a kernel function.
        """
        check_is_fitted(self)
        return np.ascontiguousarray(self._explanation(X).shares)

    def _explanation(self, X: Any) -> Explanation:
        """Return the shares of each feature in the decisions of rows."""
        raise ValueError(
            f"{type(self).__name__} does not say what each feature adds to a decision. AutoDetector does, for example."
        )

    @property
    def _takes_scale(self) -> bool:
        """Whether the model's scale is that of the rows, and no number that it was given."""
        return True

    @abstractmethod
    def _learn(self, training: Training) -> Model:
        """Return what there is to find; nothing is put on the detector."""

    @abstractmethod
    def _diagnosis(self) -> str:
        """Return what is odd about the fitted model and what to do, or nothing."""

    @abstractmethod
    def _nominal_recall(self) -> float:
        """Return the share of new positives that the parameters ask to be accepted."""

    @atomic
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from positive samples.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            float32 or float64; other types become float64. With kernel="precomputed" the symmetric matrix of kernel
            values, of shape (n_samples, n_samples).
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; 0 leaves the row out. Whole numbers are counts: a weight of 2 equals two identical rows, and
            where the threshold is put one of them leaves at a time. Other weights say how much a row matters, and it
            leaves whole. What is learned depends on the ratios of weights alone (but for SVDD's C, a bound for a weight
            of 1). In `AutoDetector` and `NeighboursDetector` a row's copies are its neighbours. If whole numbers say
            how much rows matter instead, new rows that repeat none are rejected too often: use `ConformalDetector`,
            which sets the threshold from held-out rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For parameters, shapes or values that make no sense. The text says what to do. After this or any other
            exception, also an interrupt, the model is as before.
        TypeError
            If X is a mapping of columns, or groups cannot be compared.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            When a solver stopped before its duality gap was within tol.
        slabsvm.FitWarning
            When the model may not do what its parameters ask for. Causes are: it has no width; it accepts rows
            infinitely far away, or rejects them at the cost of new positives; calibration="training" will reject far
            more new positives than asked for; many rows have near copies; a few rows set the scale of a feature; a slab
            rejects the rows that it learned; samples are too few, by number or by uneven weights; or most rows are
            copies of others that one feature tells apart. The text stays in `warning_`.
        """
        self.fit_training(self.training(X, sample_weight))
        return self

    def training(self, X: Any, sample_weight: Any = None, groups: Any = None) -> Training:
        """Return rows and weights, validated, and which rows are equal or of one group.

        :meta private:
        """
        X = self._checked(X, reset=True)
        given = checked_weights(sample_weight, X)
        weights, self._weight_unit = (np.ones(X.shape[0]), 1.0) if given is None else without_unit(given)
        distinct = self._distinct(X, weights)
        of_groups = None if groups is None else groups_of(groups, distinct, weights)
        return Training(X, weights, distinct, groups=of_groups, rows_each=rows_counted(given))

    def fit_training(self, training: Training, *, part: bool = False) -> Model:
        """Learn from validated rows, and return the model as it was learned.

        part says that this is a part of a model that looks itself for what is odd about its rows: of this one none is
        sought.

        :meta private:
        """
        with ONE_BLAS_THREAD:
            fitted = self._learn(training)
        self._publish(training, fitted, part=part)
        return fitted

    def _take(self, training: Training, fitted: Model) -> None:
        """Put what was found on the detector, in place of what an earlier fit found."""
        if hasattr(self, "model_"):
            for name in self.model_.attributes():
                delattr(self, name)
        self.model_ = fitted
        self.n_samples_fit_ = training.n_rows
        self.__dict__.update(fitted.attributes())

    def _publish(self, training: Training, fitted: Model, *, part: bool) -> None:
        """Put what was found on the detector, and warn of what is odd about it."""
        self._take(training, fitted)
        if part:
            self.warning_ = ""
            return
        self.learned_ = fingerprints(training.X)[training.weights > 0]
        self.grouped_ = training.groups is not None
        texts = (
            self._diagnosis(),
            self._known_outliers_warning(training),
            self._near_copies_warning(training),
            scale_warning(self, training.samples),
            self._few_rows_warning(training),
        )
        self.warning_ = " ".join(text for text in texts if text)
        if self.warning_:
            warn(self.warning_, FitWarning)

    @property
    def calibration_decisions_(self) -> FloatArray:
        """The decision_function of each training row under the model without it: (n_samples,) array of float64.

        Negative for the outliers among the training rows. About as many rows are negative as nu or recall asks for. NaN
        where `calibration_scores_` is. The boundary is that of the fitted model. Not with calibration="training".
        """
        if not hasattr(self, "calibration_scores_"):
            remedy = "Fit it with calibration='auto' or 'held-out'."
            raise AttributeError(f"This {type(self).__name__} has no calibration_decisions_. {remedy}")
        return self._decisions(self.calibration_scores_)

    def _decisions(self, scores: FloatArray) -> FloatArray:
        """Return the decisions that follow from scores of the kind of calibration_scores_."""
        return scores - self.offset_

    def _typical_decision(self) -> float:
        """Return the decision of a typical training row without itself; no less than 0, which it is where unknown."""
        if "calibration_scores_" not in self.__dict__:
            return 0.0
        return max(0.0, float(np.nanmedian(self.calibration_decisions_)))

    def _known_outliers_warning(self, training: Training) -> str:
        """Return a warning where known outliers are learned as positives, too, or nothing."""
        return ""

    def _near_copies_warning(self, training: Training) -> str:
        """Return a warning where left-out rows are known by their near copies, or nothing."""
        if self.calibration == "training" or training.groups is not None:
            return ""
        remedy = "Give each row once, or name the copies of each in fit(X, groups=...), where it takes groups."
        return warnings.near_copies_warning(self._near_copies(training), remedy)

    def _near_copies(self, training: Training) -> float:
        return near_copies(training.samples)

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> npt.NDArray[np.intp]:
        """Fit X, and return -1 for each of its rows that is an outlier among the others, +1 for the rest.

        Each answer is of a model that has not learned the row, as in scikit-learn's `LocalOutlierFactor`. About as many
        rows get -1 as the parameters ask for. That is the sign of `calibration_decisions_`, shape (n_samples,), where
        each row has one. Where rows were held out, as of more than 3,000 by a support vector machine, each half of the
        rows is answered by a model of the other half, with its own threshold. A row of weight 0 gets the answer of
        `predict`.

        `fit(X).predict(X)` differs: learning a row raises its score, so few training rows or none are rejected. The two
        agree with calibration="training", where training scores set the threshold.

        Parameters
        ----------
        X, y, **kwargs
            As for `fit`.
        """
        self.fit(X, y, **kwargs)
        return self._predict_learned(X, **kwargs)

    def _predict_learned(self, X: Any, **parameters: Any) -> npt.NDArray[np.intp]:
        """Return what `fit_predict` answers the rows that were given to `fit`, with these parameters."""
        if "calibration_scores_" not in self.__dict__:
            return self.predict(X)
        if self.model_.has_held_out:
            return self._predict_by_halves(X, **parameters)
        decisions = self.calibration_decisions_
        answers = np.where(decisions >= 0, 1, -1)
        new = np.flatnonzero(np.isnan(decisions))
        if len(new):
            answers[new] = self.predict(_safe_indexing(X, new))
        return answers

    def _predict_by_halves(self, X: Any, **parameters: Any) -> npt.NDArray[np.intp]:
        """Return the answers for each half of the rows, or of the groups, by a model of the other half."""
        n, random = _num_samples(X), check_random_state(self.random_state)
        groups, weights = parameters.get("groups"), parameters.get("sample_weight")
        names = np.arange(n) if groups is None else numbered(groups, n)
        first = (random.permutation(int(names.max()) + 1) % 2 == 0)[names]
        # What has no weight is a new row to all models.
        kept = np.ones(n, dtype=bool) if weights is None else np.asarray(weights) > 0
        answers = self.predict(X)
        if min(len(np.unique(names[kept & half])) for half in (first, ~first)) < 2:
            return answers
        for half in (first & kept, ~first & kept):
            learned, asked = np.flatnonzero(half), np.flatnonzero(kept & ~half)
            own = _check_method_params(X, parameters, indices=learned)
            # What is odd about these rows has been said of all of them.
            with silenced(UserWarning):
                model = self._of_part().set_params(calibration="auto")
                model.fit(_safe_split(self, X, None, learned)[0], **own)
            answers[asked] = model.predict(_safe_split(self, X, None, asked, learned)[0])
        return answers

    def _of_part(self) -> Self:
        """Return an unfitted detector for a part of the rows."""
        return cast(Self, clone(self))

    def _learned(self, training: Training, most: float = np.inf) -> tuple[Training, BoolArray]:
        """Return what is learned, and which rows, (n_samples,), are held out and set the threshold.

        With calibration="auto" these are some rows, where more than `most` are distinct.
        """
        out = np.zeros(training.n_rows, dtype=bool)
        if self.calibration == "held-out":
            out = held_out(training, check_random_state(self.random_state), 2)
        elif self.calibration == "auto" and len(training.distinct.weights) > most:
            out = held_out(training, check_random_state(self.random_state), int(most))
        return (training.without(out, self._distinct) if out.any() else training), out

    def _left_out(self, out: BoolArray) -> bool:
        """Return whether learned rows set the threshold, each by its score without itself."""
        return self.calibration == "auto" and not out.any()

    def _threshold(self, calibration: Calibration, scores: FloatArray, nu: float) -> float:
        """Return the nu-quantile of scores, (p,): one of them under training planes, else amid two, or below ties."""
        if self.calibration == "training":
            return weighted_quantile(scores, calibration.masses, nu)
        return calibration.quantile(scores, nu)

    def _calibrated(
        self, training: Training, scores: FloatArray, calibration: Calibration, within: FloatArray
    ) -> dict[str, Any]:
        """Return the fields of a model that say which rows' scores, (n_samples,), set the threshold.

        within, (P, p), says how far inside each plane these rows lie.
        """
        if self.calibration == "training":
            return {"calibration_scores": None}
        recall, error = calibration.expected_recall(within)
        return {
            "calibration_scores": scores,
            "recall": recall,
            "recall_error": error,
            "calibration_masses": calibration.by_row(len(scores)),
            "calibration_effective_size": calibration.effective_size,
            "has_held_out": len(calibration.rows) < np.count_nonzero(training.weights),
        }

    def _few_rows_warning(self, training: Training) -> str:
        """Return a warning where so few samples set the threshold that they say little of the recall, or nothing."""
        scores = self.model_.calibration_scores
        if scores is None:
            return ""
        nominal, calibration_rows, groups = self._nominal_recall(), ~np.isnan(scores), training.names
        if groups is not None:
            return warnings.few_groups_warning(len(np.unique(groups[calibration_rows])), nominal)
        copies = training.n_copies[np.unique(training.distinct.inverse[calibration_rows])]
        return warnings.few_rows_warning(
            training.weights[calibration_rows], copies, nominal, counts=training.may_be_counts
        )

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = "csr") -> Any:
        return checked_rows(self, X, reset=reset, least=2, accept_sparse=accept_sparse)

    def _distinct(self, X: Any, weights: FloatArray) -> Distinct:
        return distinct_rows(X, weights)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


D = TypeVar("D", bound=Detector)


@atomic
@_fit_context(prefer_skip_nested_validation=True)
def fit_with_groups(self: D, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> D:
    """Learn from positive samples, and leave whole groups out where thresholds are put: `Detector.fit` with groups."""
    del y
    self.fit_training(self.training(X, sample_weight, groups))
    return self


# What scikit-learn, tracebacks and the reference name it, and say of it.
fit_with_groups.__name__ = "fit"
fit_with_groups.__doc__ = cleandoc(Detector.fit.__doc__ or "").replace(
    "\n\nReturns",
    """
groups : array-like of shape (n_samples,), default=None
    The name of each row's group, such as its patient, machine or video: numbers or words, none missing, at least two
    groups. Give groups if new rows come from new groups whose rows resemble each other. Thresholds then come from what
    each row scores under a model without its whole group. The share of accepted rows *of new groups* is then near what
    nu asks for. All groups count alike for the threshold, however many rows they have. Rows within a group count by
    their weights. gamma="neighbours" uses neighbours from other groups. A row that several groups share stays when one
    of them is left out. Support vector machines of more than 2,000 distinct rows do not learn some of the groups, and
    set the threshold by these; else what the model learns does not depend on groups.

Returns""",
    1,
)


def checked_rows(
    estimator: BaseEstimator, X: Any, *, reset: bool, least: int, accept_sparse: str | bool = "csr"
) -> Any:
    """Return rows as a dense array or canonical CSR matrix of floats; at least `least` to learn from (reset)."""
    least = least if reset else 1
    # `validate_data` would return plain rows as they are, and takes longer for one row than its score.
    if is_plain(X) and len(X) >= least and takes_unnamed(estimator, X.shape[1], reset=reset):
        return X
    with reading(X):
        if reset:
            refuse_lost_digits(X)
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse=accept_sparse,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=least,
        )
    return canonical(sp.csr_array(X)) if sp.issparse(X) else X


def rows_of(detector: Detector, X: Any, *, reset: bool = False) -> Any:
    """Return rows as a detector takes them, validated; with reset rows to learn from."""
    return detector._checked(X, reset=reset)


def scale_warning(detector: Detector, X: Any) -> str:
    """Return a warning where a few of validated rows make the scale that a model takes from them, or nothing."""
    return (
        warnings.extreme_rows_warning(X, getattr(detector, "feature_names_in_", None)) if detector._takes_scale else ""
    )


def distinct_of(detector: Detector, X: Any, weights: FloatArray) -> Distinct:
    """Return which rows are the same sample for a fitted detector."""
    return detector._distinct(rows_of(detector, X), weights)


def takes_unnamed(estimator: Any, n_features: int, *, reset: bool) -> bool:
    """Return whether an estimator takes `n_features` without names, which with reset it then expects."""
    if "feature_names_in_" in estimator.__dict__:
        return False
    if reset:
        estimator.n_features_in_ = n_features
    return bool(n_features == estimator.n_features_in_)


def without_names(model: T) -> T:
    """Return a fitted model that takes rows without names: those that were validated have lost theirs."""
    asked = copy(model)
    vars(asked).pop("feature_names_in_", None)
    return asked


def scores_by_folds(detector: Detector, training: Training, random: np.random.RandomState) -> FloatArray:
    """Return what each row scores under a model that has learned the other folds, (n_samples,).

    Of a row with copies it is the mean of what these score. NaN for rows of weight 0. The detector is cloned, and puts
    no threshold by such scores.
    """
    rows, _ = training.counted
    sums, times = np.zeros(len(rows)), np.zeros(len(rows))
    for weights, leaving in folds(training, random):
        model: Any = detector._of_part()
        # What the whole fit says of its rows it says once.
        with silenced(UserWarning):
            model.fit_training(training.weighing(weights, model._distinct), part=True)
        model.n_features_in_ = training.X.shape[1]
        asked = np.flatnonzero(leaving)
        sums[asked] += leaving[asked] * model.score_samples(training.X[rows[asked]])
        times += leaving
    return training.by_row(sums / times)
