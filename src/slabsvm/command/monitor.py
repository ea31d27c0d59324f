"""The subcommand `monitor`: whether the distribution of a stream of rows has changed.

The stream is read, written and kept piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from io import BytesIO
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command import INTERRUPTED
from slabsvm.command.options import FILE, Share, output_option, reading_of, reading_options, table_argument
from slabsvm.command.terminal import (
    ALARM,
    STATUSES,
    about,
    counting,
    kept_warnings,
    named,
    plain_errors,
    say,
    say_json,
    say_unread,
    warn,
)
from slabsvm.data.files import is_stream, one_at_a_time
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.command.scoring import RowNames
    from slabsvm.monitoring.monitor import DriftMonitor

OF_A_STREAM = ("alpha", "run_length", "window")
WRITTEN = ("p_value", "evidence", "alarms", "accepted", "rejection", "rejection_low", "rejection_high")
FORMS = ("%s", "%.6g", "%.6g", "%d", "%s", "%.6g", "%.6g", "%.6g")
LOG_10 = log(10.0)
# The state of a stream without end is written after so many rows, as well as at the end.
KEPT_EVERY = 10_000


@click.command(short_help="Watch a stream of rows for a change.", epilog=STATUSES)
@click.argument("model", type=FILE)
@table_argument
@output_option
@click.option(
    "--alpha",
    type=Share(0, 1, min_open=True, max_open=True),
    help="The probability of ever raising a false alarm, however long the stream. [default: 0.01]",
)
@click.option(
    "--run-length",
    type=click.IntRange(min=1),
    metavar="N",
    help="In place of --alpha: a false alarm comes after N rows or more, on average.",
)
@click.option(
    "--reference", type=FILE, help="A table of good rows that were not learned. [default: the model's own rows]"
)
@click.option("--state", type=FILE, help="The file of the stream's state: continue from it if it exists, and write it.")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    metavar="N",
    help="The rolling rate is that of the last N to 2N rows. [default: 1000]",
)
@click.option("--fail-on-alarm", is_flag=True, help=f"Exit with status {ALARM} if an alarm was raised.")
@click.option("--id", metavar="NAME", help="The column that names the rows. [default: the model's, or numbers]")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print what was found, as JSON.")
def monitor(
    *,
    model: Path,
    table: Path,
    output: Path,
    reference: Path | None,
    state: Path | None,
    fail_on_alarm: bool,
    id: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Read the rows of TABLE in their order, by the MODEL that `slabsvm fit` wrote, and say when they change.

    \b
    p_value    rank of the score among reference rows and all rows before (a share)
    evidence   of a change, in powers of 10
    alarms     how many so far
    accepted   true or false, by the model
    rejection  rolling share of rejected rows, with bounds that hold at all rows

    "-" is the standard input, of which each line is answered when it comes. --state is written at the end, and every
    10,000 rows if lines go to the standard output. The next run continues from it.

    \b
    slabsvm monitor model.slab new.csv -o monitored.csv --state stream.slab --fail-on-alarm
    """
    if as_json and str(output) == "-":
        raise click.UsageError("--json writes to the standard output, so the rows need a file: name it with -o.")
    asked = {name: value for name in OF_A_STREAM if (value := options.pop(name)) is not None}
    if {"alpha", "run_length"} <= asked.keys():
        raise click.UsageError("--alpha and --run-length exclude each other: give one of them.")
    files = {"model": model, "table": table, "output": output, "reference": reference, "state": state}
    with plain_errors("state", lines="output", **files):
        from slabsvm.command.scoring import RowNames, columns_read, loaded, output_file, say_columns, separator_of
        from slabsvm.files.tables import pieces, whole

        pipeline = loaded(model)
        names = RowNames(pipeline[0], id)
        if state is not None and state.exists():
            if reference is not None:
                raise click.UsageError(f"{named(state)} has its reference rows: leave --reference out.")
            watched = gone_on(pipeline, state, asked)
        else:
            how = reading_of(options, **columns_read(names))
            with about(reference or table):
                rows = None if reference is None else whole(reference, how)
                watched = begun(pipeline, rows, asked)
        watch = Watch(watched, names, state, str(output) == "-" or is_stream(output))
        how = reading_of(options, **columns_read(names), live=True)
        with kept_warnings() as texts, about(table), output_file(output) as file, counting("Reading", output) as done:
            try:
                watch.read(pieces(table, how), file, separator_of(output), done)
            except KeyboardInterrupt:
                # A stream may have no other end.
                if not watch.streams:
                    raise
                say(f"\nStopped after {counted(watch.rows, 'row')}.\n{watch.monitor.summary()}", err=True)
                raise SystemExit(INTERRUPTED) from None
        # Lines without state are written again by the next run; state without lines would have lost them.
        watch.keep()
        if not watch.ended:
            say_unread(watch.rows)
        warn(texts)
        say_columns(names)
        if as_json:
            say_json({**facts_of(watch.monitor), "rows_now": watch.rows, "output": str(output), "warnings": texts})
        else:
            say(watch.monitor.summary(), err=True)
        if fail_on_alarm and watch.monitor.alarm_:
            raise SystemExit(ALARM)


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

    def read(self, pieces: Iterable[Any], file: Any, separator: str, done: Callable[[int], None]) -> None:
        """Read pieces, and write a line for each row as soon as its piece is read.

        Lines and state belong together: `monitor` is what it was after the last piece of which all lines are written.
        Where they are there as soon as they are written, the state is kept however this ends; where they go to a file
        that is there when all is written, `keep` is to be called when it is.

        Raises TableError: there are no rows, or one is not what the model takes.
        """
        from slabsvm.command.scoring import NUMBERED, LineWriter
        from slabsvm.tables.columns import TableError

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
                evidence, rejection = readings.log_evidence, readings.rejection
                if readings.class_log_evidence is not None:
                    evidence = evidence.clip(readings.class_log_evidence)
                lines.write(
                    lines.quoted(called),
                    readings.p_value.tolist(),
                    (evidence / LOG_10).tolist(),
                    readings.alarms.tolist(),
                    ["true" if accepted else "false" for accepted in readings.accepted.tolist()],
                    rejection.share.tolist(),
                    rejection.low.tolist(),
                    rejection.high.tolist(),
                )
                file.flush()
                before, self.monitor = self.monitor, ahead
                self.rows += len(readings.row)
                if ahead.n_alarms_ > before.n_alarms_:
                    say(f"ALARM at row {ahead.alarm_row_:,}: the rows have changed.", err=True)
                if self.streams and self.rows - self._kept >= KEPT_EVERY:
                    self.keep()
                done(self.rows)
        finally:
            if self.streams:
                self.keep()
        if self.rows == 0:
            raise TableError("it has a header and no rows. Give a table with rows")
        self.ended = True

    def keep(self) -> None:
        """Write the state, where it has a place and there is something new.

        Raises click.ClickException: the file is no longer the one that this run began with, or wrote: another run's
        rows would be lost.
        """
        from slabsvm.files import save

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
    from slabsvm import DriftMonitor
    from slabsvm.tables.columns import TableError

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
    """Return the monitor that a file keeps, of this model and with the parameters that are asked for."""
    from slabsvm.files.models import write

    def bytes_of(model: Any) -> bytes:
        content = BytesIO()
        write(model, content)
        return content.getvalue()  # of equal models they are equal

    if (monitor := state_of(state)) is None:
        raise click.ClickException(f"{state} holds a model, and not the state of a monitor. Name another --state.")
    if bytes_of(monitor.estimator) != bytes_of(pipeline):
        raise click.ClickException(f"{state} is the state of a stream under another model. Name another --state.")
    for name, value in asked.items():
        if getattr(monitor, name) != value:
            option = name.replace("_", "-")
            raise click.ClickException(
                f"{state} was begun with --{option} {getattr(monitor, name)}, which holds for the whole stream. Leave "
                "the option out, or name another --state for a new beginning."
            )
    return monitor


def state_of(path: Path) -> DriftMonitor | None:
    """Return the monitor of a file, or None where it holds something else."""
    from slabsvm import DriftMonitor
    from slabsvm.files import load

    found = load(path)
    return found if isinstance(found, DriftMonitor) else None


def facts_of(monitor: DriftMonitor) -> dict[str, Any]:
    """Return what `monitor --json` says of a monitor."""
    from slabsvm.detectors.answers import final_detector

    rate = monitor.rate()
    return {
        "rows": monitor.n_rows_,
        "alarm": monitor.alarm_,
        "alarms": monitor.n_alarms_,
        "alarm_row": monitor.alarm_row_ or None,
        "log10_evidence": monitor.log_evidence_ / LOG_10,
        "log10_level": monitor.log_level_ / LOG_10,
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
