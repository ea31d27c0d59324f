"""All runs of a search: every candidate fitted on every split and judged, in threads, with progress and their journal.

RBF candidates of one gamma share the kernel's values among training rows, with held-out rows and synthetic outliers. A
fit starts from the solution of the fit before it; at the same gamma, where no box binds, that is its solution. The
detector does all the rest: it is given the kernel's values.

The journal is a file of results, one JSON record a line, each written as soon as it is known. Work that is killed
half-way has lost no finished result. Each line has its record's checksum: one that was cut short or changed since is
passed over, so that no report is made of it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Real
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any
from zlib import crc32

import joblib
import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from slabsvm.data.distinct import Distinct, distinct_rows
from slabsvm.data.files import named_errors, open_regular, write_whole
from slabsvm.detectors.answers import Answer, answer, left_out_answer, nominal_recall, refuse_other_polarity
from slabsvm.detectors.base import SlabCollapseWarning, rows_of
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.fitted.training import Training, routed, routed_before
from slabsvm.gram.computed import OneHeld
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import silenced
from slabsvm.runtime.sklearn_private import _check_method_params, _safe_indexing, _safe_split, validate_parameters
from slabsvm.selection.criteria import Criterion, Measured
from slabsvm.selection.folds import Split

Parameters = Mapping[str, Any]
Record = dict[str, Any]
Run = tuple[int, int]  # the numbers of a candidate and of a split
JournalPath = str | os.PathLike[str] | None

Progress = Callable[[int, int, float], object]

MOST_BYTES = 2**28  # of kernel values at one gamma: where they take more, candidates are fitted independently
CHECKSUM = "checksum"
LONGEST = 1 << 26  # bytes; no record is so long, and of a file without ends of lines no more than this is in memory


class Steps:
    """Counts the fits of a search over all of its grids, with the refit as the last.

    progress, or None, is called with the fits that are done, all that are known to come, and an estimate of the seconds
    left.
    """

    def __init__(self, progress: Progress | None, *, refit: bool = False) -> None:
        self._report, self._refit, self._begin = progress or (lambda *_: None), refit, perf_counter()
        self._n_timed = self._n_before = self._n_done = 0

    def fitted(self, done: int, total: int) -> None:
        """Report a finished fit; so many of the present grid's fits are done."""
        self._n_timed += 1
        self._n_done = self._n_before + done
        each = (perf_counter() - self._begin) / self._n_timed
        self._report(self._n_done, self._n_before + total + self._refit, each * (total - done + self._refit))

    def next_grid(self, total: int) -> None:
        """Go on to another grid, after a grid of so many fits."""
        self._n_done = self._n_before = self._n_before + total

    def refitted(self) -> None:
        """Report that the refit is finished, and all work with it."""
        self._n_done += 1
        self._report(self._n_done, self._n_done, 0.0)


class WithProgress:
    """An estimator whose `progress`, which writes to this process's terminal, `clone` keeps, and pickles leave out."""

    def __getstate__(self) -> dict[str, object]:
        """Return what to pickle: everything but the progress function."""
        state: dict[str, object] = super().__getstate__()  # type: ignore[assignment]  # BaseEstimator's is a dict
        return {**state, "progress": None}


@dataclass(frozen=True)
class Outcome:
    """The result of one run: what the criterion measured, the nominal recall, and seconds; or why the fit failed."""

    measured: Measured
    nominal_recall: float = np.nan
    fit_time: float = np.nan
    score_time: float = np.nan
    failure: str = ""


@dataclass(frozen=True)
class Search:
    """What all runs of a search have in common."""

    estimator: Any
    candidates: Sequence[Parameters]
    splits: Sequence[Split]
    X: Any
    fit_params: Mapping[str, Any]
    criterion: Criterion
    weights: FloatArray | None = None

    def weights_of(self, rows: IndexArray) -> FloatArray | None:
        """Return the weights of some rows, or None where all count alike."""
        return None if self.weights is None else self.weights[rows]

    def judged(self, detector: Any, split: Split, answers: Sequence[Answer], fit_time: float, begin: float) -> Outcome:
        """Return the outcome of a detector's answers to a split's positives and, if it has any, synthetic outliers."""
        measured = self.criterion.measure(answers[0], answers[1] if len(answers) > 1 else None, split.outliers)
        return Outcome(measured, nominal_recall(detector), fit_time, perf_counter() - begin)

    def unfitted(self, candidate: int) -> tuple[Any, Parameters]:
        """Return a fresh clone of the estimator with a candidate's parameters, and these."""
        parameters = clone(dict(self.candidates[candidate]), safe=False)
        return clone(self.estimator).set_params(**parameters), parameters


def run_all(
    search: Search, steps: Steps, *, n_jobs: int | None, journal: JournalPath, reuse: bool, raises: bool
) -> list[list[Outcome]]:
    """Return the outcome of every candidate on every split; those that the journal holds are not computed."""
    recorder = _Recorder(search, journal, steps)
    candidates, numbers = range(len(search.candidates)), range(len(search.splits))
    missing = [(c, number) for number in numbers for c in candidates if (c, number) not in recorder.outcomes]
    linked = chains(search, missing) if reuse else []
    in_chains = {run for chain in linked for run in chain.runs}
    tasks = [delayed(_run_chain)(chain, recorder, raises) for chain in linked]
    tasks += [delayed(_run_alone)(search, run, recorder, raises) for run in missing if run not in in_chains]
    with ONE_BLAS_THREAD:  # in each thread; the solvers release the interpreter's lock
        Parallel(n_jobs=n_jobs, require="sharedmem")(tasks)
    return [[recorder.outcomes[c, number] for number in numbers] for c in candidates]


class _Recorder:
    """Keeps the outcome of each run in memory and in the journal, and reports progress."""

    def __init__(self, search: Search, journal: JournalPath, steps: Steps) -> None:
        self.outcomes: dict[Run, Outcome] = {}
        self._total = len(search.candidates) * len(search.splits)
        self._steps = steps
        self._lock = Lock()
        self._journal = None if journal is None else Journal(journal)
        self._keys: dict[Run, str] = {}
        if self._journal is not None:
            self._keys = _keys(search)
            runs = {key: run for run, key in self._keys.items()}
            made = search.splits[0].outliers
            two, of_made = (np.zeros(n) for n in (2, 0 if made is None else made.X.shape[0]))
            outliers = None if made is None else Answer(of_made, of_made == 0)
            wanted = set(search.criterion.measure(Answer(two, two == 0), outliers, made))
            for record in self._journal.records():
                name = record.get("cell")
                outcome = _recorded(record, wanted)
                if isinstance(name, str) and name in runs and outcome is not None:
                    self.outcomes[runs[name]] = outcome

    def keep(self, run: Run, outcome: Outcome) -> None:
        """Keep an outcome; a failure is not written to the journal, so that it is tried again."""
        with self._lock:
            self.outcomes[run] = outcome
            if self._journal is not None and not outcome.failure:
                kept = {name: value for name, value in asdict(outcome).items() if name != "failure"}
                kept["measured"] = {name: float(value) for name, value in outcome.measured.items()}
                self._journal.append({"cell": self._keys[run], **kept})
            self._steps.fitted(len(self.outcomes), self._total)


# A grid provokes some warnings on purpose; the refit of the chosen candidate gives them.
@silenced(SlabCollapseWarning)
@silenced(ConvergenceWarning)
def _run_alone(search: Search, run: Run, recorder: _Recorder, raises: bool) -> None:
    try:
        outcome = fit_and_judge(search, *run)
    except Exception as error:
        if raises:
            raise
        outcome = Outcome({}, failure=f"{type(error).__name__}: {error}")
    recorder.keep(run, outcome)


@silenced(SlabCollapseWarning)
@silenced(ConvergenceWarning)
def _run_chain(chain: Chain, recorder: _Recorder, raises: bool) -> None:
    outcomes = chain.run()
    for run in chain.runs:
        try:
            outcome = next(outcomes)
        except Exception:  # the candidates that are left are fitted independently: the detector says what is wrong
            break
        recorder.keep(run, outcome)
    for run in chain.runs:
        if run not in recorder.outcomes:
            _run_alone(chain.search, run, recorder, raises)


def fit_and_judge(search: Search, candidate: int, number: int) -> Outcome:
    """Fit a candidate on the split of this number, and judge it."""
    split = search.splits[number]
    detector, _ = search.unfitted(candidate)
    train_X, _ = _safe_split(detector, search.X, None, split.train)
    begin = perf_counter()
    given = _check_method_params(search.X, search.fit_params, indices=split.train)
    weights = search.weights_of(split.train)
    detector.fit(train_X, **given, **routed(detector, weights))
    fitted = perf_counter()
    if split.held_out is None:
        answers = [left_out_answer(detector, weights)]
    else:
        held_out, _ = _safe_split(detector, search.X, None, split.held_out, split.train)
        answers = [replace(answer(detector, held_out), weights=search.weights_of(split.held_out))]
        refuse_other_polarity(detector, held_out, answers[0].values)
    answers += [] if split.outliers is None else [answer(detector, split.outliers.X)]
    return search.judged(detector, split, answers, fitted - begin, fitted)


@dataclass(frozen=True)
class Chain:
    """Candidates that differ in the detector's parameters alone, to be fitted on one split one after the other."""

    search: Search
    runs: Sequence[Run]
    parameters: Sequence[Parameters]  # of each run's detector, by its names
    models: Sequence[Any]  # with these parameters, not fitted

    def run(self) -> Iterator[Outcome]:
        """Fit and judge each candidate, and give its outcome."""
        search, split = self.search, self.search.splits[self.runs[0][1]]
        begin = perf_counter()
        first, training, group, judged = self._prepared(split)
        gram_of = OneHeld(MOST_BYTES, judged)
        shared = (perf_counter() - begin) / len(self.runs)
        for parameters in self.parameters:
            begin = perf_counter()
            # A model has taken these parameters already, of which set_params makes sure slowly.
            detector = copy(first)
            detector.__dict__.update(parameters)
            validate_parameters(detector)
            detector.fit_training(training, part=True, gram_of=gram_of)
            fitted = perf_counter()
            support, beta, answers = detector.model_.support, np.zeros(len(training.distinct.weights)), []
            beta[support.rows] = support.coefficients
            # The kernel values with the training rows are known, (n, m).
            for X, values in zip(judged, gram_of.values, strict=True):
                decisions = detector.score_along(values @ beta, X) - detector.offset_
                answers.append(Answer(decisions, decisions >= 0))
            if split.held_out is None:
                known = left_out_answer(detector)
                answers.insert(0, Answer(known.values[group], known.accepted[group]))
            answers[0] = replace(answers[0], weights=search.weights_of(split.judged))
            yield search.judged(detector, split, answers, shared + fitted - begin, fitted)

    def _prepared(self, split: Split) -> tuple[SupportVectorDetector, Training, IndexArray, list[Any]]:
        """Return what the candidates share: a detector that is not fitted but has seen the rows' features, and rows.

        The rows are the distinct ones to learn from, which of them each row is (-1 for weight 0), and all to judge.
        """
        search, model, weights = self.search, self.models[0], self.search.weights_of(split.train)
        train = _safe_indexing(search.X, split.train)
        judged = [] if split.held_out is None else [_safe_indexing(search.X, split.held_out)]
        judged += [] if split.outliers is None else [split.outliers.X]
        if isinstance(model, Pipeline) and len(model) > 1:
            head = clone(model[:-1])
            train = head.fit_transform(train, **routed_before(head, weights))
            judged = [head.transform(some) for some in judged]
        detector = clone(model[-1] if isinstance(model, Pipeline) else model)
        train = rows_of(detector, train, reset=True)
        judged = [rows_of(detector, some) for some in judged]
        distinct = distinct_rows(train, np.ones(train.shape[0]) if weights is None else weights)
        rows, every = train[distinct.representatives], np.arange(len(distinct.weights))
        own = Distinct(every, distinct.weights, every, keys=distinct.keys)
        return detector, Training(rows, distinct.weights, own), distinct.group, judged


def chains(search: Search, runs: Sequence[Run]) -> list[Chain]:
    """Return chains of those runs that can share kernel values."""
    if search.fit_params:
        return []
    known = {candidate: _shared(search, candidate) for candidate in {candidate for candidate, _ in runs}}
    linked = defaultdict(list)
    for run in runs:
        if found := known[run[0]]:
            model, own, alike = found
            linked[run[1], alike].append((run, own, model))

    def place(link: tuple[Run, Parameters, Any]) -> tuple[float, str]:
        """Neighbours in parameters follow each other, and the largest gamma, which is solved quickly, comes first."""
        gamma = link[1].get("gamma")
        return (float(gamma) if isinstance(gamma, Real) else 0.0, repr(sorted(link[1].items())))

    return [Chain(search, *zip(*sorted(links, key=place, reverse=True), strict=True)) for links in linked.values()]


def _shared(search: Search, candidate: int) -> tuple[Any, Parameters, str] | None:
    """Return a candidate's model, its detector's parameters, and a name of its chain; None where it is in none."""
    try:
        model, parameters = search.unfitted(candidate)
        final = model[-1] if isinstance(model, Pipeline) else model
        if not isinstance(final, SupportVectorDetector) or final.kernel != "rbf":
            return None
        prefix = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
        own = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
        rest = {name: value for name, value in parameters.items() if not name.startswith(prefix)}
        return model, own, f"{joblib.hash(rest)} {sorted(own)}"
    except Exception:  # an independent fit raises the same error
        return None


def _recorded(record: Mapping[str, Any], wanted: set[str]) -> Outcome | None:
    """Return the outcome that a record of a journal holds, None where it holds none."""
    measured = record.get("measured")
    others = [record.get(name) for name in ("nominal_recall", "fit_time", "score_time")]
    if not isinstance(measured, dict) or not wanted <= set(measured):
        return None
    if not all(isinstance(number, float | int) for number in [*measured.values(), *others]):
        return None
    return Outcome(measured, record["nominal_recall"], record["fit_time"], record["score_time"])


def _keys(search: Search) -> dict[Run, str]:
    """Return a name for each run in a journal, made of all that its outcome depends on."""
    try:
        known = (clone(search.estimator), search.X, dict(search.fit_params), repr(search.criterion))
        # Without weights the name has none, so that journals of searches with and without weights stay valid.
        common = joblib.hash(known if search.weights is None else (*known, search.weights))
        splits = [joblib.hash(split) for split in search.splits]
        candidates = [joblib.hash(dict(candidate)) for candidate in search.candidates]
    except Exception as error:
        raise ValueError(
            "A journal identifies its runs by the estimator, the data and the parameters, and a part of these cannot "
            f"be pickled ({error}). Define functions at the top of a module, or leave journal out."
        ) from error
    return {(c, p): f"{common}-{name}-{split}" for c, name in enumerate(candidates) for p, split in enumerate(splits)}


class Journal:
    """Records in a file, appended from any thread.

    All methods raise OSError where the file cannot be read or written, is a link, or no regular file.

    Parameters
    ----------
    path : str or path
        The file; it and its folder are made when the first record is written. A link is refused: whoever put it there
        would have records read from, or written into, another file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = Lock()

    def records(self) -> Iterator[Record]:
        """Give the records in the order in which they were written; broken lines are passed over."""
        return (record for _, record in self._lines() if record is not None)

    def broken(self) -> list[int]:
        """Return the numbers, from 1, of lines that hold no record as it was written."""
        return [number for number, record in self._lines() if record is None]

    def append(self, record: Record) -> None:
        """Write a record as a whole line, at once; TypeError where it holds what JSON has no form for."""
        line = _line(record)
        with self._lock, named_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open_regular(self.path, "a+b", links=False) as file:
                # Work killed in the middle of a line left it without an end: this record must not be glued to it.
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                file.write(line)

    def keep(self, wanted: Callable[[Record], bool]) -> None:
        """Forget all records but those that are wanted."""
        with self._lock:
            write_whole(self.path, b"".join(_line(record) for record in self.records() if wanted(record)))

    def _lines(self) -> Iterator[tuple[int, Record | None]]:
        """Give the number of each line that is not blank, and its record, None where there is none."""
        if not os.path.lexists(self.path):
            return
        with open_regular(self.path, links=False) as file:
            for number, line in enumerate(iter(partial(file.readline, LONGEST), b""), start=1):
                if line.strip():
                    yield number, _record(line)


def _line(record: Record) -> bytes:
    return json.dumps({**record, CHECKSUM: _checksum(record)}).encode() + b"\n"


def _record(line: bytes) -> Record | None:
    """Return the record of a line, None where the line is not what was written."""
    try:
        record = json.loads(line)
        return record if record.pop(CHECKSUM) == _checksum(record) else None
    # Not JSON, or nested too deep to be read; no record; or one without a checksum.
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return None


def _checksum(record: Record) -> int:
    """Return the checksum of a record, the same before it was written and after it was read."""
    return crc32(json.dumps(record).encode())
