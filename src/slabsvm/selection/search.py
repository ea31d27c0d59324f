"""Search for the parameters of a one-class detector with positives alone, in scikit-learn's manner.

It is no `BaseSearchCV`, which fits each candidate on each fold by itself and takes the mean of a score of the held-out
rows: a criterion scores the means of all candidates together, left-out scores have no held-out rows, and a scorer is
not told the fold, to which synthetic outliers belong. Nor could fits share kernel values and solutions there, which
makes a search 2 to 13 times as fast, or go on from a journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OutlierMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_array, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.checks import reading
from slabsvm.detectors.answers import predict_learned, refuse_classifier
from slabsvm.fitted.training import checked_weights, routed
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import counted, warn
from slabsvm.runtime.objects import atomic, seed_of
from slabsvm.runtime.sklearn_private import HasMethods, Interval, StrOptions, _fit_context
from slabsvm.selection.criteria import NAMED, Criterion, GridEdgeWarning, NothingToldApartWarning, TightestAtRecall
from slabsvm.selection.folds import LEAVE_ONE_OUT, Split, splits_of, warn_of_labels, warn_of_scaling
from slabsvm.selection.runs import Outcome, Progress, Search, Steps, WithProgress, run_all

Candidates = Sequence[Mapping[str, Any]]

FEWEST_VALUES = 3  # of a parameter: with fewer, a best value at an end means nothing
WIDENINGS = 4  # a grid is widened by so many values at most


def _refitted_has(name: str) -> Callable[[Any], bool]:
    """Return a check that the chosen detector, or before the fit the one that is searched over, has a method."""

    def check(search: Any) -> bool:
        if not search.refit:
            raise AttributeError(
                f"This {type(search).__name__} was made with refit=False, so that {name} is not available: there is "
                "no detector fitted with the best parameters. Use refit=True, or fit one with best_params_."
            )
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


@dataclass(eq=False, repr=False)
class LabelFreeSearchCV(WithProgress, MetaEstimatorMixin, OutlierMixin, BaseEstimator):
    """Choose a detector's parameters by a criterion that needs no negative sample.

    Every candidate is fitted on the rows outside each fold. The criterion scores its answers to the held-out positives
    and to synthetic outliers made from them. The best candidate is fitted again on all rows.

    Parameters
    ----------
    estimator : detector, or pipeline that ends in one
        It has scikit-learn's `fit` and `predict` (+1 for accepted), and `decision_function` or `score_samples`. Scale
        the features inside it: make_pipeline(StandardScaler(), detector).
    param_grid : dict of str to sequence, or list of such
        As for `GridSearchCV`; steps' parameters are named step__parameter.
    criterion : str or Criterion, default="marginals"
        "marginals", "volume", "recall", or an instance of a class in `slabsvm.selection.criteria` or of your own.
    cv : int, "leave-one-out", splitter or iterable of (train, test), default=5
        A number is that of folds that keep equal rows together (`DistinctKFold`). "leave-one-out" fits every candidate
        once, on all rows, and judges it by its leave-one-out scores, which takes detectors of this package with
        offsets="leave-one-out". Their planes are quantiles of the same scores, so recall alone cannot choose. Steps
        before the detector see all rows.
    n_jobs : int or None, default=None
        Threads that share the fits. None is 1 unless in a `joblib.parallel_config` context; -1 is all.
    refit : bool, default=True
        Whether to fit the best candidate on all rows. False leaves only the results.
    random_state : int, RandomState or None, default=0
        The seed of the synthetic outliers, which are the same for all candidates.
    error_score : "raise" or float, default=nan
        The score of a candidate that could not be fitted, which ranks last, whatever this score is.
    journal : path or None, default=None
        A file that gets the result of each fit as soon as it is finished. A search that was killed and is started again
        with the same data and parameters goes on from it.
    progress : callable or None, default=None
        Called after every finished fit, one call at a time, with the number of finished fits, of all fits, and an
        estimate of the seconds left. The refit counts as one fit, and a widened grid adds some. Pickles and deep copies
        leave it out.
    widen : str or None, default=None
        A parameter in the grid by its name, or the last part of it, such as "gamma". While the best candidate is at an
        edge of it, the grid is widened, by at most four values. If it is still at the edge, the search warns.
    reuse : bool, default=True
        Whether RBF support vector detectors of this package share kernel values on each fold, and start from each
        other's solutions. The outcome equals that of independent fits to within the solver's tolerance. Each thread
        holds up to two matrices of (training rows + held-out rows + synthetic outliers) x training rows; above 256 MiB
        each fits are independent.

    Attributes
    ----------
    best_estimator_ : detector
        Fitted with `best_params_` on all rows; only with refit=True.
    best_params_ : dict
    best_index_ : int
        The best candidate's place in `cv_results_`. Among equal scores the largest recall wins, then the first.
    best_score_ : float
    cv_results_ : dict of str to array of shape (n_candidates,)
        As in `GridSearchCV`: ``params``, ``param_*``, ``mean_test_score`` (the criterion's score of means over the
        folds), ``split*_test_score``, ``std_test_score``, ``rank_test_score``, ``mean_fit_time``, ``mean_score_time``
        and their ``std_*``; what the criterion measured, as ``split*_recall``, ``mean_recall``, ``std_recall``; and
        ``nominal_recall``, what each candidate's parameters ask for, NaN if they do not say.
    criterion_ : Criterion
    n_splits_ : int
        Number of folds; 1 for cv="leave-one-out".
    n_features_in_, feature_names_in_ : int, (n_features,) array of str
        Only with refit=True, where the best detector has them.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import LabelFreeSearchCV, OneClassSlabSVM
    >>> X = np.random.default_rng(0).normal(size=(60, 1)) * [1, 1] + np.random.default_rng(1).normal(size=(60, 2)) / 9
    >>> search = LabelFreeSearchCV(OneClassSlabSVM(), {"gamma": [0.01, 1.0]}).fit(X)
    >>> search.best_params_
    {'gamma': 1.0}
    >>> search.predict([[1.0, 1.0], [1.0, -1.0]])
    array([ 1, -1])
    """

    estimator: Any
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    criterion: str | Criterion = "marginals"
    cv: Any = 5
    n_jobs: int | None = None
    refit: bool = True
    random_state: Any = 0
    error_score: float | str = np.nan
    journal: str | os.PathLike[str] | None = None
    progress: Progress | None = None
    widen: str | None = None
    reuse: bool = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "param_grid": [dict, list],
        "criterion": [StrOptions(set(NAMED)), Criterion],
        "cv": [
            *(Interval(Integral, 2, None, closed="left"), StrOptions({LEAVE_ONE_OUT})),
            *(HasMethods(["split", "get_n_splits"]), "array-like", Iterator),
        ],
        "n_jobs": [Integral, None],
        "refit": ["boolean"],
        "random_state": ["random_state"],
        "error_score": [StrOptions({"raise"}), Real],
        "journal": [str, os.PathLike, None],
        "progress": [callable, None],
        "widen": [str, None],
        "reuse": ["boolean"],
    }

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, *, groups: Any = None, **fit_params: Any) -> Self:
        """Fit every candidate on every fold, and the best one on all rows.

        Raises ValueError for parameters, shapes or values that make no sense, and if no candidate could be fitted.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), of any kind that the estimator takes
            Positives alone.
        y : ignored
            Labels of more than one class give a warning.
        groups : array-like of shape (n_samples,), default=None
            Which rows belong together, for a splitter that needs groups, such as `GroupKFold`.
        **fit_params : parameters of the estimator's fit
            Values with one entry for each sample are split like the rows. sample_weight goes to every step that takes
            it, and counts in the recall and in making synthetic outliers: a row of weight 2 counts as two rows.

        Warns
        -----
        slabsvm.LeakageWarning
            If equal rows are in several folds, if all rows look as if they had been scaled together, or if y holds
            labels of more than one class.
        slabsvm.selection.RecallMissedWarning
            If no candidate keeps the recall that the criterion asks for.
        slabsvm.selection.NothingToldApartWarning
            If the best candidate accepts synthetic outliers as often as positives, or all candidates have the same
            score.
        slabsvm.selection.GridEdgeWarning
            If the best candidate has the smallest or largest of three or more values of a parameter.
        """
        refuse_classifier(self.estimator, self)
        with reading(X):
            X = indexable(X)[0]
        # The estimator checks the values: its first step may take text and missing values.
        anything = {"accept_sparse": True, "dtype": None, "ensure_2d": False, "allow_nd": True}
        check_array(X, **anything, ensure_all_finite=False, ensure_min_samples=2, estimator=self)
        candidates = list(ParameterGrid(self.param_grid))
        if not candidates:
            raise ValueError(
                "param_grid is an empty list, so there is no candidate to fit. Give a dict of lists, such as "
                "{'gamma': [0.01, 0.1, 1.0]}, or {} for the estimator as it is."
            )
        self.criterion_ = NAMED[self.criterion] if isinstance(self.criterion, str) else self.criterion
        self.criterion_.validate()
        warn_of_labels(y)
        if not isinstance(self.cv, str) and not get_tags(self.estimator).input_tags.pairwise:
            warn_of_scaling(X)
        weights = checked_weights(fit_params.pop("sample_weight", None), X)
        routed(self.estimator, weights)
        splits = self._splits(X, groups, weights)
        self.n_splits_ = len(splits)
        steps = Steps(self.progress, refit=self.refit)
        self._search(Search(self.estimator, candidates, splits, X, fit_params, self.criterion_, weights), steps)
        if self.refit:
            chosen = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
            self.best_estimator_ = chosen.fit(X, **fit_params, **routed(chosen, weights))
            steps.refitted()
        return self

    def _search(self, search: Search, steps: Steps) -> None:
        """Fit and judge all candidates, and those beyond them while the best is at the edge; keep the results."""
        n_asked = sum(split.n_trials for split in search.splits)
        candidates: list[Mapping[str, Any]] = []
        outcomes: list[list[Outcome]] = []
        further: Candidates = search.candidates
        name, n_widened = None if self.widen is None else named(further, self.widen), 0
        while further:
            grid, raises = replace(search, candidates=further), self.error_score == "raise"
            outcomes += run_all(grid, steps, n_jobs=self.n_jobs, journal=self.journal, reuse=self.reuse, raises=raises)
            steps.next_grid(len(further) * len(search.splits))
            candidates += further
            self.cv_results_ = results_of(self.criterion_, candidates, outcomes, n_asked, self.error_score)
            self.best_index_ = int(np.argmin(self.cv_results_["rank_test_score"]))
            scores, best, further = self.cv_results_["mean_test_score"], self.best_index_, []
            if name is not None and n_widened < WIDENINGS and (side := at_edge(candidates, scores, best, name)):
                n_widened, further = n_widened + 1, beyond(candidates, best, name, side)
        self.best_params_ = dict(candidates[self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self._warn_of_the_choice(candidates, n_asked, {name: n_widened})

    def _warn_of_the_choice(self, candidates: Candidates, n_asked: int, widened: Mapping[str | None, int]) -> None:
        """Warn where the choice misses the recall, tells nothing apart, or is at the edge of a grid, widened or not."""
        means = {name: values for name, values in self.cv_results_.items() if name.startswith("mean_")}
        measured = {name.removeprefix("mean_"): float(values[self.best_index_]) for name, values in means.items()}
        nominal = float(self.cv_results_["nominal_recall"][self.best_index_])
        own = {"nominal_recall": nominal} if isinstance(self.criterion_, TightestAtRecall) else {}
        self.criterion_.warn_of(measured["recall"], n_asked, **own)
        scores = means["mean_test_score"]
        doubt = self.criterion_.doubt(measured, n_asked)
        if len(candidates) > 1 and (scores == scores[0]).all():
            doubt = doubt or (
                f"All {len(candidates)} candidates have the same score, {scores[0]:.3g}, so {self.criterion_!r} "
                "cannot choose between them. The first of those with the largest recall was taken. Search by another "
                "criterion, or over a grid of candidates that differ more."
            )
        if doubt:
            warn(doubt, NothingToldApartWarning)
            return
        for name, value in sorted(self.best_params_.items()):
            if not (side := at_edge(candidates, scores, self.best_index_, name)):
                continue
            end, other = ("largest", "larger") if side > 0 else ("smallest", "smaller")
            remedy = f"Add {other} values to the grid, or let the search widen it with widen={name!r}."
            if widened.get(name):
                remedy = f"The grid was widened {counted(widened[name], 'time')}: search by another criterion."
            warn(
                f"The best {name}, {value:.3g}, is the {end} that was tried, and a better one may lie beyond. {remedy}",
                GridEdgeWarning,
            )

    n_features_in_ = property(lambda self: int(self._of_best("n_features_in_")), doc="Of the best detector.")
    feature_names_in_ = property(lambda self: self._of_best("feature_names_in_"), doc="Their names, if they have any.")
    offset_ = property(lambda self: self._of_best("offset_"), doc="``decision_function = score_samples - offset_``.")

    @available_if(_refitted_has("predict"))
    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """Return the best detector's +1 or -1 for each row, shape (n_samples,)."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(_refitted_has("predict"))
    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> npt.NDArray[np.intp]:
        """Search, and return the best detector's `fit_predict`: -1 for rows that are outliers among the others."""
        return predict_learned(self.fit(X, y, **kwargs), X)

    @available_if(_refitted_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Return the best detector's decision for each row, shape (n_samples,): >= 0 for accepted ones."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))

    @available_if(_refitted_has("score_samples"))
    def score_samples(self, X: Any) -> FloatArray:
        """Return the best detector's score of each row, shape (n_samples,): larger is more normal."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.score_samples(X))

    def _of_best(self, attribute: str) -> Any:
        """Return an attribute of the best detector, or say in scikit-learn's way that there is none."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{type(self).__name__} has no {attribute} before a fit with refit=True.")
        return getattr(self.best_estimator_, attribute)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input: what the estimator says of its own."""
        tags = super().__sklearn_tags__()
        tags.input_tags = deepcopy(get_tags(self.estimator).input_tags)
        return tags

    def _splits(self, X: Any, groups: Any = None, weights: FloatArray | None = None) -> list[Split]:
        seed, pairwise = seed_of(self.random_state), get_tags(self.estimator).input_tags.pairwise
        return splits_of(X, self.cv, self.criterion_, groups=groups, seed=seed, pairwise=pairwise, weights=weights)


def results_of(
    criterion: Criterion, candidates: Candidates, outcomes: list[list[Outcome]], n: int, error_score: float | str
) -> dict[str, Any]:
    """Return cv_results_ from outcomes by candidate and split, of n judged positives, and warn of fits that failed."""

    def table(field: str) -> FloatArray:
        return np.array([[getattr(outcome, field) for outcome in row] for row in outcomes], dtype=np.float64)

    def scores(means: dict[str, FloatArray], n_judged: int) -> FloatArray:
        whole = np.flatnonzero(np.isfinite(means["recall"])).tolist()
        found = np.full(len(candidates), np.nan)
        if len(whole):
            some = {name: values[whole] for name, values in (means | nominal).items()}
            found[whole] = criterion.scores(some, [candidates[place] for place in whole], n_judged)
        return found

    if failures := [outcome.failure for row in outcomes for outcome in row if outcome.failure]:
        total = sum(map(len, outcomes))
        text = f"{len(failures)} of {total} fits failed; the first says: {failures[0]}"
        if len(failures) == total:
            raise ValueError(f"Nothing could be fitted. {text}")
        remedy = "Their candidates rank last. error_score='raise' shows the cause."
        warn(f"{text}. {remedy}", FitFailedWarning)
    n_splits = len(outcomes[0])
    nominal = {"nominal_recall": table("nominal_recall")[:, 0]}
    names = sorted({name for row in outcomes for outcome in row for name in outcome.measured})
    measured = {
        name: np.array([[outcome.measured.get(name, np.nan) for outcome in row] for row in outcomes]) for name in names
    }
    parts = [{name: values[:, split] for name, values in measured.items()} for split in range(n_splits)]
    by_split = [scores(part, n // n_splits) for part in parts]
    means = {name: values.mean(axis=1) for name, values in measured.items()}
    overall = scores(means, n)
    failed = np.isnan(overall)
    if failed.all():
        raise ValueError("Every candidate's score is NaN, so none can be chosen. Check the grid and the data.")
    # Equal scores are told apart by recall, and failures are last.
    pairs = np.stack([np.where(failed, -np.inf, overall), np.where(np.isnan(means["recall"]), -1.0, means["recall"])])
    places = np.unique(pairs, axis=1, return_inverse=True)[1].ravel()
    results: dict[str, Any] = {}
    for name in ("fit_time", "score_time"):
        results |= {f"mean_{name}": table(name).mean(axis=1), f"std_{name}": table(name).std(axis=1)}
    results |= {**dict(_parameter_columns(candidates)), "params": list(candidates)}
    results |= {f"split{split}_test_score": values for split, values in enumerate(by_split)}
    results["mean_test_score"] = overall if error_score == "raise" else np.where(failed, float(error_score), overall)
    results["std_test_score"] = np.std(by_split, axis=0)
    results["rank_test_score"] = np.asarray(rankdata(-places, method="min"), dtype=np.int32)
    for name, values in measured.items():
        results |= {f"split{split}_{name}": values[:, split] for split in range(n_splits)}
        results |= {f"mean_{name}": means[name], f"std_{name}": values.std(axis=1)}
    return results | nominal


def _parameter_columns(candidates: Candidates) -> Iterator[tuple[str, Any]]:
    """Give a masked column param_NAME for each parameter, of its own type where all values are numbers."""
    for name in names_of(candidates):
        values = {place: candidate[name] for place, candidate in enumerate(candidates) if name in candidate}
        kinds = set(map(type, values.values()))
        dtype = np.result_type(*kinds) if kinds <= {int, float} else object
        column = np.ma.MaskedArray(np.empty(len(candidates), dtype=dtype), mask=True)
        for place, value in values.items():
            column[place] = value
        yield f"param_{name}", column


def names_of(candidates: Candidates) -> list[str]:
    """Return the names of all parameters of a grid, in order."""
    return sorted({name for candidate in candidates for name in candidate})


def named(candidates: Candidates, wanted: str) -> str | None:
    """Return the full name of a parameter, given it or its last part; None where the grid has no such parameter."""
    return next((name for name in names_of(candidates) if wanted in (name, name.rpartition("__")[2])), None)


def is_number(value: Any) -> bool:
    """Return whether a parameter's value is a number."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def at_edge(candidates: Candidates, scores: FloatArray, best: int, name: str) -> int:
    """Return 1 where the best candidate has the largest value of a parameter, -1 for the smallest, and else 0.

    0 too where it is no number, where it has fewer than FEWEST_VALUES among the candidates that differ from the best in
    numbers alone, and where the next value towards the middle scores as well.
    """
    value, values = candidates[best].get(name), _values(candidates, best, name)
    if not is_number(value) or len(values) < FEWEST_VALUES or values[0] < value < values[-1]:
        return 0
    side = 1 if value == values[-1] else -1
    wanted = {**candidates[best], name: values[-2] if side > 0 else values[1]}
    for place, candidate in enumerate(candidates):
        if candidate.keys() == wanted.keys() and all(_same(candidate[key], wanted[key]) for key in wanted):
            return side if scores[place] < scores[best] else 0
    return side


def beyond(candidates: Candidates, best: int, name: str, side: int) -> list[dict[str, Any]]:
    """Return the candidates of the best one's value, with the next: by the ratio or difference of the last two."""
    values = _values(candidates, best, name)
    last, before = (values[-1], values[-2]) if side > 0 else (values[0], values[1])
    further = last * (last / before) if min(last, before) > 0 else last + (last - before)
    return [{**one, name: further} for one in candidates if one.get(name) == candidates[best][name]]


def _values(candidates: Candidates, best: int, name: str) -> list[Any]:
    """Return in order the values of a parameter among the candidates that differ from the best in numbers alone."""

    def alike(value: Any, other: Any) -> bool:
        return (is_number(value) and is_number(other)) or _same(value, other)

    some = [one for one in candidates if all(alike(one.get(key), value) for key, value in candidates[best].items())]
    return sorted({one[name] for one in some if is_number(one.get(name))})


def _same(value: Any, other: Any) -> bool:
    return value is other or (isinstance(value, str | int | float | np.number) and bool(value == other))
