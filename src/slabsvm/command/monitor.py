"""The subcommand `monitor`: whether a stream of rows is still of the world that a model has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from slabsvm.command.options import FILE, Share, output_option, reading_of, reading_options, table_argument
from slabsvm.command.stopping import INTERRUPTED
from slabsvm.command.terminal import (
    ALARM,
    STATUSES,
    about,
    counting,
    distinct_files,
    heard,
    named,
    plain_errors,
    say,
    say_json,
    say_unread,
    warn,
    writable,
)
from slabsvm.data.files import is_stream
from slabsvm.runtime.caller import counted

OF_A_STREAM = ("alpha", "run_length", "window")


@click.command(short_help="Watch a stream of rows for a change.", epilog=STATUSES)
@click.argument("model", type=FILE)
@table_argument
@output_option
@click.option(
    "--alpha",
    type=Share(0, 1, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="The probability of ever raising a false alarm, however long the stream.",
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
@click.option("--state", type=FILE, help="Go on from this file, if it is there, and keep in it what was found.")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="The rolling rate is that of the last N to 2N rows.",
)
@click.option("--fail-on-alarm", is_flag=True, help=f"Exit with status {ALARM} if an alarm was raised.")
@click.option("--id", metavar="NAME", help="The column that names the rows. [default: the model's, or numbers]")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Say what was found as JSON, on the standard output.")
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

    p_value: the rank of the row's score among reference rows and all rows before, as a share; evidence: of a change, in
    powers of 10; alarms: how many so far; accepted; rejection: the rolling share of rejected rows, with bounds that
    hold at all rows at once.

    "-" is the standard input, of which each line is answered when it comes. What was found is in --state at the end,
    and where lines go to the standard output every 10,000 rows; the next run goes on from there.

    \b
    slabsvm monitor model.slab new.csv -o monitored.csv --state stream.slab --fail-on-alarm
    """
    if as_json and str(output) == "-":
        raise click.UsageError("--json writes to the standard output: give the rows a file with -o.")
    asked = {name: options.pop(name) for name in OF_A_STREAM}
    context = click.get_current_context()
    given = {name for name in OF_A_STREAM if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if {"alpha", "run_length"} <= given:
        raise click.UsageError("--alpha and --run-length are two promises: give one.")
    with plain_errors():
        distinct_files(model=model, table=table, output=output, reference=reference, state=state)
        writable(output, streams=True)
        writable(state)
        from slabsvm.command.scoring import RowNames, columns_read, loaded, output_file, say_columns, separator_of
        from slabsvm.command.watching import Watch, begun, facts_of, gone_on
        from slabsvm.files.tables import pieces, whole

        pipeline = loaded(model)
        names = RowNames(pipeline[0], id)
        if state is not None and state.exists():
            if reference is not None:
                raise click.UsageError(f"{named(state)} has its reference rows: leave --reference out.")
            watched = gone_on(pipeline, state, {name: asked[name] for name in given})
        else:
            how = reading_of(options, **columns_read(names))
            with about(reference or table):
                rows = None if reference is None else whole(reference, how)
                watched = begun(pipeline, rows, asked)
        watch = Watch(watched, names, state, str(output) == "-" or is_stream(output))
        how = reading_of(options, **columns_read(names), live=True)
        with heard() as doubts, about(table), output_file(output) as file, counting("Reading", output) as progress:
            try:
                watch.read(pieces(table, how), file, separator_of(output), progress)
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
        warn(doubts)
        say_columns(names)
        if as_json:
            say_json({**facts_of(watch.monitor), "rows_now": watch.rows, "output": str(output), "warnings": doubts})
        else:
            say(watch.monitor.summary(), err=True)
        if fail_on_alarm and watch.monitor.alarm_:
            raise SystemExit(ALARM)
