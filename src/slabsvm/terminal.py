"""What the commands share: errors a person can act on, progress, and the output folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from slabsvm.experiments.data import Letters
    from slabsvm.experiments.protocol import Record
    from slabsvm.report import Grid

INTERRUPTED = 130  # the exit status by which shells know an interruption


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what can go wrong on a user's machine into one message and an exit status, with no traceback."""
    from slabsvm.experiments.data import DataError
    from slabsvm.plots import PlotsMissingError

    try:
        yield
    except (DataError, PlotsMissingError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{place}{error.strerror or error}") from error


def prepare(output: Path, figures: bool) -> None:
    """Fail now, rather than after the work, when the results could not be written or drawn."""
    check_folder(output)
    if figures:
        from slabsvm.plots import PlotsMissingError, require_matplotlib

        try:
            require_matplotlib()
        except PlotsMissingError as error:
            raise click.ClickException(f"{error}\nOr go without figures: --no-figures") from error


def check_folder(output: Path) -> None:
    """Make the output folder, and make sure that a file can be written into it."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise click.ClickException(
            f"Cannot write to {output}: {error.strerror or error}. Name another folder with --output."
        ) from error


def load(data: Path | None) -> Letters:
    """The Letter data set; says so before it goes to the network."""
    from slabsvm.experiments import data as source

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
) -> list[Record]:
    """Run the cells with progress, or read the records of those that were run before; says which it was."""
    from joblib import cpu_count

    from slabsvm.experiments.protocol import known_records, run

    journal = output / f"{name}.jsonl"
    if fresh:
        journal.unlink(missing_ok=True)
    kept, threads = len(known_records(journal, cells)), jobs or cpu_count()
    if kept == len(cells):
        click.echo(f"All {kept} results are in {journal} already: nothing to compute (--fresh computes them again).")
        return run(cells, measure, journal)
    if kept:
        click.echo(f"Going on: {kept} of {len(cells)} results are in {journal} already.")
    begin = perf_counter()
    try:
        with progress(f"Fitting {len(cells)} models", len(cells)) as advance:
            records = run(cells, measure, journal, n_jobs=threads, advance=advance)
    except KeyboardInterrupt:
        kept = len(known_records(journal, cells))
        click.echo(
            f"\nStopped. {kept} of {len(cells)} results are kept; the same command goes on from there.",
            err=True,
        )
        raise SystemExit(INTERRUPTED) from None
    seconds, plural = perf_counter() - begin, "s" if threads > 1 else ""
    click.echo(f"{len(cells) - kept} fits and their predictions took {seconds:.1f} s on {threads} thread{plural}.")
    return records


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar with the time left, on standard error; gives the function to call after each step."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def show(grid: Grid) -> None:
    """Print a table and its notes."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(f"\n{grid.title}", style="bold", markup=False)
    console.print(grid.terminal())
    for note in grid.notes:
        console.print(note, markup=False)


def draw(output: Path, charts: Mapping[str, Callable[[Path], None]], figures: bool) -> list[Path]:
    """Draw the charts, by name, as PNG files in the output folder; returns their paths."""
    if not figures:
        return []
    drawn = []
    for name, chart in charts.items():
        path = output / f"{name}.png"
        chart(path)
        drawn.append(path)
    return drawn


def finish(
    output: Path,
    name: str,
    *,
    title: str,
    setting: str,
    grids: Sequence[Grid],
    drawn: Sequence[Path],
    records: Sequence[Record],
) -> None:
    """Write the CSV file and the report of an experiment, and say where everything is."""
    from slabsvm import __version__
    from slabsvm.report import write_csv, write_report

    write_csv(records, output / f"{name}.csv")
    origin = (
        f"Made by slabsvm {__version__} from `{name}.jsonl`, one record a line; `{name}.csv` has the same "
        "as a table. Run the command again to render this anew: what is recorded is not computed twice."
    )
    pictures = [f"![{path.stem}]({path.name})" for path in drawn]
    write_report(title, [setting, *pictures, *(grid.markdown() for grid in grids), origin], output / f"{name}.md")
    click.echo(f"\nReport, figures, CSV and JSON records are in {output}: begin with {output / f'{name}.md'}")
