"""The subcommand `fit`, and how tables of good rows are read, encoded and learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command.check import MOST_LINES, lines_of, read
from slabsvm.command.options import FILE, Share, column_options, reading_of, reading_options, table_argument
from slabsvm.command.terminal import (
    STATUSES,
    about,
    kept_warnings,
    named,
    plain_errors,
    printable,
    say,
    say_json,
    steps,
    warn,
)
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.runtime.arrays import FloatArray
    from slabsvm.tables import TableEncoder

DETECTORS = ("auto", "calibrated", "slab", "one-class-svm", "svdd", "kernel-density", "kernel-pca")
# So many rows are named in what is said.
FEW = 5


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
    help="The share of new good rows to accept, which is 1 - nu.",
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
        known, besides = None, ""
        with kept_warnings() as texts:
            good = good_rows(table, options, texts)
            if outliers is not None:
                known = outlier_rows(outliers, good.encoder, options)
                besides = f" and {counted(len(known), 'known outlier')} of {named(outliers)}"
            with steps("Learning") as progress:
                model = learned(good, detector_of(detector, recall, seed, progress), known)
        found = model[-1]
        decisions, rejected = getattr(found, "calibration_decisions_", None), []
        if decisions is not None:
            # Those that would be rejected as new ones, the least normal first.
            order = decisions.argsort(kind="stable")[: int((decisions < 0).sum())]
            rejected = [good.names[place] for place in order]
        facts = {
            "detector": type(found).__name__,
            "rows": len(good.rows),
            "columns": {column.name: column.statement() for column in good.encoder.columns_},
            "left_out": left_out(good.encoder),
            "recall": recall,
            "expected_recall": expected_recall(found),
            "known_outliers": 0 if known is None else len(known),
            "outliers": rejected,
        }
        lines = [
            f"Learned {len(good.rows):,} rows of {named(table)}{besides} by {type(found).__name__}:",
            *lines_of(good.encoder.plan(), MOST_LINES),
            recall_said(found, recall),
        ]
        if rejected:
            few, n = ", ".join(printable(rejected[:FEW])), len(rejected)
            lines.append(f"{n:,} of the learned rows would be rejected as new rows; the least normal: {few}")
        keep(model, output, facts, lines, texts, as_json=as_json)
        if not as_json:
            say(good.encoder.plan().not_learned())


@dataclass(frozen=True)
class GoodRows:
    """A table to learn from."""

    encoder: TableEncoder  # fitted
    rows: FloatArray  # (n, d)
    weights: FloatArray | None  # (n,), or None
    names: list[str]  # what the rows are called


def good_rows(path: Path, options: dict[str, Any], said: list[str]) -> GoodRows:
    """Return the table of a file, encoded, and add to what is said of it."""
    from slabsvm.tables.cells import TableError, cells_of, places_of

    with about(path):
        table, encoder, how = read(path, options)
        said += how.said
        rows = encoder.fit_transform(table)
        encoder.encoding_ = how.found.get("encoding")
        if options["id"] is None:
            encoder.set_params(id_column=encoder.plan().identifier())
        columns, weights = places_of(table), None
        if options["weight"]:
            cells = cells_of(table, columns, options["weight"])
            try:
                weights = cells.numbers().values
            except TableError as error:
                raise cells.error("a weight must be a number, and at least 0", error.row) from error
            wrong = ~(weights >= 0)
            if wrong.any():
                raise cells.error("a weight must be a number, and at least 0", int(wrong.argmax()))
            if not weights.any():
                raise cells.error("all weights are 0, so no row counts")
        names = [str(number + 1) for number in range(len(table))]
        if encoder.id_column is not None:
            names = cells_of(table, columns, encoder.id_column).named()
    return GoodRows(encoder, rows, weights, names)


def outlier_rows(path: Path, encoder: TableEncoder, options: dict[str, Any]) -> FloatArray:
    """Return the rows of a table of known outliers, encoded as the good rows are."""
    from slabsvm.command.names import RowNames, columns_read, say_further
    from slabsvm.files.tables import whole

    names = RowNames(encoder, None)
    with about(path):
        table = whole(path, reading_of(options, **columns_read(names)))
        rows = encoder.transform(table)
    names.look_at(table)
    say_further(names)
    return rows


def keep(
    model: Pipeline, output: Path, facts: dict[str, Any], lines: list[str], texts: list[str], *, as_json: bool
) -> None:
    """Write a model, and say what was learned: facts as JSON, or lines; and what is doubtful."""
    from slabsvm import SVDD, OneClassSlabSVM, OneClassSVM
    from slabsvm.files import save

    save(model, output)
    if as_json:
        say_json({"model": str(output), **facts, "warnings": texts})
        return
    for line in lines:
        say(line)
    warn(texts)
    few = isinstance(model[-1], OneClassSVM | OneClassSlabSVM | SVDD)
    rows = "its support vectors" if few else "those that were learned"
    say(f"Wrote {named(output)} ({output.stat().st_size / 1e3:,.0f} kB). It holds rows of the table: {rows}.")


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
    for _, step in after[:-1]:
        rows = step.fit_transform(rows, **({} if weights is None else {"sample_weight": weights}))
        infinite = ~np.isfinite(rows).all(axis=0)
        if infinite.any():
            (name,) = printable([good.encoder.get_feature_names_out()[infinite.argmax()]])
            heavy = "" if weights is None else ", or the weights are"
            raise click.ClickException(
                f"{name} cannot be standardised: its values are too large for float64{heavy}. Divide by a power of ten."
            )
    given = {"sample_weight": weights, "known_outliers": known}
    after[-1][1].fit(rows, **{name: value for name, value in given.items() if value is not None})
    return Pipeline([("columns", good.encoder), *after])


def left_out(encoder: TableEncoder) -> list[str]:
    """Return the names of columns that are not learned from, with the reason where it has one."""
    taken = {column.name for column in encoder.columns_}
    reasons: dict[str | None, str] = {one.name: f" ({one.taken_for})" for one in encoder.plan().left_out}
    reasons |= {encoder.id_column: " (names the rows)", encoder.weight_column: " (weighs the rows)"}
    return [f"{name}{reasons.get(name, '')}" for name in encoder.feature_names_in_ if name not in taken]


def expected_recall(detector: Any) -> float | None:
    """Return the share of new good rows that a fitted detector is expected to accept; None where it does not say."""
    import numpy as np

    if hasattr(detector, "expected_recall_"):
        return float(detector.expected_recall_)
    if hasattr(detector, "n_calibration_"):
        return 1.0 - float(detector.alpha)
    decisions = getattr(detector, "calibration_decisions_", None)
    return None if decisions is None else float(np.mean(decisions[~np.isnan(decisions)] >= 0))


def recall_said(detector: Any, asked: float) -> str:
    """Return what recall is expected."""
    share = expected_recall(detector)
    if share is None:
        return f"Recall: {asked:.1%} asked for."
    if hasattr(detector, "n_calibration_"):
        by = f"calibrated on {counted(detector.n_calibration_, 'row')} that were held out"
    else:
        by = "by leave-one-out scores"
    return f"Expected recall: {share:.1%} of new good rows are accepted, {by} ({asked:.1%} asked for)."
