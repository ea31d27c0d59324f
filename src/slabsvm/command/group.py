"""The command `slabsvm`: subcommands of this library, and of distributions that offer some by an entry point."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from slabsvm import __version__
from slabsvm.command import nothing_begun
from slabsvm.command.check import check
from slabsvm.command.fit import fit
from slabsvm.command.inspect import inspect
from slabsvm.command.score import score
from slabsvm.command.terminal import STATUSES

# What people type who know scikit-learn or pandas, and what is meant.
FOREIGN_OPTIONS = {
    "--nu": "The share of good rows to reject is 1 - RECALL: --recall .95 rejects 5 %.",
    "--contamination": "All rows are taken for good. --recall .95 rejects 5 % of good rows.",
    "--gamma": "The default detector has none. From Python: OneClassSlabSVM(gamma=...).",
    "--kernel": "The default detector has none. From Python: OneClassSlabSVM(kernel=...).",
    "--output-file": "It is -o, or --output.",
    "--delimiter": "It is --separator.",
    "--sep": "It is --separator.",
}


class WithPlugins(click.Group):
    """A group with the subcommands that installed distributions add."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands, in alphabetical order."""
        return sorted({*super().list_commands(ctx), *_plugins()})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand of a command line, whose words are kept: an error may say how to go on."""
        ctx.obj = [str(self.name), *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand; of an option that is none, say what is meant, and suggest names that are close alone."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            # click suggests "--json" for "--nu"; names that share three quarters of their letters are close.
            near = get_close_matches(error.option_name, error.possibilities or (), cutoff=0.75)
            meant = FOREIGN_OPTIONS.get(error.option_name)
            text = f"{error.message} {meant}" if meant else error.message
            raise click.NoSuchOption(error.option_name, text, near, error.ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand of a name, loaded now if it is another distribution's; None where there is none."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or (plugin := _plugins().get(cmd_name)) is None:
            return own
        with nothing_begun():
            loaded = plugin.load()
        if not isinstance(loaded, click.Command):
            raise click.ClickException(
                f"The entry point {cmd_name!r} of {plugin.group!r} is no click command but {loaded!r}: its "
                "distribution is broken, or of another version than slabsvm."
            )
        return loaded


def _plugins() -> dict[str, EntryPoint]:
    """Return the entry points of other distributions: each is named as its subcommand, and leads to a click command."""
    return {entry.name: entry for entry in entry_points(group="slabsvm.commands")}


@click.group(
    cls=WithPlugins, epilog=STATUSES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="slabsvm")
def slabsvm() -> None:
    """Learn good rows, and flag rows that are unlike them.

    \b
    slabsvm check good.csv                               what each column is taken for
    slabsvm fit good.csv -o model.skops                  learn a table of good rows
    slabsvm score model.skops new.csv -o scored.csv      which new rows are not like these, and why
    slabsvm inspect model.skops --html model.html        what was learned, in pictures

    `slabsvm demo`, which needs no data, and `reproduce` are there where slabsvm-reproduction is installed, as in a
    clone of the repository after `./run demo`.
    """


for subcommand in (check, fit, score, inspect):
    slabsvm.add_command(subcommand)
