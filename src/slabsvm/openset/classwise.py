"""Classes: their labels, the training rows, the fit and the calls of each one's model, and a margin that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from numbers import Real
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_consistent_length, column_or_1d

from slabsvm.conformal.detector import CalibrationWarning, ConformalDetector
from slabsvm.conformal.remoteness import far_rows, largest_answer
from slabsvm.detectors.answers import answer, explanation_of, refuse_other_polarity
from slabsvm.fitted.explanation import Explanation
from slabsvm.fitted.training import checked_weights, fit_with
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import Warned, gathered, silenced
from slabsvm.runtime.objects import NUMBERS, Array, Places, Rows, atomic
from slabsvm.runtime.sklearn_private import _check_method_params, _num_samples, _safe_indexing

# The unknown label that "auto" chooses.
UNKNOWN_WORD, UNKNOWN_NUMBER = "unknown", -1
INT64, UINT64 = np.iinfo(np.int64), np.iinfo(np.uint64)


def checked_labels(y: Any, X: Any) -> npt.NDArray[Any]:
    """Return the class of each row of X, (n_samples,), or refuse what names no classes."""
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    if len(y) == 0:
        raise ValueError("There are 0 samples; give some of each class.")
    assert_all_finite(y, input_name="y")
    if y.dtype.kind == "O" and not all(isinstance(label, str) for label in y):
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(
            f"Unknown label type: y is an array of objects of the types {', '.join(kinds)}. Give all classes as "
            "words, or all as whole numbers in an array of numbers."
        )
    check_classification_targets(y)
    return np.asarray(y)


def new_class(label: Any, classes: npt.NDArray[Any], unknown_label: Any) -> Any:
    """Return the label of a class to add to others, or refuse it."""
    if _are_words(classes) != isinstance(label, str):
        raise ValueError(f"The class {label!r} is of another type than the known classes, such as {classes[0]!r}.")
    if not isinstance(label, str | bool):
        label = _whole(label, "A class")
    if label in classes:
        raise ValueError(f"The class {label!r} is known already; remove({label!r}) comes first.")
    if label == unknown_label:
        raise ValueError(f"{label!r} is the unknown label and cannot be a class.")
    joined(classes, label, unknown_label)
    return label


def unknown_label_for(classes: npt.NDArray[Any], label: Any) -> Any:
    """Return the unknown label beside these classes, for the parameter of this name; refuse one that is a class."""
    words = _are_words(classes)
    if isinstance(label, str) and label == "auto":
        label = UNKNOWN_WORD if words else min(UNKNOWN_NUMBER, int(classes[0]) - 1)
    if isinstance(label, str) != words:
        kinds = ("words", "a number") if words else ("numbers", "a word")
        raise ValueError(f"The classes are {kinds[0]} and unknown_label={label!r} is {kinds[1]}; give both alike.")
    if not words:
        label = _whole(label, "unknown_label")
    joined(classes, label)
    if label in classes:
        raise ValueError(
            f"The unknown label {label!r} is one of the classes in y. Give another unknown_label, or leave the "
            "samples of unknown classes out of the training data."
        )
    return label


def joined(classes: npt.NDArray[Any], *labels: Any) -> npt.NDArray[Any]:
    """Return classes and labels in one array, True and False as 1 and 0 beside numbers; ValueError if no type does."""
    values = [*classes.tolist(), *labels]
    dtype: Any = object if classes.dtype == object else None
    if classes.dtype.kind in "biu" and min(values) >= 0 and INT64.max < max(values) <= UINT64.max:
        # Of these and smaller ones NumPy makes floats.
        dtype = np.uint64
    together = np.array(values, dtype=dtype)
    if together.dtype != classes.dtype and (together.dtype == object or together.tolist() != values):
        raise ValueError(
            f"No 64-bit number type holds the classes {listed(classes)} together with {listed(labels)}, and answers "
            "need both. Give another unknown_label, or the classes as words."
        )
    return together


def listed(labels: Any) -> str:
    """Return a few labels for a message."""
    shown = ", ".join(repr(label) for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels)[:5])
    return shown if len(labels) <= 5 else f"{shown}, ..."


def _are_words(classes: npt.NDArray[Any]) -> bool:
    return classes.dtype.kind in "US" or isinstance(classes[0], str)


def _whole(label: Any, what: str) -> int:
    """Return a label as a whole number, or refuse it: the classes are whole numbers, of any type."""
    is_whole = isinstance(label, Real) and float(label).is_integer()
    if not is_whole:
        raise ValueError(f"{what} is {label!r}, but the classes are whole numbers; give a whole number.")
    return int(label)


@dataclass(frozen=True, eq=False)
class ClassRows:
    """The training rows of one class."""

    X: Annotated[Any, Rows("rows", dtype=NUMBERS)]  # table of n rows
    weights: Annotated[FloatArray | None, Array("rows")]  # (n,), or None where all weigh alike
    # The rows that each fold holds out. A class that is too small to hold any out has no fold.
    held_out: Sequence[Annotated[IndexArray, Places("held_out", below="rows")]]

    def of(self, fold: int) -> IndexArray:
        """Return which rows a fold holds out; none, where other classes have more folds."""
        return self.held_out[fold] if fold < len(self.held_out) else np.empty(0, dtype=np.intp)

    def besides(self, fold: int) -> IndexArray:
        """Return which rows a fold learns."""
        return np.setdiff1d(np.arange(_num_samples(self.X)), self.of(fold))


@dataclass(frozen=True, eq=False)
class Stack:
    """Rows of several classes, one class after the other."""

    X: Any  # table of n rows
    place: IndexArray  # (n,): the place of each row's class
    counts: FloatArray  # (n,): how many rows each stands for
    weights: FloatArray | None  # the same, or None where all weigh alike


def stacked(rows: Sequence[ClassRows], chosen: Sequence[IndexArray]) -> Stack:
    """Return the chosen rows of each class in one table."""
    tables = [_safe_indexing(one.X, own) for one, own in zip(rows, chosen, strict=True) if len(own)]
    place = np.repeat(np.arange(len(rows)), [len(own) for own in chosen])
    counts = np.concatenate(
        [np.ones(len(own)) if one.weights is None else one.weights[own] for one, own in zip(rows, chosen, strict=True)]
    )
    alike = all(one.weights is None for one in rows)
    X: Any
    if any(sp.issparse(table) for table in tables):
        X = sp.csr_array(sp.vstack([sp.csr_array(table) for table in tables]))
    elif hasattr(tables[0], "columns"):
        # A frame comes with its library: pandas or polars, whose tables are put together alike.
        frames: Any = import_module(type(tables[0]).__module__.partition(".")[0])
        X = frames.concat(tables)
    else:
        X = np.concatenate([np.asarray(table) for table in tables])
    return Stack(X, place, counts, None if alike else counts)


def without_weightless(
    X: Any, y: npt.NDArray[Any], fit_params: dict[str, Any]
) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
    """Return the samples that have a weight, their labels, and their share of the parameters of fit."""
    weight = checked_weights(fit_params.get("sample_weight"), X)
    if weight is None:
        return X, y, fit_params
    kept = np.flatnonzero(weight)
    given = _check_method_params(X, {**fit_params, "sample_weight": weight}, indices=kept)
    return _safe_indexing(X, kept), y[kept], given


# A class with fewer samples has none to hold out.
FEW = 3


class NormalisedMargin(OutlierMixin, BaseEstimator):
    """A detector whose decision_function is divided by its largest value at a training sample.

    The margin is 0 on the boundary and 1 at the training sample that is deepest inside. It compares models, and
    guarantees no rate. `depth_` is the divisor, 1 where no training sample is inside; `far_margin_` the largest margin
    among a few rows infinitely far away, NaN where there are none.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @atomic
    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Fit the detector, with these parameters of its fit; give no sample of weight 0, which would set the depth."""
        self.estimator_ = fit_with(clone(self.estimator), X, fit_params)
        values = answer(self.estimator_, X).values
        refuse_other_polarity(self.estimator_, X, values)
        depth = float(values.max())
        self.depth_ = depth if depth > 0 else 1.0
        self.far_margin_ = largest_answer(self.decision_function, far_rows(X))
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return the normalised margin of each row, shape (n_samples,): >= 0 for rows that are accepted."""
        values = answer(self.estimator_, X).values
        if np.isnan(values).any():
            raise ValueError("A score is NaN: the detector cannot score these samples.")
        return values / self.depth_

    def _explanation(self, X: Any) -> Explanation:
        found = explanation_of(self.estimator_, X)
        return found.carried_over(found.decisions / self.depth_, found.reference / self.depth_)


def fitted_to_class(model: Any, X: Any, label: Any, parameters: Mapping[str, Any]) -> tuple[Any, list[Warned]]:
    """Fit the model of one class, with these parameters of the estimator's fit, in a joblib worker.

    A class of one or two samples has none to hold out: they are learned, and calibrate too, as no p-value is below 1/3.
    A single sample is repeated, which changes no model of this package. Also returns the warnings of the fit.
    """
    count = _num_samples(X)
    try:
        # Of calibrations, the classifier warns once for all classes.
        with gathered() as warned, silenced(CalibrationWarning):
            if count < FEW:
                rows = np.arange(FEW - 1) % count
                X, parameters = _safe_indexing(X, rows), _check_method_params(X, parameters, indices=rows)
                if isinstance(model, ConformalDetector):
                    fitted = fit_with(clone(model.estimator), X, parameters)
                    model.set_params(estimator=fitted, method="prefit")
            return model.fit(X, **parameters), warned
    except ValueError as error:
        raise ValueError(f"Class {label!r}, of n_samples = {count}, cannot be learned: {error}") from error
