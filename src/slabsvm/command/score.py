"""The subcommand `score`: what a model says of each row of a table, and why."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command.options import FILE, TABLE, Share, reading_of, reading_options, table_argument
from slabsvm.command.terminal import (
    STATUSES,
    TOO_MANY_REJECTED,
    about,
    counting,
    kept_warnings,
    named,
    plain_errors,
    say,
    say_json,
    warn,
)
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from slabsvm.command.scoring import Run
    from slabsvm.tables.columns import Column


@click.command(short_help="Score the rows of a table, and say why.", epilog=STATUSES)
@click.argument("model", type=FILE)
@table_argument
@click.option(
    "-o",
    "--output",
    type=TABLE,
    default=Path("-"),
    help="CSV; TSV or lines of JSON by its name (.jsonl); .gz too. [default: standard output]",
)
@click.option(
    "--alpha",
    type=Share(0, 1, min_open=True, max_open=True),
    help="Reject rows with p-values of at most this. [default: the model's threshold]",
)
@click.option(
    "--reasons",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="Name the N columns that push a rejected row out most; 0 is faster.",
)
@click.option(
    "--fail-above",
    type=Share(0, 1),
    metavar="SHARE",
    help=f"Exit with status {TOO_MANY_REJECTED} if a larger share of the rows is rejected.",
)
@click.option("--html", type=FILE, metavar="REPORT", help="Also write one page on what was rejected, and why.")
@click.option("--id", metavar="NAME", help="The column that names the rows. [default: the model's, or numbers]")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Threads to use.")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print how many are rejected, as JSON.")
def score(
    *,
    model: Path,
    table: Path,
    output: Path,
    alpha: float | None,
    reasons: int,
    fail_above: float | None,
    html: Path | None,
    id: str | None,
    jobs: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a line for each row of TABLE, by the MODEL that `slabsvm fit` wrote.

    \b
    decision  at least 0 if the model accepts the row; smaller is further out
    accepted  true or false, by the threshold or by --alpha
    score     decision + threshold
    p_value   the share of good rows that are no more normal
    reasons   of a rejected row, what pushes it out: COLUMN=CELL (PART)

    The table is read a few megabytes at a time, so it may be larger than memory. "-" is the standard input.

    \b
    slabsvm score model.skops new.csv -o scored.csv --html report.html
    """
    if as_json and str(output) == "-":
        raise click.UsageError("--json writes to the standard output, so the rows need a file: name it with -o.")
    with plain_errors("report", lines="output", model=model, table=table, output=output, report=html):
        from slabsvm.command.checks import Checks
        from slabsvm.command.names import RowNames, columns_read, say_columns, written_with
        from slabsvm.command.report import Histogram, drift_monitor, drift_said, page
        from slabsvm.command.scoring import Run, Scorer, loaded, output_file, separator_of
        from slabsvm.data.files import write_whole
        from slabsvm.files.tables import pieces

        pipeline = loaded(model)
        if "n_jobs" in pipeline[-1].get_params(deep=False):
            pipeline[-1].set_params(n_jobs=jobs)
        written_with(pipeline[0], options["decimal"])
        names = RowNames(pipeline[0], id)
        run = Run(Scorer.of(pipeline, alpha), reasons, names)
        histogram, drift = Histogram.of(pipeline[-1]), None
        checks = Checks(pipeline[0], names.of)
        if html is not None:
            drift = drift_monitor(pipeline)
            run.readers += [lambda _, answers: histogram.count(answers), lambda piece, _: checks.add(piece)]
            if drift is not None:
                update = drift.update
                run.readers.append(lambda piece, _: update(piece))
        how = reading_of(options, **columns_read(names))
        with kept_warnings() as texts, about(table), output_file(output) as file, counting(output) as progress:
            run.write(pieces(table, how), file, separator_of(output), progress)
        if html is not None and run.rows:
            about_it = facts_of(run, table, model, pipeline[0].plan().not_learned(), how.said)
            write_whole(html, page(run, histogram, drift_said(drift), checks, about_it))
        if not run.ended:
            say(f"The output was closed: {counted(run.rows, 'row')} were read, and no more.", err=True)
        warn([*texts, *how.said])
        say_columns(names)
        too_many = fail_above is not None and run.share > fail_above
        if as_json:
            asked = {"alpha": alpha, "fail_above": fail_above, "failed": too_many, "output": str(output)}
            say_json({**run.facts(), **asked, "warnings": texts})
        else:
            for line in said(run, table, output):
                say(line, err=True)
            if html is not None:
                say(f"{drift_said(drift)} Wrote {named(html)}.", err=True)
            say(pipeline[0].plan().not_learned(), err=True)
        if too_many:
            say(f"{run.share:.1%} is more than --fail-above {fail_above:g}.", err=True)
            raise SystemExit(TOO_MANY_REJECTED)


def facts_of(run: Run, table: Path, model: Path, not_learned: str, said: list[str]) -> list[tuple[str, str]]:
    """Return what a report is about, each fact with its name."""
    encoder = run.scorer.encoder
    return [
        ("Table", table.name),
        ("Rows", f"{run.rows:,}"),
        ("Model", f"{model.name}, {type(run.scorer.detector).__name__}, learned from {encoder.n_rows_:,} rows"),
        ("Columns checked", ", ".join(_checked(column) for column in encoder.columns_)),
        ("Not checked", not_learned),
        ("Further columns", ", ".join(run.names.further) or "none"),
        ("Noticed", " ".join(said) or "nothing"),
        ("Scored on", f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}"),
    ]


def _checked(column: Column) -> str:
    """Return a column's name, and of times what of them is checked."""
    parts = getattr(column, "parts", None)
    return f"{column.name} (its {' and '.join(parts)} alone)" if parts else column.name


def said(run: Run, table: Path, output: Path) -> list[str]:
    """Return how many rows are rejected, how many were expected to be, and what speaks against them."""
    expected = run.scorer.expected_rejected()
    mean = (expected or 0.0) * run.rows
    number = f"{mean:,.0f}" if mean >= 1 else f"{mean:.1g}"
    foretold = "" if expected is None else f", where about {number} were expected ({expected:.1%})"
    wrote = "" if str(output) == "-" else f" Wrote {named(output)}."
    share = f"({run.share:.1%}){foretold}.{wrote}"
    from slabsvm.command.report import beyond_all

    further = f"{beyond_all(run)}." if run.beyond else ""
    rejected = f"{run.rejected:,} of {run.rows:,} rows of {named(table)} are rejected {share}"
    return [rejected, *filter(None, [further, run.tally.said()])]
