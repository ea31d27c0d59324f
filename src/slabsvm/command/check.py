"""The subcommand `check`: what each column of a table is taken for, and all that is wrong with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command.options import column_options, encoder_of, listed, reading_of, reading_options, table_argument
from slabsvm.command.terminal import (
    STATUSES,
    WORDS,
    heard,
    named,
    plain_errors,
    printable,
    say,
    say_json,
    warn,
    with_options,
)
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from slabsvm.tables import TableEncoder, TableError
    from slabsvm.tables.plan import Plan

EMPTY = "empty"
HEAD = ("column", "taken for", EMPTY, "what it holds", "what is done with it")
# So many letters of a cell of the plan are shown, and so many columns by `fit`.
WIDEST = 44
MOST_LINES = 20
LEAST_ROWS = 10


@click.command(short_help="Say what each column is taken for.", epilog=STATUSES)
@table_argument
@column_options
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")
def check(*, table: Path, as_json: bool, **options: Any) -> None:
    """Say what `slabsvm fit` would do with each column of TABLE, and name all that is wrong at once.

    Nothing is learned or written. The same options have the same meaning in `fit`.

    \b
    slabsvm check good.csv
    """
    with plain_errors():
        with heard() as doubts:
            content, encoder = read(table, options)
            plan = encoder.planned(content)
        if as_json:
            say_json({"table": str(table), **facts_of(plan), "warnings": doubts})
        else:
            say(f"{named(table)}: {counted(plan.n_rows, 'row')}, {counted(len(plan.names), 'column')}\n")
            for line in lines_of(plan):
                say(line)
        if plan.errors:
            raise refused(table, plan.errors)
        if not as_json:
            warn(doubts)
            say(f"\nNothing is wrong. This learns it:\n  {learning_line(table)}")


def read(path: Path, options: dict[str, Any]) -> tuple[Any, TableEncoder]:
    """Return the table of a file, and the encoder of the options; where nobody says which column does, one names rows.

    Raises ClickException: the file is no such table; the text has the command line that would take it.
    """
    from slabsvm.files.tables import whole
    from slabsvm.tables import TableError

    encoder = encoder_of(options)
    how = reading_of(options, texts=listed(options["categories"]), ids=[*filter(None, [options["id"]])])
    try:
        table = whole(path, how)
        if len(table) < LEAST_ROWS:
            raise TableError(f"it has {counted(len(table), 'row')}, and at least {LEAST_ROWS} are needed to learn from")
    except TableError as error:
        raise refused(path, [error]) from error
    return table, encoder


def refused(path: Path, errors: Sequence[TableError]) -> click.ClickException:
    """Return the exception of a table that cannot be taken: all that is wrong, and the command line that takes it."""
    from slabsvm.tables.plan import refused as of_columns

    text = str(of_columns(errors))
    return click.ClickException(f"{named(path)}: {with_options(text)}{_ready_line(errors)}")


def _ready_line(errors: Sequence[TableError]) -> str:
    """Return the command line that takes a table with these errors, "" where there is none."""
    given = click.get_current_context().meta.get(WORDS)
    remedies: dict[str, list[str]] = {}
    for option, value in (error.remedy for error in errors if error.remedy is not None):
        values = remedies.setdefault(option, [])
        values += [value] if value not in values else []
    # A subcommand that is called by itself, as from Python, has no command line.
    if not given or not remedies:
        return ""
    words = [word for option, values in remedies.items() for word in (f"--{option}", ",".join(values)) if word]
    mended = "" if all(error.remedy for error in errors) else ", once the other columns are mended"
    return f"\nThis command line takes it{mended}:\n  {shlex.join([*given, *words])}"


def lines_of(plan: Plan, most: int | None = None) -> list[str]:
    """Return a table of the columns, as a terminal may show it."""
    lines = plan.lines()[:most]
    cells = [HEAD, *(tuple(_short(cell) for cell in line) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    # Counts end where they end, and texts begin where they begin.
    sides = [f"{'>' if name == EMPTY else '<'}{width}" for name, width in zip(HEAD, widths, strict=True)]
    found = ["  ".join(["", *map(format, line, sides)]).rstrip() for line in cells]
    if (rest := len(plan.names) - len(lines)) > 0:
        found.append(f"  and {counted(rest, 'other column')}: `slabsvm inspect` lists all")
    return found


def _short(cell: str) -> str:
    (safe,) = printable([cell])
    return safe if len(safe) <= WIDEST else f"{safe[: WIDEST - 3]}..."


def facts_of(plan: Plan) -> dict[str, Any]:
    """Return the plan for a program."""
    names = ("column", "taken_for", EMPTY, "holds", "done")
    return {
        "rows": plan.n_rows,
        "columns": [
            {**dict(zip(names, line, strict=True)), EMPTY: int(line[2].replace(",", "") or 0)} for line in plan.lines()
        ],
        "errors": [str(error) for error in plan.errors],
    }


def learning_line(table: Path) -> str:
    """Return the command line that learns a table, with the options that `check` was given."""
    given = click.get_current_context().meta.get(WORDS) or ["slabsvm", "check", str(table)]
    name = "model" if str(table) == "-" else table.name.split(".")[0]
    return shlex.join([given[0], "fit", *given[2:], "-o", f"{name}.slab"])
