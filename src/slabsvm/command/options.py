"""Options that several subcommands take: how a table is read, and what its columns are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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


# A name in a list of names, in quotes or bare.
NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^,]*))\s*(?:,|$)')
FORMATS = ("csv", "tsv", "jsonl", "parquet", "npy", "npz", "svmlight", "xlsx")
TABLE = click.Path(path_type=Path, allow_dash=True)
FILE = click.Path(path_type=Path)


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return options as one, in the order in which --help lists them."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


table_argument = click.argument("table", type=TABLE)
# How a table is read: each is a field of `Reading`.
reading_options = _together(
    click.option("--format", type=click.Choice(FORMATS), help="The table's format. [default: by its name, or csv]"),
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
NAMES: Any = {"metavar": "A,B,...", "multiple": True}
# What the columns of a table of good rows are.
column_options = _together(
    click.option("--columns", **NAMES, help="Columns to learn from. [default: all that are not named below]"),
    click.option("--drop", **NAMES, help="Columns to leave out."),
    click.option("--keep", **NAMES, help="Columns to learn from though they look like identifiers or texts."),
    click.option("--categories", **NAMES, help="Columns of categories that look like numbers, such as codes."),
    click.option(
        "--times",
        metavar="PARTS",
        default="hour,weekday",
        show_default=True,
        help="What to learn of times: of hour, weekday and elapsed (days), or none.",
    ),
    click.option("--gaps", **NAMES, help="Texts that count as empty cells, such as err or -9999."),
    click.option("--day-first/--month-first", default=None, help="What comes first in dates such as 05/01/2024."),
    click.option("--id", metavar="NAME", help="The column that names the rows."),
    click.option("--weight", metavar="NAME", help="The column of row weights: a row of weight 2 counts twice."),
    click.option(
        "--missing",
        type=click.Choice(("indicate", "impute", "refuse")),
        default="indicate",
        show_default=True,
        help="What to do with empty cells. indicate: fill in the median, and mark the gap; impute: fill in the median; "
        "refuse: stop.",
    ),
)


def reading_of(options: dict[str, Any], **more: Any) -> Reading:
    """Return how a table is read, by the options."""
    from slabsvm.files.tables import Reading

    given = {name: options[name] for name in ("format", "separator", "decimal", "encoding", "array", "sheet")}
    return Reading(**given, header=not options["no_header"], skip_rows=_numbers(options["skip_rows"]), **more)


def _numbers(texts: tuple[str, ...]) -> list[int]:
    """Return the numbers of rows in texts of numbers, separated by commas."""
    try:
        return [int(text) for text in listed(texts)]
    except ValueError:
        raise click.UsageError(f"--skip-rows takes numbers of rows, such as 301, and not {', '.join(texts)}.") from None


def encoder_of(options: dict[str, Any]) -> TableEncoder:
    """Return the encoder of the columns, by the options."""
    from slabsvm.tables import TableEncoder

    return TableEncoder(
        columns=listed(options["columns"]) or None,
        drop=listed(options["drop"]),
        categories=listed(options["categories"]),
        keep=listed(options["keep"]),
        times=[part for part in listed((options["times"],)) if part != "none"],
        gaps=listed(options["gaps"]),
        id_column=options["id"],
        weight_column=options["weight"],
        missing=options["missing"],
        day_first=options["day_first"],
        decimal=options["decimal"] if options["decimal"] in (".", ",") else None,
    )


def listed(texts: tuple[str, ...]) -> list[str]:
    """Return the names in texts of names, separated by commas; one that holds a comma is in quotes."""
    found = (one for text in texts for one in NAME.findall(text))
    return [name for quoted, bare in found if (name := quoted.replace('""', '"') or bare.strip())]
