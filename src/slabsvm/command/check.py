"""The subcommand `check`: what each column of a table is taken for, and all that is wrong with it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command.options import column_options, encoder_of, listed, reading_of, reading_options, table_argument
from slabsvm.command.terminal import (
    STATUSES,
    WORDS,
    about,
    kept_warnings,
    named,
    plain_errors,
    printable,
    say,
    say_json,
    warn,
)
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from slabsvm.files.tables import Reading
    from slabsvm.tables import TableEncoder
    from slabsvm.tables.plan import Plan

EMPTY = "empty"
HEAD = ("column", "taken for", EMPTY, "what it holds", "what is done with it")
# Letters that are shown of a cell of the plan, and columns that `fit` shows.
WIDEST = 44
MOST_LINES = 20
LEAST_ROWS = 10


@click.command(short_help="Say what each column is taken for.", epilog=STATUSES)
@table_argument
@column_options
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def check(*, table: Path, as_json: bool, **options: Any) -> None:
    """Say what `slabsvm fit` would do with each column of TABLE, and name all that is wrong at once.

    Nothing is learned or written. The same options have the same meaning in `fit`.

    \b
    slabsvm check good.csv
    """
    from slabsvm.tables.plan import refused

    with plain_errors(), about(table):
        with kept_warnings() as texts:
            content, encoder, how = read(table, options)
            plan = encoder.planned(content)
            plan = plan if options["id"] else plan.naming()
        said = [*texts, *how.said]
        if as_json:
            say_json({"table": str(table), **facts_of(plan), "warnings": said})
        else:
            say(f"{named(table)}: {counted(plan.n_rows, 'row')}, {counted(len(plan.names), 'column')}\n")
            for line in lines_of(plan):
                say(line)
        if plan.errors:
            raise refused(plan.errors)
        if not as_json:
            warn(said)
            say(f"\nThis command learns the table:\n  {learning_line(table)}\n")
            say(plan.not_learned())


def read(path: Path, options: dict[str, Any]) -> tuple[Any, TableEncoder, Reading]:
    """Return the table of a file, the encoder of the options, and how it was read; TableError where it is no table."""
    from slabsvm.files.tables import whole
    from slabsvm.tables import TableError

    how = reading_of(options, texts=listed(options["categories"]), ids=[*filter(None, [options["id"]])])
    table = whole(path, how)
    if len(table) < LEAST_ROWS:
        raise TableError(
            f"it has {counted(len(table), 'row')}, and at least {LEAST_ROWS} are needed to learn from. Give more rows"
        )
    return table, encoder_of(options), how


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
    return shlex.join([given[0], "fit", *given[2:], "-o", f"{name}.skops"])
