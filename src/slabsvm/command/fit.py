"""The subcommand `fit`, and how tables of good rows are read, encoded and learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command.options import (
    FILE,
    Share,
    column_options,
    reading_of,
    reading_options,
    reading_to_learn,
    table_argument,
    table_to_learn,
)
from slabsvm.command.terminal import (
    STATUSES,
    about,
    kept_warnings,
    named,
    plain_errors,
    plan_lines,
    printable,
    progress_bar,
    say,
    say_json,
    warn,
)
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.runtime.arrays import FloatArray
    from slabsvm.tables import TableEncoder

# The names of --detector; `detector_of` has what they stand for.
DETECTORS = ("auto", "calibrated", "slab", "one-class-svm", "svdd", "kernel-density", "kernel-pca")


@click.command(short_help="Learn a table of good rows.", epilog=STATUSES)
@table_argument
@click.option("-o", "--output", type=FILE, required=True, help="The model file to write.")
@click.option(
    "--detector",
    type=click.Choice(DETECTORS),
    default="auto",
    show_default=True,
    help="auto: distances from the nearest rows, nothing to choose; calibrated: the same, with guaranteed p-values.",
)
@click.option(
    "--recall",
    type=Share(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="The share of new good rows to accept; calibrated: at least, since alpha is 1 - RECALL.",
)
@click.option(
    "--outliers",
    type=FILE,
    metavar="TABLE",
    help="A table of known outliers with the same columns; one row is enough. For --detector auto.",
)
@column_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of random draws.")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print what was learned, as JSON.")
def fit(
    *,
    table: Path,
    output: Path,
    detector: str,
    recall: float,
    outliers: Path | None,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn TABLE, of good rows alone, and write a model that accepts rows like these.

    A row is a line of CSV or TSV (.gz, too), or of an XLSX, Parquet, NPY, NPZ or svmlight file; "-" is CSV from the
    standard input. Numbers need no scaling. `slabsvm check` says beforehand what each column is taken for.

    \b
    slabsvm fit good.csv -o model.skops --id serial
    """
    if outliers is not None and detector != "auto":
        raise click.UsageError(f"--detector {detector} learns no outliers: leave --outliers out, or take auto.")

    with plain_errors("output", table=table, outliers=outliers, output=output):
        from slabsvm.files import save

        with kept_warnings() as texts:
            good = good_rows(table, options)
            known = None if outliers is None else outlier_rows(outliers, good.encoder, options)
            with progress_bar("Learning") as bar:
                progress = None if bar is None else lambda done, total, _: bar(completed=done, total=total)
                model = learned(good, detector_of(detector, recall, seed, progress), known)
        save(model, output)
        facts = facts_of(model, good.names, recall, 0 if known is None else len(known))
        texts = list(dict.fromkeys([*good.noticed, *texts]))
        if as_json:
            say_json({"model": str(output), **facts, "warnings": texts})
            return
        known_outliers = counted(facts["known_outliers"], "known outlier")
        besides = "" if outliers is None else f" and {known_outliers} of {named(outliers)}"
        say(f"Learned {len(good.rows):,} rows of {named(table)}{besides} by {facts['detector']}:")
        # `inspect` lists the other columns.
        say("\n".join(plan_lines(good.encoder.plan(), most=20)))
        say(recall_line(model[-1], facts["expected_recall"], recall))
        if rejected := facts["outliers"]:
            few = ", ".join(printable(rejected[:5]))
            say(f"{len(rejected):,} of the learned rows would be rejected as new rows; the least normal: {few}")
        warn(texts)
        rows = "its support vectors" if hasattr(model[-1], "support_") else "those that were learned"
        say(f"Wrote {named(output)} ({output.stat().st_size / 1e3:,.0f} kB). It holds rows of the table: {rows}.")
        say(good.encoder.plan().not_learned())


@dataclass(frozen=True)
class GoodRows:
    """A table to learn from."""

    encoder: TableEncoder  # fitted
    rows: FloatArray  # (n, d)
    weights: FloatArray | None  # (n,), or None
    names: list[str]  # what the rows are called
    noticed: list[str]  # what the reader left out or found, as sentences


def good_rows(path: Path, options: dict[str, Any]) -> GoodRows:
    """Return the table of a file, encoded."""
    from slabsvm.tables.cells import TableError, cells_of, places_of

    how = reading_to_learn(options)
    with about(path, how):
        table, encoder = table_to_learn(path, options, how)
        rows = encoder.fit_transform(table)
        encoder.encoding_ = how.found.get("encoding")
        if encoder.id_column is None:
            encoder.set_params(id_column=encoder.plan().identifier())
        columns, weights = places_of(table), None
        if encoder.weight_column:
            cells = cells_of(table, columns, encoder.weight_column)
            what = "a weight must be a number, and at least 0"
            try:
                weights = cells.numbers().values
            except TableError as error:
                raise cells.error(what, error.row) from error
            wrong = ~(weights >= 0)
            if wrong.any():
                raise cells.error(what, int(wrong.argmax()))
            if not weights.any():
                raise cells.error("all weights are 0, so no row counts")
        names = [str(how.number(place)) for place in range(len(table))]
        if encoder.id_column is not None:
            names = cells_of(table, columns, encoder.id_column).named()
    return GoodRows(encoder, rows, weights, names, how.said)


def outlier_rows(path: Path, encoder: TableEncoder, options: dict[str, Any]) -> FloatArray:
    """Return the rows of a table of known outliers, encoded as the good rows are."""
    from slabsvm.command.model import RowNames
    from slabsvm.files.tables import whole

    names = RowNames(encoder, None)
    how = reading_of(options, **names.read())
    with about(path, how):
        table = whole(path, how)
        rows = encoder.transform(table)
    names.look_at(table)
    names.say_further()
    return rows


def detector_of(name: str, recall: float, seed: int, progress: Callable[[int, int, float], None] | None) -> list[Any]:
    """Return the steps after the encoder: a scaler, unless the detector scales itself, and the detector."""
    from sklearn.preprocessing import StandardScaler

    import slabsvm

    rejection = round(1.0 - recall, 12)  # of .9 it is .1, without the rounding
    auto = slabsvm.AutoDetector(recall=recall, random_state=seed, progress=progress)
    if name == "auto":
        return [("detector", auto)]
    if name == "calibrated":
        return [("detector", slabsvm.ConformalDetector(auto, alpha=rejection, random_state=seed))]
    above = min(0.01, 0.1 * rejection)
    models = {
        "slab": slabsvm.OneClassSlabSVM(nu_lower=rejection - above, nu_upper=above),
        "one-class-svm": slabsvm.OneClassSVM(nu=rejection),
        "svdd": slabsvm.SVDD(nu=rejection),
        "kernel-density": slabsvm.KernelDensityDetector(nu=rejection),
        "kernel-pca": slabsvm.KernelPCADetector(nu=rejection),
    }
    return [("scale", StandardScaler()), ("detector", models[name])]


def learned(good: GoodRows, after: list[Any], known: FloatArray | None) -> Pipeline:
    """Return the pipeline of the encoder and these steps, fitted; known outliers go to the last step as they are."""
    import numpy as np
    from sklearn.pipeline import Pipeline

    rows, weights = good.rows, good.weights
    given = {} if weights is None else {"sample_weight": weights}
    for _, step in after[:-1]:
        rows = step.fit_transform(rows, **given)
        infinite = ~np.isfinite(rows).all(axis=0)
        if infinite.any():
            (name,) = printable([good.encoder.get_feature_names_out()[infinite.argmax()]])
            heavy = "" if weights is None else ", or the weights are"
            raise click.ClickException(
                f"{name} cannot be standardised: its values are too large for float64{heavy}. Divide by a power of ten."
            )
    after[-1][1].fit(rows, **given, **({} if known is None else {"known_outliers": known}))
    return Pipeline([("columns", good.encoder), *after])


def facts_of(model: Pipeline, names: list[str], recall: float, n_outliers: int) -> dict[str, Any]:
    """Return what was learned of rows with these names, for a program."""
    from slabsvm.command.model import expected_recall, left_out

    encoder, detector = model[0], model[-1]
    decisions = getattr(detector, "calibration_decisions_", None)
    # The rows that would be rejected as new ones, the least normal first.
    rejected = [] if decisions is None else decisions.argsort(kind="stable")[: int((decisions < 0).sum())]
    return {
        "detector": type(detector).__name__,
        "rows": len(names),
        "columns": {column.name: column.statement() for column in encoder.columns_},
        "left_out": left_out(encoder),
        "recall": recall,
        "expected_recall": expected_recall(detector),
        "known_outliers": n_outliers,
        "outliers": [names[place] for place in rejected],
    }


def recall_line(detector: Any, expected: float | None, asked: float) -> str:
    """Return the sentence on the recall that is expected of a detector."""
    if expected is None:
        return f"Recall: {asked:.1%} asked for."
    held_out = getattr(detector, "n_calibration_", None)
    by = f"calibrated on {counted(held_out, 'row')} that were held out" if held_out else "by leave-one-out scores"
    return f"Expected recall: {expected:.1%} of new good rows are accepted, {by} ({asked:.1%} asked for)."
