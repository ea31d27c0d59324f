"""A classifier and the detectors of its classes, which name together and decide together whether a name stands.

Let C_k be the p-value of the classifier's confidence that a row x is of class k, among its confidences in the names
that it gives to held-out rows, and P_k the p-value of x among class k's held-out rows by k's detector. The row's class
is the k with the largest

    s_k(x) = log P_k + log C_k    (Fisher 1925),    s_k(x) = -infinity where P_k is the least that there is,

which is mostly the classifier's own, since its confidence in others is less than in any name that it gives. The
row is ranked by s(x) = max_k s_k(x) among the held-out rows of all classes: p = (1 + #{i: s(x_i) <= s(x)}) / (N + 1).
P and C depend on each other, so that Fisher's own quantiles would be wrong; the rank needs none.

Either is enough to reject a name: log P for a row that no class has seen the like of, log C for one between classes. No
confidence makes good for the least P, so that what lies farther out than all held-out rows of each class is unknown.

The promise. Held-out rows are learned by neither detectors nor classifier. P and C of a held-out row count the row
itself, as those of a new row do, and leave the new row out, which can only lower them. So p is what it would be by an
order that treats held-out rows and the new one alike, or larger: P(p <= alpha) <= alpha for a new row of the classes in
the shares that the held-out ones have. It is an average over classes: one whose rows are harder to name is called
unknown more often than alpha, and others less.

With folds, a row is ranked among those of each fold by the models of this fold. P and C compare with held-out rows of
all folds, each scored by its own fold's models, as if these were one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils.parallel import delayed

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import (
    LARGEST_SHARE,
    WHOLE,
    Ranking,
    Tail,
    combined,
    combined_graded,
    largest_rejected,
    pooled,
    ranked,
    whole_down,
)
from slabsvm.conformal.remoteness import deciding_reach, far_rows, innermost, largest_answer
from slabsvm.detectors.answers import answer
from slabsvm.fitted.weighting import routed
from slabsvm.openset.classwise import ClassRows, Stack, listed, stacked
from slabsvm.openset.naming import REMEDY_BESIDE_CLASSIFIER, Naming, too_few
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.parallel import parallel
from slabsvm.runtime.sklearn_private import _safe_indexing

# A table of decisions tells known from unknown better than the probabilities that are made of it, which add up to 1.
OF_CONFIDENCE = ("decision_function", "predict_proba")
# The methods of `ConformalDetector` that a classifier can take part in: it has no leave-one-out scores.
METHODS = ("split", "cross")
# Graded p-values stay above 0 by this share of a step.
LEAST_SHARE = 1.0 - LARGEST_SHARE


def refuse_other_than_held_out(calibration: str, method: str) -> None:
    """Refuse what gives no rows that neither detectors nor classifier have learned."""
    if calibration == "margin":
        raise ValueError(
            "With calibration='margin' a margin and a classifier's confidence have no common unit. Use "
            "calibration='conformal', or leave classifier out."
        )
    if method not in METHODS:
        raise ValueError(
            f"method={method!r} needs leave-one-out answers, and classifiers have no closed form for these. Use "
            "method='cross', which calibrates on every row too, or 'split'."
        )


def fitted_classifier(classifier: Any, X: Any, y: npt.NDArray[Any], weights: FloatArray | None) -> Any:
    """Return a clone that has learned the rows X of classes y, in a joblib worker."""
    model = clone(classifier)
    return model.fit(X, y, **routed(model, weights))


def confidences(classifier: Any, X: Any, classes: npt.NDArray[Any]) -> FloatArray:
    """Return how sure a fitted classifier is of each class, shape (n_samples, n_classes); the name is the largest.

    Of a support vector classifier that has learned pairs of classes (`sklearn.svm.SVC`, `NuSVC`) this is the least of a
    class's margins against the others. Its own decision_function counts the pairs that a class wins, of which a sample
    of no known class has as many. Of others it is decision_function, or else predict_proba.

    Raises ValueError: for what is no classifier, for one that has neither, or no column for each class, and for NaN.
    """
    name = type(classifier).__name__
    if not hasattr(classifier, "classes_"):
        raise ValueError(f"{name} is not a classifier: its fit sets no classes_. Give one, such as SVC().")
    if not np.array_equal(classifier.classes_, classes):
        raise ValueError(
            f"The classifier {name} has learned other classes than those of y; give one that keeps labels."
        )
    method = next((method for method in OF_CONFIDENCE if hasattr(classifier, method)), None)
    if method is None:
        raise ValueError(
            f"The classifier {name} has neither decision_function nor predict_proba, so it cannot say how sure it is. "
            "Give one that has, or wrap it in CalibratedClassifierCV."
        )
    # Of rows far out sums overflow, and what comes of it is looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(innermost(classifier)[0], "decision_function_shape") and len(classes) > 2:
            table = _least_margins(*innermost(classifier, X), len(classes))
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
        raise ValueError(
            f"The classifier {name} returns NaN for some sample and class, so it cannot say how sure it is."
        )
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


def _confidences_if_any(classifier: Any, X: Any, classes: npt.NDArray[Any], deciding: BoolArray) -> FloatArray:
    """Return `confidences`, with -inf for rows of which the classifier has none and whose names do not depend on it.

    deciding, (n_samples,), says whose do. Classifiers refuse rows far out, or give NaN: forests beyond float32, linear
    ones where sums overflow.
    """
    try:
        return confidences(classifier, X, classes)
    except ValueError:
        if deciding.all():
            raise
    if len(deciding) == 1:
        return np.full((1, len(classes)), -np.inf)
    half = len(deciding) // 2
    parts = (slice(0, half), slice(half, len(deciding)))
    return np.concatenate(
        [_confidences_if_any(classifier, _safe_indexing(X, some), classes, deciding[some]) for some in parts]
    )


@dataclass(frozen=True, eq=False)
class Judged:
    """What a fold's classifier and detectors say of rows, in arrays of shape (n, n_classes)."""

    confidence: FloatArray  # how sure the classifier is of each class
    # p-values and graded ones by each class's detector
    normal: FloatArray
    graded: FloatArray


@dataclass(frozen=True, eq=False)
class Fold:
    """A classifier and detectors that have not learned the rows that a fold holds out."""

    place: int  # which fold it is
    classifier: Any
    models: Sequence[ConformalDetector]  # one for each class
    orders: Sequence[Ranking]  # of each class's held-out rows, of all folds
    classes: npt.NDArray[Any]  # (n_classes,)

    def judged(self, X: Any, n_jobs: int | None) -> Judged:
        """Return what the classifier and the detectors of all classes say of rows."""
        calls = (
            delayed(_p_values)(model, order, self.place, X)
            for model, order in zip(self.models, self.orders, strict=True)
        )
        normal, graded = (np.stack(some, axis=1) for some in zip(*parallel(calls, n_jobs), strict=True))
        # No confidence makes good for the least p-value.
        deciding = np.any(normal > _steps(self.models) * (1 + WHOLE), axis=1)
        return Judged(_confidences_if_any(self.classifier, X, self.classes, deciding), normal, graded)


def folds_of(classifiers: Sequence[Any], models: Sequence[ConformalDetector], classes: npt.NDArray[Any]) -> list[Fold]:
    """Return the folds of fitted classifiers, one for each, and of the classes' calibrated models."""
    orders = [pooled(model.rankings_) for model in models]
    return [Fold(place, one, models, orders, classes) for place, one in enumerate(classifiers)]


def _p_values(model: ConformalDetector, order: Ranking, fold: int, X: Any) -> tuple[FloatArray, FloatArray]:
    """Return p-values and graded p-values by the detector of a class and a fold, two arrays of shape (n_samples,)."""
    # A class with fewer folds holds no row out in the others, so that any of its detectors compares alike there.
    detector = model.estimators_[fold % len(model.estimators_)]
    values = answer(detector, X).values
    lower, upper = order.tails(values, deciding_reach(detector, X, values))
    count, two_sided = model.n_calibration_, model.two_sided
    return combined([lower], [upper], count, two_sided), combined_graded([lower], [upper], count, two_sided)


def _steps(models: Sequence[ConformalDetector]) -> FloatArray:
    """Return the least p-value of each class's detectors, shape (n_classes,)."""
    return np.array([model.smallest_p_value_ for model in models])


@dataclass(frozen=True, eq=False)
class ByClassifier(Naming):
    """The name is the class of which a classifier and the class's detector together are surest."""

    rows: Sequence[ClassRows]  # what is learned anew when classes come or go
    folds: Sequence[Fold]
    confidence: Ranking  # the confidences in the names that the classifiers give to held-out rows, of all folds
    held_out: Sequence[Ranking]  # the held-out rows of each fold in the order of s

    @classmethod
    def learned(
        cls,
        classifier: Any,
        models: Sequence[ConformalDetector],
        classes: npt.NDArray[Any],
        rows: Sequence[ClassRows],
        n_jobs: int | None,
    ) -> ByClassifier:
        """Learn the classifier, and calibrate it with detectors that are learned already.

        Raises ValueError: for a single class, and for classes of which none is large enough to hold a row out.
        """
        if len(classes) < 2:
            raise ValueError(
                f"A classifier needs at least two classes, and there is one class, {listed(classes)}, among the "
                "samples whose sample_weight is not 0. Give samples of another class, or leave classifier out."
            )
        if len(rows) < len(classes):
            raise ValueError(
                "The classifier is fitted again when a class comes or goes, and the file that it was loaded from "
                "does not hold its training rows. Save it with training=True, or fit again."
            )
        places = range(max(len(one.held_out) for one in rows))
        if not places:
            raise ValueError(
                "No class has 3 samples, and fewer cannot be learned with one held out. Give more, of any class."
            )
        learned = [stacked(rows, [one.besides(place) for one in rows]) for place in places]
        held = [stacked(rows, [one.of(place) for one in rows]) for place in places]
        classifiers = parallel(
            (delayed(fitted_classifier)(classifier, some.X, classes[some.place], some.weights) for some in learned),
            n_jobs,
        )
        folds = folds_of(classifiers, models, classes)
        judged = [fold.judged(some.X, n_jobs) for fold, some in zip(folds, held, strict=True)]
        counts = [some.counts for some in held]
        names = np.concatenate([one.confidence.max(axis=1) for one in judged])
        confidence = ranked(names, weights=np.concatenate(counts))
        of_rows = [_of_held_out(models, *one, confidence) for one in zip(judged, held, strict=True)]
        orders = [ranked(values, weights=count) for values, count in zip(of_rows, counts, strict=True)]
        return cls(models, classes, rows, folds, confidence, orders)

    @property
    def n_calibration(self) -> int:
        """The number of held-out rows, of all classes."""
        return whole_down(self.confidence.total)

    @property
    def smallest_p_value(self) -> float:
        """The p-value of a row that lies farther out than all held-out rows of each class."""
        return float(self._p_values_of(np.array([-np.inf]))[0])

    def scores(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return graded p-values of each class's name."""
        tails = self._tails(X, n_jobs)
        return combined_graded(tails, tails, self.n_calibration, two_sided=False)

    def p_values(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return the p-values of each class's name."""
        tails = self._tails(X, n_jobs)
        return combined(tails, tails, self.n_calibration, two_sided=False)

    def shares(self, X: Any, levels: FloatArray, n_jobs: int | None) -> FloatArray:
        """Refuse: of the classifier's confidence no feature's share is known."""
        del X, levels, n_jobs
        raise ValueError(
            "With a classifier, decisions also depend on its confidence, which has no shares of features. Explain "
            "the detector of class k instead: models_[k].explain(X)."
        )

    def levels(self, rate: float) -> FloatArray:
        """Return the largest p-value that is rejected at a rate, the same for each class; 0 where none is."""
        level = largest_rejected(rate, self.n_calibration)
        return np.full(len(self.classes), 0.0 if level < self.smallest_p_value * (1 - WHOLE) else level)

    def too_few(self, rate: float) -> str:
        """Return a warning where there are too few samples for a rate, or nothing."""
        if self.levels(rate).any():
            return too_few(self.models, self.classes, rate, REMEDY_BESIDE_CLASSIFIER)
        return (
            f"Nothing will be unknown: with {self.n_calibration} calibration samples of {len(self.classes)} classes "
            f"the smallest p-value is {self.smallest_p_value:.3g}, and alpha is {rate:g}. Give more samples, or a "
            f"larger alpha; {REMEDY_BESIDE_CLASSIFIER}"
        )

    def far_accepted(self, rate: float) -> Sequence[bool]:
        """Return which classes' names rows infinitely far away may get, of whatever confidence."""

        def largest(fold: int, model: ConformalDetector, order: Ranking, own: ClassRows) -> float:
            return largest_answer(lambda X: _p_values(model, order, fold, X)[0], far_rows(own.X))

        of_classes = list(zip(self.models, self.folds[0].orders, self.rows, strict=True))
        found = [[largest(fold.place, *of_class) for of_class in of_classes] for fold in self.folds]
        far = np.nan_to_num(np.fmax.reduce(found, axis=0))
        p_values = self._p_values_of(_fisher(far, np.ones(len(far)), _steps(self.models)))
        strictest = np.maximum(self.levels(rate), self.smallest_p_value) * (1 + WHOLE)
        return list(p_values > strictest)

    def _tails(self, X: Any, n_jobs: int | None) -> list[Tail]:
        """Return where rows, with each class's name, stand among the held-out ones of each fold.

        Between two held-out rows they stand by the product of graded p-values.
        """
        found, steps = [], _steps(self.models)
        for fold, order in zip(self.folds, self.held_out, strict=True):
            judged = fold.judged(X, n_jobs)
            confident = [_tail_of(self.confidence, judged.confidence)]
            certain = combined(confident, confident, self.n_calibration, two_sided=False)
            share = judged.graded * combined_graded(confident, confident, self.n_calibration, two_sided=False)
            passed = _tail_of(order, _fisher(judged.normal, certain, steps)).passed
            found.append(Tail(passed, np.clip(share, LEAST_SHARE, LARGEST_SHARE)))
        return found

    def _p_values_of(self, statistic: FloatArray) -> FloatArray:
        """Return the p-values of values of s that are the same in each fold."""
        tails = [_tail_of(order, statistic) for order in self.held_out]
        return combined(tails, tails, self.n_calibration, two_sided=False)


def _of_held_out(models: Sequence[ConformalDetector], judged: Judged, rows: Stack, confidence: Ranking) -> FloatArray:
    """Return s of a fold's held-out rows, shape (n,), which count themselves as held out, and not once more."""
    every, total, steps = np.arange(len(rows.place)), whole_down(confidence.total), _steps(models)
    normal = judged.normal.copy()
    normal[every, rows.place] -= steps[rows.place]
    confident = [_tail_of(confidence, judged.confidence)]
    certain = combined(confident, confident, total, two_sided=False)
    # Of its confidences, the one in the name that it gets is among those of held-out rows.
    certain[every, judged.confidence.argmax(axis=1)] -= 1.0 / (total + 1)
    return np.asarray(_fisher(normal, certain, steps).max(axis=1))


def _fisher(normal: FloatArray, certain: FloatArray, least: FloatArray) -> FloatArray:
    """Return s_k of P_k and C_k, arrays of one shape, and of the least that each class's P_k can be."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(normal > least * (1 + WHOLE), np.log(normal) + np.log(certain), -np.inf)


def _tail_of(ranking: Ranking, values: FloatArray) -> Tail:
    """Return where numbers stand, in arrays of their shape."""
    tail = ranking.tails(values.ravel(), np.full(values.size, np.inf))[0]
    return Tail(tail.passed.reshape(values.shape), tail.share.reshape(values.shape))
