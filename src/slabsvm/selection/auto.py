"""The one-call default: a slab whose scaling and parameters are chosen from the positives alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.distinct import distinct_rows
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.runtime.caller import callers_level
from slabsvm.selection.criteria import RecallMissedWarning, TightestAtRecall
from slabsvm.selection.search import LabelFreeSearchCV

FloatArray = npt.NDArray[np.float64]

# gamma of the standardised features, as multiples of 1 / number of those that vary, which is "scale" for them.
GAMMA_MULTIPLES = tuple(2.0**power for power in range(-2, 5))
# What a candidate rejects, as shares of what may be; of this, nu_upper is a share, or less, and nu_lower the rest.
SHARES_OF_REJECTION = (0.5, 1.0)
SHARE_ABOVE = 0.1
NU_UPPER = 0.01
EPSILONS = (2 / 3, 0.9)
# What half the range of a feature may be for its square to be a number of float64, sums of a million of them too.
SQUARED = (1e-150, 1e150)


class AutoSlabSVM(OutlierMixin, BaseEstimator):
    """One-class slab SVM (RBF) that scales the features and chooses its own parameters, with positives alone.

    A pipeline of `StandardScaler` and `OneClassSlabSVM`, searched by `LabelFreeSearchCV` with leave-one-out scores in
    place of folds: of the candidates that keep the recall, the one that accepts the smallest volume; of sparse rows,
    which have none, the one that accepts the fewest strangers made of their features' marginals. Leave-one-out planes
    give nearly every candidate the recall that it is asked for, so that it is the volume that chooses.

    Of few samples the recall that comes of it is a little less than was asked for, and of features with few values
    volume means little: docs/choosing-parameters.md says by how much, and what to search by instead.

    Parameters
    ----------
    recall : float in (0, 1), default=0.9
        The share of new positives that must be accepted. A smaller one rejects more of what is foreign.
    max_search_samples : int or None, default=2000
        Of more distinct rows, so many are searched with, and all are learned in the end; None for all.
    n_jobs : int or None, default=None
        Threads of the search; None is 1 unless in a `joblib.parallel_config` context, -1 all.
    random_state : int, RandomState or None, default=0
        What strangers are drawn with.
    progress : callable or None, default=None
        As for `LabelFreeSearchCV`: called with fits done, fits in all, and seconds left.

    Attributes
    ----------
    search_ : LabelFreeSearchCV
        With cv_results_, best_params_ and so on.
    pipeline_ : Pipeline
        The scaler and the slab, fitted on all rows.
    slab_ : OneClassSlabSVM
        The last step of it: summary(), loo_scores_ and so on.
    offset_ : float
        decision_function = score_samples - offset_.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "recall": [Interval(Real, 0.0, 1.0, closed="neither")],
        "max_search_samples": [Interval(Integral, 10, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "progress": [callable, None],
    }

    def __init__(
        self,
        *,
        recall: float = 0.9,
        max_search_samples: int | None = 2000,
        n_jobs: int | None = None,
        random_state: Any = 0,
        progress: Callable[[int, int, float], object] | None = None,
    ) -> None:
        self.recall = recall
        self.max_search_samples = max_search_samples
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the parameters, and learn from all rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Positives alone, unscaled.
        y : ignored

        Raises
        ------
        ValueError
            For parameters, shapes or values that make no sense; the text says what to do.

        Warns
        -----
        slabsvm.selection.criteria.RecallMissedWarning
            When no candidate keeps the recall, or when it is more than so few samples can promise.
        """
        del y
        X = self._checked(X, reset=True)
        n_varying = _n_varying(X)
        distinct = distinct_rows(X, np.ones(X.shape[0]))
        searched = X
        if self.max_search_samples is not None and len(distinct.representatives) > self.max_search_samples:
            # The order of distinct rows is as good as random, and depends on nothing but their content.
            kept = distinct.group < self.max_search_samples
            searched = X[kept]
        scaler = StandardScaler(with_mean=not sp.issparse(X))
        pipeline = make_pipeline(scaler, OneClassSlabSVM(n_jobs=self.n_jobs))
        rejection = 1.0 - self.recall
        nu_upper = min(NU_UPPER, SHARE_ABOVE * rejection)
        grid = {
            "oneclassslabsvm__gamma": [multiple / n_varying for multiple in GAMMA_MULTIPLES],
            "oneclassslabsvm__nu_lower": [share * rejection - nu_upper for share in SHARES_OF_REJECTION],
            "oneclassslabsvm__nu_upper": [nu_upper],
            "oneclassslabsvm__epsilon": list(EPSILONS),
        }
        kind = "marginals" if sp.issparse(X) else "volume"
        self.search_ = LabelFreeSearchCV(
            pipeline,
            grid,
            criterion=TightestAtRecall(kind, self.recall),
            cv="leave-one-out",
            n_jobs=self.n_jobs,
            refit=False,
            random_state=self.random_state,
            error_score="raise",
            progress=self.progress,
        ).fit(searched)
        self._warn_of_few(len(distinct.representatives))
        self.pipeline_: Pipeline = pipeline.set_params(**self.search_.best_params_).fit(X)
        self.slab_: OneClassSlabSVM = self.pipeline_[-1]
        self.offset_ = self.slab_.offset_
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the distance of each row's score from the slab's centre, shape (n_samples,)."""
        check_is_fitted(self)
        scores: FloatArray = self.pipeline_.score_samples(self._checked(X, reset=False))
        return scores

    def decision_function(self, X: Any) -> FloatArray:
        """Return score_samples(X) - offset_, shape (n_samples,): >= 0 for rows that are accepted."""
        decision: FloatArray = self.score_samples(X) - self.offset_
        return decision

    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """Return +1 for each row that is accepted and -1 for each that is not, shape (n_samples,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _warn_of_few(self, n_distinct: int) -> None:
        """Warn where even a threshold below all leave-one-out scores is not expected to keep the recall.

        Of n + 1 rows in random order the last one scores lowest with probability 1 / (n + 1).
        """
        most = n_distinct / (n_distinct + 1)
        if self.recall > most:
            warnings.warn(
                f"recall={self.recall:g} is more than {n_distinct} distinct samples can promise: a new one is expected "
                f"to score below all of them with probability {1 - most:.2g}. Ask for a recall of {most:.3g} at most, "
                "or give more samples.",
                RecallMissedWarning,
                stacklevel=callers_level(),
            )

    def _checked(self, X: Any, *, reset: bool) -> Any:
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=10 if reset else 1,
        )
        return sp.csr_array(X) if sp.issparse(X) else X


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
