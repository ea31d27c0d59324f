"""What names a sample, says whether the name stands, and warns of models that accept what they should not.

A naming has a score for each class, of which the largest is the name, and for each rate of false rejections a level:
the least score with which the name of a class stands.

A classifier and the detectors of its classes can name together, and decide together whether a name stands.
Let C_k be the p-value of the classifier's confidence that a row x is of class k, among its confidences in the names
that it gives to held-out rows, and P_k the p-value of x among class k's held-out rows by k's detector. The row's class
is the k with the largest

    s_k(x) = log P_k + log C_k    (Fisher 1925),    s_k(x) = -infinity where P_k is the least that there is,

which is mostly the classifier's own, since its confidence in others is less than in any name that it gives. The
row is ranked by s(x) = max_k s_k(x) among the held-out rows of all classes: p = (1 + #{i: s(x_i) <= s(x)}) / (N + 1).
P and C depend on each other, so that Fisher's own quantiles would be wrong; the rank needs none.

The promise. Held-out rows are learned by neither detectors nor classifier. P and C of a held-out row count the row
itself, as those of a new row do, and leave the new row out, which can only lower them. So p is what it would be by an
order that treats held-out rows and the new one alike, or larger: P(p <= alpha) <= alpha for a new row of the classes in
the shares that the held-out ones have. It is an average over classes.

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

from slabsvm.conformal.detector import BY_CHANCE, FAR_REMEDY, REACH_REMEDY, ConformalDetector, found_no_direction
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
from slabsvm.conformal.remoteness import deciding_reach, far_rows, final_estimator, largest_answer
from slabsvm.detectors.answers import answer, explanation_of
from slabsvm.fitted.training import routed
from slabsvm.openset.classwise import ClassRows, Stack, listed, stacked
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.blas import parallel
from slabsvm.runtime.caller import Warned
from slabsvm.runtime.sklearn_private import _safe_indexing

REMEDY = "Give more samples, or a larger alpha; method='cross' calibrates on every sample."


def of_fits(warned: Sequence[Sequence[Warned]], classes: npt.NDArray[Any]) -> list[Warned]:
    """Return one warning of each category that fits of classes' models gave, with the words of the first class."""
    warnings = []
    for category in dict.fromkeys(category for of_class in warned for _, category in of_class):
        texts = [" ".join(text for text, own in of_class if own is category) for of_class in warned]
        labels = classes[[bool(text) for text in texts]]
        first = next(text for text in texts if text)
        of_which = f" (the first, of {listed(labels[:1])})" if len(labels) > 1 else ""
        warnings.append((f"{_having(labels)} a model whose fit warned{of_which}: {first}", category))
    return warnings


def _having(labels: Any) -> str:
    """Return which classes, and how many, as the subject of a sentence."""
    return f"Class {listed(labels)} has" if len(labels) == 1 else f"{len(labels)} classes ({listed(labels)}) have"


def _far_accepted(labels: Any) -> str:
    """Return a warning of the classes that accept rows infinitely far away, or nothing."""
    return f"{_having(labels)} a model that accepts rows infinitely far away. {FAR_REMEDY}" if len(labels) else ""


def names(table: FloatArray) -> IndexArray:
    """Return the place of the class whose name stands, of each row of scores less levels; -1 where none does."""
    best = table.argmax(axis=1)
    return np.where(table[np.arange(len(table)), best] >= 0, best, -1)


@dataclass(frozen=True, eq=False)
class Naming:
    """What names samples: the class whose model finds one most normal, by conformal p-values, class by class."""

    models: Sequence[Any]  # one for each class
    classes: npt.NDArray[Any]  # (n_classes,)

    def scores(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return how normal each row is as one of each class, shape (n_samples, n_classes): graded p-values."""
        return self._columns(X, "score_samples", n_jobs)

    def p_values(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return the p-value of each row as one of each class, shape (n_samples, n_classes)."""
        return self._columns(X, "p_values", n_jobs)

    def levels(self, rate: float) -> FloatArray:
        """Return the least score with which each class's name stands, shape (n_classes,): the largest rejected p-value.

        A class with too few samples would accept everything beside classes with enough: it gets its strictest level.
        Where all classes have too few, nothing is rejected.
        """
        levels = np.array([model.level(rate) for model in self.models])
        strictest = np.array([model.smallest_p_value_ for model in self.models])
        return np.where(levels > 0, levels, strictest) if levels.any() else levels

    def too_few(self, rate: float) -> str:
        """Return a warning of the classes that have too few samples for a rate, or nothing."""
        few = [place for place, model in enumerate(self.models) if model.level(rate) == 0]
        if not few:
            return ""
        most = max(self.models[place].smallest_p_value_ for place in few)
        return (
            f"{_having(self.classes[few])} too few samples for alpha={rate:g}. If other classes have enough, such a "
            f"class rejects up to {most:.2g} of its new samples: those below all of its calibration samples. If no "
            f"class has enough, nothing is unknown. {REMEDY}"
        )

    def far_accepted(self, rate: float) -> Sequence[bool]:
        """Return which classes accept rows infinitely far away: their models give these more than their level."""
        return [
            model.far_p_value_ > max(model.level(rate), model.smallest_p_value_) * (1 + WHOLE) for model in self.models
        ]

    def shares(self, X: Any, levels: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return what each feature adds to the largest of a row's scores less levels, shape (n_samples, n_features)."""
        table = self.scores(X, n_jobs) - levels
        nearest = table.argmax(axis=1)
        order = np.argsort(nearest, kind="stable")
        found = []
        for rows in np.split(order, np.flatnonzero(np.diff(nearest[order])) + 1):
            k = nearest[rows[0]]
            of_model = explanation_of(self.models[k], _safe_indexing(X, rows))
            # The model's own level may be another.
            found.append(of_model.less(of_model.decisions[0] - table[rows[0], k]).shares)
        return np.asarray(np.concatenate(found)[np.argsort(order)])

    def warnings_at(self, rate: float) -> list[str]:
        """Return what is to be warned of, or empty texts."""
        undirected = [found_no_direction(model.estimators_) for model in self.models]
        far = [
            bool(accepts) and len(texts) < len(model.estimators_)
            for accepts, texts, model in zip(self.far_accepted(rate), undirected, self.models, strict=True)
        ]
        warned = [self.too_few(rate), _far_accepted(self.classes[far])]
        lost = self.classes[[bool(texts) for texts in undirected]]
        if len(lost):
            first = next(texts[0] for texts in undirected if texts)
            warned.append(
                f"{_having(lost)} a model whose fit found w = 0: {BY_CHANCE}. The first fit's own warning: {first}"
            )
        beyond = self.classes[[model.out_of_reach_ > rate for model in self.models]]
        if len(beyond):
            samples = f"more than alpha={rate:g} of the calibration samples"
            warned.append(f"{_having(beyond)} {samples} out of the kernel's reach. {REACH_REMEDY}")
        return warned

    def _columns(self, X: Any, method: str, n_jobs: int | None) -> FloatArray:
        """Return the values of each model's method of this name, shape (n_samples, n_classes)."""
        return np.stack(parallel((delayed(getattr(model, method))(X) for model in self.models), n_jobs), axis=1)


@dataclass(frozen=True, eq=False)
class ByMargins(Naming):
    """The class in whose model a sample lies deepest names it, by normalised margins, which no rate changes."""

    def scores(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return margins."""
        return self._columns(X, "decision_function", n_jobs)

    def levels(self, rate: float) -> FloatArray:
        """Return zeros: each model keeps its own threshold."""
        return np.zeros(len(self.models))

    def p_values(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Refuse: there are none."""
        raise ValueError("There are no p-values with calibration='margin'; use calibration='conformal'.")

    def too_few(self, rate: float) -> str:
        """Return nothing: margins need no samples that are held out."""
        return ""

    def far_accepted(self, rate: float) -> Sequence[bool]:
        """Return in which classes' models rows infinitely far away are inside."""
        return [model.far_margin_ >= 0 for model in self.models]

    def warnings_at(self, rate: float) -> list[str]:
        """Return what is to be warned of: fits say themselves what they found."""
        return [_far_accepted(self.classes[np.array(self.far_accepted(rate))])]


# A table of decisions tells known from unknown better than the probabilities that are made of it, which add up to 1.
OF_CONFIDENCE = ("decision_function", "predict_proba")
# Graded p-values stay above 0 by this share of a step.
LEAST_SHARE = 1.0 - LARGEST_SHARE


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
    method = next((method for method in OF_CONFIDENCE if hasattr(classifier, method)), None)
    if method is None:
        raise ValueError(
            f"The classifier {name} has neither decision_function nor predict_proba, so it cannot say how sure it is. "
            "Give one that has, or wrap it in CalibratedClassifierCV."
        )
    # Of rows far out sums overflow, and what comes of it is looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(final_estimator(classifier)[0], "decision_function_shape") and len(classes) > 2:
            table = _least_margins(*final_estimator(classifier, X), len(classes))
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
    """Return `confidences`, with -inf for rows that the classifier refuses where it does not decide, (n,)."""
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


def judged(
    classifier: Any,
    models: Sequence[ConformalDetector],
    classes: npt.NDArray[Any],
    X: Any,
    *,
    fold: int,
    n_jobs: int | None,
) -> Judged:
    """Return what a fold's classifier, and its detectors of all classes, say of rows."""
    found = parallel((delayed(_p_values)(model, fold, X) for model in models), n_jobs)
    normal, graded = (np.stack(some, axis=1) for some in zip(*found, strict=True))
    # No confidence makes good for the least p-value.
    deciding = np.any(normal > _steps(models) * (1 + WHOLE), axis=1)
    return Judged(_confidences_if_any(classifier, X, classes, deciding), normal, graded)


def _p_values(model: ConformalDetector, fold: int, X: Any) -> tuple[FloatArray, FloatArray]:
    """Return p-values and graded p-values, (n,) each, among the class's held-out rows of all folds."""
    # A class with fewer folds holds no row out in the others, so that any of its detectors compares alike there.
    detector = model.estimators_[fold % len(model.estimators_)]
    values = answer(detector, X).values
    lower, upper = pooled(model.rankings_).tails(values, deciding_reach(detector, X, values))
    count, two_sided = model.n_calibration_, model.two_sided
    return combined([lower], [upper], count, two_sided), combined_graded([lower], [upper], count, two_sided)


def _steps(models: Sequence[ConformalDetector]) -> FloatArray:
    """Return the least p-value of each class's detectors, shape (n_classes,)."""
    return np.array([model.smallest_p_value_ for model in models])


@dataclass(frozen=True, eq=False)
class ByClassifier(Naming):
    """The name is the class of which a classifier and the class's detector together are surest."""

    rows: Sequence[ClassRows]  # what is learned anew when classes come or go
    classifiers: Sequence[Any]  # one for each fold
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

        Raises ValueError for a single class, and for classes of which none is large enough to hold a row out.
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
        learned = (stacked(rows, [one.besides(place) for one in rows]) for place in places)
        held = [stacked(rows, [one.of(place) for one in rows]) for place in places]
        calls = (
            delayed(clone(classifier).fit)(some.X, classes[some.place], **routed(classifier, some.weights))
            for some in learned
        )
        classifiers = parallel(calls, n_jobs)
        pairs = enumerate(zip(classifiers, held, strict=True))
        found = [judged(one, models, classes, some.X, fold=fold, n_jobs=n_jobs) for fold, (one, some) in pairs]
        names = np.concatenate([one.confidence.max(axis=1) for one in found])
        confidence = ranked(names, weights=np.concatenate([some.counts for some in held]))
        orders = [
            ranked(_of_held_out(models, one, some, confidence), weights=some.counts)
            for one, some in zip(found, held, strict=True)
        ]
        return cls(models, classes, rows, classifiers, confidence, orders)

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
            return super().too_few(rate)
        return (
            f"Nothing will be unknown: with {self.n_calibration} calibration samples of {len(self.classes)} classes "
            f"the smallest p-value is {self.smallest_p_value:.3g}, and alpha is {rate:g}. {REMEDY}"
        )

    def far_accepted(self, rate: float) -> Sequence[bool]:
        """Return which classes' names rows infinitely far away may get, of whatever confidence."""

        def largest(fold: int, model: ConformalDetector, own: ClassRows) -> float:
            return largest_answer(lambda X: _p_values(model, fold, X)[0], far_rows(own.X))

        of_classes = list(zip(self.models, self.rows, strict=True))
        found = [[largest(fold, *of_class) for of_class in of_classes] for fold in range(len(self.classifiers))]
        far = np.nan_to_num(np.fmax.reduce(found, axis=0))
        p_values = self._p_values_of(_fisher(far, np.ones(len(far)), _steps(self.models)))
        strictest = np.maximum(self.levels(rate), self.smallest_p_value) * (1 + WHOLE)
        return list(p_values > strictest)

    def _tails(self, X: Any, n_jobs: int | None) -> list[Tail]:
        """Return where rows, with each class's name, stand among held-out ones, between two by graded p-values."""
        found, steps = [], _steps(self.models)
        for fold, (classifier, order) in enumerate(zip(self.classifiers, self.held_out, strict=True)):
            one = judged(classifier, self.models, self.classes, X, fold=fold, n_jobs=n_jobs)
            confident = [_tail_of(self.confidence, one.confidence)]
            certain = combined(confident, confident, self.n_calibration, two_sided=False)
            share = one.graded * combined_graded(confident, confident, self.n_calibration, two_sided=False)
            passed = _tail_of(order, _fisher(one.normal, certain, steps)).passed
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
