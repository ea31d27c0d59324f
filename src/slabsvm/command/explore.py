"""The subcommand `explore`: a slab to play with, in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import click

from slabsvm.command.options import TABLE, reading_of, reading_options
from slabsvm.command.terminal import STATUSES, about, plain_errors, say


@click.command(short_help="Play with a slab in a browser.", epilog=STATUSES)
@click.argument("table", type=TABLE, required=False)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Of 127.0.0.1, where the page is served; 0 is any that is free.",
)
@click.option("--no-browser", is_flag=True, help="Open no browser: say where the page is, and no more.")
@reading_options
def explore(*, table: Path | None, port: int, no_browser: bool, **options: Any) -> None:
    """Serve a page to play with a slab on: points are added, dragged and painted, and the planes follow.

    With TABLE, two of its columns are the points. Only this computer can reach the page. Ctrl-C ends it.

    \b
    slabsvm explore measurements.csv
    """
    with plain_errors():
        from slabsvm.explore.server import address, bound, require_server, serve

        require_server()
        columns = None
        if table is not None:
            from slabsvm.explore.table import columns_of

            with about(table):
                columns = columns_of(table, reading_of(options))
        listening = bound(port)
        say(f"The page is at {address(listening)} (Ctrl-C ends it).")
        if not no_browser:
            webbrowser.open(address(listening))
        serve(listening, columns)
        say("\nStopped.")
