"""What names a sample, says whether the name stands, and warns of models that accept what they should not.

A naming has a score for each class, of which the largest is the name, and for each rate of false rejections a level:
the least score with which the name of a class stands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.parallel import delayed

from slabsvm.conformal.p_values import WHOLE
from slabsvm.conformal.wrapping import BY_CHANCE, FAR_REMEDY, REACH_REMEDY, found_no_direction
from slabsvm.detectors.explained import explanation_of
from slabsvm.openset.classwise import listed
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import Warned
from slabsvm.runtime.parallel import parallel
from slabsvm.runtime.sklearn_private import _safe_indexing

# What needs fewer samples, without a classifier and with one.
REMEDIES = "method='cross' and 'leave-one-out' calibrate on every sample, and calibration='margin' needs none."
REMEDY_BESIDE_CLASSIFIER = "method='cross' calibrates on every sample."


def too_few(models: Sequence[Any], classes: npt.NDArray[Any], alpha: float, remedy: str = REMEDIES) -> str:
    """Return a warning of the classes that have too few samples for a rate, or nothing."""
    few = [place for place, model in enumerate(models) if model.level(alpha) == 0]
    if not few:
        return ""
    rate = max(models[place].smallest_p_value_ for place in few)
    return (
        f"{_having(classes[few])} too few samples for alpha={alpha:g}. If other classes have enough, such a class "
        f"rejects up to {rate:.2g} of its new samples: those below all of its calibration samples. If no class has "
        f"enough, nothing is unknown. Give more samples, or a larger alpha; {remedy}"
    )


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
class Naming(ABC):
    """What names samples."""

    models: Sequence[Any]  # one for each class
    classes: npt.NDArray[Any]  # (n_classes,)

    @abstractmethod
    def scores(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return how normal each row is as one of each class, shape (n_samples, n_classes)."""

    @abstractmethod
    def levels(self, rate: float) -> FloatArray:
        """Return the least score with which each class's name stands, shape (n_classes,)."""

    @abstractmethod
    def p_values(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return the p-value of each row as one of each class, shape (n_samples, n_classes)."""

    @abstractmethod
    def too_few(self, rate: float) -> str:
        """Return a warning where there are too few samples for a rate, or nothing."""

    @abstractmethod
    def far_accepted(self, rate: float) -> Sequence[bool]:
        """Return which classes accept rows infinitely far away."""

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

    def doubts(self, rate: float) -> list[str]:
        """Return what is to be warned of, or empty texts."""
        undirected = [found_no_direction(model.estimators_) for model in self.models]
        far = [
            bool(accepts) and len(texts) < len(model.estimators_)
            for accepts, texts, model in zip(self.far_accepted(rate), undirected, self.models, strict=True)
        ]
        doubts = [self.too_few(rate), _far_accepted(self.classes[far])]
        lost = self.classes[[bool(texts) for texts in undirected]]
        if len(lost):
            first = next(texts[0] for texts in undirected if texts)
            doubts.append(
                f"{_having(lost)} a model whose fit found w = 0: {BY_CHANCE}. The first fit's own warning: {first}"
            )
        beyond = self.classes[[model.out_of_reach_ > rate for model in self.models]]
        if len(beyond):
            samples = f"more than alpha={rate:g} of the calibration samples"
            doubts.append(f"{_having(beyond)} {samples} out of the kernel's reach. {REACH_REMEDY}")
        return doubts

    def _columns(self, X: Any, method: str, n_jobs: int | None) -> FloatArray:
        """Return the values of each model's method of this name, shape (n_samples, n_classes)."""
        return np.stack(parallel((delayed(getattr(model, method))(X) for model in self.models), n_jobs), axis=1)


@dataclass(frozen=True, eq=False)
class ByPValues(Naming):
    """The name is the class whose model finds a sample most normal, by conformal p-values, class by class."""

    def scores(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return graded p-values."""
        return self._columns(X, "score_samples", n_jobs)

    def p_values(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return each model's p-values."""
        return self._columns(X, "p_values", n_jobs)

    def levels(self, rate: float) -> FloatArray:
        """Return the largest p-value that each class's model rejects at a rate.

        A class with too few samples would accept everything, so that nothing would be unknown beside classes with
        enough: it gets its strictest level instead. Where all classes have too few, no level reaches the rate, and
        nothing is rejected.
        """
        levels = np.array([model.level(rate) for model in self.models])
        strictest = np.array([model.smallest_p_value_ for model in self.models])
        return np.where(levels > 0, levels, strictest) if levels.any() else levels

    def too_few(self, rate: float) -> str:
        """Return a warning of the classes that have too few samples for a rate, or nothing."""
        return too_few(self.models, self.classes, rate)

    def far_accepted(self, rate: float) -> Sequence[bool]:
        """Return which classes' models give rows infinitely far away more than their level."""
        return [
            model.far_p_value_ > max(model.level(rate), model.smallest_p_value_) * (1 + WHOLE) for model in self.models
        ]


@dataclass(frozen=True, eq=False)
class ByMargins(Naming):
    """The name is the class in whose model a sample lies deepest, by normalised margins; no rate changes them."""

    def scores(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return margins."""
        return self._columns(X, "decision_function", n_jobs)

    def levels(self, rate: float) -> FloatArray:
        """Return zeros: each model keeps its own threshold."""
        del rate
        return np.zeros(len(self.models))

    def p_values(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Refuse: there are none."""
        del X, n_jobs
        raise ValueError("There are no p-values with calibration='margin'; use calibration='conformal'.")

    def too_few(self, rate: float) -> str:
        """Return nothing: margins need no samples that are held out."""
        del rate
        return ""

    def far_accepted(self, rate: float) -> Sequence[bool]:
        """Return in which classes' models rows infinitely far away are inside."""
        del rate
        return [model.far_margin_ >= 0 for model in self.models]

    def doubts(self, rate: float) -> list[str]:
        """Return what is to be warned of: fits say themselves what they found."""
        return [_far_accepted(self.classes[np.array(self.far_accepted(rate))])]
