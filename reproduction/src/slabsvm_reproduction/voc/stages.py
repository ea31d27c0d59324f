"""The time of each stage of the experiment on Pascal VOC, over all runs that worked on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

from slabsvm_reproduction.run.journal import Journal, Record

if TYPE_CHECKING:
    from slabsvm_reproduction.voc.experiment import RegionCell


class Stages:
    """The time of each stage, kept beside the records: a run that continues adds to that of earlier ones.

    Parameters
    ----------
    path : Path
        The journal; what it says of other data, that is of other keys, is passed over.
    """

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self._keys: set[str] = set()
        self._now: dict[str, float] = {}

    def took(self, stage: str, seconds: float, key: str | None = None) -> None:
        """Keep the time of a stage of the work on what has this key; without a key it is of this run alone."""
        if key is None:
            self._now[stage] = seconds
            return
        self._keys.add(key)
        if seconds:
            self._journal.append({"stage": stage, "key": key, "seconds": round(seconds, 3)})

    @contextmanager
    def timed(self, stage: str, key: str | None = None) -> Iterator[None]:
        """Time what is done inside, also if it is interrupted."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.took(stage, perf_counter() - begin, key)

    @contextmanager
    def unless_known(self, stage: str, key: str) -> Iterator[Callable[[float], None]]:
        """Keep the time that the function which this gives is called with, or else the time by the clock."""
        begin, given = perf_counter(), list[float]()
        try:
            yield given.append
        finally:
            self.took(stage, given[0] if given else perf_counter() - begin, key)

    @contextmanager
    def shared(
        self, stage: str, keys: Mapping[str, str], measure: Callable[[RegionCell], Record]
    ) -> Iterator[Callable[[RegionCell], Record]]:
        """Time what is done inside, and share it out among classes by what their cells took; gives the timed `measure`.

        Cells run in threads, so what they took adds up to more than the clock has.

        Parameters
        ----------
        stage : str
        keys : mapping from class to its key
        measure : function of a cell
        """
        took, lock = dict.fromkeys(keys, 0.0), Lock()

        def timed(cell: RegionCell) -> Record:
            begin = perf_counter()
            try:
                return measure(cell)
            finally:
                with lock:
                    took[cell.known] += perf_counter() - begin

        begin = perf_counter()
        try:
            yield timed
        finally:
            # What cells did not take, such as reading records, is of this run, and not kept.
            scale = (perf_counter() - begin) / (sum(took.values()) or 1.0)
            for label, seconds in took.items():
                self.took(stage, scale * seconds, keys[label])

    def forget(self, stage: str) -> None:
        """Forget what a stage took, since it is done again."""
        self._journal.keep(lambda record: record["stage"] != stage)

    def seconds(self, order: Sequence[str]) -> dict[str, float]:
        """The time of each stage in this order, earlier runs' included."""
        found = dict.fromkeys(order, 0.0) | self._now
        for record in self._journal.records():
            if record["key"] in self._keys:
                found[record["stage"]] += record["seconds"]
        return {stage: found[stage] for stage in order}
