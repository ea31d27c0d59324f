"""The paper's three experiments, each from data to its report, and all of them as one run with a page of verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm_reproduction.run.terminal import draw, finish, rough_duration, run_cells, show, tell

if TYPE_CHECKING:
    from slabsvm_reproduction.letter.data import Letters
    from slabsvm_reproduction.report.parts import Picture
    from slabsvm_reproduction.run.journal import Record
    from slabsvm_reproduction.voc.data import VOCData
    from slabsvm_reproduction.voc.regions import Choice

TABLE_ONE, TOY, TABLE_TWO = "Table 1", "the toy experiment", "Table 2"
# Where the records of each are kept.
JOURNALS = {TABLE_ONE: "letter-training", TOY: "toy", TABLE_TWO: "voc"}
# Seconds of one processor that a fit and its predictions take, by experiment: measured over all of its cells.
LETTER_FIT, TOY_FIT = 0.042, 0.24


@dataclass(frozen=True)
class Options:
    """The options of every run.

    Attributes
    ----------
    output : Path
        The folder for the results.
    jobs : int or None
        Threads, one for each processor for None.
    fresh : bool
        Whether earlier results are forgotten.
    figures : bool
    """

    output: Path
    jobs: int | None
    fresh: bool
    figures: bool

    def run(self, name: str, cells: Sequence[Any], measure: Any) -> list[Record]:
        """Run cells, or read their kept records."""
        return run_cells(name, cells=cells, measure=measure, output=self.output, jobs=self.jobs, fresh=self.fresh)


@dataclass(frozen=True)
class Regions:
    """Which classes and regions of a data set in VOC's layout are learned from.

    Attributes
    ----------
    data : VOCData
    classes : sequence of str or None
        None for all that have enough objects.
    n_backgrounds : int
        For each class.
    seed : int
        Draws the backgrounds.
    choice : Choice
        Of objects.
    """

    data: VOCData
    classes: Sequence[str] | None
    n_backgrounds: int
    seed: int
    choice: Choice

    def labels(self) -> tuple[list[str], list[str]]:
        """Return the classes to learn, and a sentence for each that is left out."""
        from slabsvm_reproduction.voc.classes import choose_classes, countable

        return choose_classes(countable(self.data, self.choice), self.classes)


@dataclass(frozen=True)
class Run:
    """What an experiment has come to."""

    records: list[Record]
    pictures: list[Picture]


def run_letter(options: Options, letters: Letters, calibration: str = "training") -> Run:
    """Table 1 on UCI Letter, with thresholds at these scores."""
    from slabsvm_reproduction.letter import experiment as paper
    from slabsvm_reproduction.letter import plots as letter_plots
    from slabsvm_reproduction.letter import report as letter_report
    from slabsvm_reproduction.letter import table_one
    from slabsvm_reproduction.report.parts import write_csv

    name, parts = f"letter-{calibration}", table_one.cells_by_part(letters, calibration)
    cells = [cell for part in parts.values() for cell in part]
    all_records = iter(options.run(name, cells, paper.letter_measure(letters)))
    records, ours, conventions = (list(islice(all_records, len(part))) for part in parts.values())
    # In files of their own, so that nobody takes their medians for the table's.
    for others, kind in ((ours, "ours"), (conventions, "conventions")):
        if others:
            write_csv(others, options.output / f"{name}-{kind}.csv")
    show(letter_report.table_grid(records, calibration))
    tell(["", *letter_report.found(records, calibration)])
    pictures = draw(options.output, letter_plots.charts(records, name), options.figures)
    report = letter_report.letter_report(records, ours, conventions, pictures, calibration)
    finish(options.output, name, report, records)
    return Run(records, pictures)


def run_toy(options: Options) -> Run:
    """The toy experiment."""
    from slabsvm_reproduction.report import plots
    from slabsvm_reproduction.toy import experiment as toy
    from slabsvm_reproduction.toy import report as toy_report

    records = options.run(JOURNALS[TOY], toy.toy_cells(), toy.toy_measure)
    show(toy_report.toy_grid(records))
    tell(["", *toy_report.found(records)])
    pictures = draw(options.output, plots.toy_charts(), options.figures)
    finish(options.output, JOURNALS[TOY], toy_report.toy_report(records, pictures), records)
    return Run(records, pictures)


def run_voc(options: Options, regions: Regions, reading_seconds: float) -> Run:
    """Table 2 on Pascal VOC, or on another data set in its layout that took so many seconds to read."""
    from slabsvm_reproduction.run import provenance
    from slabsvm_reproduction.voc import classes as pascal_classes
    from slabsvm_reproduction.voc import experiment as pascal
    from slabsvm_reproduction.voc import findings as voc_findings
    from slabsvm_reproduction.voc import plots as voc_plots
    from slabsvm_reproduction.voc import report as voc_report
    from slabsvm_reproduction.voc.reading import read_features
    from slabsvm_reproduction.voc.stages import Stages

    images, output = regions.data, options.output
    stages = Stages(output / "voc-stages.jsonl")
    stages.took("reading and checking the images", reading_seconds)
    labels, left_out = regions.labels()
    features = read_features(
        images,
        labels,
        n_backgrounds=regions.n_backgrounds,
        seed=regions.seed,
        choice=regions.choice,
        cache=output / "features",
        jobs=options.jobs,
        stages=stages,
    )
    of_voc = pascal_classes.is_pascal_voc(images)
    cells, measure = pascal.region_cells(features, of_voc=of_voc), pascal.region_measure(features)
    if options.fresh:
        stages.forget("models")
    keys = {of_class.label: f"{provenance.VERSION} {of_class.key}" for of_class in features}
    with stages.shared("models", keys, measure) as measure:
        records = options.run(JOURNALS[TABLE_TWO], cells, measure)
    for calibration in pascal.CALIBRATIONS:
        show(voc_report.table_grid(records, calibration, of_voc=of_voc))
    tell(["", *voc_findings.found(records)])
    with stages.timed("figures"):
        charts = voc_plots.charts(records, features) if options.figures else []
        pictures = draw(output, charts, options.figures)
    report = voc_report.voc_report(
        images.root.name,
        records,
        features,
        of_voc=of_voc,
        pictures=pictures,
        stages=stages.seconds(voc_report.STAGES),
        notes=[*map(str, images.problems), *left_out, *(note for one in features for note in one.notes)],
    )
    finish(output, JOURNALS[TABLE_TWO], report, records)
    return Run(records, pictures)


def run_paper(options: Options, letters: Letters, regions: Regions | None, reading_seconds: float) -> None:
    """All that the paper prints: the three experiments, and a page with a verdict on each of its numbers.

    Without regions, of which the images are not everybody's, Table 2 is left out, and the page says so.
    """
    from joblib import cpu_count

    from slabsvm_reproduction.paper import report as paper_report
    from slabsvm_reproduction.voc.classes import is_pascal_voc

    if regions is not None and not is_pascal_voc(regions.data):
        raise click.ClickException(
            f"{regions.data.root} is not Pascal VOC, by its name and its classes, and the paper has numbers for no "
            "other. Use `reproduce voc` for it."
        )
    threads = options.jobs or cpu_count()
    left = {words: seconds / threads for words, seconds in _foretold(options, letters, regions).items()}
    cores = "one idle core" if threads == 1 else f"{threads} idle cores"
    parts = "; ".join(f"{words} {_said(seconds)}" for words, seconds in left.items())
    click.echo(f"About {rough_duration(sum(left.values()))} on {cores}: {parts}.")
    if TABLE_TWO in left:
        click.echo(f"{TABLE_TWO} takes less where features or fits of an earlier run are kept.")
    runs: dict[str, Run] = {}
    for words in list(left):
        if words == TABLE_ONE:
            runs[words] = run_letter(options, letters)
        elif words == TOY:
            runs[words] = run_toy(options)
        elif regions is not None:
            runs[words] = run_voc(options, regions, reading_seconds)
        del left[words]
        if left:
            click.echo(f"\nLeft: {', '.join(left)}, about {rough_duration(sum(left.values()))}.\n")
    records = {words: run.records for words, run in runs.items()}
    grid = paper_report.verdicts_grid(records.get(TABLE_ONE), records.get(TABLE_TWO), records.get(TOY))
    tell(["", *paper_report.found(grid)])
    pictures = [picture for run in runs.values() for picture in run.pictures]
    report = paper_report.paper_report(grid, pictures)
    made_of = [JOURNALS[words] for words in runs]
    finish(options.output, "paper", report, [record for run in runs.values() for record in run.records], made_of)


def _said(seconds: float) -> str:
    """Say an experiment's estimate; it is 0 where all of it is kept."""
    return rough_duration(seconds) if seconds else "is there already"


def _foretold(options: Options, letters: Letters, regions: Regions | None) -> dict[str, float]:
    """Seconds of one processor that each experiment takes; of Table 2 as if nothing of it were kept."""
    from slabsvm_reproduction.letter import table_one
    from slabsvm_reproduction.run.protocol import known_records
    from slabsvm_reproduction.toy import experiment as toy
    from slabsvm_reproduction.voc.costs import costs

    def missing(name: str, cells: Sequence[Any]) -> int:
        return len(cells) - (0 if options.fresh else len(known_records(options.output / f"{name}.jsonl", cells)))

    of_letter = [cell for part in table_one.cells_by_part(letters).values() for cell in part]
    seconds = {
        TABLE_ONE: LETTER_FIT * missing(JOURNALS[TABLE_ONE], of_letter),
        TOY: TOY_FIT * missing(JOURNALS[TOY], toy.toy_cells()),
    }
    if regions is not None:
        foretold = costs(regions.data, regions.labels()[0], regions.n_backgrounds, regions.choice)
        seconds[TABLE_TWO] = sum(cost.seconds for cost in foretold)
    return seconds
