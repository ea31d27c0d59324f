"""Options that several subcommands take: how a table is read, and what its columns are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from slabsvm.files.tables import Reading
    from slabsvm.tables import TableEncoder


class Share(click.FloatRange):
    """A number between 0 and 1; unlike click's, never nan, with which no share compares."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """Return the number of a text."""
        share = float(super().convert(value, parameter, context))
        if math.isnan(share):
            self.fail(f"{value!r} is no share.", parameter, context)
        return share


# Any file, which need not be there; "-" is a standard stream.
FILE = click.Path(path_type=Path)


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return options as one, in the order in which --help lists them."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


def _names(option: str, text: str) -> Callable[[Any], Any]:
    """Return an option that takes names, separated by commas; it may be given more than once."""
    return click.option(
        option, metavar="A,B,...", multiple=True, callback=lambda _, __, texts: _listed(*texts), help=text
    )


def _listed(*texts: str) -> list[str]:
    """Return the names in texts of names, separated by commas; one that holds a comma is in quotes."""
    found = (one for text in texts for one in re.findall(r'\s*(?:"((?:[^"]|"")+)"|([^,]*))\s*(?:,|$)', text))
    return [name for quoted, bare in found if (name := quoted.replace('""', '"') or bare.strip())]


table_argument = click.argument("table", type=FILE)
# How a table is read: each is a field of `Reading`.
reading_options = _together(
    click.option(
        "--format",
        type=click.Choice(("csv", "tsv", "jsonl", "parquet", "npy", "npz", "svmlight", "xlsx")),
        help="The table's format. [default: by its name, or csv]",
    ),
    click.option("--separator", metavar="CHARACTER", help="Character between cells of a text. [default: by the file]"),
    click.option(
        "--decimal",
        metavar="CHARACTER",
        default=",.",
        help="The decimal mark, . or , where a column leaves it open, as 1.234. [default: that of the others]",
    ),
    click.option("--encoding", metavar="NAME", help="The encoding of a text. [default: by the file]"),
    click.option("--no-header", is_flag=True, help="There is no line of names: columns are x0, x1, ..."),
    click.option("--skip-rows", metavar="N,N,...", multiple=True, help="Rows to leave out, such as one of totals."),
    click.option("--sheet", metavar="NAME", help="Which sheet of a workbook. [default: the first with a table]"),
    click.option("--array", metavar="NAME", help="Which array of an NPZ file."),
)
# What the columns of a table of good rows are: each is a parameter of `TableEncoder`.
column_options = _together(
    _names("--columns", "Columns to learn from. [default: all that are not named below]"),
    _names("--drop", "Columns to leave out."),
    _names("--keep", "Columns to learn from though they look like identifiers or texts."),
    _names("--categories", "Columns of categories that look like numbers, such as codes."),
    click.option(
        "--times",
        metavar="PARTS",
        default="hour,weekday",
        show_default=True,
        callback=lambda _, __, text: [part for part in _listed(text) if part != "none"],
        help="What to learn of times: of hour, weekday and elapsed (days), or none.",
    ),
    _names("--gaps", "Texts that count as empty cells, such as err or -9999."),
    click.option("--day-first/--month-first", default=None, help="What comes first in dates such as 05/01/2024."),
    click.option("--id", "id_column", metavar="NAME", help="The column that names the rows."),
    click.option(
        "--weight",
        "weight_column",
        metavar="NAME",
        help="The column of row weights: a row of weight 2 counts twice.",
    ),
    click.option(
        "--missing",
        type=click.Choice(("indicate", "impute", "refuse")),
        default="indicate",
        show_default=True,
        help="What to do with empty cells. indicate: numbers get the median, texts no category, and a coordinate marks "
        "the gap; impute: numbers get the median, texts the most frequent category; refuse: stop.",
    ),
)


def reading_of(options: dict[str, Any], **more: Any) -> Reading:
    """Return how a table is read, by the options."""
    from slabsvm.files.tables import Reading

    given = {name: options[name] for name in ("format", "separator", "decimal", "encoding", "array", "sheet")}
    texts = options["skip_rows"]
    try:
        skipped = [int(text) for text in _listed(*texts)]
        if min(skipped, default=1) < 1:
            raise ValueError
    except ValueError:
        raise click.UsageError(f"--skip-rows takes numbers of rows, such as 301, and not {', '.join(texts)}.") from None
    return Reading(**given, header=not options["no_header"], skip_rows=skipped, **more)


def reading_to_learn(options: dict[str, Any]) -> Reading:
    """Return how a table to learn from is read, by the options."""
    return reading_of(options, texts=options["categories"], ids=[*filter(None, [options["id_column"]])])


def table_to_learn(path: Path, options: dict[str, Any], how: Reading) -> tuple[Any, TableEncoder]:
    """Return the table of a file, and the encoder of the options; TableError where it is no table."""
    from slabsvm.files.tables import whole
    from slabsvm.tables import TableEncoder, TableError

    table = whole(path, how)
    least = 10  # fewer rows tell no kinds of columns, and set no threshold
    if len(table) < least:
        rows = counted(len(table), "row")
        raise TableError(f"it has {rows}, and at least {least} are needed to learn from. Give more rows")
    asked = ("drop", "categories", "keep", "times", "gaps", "id_column", "weight_column", "missing", "day_first")
    given = {name: options[name] for name in asked}
    decimal = options["decimal"] if options["decimal"] in (".", ",") else None
    return table, TableEncoder(**given, columns=options["columns"] or None, decimal=decimal)
