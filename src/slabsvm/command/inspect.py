"""The subcommand `inspect`: what a model file holds."""

from __future__ import annotations

from pathlib import Path

import click

from slabsvm.command.options import FILE
from slabsvm.command.terminal import STATUSES, distinct_files, named, plain_errors, say, say_json, warn, writable


@click.command(short_help="Say what a model has learned.", epilog=STATUSES)
@click.argument("model", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")
@click.option("--html", type=FILE, metavar="PAGE", help="Write one page with pictures, too, that holds all it shows.")
def inspect(*, model: Path, as_json: bool, html: Path | None) -> None:
    """Say what MODEL has learned: columns, recall, support vectors, planes, certificates, warnings.

    Of the --state of `slabsvm monitor`, say what was found so far.

    \b
    slabsvm inspect model.slab --html model.html
    """
    with plain_errors():
        distinct_files(model=model, page=html)
        writable(html)
        from slabsvm.command.facts import facts, page, said, warnings_of
        from slabsvm.command.scoring import loaded
        from slabsvm.command.watching import facts_of, state_of

        if (monitor := state_of(model)) is not None:
            if html is not None:
                raise click.UsageError("--html is for models: a monitor's picture is slabsvm.display.draw_monitor.")
            if as_json:
                say_json(facts_of(monitor))
            else:
                say(monitor.summary())
            return
        found = loaded(model)
        if html is not None:
            from slabsvm.data.files import write_whole
            from slabsvm.display import require_matplotlib

            require_matplotlib()
            write_whole(html, page(found, model))
        if as_json:
            say_json(facts(found, model))
            return
        for line in said(found, model):
            say(line)
        warn(warnings_of(found[-1]))
        if html is not None:
            say(f"Wrote {named(html)}.")
