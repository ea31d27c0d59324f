"""All runs of a search: in threads, with a journal, and with reports of progress."""

from __future__ import annotations

import os
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

from slabsvm.detectors.answers import Answer
from slabsvm.detectors.base import SlabCollapseWarning
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import silenced
from slabsvm.runtime.sklearn_private import _num_samples
from slabsvm.selection.journal import Journal
from slabsvm.selection.judging import Outcome, Search, fit_and_judge
from slabsvm.selection.progress import Steps
from slabsvm.selection.reuse import Chain, chains

Run = tuple[int, int]  # the numbers of a candidate and of a split


class _Recorder:
    """Keeps the outcome of each run in memory and in the journal, and reports progress."""

    def __init__(self, search: Search, journal: str | os.PathLike[str] | None, steps: Steps) -> None:
        self.total = len(search.candidates) * len(search.splits)
        self.outcomes: dict[Run, Outcome] = {}
        self._steps = steps
        self._lock = Lock()
        self._journal = None if journal is None else Journal(journal)
        self._keys: dict[Run, str] = {}
        if self._journal is not None:
            self._keys = _keys(search)
            runs = {key: run for run, key in self._keys.items()}
            wanted = _wanted(search)
            for record in self._journal.records():
                name = record.get("cell")
                outcome = _recorded(record, wanted)
                if isinstance(name, str) and name in runs and outcome is not None:
                    self.outcomes[runs[name]] = outcome

    def keep(self, run: Run, outcome: Outcome) -> None:
        """Keep an outcome; a failure is not written to the journal, so that it is tried again.

        An error that the journal or the progress function raises ends the search: it is no failure of a fit.
        """
        with self._lock:
            self.outcomes[run] = outcome
            if self._journal is not None and not outcome.failure:
                kept = {name: value for name, value in asdict(outcome).items() if name != "failure"}
                kept["measured"] = {name: float(value) for name, value in outcome.measured.items()}
                self._journal.append({"cell": self._keys[run], **kept})
            self._steps.fitted(len(self.outcomes), self.total)


def run_all(
    search: Search,
    *,
    n_jobs: int | None,
    journal: str | os.PathLike[str] | None,
    steps: Steps,
    reuse: bool,
    raises: bool,
) -> list[list[Outcome]]:
    """Return the outcome of every candidate on every split; those that the journal holds are not computed.

    Threads share the data, each with one BLAS thread; the solvers release the interpreter's lock.
    """
    recorder = _Recorder(search, journal, steps)
    missing = [
        (candidate, split)
        for split in range(len(search.splits))
        for candidate in range(len(search.candidates))
        if (candidate, split) not in recorder.outcomes
    ]
    linked = chains(search, missing) if reuse else []
    in_chains = {(candidate, chain.split) for chain in linked for candidate in chain.candidates}
    tasks = [delayed(_run_chain)(chain, recorder, raises) for chain in linked]
    tasks += [delayed(_run_alone)(search, run, recorder, raises) for run in missing if run not in in_chains]
    with ONE_BLAS_THREAD:
        Parallel(n_jobs=n_jobs, require="sharedmem")(tasks)
    outcomes = recorder.outcomes
    return [[outcomes[c, p] for p in range(len(search.splits))] for c in range(len(search.candidates))]


def _run_alone(search: Search, run: Run, recorder: _Recorder, raises: bool) -> None:
    try:
        with _expected_warnings():
            outcome = fit_and_judge(search, *run)
    except Exception as error:
        if raises:
            raise
        outcome = Outcome({}, failure=f"{type(error).__name__}: {error}")
    recorder.keep(run, outcome)


def _run_chain(chain: Chain, recorder: _Recorder, raises: bool) -> None:
    with _expected_warnings():
        for candidate, outcome in _until_broken(chain.run()):
            recorder.keep((candidate, chain.split), outcome)
    # Runs that a chain did not finish are fitted independently, so that the detector itself says what is wrong.
    for candidate in chain.candidates:
        if (candidate, chain.split) not in recorder.outcomes:
            _run_alone(chain.search, (candidate, chain.split), recorder, raises)


def _until_broken(outcomes: Iterator[tuple[int, Outcome]]) -> Iterator[tuple[int, Outcome]]:
    """Give outcomes until a fit raises; errors raised while an outcome is kept pass through."""
    with suppress(Exception):
        yield from outcomes


@contextmanager
def _expected_warnings() -> Iterator[None]:
    """Silence warnings that a grid provokes on purpose; the refit of the chosen candidate warns."""
    with silenced(SlabCollapseWarning), silenced(ConvergenceWarning):
        yield


def _wanted(search: Search) -> set[str]:
    """Return the names of what the criterion measures."""
    made = search.splits[0].outliers
    answers = [Answer(np.zeros(n), np.ones(n, dtype=bool)) for n in (2, 0 if made is None else _num_samples(made.X))]
    return set(search.criterion.measure(answers[0], None if made is None else answers[1], made))


def _recorded(record: Mapping[str, Any], wanted: set[str]) -> Outcome | None:
    """Return the outcome that a record holds, None where it holds none."""
    measured, others = (
        record.get("measured"),
        [record.get(name) for name in ("nominal_recall", "fit_time", "score_time")],
    )
    if not isinstance(measured, dict) or not wanted <= set(measured):
        return None
    if not all(isinstance(number, float | int) for number in [*measured.values(), *others]):
        return None
    return Outcome(measured, record["nominal_recall"], record["fit_time"], record["score_time"])


def _keys(search: Search) -> dict[Run, str]:
    """Return a name for each run, made of all that its outcome depends on."""
    try:
        known = (clone(search.estimator), search.X, dict(search.fit_params), repr(search.criterion))
        # Without weights the name has none, so that journals of searches with and without weights stay valid.
        common = joblib.hash(known if search.weights is None else (*known, search.weights))
        splits = [joblib.hash(split) for split in search.splits]
        candidates = [joblib.hash(dict(candidate)) for candidate in search.candidates]
    except Exception as error:
        raise ValueError(
            f"A journal names its runs by the estimator, the data and the parameters, of which something cannot be "
            f"pickled ({error}). Define functions at the top of a module, or leave journal out."
        ) from error
    return {
        (candidate, split): f"{common}-{candidate_name}-{part_name}"
        for candidate, candidate_name in enumerate(candidates)
        for split, part_name in enumerate(splits)
    }
