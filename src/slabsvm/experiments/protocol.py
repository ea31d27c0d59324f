"""From specifications to records: run an experiment's cells, keep each result, resume where a run stopped.

A *cell* is a frozen dataclass that holds everything its result depends on. A *record* is a flat dictionary:
the cell's fields and what was measured. A *journal* is a file with one record a line, appended as soon as a
cell is done, so a run that was killed goes on where it stopped, and a finished one is read without computing
anything.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from slabsvm import OneClassSlabSVM, SlabCollapseWarning, __version__
from slabsvm.experiments.metrics import Counts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")
Record = dict[str, Any]

# A sample on a plane counts as inside, and a copy of a training sample that is on a plane is itself on it but
# for the last digits: relative to the plane's offset, this is as near as counts as on it.
TIE = 1e-8


@dataclass(frozen=True)
class OneClassCell:
    """One slab, learned from one class and faced with all of them.

    Attributes
    ----------
    data : str
        Name of the data set, with the start of its checksum where it is a file.
    known : str
        The class that the slab learns; all others are novel.
    kernel, gamma, nu_lower, nu_upper, epsilon, offsets, tol
        Parameters of :class:`slabsvm.OneClassSlabSVM`; gamma is None for kernels without one.
    version : str
        Version of slabsvm: a record made by another one is not taken for this cell's.
    """

    data: str
    known: str
    kernel: str
    gamma: float | None
    nu_lower: float
    nu_upper: float
    epsilon: float
    offsets: str
    tol: float
    version: str = __version__


def run(
    cells: Sequence[C],
    measure: Callable[[C], Record],
    journal: Path,
    *,
    n_jobs: int = 1,
    advance: Callable[[], object] = lambda: None,
) -> list[Record]:
    """Measure every cell that the journal does not hold yet; return the records of all, in the cells' order.

    The cells run in threads (the solver releases the interpreter's lock) with one BLAS thread each; what is
    measured does not depend on `n_jobs`.

    Parameters
    ----------
    cells : sequence of frozen dataclasses, all of one type
    measure : function from a cell to the dictionary of what was measured
    journal : path of the JSON-lines file; made, with its folder, when it is not there
    n_jobs : number of threads
    advance : called from the calling thread once for each cell, at once for those in the journal
    """
    done = known_records(journal, cells)
    for _ in done:
        advance()
    missing = [cell for cell in cells if _key(cell) not in done]
    if missing:
        with journal_writer(journal) as append, threadpool_limits(1, "blas"), expected_warnings():
            pool = ThreadPoolExecutor(n_jobs)
            try:
                tasks = {pool.submit(measure, cell): cell for cell in missing}
                for task in as_completed(tasks):
                    cell = tasks[task]
                    done[_key(cell)] = record = {**asdict(cell), **task.result()}
                    append(record)
                    advance()
            finally:
                # On an interruption the cells not yet begun are dropped: the journal already holds the
                # finished ones.
                pool.shutdown(cancel_futures=True)
    return [done[_key(cell)] for cell in cells]


def measure_one_class(cell: OneClassCell, train: NDArray[Any], test: NDArray[Any], known: NDArray[Any]) -> Record:
    """Fit the cell's slab on `train`, face it with `test`, and report the fit, its time and its decisions.

    Parameters
    ----------
    train : ndarray of shape (m, d), samples of the known class
    test : ndarray of shape (n, d)
    known : boolean ndarray of shape (n,), which of `test` belong to the known class
    """
    begin = perf_counter()
    slab = fit_slab(cell, train)
    fitted = perf_counter()
    scores = slab.project(test)
    scored = perf_counter()
    lower, upper = slab.rho_lower_, slab.rho_upper_
    tie = TIE * abs(lower)
    above = scores >= lower - tie
    on_a_plane = (np.abs(scores - lower) <= tie) | (np.abs(scores - upper) <= tie)
    counts = Counts.of(above & (scores <= upper + tie), known)
    lower_only = Counts.of(above, known)
    ties_rejected = Counts.of(above & (scores <= upper + tie) & ~on_a_plane, known)
    return {
        "m": len(train),
        "dual_objective": float(slab.dual_objective_),
        "duality_gap": float(slab.duality_gap_),
        "rho_lower": float(lower),
        "rho_upper": float(upper) if isfinite(upper) else None,
        "n_support": len(slab.support_),
        "n_iter": int(slab.n_iter_),
        "expected_recall": float(slab.expected_recall_),
        "on_a_plane": int(np.sum(on_a_plane)),
        **asdict(counts),
        "mcc": counts.mcc,
        "recall": counts.recall,
        "false_acceptance": counts.false_acceptance,
        "mcc_lower_only": lower_only.mcc,
        "recall_lower_only": lower_only.recall,
        "mcc_ties_rejected": ties_rejected.mcc,
        "recall_ties_rejected": ties_rejected.recall,
        "fit_seconds": round(fitted - begin, 6),
        "score_seconds": round(scored - fitted, 6),
    }


def fit_slab(cell: OneClassCell, train: NDArray[Any]) -> OneClassSlabSVM:
    """Fit the cell's slab on `train`, an ndarray of shape (m, d)."""
    slab = OneClassSlabSVM(
        kernel=cell.kernel,
        gamma="scale" if cell.gamma is None else cell.gamma,
        nu_lower=cell.nu_lower,
        nu_upper=cell.nu_upper,
        epsilon=cell.epsilon,
        offsets=cell.offsets,
        tol=cell.tol,
        n_jobs=1,
    )
    slab.fit(train)
    return slab


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Silence what an experiment provokes on purpose; the records hold its numbers: gap, expected recall."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlabCollapseWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def known_records(journal: Path, cells: Sequence[Any]) -> dict[str, Record]:
    """The journal's records of `cells`, by the cell's key; broken lines and other cells are passed over."""
    wanted = {_key(cell) for cell in cells}
    names = list(asdict(cells[0])) if cells else []
    found: dict[str, Record] = {}
    if not journal.exists():
        return found
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue  # the line that was being written when the run was killed
        if isinstance(record, dict):
            key = _canonical({name: record.get(name) for name in names})
            if key in wanted:
                found[key] = record
    return found


@contextmanager
def journal_writer(journal: Path) -> Iterator[Callable[[Record], None]]:
    """Open `journal` for appending records, each of them on disk before the next cell's is."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a+b") as file:
        # A run killed in the middle of a line left it without an end: the next record must not be glued to
        # it.
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")

        def append(record: Record) -> None:
            file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
            file.flush()

        yield append


def _key(cell: Any) -> str:
    return _canonical(asdict(cell))


def _canonical(values: Record) -> str:
    return json.dumps(values, sort_keys=True)
