"""A stream of rows under a monitor, read, written and kept piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from slabsvm.command.scoring import NUMBERED, LineWriter, RowNames
from slabsvm.command.terminal import say
from slabsvm.data.files import one_at_a_time
from slabsvm.files import load, save
from slabsvm.files.models import write
from slabsvm.fitted.pipelines import final_detector
from slabsvm.monitoring.monitor import DriftMonitor
from slabsvm.runtime.caller import counted
from slabsvm.tables.columns import TableError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.monitoring.monitor import Readings

WRITTEN = ("p_value", "evidence", "alarms", "accepted", "rejection", "rejection_low", "rejection_high")
DIGITS = "%.6g"
FORMS = ("%s", DIGITS, DIGITS, "%d", "%s", DIGITS, DIGITS, DIGITS)
# The state of a stream without end is written after so many rows, as well as at the end.
KEPT_EVERY = 10_000


@dataclass
class Watch:
    """A stream that is read on from where its state says."""

    monitor: DriftMonitor
    names: RowNames
    state: Path | None  # where the monitor is kept
    streams: bool  # whether lines are there as soon as they are written
    rows: int = 0  # how many rows were read in this run
    ended: bool = False  # whether these are all rows
    _kept: int = 0
    _written: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self._written = _which_file(self.state)

    def read(self, pieces: Iterable[Any], file: Any, separator: str, progress: Callable[[int], None]) -> None:
        """Read pieces, and write a line for each row as soon as its piece is read.

        Lines and state belong together: `monitor` is what it was after the last piece of which all lines are written.
        Where they are there as soon as they are written, the state is kept however this ends; where they go to a file
        that is there when all is written, `keep` is to be called when it is.

        Raises TableError: there are no rows, or one is not what the model takes.
        """
        lines = None
        try:
            for piece in pieces:
                if lines is None:
                    self.names.look_at(piece)
                    lines = LineWriter(file, separator, [self.names.column or NUMBERED, *WRITTEN], FORMS)
                called = self.names.of(piece, self.monitor.n_rows_ + 1)
                ahead = copy(self.monitor)
                try:
                    readings = ahead.update(piece)
                except TableError as error:
                    raise error.below(self.rows) from error
                _write(lines, called, readings)
                file.flush()
                before, self.monitor = self.monitor, ahead
                self.rows += len(readings.row)
                if ahead.n_alarms_ > before.n_alarms_:
                    say(f"ALARM at row {ahead.alarm_row_:,}: the rows have changed.", err=True)
                if self.streams and self.rows - self._kept >= KEPT_EVERY:
                    self.keep()
                progress(self.rows)
        finally:
            if self.streams:
                self.keep()
        if self.rows == 0:
            raise TableError("it has a header and no rows")
        self.ended = True

    def keep(self) -> None:
        """Write the state, where it has a place and there is something new.

        Raises click.ClickException: the file is no longer the one that this run began with, or wrote: another run's
        rows would be lost.
        """
        if self.state is not None and self.rows > self._kept:
            with one_at_a_time(self.state.parent):
                if _which_file(self.state) != self._written:
                    raise click.ClickException(
                        f"{self.state} was written by another run since this one began: its rows are kept there, and "
                        f"{counted(self.rows - self._kept, 'row')} of this run are not. Give each stream a --state of "
                        "its own, and run this one again."
                    )
                save(self.monitor, self.state)
                self._kept, self._written = self.rows, _which_file(self.state)


def begun(pipeline: Pipeline, reference: Any, parameters: dict[str, Any]) -> DriftMonitor:
    """Return the monitor of a new stream; a table of reference rows, or None for the model's own rows."""
    monitor = DriftMonitor(pipeline, **parameters)
    try:
        monitor.fit(reference)
    except TableError:
        raise
    except ValueError as error:
        text = str(error).replace("or none: fit()", "or leave --reference out, which")
        raise ValueError(text.replace("fit(X)", "--reference FILE")) from error
    return monitor


def gone_on(pipeline: Pipeline, state: Path, asked: dict[str, Any]) -> DriftMonitor:
    """Return the monitor that a file keeps, of this model and with these parameters, as far as they are asked for."""
    if (monitor := state_of(state)) is None:
        raise click.ClickException(f"{state} holds a model, and not the state of a monitor.")
    if _bytes_of(monitor.estimator) != _bytes_of(pipeline):
        raise click.ClickException(f"{state} is the state of a stream under another model. Name another --state.")
    for name, value in asked.items():
        if getattr(monitor, name) != value:
            option = name.replace("_", "-")
            raise click.ClickException(
                f"{state} has begun with --{option} {getattr(monitor, name)}, which holds for the whole stream. Leave "
                "the option out, or name another --state for a new beginning."
            )
    return monitor


def state_of(path: Path) -> DriftMonitor | None:
    """Return the monitor of a file, or None where it holds something else."""
    found = load(path)
    return found if isinstance(found, DriftMonitor) else None


def facts_of(monitor: DriftMonitor) -> dict[str, Any]:
    """Return what `monitor --json` says of a monitor."""
    rate = monitor.rate()
    return {
        "rows": monitor.n_rows_,
        "alarm": monitor.alarm_,
        "alarms": monitor.n_alarms_,
        "alarm_row": monitor.alarm_row_ or None,
        "log10_evidence": monitor.log_evidence_ / np.log(10.0),
        "log10_level": monitor.log_level_ / np.log(10.0),
        "alpha": None if monitor.run_length else monitor.alpha,
        "run_length": monitor.run_length,
        "reference": monitor.reference_,
        "reference_rows": monitor.n_reference_,
        "rejection": {"share": rate.share, "low": rate.low, "high": rate.high, "rows": rate.n_rows},
        "detector": type(final_detector(monitor.estimator)).__name__,
    }


def _which_file(path: Path | None) -> tuple[int, ...] | None:
    """Return what differs from one written file to the next; None where there is none."""
    try:
        found = None if path is None else path.stat()
    except FileNotFoundError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)


def _write(lines: LineWriter, called: Iterable[Any], readings: Readings) -> None:
    evidence = readings.log_evidence
    if readings.class_log_evidence is not None:
        evidence = np.maximum(evidence, readings.class_log_evidence)
    lines.write(
        lines.names(called),
        readings.p_value.tolist(),
        (evidence / np.log(10.0)).tolist(),
        readings.alarms.tolist(),
        np.where(readings.accepted, "true", "false").tolist(),
        readings.rejection.share.tolist(),
        readings.rejection.low.tolist(),
        readings.rejection.high.tolist(),
    )


def _bytes_of(model: Any) -> bytes:
    """Return the bytes of a model's file: those of equal models are equal."""
    content = BytesIO()
    write(model, content)
    return content.getvalue()
