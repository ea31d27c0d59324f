"""The subcommand `score`: what a model says of each row of a table, and why."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command.options import FILE, Share, reading_of, reading_options, table_argument
from slabsvm.command.terminal import (
    STATUSES,
    TOO_MANY_REJECTED,
    about,
    kept_warnings,
    named,
    plain_errors,
    progress_bar,
    say,
    say_json,
    warn,
)
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from slabsvm.command.scoring import Run


@click.command(short_help="Score the rows of a table, and say why.", epilog=STATUSES)
@click.argument("model", type=FILE)
@table_argument
@click.option(
    "-o",
    "--output",
    type=FILE,
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
    reasons   of a rejected row, what pushes it out: COLUMN=CELL, nearest rows VALUE (PART);
              then how the row is far

    The table is read a few megabytes at a time, so it may be larger than memory. "-" is the standard input.

    \b
    slabsvm score model.skops new.csv -o scored.csv --html report.html
    """
    if as_json and str(output) == "-":
        raise click.UsageError("--json writes to the standard output, so the rows need a file: name it with -o.")
    with plain_errors("report", lines="output", model=model, table=table, output=output, report=html):
        from slabsvm.command.model import RowNames, loaded, read_with_decimal
        from slabsvm.command.report import Report
        from slabsvm.command.scoring import Run, Scorer, output_file, separator_of
        from slabsvm.data.files import write_whole
        from slabsvm.files.tables import pieces

        pipeline = loaded(model)
        encoder, detector = pipeline[0], pipeline[-1]
        if "n_jobs" in detector.get_params(deep=False):
            detector.set_params(n_jobs=jobs)
        read_with_decimal(encoder, options["decimal"])
        names = RowNames(encoder, id)
        run = Run(Scorer(pipeline, alpha), reasons, names)
        report = None if html is None else Report(run, pipeline)
        run.readers += [] if report is None else [report.add]
        how = names.how = reading_of(options, **names.read())
        # A bar would stand between rows that a terminal shows.
        bar = progress_bar("Scoring: {task.completed:,} rows", shown=str(output) != "-" or not sys.stdout.isatty())
        with kept_warnings() as texts, about(table, how), output_file(output) as file, bar as update:
            if update is not None:
                run.readers.append(lambda *_: update(completed=run.rows))
            run.write(pieces(table, how), file, separator_of(output))
        not_learned = encoder.plan().not_learned()
        if html is not None and report is not None and run.rows:
            write_whole(html, report.page(facts_of(run, table, model, not_learned, how.said)))
        if not run.ended:
            say(f"The output was closed: {counted(run.rows, 'row')} were read, and no more.", err=True)
        warn([*texts, *how.said])
        names.say_columns()
        too_many = fail_above is not None and run.share > fail_above
        if as_json:
            asked = {"alpha": alpha, "fail_above": fail_above, "failed": too_many, "output": str(output)}
            say_json({**run.facts(), **asked, "warnings": texts})
        else:
            wrote = [] if html is None or report is None else [f"{report.drift()} Wrote {named(html)}."]
            say("\n".join([*summary(run, table, output), *wrote, not_learned]), err=True)
        if too_many:
            say(f"{run.share:.1%} is more than --fail-above {fail_above:g}.", err=True)
            raise SystemExit(TOO_MANY_REJECTED)


def facts_of(run: Run, table: Path, model: Path, not_learned: str, noticed: list[str]) -> list[tuple[str, str]]:
    """Return what a report is about, each fact with its name."""
    encoder = run.scorer.encoder
    # Of times some parts are learned, and no others are checked.
    parts = {one.name: getattr(one, "parts", ()) for one in encoder.columns_}
    checked = [f"{name} (its {' and '.join(some)} alone)" if some else name for name, some in parts.items()]
    return [
        ("Table", table.name),
        ("Rows", f"{run.rows:,}"),
        ("Model", f"{model.name}, {type(run.scorer.detector).__name__}, learned from {encoder.n_rows_:,} rows"),
        ("Columns checked", ", ".join(checked)),
        ("Not checked", not_learned),
        ("Further columns", ", ".join(run.names.further) or "none"),
        ("Noticed", " ".join(noticed) or "nothing"),
        ("Scored on", f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}"),
    ]


def summary(run: Run, table: Path, output: Path) -> list[str]:
    """Return how many rows are rejected, how many were expected to be, and what speaks against them."""
    rejected = f"{run.rejected:,} of {run.rows:,} rows of {named(table)} are rejected ({run.share:.1%})"
    expected = run.scorer.expected_rejected()
    if expected is not None:
        mean = expected * run.rows
        number = f"{mean:,.0f}" if mean >= 1 else f"{mean:.1g}"
        rejected += f", where about {number} were expected ({expected:.1%})"
    wrote = "" if str(output) == "-" else f" Wrote {named(output)}."
    beyond = f"{run.beyond_phrase()}." if run.beyond else ""
    return [f"{rejected}.{wrote}", *filter(None, [beyond, run.counts.sentence()])]
