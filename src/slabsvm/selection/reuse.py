"""Fit many RBF candidates on one split without computing anything twice.

Independent fits of a grid compute the same distances again for each candidate: between the training rows, and from them
to every held-out row and synthetic outlier. Here distances are computed once for each split. Each gamma costs one
exponential of them, and each nu none. Each fit starts from the solution of the fit before it; at the same gamma, where
no box binds, that is its solution. The detector itself does all the rest: it is given the kernel's values in place of
computing them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from numbers import Real
from time import perf_counter
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from slabsvm.data.distinct import Distinct, distinct_rows
from slabsvm.detectors.answers import Answer, left_out_answer, nominal_recall
from slabsvm.detectors.support_vector_fit import Start
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.detectors.training import Training
from slabsvm.detectors.weighting import routed_before
from slabsvm.gram.distances import SharedDistances
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.sklearn_private import _safe_indexing
from slabsvm.selection.judging import Outcome, Parameters, Search

# Distances that take more bytes than this are not kept: candidates are then fitted independently.
MOST_BYTES = 2**28


@dataclass(frozen=True)
class _Tables:
    """The rows of one split as the steps before the detector pass them on.

    Attributes
    ----------
    training : Training
        The distinct rows to learn from, each its own sample, in the order that a fit of the detector takes them in.
    group : (n,) array of intp
        Which of them each row to learn from is equal to; -1 for a row of weight 0.
    judged : list of tables, the held-out rows and the synthetic outliers, of those that there are
    detector : SupportVectorDetector
        The first candidate's, not fitted, which has seen the rows' features.
    """

    training: Training
    group: IndexArray
    judged: list[Any]
    detector: SupportVectorDetector


@dataclass(frozen=True)
class _Link:
    """A candidate that can be in a chain.

    Attributes
    ----------
    candidate : int, its number
    model : with its parameters, not fitted
    own : the parameters of its detector, by the detector's names
    alike : a name for all that must be the same along a chain
    """

    candidate: int
    model: Any
    own: Parameters
    alike: str

    @property
    def place(self) -> tuple[float, str]:
        """The sorting key in a chain: gamma, if that is a number, then the rest."""
        gamma = self.own.get("gamma")
        return (float(gamma) if isinstance(gamma, Real) else 0.0, repr(sorted(self.own.items())))


@dataclass(frozen=True)
class Chain:
    """Candidates that differ in the detector's parameters alone, to be fitted on one split one after the other.

    Attributes
    ----------
    search : Search
    split : int, its number
    links : the candidates, neighbours in parameters next to each other; the largest gamma, which is solved quickly,
        comes first
    """

    search: Search
    split: int
    links: Sequence[_Link]

    @property
    def candidates(self) -> list[int]:
        """The candidates' numbers."""
        return [link.candidate for link in self.links]

    def run(self) -> Iterator[tuple[int, Outcome]]:
        """Fit and judge each candidate; give its number and its outcome."""
        criterion, split = self.search.criterion, self.search.splits[self.split]
        begin = perf_counter()
        tables = self._tables()
        training = tables.training
        gram_of = SharedDistances(MOST_BYTES, judged=tables.judged)
        shared = (perf_counter() - begin) / len(self.links)
        start: Start | None = None
        for link in self.links:
            begin = perf_counter()
            # The link's model has taken these parameters already, of which set_params makes sure slowly.
            detector = copy(tables.detector)
            detector.__dict__.update(link.own)
            detector._validate_params()
            found = detector._learn(training, gram_of=gram_of, start=start)
            detector._take(training, found)
            start = found.start
            fitted = perf_counter()
            answers = [_answer(detector, X, values) for X, values in zip(tables.judged, gram_of.judged(), strict=True)]
            positives = answers[0] if split.held_out is not None else _left_out(detector, tables.group)
            positives = replace(positives, weights=self.search.weights_of(split.judged))
            outliers = None if split.outliers is None else answers[-1]
            measured = criterion.measure(positives, outliers, split.outliers)
            seconds = shared + fitted - begin, perf_counter() - fitted
            yield link.candidate, Outcome(measured, nominal_recall(detector), *seconds)

    def _tables(self) -> _Tables:
        """Return the split's rows as the steps before the detector pass them on."""
        search, split, model = self.search, self.search.splits[self.split], self.links[0].model
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
        rows = train[distinct.representatives]
        every = np.arange(rows.shape[0])
        own = Distinct(every, distinct.weights, every, keys=distinct.keys)
        return _Tables(Training(rows, distinct.weights, own), distinct.group, judged, detector)


def _left_out(detector: SupportVectorDetector, group: IndexArray) -> Answer:
    """Return how a detector would answer the rows that its samples stand for, had it not learned them."""
    known = left_out_answer(detector)
    return Answer(known.values[group], known.accepted[group])


def _answer(detector: SupportVectorDetector, X: Any, values: FloatArray) -> Answer:
    """Return how a detector answers validated rows whose kernel values with its training rows, (n, m), are known."""
    support = detector._fitted.support
    beta = np.zeros(values.shape[1])
    beta[support.rows] = support.coefficients
    scores = detector._score(values @ beta, X)
    decisions = scores - detector.offset_
    return Answer(decisions, decisions >= 0)


def chains(search: Search, runs: Sequence[tuple[int, int]]) -> list[Chain]:
    """Return chains of those runs, pairs of a candidate and a split, that can share distances."""
    if search.fit_params:
        return []
    known = {candidate: _link(search, candidate) for candidate in sorted({candidate for candidate, _ in runs})}
    linked = defaultdict(list)
    for candidate, split in runs:
        if link := known[candidate]:
            linked[split, link.alike].append(link)
    return [
        Chain(search, split, sorted(links, key=lambda link: link.place, reverse=True))
        for (split, _), links in linked.items()
    ]


def _link(search: Search, candidate: int) -> _Link | None:
    """Return a candidate as a link, None where it cannot be in a chain.

    A candidate may replace any step, so that its own detector decides; a candidate that cannot be named is not shared.
    """
    try:
        parameters = clone(dict(search.candidates[candidate]), safe=False)
        model = clone(search.estimator).set_params(**parameters)
        final = _final(model)
        if not isinstance(final, SupportVectorDetector) or final.kernel != "rbf":
            return None
        prefix = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
        own = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
        rest = {name: value for name, value in parameters.items() if not name.startswith(prefix)}
        return _Link(candidate, model, own, f"{joblib.hash(rest)} {sorted(own)}")
    except Exception:  # an independent fit raises the same error
        return None


def _final(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model
