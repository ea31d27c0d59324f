"""A kernel model of the last rows: good rows arrive, old ones are forgotten, and each fit goes on from the last one."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.answers import explanation_of, predict_learned
from slabsvm.detectors.base import checked_rows, parameters
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.detectors.wrapping import Wrapping
from slabsvm.fitted.explanation import Explanation
from slabsvm.fitted.model import Start
from slabsvm.fitted.training import checked_weights
from slabsvm.runtime.arrays import BoolArray, FloatArray, IntArray
from slabsvm.runtime.caller import counted
from slabsvm.runtime.objects import Array, Rows, atomic
from slabsvm.runtime.sklearn_private import Interval, _fit_context, validate_parameters

# What a detector learns from at least.
FEWEST = 2


@dataclass(frozen=True, eq=False)
class Window:
    """The rows that are kept, in order of arrival."""

    X: Annotated[Any, Rows("rows")]  # (n, d) dense array or CSR matrix
    weights: Annotated[FloatArray, Array("rows", least=0)]
    # What number each row has among all that were given, from 0, in ascending order
    numbers: Annotated[IntArray, Array("rows", dtype=("i8",), least=0, order="strictly ascending")]

    def __len__(self) -> int:
        return len(self.numbers)

    def joined(self, new: Window) -> Window:
        """Return these rows and new ones behind them."""
        tables = [self.X, new.X]
        X = sp.vstack(tables, format="csr") if any(map(sp.issparse, tables)) else np.concatenate(tables)
        return Window(X, np.append(self.weights, new.weights), np.append(self.numbers, new.numbers))

    def last(self, count: int | None) -> Window:
        """Return the last rows, at most so many; all for None."""
        return self if count is None or count >= len(self) else self.only(np.arange(len(self)) >= len(self) - count)

    def only(self, kept: BoolArray) -> Window:
        """Return some of the rows, given by a mask."""
        return Window(self.X[kept], self.weights[kept], self.numbers[kept])


@parameters
class WindowedDetector(OutlierMixin, Wrapping):
    """A detector that has learned a window of rows: it adds new rows and forgets old ones without starting over.

    Each update is a fit of all kept rows that starts from the last solution and ends at the same certificate as a fit
    from nothing, so the objectives agree to within `tol`. The last bits depend on the history. `refit()` equals the
    estimator's own fit of the kept rows bit for bit, in any order of arrival.

    Parameters
    ----------
    estimator : OneClassSlabSVM, OneClassSVM or SVDD, default=None
        The estimator to clone. None is `OneClassSlabSVM()`. Its kernel may not be "precomputed".
    n_rows : int, default=None
        The largest number of rows to keep. The oldest are forgotten first. None forgets no row by itself.

    Attributes
    ----------
    estimator_ : the estimator, fitted to the kept rows
        A gamma that is computed from the rows ("neighbours", "scale", "auto") stays what `fit` or `refit` found.
    numbers_ : (n_kept,) array of int64
        The numbers of the kept rows, in order of arrival; the first row given to `fit` has the number 0. `forget` takes
        them. They also number the rows of `estimator_.support_` and `estimator_.loo_decisions_`.
    n_seen_ : int
        The number of rows given since `fit`.
    offset_ : float
        ``decision_function = score_samples - offset_``.
    n_features_in_, feature_names_in_ : int, (n_features,) array of str
        The names only when X has names that are all strings.

    Notes
    -----
    The kept rows take 8 bytes a value (4 in float32), and a weight and a number each, besides the model's own copy of
    its support vectors; the last solution takes some 60 bytes a row. Groups are not supported. A model that was read
    from a file continues from its rows, at first from nothing; one saved with training=False can only predict.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import WindowedDetector
    >>> rows = np.random.default_rng(0).normal(size=(300, 2))
    >>> window = WindowedDetector(n_rows=200).fit(rows[:200])
    >>> window.partial_fit(rows[200:]).numbers_[:3]
    array([100, 101, 102])
    >>> len(window.forget([101, 102]).numbers_)
    198
    """

    estimator: Any = field(default=None, kw_only=False)
    n_rows: int | None = None

    estimator_: SupportVectorDetector = field(init=False)
    offset_: float = field(init=False)
    n_seen_: int = field(init=False)
    # None in a model that was saved without its training data.
    _window: Window | None = field(init=False)
    _start: Start | None = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [SupportVectorDetector, None],
        "n_rows": [Interval(Integral, FEWEST, None, closed="left"), None],
    }

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Start again from positive samples: learn the last `n_rows` of them as the estimator does, gamma included.

        Raises ValueError and warns as the estimator's `fit`; after any exception the model is what it was.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            In order of arrival.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of 2 means what two identical samples mean. It stays with its row.
        """
        return self._begin(X, sample_weight)

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add positive samples, and forget the oldest beyond `n_rows`; the first call is `fit`.

        Raises ValueError for other features than before, for what the estimator's `fit` refuses, and for a model that
        was saved without its training rows. It warns as that `fit`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            New rows, in order of arrival. A row that is given again is one more of its kind.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            In the unit of the weights before: a row without has the weight 1.
        """
        if not hasattr(self, "estimator_"):
            return self._begin(X, sample_weight)
        window = self._kept()
        new = self._given(X, sample_weight, first=self.n_seen_, reset=False)
        return self._learn(window.joined(new).last(self.n_rows), n_seen=self.n_seen_ + len(new), goes_on=True)

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def forget(self, numbers: Any) -> Self:
        """Remove rows, given by their `numbers_` (an int, or array-like of int), as if they had never been given.

        Raises ValueError for numbers of rows that are not kept, or where fewer than two rows would be left.
        """
        window = self._kept()
        leaves = np.isin(window.numbers, _known_numbers(numbers, window))
        if not leaves.any():
            return self
        if len(window) - leaves.sum() < FEWEST:
            raise ValueError(
                f"{int(len(window) - leaves.sum())} of {counted(len(window), 'row')} would be left, and a model needs "
                f"at least {FEWEST}. Add new rows first (partial_fit), or start again (fit)."
            )
        return self._learn(window.only(~leaves), n_seen=self.n_seen_, goes_on=True)

    @atomic
    @_fit_context(prefer_skip_nested_validation=False)
    def refit(self) -> Self:
        """Learn the kept rows from nothing, gamma included: bit for bit the estimator's own fit of them."""
        return self._learn(self._kept(), n_seen=self.n_seen_)

    numbers_ = property(lambda self: self._kept().numbers, doc="Which rows are kept, (n_kept,), in order of arrival.")
    rows_ = property(lambda self: self._kept().X, doc="The rows that are kept, (n_kept, n_features), likewise.")

    def score_samples(self, X: Any) -> FloatArray:
        """Return how normal each row is, shape (n_samples,): the larger the more normal."""
        check_is_fitted(self)
        return self.estimator_.score_samples(self._checked(X, reset=False))

    def decision_function(self, X: Any) -> FloatArray:
        """Return ``score_samples(X) - offset_``, shape (n_samples,): >= 0 for rows that are accepted."""
        check_is_fitted(self)
        return self.estimator_.decision_function(self._checked(X, reset=False))

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> npt.NDArray[np.intp]:
        """Start again from X; return -1 for each of its rows that is an outlier among the others, +1 for the rest.

        As of the estimator's `fit_predict`; rows that are not kept get the answer of `predict`. Shape (n_samples,).
        """
        self.fit(X, y, **kwargs)
        return self._predict_learned(X)

    def summary(self) -> str:
        """Return which rows are kept, and the summary of their model."""
        check_is_fitted(self)
        kept = f"{self.estimator_.n_samples_fit_:,} of {counted(self.n_seen_, 'row')}"
        return f"WindowedDetector: {kept} kept\n{self.estimator_.summary()}"

    def _explanation(self, X: Any) -> Explanation:
        check_is_fitted(self)
        return explanation_of(self.estimator_, self._checked(X, reset=False))

    def _predict_learned(self, X: Any) -> npt.NDArray[np.intp]:
        answers, kept = self.predict(X), self._kept()
        answers[kept.numbers] = predict_learned(self.estimator_, kept.X)
        return answers

    def _checked(self, X: Any, *, reset: bool) -> Any:
        return checked_rows(self, X, reset=reset, least=FEWEST)

    def _given(self, X: Any, sample_weight: Any, *, first: int, reset: bool) -> Window:
        """Return rows that were given, of which the first has this number."""
        if self._detector.kernel == "precomputed":
            raise ValueError(
                "A window needs rows, and kernel='precomputed' has none. Pass the kernel as a function, or use a "
                "named kernel."
            )
        X = self._checked(X, reset=reset)
        weights = checked_weights(sample_weight, X)
        weights = np.ones(X.shape[0]) if weights is None else weights
        return Window(X, weights, np.arange(first, first + X.shape[0], dtype=np.int64))

    def _kept(self) -> Window:
        check_is_fitted(self)
        if self._window is None:
            raise ValueError(
                "This WindowedDetector was saved with training=False, without its rows. It can predict, but it "
                "cannot add or forget rows. Save it with training=True, or start again (fit)."
            )
        return self._window

    def _begin(self, X: Any, sample_weight: Any) -> Self:
        given = self._given(X, sample_weight, first=0, reset=True)
        return self._learn(given.last(self.n_rows), n_seen=len(given))

    def _learn(self, window: Window, *, n_seen: int, goes_on: bool = False) -> Self:
        """Fit the estimator to a window's rows, from the last solution and at its gamma if it goes on."""
        model: SupportVectorDetector = clone(self._detector)
        if goes_on and isinstance(model.gamma, str) and hasattr(self.estimator_, "gamma_"):
            model.gamma = self.estimator_.gamma_
        validate_parameters(model)
        start = model.fit_training(
            model.training(window.X, window.weights), start=self._start if goes_on else None
        ).start
        self._start = start.without_gram if start else None
        self.estimator_, self._window, self.n_seen_ = model, window, n_seen
        self.offset_ = model.offset_
        return self


def _known_numbers(numbers: Any, window: Window) -> npt.NDArray[np.integer[Any]]:
    """Return the numbers of rows to forget, (n,), or refuse them."""
    asked = np.atleast_1d(np.asarray(numbers))
    if asked.ndim != 1 or (asked.size and not np.issubdtype(asked.dtype, np.integer)):
        raise ValueError(
            f"forget takes rows by their numbers_, as a list of whole numbers; got the type {asked.dtype} and the "
            f"shape {asked.shape}. For a mask give window.numbers_[mask]."
        )
    unknown = asked[~np.isin(asked, window.numbers)]
    if len(unknown):
        raise ValueError(
            f"There is no row with the number {unknown[0]}: it was never added, or is already forgotten. numbers_ "
            f"lists the {counted(len(window), 'row')} that are kept, from {window.numbers[0]} to {window.numbers[-1]}."
        )
    return asked
