"""What the commands share: errors a person can act on, progress, and the output folder."""

from __future__ import annotations

import errno
import io
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

import click

from slabsvm_reproduction.run.claim import claimed

if TYPE_CHECKING:
    from slabsvm_reproduction.letter.data import Letters
    from slabsvm_reproduction.report.parts import Chart, Grid, Picture, Report
    from slabsvm_reproduction.run.journal import Record

INTERRUPTED = 130  # the exit status by which shells know an interruption
GOING_ON = "goes on from there"
PLAIN_SECONDS = 30.0  # between lines of progress where nobody sees a bar
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Make room and give the command again: what was finished is kept"),
    **dict.fromkeys((errno.EISDIR, errno.EINVAL), "Move it away, or name another folder with --output"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Mend its rights, or name another folder with --output"),
}
FEW = 3  # steps that tell no time left: the first ones compile and fill caches


@contextmanager
def plain_errors(kept: str = "What was finished is kept", then: str = GOING_ON) -> Iterator[None]:
    """Turn what can go wrong on a user's machine into one message and an exit status, with no traceback.

    Parameters
    ----------
    kept, then : str
        What is said of an interruption, as by :func:`stop`.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a name of the data shows its escapes.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from slabsvm import ExtraMissingError
        from slabsvm_reproduction.letter.data import DataError

        try:
            yield
        except (DataError, ExtraMissingError) as error:
            raise click.ClickException(str(error)) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        remedy = REMEDIES.get(error.errno or 0)
        raise click.ClickException(f"{place}{error.strerror or error}" + (f". {remedy}" if remedy else "")) from error
    except KeyboardInterrupt:
        stop(kept, then)


def stop(kept: str, then: str = GOING_ON) -> NoReturn:
    """End on an interruption, in a line that says what is kept, and what the same command will do then."""
    _end_at_the_next_interruption()
    click.echo(f"\nStopped. {kept}; the same command {then}.", err=True)
    raise SystemExit(INTERRUPTED) from None


def prepare(output: Path, figures: bool) -> None:
    """Fail now, rather than after the work, when the results could not be written or drawn."""
    check_folder(output)
    if figures:
        from slabsvm import ExtraMissingError
        from slabsvm.display import require_matplotlib

        try:
            require_matplotlib()
        except ExtraMissingError as error:
            raise click.ClickException(f"{error}\nOr go without figures: --no-figures") from error


def check_folder(output: Path) -> None:
    """Make the output folder, make sure that a file can be written into it, and keep other runs out of it."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise click.ClickException(
            f"Cannot write to {output}: {error.strerror or error}. Name another folder with --output."
        ) from error
    # Until the command ends.
    click.get_current_context().with_resource(claimed(output))


def load(data: Path | None) -> Letters:
    """The Letter data set; says so before it goes to the network."""
    from slabsvm_reproduction.letter import data as source

    if data is None and not source.is_at_hand():
        click.echo("Downloading the Letter data set (0.7 MB) from the UCI repository ...", err=True)
    return source.load_letters(data)


def run_cells(
    name: str,
    *,
    cells: Sequence[Any],
    measure: Callable[[Any], Record],
    output: Path,
    jobs: int | None,
    fresh: bool,
    what: str = "fits",
) -> list[Record]:
    """Run the cells with progress, or read the records of an earlier run; say which it was."""
    from joblib import cpu_count

    from slabsvm_reproduction.run.journal import Journal
    from slabsvm_reproduction.run.protocol import known_records, run

    journal = output / f"{name}.jsonl"
    if fresh:
        journal.unlink(missing_ok=True)
    kept, threads = len(known_records(journal, cells)), jobs or cpu_count()
    if kept == len(cells):
        click.echo(f"All {kept} results are in {journal} already: nothing to compute (--fresh computes them again).")
        return run(cells, measure, journal)
    if broken := Journal(journal).broken():
        click.echo(
            f"{_lines(broken)} of {journal}: cut short, or not as written. What is missing for that is computed again."
        )
    if kept:
        click.echo(f"Going on: {kept} of {len(cells)} results are in {journal} already.")
    elif journal.exists():
        click.echo(f"The results in {journal} are of other code or another setting, and are not used.")
    begin = perf_counter()
    try:
        with progress(f"Running {len(cells)} {what}", len(cells), kept) as advance:
            records = run(cells, measure, journal, n_jobs=threads, advance=advance, stopping=_say_stopping)
    except KeyboardInterrupt:
        stop(f"{len(known_records(journal, cells))} of {len(cells)} results are kept")
    seconds, plural = perf_counter() - begin, "s" if threads > 1 else ""
    click.echo(f"{len(cells) - kept} {what} took {duration(seconds)} on {threads} thread{plural}.")
    return records


def _lines(numbers: Sequence[int]) -> str:
    """Name lines, the first of them by number."""
    shown, more = ", ".join(map(str, numbers[:FEW])), len(numbers) - FEW
    return f"Line{'s' if len(numbers) > 1 else ''} {shown}" + (f" and {more} more" if more > 0 else "")


def _say_stopping() -> None:
    _end_at_the_next_interruption()
    click.echo("\nStopping, as soon as what was begun is finished and kept (Ctrl-C again: without that) ...", err=True)


def _end_at_the_next_interruption() -> None:
    """Have the system end the process: while threads and other processes end, Python would only add a traceback."""
    # Not in the main thread, which alone is interrupted.
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def duration(seconds: float) -> str:
    """Say a time as a person would."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def rough_duration(seconds: float) -> str:
    """Say an estimate of a time, no more exactly than it is known."""
    return f"{10 * max(1, round(seconds / 10))} s" if seconds < 90 else f"{round(seconds / 60)} min"


@contextmanager
def progress(label: str, total: int, done: int = 0) -> Iterator[Callable[[], None]]:
    """Show progress and the time left on standard error; gives the function to call after each step.

    A bar on a terminal; elsewhere, where a bar cannot be drawn, a line now and then.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_progress(label, total, done)
        return
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    # Steps may take ten seconds and differ much: the time left is estimated from all of them.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda: bar.advance(task)


def _plain_progress(label: str, total: int, done: int) -> Callable[[], None]:
    begin = last = perf_counter()
    count = done

    def advance() -> None:
        nonlocal count, last
        count += 1
        now = perf_counter()
        if now - last < PLAIN_SECONDS or count == total:
            return
        last = now
        left = (now - begin) / (count - done) * (total - count)
        estimate = f", about {rough_duration(left)} left" if count - done > FEW else ""
        click.echo(f"{label}: {count} done{estimate}", err=True)

    return advance


def show(grid: Grid) -> None:
    """Print a table and its notes."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(f"\n{grid.title}", style="bold", markup=False, emoji=False)
    console.print(grid.terminal())
    tell(grid.notes)


def tell(paragraphs: Sequence[str]) -> None:
    """Print paragraphs, wrapped to the terminal's width."""
    from rich.console import Console

    console = Console(highlight=False)
    for paragraph in paragraphs:
        console.print(paragraph, markup=False, emoji=False)


def draw(output: Path, charts: Sequence[Chart], figures: bool) -> list[Picture]:
    """Draw the charts as PNG files in the output folder."""
    from slabsvm_reproduction.report.parts import Picture

    if not figures:
        return []
    pictures = []
    for chart in charts:
        path = output / f"{chart.name}.png"
        chart.draw(path)
        pictures.append(Picture(chart.title, path, chart.caption))
    return pictures


def finish(
    output: Path, name: str, report: Report, records: Sequence[Record], journals: Sequence[str] | None = None
) -> None:
    """Write the CSV file and the report of an experiment, and say where everything is.

    The records are those of these journals, or of the one that has the experiment's name.
    """
    from slabsvm import __version__
    from slabsvm.data.files import write_whole
    from slabsvm_reproduction.report.parts import Prose, write_csv

    write_csv(records, output / f"{name}.csv")
    sources = ", ".join(f"`{journal}.jsonl`" for journal in journals or [name])
    origin = (
        f"Made by slabsvm {__version__} from {sources}, one record a line; `{name}.csv` has those "
        "shown here as a table. Run the command again to render this anew: what is recorded is not computed twice."
    )
    report = replace(report, parts=[*report.parts, Prose("Where this comes from", [origin])])
    for kind, text in (("md", report.markdown()), ("html", report.html())):
        write_whole(output / f"{name}.{kind}", text)
    click.echo(f"\nThe report is {output / f'{name}.html'}, one page with everything in it;")
    click.echo("Markdown, figures, CSV and JSON records are beside it.")
