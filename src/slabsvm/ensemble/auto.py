"""The one-call default: detectors that see different things in two views of the features, and decide together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import partial
from numbers import Integral, Real
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.distinct import distinct_rows
from slabsvm.data.passes import Local
from slabsvm.detectors.base import Detector, checked_rows, parameters
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.ensemble.combination import Combination, CombinedModel, Member, standardised, viewed
from slabsvm.ensemble.known import OutlierClassifier, joined, labelled, share_of, with_surprises
from slabsvm.ensemble.members import (
    Drawn,
    Role,
    Sample,
    folds_of,
    left_out_scores,
    scores_by_folds,
    some_groups,
    some_of,
    thinned,
)
from slabsvm.ensemble.neighbours import NeighboursDetector
from slabsvm.ensemble.ranks import NormalScores, Shares, Surprise
from slabsvm.ensemble.thresholds import by_left_out, by_others
from slabsvm.fitted.explanation import Explanation
from slabsvm.fitted.model import rounding_of
from slabsvm.fitted.threshold import Calibration
from slabsvm.fitted.training import Training, is_dask, rows_in_memory, rows_in_place, source_of, whole_multiples
from slabsvm.fitted.warnings import FitWarning, too_uneven
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import counted, warn
from slabsvm.runtime.objects import atomic, seed_of
from slabsvm.runtime.sklearn_private import HasMethods, Interval, StrOptions, _fit_context, _num_samples

# Fewer rows are refused.
LEAST_ROWS = 10
# The most distinct rows that neighbours learn, and neighbours in some of the features.
NEIGHBOUR_ROWS = 4000
BAG_ROWS = 500
# Of 2,000 rows a one-class SVM is no better on the 81 tables; up to 1,000 all of its left-out scores are exact.
SVM_ROWS = 1000
# The most rows that the classifier of known outliers learns, all members learn where folds leave groups out, and
# neighbours learn of more than MANY_FEATURES: in d dimensions the nearest of m is at a distance that falls as m^(-1/d).
SOME_ROWS = 2000
MANY_FEATURES = 400
# In each view there are so many bags, of one in so many features each.
BAGS = 3
ONE_IN = 3

Progress = Callable[[int, int, float], object]


@parameters
class AutoSlabSVM(Detector):
    """Detector without a parameter to choose: the mean of a one-class SVM and of nearest neighbours.

    The members see the features in two views: standardised, and as normal scores (`NormalScores`). In each view one
    nearest-neighbour member learns all features, and three more learn a third of them each, and count together as one.
    A one-class SVM (the slab SVM with epsilon=0) learns the normal scores. A member's score has a p-value among its
    leave-one-out scores; minus the logarithm of that is its surprise. The score is minus the mean surprise: 0 is the
    most normal, -1 is usual, and rows are rejected from some -2 on, by a threshold that keeps the recall.
    docs/results/tabular.md has the measurements.

    Sparse rows are learned as they are, by a one-class SVM and neighbours. A feature that is constant in training keeps
    its own unit.

    Parameters
    ----------
    recall : float in (0, 1), default=0.9
        The share of new positives to accept. A smaller recall rejects more outliers.
    calibration : {"auto", "training"}, default="auto"
        As for `OneClassSlabSVM`. With training scores the recall of new rows is smaller than asked for.
    max_fit_samples : int or None, default=10000
        The number of rows to learn if X has more, or half of all rows if that is less; None is no limit. The other rows
        set the threshold, in two passes over arrays, memory maps and CSR matrices in place, and over Dask arrays on
        their workers (docs/results/large-data.md). Of these rows a one-class SVM learns at most 1,000, neighbours 4,000
        (2,000 with more than 400 features) or 500 on a third of the features; all others are scored. If rows have
        groups, whole groups are drawn: at least 30, with about this many rows. With fewer than 200 groups (or than five
        for each feature), folds leave groups out, and 2,000 rows are learned, a share of each group.
    classifier : classifier of scikit-learn, default=None
        It separates known outliers from positives, if `fit` gets any. It needs decision_function or predict_proba. It
        learns normal scores (sparse rows as they are) and has .35 of the sum. Both classes have the same total weight
        if its fit takes sample_weight. None is 50 extra trees of these features and 50 that also see what the other
        members say of a row, with leaves of two rows or more. They have 3k / (5k + 4) of the sum for k known outliers.
    random_state : int, RandomState or None, default=0
        The seed that draws rows and thirds of the features.
    n_jobs : int or None, default=None
        Threads that compute large kernel blocks and score rows. None is 1 unless in a `joblib.parallel_config` context;
        -1 is all.
    cache_size : float, default=1000
        Memory for parts of the kernel matrix in each fit, in MB.
    progress : callable or None, default=None
        Called with the number of finished fits, the number of all fits, and the seconds left. `clone` keeps it; pickles
        and deep copies leave it out.

    Attributes
    ----------
    members_ : list of detectors
        The fitted members. Each takes rows of a view, or some features of them.
    member_names_ : list of str
        What each of `members_` is.
    gammas_ : (n_svms,) array of float64
        The gammas of members with a kernel, for the features of their view.
    offset_ : float
        ``decision_function = score_samples - offset_``.
    expected_recall_ : float
        The share of new positives that is expected to be accepted, by `calibration_scores_`; with
        calibration="training" the share of accepted training rows.
    expected_recall_error_ : float
        Its standard error, from the number of rows or groups that set the threshold.
    calibration_scores_ : (n_samples,) array of float64
        The score of each training row without itself, or one of its copies; NaN where the weight is 0. Of few rows
        (fewer than 400, or than 1,000 and ten for each feature) by members of folds, ten or more.
    calibration_decisions_ : (n_samples,) array of float64
        ``calibration_scores_ - offset_``: negative for the outliers among the training rows (`training_outliers`).
    sample_ : (n,) array of intp or None
        The numbers of the drawn rows, ascending. None if all rows were learned.
    n_samples_fit_, n_features_in_ : int
    feature_names_in_ : (n_features,) array of str
        Only when X has feature names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import AutoSlabSVM
    >>> X = np.random.default_rng(0).normal(size=(80, 1)) * [1, 100] + np.random.default_rng(1).normal(size=(80, 2))
    >>> AutoSlabSVM().fit(X).predict([[1.0, 100.0], [2.0, -200.0]])
    array([ 1, -1])
    """

    recall: float = 0.9
    max_fit_samples: int | None = 10_000
    classifier: Any = None
    n_jobs: int | None = None
    cache_size: float = 1000
    progress: Progress | None = None

    expected_recall_: float = field(init=False)
    model_: CombinedModel = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "recall": [Interval(Real, 0.0, 1.0, closed="neither")],
        "calibration": [StrOptions({"auto", "training"})],
        "max_fit_samples": [Interval(Integral, LEAST_ROWS, None, closed="left"), None],
        "classifier": [HasMethods("fit"), None],
        "n_jobs": [Integral, None],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "progress": [callable, None],
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

        Raises ValueError for parameters, shapes or values that make no sense, and if all rows are of one group. After
        any exception the model is as before.

        Parameters
        ----------
        X : array-like, CSR matrix or Dask array of shape (n_samples, n_features)
            float32 or float64; other types become float64.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            As for the other detectors: only ratios count, and whole multiples of the least weight are counts.
        groups : array-like of shape (n_samples,), default=None
            The name of each row's group, such as its patient. Leave-one-out scores then leave whole groups out.
        known_outliers : array-like of shape (n_outliers, n_features), default=None
            Known outliers that are not in X; one is enough. A `classifier` that separates them from the positives
            becomes one more member; positives alone set the threshold. In a pipeline, pass them as the earlier steps
            return them (docs/how-to/known-outliers.md).
        known_positives : array-like of shape (n_positives, n_features), default=None
            Good rows that looked abnormal, such as false alarms, and are not in X. They are learned, but have no say in
            the threshold or p-values, because they are not a random sample.

        Warns
        -----
        slabsvm.FitWarning
            When rows are few, also for the recall that is asked for, weights are uneven, copies are many, or known
            outliers equal rows of X. The text stays in `warning_`.
        """
        training = judges = self.training(X, sample_weight, groups)
        if known_positives is not None:
            training = joined(training, labelled(self, known_positives, "known_positives"))
        if known_outliers is not None:
            training = replace(training, outliers=labelled(self, known_outliers, "known_outliers"))
        with ONE_BLAS_THREAD:
            fitted = self._learn(training)
        self._publish(replace(judges, outliers=training.outliers), fitted, part=False)
        return self

    def score_samples(self, X: Any) -> Any:
        """Return minus the mean of the members' surprises at each row, shape (n_samples,); of a Dask array one."""
        score = self._combination()
        if is_dask(X):
            from slabsvm.data.passes import scored

            return scored(X, self.n_features_in_, score)
        return Local(rows_in_place(self, X, reset=False), None, effective_n_jobs(self.n_jobs)).scores(score)

    @property
    def member_names_(self) -> list[str]:
        """What each of `members_` is."""
        return self._combination().names

    def member_p_values(self, X: Any) -> FloatArray:
        """Return the p-value of each row under each member, shape (n_samples, n_members), continued by an exponential
        tail.
        """
        return np.asarray(np.exp(self._combination().by_member(rows_in_memory(self, X))))

    def outlier_to(self, X: Any) -> list[list[str]]:
        """Return for each row which kinds of members would reject it by themselves, at the rate of 1 - recall.

        Kinds are "one-class SVM", "neighbours" and "neighbours in some features".
        """
        return self._combination().outlier_to(rows_in_memory(self, X), 1.0 - self.recall)

    def __getstate__(self) -> dict[str, object]:
        """Return what to pickle: all but the progress function, which writes to this process's terminal."""
        return {**super().__getstate__(), "progress": None}

    def _combination(self) -> Combination:
        """Return the members with what they are combined by."""
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
        return np.where(self.p_values(X) > alpha, 1, -1)

    def p_values(self, X: Any) -> Any:
        """Return the share of training rows that are no more normal than each row, shape (n_samples,).

        The share is (1 + their number) / (1 + n), where training rows have leave-one-out scores. About a share p of new
        positives has a p-value of at most p. (`ConformalDetector` guarantees this, with held-out rows.) The answer for
        a Dask array is a Dask array. Raises AttributeError with calibration="training".
        """
        scores, shares = self.score_samples(X), self._shares()
        return scores.map_blocks(shares, dtype=np.float64) if is_dask(scores) else shares(scores)

    def _shares(self) -> Shares:
        """Return the function that gives scores their p-values."""
        if "calibration_scores_" not in self.__dict__:
            raise AttributeError("p_values needs a fit with calibration='auto'.")
        weights, n = self.model_.weights, self.model_.n_groups
        if n is None and weights is not None:
            # A row of weight 3 is three rows, as a learned one is in thresholds.
            n = whole_multiples(weights[weights > 0]).sum()
        return Shares.of(self.calibration_scores_, weights, n)

    def training_outliers(self) -> IndexArray:
        """Return the numbers of the training rows that the model would reject had it not learned them, (n_outliers,).

        The least normal come first. Raises AttributeError with calibration="training".
        """
        check_is_fitted(self)
        decisions = self.calibration_decisions_
        return np.argsort(decisions, kind="stable")[: int(np.count_nonzero(decisions < 0))]

    def summary(self) -> str:
        """Return what was fitted, in a few lines."""
        combination = self._combination()
        by = "by leave-one-out" if self.calibration != "training" else "of training rows"
        by = "by folds" if self.model_.by_folds else by
        by = by if self.model_.n_groups is None else f"{by}, of {self.model_.n_groups} groups each left out whole"
        learned = []
        if self.sample_ is not None:
            n, n_learned, by = self.n_samples_fit_, len(self.sample_), "by rows that were not learned"
            learned = [f"  learned          {n_learned:,} of {n:,} rows; threshold by the other {n - n_learned:,}"]
        return "\n".join(
            (
                f"AutoSlabSVM: the mean of {counted(len(combination.members), 'member')}, {combination.statement}",
                *learned,
                f"  recall           {self.expected_recall_:.1%} expected (+- {self.expected_recall_error_:.1%}), "
                f"{by}, where {self.recall:.1%} is asked for",
                f"  threshold        {self.offset_:.4g}, where 0 is the most normal and -1 usual",
                *(f"  {member.statement(combination.views)}" for member in combination.members),
            )
        )

    def training(self, X: Any, sample_weight: Any = None, groups: Any = None) -> Training:
        """Return all rows, validated, or a sample of them.

        :meta private:
        """
        if not is_dask(X) and (self.max_fit_samples is None or _num_samples(X) <= self.max_fit_samples):
            return super().training(X, sample_weight, groups)
        if groups is not None:
            raise ValueError(
                f"groups need all rows to be learned, but max_fit_samples={self.max_fit_samples} draws some of them. "
                "Use max_fit_samples=None and an array, or draw some rows of each group."
            )
        source = source_of(self, X, sample_weight, n_jobs=self.n_jobs)
        if source.n_samples < LEAST_ROWS:
            raise ValueError(f"Found array with {source.n_samples} samples, where at least {LEAST_ROWS} are required.")
        sample = Sample.of(source, self.max_fit_samples or source.n_samples, seed_of(self.random_state))
        self._weight_unit = 1.0
        return Drawn(sample.rows, sample.weights, self._distinct(sample.rows, sample.weights), sample)

    def _learn(self, training: Training) -> CombinedModel:
        judges = training.judges or training
        sample = training.sample if isinstance(training, Drawn) else None
        alone = sample is None or sample.whole
        n_folds = folds_of(training) if alone and self.calibration != "training" else 0
        if alone:
            self._warn_of_few(judges)
        fitted = _reporting_to(self.progress)
        # Of few groups, which folds leave out, some rows are learned: folds score all.
        learned = thinned(training, SOME_ROWS) if n_folds else training
        combination, scores = self._combined(learned, lambda done, each: fitted(done, each * (1 + n_folds)))
        (rows, masses), each = training.counted, len(combination.members)
        if n_folds:
            scores = scores_by_folds(
                training,
                n_folds,
                lambda others: self._combined(thinned(others, SOME_ROWS))[0],
                lambda done: fitted(each * (1 + done), each * (1 + n_folds)),
            )
        if self.calibration == "training":
            scores = combination(training.X[rows])
        if judges is not training:
            own, (rows, masses) = training.by_row(scores), judges.counted
            scores = own[rows]
        found = judges.by_row(scores)
        found = found if sample is None else sample.scores(found, combination)
        if sample is None or sample.whole:
            n_judging, worth = judges.n_counted, judges.calibration(np.ones(len(judges.weights), dtype=bool)).worth
            offset = by_left_out(scores, masses, self.recall, n_judging)
        else:
            scores, weights = found[sample.others], sample.weights_of_others
            offset = by_others(scores, weights, self.recall)
            n_judging, masses = float(len(scores)), np.ones(len(scores)) if weights is None else weights
            worth = n_judging
        rounding = rounding_of(abs(offset) + 1.0)
        offset -= rounding
        numbers = None if judges.groups is None or len(scores) != len(judges.groups.numbers) else judges.groups.numbers
        calibration = Calibration(np.arange(len(scores)), masses / masses.sum(), worth, numbers)
        expected, _ = calibration.expected_recall((scores - offset)[None, :])
        return CombinedModel(
            offset=offset,
            rounding=rounding,
            calibration_scores=found if self.calibration != "training" else None,
            combination=combination,
            by_folds=n_folds > 0,
            weights=judges.masses if sample is None else sample.source.weights,
            n_groups=None if judges.groups is None else judges.groups.count,
            recall=expected,
            # Of an order statistic of so many exchangeable scores.
            recall_error=float(np.sqrt(expected * (1.0 - expected) / (n_judging + 2))),
            sample=None if alone or sample is None else sample.numbers,
            one_point=len(training.distinct.weights) == 1,
        )

    def _combined(
        self, training: Training, fitted: Callable[[int, int], object] | None = None
    ) -> tuple[Combination, FloatArray]:
        """Return the views and members that rows lead to, and the left-out scores; fitted is told of each member."""
        views: list[Any] = [None]
        if not sp.issparse(training.X):
            ranks = NormalScores().fit(training.samples, sample_weight=training.distinct.weights)
            views = [standardised(training), ranks]
        # Without groups, a row of each distinct sample stands for all of its copies.
        rows = [viewed(view, training.samples if training.groups is None else training.X) for view in views]
        masses = training.counted[1]
        roles = list(self._roles(training, len(views)))
        members, total, said = list[Member](), np.zeros(len(masses)), list[FloatArray]()
        for role in roles:
            given = rows[role.view]
            outliers = None if training.outliers is None else viewed(views[role.view], training.outliers)
            if getattr(role.detector, "n_surprises", 0):
                # What the other members say of each positive without itself, and of the outliers.
                others = np.column_stack(said)
                others = others if training.groups is None else others[np.maximum(training.groups.of_rows, 0)]
                given = with_surprises(given, others)
                outliers = with_surprises(outliers, Combination(views, members).by_member(training.outliers))
            scores = left_out_scores(role, given, training, outliers)
            # Distances are in the unit of a view, in which a feature's deviation is 1 or, of its ranks, nearly so.
            unit = 1.0 if isinstance(role.detector, NeighboursDetector) else 0.0
            surprise = Surprise.of(scores, masses, training.n_counted, unit=unit)
            members.append(Member(role.detector, role.view, role.columns, role.weight, surprise))
            said.append(-surprise.of_learned(scores))
            total += role.weight * members[-1].counted(said[-1])
            if fitted is not None:
                fitted(len(members), len(roles))
        return Combination(views, members), total

    def _roles(self, training: Training, n_views: int) -> Iterator[Role]:
        """Give the members to be, with weights that sum to 1."""
        generator = np.random.default_rng(seed_of(self.random_state))
        samples, n_samples = training.samples, len(training.distinct.weights)
        # Sparse rows have members of all features alone; a feature that is constant tells them nothing.
        varying = np.flatnonzero((samples != samples[0]).any(axis=0)) if n_views > 1 else np.empty(0, dtype=np.intp)
        n_bags = min(BAGS, len(varying)) if len(varying) > 1 else 0
        of_classifier, of_features = 0.0, self.classifier is not None
        if training.outliers is not None:
            of_classifier = share_of(training.outliers.shape[0], of_features=of_features)
        share = (1.0 - of_classifier) / (1 + n_views * (1 + (n_bags > 0)))
        n_others = 0 if of_features else 1 + n_views * (1 + n_bags)
        if training.groups is None:
            some = partial(some_of, n_samples)
        else:
            order = np.random.default_rng(seed_of(self.random_state)).permutation(training.groups.count)
            some = partial(some_groups, training.groups, order)
        width = max(1, round(len(varying) / ONE_IN))
        neighbour_rows = NEIGHBOUR_ROWS if samples.shape[1] <= MANY_FEATURES else SOME_ROWS
        svm = OneClassSVM(cache_size=self.cache_size, n_jobs=self.n_jobs)
        yield Role(svm, n_views - 1, None, share, some(SVM_ROWS))
        for view in range(n_views):
            yield Role(NeighboursDetector(), view, None, share, some(neighbour_rows))
            order = generator.permutation(varying)
            for bag in range(n_bags):
                columns = np.sort(order[np.arange(bag * width, (bag + 1) * width) % len(order)])
                rows = some(BAG_ROWS, n_bags * view + bag)
                yield Role(NeighboursDetector(), view, columns, share / n_bags, rows)
        if training.outliers is not None:
            seed = int(generator.integers(2**31))
            classifier = OutlierClassifier(classifier=self.classifier, random_state=seed, n_surprises=n_others)
            yield Role(classifier, n_views - 1, None, of_classifier, some(SOME_ROWS))

    def _diagnosis(self) -> str:
        if self.model_.one_point:
            return (
                "All rows are the same point, so every other row is rejected, however near. Check the features for "
                "constants."
            )
        return ""

    def _copies(self, training: Training) -> FloatArray:
        return training.counts

    def _nominal_recall(self) -> float:
        return self.recall

    def _warn_of_few(self, training: Training) -> None:
        """Warn where even the lowest left-out score misses the recall: 1 / (n + 1) of new rows are to lie below it."""
        n, what = training.n_alone, "distinct sample" if training.groups is None else "group"
        most = n / (n + 1)
        if self.recall > most:
            warn(
                f"recall={self.recall:g} is more than {counted(n, what)} can promise: a new "
                f"one is expected to score below all of them with probability {1 - most:.2g}. Ask for a recall of "
                f"{most:.3g} at most, or give more {'samples' if training.groups is None else 'groups'}.",
                FitWarning,
            )

    @property
    def _takes_scale(self) -> bool:
        # Of two views one has ranks, which no few rows make.
        return False

    def _few(self, training: Training) -> str:
        if not isinstance(training, Drawn) or training.sample.whole:
            return super()._few(training)
        # The others put the threshold.
        weights = training.sample.weights_of_others
        doubt = "" if weights is None else too_uneven(weights, self.recall)
        return doubt if doubt and not training.may_be_counts else ""

    def _known_twice(self, training: Training) -> str:
        if training.outliers is None:
            return ""
        known = distinct_rows(training.outliers, np.ones(training.outliers.shape[0]))
        n = int(np.isin(known.keys, training.distinct.keys).sum())
        remedy = "take these rows out of X, unless good rows look the same"
        return f"{counted(n, 'known outlier')} equal rows of X, which count as positives: {remedy}." if n else ""

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = "csr") -> Any:
        return checked_rows(self, X, reset=reset, least=LEAST_ROWS, accept_sparse=accept_sparse)


def _reporting_to(progress: Progress | None) -> Callable[[int, int], None]:
    """Return what tells progress, given the fits that are done and all, of both and of the seconds left."""
    begin = perf_counter()

    def fitted(done: int, total: int) -> None:
        if progress is not None:
            progress(done, total, (perf_counter() - begin) / done * (total - done))

    return fitted
