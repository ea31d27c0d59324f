"""Search for the parameters of a one-class detector with positives alone, in scikit-learn's manner."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OutlierMixin, _fit_context, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import _safe_indexing, check_array, check_random_state, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from slabsvm.selection.cells import Progress, run_cells
from slabsvm.selection.criteria import Consistency, Criterion, Recall
from slabsvm.selection.folds import DistinctKFold, equal_rows, warn_of_labels, warn_of_scaling, warn_of_straddling
from slabsvm.selection.judging import Part, Search
from slabsvm.selection.named import NAMED
from slabsvm.selection.results import results_of
from slabsvm.selection.strangers import Strangers

FloatArray = npt.NDArray[np.float64]

LEAVE_ONE_OUT = "leave-one-out"


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


class LabelFreeSearchCV(MetaEstimatorMixin, OutlierMixin, BaseEstimator):
    """Choose a detector's parameters by a criterion that needs no negative sample.

    Every candidate of the grid is fitted on the rows outside each fold and answers the held-out positives, and
    strangers made from them; the criterion turns the answers into a score. The best candidate is fitted again on all
    rows.

    Parameters
    ----------
    estimator : detector, or pipeline that ends in one
        Any with scikit-learn's `fit` and `predict` (+1 for accepted), and `decision_function` or `score_samples`. Scale
        the features inside it: make_pipeline(StandardScaler(), detector).
    param_grid : dict of str to sequence, or list of such
        As for `GridSearchCV`; steps' parameters are named step__parameter.
    criterion : str or Criterion, default="marginals"
        One of `slabsvm.selection.named.NAMED`, or an instance from `slabsvm.selection.criteria` with parameters of
        your own.
    cv : int, "leave-one-out", splitter or iterable of (train, test), default=5
        A number makes so many folds that equal rows do not straddle (`DistinctKFold`). "leave-one-out" makes no folds:
        every candidate is fitted once, on all rows, and judged by its closed-form leave-one-out scores, for detectors
        of this package with offsets="leave-one-out".
    n_jobs : int or None, default=None
        Threads among which the fits are divided; None is 1 unless in a `joblib.parallel_config` context, -1 all.
    refit : bool, default=True
        Fit the best candidate on all rows. Without it there are only results.
    random_state : int, RandomState or None, default=0
        What strangers are drawn with; equal for all candidates. With the default, a search can be repeated.
    error_score : "raise" or float, default=nan
        The score of a candidate that could not be fitted; whatever it is, the candidate ranks last.
    journal : path or None, default=None
        A file to which each finished fit's result is written at once. A search that was killed, started again with the
        same data and parameters, goes on from there.
    progress : callable or None, default=None
        Called after every finished fit with the number of finished ones, the number of all, and an estimate of the
        seconds left; from the thread that finished it, one call at a time.
    reuse : bool, default=True
        Fit RBF support vector detectors of this package from squared distances that are computed once for each fold,
        each from the last one's solution. The outcome is that of independent fits to within the solver's tolerance.
        Each thread holds two matrices of (training rows + held-out rows + strangers) x training rows, and for a moment
        a part of a third; where one would be more than 256 MiB, fits are independent.

    Attributes
    ----------
    best_estimator_ : detector
        Fitted with best_params_ on all rows; only with refit=True.
    best_params_ : dict
    best_index_ : int
        Its place in cv_results_. Of equal scores, the one with the largest recall, then the first, wins.
    best_score_ : float
    cv_results_ : dict of str to array of shape (n_candidates,)
        As `GridSearchCV`'s: params, param_*, mean_test_score (the criterion's score, of means over the folds),
        split*_test_score, std_test_score, rank_test_score, mean_fit_time, mean_score_time and their std_*; and what
        the criterion measured, as split*_recall, mean_recall, std_recall, and so on.
    criterion_ : Criterion
    n_splits_ : int
        Number of folds; 1 for cv="leave-one-out".
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        These two only with refit=True, where the best detector has them.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "param_grid": [dict, list],
        "criterion": [StrOptions(set(NAMED)), Criterion],
        "cv": [
            Interval(Integral, 2, None, closed="left"),
            StrOptions({LEAVE_ONE_OUT}),
            HasMethods(["split", "get_n_splits"]),
            "array-like",
            Iterator,
        ],
        "n_jobs": [Integral, None],
        "refit": ["boolean"],
        "random_state": ["random_state"],
        "error_score": [StrOptions({"raise"}), Real],
        "journal": [str, os.PathLike, None],
        "progress": [callable, None],
        "reuse": ["boolean"],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        criterion: str | Criterion = "marginals",
        cv: Any = 5,
        n_jobs: int | None = None,
        refit: bool = True,
        random_state: Any = 0,
        error_score: float | str = np.nan,
        journal: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        reuse: bool = True,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.criterion = criterion
        self.cv = cv
        self.n_jobs = n_jobs
        self.refit = refit
        self.random_state = random_state
        self.error_score = error_score
        self.journal = journal
        self.progress = progress
        self.reuse = reuse

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, *, groups: Any = None, **fit_params: Any) -> Self:
        """Fit every candidate on every fold, and the best one on all rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), of any kind that the estimator takes
            Positives alone.
        y : ignored
            Labels of more than one class are warned of.
        groups : array-like of shape (n_samples,), default=None
            Which rows belong together, for a splitter that asks, such as `GroupKFold`.
        **fit_params : parameters of the estimator's fit
            Those of the samples' number, such as sample_weight, are divided as the rows are.

        Raises
        ------
        ValueError
            For parameters, shapes or values that make no sense, and where no candidate could be fitted.

        Warns
        -----
        slabsvm.LeakageWarning
            When equal rows straddle the folds, when the features were scaled all rows together, and when y holds
            labels of more than one class.
        slabsvm.selection.criteria.RecallMissedWarning
            When no candidate keeps the recall that the criterion asks for.
        """
        X = indexable(X)[0]
        # What the values may be is for the estimator to say: text and missing ones may be what its first step takes.
        check_array(
            X,
            accept_sparse=True,
            dtype=None,
            ensure_all_finite=False,
            ensure_2d=False,
            allow_nd=True,
            ensure_min_samples=2,
            estimator=self,
        )
        warn_of_labels(y)
        warn_of_scaling(X)
        candidates = list(ParameterGrid(self.param_grid))
        self.criterion_ = NAMED[self.criterion] if isinstance(self.criterion, str) else self.criterion
        self.criterion_.validate()
        parts = self._parts(X, groups)
        self.n_splits_ = len(parts)
        outcomes = run_cells(
            Search(self.estimator, candidates, parts, X, fit_params, self.criterion_),
            n_jobs=self.n_jobs,
            journal=self.journal,
            progress=self.progress,
            reuse=self.reuse,
            raises=self.error_score == "raise",
        )
        self.cv_results_ = results_of(self.criterion_, candidates, outcomes, _n_held_out(parts), self.error_score)
        self.best_index_ = int(np.argmin(self.cv_results_["rank_test_score"]))
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.criterion_.warn_of(float(self.cv_results_["mean_recall"][self.best_index_]), _n_held_out(parts))
        if self.refit:
            chosen = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
            self.best_estimator_ = chosen.fit(X, **fit_params)
        return self

    @property
    def n_features_in_(self) -> int:
        """The number of features that the best detector has learned."""
        return int(self._best_detector("n_features_in_").n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Their names, where they have any."""
        return self._best_detector("feature_names_in_").feature_names_in_

    @property
    def offset_(self) -> Any:
        """The best detector's offset: decision_function = score_samples - offset_."""
        return self._best_detector("offset_").offset_

    @available_if(_refitted_has("predict"))
    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """Return the best detector's +1 or -1 for each row, shape (n_samples,)."""
        check_is_fitted(self)
        answers: npt.NDArray[np.intp] = self.best_estimator_.predict(X)
        return answers

    @available_if(_refitted_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Return the best detector's decision for each row, shape (n_samples,): >= 0 for accepted ones."""
        check_is_fitted(self)
        values: FloatArray = self.best_estimator_.decision_function(X)
        return values

    @available_if(_refitted_has("score_samples"))
    def score_samples(self, X: Any) -> FloatArray:
        """Return how normal the best detector holds each row to be, shape (n_samples,)."""
        check_is_fitted(self)
        values: FloatArray = self.best_estimator_.score_samples(X)
        return values

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are results."""
        return hasattr(self, "cv_results_")

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input: what the estimator says of its own."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = deepcopy(inner.input_tags)
        return tags

    def _best_detector(self, attribute: str) -> Any:
        """Return the best detector, or say in scikit-learn's way that there is no such attribute."""
        try:
            check_is_fitted(self)
        except NotFittedError as error:
            raise AttributeError(f"{type(self).__name__} has no {attribute} before it is fitted.") from error
        if not self.refit:
            raise AttributeError(f"{type(self).__name__} has no {attribute}, since it was made with refit=False.")
        return self.best_estimator_

    def _parts(self, X: Any, groups: Any = None) -> list[Part]:
        """Return how the rows are divided, each division with its strangers."""
        pairwise = get_tags(self.estimator).input_tags.pairwise
        n_samples = _num_samples(X)
        group = np.arange(n_samples) if pairwise else equal_rows(X)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        if isinstance(self.cv, str):
            everything = np.arange(n_samples)
            return [Part(everything, None, self._strangers(X, everything, group, (seed, 0), pairwise))]
        if isinstance(self.cv, Integral):
            splits = list(DistinctKFold(int(self.cv)).split_groups(group))
        else:
            splits = list(check_cv(self.cv).split(X, groups=groups))
            warn_of_straddling(splits, group)
        return [
            Part(train, test, self._strangers(X, test, group, (seed, number), pairwise))
            for number, (train, test) in enumerate(splits)
        ]

    def _strangers(
        self, X: Any, rows: npt.NDArray[np.intp], group: npt.NDArray[np.intp], seed: tuple[int, int], pairwise: bool
    ) -> Strangers | None:
        """Return strangers of some rows, of all if these are equal, in an order that depends on content alone."""
        if pairwise and not isinstance(self.criterion_, (Recall, Consistency)):
            raise ValueError(
                f"{self.criterion_!r} makes strangers out of features, and a precomputed kernel matrix holds none. Use "
                "criterion='recall', or search over the kernel as a function, kernel=..., and the features."
            )
        if len(rows) > 1 and len(np.unique(group[rows])) == 1:
            # Equal rows tell nothing of how features vary: all positives do.
            rows = np.arange(len(group))
        ordered = rows[np.argsort(group[rows], kind="stable")]
        return self.criterion_.strangers(_safe_indexing(X, ordered), np.random.default_rng(seed))


def _n_held_out(parts: Sequence[Part]) -> int:
    """Return how many positives are asked about, over all parts."""
    return sum(len(part.train if part.held_out is None else part.held_out) for part in parts)
