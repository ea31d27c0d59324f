"""The default detector: three readings of the nearest rows, in two views of the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from numbers import Integral, Real
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.distinct import distinct_rows
from slabsvm.data.passes import Local, scored
from slabsvm.detectors.base import Detector, checked_rows, parameters
from slabsvm.ensemble.known import OutlierClassifier, drawn_of_units, joined, labelled, left_out, n_folds, share_of
from slabsvm.ensemble.ranks import Surprise
from slabsvm.ensemble.readings import LEAST_SURPRISE, Combination, CombinedModel, Known, learned_views, n_views
from slabsvm.ensemble.scales import are_counts
from slabsvm.fitted.explanation import Explanation
from slabsvm.fitted.model import rounding_of
from slabsvm.fitted.threshold import Calibration, calibration_by
from slabsvm.fitted.training import (
    MOST_ALONE,
    Drawn,
    Sample,
    Training,
    checked_weights,
    folds,
    is_dask,
    refuse_what_is_not_finite,
    rows_counted,
    rows_in_memory,
    rows_in_place,
    source_of,
)
from slabsvm.fitted.warnings import FitWarning, uneven_weights_warning
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import counted, shown_progress, warn
from slabsvm.runtime.estimators import HasMethods, Interval, _fit_context, _num_samples, atomic, seed_of

Progress = Callable[[int, int, float], None]


@parameters
class AutoDetector(Detector):
    """Detector whose defaults need no tuning: how near the nearest rows are, in two views of the features.

    The views are the standardised features and their normal scores (`NormalScores`). In each, one query of the nearest
    learned rows is read three times: the distance of the nearest; the mean distance of the 20 nearest; and the local
    ratio, which is the mean distance of the 5 nearest over that of the 10 nearest from their own 10 nearest. Each
    reading has a p-value among those of the training rows, each without itself. The reading's surprise is minus the
    logarithm of its p-value. The score is minus the mean surprise, in which ratios count half: 0 is the most normal, -1
    is usual, and at recall .9 rows below some -2 are rejected. docs/results/tabular.md has the measurements.

    The fitted model holds all learned rows, and so do its files. A prediction takes some five times as long as that of
    kNN. Groups are taken up to max_rows rows.

    Sparse rows are one view, as they are. A change in a feature that is constant in training is far out.

    Parameters
    ----------
    recall : float in (0, 1), default=0.9
        The share of new positives to accept. A smaller recall rejects more outliers.
    calibration : {"auto", "held-out", "training"}, default="auto"
        Which scores set the threshold. "auto" takes those of all rows, each without itself. "held-out" does not learn
        1,000 of the rows, a tenth if that is more, half if that is fewer, and takes their scores. Beyond max_rows both
        take the scores of the rows that were not drawn. With "training", the scores of learned rows, the recall of new
        rows is smaller than asked for.
    max_rows : int >= 10 or None, default=40000
        The number of rows to learn; None is no limit. Of n > max_rows rows it draws and learns max_rows^2 / n, but at
        least min(10,000, max_rows). All others are scored and set the threshold, in two passes over arrays, memory maps
        and CSR matrices in place, and over Dask arrays on their workers (docs/results/large-data.md). 40,000 rows of 10
        features take 10 seconds on two cores.
    classifier : classifier of scikit-learn, default=None
        It separates known outliers from positives, if `fit` gets any. It needs decision_function or predict_proba. It
        learns normal scores (sparse rows as they are), of 2,000 rows at most. Both classes have the same total weight
        if its fit takes sample_weight. None is 100 extra trees. With k known outliers, the classifier's weight in the
        score is 3k / (5k + 4).
    random_state : int, RandomState or None, default=0
        The seed that draws rows, and of the trees.
    progress : callable, bool or None, default=None
        True shows a line on the standard error. A callable is called with the number of finished steps, the number of
        all steps, and the seconds left. `clone` keeps it; pickles, files and deep copies leave it out.

    Attributes
    ----------
    offset_ : float
        ``decision_function = score_samples - offset_``.
    expected_recall_ : float
        The share of new positives that is expected to be accepted, by `calibration_scores_`. Not with
        calibration="training".
    expected_recall_error_ : float
        Its standard error, from the number of rows or groups that set the threshold.
    calibration_scores_ : (n_samples,) array of float64
        The score of each training row without itself, or one of its copies; NaN where the weight is 0, and for learned
        rows where others set the threshold.
    calibration_decisions_ : (n_samples,) array of float64
        ``calibration_scores_ - offset_``: negative for the outliers among the training rows (`training_outliers`).
    sample_ : (n,) array of intp or None
        The numbers, from 0, of the drawn rows, ascending. None if all rows were learned.
    n_samples_fit_, n_features_in_ : int
    feature_names_in_ : (n_features,) array of str
        Only when X has feature names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import AutoDetector
    >>> X = np.random.default_rng(0).normal(size=(80, 1)) * [1, 100] + np.random.default_rng(1).normal(size=(80, 2))
    >>> AutoDetector().fit(X).predict([[1.0, 100.0], [2.0, -200.0]])
    array([ 1, -1])
    """

    recall: float = 0.9
    max_rows: int | None = 40_000
    classifier: Any = None
    progress: Progress | bool | None = None

    model_: CombinedModel = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "recall": [Interval(Real, 0.0, 1.0, closed="neither")],
        "max_rows": [Interval(Integral, 10, None, closed="left"), None],
        "classifier": [HasMethods("fit"), None],
        "progress": [callable, "boolean", None],
    }

    @atomic
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        known_outliers: Any = None,
        known_positives: Any = None,
    ) -> Self:
        """Learn from positive samples, and from a few outliers if some are known.

        Raises ValueError for parameters, shapes or values that make no sense, for fewer than 10 rows, and if all rows
        are of one group. After any exception the model is as before.

        Parameters
        ----------
        X : array-like, CSR matrix or Dask array of shape (n_samples, n_features)
            float32 or float64; other types become float64.
        y : ignored
            Labels of outliers are known_outliers: if y has two values, a warning says so.
        sample_weight : array-like of shape (n_samples,), default=None
            As for the other detectors: whole numbers are counts of rows, others say how much a row matters.
        groups : array-like of shape (n_samples,), default=None
            The name of each row's group, such as its patient. Rows are then read among rows of other groups.
        known_outliers : array-like of shape (n_outliers, n_features), default=None
            Known outliers that are not in X; one is enough. What a `classifier` says that separates them from the
            positives becomes a part of the sum; positives alone set the threshold. In a pipeline, pass them as the
            earlier steps return them (docs/how-to/known-outliers.md).
        known_positives : array-like of shape (n_positives, n_features), default=None
            Good rows that looked abnormal, such as false alarms. They are learned, but have no say in the threshold or
            p-values, because they are not a random sample. Rows of X are learned already, and change nothing.

        Warns
        -----
        slabsvm.FitWarning
            When rows are few, also for the recall that is asked for, weights are uneven, copies are many, known
            outliers equal rows of X, or y has two values. The text, but for that of y, stays in `warning_`.
        """
        if y is not None:
            _warn_of_labels(y)
        training = calibration_rows = self.training(X, sample_weight, groups)
        if known_positives is not None:
            training = joined(training, labelled(self, known_positives, "known_positives"))
        if known_outliers is not None:
            training = replace(training, outliers=labelled(self, known_outliers, "known_outliers"))
        with ONE_BLAS_THREAD:
            fitted = self._learn(training)
        self._publish(replace(calibration_rows, outliers=training.outliers), fitted, part=False)
        return self

    def score_samples(self, X: Any) -> Any:
        """Return minus the mean surprise of the readings of each row, shape (n_samples,); of a Dask array one."""
        score = self._combination()
        if is_dask(X):
            return scored(X, self.n_features_in_, score)
        return Local(rows_in_place(self, X, reset=False), None).scores(score)

    def outlier_to(self, X: Any) -> list[list[str]]:
        """Return for each row what speaks against it at the rate of 1 - recall, in either view.

        That is "far from all rows", "far from its surroundings", "looser than its surroundings", or "like known
        outliers".
        """
        return self._combination().outlier_to(rows_in_memory(self, X), 1.0 - self.recall)

    def __getstate__(self) -> dict[str, object]:
        """Return what to pickle: all but the progress function, which writes to this process's terminal."""
        return {**super().__getstate__(), "progress": None}

    def _combination(self) -> Combination:
        """Return the function that scores rows."""
        check_is_fitted(self)
        return self.model_.combination

    def _explanation(self, X: Any) -> Explanation:
        return self._combination().explanation(rows_in_memory(self, X)).less(self.offset_)

    def predict(self, X: Any, alpha: float | None = None) -> npt.NDArray[np.intp]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,).

        Parameters
        ----------
        X : array-like, CSR matrix or Dask array of shape (n_samples, n_features)
            The answer for a Dask array is a Dask array.
        alpha : float in (0, 1), default=None
            The share of new positives that may be rejected: rows with `p_values` of at most alpha. None uses the
            threshold `offset_`, which stands for 1 - recall.
        """
        if alpha is None:
            return super().predict(X)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be a rate between 0 and 1, got {alpha!r}.")
        found, least = self.p_values(X), 1.0 / (1.0 + self.model_.calibration_effective_size)
        if alpha < least:
            warn(f"alpha={alpha:g} rejects no row: no p-value of this model is below {least:.3g}.", FitWarning)
        return np.where(found > alpha, 1, -1)

    def p_values(self, X: Any) -> Any:
        """Return the share of training rows that are no more normal than each row, shape (n_samples,).

        The share is (1 + their number) / (1 + n), where training rows have scores without themselves. About a share p
        of new positives has a p-value of at most p. (`ConformalDetector` guarantees this, with held-out rows.) The
        answer for a Dask array is a Dask array. Raises AttributeError with calibration="training".
        """
        scores = self.score_samples(X)
        if not hasattr(self, "calibration_scores_"):
            raise AttributeError("p_values needs a fit with calibration='auto' or 'held-out'.")
        shares = partial(self.model_.p_values, self.calibration_scores_)
        return scores.map_blocks(shares, dtype=np.float64) if is_dask(scores) else shares(scores)

    def training_outliers(self) -> IndexArray:
        """Return the numbers, from 0, of the training rows that the model would reject without them, (n_outliers,).

        The least normal come first. Raises AttributeError with calibration="training".
        """
        check_is_fitted(self)
        decisions = self.calibration_decisions_
        return np.argsort(decisions, kind="stable")[: int(np.count_nonzero(decisions < 0))]

    def summary(self) -> str:
        """Return what was fitted, in a few lines."""
        combination, fit = self._combination(), self.model_
        views = " and ".join(_scaling_name(view.scaling) for view in combination.views)
        n, n_learned = self.n_samples_fit_, len(combination.views[0].local)
        lines = [
            f"AutoDetector: 3 readings of the nearest rows, features {views}",
            f"  learned          {n_learned:,} distinct rows of {n:,}",
        ]
        if combination.known is not None:
            lines.append(f"  known outliers   {combination.known.share:.0%} of the sum, by a classifier")
        if fit.recall is not None and fit.recall_error is not None:
            others = "rows that were held out" if fit.sample is None else "the rows that were not drawn"
            by = f"by {others}" if fit.has_held_out else "by rows without themselves"
            by = by if fit.n_groups is None else f"{by}, of {fit.n_groups} groups each left out whole"
            lines.append(
                f"  recall           {fit.recall:.1%} expected (+- {fit.recall_error:.1%}), {by}, where "
                f"{self.recall:.1%} is asked for"
            )
        lines.append(f"  threshold        {self.offset_:.4g}, where 0 is the most normal and -1 usual")
        return "\n".join(lines)

    def training(self, X: Any, sample_weight: Any = None, groups: Any = None) -> Training:
        """Return all rows, validated, or a sample of them.

        :meta private:
        """
        on_workers = source_of(self, X, sample_weight) if is_dask(X) else None
        given = checked_weights(sample_weight, X)
        n = _num_samples(X) if given is None else np.count_nonzero(given)
        if self.max_rows is None or n <= self.max_rows:
            if on_workers is not None:
                X = on_workers.taken(np.arange(on_workers.n_samples), refuse_what_is_not_finite)
            return super().training(X, sample_weight, groups)
        if groups is not None:
            raise ValueError(
                f"groups need all rows to be learned, but max_rows={self.max_rows} draws some of them. Use "
                "max_rows=None and an array, or draw some rows of each group."
            )
        source = on_workers or source_of(self, X, sample_weight)
        sample = Sample.of(source, self.max_rows, seed_of(self.random_state))
        self._weight_unit = 1.0
        each = rows_counted(given)
        each = None if each is None else each[sample.numbers]
        same = self._distinct(sample.rows, sample.weights)
        return Drawn(sample.rows, sample.weights, same, sample, rows_each=each)

    def _learn(self, training: Training) -> CombinedModel:
        calibration_rows = training.calibration_rows or training
        sample = training.sample if isinstance(training, Drawn) else None
        learned, out = training, np.zeros(len(training.weights), dtype=bool)
        if sample is None:
            out[: len(calibration_rows.weights)] = self._learned(calibration_rows)[1]
            learned = training.without(out, self._distinct) if out.any() else training
        by_themselves = sample is None and self._left_out(out)
        # Folds leave groups out of the views and of what is usual, too; and of few rows each.
        few = len(learned.distinct.weights) <= MOST_ALONE and are_counts(learned)
        apart = by_themselves and (learned.groups is not None or few)
        parts = list(folds(learned, check_random_state(self.random_state))) if apart else []
        n_fits = 0 if training.outliers is None else n_folds(learned.counted[0]) + 1
        done = _steps(self.progress, n_views(training) * (1 + len(parts)) + n_fits)
        views, surprise = learned_views(learned, done)
        combination = Combination(views, None)
        if parts:
            surprise = self._by_folds(learned, parts, done)
        if training.outliers is not None:
            known, own = self._known(learned, combination, done)
            combination = Combination(views, known)
            surprise = combination.with_known(surprise, own)
        scores, calibration = self._calibration_scores(training, combination, out, learned.by_row(-surprise))
        offset = calibration.quantile(scores[calibration.rows], 1.0 - self.recall)
        rounding = rounding_of(abs(offset) + 1.0)
        offset -= rounding
        calibrated = self._calibrated(calibration_rows, scores, calibration, (scores[calibration.rows] - offset)[None])
        if sample is not None:
            calibrated["has_held_out"] = True
        return CombinedModel(
            offset=offset,
            rounding=rounding,
            combination=combination,
            sample=None if sample is None else sample.numbers,
            one_point=len(learned.distinct.weights) == 1,
            n_groups=None if calibration_rows.groups is None else calibration_rows.groups.count,
            **{"calibration_masses": None, **calibrated},
        )

    def _calibration_scores(
        self, training: Training, combination: Combination, out: BoolArray, left_out: FloatArray
    ) -> tuple[FloatArray, Calibration]:
        """Return the scores of rows that were given, (n_rows,), NaN of those that do not judge, and what these say.

        out, a mask of rows of training, is what was held out; left_out are scores of rows without themselves.
        """
        calibration_rows = training.calibration_rows or training
        n = len(calibration_rows.weights)
        if self.calibration == "training":
            scores = combination(calibration_rows.X)
        elif isinstance(training, Drawn):
            source, scores = training.sample.source, training.sample.scores(combination)
            weights = np.ones(len(scores)) if source.weights is None else source.weights
            return scores, calibration_by(~np.isnan(scores), weights, None, counted=None)
        elif out.any():
            scores = np.full(n, np.nan)
            scores[out[:n]] = combination(calibration_rows.X[out[:n]])
        else:
            scores = left_out[:n]
        return scores, calibration_rows.calibration(~np.isnan(scores), held_out=bool(out.any()))

    def _by_folds(
        self, training: Training, parts: list[tuple[FloatArray, FloatArray]], done: Callable[[], object]
    ) -> FloatArray:
        """Return the mean surprise of what is `counted`, (p,), in views of what does not leave with it."""
        rows, _ = training.counted
        surprise = np.empty(len(rows))
        for weights, leaving in parts:
            others = training.weighing(weights, self._distinct)
            if training.groups is None:
                each = np.zeros(len(weights))
                each[rows] = training.n_copies - leaving
                others = replace(others, rows_each=each)
            views, _ = learned_views(others, done)
            out = np.flatnonzero(leaving)
            surprise[out] = -Combination(views, None)(training.X[rows[out]])
        return surprise

    def _predict_by_halves(self, X: Any, **parameters: Any) -> npt.NDArray[np.intp]:
        # The rows of a Dask array stay where they are.
        return np.asarray(self.predict(X)) if is_dask(X) else super()._predict_by_halves(X, **parameters)

    def _known(
        self, training: Training, combination: Combination, done: Callable[[], object]
    ) -> tuple[Known, FloatArray]:
        """Return a classifier of the known outliers, and its surprise at what is `counted`, (p,), by folds."""
        view, (rows, masses), groups = combination.views[-1], training.counted, training.groups
        numbers = np.arange(len(rows)) if groups is None else groups.numbers
        keys = training.distinct.keys if groups is None else training.distinct.keys[groups.samples]
        generator = np.random.default_rng(seed_of(self.random_state))
        classifier = OutlierClassifier(classifier=self.classifier, random_state=int(generator.integers(2**31)))
        scores = left_out(
            classifier,
            view.of(training.X[rows]),
            view.of(training.outliers),
            np.where(drawn_of_units(numbers, 2000, generator), masses, 0.0),
            units=numbers,
            stays=training.stays if groups is None else np.zeros(len(rows)),
            keys=(keys, _keys(training.outliers)),
            done=done,
        )
        surprise = Surprise.of(-scores, masses, training.calibration(training.weights > 0).effective_size)
        share = share_of(training.outliers.shape[0])
        return Known(classifier, surprise, share), np.maximum(surprise.of_learned(-scores), LEAST_SURPRISE)

    def _diagnosis(self) -> str:
        if self.model_.one_point:
            return (
                "All rows are the same point, so every other row is rejected, however near. Check the features for "
                "constants."
            )
        return ""

    def _nominal_recall(self) -> float:
        return self.recall

    @property
    def _takes_scale(self) -> bool:
        # Of two views one has ranks, which no few rows make.
        return False

    def _few_rows_warning(self, training: Training) -> str:
        if not isinstance(training, Drawn):
            return super()._few_rows_warning(training) or self._recall_warning(training)
        # The others put the threshold.
        weights = training.sample.source.weights
        if weights is None or self.calibration == "training":
            return ""
        return uneven_weights_warning(np.delete(weights, training.sample.numbers), self.recall)

    def _recall_warning(self, training: Training) -> str:
        """Return a warning where even the lowest left-out score misses the recall, or nothing.

        1 / (n + 1) of new rows are to lie below it.
        """
        groups = training.groups
        n, what = (len(training.distinct.weights), "sample") if groups is None else (groups.count, "group")
        most = n / (n + 1)
        if self.calibration == "training" or self.recall <= most:
            return ""
        return (
            f"recall={self.recall:g} is more than {n} distinct {what}s can promise: a new one is expected to score "
            f"below all of them with probability {1 - most:.2g}. Ask for a recall of {most:.3g} at most, or give more "
            f"{what}s."
        )

    def _known_outliers_warning(self, training: Training) -> str:
        if training.outliers is None:
            return ""
        n = int(np.isin(_keys(training.outliers), training.distinct.keys).sum())
        remedy = "take these rows out of X, unless good rows look the same"
        return f"Rows of X, which count as positives, equal {counted(n, 'known outlier')}: {remedy}." if n else ""

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = "csr") -> Any:
        return checked_rows(self, X, reset=reset, least=10, accept_sparse=accept_sparse)


def _scaling_name(scaling: Any) -> str:
    return "as they are" if scaling is None else "as normal scores" if hasattr(scaling, "scores_") else "standardised"


def _keys(rows: Any) -> npt.NDArray[np.uint64]:
    """Return what rows that are equal have in common, (n,)."""
    same = distinct_rows(rows, np.ones(rows.shape[0]))
    return same.keys[same.inverse]


def _warn_of_labels(y: Any) -> None:
    """Warn of labels that tell two kinds of rows apart, or of further rows: all rows of X are learned as positives."""
    y = np.asarray(y)
    values = set(y.tolist()) if y.ndim == 1 and y.dtype == object else np.unique(y)
    if len(values) == 2 or (y.ndim == 2 and y.shape[1] > 1):
        warn("y is ignored, and all rows of X are learned as positives. Pass outliers as known_outliers.", FitWarning)


def _steps(asked: Progress | bool | None, total: int) -> Callable[[], None]:
    """Return what tells progress that one more of all steps is done."""
    begin, done = perf_counter(), 0
    progress = shown_progress if asked is True else asked or None

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total, (perf_counter() - begin) / done * (total - done))

    return step
