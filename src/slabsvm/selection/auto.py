"""The one-call default: a slab whose scaling and parameters are chosen from the positives alone."""

from __future__ import annotations

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

from slabsvm.samples import distinct_rows
from slabsvm.selection.criteria import TightestAtRecall
from slabsvm.selection.search import LabelFreeSearchCV
from slabsvm.svm import OneClassSlabSVM

FloatArray = npt.NDArray[np.float64]

# gamma of the standardised features, as multiples of 1 / number of those that vary, which is "scale" for them.
GAMMA_MULTIPLES = tuple(2.0**power for power in range(-2, 5))
# nu_lower as shares of what may be rejected; nu_upper as a share of it, or less.
SHARES_OF_REJECTION = (0.5, 1.0)
SHARE_ABOVE = 0.1
NU_UPPER = 0.01
EPSILONS = (2 / 3, 0.9)


class AutoSlabSVM(OutlierMixin, BaseEstimator):
    """One-class slab SVM (RBF) that scales the features and chooses its own parameters, with positives alone.

    A pipeline of `StandardScaler` and `OneClassSlabSVM`, searched by `LabelFreeSearchCV` with leave-one-out scores: of
    the candidates that keep the recall, the one that accepts the smallest volume; of sparse rows, which have none, the
    one that accepts the fewest strangers made of their features' marginals. Five folds choose worse (by .04 of Matthews
    correlation on the digits): of a hundred samples they leave twenty to tell candidates apart.

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
            When no candidate keeps the recall.
        """
        del y
        X = self._checked(X, reset=True)
        distinct = distinct_rows(X, np.ones(X.shape[0]))
        searched = X
        if self.max_search_samples is not None and len(distinct.representatives) > self.max_search_samples:
            # The order of distinct rows is as good as random, and depends on nothing but their content.
            kept = distinct.group < self.max_search_samples
            searched = X[kept]
        scaler = StandardScaler(with_mean=not sp.issparse(X))
        pipeline = make_pipeline(scaler, OneClassSlabSVM(n_jobs=self.n_jobs))
        rejection = 1.0 - self.recall
        grid = {
            "oneclassslabsvm__gamma": [multiple / _n_varying(X) for multiple in GAMMA_MULTIPLES],
            "oneclassslabsvm__nu_lower": [share * rejection for share in SHARES_OF_REJECTION],
            "oneclassslabsvm__nu_upper": [min(NU_UPPER, SHARE_ABOVE * rejection)],
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
    """Return how many features are not constant, at least 1."""
    low, high = (extreme.toarray() if sp.issparse(extreme) else extreme for extreme in (X.min(axis=0), X.max(axis=0)))
    return max(1, int(np.count_nonzero(high > low)))
