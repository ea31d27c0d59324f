"""Run the cells of a search: in threads, with a journal, and with word of the progress."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from threading import Lock
from typing import Any

import joblib
import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from slabsvm.detectors.answers import Answer
from slabsvm.detectors.base import SlabCollapseWarning
from slabsvm.runtime.sklearn_private import _num_samples
from slabsvm.selection.journal import Journal
from slabsvm.selection.judging import Outcome, Search, fit_and_judge
from slabsvm.selection.progress import Steps
from slabsvm.selection.reuse import Chain, chains

Cell = tuple[int, int]  # a candidate and a part


class _Recorder:
    """Keeps what came of each cell: in memory, in the journal, and as progress."""

    def __init__(self, search: Search, journal: str | os.PathLike[str] | None, steps: Steps) -> None:
        self.total = len(search.candidates) * len(search.parts)
        self.outcomes: dict[Cell, Outcome] = {}
        self._steps = steps
        self._lock = Lock()
        self._journal = None if journal is None else Journal(journal)
        self._keys: dict[Cell, str] = {}
        if self._journal is not None:
            self._keys = _keys(search)
            cells = {key: cell for cell, key in self._keys.items()}
            wanted = _wanted(search)
            for record in self._journal.records():
                name = record.get("cell")
                outcome = _recorded(record, wanted)
                if isinstance(name, str) and name in cells and outcome is not None:
                    self.outcomes[cells[name]] = outcome

    def keep(self, cell: Cell, outcome: Outcome) -> None:
        """Keep an outcome; a failure is not written down, so that it is tried again.

        What the journal or the progress raises ends the search: it is no failure of a fit.
        """
        with self._lock:
            self.outcomes[cell] = outcome
            if self._journal is not None and not outcome.failure:
                kept = {name: value for name, value in asdict(outcome).items() if name != "failure"}
                kept["measured"] = {name: float(value) for name, value in outcome.measured.items()}
                self._journal.append({"cell": self._keys[cell], **kept})
            self._steps.fitted(len(self.outcomes), self.total)


def run_cells(
    search: Search,
    *,
    n_jobs: int | None,
    journal: str | os.PathLike[str] | None,
    steps: Steps,
    reuse: bool,
    raises: bool,
) -> list[list[Outcome]]:
    """Return the outcome of every candidate on every part, computing those that the journal does not hold.

    Threads share the data, each with one BLAS thread; the solvers release the interpreter's lock.
    """
    recorder = _Recorder(search, journal, steps)
    missing = [
        (candidate, part)
        for part in range(len(search.parts))
        for candidate in range(len(search.candidates))
        if (candidate, part) not in recorder.outcomes
    ]
    linked = chains(search, missing) if reuse else []
    in_chains = {(candidate, chain.part) for chain in linked for candidate in chain.candidates}
    tasks = [delayed(_run_chain)(chain, recorder, raises) for chain in linked]
    tasks += [delayed(_run_alone)(search, cell, recorder, raises) for cell in missing if cell not in in_chains]
    with _expected_warnings(), threadpool_limits(1, "blas"):
        Parallel(n_jobs=n_jobs, require="sharedmem")(tasks)
    outcomes = recorder.outcomes
    return [[outcomes[c, p] for p in range(len(search.parts))] for c in range(len(search.candidates))]


def _run_alone(search: Search, cell: Cell, recorder: _Recorder, raises: bool) -> None:
    try:
        outcome = fit_and_judge(search, *cell)
    except Exception as error:
        if raises:
            raise
        outcome = Outcome({}, failure=f"{type(error).__name__}: {error}")
    recorder.keep(cell, outcome)


def _run_chain(chain: Chain, recorder: _Recorder, raises: bool) -> None:
    for candidate, outcome in _until_broken(chain.run()):
        recorder.keep((candidate, chain.part), outcome)
    # What a chain cannot do, independent fits do, or refuse in the words of the detector.
    for candidate in chain.candidates:
        if (candidate, chain.part) not in recorder.outcomes:
            _run_alone(chain.search, (candidate, chain.part), recorder, raises)


def _until_broken(outcomes: Iterator[tuple[int, Outcome]]) -> Iterator[tuple[int, Outcome]]:
    """Give what the fits give until one of them raises; what is raised where they are kept is not theirs."""
    with suppress(Exception):
        yield from outcomes


@contextmanager
def _expected_warnings() -> Iterator[None]:
    """Silence what a grid provokes on purpose; of the candidate that is chosen, the refit warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlabCollapseWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _wanted(search: Search) -> set[str]:
    """Return the names of what the criterion measures."""
    made = search.parts[0].strangers
    answers = [Answer(np.zeros(n), np.ones(n, dtype=bool)) for n in (2, 0 if made is None else _num_samples(made.X))]
    return set(search.criterion.measure(answers[0], None if made is None else answers[1], made))


def _recorded(record: Mapping[str, Any], wanted: set[str]) -> Outcome | None:
    """Return the outcome that a record holds, None where it holds no such thing."""
    measured, seconds = record.get("measured"), [record.get("fit_time"), record.get("score_time")]
    if not isinstance(measured, dict) or not wanted <= set(measured):
        return None
    if not all(isinstance(number, float | int) for number in [*measured.values(), *seconds]):
        return None
    return Outcome(measured, record["fit_time"], record["score_time"])


def _keys(search: Search) -> dict[Cell, str]:
    """Return a name for each cell that depends on all that its outcome depends on."""
    try:
        known = (clone(search.estimator), search.X, dict(search.fit_params), repr(search.criterion))
        # Names of searches without weights are what they were before there were any.
        common = joblib.hash(known if search.weights is None else (*known, search.weights))
        parts = [joblib.hash(part) for part in search.parts]
        candidates = [joblib.hash(dict(candidate)) for candidate in search.candidates]
    except Exception as error:
        raise ValueError(
            f"A journal names its cells by the estimator, the data and the parameters, of which something cannot be "
            f"pickled ({error}). Define functions at the top of a module, or leave journal out."
        ) from error
    return {
        (candidate, part): f"{common}-{candidate_name}-{part_name}"
        for candidate, candidate_name in enumerate(candidates)
        for part, part_name in enumerate(parts)
    }
