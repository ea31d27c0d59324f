"""What names a sample, and says whether the name stands.

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

from slabsvm.conformal.doubts import found_no_direction
from slabsvm.conformal.p_values import WHOLE
from slabsvm.detectors.explained import explanation_of
from slabsvm.openset.classwise import call_method
from slabsvm.openset.doubts import far_accepted, out_of_reach, too_few, without_direction
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.parallel import parallel
from slabsvm.runtime.sklearn_private import _safe_indexing


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

    def shares(self, X: Any, levels: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return what each feature adds to the largest of a row's scores less levels, shape (n_samples, n_features)."""
        table = self.scores(X, n_jobs) - levels
        nearest = table.argmax(axis=1)
        found: list[tuple[IndexArray, FloatArray]] = []
        for k in np.unique(nearest):
            rows = np.flatnonzero(nearest == k)
            of_model = explanation_of(self.models[k], _safe_indexing(X, rows))
            # The model's own level may be another.
            found.append((rows, of_model.less(of_model.decisions[0] - table[rows[0], k]).shares))
        shares = np.empty((len(table), found[0][1].shape[1]))
        for rows, own in found:
            shares[rows] = own
        return shares

    @abstractmethod
    def far_accepted(self, rate: float) -> list[bool]:
        """Return which classes accept rows infinitely far away."""

    def doubts(self, rate: float) -> list[str]:
        """Return what is to be warned of."""
        undirected = [found_no_direction(model.estimators_) for model in self.models]
        far = [
            accepts and len(texts) < len(model.estimators_)
            for accepts, texts, model in zip(self.far_accepted(rate), undirected, self.models, strict=True)
        ]
        return [
            self.too_few(rate),
            without_direction(undirected, self.classes),
            far_accepted(far, self.classes),
            out_of_reach([model.out_of_reach_ > rate for model in self.models], self.classes, rate),
        ]

    def _columns(self, X: Any, method: str, n_jobs: int | None) -> FloatArray:
        """Return the values of each model's method of this name, shape (n_samples, n_classes)."""
        columns = parallel((delayed(call_method)(model, method, X) for model in self.models), n_jobs)
        return np.stack(columns, axis=1)


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

    def far_accepted(self, rate: float) -> list[bool]:
        """Return which classes' models give rows infinitely far away more than their level."""
        strictest = [max(model.level(rate), model.smallest_p_value_) * (1 + WHOLE) for model in self.models]
        return [model.far_p_value_ > least for model, least in zip(self.models, strictest, strict=True)]


@dataclass(frozen=True, eq=False)
class ByMargins(Naming):
    """The name is the class in whose model a sample lies deepest, by normalised margins."""

    def scores(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Return margins."""
        return self._columns(X, "decision_function", n_jobs)

    def levels(self, rate: float) -> FloatArray:
        """Return zeros: each model keeps its own threshold, at any rate."""
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

    def far_accepted(self, rate: float) -> list[bool]:
        """Return in which classes' models rows infinitely far away are inside."""
        del rate
        return [model.far_margin_ >= 0 for model in self.models]

    def doubts(self, rate: float) -> list[str]:
        """Return what is to be warned of: fits say themselves what they found."""
        return [far_accepted(self.far_accepted(rate), self.classes)]


def names(table: FloatArray) -> IndexArray:
    """Return the place of the class whose name stands, of each row of scores less levels; -1 where none does."""
    best = table.argmax(axis=1)
    return np.where(table[np.arange(len(table)), best] >= 0, best, -1)
