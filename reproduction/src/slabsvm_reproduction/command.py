"""The subcommands `demo` and `reproduce` of the command `slabsvm`.

Heavy imports stand inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from slabsvm_reproduction.run.terminal import (
    check_folder,
    draw,
    finish,
    load,
    plain_errors,
    prepare,
    progress,
    run_cells,
    show,
    tell,
)

F = TypeVar("F", bound=Callable[..., Any])


@click.group(short_help="Repeat the paper's experiments.")
def reproduce() -> None:
    """Repeat the paper's experiments.

    Each result is kept as soon as it is there: a run that was stopped goes on where it was, and a finished
    one is shown again without computing anything.
    """


def output_option(default: str) -> Callable[[F], F]:
    """The option --output, a folder."""
    return click.option(
        "--output",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(default),
        show_default=True,
        help="Folder for the results; made if it is not there.",
    )


def run_options(command: F) -> F:
    """The options of every command that runs cells."""
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=None,
        metavar="N",
        help="Threads. [default: one for each processor]",
    )
    fresh = click.option("--fresh", is_flag=True, help="Forget the results in the output folder and start again.")
    figures = click.option(
        "--figures/--no-figures", default=True, show_default=True, help="Draw figures, with matplotlib."
    )
    return jobs(fresh(figures(command)))


def data_option(command: F) -> F:
    """The option --data, the Letter file."""
    option = click.option(
        "--data",
        type=click.Path(path_type=Path),
        default=None,
        help="UCI's letter-recognition.data or its folder. [default: from SLABSVM_DATA, else downloaded]",
    )
    return option(command)


def region_options(command: F) -> F:
    """The options --classes, --backgrounds and --objects of the commands that learn regions of images."""
    classes = click.option(
        "--classes", default=None, metavar="A,B,...", help="Classes to learn. [default: all with 30 objects]"
    )
    backgrounds = click.option(
        "--backgrounds",
        type=click.IntRange(min=10),
        default=10_000,
        show_default=True,
        metavar="N",
        help="Regions of background for each class; the paper has 10000.",
    )
    objects = click.option(
        "--objects",
        type=click.IntRange(min=30),
        default=None,
        metavar="N",
        help="At most so many objects of a class, evenly from its images: models take their cube. [default: all]",
    )
    return classes(backgrounds(objects(command)))


def named(classes: str | None) -> list[str] | None:
    """The classes that --classes names, None for all."""
    return None if classes is None else [label.strip() for label in classes.split(",") if label.strip()]


@click.command(short_help="Learn ten digits, each alone, and show it on a page.")
@output_option("slabsvm-demo")
def demo(output: Path) -> None:
    """Learn each of ten handwritten digits from its positives alone, and face all ten.

    Uses scikit-learn's bundled digits and writes one page, digits.html, that holds everything it shows. Two tables are
    there to try `slabsvm fit` and `slabsvm score` on: good.csv has threes, and new.csv has other images of all digits.
    """
    with plain_errors("No page is written yet", "begins again"):
        check_folder(output)
        from slabsvm.data.files import write_whole
        from slabsvm_reproduction.demo import digits as experiment
        from slabsvm_reproduction.demo.page import demo_page
        from slabsvm_reproduction.report.parts import write_csv
        from slabsvm_reproduction.report.tables import digits_grid

        digits = experiment.split_digits()
        sweep = {}
        with progress("Learning digits", len(experiment.GAMMA_MULTIPLES)) as advance:
            for multiple in experiment.GAMMA_MULTIPLES:
                sweep[multiple] = experiment.evaluations(digits, multiple)
                advance()
        show(digits_grid(sweep[1.0]))
        page = output / "digits.html"
        write_whole(page, demo_page(digits, sweep))
        write_csv([one.record() for met in sweep.values() for one in met], output / "digits.csv")
        threes = digits.train_digits == 3
        write_csv(experiment.table(digits.train[threes], digits.train_digits[threes]), output / "good.csv")
        write_csv(experiment.table(digits.test, digits.test_digits), output / "new.csv")
        click.echo(f"Open {page} in a browser: what each model accepts and rejects, in pictures.")


@reproduce.command(short_help="Table 1 on UCI Letter: five methods, five kernels.")
@output_option("slabsvm-letter")
@data_option
@click.option(
    "--calibration",
    type=click.Choice(["training", "auto"]),
    default="training",
    show_default=True,
    help="Where the planes stand: at the training scores, as in the paper, or at leave-one-out scores.",
)
@run_options
def letter(*, output: Path, data: Path | None, calibration: str, jobs: int | None, fresh: bool, figures: bool) -> None:
    """Table 1 of the paper: 26 letters, five methods, five kernels, Matthews correlation on the test rows.

    Every cell is set beside the paper's value, with a verdict and what is known of the difference.
    """
    with plain_errors():
        prepare(output, figures)
        from slabsvm_reproduction.paper.runs import Options, run_letter

        run_letter(Options(output, jobs, fresh, figures), load(data), calibration)


@reproduce.command("fair", short_help="Every method tuned alike, with positives alone.")
@output_option("slabsvm-fair")
@data_option
@run_options
def fair_command(*, output: Path, data: Path | None, jobs: int | None, fresh: bool, figures: bool) -> None:
    """Nine methods on Letter, each tuned by the same budget and the same label-free criterion, and its oracle.

    What Table 1 lacks: there each method has one set of parameters. Takes up to twenty minutes on two cores.
    """
    with plain_errors():
        prepare(output, figures)
        from slabsvm_reproduction.tuned import experiment as fair
        from slabsvm_reproduction.tuned import plots as fair_plots
        from slabsvm_reproduction.tuned import report as fair_report

        letters = load(data)
        cells, measure = fair.fair_cells(letters), fair.fair_measure(letters)
        records = run_cells(
            "fair", cells=cells, measure=measure, output=output, jobs=jobs, fresh=fresh, what="searches"
        )
        show(fair_report.fair_grid(records))
        tell(["", *fair_report.found(records)])
        pictures = draw(output, fair_plots.charts(records), figures)
        finish(output, "fair", fair_report.fair_report(records, pictures), records)


@reproduce.command("openset", short_help="13 known letters, and 13 that turn up: named or called unknown.")
@output_option("slabsvm-openset")
@data_option
@run_options
def openset_command(*, output: Path, data: Path | None, jobs: int | None, fresh: bool, figures: bool) -> None:
    """Open-set recognition on Letter: the slab, its rivals and a closed-set SVC, against openness, over 5 draws.

    Takes about three minutes on two cores.
    """
    with plain_errors():
        prepare(output, figures)
        from slabsvm_reproduction.openset import experiment as openset
        from slabsvm_reproduction.openset import plots as openset_plots
        from slabsvm_reproduction.openset import report as openset_report

        letters = load(data)
        cells, measure = openset.openset_cells(letters), openset.openset_measure(letters)
        records = run_cells("openset", cells=cells, measure=measure, output=output, jobs=jobs, fresh=fresh)
        show(openset_report.f1_grid(records))
        tell(["", *openset_report.found(records)])
        pictures = draw(output, openset_plots.charts(records), figures)
        finish(output, "openset", openset_report.openset_report(records, pictures), records)


@reproduce.command("voc", short_help="Pascal VOC: objects by their HOG, against background.")
@output_option("slabsvm-voc")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=None,
    help="VOCdevkit/VOC2012, or any folder with Annotations and JPEGImages in VOC's layout. [default: SLABSVM_DATA]",
)
@region_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the backgrounds.")
@click.option("--year", type=int, default=None, help="Which VOC of a VOCdevkit that holds several.")
@click.option("--image-set", default=None, metavar="NAME", help="A list in ImageSets/Main, such as train.")
@click.option("--difficult", is_flag=True, help="Take objects marked difficult, too.")
@click.option("--no-truncated", is_flag=True, help="Leave truncated objects out.")
@click.option("--strict", is_flag=True, help="Refuse data with anything broken, in place of leaving that out.")
@run_options
def voc_command(
    *,
    output: Path,
    data: Path | None,
    classes: str | None,
    backgrounds: int,
    objects: int | None,
    seed: int,
    year: int | None,
    image_set: str | None,
    difficult: bool,
    no_truncated: bool,
    strict: bool,
    jobs: int | None,
    fresh: bool,
    figures: bool,
) -> None:
    """The paper's second experiment: each class of objects learned alone, by HOG, against regions of background.

    Features are kept below the output folder, also with --fresh. Pictures of the images stay there: mind
    the images' terms before you pass them on.
    """
    with plain_errors():
        prepare(output, figures)
        from time import perf_counter

        from slabsvm_reproduction.paper.runs import Options, Regions, run_voc
        from slabsvm_reproduction.voc.reading import read_data
        from slabsvm_reproduction.voc.regions import Choice

        begin = perf_counter()
        images = read_data(data, year=year, image_set=image_set, strict=strict, jobs=jobs)
        seconds = perf_counter() - begin
        choice = Choice(difficult=difficult, truncated=not no_truncated, most=objects)
        regions = Regions(images, named(classes), backgrounds, seed, choice)
        run_voc(Options(output, jobs, fresh, figures), regions, seconds)


@reproduce.command(short_help="What the paper's planes cost, and the cure.")
@output_option("slabsvm-planes")
@data_option
@run_options
def planes(*, output: Path, data: Path | None, jobs: int | None, fresh: bool, figures: bool) -> None:
    """The paper's planes against leave-one-out planes on Letter, for gamma from 1 to 32."""
    with plain_errors():
        prepare(output, figures)
        from slabsvm_reproduction.letter import experiment as paper
        from slabsvm_reproduction.report import plots, tables
        from slabsvm_reproduction.report.parts import Report

        letters = load(data)
        cells, measure = paper.planes_cells(letters), paper.letter_measure(letters)
        records = run_cells("planes", cells=cells, measure=measure, output=output, jobs=jobs, fresh=fresh)
        grid = tables.planes_grid(records)
        show(grid)
        pictures = draw(output, plots.planes_charts(records), figures)
        finish(output, "planes", Report("What the planes cost", [paper.SETTING], [*pictures, grid]), records)


@reproduce.command("toy", short_help="The toy table and its figures.")
@output_option("slabsvm-toy")
@run_options
def toy_command(*, output: Path, jobs: int | None, fresh: bool, figures: bool) -> None:
    """The paper's toy data: the share of points inside for five epsilons, and the figures."""
    with plain_errors():
        prepare(output, figures)
        from slabsvm_reproduction.paper.runs import Options, run_toy

        run_toy(Options(output, jobs, fresh, figures))


@reproduce.command("paper", short_help="All that the paper prints, with a verdict on each number.")
@output_option("slabsvm-paper")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder with letter/letter-recognition.data and VOCdevkit. [default: SLABSVM_DATA; Letter is downloaded]",
)
@region_options
@click.option("--no-voc", is_flag=True, help="Leave Table 2 out, of which the images are not downloaded for you.")
@run_options
def paper_command(
    *,
    output: Path,
    data: Path | None,
    backgrounds: int,
    objects: int | None,
    classes: str | None,
    no_voc: bool,
    jobs: int | None,
    fresh: bool,
    figures: bool,
) -> None:
    """Table 1, the toy experiment and Table 2, at the parameters that the paper prints, and a page of verdicts.

    Says beforehand what it takes, and after each experiment what is left. A run that was stopped goes on where it was.
    """
    with plain_errors():
        prepare(output, figures)
        from time import perf_counter

        from slabsvm_reproduction.letter.data import DataError
        from slabsvm_reproduction.paper.runs import Options, Regions, run_paper
        from slabsvm_reproduction.voc.reading import read_data
        from slabsvm_reproduction.voc.regions import Choice

        letters, regions, begin = load(data), None, perf_counter()
        if not no_voc:
            try:
                images = read_data(data, year=None, image_set=None, strict=False, jobs=jobs)
            except DataError as error:
                raise DataError(f"{error}\n\nWithout these images: --no-voc leaves Table 2 out.") from error
            regions = Regions(images, named(classes), backgrounds, 0, Choice(most=objects))
        run_paper(Options(output, jobs, fresh, figures), letters, regions, perf_counter() - begin)
