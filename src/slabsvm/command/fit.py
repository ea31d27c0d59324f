"""The subcommand `fit`: learn a table of good rows, and write a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from slabsvm.command.options import FILE, column_options, reading_options, recall_option, table_argument
from slabsvm.command.terminal import STATUSES, named, printable, steps

DETECTORS = ("auto", "calibrated", "slab", "one-class-svm", "svdd", "kernel-density", "kernel-pca")


@click.command(short_help="Learn a table of good rows.", epilog=STATUSES)
@table_argument
@click.option("-o", "--output", type=FILE, required=True, help="The model file to write.")
@click.option(
    "--detector",
    type=click.Choice(DETECTORS),
    default="auto",
    show_default=True,
    help="auto: several detectors together, nothing to choose; calibrated: the same, with p-values that are promised.",
)
@recall_option
@column_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws rows, of many.")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Say what was learned as JSON.")
def fit(*, table: Path, output: Path, detector: str, recall: float, seed: int, as_json: bool, **options: Any) -> None:
    """Learn TABLE, of good rows alone, and write a model that accepts rows like these.

    A row is a line of CSV or TSV (.gz, too), or of a Parquet, NPY, NPZ or svmlight file; "-" is CSV from the standard
    input. Numbers need no scaling; texts are categories; what scoring needs is in the model.

    \b
    slabsvm fit good.csv -o model.slab --id serial
    """
    from slabsvm.command import learning

    def learn(good: learning.GoodRows) -> tuple[Any, dict[str, Any], list[str]]:
        with steps("Learning") as progress:
            model = learning.learned(good, learning.detector_of(detector, recall, seed, progress))
        found = model[-1]
        strange, omitted = learning.outliers(found), learning.left_out(good.encoder)
        facts = {
            "detector": type(found).__name__,
            "rows": len(good.rows),
            "columns": {column.name: column.statement() for column in good.encoder.columns_},
            "left_out": omitted,
            "recall": recall,
            "expected_recall": learning.expected_recall(found),
            "outliers": [good.names[place] for place in strange],
        }
        lines = [
            f"Learned {len(good.rows):,} rows of {named(table)} by {type(found).__name__}:",
            *learning.columns_said(good.encoder),
            *([f"Left out: {', '.join(printable(omitted))}"] if omitted else []),
            learning.recall_said(found, recall),
            *learning.outliers_said(strange, good.names),
        ]
        return model, facts, lines

    learning.carried_out(table, output, options, learn, as_json=as_json)
