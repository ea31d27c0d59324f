"""The subcommand `check`: what each column of a table is taken for, and all that is wrong with it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from slabsvm.command.options import column_options, reading_options, reading_to_learn, table_argument, table_to_learn
from slabsvm.command.terminal import (
    STATUSES,
    about,
    kept_warnings,
    named,
    plain_errors,
    plan_lines,
    say,
    say_json,
    warn,
)
from slabsvm.runtime.caller import counted


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

    how = reading_to_learn(options)
    with plain_errors(), about(table, how):
        with kept_warnings() as texts:
            content, encoder = table_to_learn(table, options, how)
            plan = encoder.planned(content)
            plan = plan if options["id_column"] else plan.naming()
        noticed = [*texts, *how.said]
        if as_json:
            names = ("column", "taken_for", "empty", "holds", "done")
            columns: list[dict[str, Any]] = [dict(zip(names, line, strict=True)) for line in plan.lines()]
            for column in columns:
                column["empty"] = int(column["empty"].replace(",", "") or 0)
            errors = [str(error) for error in plan.errors]
            rows: dict[str, Any] = {"table": str(table), "rows": plan.n_rows, "columns": columns}
            say_json({**rows, "errors": errors, "warnings": noticed})
        else:
            say(f"{named(table)}: {counted(plan.n_rows, 'row')}, {counted(len(plan.names), 'column')}\n")
            say("\n".join(plan_lines(plan)))
        if plan.errors:
            raise refused(plan.errors)
        if not as_json:
            warn(noticed)
            # With the options that `check` was given.
            given = click.get_current_context().obj or ["slabsvm", "check", str(table)]
            model = "model" if str(table) == "-" else table.name.split(".")[0]
            line = shlex.join([given[0], "fit", *given[2:], "-o", f"{model}.skops"])
            say(f"\nThis command learns the table:\n  {line}\n")
            say(plan.not_learned())
