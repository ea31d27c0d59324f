"""The one-call default: slabs of several bandwidths that decide together, so that there is nothing to choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.passes import Local
from slabsvm.detectors.base import Detector, Fitted, SlabCollapseWarning, checked_rows, parameters, rounding_of
from slabsvm.detectors.explanation import Explanation
from slabsvm.detectors.grouped import GroupedDetector
from slabsvm.detectors.path import fit_path
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.detectors.sources import is_dask, rows_in_memory, rows_in_place, source_of
from slabsvm.detectors.training import Training
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import silenced, warn
from slabsvm.runtime.counting import counted
from slabsvm.runtime.sklearn_private import Interval, _num_samples
from slabsvm.selection.criteria import RecallMissedWarning
from slabsvm.selection.held_out import FOLDS, few_for_features, scores_by_folds
from slabsvm.selection.mean_score import MeanScore, Shares, bandwidths, fitted_scaler, put_on_scale
from slabsvm.selection.progress import Progress, Steps, WithProgress
from slabsvm.selection.sampled import Drawn, Sample
from slabsvm.selection.thresholds import accepting_learned, by_left_out, by_others

# nu_upper of the members is SHARE_ABOVE of 1 - recall, or NU_UPPER if that is less; nu_lower is the rest.
SHARE_ABOVE = 0.1
NU_UPPER = 0.01
# Fewer rows are refused.
LEAST_ROWS = 10


@dataclass(frozen=True, kw_only=True)
class AveragedFit(Fitted):
    """Fitted slabs, and what puts rows on their scale.

    Attributes
    ----------
    scaler : StandardScaler or None
    members : list of OneClassSlabSVM
    by_folds : bool
        Whether loo_scores are those of rows in folds that were not learned.
    weights : (n_samples,) array of float64, or None
        How much each row counts in p-values; None where all do alike.
    n_groups : int or None
    expected_recall : float
    sample : (n,) array of intp or None
    """

    scaler: StandardScaler | None
    members: list[OneClassSlabSVM]
    by_folds: bool
    weights: FloatArray | None
    n_groups: int | None
    expected_recall: float
    sample: IndexArray | None

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        return {
            **super().attributes(),
            "members_": self.members,
            "gammas_": np.array([member.gamma_ for member in self.members]),
            "expected_recall_": self.expected_recall,
            "sample_": self.sample,
        }


@parameters
class AutoSlabSVM(WithProgress, GroupedDetector):
    """One-class slab SVM without a parameter to choose: it scales the features, and averages over bandwidths.

    Up to four slabs (RBF) learn the standardised features, at 1, 4 and 16 times gamma "scale" and at the largest gamma
    at which neighbours still reach each other. Their scores have no unit: 1 is the most normal, 0 is on a plane.
    The mean score decides, with a threshold that keeps the recall by leave-one-out. No single bandwidth is right for
    all data: on tables of few features the mean is better than the best one (docs/results/tabular.md). Where features
    are many and rows few, a search decides better, at ten times the cost (docs/results/choosing-parameters.md).

    Sparse rows are learned as they are: a scaler gives rare words of a text the largest values. A feature that is
    constant in what is learned keeps its own unit.

    Parameters
    ----------
    recall : float in (0, 1), default=0.9
        The share of new positives that must be accepted. A smaller one rejects more negatives.
    offsets : {"leave-one-out", "training"}, default="leave-one-out"
        Whose scores put the threshold, as for `OneClassSlabSVM`. With training scores the recall of new rows is less
        than asked for.
    max_fit_samples : int or None, default=10000
        Of more rows the slabs learn so many, or half of them if that is less, and the threshold is put by all others,
        which they have not learned: in two passes over arrays, memory-mapped arrays and CSR matrices where they are,
        and over Dask arrays on their workers (docs/results/large-data.md). None: no limit.
    random_state : int, RandomState or None, default=0
        The seed by which rows are drawn. It has no part where all are learned.
    n_jobs : int or None, default=None
        Threads that compute large kernel blocks, and score rows a stretch at a time; None is 1 unless in a
        `joblib.parallel_config` context, -1 all.
    cache_size : float, default=1000
        Memory for parts of the kernel matrix in each fit, in MB, as for `OneClassSlabSVM`.
    progress : callable or None, default=None
        Called with the number of fits done, of fits in all, and the seconds left. `clone` keeps it; pickles and deep
        copies leave it out.

    Attributes
    ----------
    members_ : list of OneClassSlabSVM
        The fitted slabs, of falling gamma; they take standardised rows.
    gammas_ : (n_members,) array of float64
        Their gammas, of standardised features.
    offset_ : float
        ``decision_function = score_samples - offset_``.
    expected_recall_ : float
        The share of new positives that is expected to be accepted, by `loo_scores_`; with offsets="training" the share
        of training rows that is.
    loo_scores_ : (n_samples,) array of float64
        The mean score of each training row without itself, which a row that was not drawn never was learned with; NaN
        where its weight is 0. Where the slabs would reject most of what they learned (few discrete values), no more
        than its score with itself, which new rows that repeat it have. Where rows are few for their features (fewer
        than 1,000 samples, and five for each), by slabs of ten folds, which the rows' bits draw: other units,
        other folds.
    loo_decisions_ : (n_samples,) array of float64
        ``loo_scores_ - offset_``: negative for the outliers among the training rows (`training_outliers`).
    sample_ : (n,) array of intp or None
        The numbers of the rows that were learned, ascending; None where all were.
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
    random_state: Any = 0
    n_jobs: int | None = None
    cache_size: float = 1000
    progress: Progress | None = None

    expected_recall_: float = field(init=False)
    _fitted: AveragedFit = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Detector._parameter_constraints,
        "recall": [Interval(Real, 0.0, 1.0, closed="neither")],
        "max_fit_samples": [Interval(Integral, LEAST_ROWS, None, closed="left"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "progress": [callable, None],
    }

    def score_samples(self, X: Any) -> Any:
        """Return the mean of the members' scores of each row, shape (n_samples,): at most 1.

        A Dask array for a Dask array, with the scores of each stretch of rows computed where it is.
        """
        check_is_fitted(self)
        score = MeanScore(self._fitted.scaler, self.members_)
        if is_dask(X):
            from slabsvm.data.dask import scored

            return scored(X, self.n_features_in_, score, 8 * self.n_features_in_)
        return Local(rows_in_place(self, X, reset=False), None, effective_n_jobs(self.n_jobs)).scores(score)

    def _explanation(self, X: Any) -> Explanation:
        rows = rows_in_memory(self, X)
        return MeanScore(self._fitted.scaler, self.members_).explanation(rows).less(self.offset_)

    def predict(self, X: Any, alpha: float | None = None) -> npt.NDArray[np.intp]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,).

        Parameters
        ----------
        X : array-like, CSR matrix or Dask array of shape (n_samples, n_features)
            The answer for a Dask array is one.
        alpha : float in (0, 1), default=None
            The share of new positives that may be rejected: rows with `p_values` of at most alpha are. None is
            1 - recall, by the threshold that `offset_` states.
        """
        if alpha is None:
            return super().predict(X)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be a rate between 0 and 1, got {alpha!r}.")
        return np.where(self.p_values(X) > alpha, 1, -1)

    def p_values(self, X: Any) -> Any:
        """Return the share of training rows that are no more normal than each row, shape (n_samples,).

        That is (1 + their number) / (1 + n), by what training rows score without themselves: of new positives a share
        of about p has a p-value of at most p. (`ConformalDetector` promises it, with rows that are held out.) A Dask
        array for a Dask array.

        Raises
        ------
        AttributeError
            With offsets="training", which has no leave-one-out scores.
        """
        scores, shares = self.score_samples(X), self._shares()
        return scores.map_blocks(shares, dtype=np.float64) if is_dask(scores) else shares(scores)

    def _shares(self) -> Shares:
        """Return the function that gives scores their p-values."""
        if "loo_scores_" not in self.__dict__:
            raise AttributeError("p_values needs a fit with offsets='leave-one-out'.")
        return Shares.of(self.loo_scores_, self._fitted.weights, self._fitted.n_groups)

    def training_outliers(self) -> IndexArray:
        """Return the numbers of the training rows that the model would reject had it not learned them.

        Shape (n_outliers,), the least normal first: about 1 - recall of the rows.

        Raises
        ------
        AttributeError
            With offsets="training", which has no leave-one-out scores.
        """
        check_is_fitted(self)
        decisions = self.loo_decisions_
        order = np.argsort(decisions, kind="stable")
        return order[: int(np.count_nonzero(decisions < 0))]

    def summary(self) -> str:
        """Return what was fitted, in a few lines for a person to read."""
        check_is_fitted(self)
        scaled = "features as they are" if self._fitted.scaler is None else "features standardised"
        by = "by leave-one-out" if self.offsets == "leave-one-out" else "of training rows"
        by = f"by {FOLDS} folds" if self._fitted.by_folds else by
        by = by if self._fitted.n_groups is None else f"{by}, of {self._fitted.n_groups} groups each left out whole"
        learned = []
        if self.sample_ is not None:
            rest = self.n_samples_fit_ - len(self.sample_)
            by = "by rows that were not learned"
            learned = [f"  learned          {len(self.sample_):,} of {self.n_samples_fit_:,} rows"]
            learned[0] += f"; threshold by the other {rest:,}"
        return "\n".join(
            (
                f"AutoSlabSVM: the mean of {counted(len(self.members_), 'slab')}, {scaled}",
                *learned,
                f"  recall           {self.expected_recall_:.1%} expected, {by}, where {self.recall:.1%} is asked for",
                f"  threshold        {self.offset_:.4g}, where 1 is the most normal and 0 on a plane",
                *(self._member_statement(member) for member in self.members_),
            )
        )

    def _member_statement(self, member: OneClassSlabSVM) -> str:
        share = len(member.support_) / member.n_samples_fit_
        return (
            f"  gamma {member.gamma_:<10.4g} {share:.0%} support vectors, recall alone {member.expected_recall_:.1%}, "
            f"{member.status_} (relative gap {member.relative_gap_:.2g})"
        )

    def _training(self, X: Any, sample_weight: Any, groups: Any = None) -> Training:
        """Return all rows, validated, or a sample of them."""
        if not is_dask(X) and (self.max_fit_samples is None or _num_samples(X) <= self.max_fit_samples):
            return super()._training(X, sample_weight, groups)
        if groups is not None:
            raise ValueError(
                f"groups need all rows to be learned, and max_fit_samples={self.max_fit_samples} draws some of them. "
                "Use max_fit_samples=None and an array, or draw some rows of each group."
            )
        source = source_of(self, X, sample_weight, n_jobs=self.n_jobs)
        if source.n_samples < LEAST_ROWS:
            raise ValueError(f"Found array with {source.n_samples} samples, where at least {LEAST_ROWS} are required.")
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        sample = Sample.of(source, self.max_fit_samples or source.n_samples, seed)
        self._weight_unit = 1.0
        return Drawn(sample.rows, sample.weights, self._distinct(sample.rows, sample.weights), sample)

    def _learn(self, training: Training) -> AveragedFit:
        sample = training.sample if isinstance(training, Drawn) else None
        alone = sample is None or sample.whole
        n_folds = FOLDS if alone and self.offsets == "leave-one-out" and few_for_features(training) else 0
        steps = Steps(self.progress, 0.0)
        score = self._average(training, lambda done, each: steps.fitted(done, each * (1 + n_folds)))
        scores: FloatArray
        masses: FloatArray | None
        if sample is None or sample.whole:
            scores, masses = self._scores_of_samples(training, score, n_folds, steps), training.counted[1]
            offset = by_left_out(scores, masses, self.recall, training.n_alone)
            found = training.by_row(scores) if sample is None else sample.spread(training.by_row(scores))
        else:
            found = sample.scores(self._scores_of_rows(training, score), score)
            scores, masses = sample.of_others(found)
            offset = by_others(scores, masses, self.recall)
        rounding = rounding_of(abs(offset) + 1.0)
        offset -= rounding
        return AveragedFit(
            offset=offset,
            rounding=rounding,
            loo_scores=found if self.offsets == "leave-one-out" else None,
            scaler=score.scaler,
            members=score.members,
            by_folds=n_folds > 0,
            weights=training.masses if sample is None else sample.source.weights,
            n_groups=None if training.groups is None else training.groups.count,
            expected_recall=float(np.average(scores >= offset, weights=masses)),
            sample=None if alone or sample is None else sample.numbers,
        )

    def _scores_of_rows(self, training: Training, score: MeanScore) -> FloatArray:
        """Return the scores that put the threshold, of learned rows, (n,): each without itself, or as it is."""
        if self.offsets == "training":
            return score(training.X)
        return np.asarray(np.mean([member.loo_decisions_ for member in score.members], axis=0))

    def _scores_of_samples(self, training: Training, score: MeanScore, n_folds: int, steps: Steps) -> FloatArray:
        """Return the scores that put the threshold where all rows were learned, of distinct samples, (m,)."""
        (rows, weights), each = training.counted, len(score.members)
        self._warn_of_few(training)
        if n_folds:
            scores = scores_by_folds(
                training, self._average, lambda done: steps.fitted(each * (1 + done), each * (1 + n_folds))
            )
        else:
            scores = self._scores_of_rows(training, score)[rows]
        # Rows of new groups repeat no row that was learned.
        if self.offsets == "training" or training.groups is not None:
            return scores
        return accepting_learned(scores, score(training.samples), weights, self.recall)

    def _average(self, training: Training, fitted: Callable[[int, int], object] | None = None) -> MeanScore:
        """Return the scaler and the members that rows lead to; fitted is told of each member, and of how many."""
        scaler = None if sp.issparse(training.X) else fitted_scaler(training)
        rows = put_on_scale(scaler, training.X)
        rejection = 1.0 - self.recall
        nu_upper = min(NU_UPPER, SHARE_ABOVE * rejection)
        slab = OneClassSlabSVM(
            nu_lower=rejection - nu_upper,
            nu_upper=nu_upper,
            offsets=self.offsets,
            cache_size=self.cache_size,
            n_jobs=self.n_jobs,
        )
        gammas = bandwidths(rows, training)
        members: list[OneClassSlabSVM] = []
        # What all of them say, the diagnosis says.
        with silenced(SlabCollapseWarning):
            for member in fit_path(slab, rows, sample_weight=training.weights, groups=training.names, gamma=gammas):
                members.append(member)
                if fitted is not None:
                    fitted(len(members), len(gammas))
        return MeanScore(scaler, members)

    def _diagnosis(self) -> str:
        # A member of a smaller gamma makes up for one whose neighbours are out of reach.
        texts = [member._collapsed() or member._misplaced() for member in self.members_]
        if not all(texts):
            return ""
        return (
            f"{texts[-1]} (So says the slab of gamma {self.gammas_[-1]:.3g}, and any other of the average warns too. "
            "AutoSlabSVM chooses gamma by itself; OneClassSlabSVM and LabelFreeSearchCV take others.)"
        )

    def _nominal_recall(self) -> float:
        return self.recall

    def _warn_of_few(self, training: Training) -> None:
        """Warn where even a threshold below all leave-one-out scores is not expected to keep the recall.

        Of n + 1 rows in random order, the last has the lowest score with probability 1 / (n + 1).
        """
        n, what = training.n_alone, "distinct sample" if training.groups is None else "group"
        most = n / (n + 1)
        if self.recall > most:
            warn(
                f"recall={self.recall:g} is more than {counted(n, what)} can promise: a new "
                f"one is expected to score below all of them with probability {1 - most:.2g}. Ask for a recall of "
                f"{most:.3g} at most, or give more {'samples' if training.groups is None else 'groups'}.",
                RecallMissedWarning,
            )

    def _repeats_misjudged(self, training: Training) -> str:
        # A threshold by rows that were not learned judges those that repeat as any others.
        return super()._repeats_misjudged(training) if self.sample_ is None else ""

    def _scaled(self, X: Any) -> Any:
        return put_on_scale(self._fitted.scaler, X)

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = "csr") -> Any:
        return checked_rows(self, X, reset=reset, least=LEAST_ROWS, accept_sparse=accept_sparse)
