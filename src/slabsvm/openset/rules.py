"""Rules that give a row the name of a class, or reject it.

A rule has a score for each class, of which the largest is the name, and for each rate of false rejections a level: the
least score with which the name of a class stands.

The detectors of the classes decide alone, by their p-values, or together with a classifier. For the latter, let C_k be
the p-value of the classifier's confidence that a row x is of class k, among its confidences in the names that it gives
to held-out rows, and P_k the p-value of x among class k's held-out rows by k's detector. The row's class is the k with
the largest

    s_k(x) = log P_k + log C_k    (Fisher 1925),    s_k(x) = -infinity where P_k is the least that there is,

which is mostly the classifier's own, since its confidence in others is less than in any name that it gives. The row is
ranked by s(x) = max_k s_k(x) among the held-out rows of all classes: p = (1 + #{i: s(x_i) <= s(x)}) / (N + 1). P and C
depend on each other, so that Fisher's own quantiles would be wrong; the rank needs none.

The promise. P and C of a held-out row, which nothing has learned, count the row itself, as those of a new row do, and
leave the new row out, which can only lower them. So P(p <= alpha) <= alpha for a new row of the classes in the shares
that the held-out ones have: an average over classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.parallel import delayed

from slabsvm.conformal.detector import (
    FAR_REMEDY,
    REACH_REMEDY,
    ROUNDING_DECIDES,
    ConformalDetector,
    no_direction_warning,
)
from slabsvm.conformal.p_values import LARGEST_SHARE, WHOLE, Ranking, largest_rejected, ranked
from slabsvm.detectors.answers import detector_and_rows
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.blas import parallel
from slabsvm.runtime.caller import Warned
from slabsvm.runtime.estimators import _safe_indexing


def warnings_of_classes(warned: Sequence[Sequence[Warned]], classes: npt.NDArray[Any]) -> list[Warned]:
    """Return one warning of each category that fits of classes' models gave, with the words of the first class."""
    warnings = []
    for category in dict.fromkeys(category for of_class in warned for _, category in of_class):
        texts = [" ".join(text for text, own in of_class if own is category) for of_class in warned]
        labels = classes[[bool(text) for text in texts]]
        first = next(text for text in texts if text)
        of_which = f" (the first, of {listed(labels[:1])})" if len(labels) > 1 else ""
        warnings.append((f"{_subject(labels)} a model whose fit warned{of_which}: {first}", category))
    return warnings


def _subject(labels: npt.NDArray[Any]) -> str:
    """Return which classes, and how many, as the subject of a sentence."""
    return f"Class {listed(labels)} has" if len(labels) == 1 else f"{len(labels)} classes ({listed(labels)}) have"


def best_classes(table: FloatArray) -> IndexArray:
    """Return the number of each row's best class, from 0, of scores less levels; -1 if its score is below the level."""
    best = table.argmax(axis=1)
    return np.where(table[np.arange(len(table)), best] >= 0, best, -1)


@dataclass(frozen=True, eq=False)
class DetectorRule:
    """The class whose model finds a row most normal, by conformal p-values, class by class."""

    models: Sequence[ConformalDetector]  # one for each class
    classes: npt.NDArray[Any]  # (n_classes,)

    @property
    def steps(self) -> FloatArray:
        """The least p-value that each class's model can give, shape (n_classes,)."""
        return np.array([model.smallest_p_value_ for model in self.models])

    def answers(self, X: Any, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
        """Return each row's p-value as one of each class, and the graded one, shape (n_samples, n_classes) each."""
        found = parallel((delayed(_p_values)(model, X) for model in self.models), n_jobs)
        p_values, graded = (np.stack(some, axis=1) for some in zip(*found, strict=True))
        return p_values, graded

    def levels(self, rate: float) -> FloatArray:
        """Return the level of each class, (n_classes,): a row may get its name if the graded p-value is at least this.

        A class with too few samples gets its strictest level. Where all classes have too few, nothing is rejected.
        """
        levels = self._own_levels(rate)
        return np.where(levels > 0, levels, self.steps) if levels.any() else levels

    def _own_levels(self, rate: float) -> FloatArray:
        return np.array([model.level(rate) for model in self.models])

    def too_few(self, rate: float) -> str:
        """Return a warning of the classes that have too few samples for a rate, or nothing."""
        few = self._own_levels(rate) == 0
        if not few.any():
            return ""
        return (
            f"{_subject(self.classes[few])} too few samples for alpha={rate:g}. If other classes have enough, such a "
            f"class rejects up to {self.steps[few].max():.2g} of its new samples: those below all of its calibration "
            f"samples. If no class has enough, nothing is unknown. Give more samples, or a larger alpha."
        )

    def far_accepted(self, rate: float) -> BoolArray:
        """Return which classes accept rows infinitely far away: their models give these more than their level."""
        far = np.array([model.far_p_value_ for model in self.models])
        return np.asarray(far > np.maximum(self._own_levels(rate), self.steps) * (1 + WHOLE))

    def warnings_at(self, rate: float) -> list[str]:
        """Return what is to be warned of, or empty texts."""
        undirected = [no_direction_warning(model.estimator_) for model in self.models]
        far = self.far_accepted(rate) & [not text for text in undirected]
        warned = [self.too_few(rate)]
        if far.any():
            warned.append(f"{_subject(self.classes[far])} a model that accepts rows infinitely far away. {FAR_REMEDY}")
        lost = self.classes[[bool(text) for text in undirected]]
        if len(lost):
            first = next(filter(None, undirected))
            found = f"{_subject(lost)} a model whose fit found w = 0: {ROUNDING_DECIDES}."
            warned.append(f"{found} The first fit's own warning: {first}")
        beyond = self.classes[[model.out_of_reach_ > rate for model in self.models]]
        if len(beyond):
            samples = f"more than alpha={rate:g} of the calibration samples"
            warned.append(f"{_subject(beyond)} {samples} out of the kernel's reach. {REACH_REMEDY}")
        return warned


def confidences(classifier: Any, X: Any, classes: npt.NDArray[Any]) -> FloatArray:
    """Return how sure a fitted classifier is of each class, shape (n_samples, n_classes); the name is the largest.

    Of a support vector classifier that has learned pairs of classes (`sklearn.svm.SVC`, `NuSVC`) this is the least of a
    class's margins against the others: its own decision_function counts the pairs that a class wins, of which a sample
    of no known class has as many. Raises ValueError for what is no classifier, or says nothing of each class, or NaN.
    """
    name = type(classifier).__name__
    if not hasattr(classifier, "classes_"):
        raise ValueError(f"{name} is not a classifier: its fit sets no classes_. Give one, such as SVC().")
    if not np.array_equal(classifier.classes_, classes):
        raise ValueError(
            f"The classifier {name} has learned other classes than those of y; give one that keeps labels."
        )
    # A table of decisions tells known from unknown better than the probabilities made of it, which add up to 1.
    methods = ("decision_function", "predict_proba")
    method = next((method for method in methods if hasattr(classifier, method)), None)
    if method is None:
        raise ValueError(
            f"The classifier {name} has neither decision_function nor predict_proba, so it cannot say how sure it is. "
            "Give one that has, or wrap it in CalibratedClassifierCV."
        )
    # Of rows far out sums overflow, and what comes of it is looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(detector_and_rows(classifier)[0], "decision_function_shape") and len(classes) > 2:
            table = _least_margins(*detector_and_rows(classifier, X), len(classes))
        else:
            table = np.asarray(getattr(classifier, method)(X), dtype=np.float64)
    if table.ndim == 1:
        # With two classes, one number is how sure it is of the second.
        table = np.column_stack([-table, table])
    if table.shape[1] != len(classes):
        raise ValueError(
            f"The classifier {name} gives {table.shape[1]} columns for {len(classes)} classes; it must give one for "
            "each."
        )
    if np.isnan(table).any():
        raise ValueError(f"The classifier {name} returns NaN for some row. Correct the row, or leave it out.")
    return table


def _least_margins(final: Any, X: Any, n_classes: int) -> FloatArray:
    """Return each class's least margin against another, of a classifier that has learned all pairs."""
    pairwise = copy(final)
    pairwise.decision_function_shape = "ovo"
    margins = np.asarray(pairwise.decision_function(X), dtype=np.float64)
    table = np.full((len(margins), n_classes), np.inf)
    for margin, (first, second) in zip(margins.T, combinations(range(n_classes), 2), strict=True):
        table[:, first] = np.minimum(table[:, first], margin)
        table[:, second] = np.minimum(table[:, second], -margin)
    return table


@dataclass(frozen=True, eq=False)
class ClassifierRule(DetectorRule):
    """The class of which a classifier and the class's detector together are surest."""

    classifier: Any
    confidence: Ranking  # the confidences in the names that the classifier gives to held-out rows
    held_out: Ranking  # the held-out rows in the order of s

    @classmethod
    def calibrated(
        cls, alone: DetectorRule, classifier: Any, X: Any, place: IndexArray, *, weights: Any, n_jobs: int | None
    ) -> ClassifierRule:
        """Return the rule, calibrated by rows that nothing here has learned, of the classes at these places."""
        every, normal = np.arange(len(place)), alone.answers(X, n_jobs)[0]
        sure = confidences(classifier, X, alone.classes)
        confidence = ranked(sure.max(axis=1), weights=weights)
        # A held-out row counts itself as held out, and not once more; of its confidences, the one in its name does.
        certain = confidence.p_values(sure)
        certain[every, sure.argmax(axis=1)] -= 1.0 / (confidence.count + 1)
        normal[every, place] -= alone.steps[place]
        order = ranked(_fisher(normal, certain, alone.steps).max(axis=1), weights=weights)
        return cls(alone.models, alone.classes, classifier, confidence, order)

    @property
    def smallest_p_value(self) -> float:
        """The p-value of a row that lies farther out than all held-out rows of each class."""
        return float(self.held_out.p_values(np.array([-np.inf]))[0])

    def answers(self, X: Any, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
        """Return the p-values of each class's name, and graded ones: by both graded ones, between two held-out rows."""
        normal, graded = super().answers(X, n_jobs)
        # No confidence makes good for the least p-value: of a row that has no other, the classifier is not asked.
        asked = np.flatnonzero(np.any(normal > self.steps * (1 + WHOLE), axis=1))
        sure = np.full(normal.shape, np.inf)
        if len(asked):
            sure[asked] = confidences(self.classifier, _safe_indexing(X, asked), self.classes)
        # Graded p-values stay above 0 by as much as below the next step.
        share = np.clip(graded * self.confidence.graded(sure), 1.0 - LARGEST_SHARE, LARGEST_SHARE)
        order = _fisher(normal, self.confidence.p_values(sure), self.steps)
        return self.held_out.p_values(order), self.held_out.graded(order, share)

    def levels(self, rate: float) -> FloatArray:
        """Return the largest p-value that is rejected at a rate, the same for each class; 0 where none is."""
        level = largest_rejected(rate, self.held_out.count)
        return np.full(len(self.classes), 0.0 if level < self.smallest_p_value * (1 - WHOLE) else level)

    def too_few(self, rate: float) -> str:
        """Return a warning where there are too few samples for a rate, or nothing."""
        if self.levels(rate).any():
            return super().too_few(rate)
        return (
            f"Nothing will be unknown: with {self.held_out.count} calibration samples of {len(self.classes)} classes "
            f"the smallest p-value is {self.smallest_p_value:.3g}, and alpha is {rate:g}. Give more samples, or a "
            "larger alpha."
        )

    def far_accepted(self, rate: float) -> BoolArray:
        """Return which classes' names rows infinitely far away may get, of whatever confidence."""
        far = np.nan_to_num([model.far_p_value_ for model in self.models])
        p_values = self.held_out.p_values(_fisher(far, np.ones(len(far)), self.steps))
        return np.asarray(p_values > np.maximum(self.levels(rate), self.smallest_p_value) * (1 + WHOLE))


def _p_values(model: ConformalDetector, X: Any) -> tuple[FloatArray, FloatArray]:
    """Return p-values and graded p-values, (n,) each."""
    scores = model.scores(X)
    return model.ranking_.p_values(scores), model.ranking_.graded(scores)


def _fisher(normal: FloatArray, certain: FloatArray, least: FloatArray) -> FloatArray:
    """Return s_k of P_k and C_k, arrays of one shape, and of the least that each class's P_k can be."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(normal > least * (1 + WHOLE), np.log(normal) + np.log(certain), -np.inf)


def listed(labels: npt.NDArray[Any]) -> str:
    """Return a few labels for a message."""
    shown = ", ".join(repr(label) for label in labels[:5].tolist())
    return shown if len(labels) <= 5 else f"{shown}, ..."
