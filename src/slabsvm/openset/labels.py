"""Class labels, words or whole numbers, and the label of what is of no known class."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_consistent_length, column_or_1d

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
    """Return classes and further labels in one array; True and False become 1 and 0 beside numbers.

    Raises ValueError for whole numbers that no type holds together.
    """
    values = [*classes.tolist(), *labels]
    dtype: Any = object if classes.dtype == object else None
    if classes.dtype.kind in "biu" and min(values) >= 0 and INT64.max < max(values) <= UINT64.max:
        # Of these and smaller ones NumPy makes floats.
        dtype = np.uint64
    together = np.array(values, dtype=dtype)
    if together.dtype != classes.dtype and (together.dtype == object or together.tolist() != values):
        raise ValueError(
            f"No type of 64-bit numbers holds the classes {listed(classes)} together with {listed(labels)}, as answers "
            "must. Give another unknown_label, or the classes as words."
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
