"""From specifications to records: run an experiment's cells, keep each result, resume where a run stopped.

A *cell* is a frozen dataclass that holds everything its result depends on. A *record* is a flat dictionary:
the cell's fields and the measured values. A *journal* is a file with one record a line, appended as soon as a cell is
done, so that a killed run goes on where it stopped, and a finished one is read without computing anything.
"""

from __future__ import annotations

import json
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from slabsvm import FitWarning
from slabsvm_reproduction.run.journal import Journal, Record

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")


def run(
    cells: Sequence[C],
    measure: Callable[[C], Record],
    journal: Path,
    *,
    n_jobs: int = 1,
    advance: Callable[[], object] = lambda: None,
    stopping: Callable[[], object] = lambda: None,
) -> list[Record]:
    """Measure every cell that is not in the journal; return the records of all, in the cells' order.

    The cells run in threads (the solver releases the interpreter's lock) with one BLAS thread each; what is
    measured does not depend on `n_jobs`. A thread writes its record itself, so that on an interruption the cells
    that were begun are still finished and kept.

    Parameters
    ----------
    cells : sequence of frozen dataclasses, all of one type
    measure : function from a cell to the dictionary of measured values
    journal : path of the JSON-lines file; made, with its folder, when it is not there
    n_jobs : number of threads
    advance : called from the calling thread once for each cell that was measured now
    stopping : called on an interruption, before the cells that were begun are finished
    """
    done = known_records(journal, cells)
    missing = [cell for cell in cells if _key(cell) not in done]
    if not missing:
        return [done[_key(cell)] for cell in cells]
    kept = Journal(journal)
    with threadpool_limits(1, "blas"), expected_warnings():

        def measure_and_keep(cell: C) -> None:
            # The record as it will be read again, in which a tuple is a list.
            record = json.loads(json.dumps({**asdict(cell), **measure(cell)}, allow_nan=False))
            kept.append(record)
            done[_key(cell)] = record

        pool = ThreadPoolExecutor(n_jobs)
        try:
            with _interruptions_after():
                tasks = [pool.submit(measure_and_keep, cell) for cell in missing]
            for task in as_completed(tasks):
                task.result()
                advance()
        except KeyboardInterrupt:
            stopping()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    return [done[_key(cell)] for cell in cells]


@contextmanager
def _interruptions_after() -> Iterator[None]:
    """Have an interruption wait until the block is done: within `submit` it can leave a lock held, and threads wait."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        # Only the main thread may, and it alone is interrupted; None is a handler that Python cannot put back.
        yield
        return
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Silence warnings that an experiment provokes on purpose; the records hold their numbers: gap, expected recall."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        # The closed-set baseline that people use; scikit-learn announces another way to its probabilities.
        warnings.filterwarnings("ignore", "The `probability` parameter", FutureWarning)
        # The elliptic envelope's, where a part of the data lies in a plane: features that are whole numbers do.
        warnings.filterwarnings("ignore", message="Determinant has increased", category=RuntimeWarning)
        warnings.filterwarnings("ignore", message="The covariance matrix associated", category=UserWarning)
        yield


def known_records(journal: Path, cells: Sequence[Any]) -> dict[str, Record]:
    """The journal's records of `cells`, by the cell's key; broken lines and other cells are passed over."""
    wanted = {_key(cell) for cell in cells}
    names = list(asdict(cells[0])) if cells else []
    found: dict[str, Record] = {}
    for record in Journal(journal).records():
        key = _canonical({name: record.get(name) for name in names})
        if key in wanted:
            found[key] = record
    return found


def _key(cell: Any) -> str:
    return _canonical(asdict(cell))


def _canonical(values: Record) -> str:
    return json.dumps(values, sort_keys=True)
