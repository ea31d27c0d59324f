"""Labels of classes: what may be one, and the label of rows of no class."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_consistent_length, column_or_1d


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


def unknown_label_for(classes: npt.NDArray[Any], label: Any) -> Any:
    """Return the unknown label beside these classes, for the parameter of this name; refuse one that is a class."""
    words = classes.dtype.kind in "US" or isinstance(classes[0], str)
    if isinstance(label, str) and label == "auto":
        label = "unknown" if words else min(-1, int(classes[0]) - 1)
    if isinstance(label, str) != words:
        kinds = ("words", "a number") if words else ("numbers", "a word")
        raise ValueError(f"The classes are {kinds[0]} and unknown_label={label!r} is {kinds[1]}; give both alike.")
    if not words:
        is_whole = isinstance(label, Real) and float(label).is_integer()
        if not is_whole:
            raise ValueError(f"unknown_label is {label!r}, but the classes are whole numbers; give a whole number.")
        label = int(label)
    joined(classes, label)
    if label in classes:
        raise ValueError(
            f"The unknown label {label!r} is one of the classes in y. Give another unknown_label, or leave the "
            "samples of unknown classes out of the training data."
        )
    return label


def joined(classes: npt.NDArray[Any], label: Any) -> npt.NDArray[Any]:
    """Return classes and a label in one array, True and False as 1 and 0 beside numbers; ValueError if no type does."""
    values = [*classes.tolist(), label]
    together = np.array(values, dtype=object if classes.dtype == object else None)
    if together.dtype != classes.dtype and (together.dtype == object or together.tolist() != values):
        raise ValueError(
            f"No 64-bit number type holds the classes {listed(classes)} together with {label!r}, and answers need "
            "both. Give another unknown_label, or the classes as words."
        )
    return together


def listed(labels: npt.NDArray[Any]) -> str:
    """Return a few labels for a message."""
    shown = ", ".join(repr(label) for label in labels[:5].tolist())
    return shown if len(labels) <= 5 else f"{shown}, ..."
