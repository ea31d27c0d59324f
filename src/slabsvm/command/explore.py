"""The subcommand `explore`: a slab to play with, in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import click

from slabsvm.command.options import FILE, TABLE, reading_of, reading_options
from slabsvm.command.terminal import STATUSES, about, named, plain_errors, say


@click.command(short_help="Play with a slab in a browser.", epilog=STATUSES)
@click.argument("table", type=TABLE, required=False)
@click.option("-o", "--output", type=FILE, default=Path("slab.html"), show_default=True, help="The page to write.")
@click.option("--no-browser", is_flag=True, help="Open no browser: write the page, and no more.")
@reading_options
def explore(*, table: Path | None, output: Path, no_browser: bool, **options: Any) -> None:
    """Write a page to play with a slab on, and open it: points are added, dragged and painted, and the planes follow.

    With TABLE, two of its columns are the points. The page holds up to 500 of its rows; it is one file, which needs
    no other and sends nothing anywhere.

    \b
    slabsvm explore measurements.csv -o measurements.html
    """
    with plain_errors("page", table=table, page=output):
        from slabsvm.data.files import write_whole
        from slabsvm.explore import columns_of, page

        columns = None
        if table is not None:
            with about(table):
                columns = columns_of(table, reading_of(options))
        write_whole(output, page(columns))
        say(f"Wrote {named(output)}.")
        if not no_browser:
            webbrowser.open(output.absolute().as_uri())
