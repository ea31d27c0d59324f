"""The one-call default: a slab whose scaling and parameters are chosen from the positives alone."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.checks import without_unit
from slabsvm.data.distinct import distinct_rows
from slabsvm.detectors.base import Scored, checked_rows, parameters
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.detectors.weighting import checked_weights, routed
from slabsvm.kernels.bandwidth import feature_variance
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.atomic import atomic
from slabsvm.runtime.caller import warn
from slabsvm.runtime.counting import counted
from slabsvm.runtime.sklearn_private import Interval, _fit_context
from slabsvm.selection.criteria import RecallMissedWarning, TightestAtRecall
from slabsvm.selection.progress import Progress, Steps, WithProgress, refit_cost
from slabsvm.selection.search import LabelFreeSearchCV

GAMMA, EPSILON = "oneclassslabsvm__gamma", "oneclassslabsvm__epsilon"
# gamma of the standardised features, as multiples of 1 / number of those that vary, which is "scale" for them.
GAMMA_MULTIPLES = tuple(2.0**power for power in range(-2, 5))
# The share of positives that a candidate rejects, as shares of 1 - recall. nu_upper is SHARE_ABOVE of 1 - recall, or
# NU_UPPER if that is less; nu_lower is the rest.
SHARES_OF_REJECTION = (0.5, 1.0)
SHARE_ABOVE = 0.1
NU_UPPER = 0.01
EPSILONS = (2 / 3, 0.9)
# Of more distinct rows, so many choose nu, and gamma to within a factor.
FIRST_SAMPLES = 500
# All rows that are searched choose among these multiples of that gamma, or beyond, and epsilon.
NEXT_TO_FIRST = (0.5, 1.0, 2.0)
# The half range of a feature must be between these: then its square, and a sum of a million squares, are in float64.
SQUARED = (1e-150, 1e150)


@parameters
class AutoSlabSVM(WithProgress, Scored):
    """One-class slab SVM (RBF) that scales the features and chooses its own parameters, with positives alone.

    `LabelFreeSearchCV` searches a pipeline of `StandardScaler` and `OneClassSlabSVM`, with leave-one-out scores in
    place of folds. Of the candidates that keep the recall, the one that accepts the smallest volume is chosen. Sparse
    rows have no volume: for them the one that accepts the fewest synthetic outliers ("filled") is chosen. Leave-one-out
    planes give nearly every candidate the recall that it is asked for, so that the volume decides. While the best gamma
    is the last of the grid, the grid goes on. Sparse rows are searched standardised, and as they are: a scaler gives
    rare words of a text the largest values.

    Of more than 500 distinct rows, 500 choose nu and gamma; up to max_search_samples then choose epsilon, and among the
    gammas next to that one.

    With few samples the recall falls a little short of the one asked for. For features with few values, volume means
    little. docs/choosing-parameters.md gives figures, and says what to search by instead.

    Parameters
    ----------
    recall : float in (0, 1), default=0.9
        The share of new positives that must be accepted. A smaller one rejects more negatives.
    max_search_samples : int or None, default=2000
        How many distinct rows at most the search uses; the chosen candidate learns all. None: no limit.
    n_jobs : int or None, default=None
        Threads of the search; None is 1 unless in a `joblib.parallel_config` context, -1 all.
    random_state : int, RandomState or None, default=0
        The seed of the synthetic outliers.
    cache_size : float, default=1000
        Memory for parts of the kernel matrix in each fit, in MB, as for `OneClassSlabSVM`.
    progress : callable or None, default=None
        As for `LabelFreeSearchCV`: called with the number of fits done, of fits in all (the last one is on all rows),
        and the seconds left. `clone` keeps it; pickles and deep copies leave it out.

    Attributes
    ----------
    search_ : LabelFreeSearchCV
        With cv_results_, best_index_ and so on; `slabsvm.display.draw_search` draws it.
    first_search_ : LabelFreeSearchCV or None
        The search of 500 rows over the whole grid, where there are more: `search_` is over gammas next to its best.
    best_params_ : dict
        The chosen parameters of the pipeline's steps.
    pipeline_ : Pipeline
        The scaler and the slab, fitted on all rows.
    slab_ : OneClassSlabSVM
        The last step of pipeline_, with summary(), loo_scores_ and so on.
    offset_ : float
        decision_function = score_samples - offset_.
    loo_decisions_ : (n_samples,) array of float64
        The decision_function of each training row under the slab trained without it: negative for the outliers among
        the training rows. NaN where the weight is 0.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only when X has feature names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import AutoSlabSVM
    >>> X = np.random.default_rng(0).normal(size=(80, 1)) * [1, 100] + np.random.default_rng(1).normal(size=(80, 2))
    >>> AutoSlabSVM().fit(X).predict([[1.0, 100.0], [1.0, -100.0]])
    array([ 1, -1])
    """

    recall: float = 0.9
    max_search_samples: int | None = 2000
    n_jobs: int | None = None
    random_state: Any = 0
    cache_size: float = 1000
    progress: Progress | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "recall": [Interval(Real, 0.0, 1.0, closed="neither")],
        "max_search_samples": [Interval(Integral, 10, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "progress": [callable, None],
    }

    @atomic
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the parameters, then fit on all rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Positives alone, unscaled.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative. A weight of 2 means what two identical rows mean, to the scaler, the search and the slab. A
            weight of 0 leaves the row out.

        Raises
        ------
        ValueError
            For parameters, shapes or values that make no sense; the text says what to do.

        Warns
        -----
        slabsvm.selection.criteria.RecallMissedWarning
            When no candidate keeps the recall, or when so few samples cannot promise it.
        slabsvm.selection.criteria.NothingToldApartWarning
            When the chosen candidate accepts synthetic outliers as often as positives.
        slabsvm.selection.edges.GridEdgeWarning
            When the best gamma is still the last of the grid after all widenings.
        """
        del y
        X = self._checked(X, reset=True)
        weights = checked_weights(sample_weight, X)
        if weights is not None:
            # Only their ratios count, and the scaler adds them up.
            weights, _ = without_unit(weights)
        steps = self._search(X, weights)
        self.pipeline_: Pipeline = clone(self.search_.estimator).set_params(**clone(self.best_params_, safe=False))
        self.pipeline_.fit(X, **routed(self.pipeline_, weights))
        self.slab_: OneClassSlabSVM = self.pipeline_[-1]
        self.offset_ = self.slab_.offset_
        steps.refitted()
        return self

    def _search(self, X: Any, weights: FloatArray | None) -> Steps:
        """Choose the parameters with some of the rows; return the progress so far."""
        distinct = distinct_rows(X, np.ones(X.shape[0]) if weights is None else weights)
        n_distinct = len(distinct.representatives)
        # The order of distinct rows is as good as random, and depends on their content alone.
        n_searched = n_distinct if self.max_search_samples is None else min(n_distinct, self.max_search_samples)
        n_first = min(n_searched, FIRST_SAMPLES)
        n_threads = effective_n_jobs(self.n_jobs)
        steps = Steps(self.progress, refit_cost(n_distinct, n_first, n_threads))
        grid = self._grid(X[distinct.representatives], distinct.weights)

        def first_rows(n_rows: int) -> tuple[Any, FloatArray | None]:
            some = (distinct.group >= 0) & (distinct.group < n_rows)
            return X[some], None if weights is None else weights[some]

        self.first_search_: LabelFreeSearchCV | None = None
        if n_searched > n_first:
            n_later = len(NEXT_TO_FIRST) * len(EPSILONS)
            with warnings.catch_warnings():
                # What is odd about the choice, the search that makes it warns of.
                warnings.simplefilter("ignore")
                self.first_search_ = self._over(grid, *first_rows(n_first), steps=steps, n_later=n_later)
            best = self.first_search_.best_params_
            near = {GAMMA: [multiple * best[GAMMA] for multiple in NEXT_TO_FIRST], EPSILON: list(EPSILONS)}
            grid = [{name: [value] for name, value in best.items()} | near]
            steps.next_search(refit_cost(n_distinct, n_searched, n_threads))
        self.search_ = self._over(grid, *first_rows(n_searched), steps=steps)
        self._warn_of_few(n_distinct)
        return steps

    def _over(
        self, grid: list[dict[str, Any]], X: Any, weights: FloatArray | None, *, steps: Steps, n_later: int = 0
    ) -> LabelFreeSearchCV:
        """Return the search over a grid of the pipeline's parameters; so many fits of another come later."""
        sparse = sp.issparse(X)
        slab = OneClassSlabSVM(cache_size=self.cache_size, n_jobs=self.n_jobs)
        search = LabelFreeSearchCV(
            make_pipeline(StandardScaler(with_mean=not sparse), slab),
            grid,
            criterion=TightestAtRecall("filled" if sparse else "volume", self.recall),
            cv="leave-one-out",
            n_jobs=self.n_jobs,
            refit=False,
            random_state=self.random_state,
            error_score="raise",
            progress=lambda done, total, _: steps.fitted(done, total + n_later),
            widen="gamma",
        )
        search.fit(X, sample_weight=weights)
        steps.next_grid(len(search.cv_results_["params"]))
        search.set_params(progress=self.progress)
        return search

    def _grid(self, X: Any, weights: FloatArray) -> list[dict[str, list[Any]]]:
        """Return the grid for distinct rows of these weights; for sparse rows, one with the scaler and one without."""
        rejection = 1.0 - self.recall
        nu_upper = min(NU_UPPER, SHARE_ABOVE * rejection)
        rest = {
            "oneclassslabsvm__nu_lower": [share * rejection - nu_upper for share in SHARES_OF_REJECTION],
            "oneclassslabsvm__nu_upper": [nu_upper],
            EPSILON: list(EPSILONS),
        }
        gammas = [multiple / _n_varying(X) for multiple in GAMMA_MULTIPLES]
        grid: list[dict[str, list[Any]]] = [{GAMMA: gammas, **rest}]
        variance = feature_variance(X, weights) * X.shape[1] if sp.issparse(X) else 0.0
        if variance > 0:
            grid.append(
                {
                    "standardscaler": ["passthrough"],
                    GAMMA: [multiple / variance for multiple in GAMMA_MULTIPLES],
                    **rest,
                }
            )
        return grid

    @property
    def best_params_(self) -> dict[str, Any]:
        """The chosen parameters of the pipeline's steps."""
        if not hasattr(self, "search_"):
            raise AttributeError("AutoSlabSVM has no best_params_ before it is fitted.")
        return self.search_.best_params_

    @property
    def loo_decisions_(self) -> FloatArray:
        """The decision_function of each training row under the slab trained without it, shape (n_samples,)."""
        if not hasattr(self, "slab_"):
            raise AttributeError("AutoSlabSVM has no loo_decisions_ before it is fitted.")
        return self.slab_.loo_decisions_

    def summary(self) -> str:
        """Return what was searched, chosen and fitted, in a few lines for a person to read."""
        check_is_fitted(self)
        results, best = self.search_.cv_results_, self.search_.best_index_
        measured = ", ".join(
            f"{name.removeprefix('mean_').replace('_', ' ')} {results[name][best]:.3g}"
            for name in ("mean_recall", "mean_log_volume", "mean_acceptance")
            if name in results
        )
        tried = counted(len(results["params"]), "candidate")
        if self.first_search_ is not None:
            tried = f"{len(self.first_search_.cv_results_['params'])} candidates, and then {tried}, with more rows,"
        scaler = "features as they are" if self.pipeline_[0] == "passthrough" else "features standardised"
        return (
            f"AutoSlabSVM: a recall of {self.recall:g} asked for; {scaler}\n"
            f"  search           {tried} by {self.search_.criterion_!r}\n"
            f"  best candidate   {measured}\n"
            f"{self.slab_.summary()}"
        )

    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the distance of each row's score from the slab's centre, shape (n_samples,)."""
        check_is_fitted(self)
        scores: FloatArray = self.slab_.score_samples(self._scaled(self._checked(X, reset=False)))
        return scores

    def _scaled(self, X: Any) -> Any:
        """Return validated rows as the slab takes them; values that overflow become the largest of their type."""
        scaler = self.pipeline_[0]
        if scaler == "passthrough":
            return X
        if sp.issparse(X) and scaler.with_mean:
            X = X.toarray()
        with np.errstate(over="ignore", invalid="ignore"):
            rows = scaler.transform(X)
        values = rows.data if sp.issparse(rows) else rows
        np.clip(values, -np.finfo(values.dtype).max, np.finfo(values.dtype).max, out=values)
        return rows

    def _warn_of_few(self, n_distinct: int) -> None:
        """Warn where even a threshold below all leave-one-out scores is not expected to keep the recall.

        Of n + 1 rows in random order, the last has the lowest score with probability 1 / (n + 1).
        """
        most = n_distinct / (n_distinct + 1)
        if self.recall > most:
            warn(
                f"recall={self.recall:g} is more than {counted(n_distinct, 'distinct sample')} can promise: a new "
                f"one is expected to score below all of them with probability {1 - most:.2g}. Ask for a recall of "
                f"{most:.3g} at most, or give more samples.",
                RecallMissedWarning,
            )

    def _checked(self, X: Any, *, reset: bool) -> Any:
        return checked_rows(self, X, reset=reset, least=10)


def _n_varying(X: Any) -> int:
    """Return how many features are not constant, at least 1; refuse those that cannot be standardised."""
    low, high = (extreme.toarray() if sp.issparse(extreme) else extreme for extreme in (X.min(axis=0), X.max(axis=0)))
    spread = np.asarray(high, dtype=np.float64) / 2 - np.asarray(low, dtype=np.float64) / 2
    varying = spread > 0
    if varying.any() and not (SQUARED[0] < spread[varying].min() and spread.max() < SQUARED[1]):
        raise ValueError(
            f"Features vary by {2 * spread[varying].min():.3g} to {2 * np.minimum(spread.max(), 8e307):.3g}, of which "
            "the square is no number of float64, so that they cannot be standardised. Divide them by powers of ten."
        )
    return max(1, int(np.count_nonzero(varying)))
