"""Answers of any fitted detector, pipeline or search: labels, scores, p-values, and reasons by feature.

Larger scores are more normal here and in scikit-learn, and less normal in some libraries: which way they run is
checked here, too. `Wrapping` is what detectors that wrap another one have in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, is_classifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import framed, reading
from slabsvm.detectors.base import Detector
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.fitted.explanation import Explanation
from slabsvm.runtime.arrays import FloatArray


@dataclass(frozen=True)
class Answer:
    """How a detector answers rows."""

    values: FloatArray  # (n,): how normal it holds each to be, the larger the more
    accepted: npt.NDArray[np.bool_]  # (n,)


def answer(detector: Any, X: Any) -> Answer:
    """Return how a detector answers rows: by decision_function, or else by predict and, if it has it, score_samples."""
    if hasattr(detector, "decision_function"):
        values = _as_values(detector.decision_function(X), detector)
        return Answer(values, values >= 0)
    accepted = np.asarray(detector.predict(X)) == 1
    if hasattr(detector, "score_samples"):
        return Answer(_as_values(detector.score_samples(X), detector), accepted)
    return Answer(accepted.astype(np.float64), accepted)


def left_out_decisions(detector: Any, *, needed_by: str, remedy: str) -> FloatArray:
    """Return the decision_function of each training row, (n_samples,), under the fitted detector without it; or
    ValueError.
    """
    final = detector[-1] if isinstance(detector, Pipeline) else detector
    if not isinstance(final, Detector) or not hasattr(final, "calibration_scores_"):
        raise ValueError(
            f"{needed_by} needs the leave-one-out scores of this package's detectors fitted with "
            f"calibration='auto'; {type(final).__name__} has none here. {remedy}"
        )
    return final.calibration_decisions_


def _as_values(values: Any, detector: Any) -> FloatArray:
    numbers: FloatArray = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise ValueError(
            f"{type(detector).__name__} returns an array of shape {numbers.shape}, but a detector returns one number "
            "for each row. Use a one-class detector."
        )
    return numbers


def refuse_classifier(estimator: Any, taker: Any, remedy: str = "Give one, such as OneClassSlabSVM().") -> None:
    """Raise ValueError for a classifier, which learns from several classes, where taker takes a detector."""
    if is_classifier(estimator):
        raise ValueError(
            f"{type(taker).__name__} needs a detector, which learns from one class alone, and "
            f"{type(estimator).__name__} is a classifier. {remedy}"
        )


def refuse_other_polarity(detector: Any, X: Any, values: npt.NDArray[np.float64]) -> None:
    """Raise ValueError where larger values, (n_samples,), of a fitted detector are less normal, by its predictions."""
    if isinstance(detector, Detector) or not hasattr(detector, "predict"):
        return
    name, answers = type(detector).__name__, np.asarray(detector.predict(X))
    if answers.shape != values.shape:
        return
    remedy = (
        "Wrap it in a class whose decision_function is minus this one's and whose predict gives +1 for rows that are "
        "accepted and -1 for the others, as scikit-learn's detectors do."
    )
    # The predict of a mixture names a component.
    names_components = hasattr(detector, "score_samples") and not hasattr(detector, "decision_function")
    if np.isin(answers, (0, 1)).all() and (answers == 0).any() and not names_components:
        raise ValueError(
            f"{name}.predict returns 0 and 1, as in libraries where 1 is an outlier and a larger score is less normal "
            f"(PyOD). Here larger is more normal, so every answer would be inverted. {remedy}"
        )
    high, low = values[answers == -1], values[answers == 1]
    if len(high) and len(low) and high.min() >= low.max() and high.max() > low.min():
        raise ValueError(
            f"{name} gives rejected rows larger scores than accepted rows, so its scores run the other way: larger "
            f"must be more normal. {remedy}"
        )


def unwrapped(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the steps before the detector at the end of pipelines and fitted searches, by their names, and it."""
    if isinstance(model, Pipeline):
        before, final = unwrapped(model[-1])
        own = [(name, step) for name, step in model.steps[:-1] if step not in (None, "passthrough")]
        return [*own, *before], final
    return unwrapped(model.best_estimator_) if hasattr(model, "best_estimator_") else ([], model)


def final_detector(model: Any) -> Any:
    """Return the detector at the end of pipelines and fitted searches: the model itself if it is neither."""
    return unwrapped(model)[1]


def detector_and_rows(detector: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the detector at the end of pipelines and searches, and rows as it receives them."""
    before, final = unwrapped(detector)
    if X is None or not before:
        return final, X
    # What overflows float64 is as far out as that goes.
    with np.errstate(over="ignore", invalid="ignore"):
        rows = taken_by(before, X)
    values = rows.data if sp.issparse(rows) else rows
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and np.isinf(values).any():
        np.clip(values, -np.finfo(values.dtype).max, np.finfo(values.dtype).max, out=values)
    return final, rows


def as_taken(model: Any, X: Any) -> Any:
    """Return rows as the detector at the end of fitted pipelines and searches takes them."""
    return taken_by(unwrapped(model)[0], X)


def taken_by(steps: Iterable[tuple[str, Any]], X: Any) -> Any:
    """Return rows as what comes behind some steps takes them."""
    for _, step in steps:
        X = step.transform(X)
    return X


def explain(model: Any, X: Any) -> Any:
    """Return what each feature adds to the decision of each row, shape (n_samples, n_features).

    That is `model.explain(X)`, also behind steps that take each feature by itself, such as a scaler; behind a
    `TableEncoder` shares are those of the table's columns.

    Parameters
    ----------
    model : fitted detector of this package, or a pipeline that ends in one, or a search for either
    X : array-like, frame or sparse matrix of shape (n_samples, n_features)

    Returns
    -------
    shares : (n_samples, n_features) array of float64, or frame
        Rows add up to the decision_function. A negative share pushes the row out. Where X is a frame it is one, too,
        with the names of the columns; of a pipeline that begins with a `TableEncoder` those that the encoder takes.

    Raises
    ------
    ValueError
        For a step that mixes features, a kernel that does not know them one by one, and detectors of other libraries.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from slabsvm import OneClassSlabSVM, explain
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = make_pipeline(StandardScaler(), OneClassSlabSVM()).fit(X)
    >>> explain(model, [[0.0, 7.0, 0.0]]).argmin(axis=1)
    array([1])
    """
    shares, names = shares_and_names(model, X)
    if not hasattr(X, "columns"):
        return shares
    names = [str(name) for name in X.columns] if names is None else names
    return framed(shares, X, names, indexed=True) if len(names) == shares.shape[1] else shares


def p_values(model: Any, X: Any) -> FloatArray:
    """Return the p-value of each row, shape (n_samples,): about a share p of new positives has a p-value of at most p.

    That is the method of that name of the detector at the end of pipelines and searches, such as `AutoDetector` and
    `ConformalDetector`, which promises it. Of others it is the share of the rows that set the threshold which are no
    more normal, where the new row counts as one more: (1 + their number) / (1 + n). Rows count as they do for the
    threshold: whole-number weights are counts of rows, rows of other weights are worth (sum w)^2 / sum w^2 rows, and of
    groups, which all count alike, n is the number.

    Parameters
    ----------
    model : fitted detector of this package, or a pipeline that ends in one, or a search for either
    X : array-like, frame or sparse matrix of shape (n_samples, n_features)

    Raises
    ------
    ValueError
        For a detector that keeps no scores of the rows that it learned, as with calibration="training".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from slabsvm import OneClassSVM, p_values
    >>> X = np.random.default_rng(0).normal(size=(199, 2))
    >>> p_values(make_pipeline(StandardScaler(), OneClassSVM()).fit(X), [[9.0, 9.0]])
    array([0.005])
    """
    check_is_fitted(model)
    final, rows = unwrapped(model)[1], as_taken(model, X)
    if hasattr(final, "p_values"):
        return np.asarray(final.p_values(rows))
    if (learned := getattr(final, "calibration_decisions_", None)) is None:
        raise ValueError(
            f"This {type(final).__name__} has no scores of rows that it has not learned, so it has no p-values. Put it "
            "into a ConformalDetector, or fit it with calibration='auto' or 'held-out'."
        )
    found: FloatArray = final.model_.p_values(learned, final.decision_function(rows))
    return found


def shares_and_names(model: Any, X: Any) -> tuple[FloatArray, list[str] | None]:
    """Return what each feature adds to each row's decision, (n, d), and the names of a table's columns where a step
    reads one.
    """
    final, rows, encoder, unseen = _last_step(model, X, asked="explain")
    shares = np.asarray(final.explain(rows))
    if encoder is None:
        return shares, None
    return np.asarray(encoder.by_column(shares, unseen)), [column.name for column in encoder.columns_]


def explanation_of(model: Any, X: Any) -> Explanation:
    """Return the explanation of rows by a fitted model, a pipeline or a search."""
    final, rows, encoder, unseen = _last_step(model, X, asked="_explanation")
    found: Explanation = final._explanation(rows)
    if encoder is None:
        return found
    typical = encoder.by_column(found.typical[None], np.zeros((1, unseen.shape[1]), dtype=bool))[0]
    return Explanation(typical, found.reference, found.decisions, encoder.by_column(found.deviations, unseen))


def _last_step(model: Any, X: Any, asked: str) -> tuple[Any, Any, Any, Any]:
    """Return the last detector, rows as it takes them, the step that reads a table, and which cells it had not seen.

    Without a table both are None. Raises ValueError for a step that mixes features, and a detector without the method.
    """
    check_is_fitted(model)
    before, final = unwrapped(model)
    encoder = unseen = None
    for place, (_, step) in enumerate(before):
        if hasattr(step, "by_column"):
            encoder, unseen = step, step.encoded(taken_by(before[:place], X)).strange
            before = before[:place] + before[place + 1 :]
            break
    refuse_mixers(before)
    if not hasattr(final, asked):
        raise ValueError(
            f"{type(final).__name__} is no detector of this package, so what each feature adds to a decision is "
            "unknown. Use AutoDetector or another detector of slabsvm."
        )
    return final, as_taken(model, X), encoder, unseen


def refuse_mixers(steps: Iterable[tuple[str, Any]]) -> None:
    """Raise ValueError where one of a pipeline's steps makes other features of those given."""
    for name, step in steps:
        # These give features the names of those that they are given, but theirs depend on the whole row: its length.
        if not isinstance(step, OneToOneFeatureMixin) or isinstance(step, (Normalizer, TfidfTransformer)):
            raise ValueError(
                f"The pipeline's step {name!r} ({type(step).__name__}) mixes features, so the share of each original "
                "feature is unknown. Explain the features that the step returns: "
                "pipeline[-1].explain(pipeline[:-1].transform(X))."
            )


class Wrapping(BaseEstimator):
    """An estimator whose parameter `estimator` is a detector, or None for `OneClassSlabSVM()`."""

    estimator: Any
    _explanation: Any
    decision_function = Detector.decision_function
    predict = Detector.predict

    @property
    def _detector(self) -> Any:
        return OneClassSlabSVM() if self.estimator is None else self.estimator

    def explain(self, X: Any) -> FloatArray:
        """Return what each feature adds to the decision of each row, shape (n_samples, n_features).

        The shares of a row add up to its decision_function. A negative share pushes the row out. They are the
        estimator's shares, rescaled to p-values. Raises ValueError for an estimator that `slabsvm.explain` refuses, and
        of an `OpenSetClassifier`, whose `models_` explain.
        """
        check_is_fitted(self)
        return np.ascontiguousarray(self._shares(self._table(X, reset=False)))

    def _shares(self, X: Any) -> FloatArray:
        return np.asarray(self._explanation(X).shares)

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Return a table whose rows can be indexed; its values are for the detector to check."""
        with reading(X):
            X = indexable(X)[0]
            if not reset and np.ndim(X) == 1:
                raise ValueError("X must be a table of two dimensions. Reshape your data: X.reshape(1, -1) is one row.")
            validate_data(self, X=X, reset=reset, skip_check_array=True)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._detector).input_tags
        return tags
