"""What the subcommands share: exit statuses, errors that a person can act on, warnings, and progress."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command import INTERRUPTED
from slabsvm.data.files import is_stream
from slabsvm.runtime.caller import ExtraMissingError, counted, escaped

if TYPE_CHECKING:
    from slabsvm.files.tables import Reading
    from slabsvm.tables import TableError
    from slabsvm.tables.plan import Plan

# The exit status where more rows are rejected than --fail-above allows; click has 1 for an error and 2 for misuse.
TOO_MANY_REJECTED = 3
STATUSES = (
    "Exit status: 0 done; 1 a file is wrong, the text says what to do; 2 the command line is wrong; "
    f"{TOO_MANY_REJECTED} `score --fail-above`: too many rows are rejected; {INTERRUPTED} interrupted. No file is ever "
    "written in part."
)
# The heads of a plan's table, on a terminal and on a page.
PLAN_HEAD = ("column", "taken for", "empty", "what it holds", "what is done with it")


@contextmanager
def plain_errors(*written: str, lines: str = "", **files: Path | None) -> Iterator[None]:
    """Turn what can go wrong on a user's machine into one message and an exit status, with no traceback.

    Files are refused now, rather than after the work, where two are one, or where one could not be written: written are
    the names of those that are, and lines that of the output, which may be a device or a pipe, too.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a name of the data shows its escapes.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        _refuse_one_file_twice(files)
        for name in filter(None, (lines, *written)):
            _refuse_unwritable(files[name], streams=name == lines)
        yield
    except click.UsageError:
        raise
    except BrokenPipeError:
        # The reader of the rows has closed the pipe, as `| head` does: what was asked for is done.
        read_no_more(sys.stdout)
        raise SystemExit(0) from None
    except (click.ClickException, ExtraMissingError, MemoryError, OSError, ValueError) as error:
        text = error.message if isinstance(error, click.ClickException) else with_options(str(error))
        if isinstance(error, MemoryError):
            text = "There is not enough memory for this table as a whole."
        elif isinstance(error, OSError):
            place = f"{named(Path(str(error.filename)))}: " if error.filename else ""
            text = f"{place}{error.strerror or error}"
            if isinstance(error, FileNotFoundError) and error.strerror == os.strerror(errno.ENOENT):
                text = f"{place}there is no such file. Look at its name and folder"
        # Lines stay lines; nothing else means anything to a terminal.
        raise click.ClickException("\n".join(map(escaped, text.split("\n")))) from error
    except KeyboardInterrupt:
        say("\nStopped. No file was written.", err=True)
        raise SystemExit(INTERRUPTED) from None


def _refuse_one_file_twice(paths: dict[str, Path | None]) -> None:
    """Refuse two paths that lead to one file: writing the one would destroy the other."""
    known = [(name, path) for name, path in paths.items() if path is not None and str(path) != "-"]
    for place, (name, path) in enumerate(known):
        for other, before in known[:place]:
            there = path.exists() and before.exists()
            # Of links in a circle `Path.resolve` makes an error that is none of the system's.
            if path.samefile(before) if there else os.path.realpath(path) == os.path.realpath(before):
                raise click.ClickException(f"{path} is the {other} and the {name}: give the {name} another name.")


def _refuse_unwritable(path: Path | None, *, streams: bool) -> None:
    """Refuse a file that could not be written; streams: devices and pipes can."""
    if path is None or str(path) == "-" or (streams and is_stream(path)):
        return
    if is_stream(path):
        raise click.ClickException(f"{path} is a device or a pipe, which no file can replace: name a file.")
    if path.is_dir():
        raise click.ClickException(f"{path} is a folder: name a file in it.")
    if not path.parent.is_dir():
        raise click.ClickException(f"{path}: there is no folder {path.parent}. Make it first.")
    if not os.access(path.parent, os.W_OK):
        raise click.ClickException(f"{path}: nothing can be written to {path.parent}. Name another folder.")


def say(text: str, *, err: bool = False) -> None:
    """Say a line on the standard output, or error; where that is closed, as after `| head`, go on without a word."""
    try:
        click.echo(text, err=err)
    except BrokenPipeError:
        read_no_more(sys.stderr if err else sys.stdout)


def read_no_more(stream: Any) -> None:
    """Have all that a stream is still given vanish: what it holds already would fail again when Python ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def about(path: Path, how: Reading) -> Iterator[None]:
    """Name the table and its lines in errors about it, with the command line that takes it as it is."""
    from slabsvm.files.tables import located
    from slabsvm.tables import TableError

    try:
        yield
    except TableError as error:
        text = f"{named(path)}: {with_options(str(located(error, path, how)))}{_ready_line(error.errors)}"
        raise click.ClickException(text) from error


def _ready_line(errors: Sequence[TableError]) -> str:
    """Return the command line that takes a table with these errors, "" where there is none."""
    context = click.get_current_context()
    given = list(context.obj or ())
    options = {name for parameter in context.command.params for name in parameter.opts}
    remedies: dict[str, list[str]] = {}
    for option, value in (error.remedy for error in errors if error.remedy is not None):
        values = remedies.setdefault(f"--{option}", [])
        values += [value] if value not in values else []
    # A subcommand that is called by itself, as from Python, has no command line; some have no such options.
    if not given or not remedies or not remedies.keys() <= options:
        return ""
    # Of these one value holds, the last: the new one takes the place of the old one.
    for option in remedies.keys() & {"--separator", "--decimal", "--encoding", "--format"} & set(given):
        place = given.index(option)
        del given[place : place + 2]
    words = [word for option, values in remedies.items() for word in (option, ",".join(values)) if word]
    mended = "" if all(error.remedy for error in errors) else ", once the other columns are mended"
    return f"\nThis command line takes it{mended}:\n  {shlex.join([*given, *words])}"


def named(path: Path) -> str:
    """Return what a file is called, as a terminal may show it."""
    return "the standard input" if str(path) == "-" else escaped(str(path))


def printable(names: Iterable[str]) -> Iterator[str]:
    """Give names of a table as a terminal may show them: in one line, of 60 letters, and without meaning to it."""
    return (escaped(name[:60]) + ("..." if len(name) > 60 else "") for name in names)


def with_options(text: str) -> str:
    """Return a text with options in place of parameters, which texts of other folders name in brackets."""
    names = (
        "array|categories|columns|day-first|decimal|drop|encoding|format|gaps|id|keep|missing|month-first|separator"
        "|sheet|skip-rows|weight"
    )
    return re.sub(rf"\(({names})\)|\(no header\)", lambda found: f"(--{found[1] or 'no-header'})", text)


@contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """Keep this package's warnings, each once, for the command to say; those of other libraries are dropped."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    for one in caught:
        text = with_options(str(one.message))
        is_ours = f"{one.category.__module__}.".startswith(("slabsvm.", "sklearn.exceptions."))
        # The last line of a command says which columns are not learned.
        if is_ours and text not in texts and " not learned: " not in text:
            texts.append(text)


def warn(texts: Iterable[str]) -> None:
    """Say warnings on the standard error."""
    for text in texts:
        say(f"Warning: {text}", err=True)


def say_json(facts: dict[str, Any]) -> None:
    """Write facts on the standard output, for a program; what is no number is null."""
    say(json.dumps(_finite(facts), ensure_ascii=False, indent=1, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def plan_lines(plan: Plan, most: int | None = None) -> list[str]:
    """Return a table of the columns, as a terminal may show it."""
    lines = plan.lines()[:most]
    # A cell has 44 letters, so that a line of five fits most terminals.
    cells = [PLAN_HEAD, *(tuple(c if len(c) <= 44 else f"{c[:41]}..." for c in printable(line)) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    # Counts end where they end, and texts begin where they begin.
    sides = [f"{'>' if name == 'empty' else '<'}{width}" for name, width in zip(PLAN_HEAD, widths, strict=True)]
    found = ["  ".join(["", *map(format, line, sides)]).rstrip() for line in cells]
    if (rest := len(plan.names) - len(lines)) > 0:
        found.append(f"  and {counted(rest, 'other column')}: `slabsvm inspect` lists all")
    return found


@contextmanager
def progress_bar(text: str, *, shown: bool = True) -> Iterator[Callable[..., None] | None]:
    """Show a text and a bar on a terminal's standard error; gives what to call with `completed` and `total`, or None.

    In the text {task.completed} is the number of steps that are done.
    """
    if not (shown and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn

    with Progress(text, BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task("", total=None))
