"""Fit many RBF candidates on one split without computing anything twice.

Independent fits of a grid compute the same distances again for each candidate: between the training rows, and from them
to every held-out row and synthetic outlier. Here distances are computed once for each split. Each gamma costs one
exponential of them, and each nu none. Each fit starts from the solution of the fit before it. The detector itself does
all the rest: it is given the kernel's values in place of computing them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from time import perf_counter
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import Pipeline

from slabsvm.data.distinct import Distinct, distinct_rows
from slabsvm.detectors.answers import Answer, left_out_answer
from slabsvm.detectors.base import Training
from slabsvm.detectors.support_vector_fit import Start
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.detectors.weighting import routed_before
from slabsvm.gram.base import Gram
from slabsvm.gram.dense import Dense
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.sklearn_private import _safe_indexing
from slabsvm.selection.judging import Outcome, Parameters, Search

# Distances that take more bytes than this are not kept: candidates are then fitted independently.
MOST_BYTES = 2**28


class _Known(Dense):
    """An RBF kernel matrix: symmetric and positive semidefinite by construction."""

    @property
    def _trusted(self) -> bool:
        return True


class _Distances:
    """Squared distances of one split's rows from its distinct training rows, and the kernel's values at a gamma."""

    def __init__(self, distinct: Distinct, rows: Any, judged: Sequence[Any]) -> None:
        self._group = distinct.group
        n_samples = rows.shape[0]
        every = np.arange(n_samples)
        own = Distinct(every, distinct.weights, every, keys=every.astype(np.uint64))
        self.training = Training(rows, distinct.weights, own)
        sizes = [n_samples, *(some.shape[0] for some in judged)]
        self._bounds = np.cumsum([0, *sizes])
        if 8 * sum(sizes) * n_samples > MOST_BYTES:
            raise MemoryError(f"Distances of {sum(sizes)} rows from {n_samples} are not kept.")
        self._squared = np.empty((sum(sizes), n_samples))
        with np.errstate(over="ignore", invalid="ignore"):
            for begin, end, some in zip(self._bounds[:-1], self._bounds[1:], (rows, *judged), strict=True):
                self._squared[begin:end] = euclidean_distances(some, rows, squared=True)
        if not np.isfinite(self._squared).all():
            raise OverflowError("Squared distances overflow float64.")
        self._squared.flat[:: n_samples + 1][:n_samples] = 0.0
        self._values = np.empty_like(self._squared)
        self._gamma = np.nan

    def gram_of(self, kernel: Kernel, samples: Any, n_threads: int) -> Gram:
        """Return access to the RBF kernel's Gram matrix of the training rows; `samples` are these rows."""
        del samples, n_threads
        assert isinstance(kernel, RBF)
        return _Known(self._at(kernel.gamma)[0])

    def judged(self, gamma: float) -> list[FloatArray]:
        """Return the RBF kernel between each table of judged rows and the training rows."""
        return self._at(gamma)[1:]

    def _at(self, gamma: float) -> list[FloatArray]:
        if gamma != self._gamma:
            self._gamma = gamma
            np.exp(np.multiply(self._squared, -gamma, out=self._values), out=self._values)
        return [self._values[a:b] for a, b in zip(self._bounds[:-1], self._bounds[1:], strict=True)]

    def of_rows(self, known: Answer) -> Answer:
        """Return the answers to all rows, given those to the distinct rows."""
        return Answer(known.values[self._group], known.accepted[self._group])


@dataclass(frozen=True)
class Chain:
    """Candidates that differ in the detector's parameters alone, to be fitted on one split one after the other.

    Attributes
    ----------
    search : Search
    split : int, its number
    candidates : their numbers, neighbours in parameters next to each other
    model : the first candidate's, not fitted
    """

    search: Search
    split: int
    candidates: Sequence[int]
    model: Any

    def run(self) -> Iterator[tuple[int, Outcome]]:
        """Fit and judge each candidate; give its number and its outcome."""
        criterion, split = self.search.criterion, self.search.splits[self.split]
        begin = perf_counter()
        distances = self._distances()
        shared = (perf_counter() - begin) / len(self.candidates)
        start: Start | None = None
        for candidate in self.candidates:
            begin = perf_counter()
            detector: SupportVectorDetector = clone(_final(self.model))
            detector.set_params(**_own(self.search.candidates[candidate], _prefix(self.model)))
            detector._validate_params()
            found = detector._learn(distances.training, gram_of=distances.gram_of, start=start)
            detector._take(distances.training, found)
            start = found.start
            fitted = perf_counter()
            answers = [_answer(detector, values) for values in distances.judged(detector.gamma_)]
            positives = distances.of_rows(left_out_answer(detector)) if split.held_out is None else answers[0]
            positives = replace(positives, weights=self.search.weights_of(split.judged))
            outliers = None if split.outliers is None else answers[-1]
            measured = criterion.measure(positives, outliers, split.outliers)
            yield candidate, Outcome(measured, shared + fitted - begin, perf_counter() - fitted)

    def _distances(self) -> _Distances:
        """Return the distances between the rows as the steps before the detector pass them on."""
        search, split, model = self.search, self.search.splits[self.split], self.model
        weights = search.weights_of(split.train)
        train = _safe_indexing(search.X, split.train)
        judged = [] if split.held_out is None else [_safe_indexing(search.X, split.held_out)]
        judged += [] if split.outliers is None else [split.outliers.X]
        if isinstance(model, Pipeline) and len(model) > 1:
            head = clone(model[:-1])
            train = head.fit_transform(train, **routed_before(head, weights))
            judged = [head.transform(some) for some in judged]
        detector = clone(_final(model))
        train = detector._checked(train, reset=True)
        judged = [detector._checked(some, reset=False) for some in judged]
        distinct = distinct_rows(train, np.ones(train.shape[0]) if weights is None else weights)
        return _Distances(distinct, train[distinct.representatives], judged)


def _answer(detector: SupportVectorDetector, values: FloatArray) -> Answer:
    """Return how a detector answers rows whose kernel values with its training rows, (n, m), are known."""
    support = detector._fitted.support
    scores = detector._score(values[:, support.rows] @ support.coefficients, lambda: np.ones(len(values)))
    decisions = scores - detector.offset_
    return Answer(decisions, decisions >= 0)


def chains(search: Search, runs: Sequence[tuple[int, int]]) -> list[Chain]:
    """Return chains of those runs, pairs of a candidate and a split, that can share distances."""
    if search.fit_params:
        return []
    known = {candidate: _alike(search, candidate) for candidate in sorted({candidate for candidate, _ in runs})}
    linked = defaultdict(list)
    for candidate, split in runs:
        alike = known[candidate]
        if alike is not None:
            linked[split, alike].append(candidate)
    return [
        Chain(search, split, sorted(members, key=lambda member: _place(search, member)), _model(search, members[0]))
        for (split, _), members in linked.items()
    ]


def _alike(search: Search, candidate: int) -> str | None:
    """Return a name for all of a candidate that must be the same along a chain, None where it cannot be in one.

    A candidate may replace any step, so that its own detector decides; a candidate that cannot be named is not shared.
    """
    parameters = search.candidates[candidate]
    try:
        model = _model(search, candidate)
        final = _final(model)
        if not isinstance(final, SupportVectorDetector) or final.kernel != "rbf":
            return None
        own = _own(parameters, _prefix(model))
        rest = {name: value for name, value in parameters.items() if name.removeprefix(_prefix(model)) not in own}
        return f"{joblib.hash(rest)} {sorted(own)}"
    except Exception:  # an independent fit raises the same error
        return None


def _own(parameters: Parameters, prefix: str) -> dict[str, Any]:
    """Return those of a candidate's parameters that are the detector's, by its own names."""
    return {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}


def _place(search: Search, candidate: int) -> tuple[float, str]:
    """Return the sorting key of a candidate in a chain: its gamma, if that is a number, then the rest."""
    own = _own(search.candidates[candidate], _prefix(_model(search, candidate)))
    gamma = own.get("gamma")
    return (float(gamma) if isinstance(gamma, Real) else 0.0, repr(sorted(own.items())))


def _model(search: Search, candidate: int) -> Any:
    return clone(search.estimator).set_params(**clone(dict(search.candidates[candidate]), safe=False))


def _final(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def _prefix(model: Any) -> str:
    return f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
