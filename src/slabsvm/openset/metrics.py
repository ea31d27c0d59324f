"""Metrics of open-set recognition, where some test samples are of classes that were never learned.

In every label array one label, `unknown_label`, marks the unknown samples: in y_true those of a class that was not
learned, in y_pred those that the classifier rejected. Scores are a table with a column for each known class; the larger
a score, the more the sample is of that class. A classifier answers the column with the largest score, if that is large
enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import trapezoid
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.utils.validation import check_consistent_length, column_or_1d

from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.caller import counted


@dataclass(frozen=True)
class OSCR:
    """The open-set classification rate at every threshold, from the strictest to the loosest, in (n,) arrays."""

    false_positive_rate: FloatArray  #: the share of unknown samples that are given a known class
    correct_classification_rate: FloatArray  #: the share of known samples that are given their own class
    thresholds: FloatArray  #: a sample gets a class where its largest score is at least this; the first is infinite

    @property
    def area(self) -> float:
        """The area under the curve, by trapezoids: 1 where known samples all get their class and unknown ones none."""
        return float(trapezoid(self.correct_classification_rate, self.false_positive_rate))

    def ccr_at(self, false_positive_rate: float) -> float:
        """Return the highest correct classification rate at a false positive rate of at most this: `CCR@FPR`."""
        if not 0 <= false_positive_rate <= 1:
            raise ValueError(f"A false positive rate lies between 0 and 1, got {false_positive_rate:g}.")
        return float(self.correct_classification_rate[self.false_positive_rate <= false_positive_rate].max())


def openness(n_training: int, n_testing: int) -> float:
    """Return how open a problem is, in [0, 1): 1 - sqrt(2 n_training / (n_testing + n_training)).

    These are the numbers of classes that are learned, and that are met when testing, known and unknown. Raises
    ValueError for no class in training, or fewer classes in testing.

    References
    ----------
    .. [1] W. Scheirer, A. Rocha, A. Sapkota, T. Boult, "Toward open set recognition", TPAMI 35, 2013.
    """
    if not 1 <= n_training <= n_testing:
        raise ValueError(
            f"Openness needs at least one class in training, and as many in testing; got {n_training} and {n_testing}."
        )
    return float(1.0 - np.sqrt(2.0 * n_training / (n_testing + n_training)))


def open_set_f1(y_true: Any, y_pred: Any, unknown_label: Any, *, include_unknown: bool = True) -> float:
    """Return the macro F1 of the known classes and, if it is included and occurs, of "unknown" as one more class.

    "Unknown" is met where y_true or y_pred, (n_samples,) each, holds it. Where it is left out, an unknown sample that
    is given a known class is still a false positive of that class, and a known sample that is rejected a false
    negative.

    References
    ----------
    P. Mendes Junior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017, leave
    "unknown" out. A. Bendale, T. Boult, "Towards open set deep networks", CVPR 2016, count it.
    """
    truth, answers = _labels(y_true, y_pred)
    if truth.dtype.kind != "O" and (truth.dtype.kind in "US") != isinstance(unknown_label, str):
        raise ValueError(
            f"unknown_label={unknown_label!r} and the labels, such as {truth[:1].tolist()}, mix words and numbers; "
            "give the label that the unknown samples bear."
        )
    # Those that are met, in y_true or in y_pred.
    classes = [label for label in np.unique(np.concatenate([truth, answers])) if label != unknown_label]
    if not classes:
        raise ValueError(f"Every label is the unknown label {unknown_label!r}: there is no known class to measure.")
    met = unknown_label in truth or unknown_label in answers
    labels = [*classes, unknown_label] if include_unknown and met else classes
    return float(f1_score(truth, answers, labels=labels, average="macro", zero_division=0.0))


def known_unknown_auroc(y_true: Any, scores: Any, unknown_label: Any) -> float:
    """Return the area under the ROC curve of known against unknown, y_true (n_samples,), by the largest of each row of
    scores, (n_samples, n_classes).
    """
    table, known, _ = _scored(y_true, scores, None, unknown_label)
    return float(roc_auc_score(known, table.max(axis=1)))


def oscr_curve(y_true: Any, scores: Any, classes: Any, unknown_label: Any) -> OSCR:
    """Return the open-set classification rate curve.

    y_true is of shape (n_samples,), scores of shape (n_samples, n_classes), and classes names the scores' columns.

    References
    ----------
    .. [1] A. Dhamija, M. Guenther, T. Boult, "Reducing network agnostophobia", NeurIPS 2018.
    """
    table, known, right = _scored(y_true, scores, classes, unknown_label)
    largest = table.max(axis=1)
    order = np.argsort(-largest, kind="stable")
    # Samples of one score pass a threshold together.
    last = np.append(np.flatnonzero(np.diff(largest[order])), len(order) - 1)
    unknown_passed = np.cumsum(~known[order])[last] / max(1, int((~known).sum()))
    right_passed = np.cumsum(right[order])[last] / max(1, int(known.sum()))
    return OSCR(
        false_positive_rate=np.append(0.0, unknown_passed),
        correct_classification_rate=np.append(0.0, right_passed),
        thresholds=np.append(np.inf, largest[order][last]),
    )


def _labels(y_true: Any, y_pred: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    check_consistent_length(y_true, y_pred)
    truth, answers = column_or_1d(y_true), column_or_1d(y_pred)
    if (truth.dtype.kind in "US") != (answers.dtype.kind in "US") and "O" not in truth.dtype.kind + answers.dtype.kind:
        raise ValueError("y_true and y_pred mix words and numbers; give both in one type, the unknown label included.")
    return _signed(truth), _signed(answers)


def _signed(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return labels beside which negative ones can stand: NumPy makes floats of unsigned and signed ones together."""
    if labels.dtype.kind != "u" or (len(labels) and labels.max() > np.iinfo(np.int64).max):
        return labels
    return labels.astype(np.int64)


def _scored(y_true: Any, scores: Any, classes: Any, unknown_label: Any) -> tuple[FloatArray, BoolArray, BoolArray]:
    """Return the scores, which samples are known, and which of these have their largest score in their own column."""
    table, truth = np.asarray(scores, dtype=np.float64), column_or_1d(y_true)
    if table.ndim != 2:
        shape = f"these have the shape {table.shape}."
        raise ValueError(f"Scores must be a table with a column for each known class; {shape}")
    check_consistent_length(truth, table)
    if np.isnan(table).any():
        row = int(np.isnan(table).any(axis=1).argmax())
        raise ValueError(f"Row {row} of scores, from 0, holds NaN, which cannot be ranked. Leave the row out.")
    known: BoolArray = truth != unknown_label
    if known.all() or not known.any():
        raise ValueError(
            f"There must be known and unknown samples, the latter labelled {unknown_label!r}; all of these are "
            f"{'known' if known.all() else 'unknown'}."
        )
    if classes is None:
        return table, known, known
    names = np.asarray(classes)
    if len(names) != table.shape[1]:
        raise ValueError(
            f"Scores must have a column for each class; these have {counted(table.shape[1], 'column')}, and there are "
            f"{counted(len(names), 'class', 'classes')}."
        )
    if others := sorted(set(truth[known].tolist()) - set(names.tolist()), key=str):
        raise ValueError(
            f"The labels hold {others}, which are neither known classes nor the unknown label {unknown_label!r}; "
            "label the samples of classes that were not learned as unknown."
        )
    return table, known, known & (names[table.argmax(axis=1)] == truth)
