"""The subcommands `ask` and `learn`: which rows someone should label, and what the labels teach a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from slabsvm.command.fit import expected_recall, keep, recall_said
from slabsvm.command.options import FILE, TABLE, output_option, reading_of, reading_options, table_argument
from slabsvm.command.terminal import STATUSES, about, kept_warnings, named, plain_errors, say, steps
from slabsvm.runtime.caller import counted

# The column that someone fills in, and what may stand there.
QUESTION = "outlier"
ANSWERS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


@click.command(short_help="Choose rows that someone should label.", epilog=STATUSES)
@click.argument("model", type=FILE)
@table_argument
@output_option
@click.option("--rows", type=click.IntRange(min=1), default=20, show_default=True, help="How many to choose.")
@reading_options
def ask(*, model: Path, table: Path, output: Path, rows: int, **options: Any) -> None:
    """Write rows of TABLE that someone should label, by the MODEL, with an empty column, "outlier".

    Those are rows about which the model's members disagree, near the threshold or beyond it, and of rows that are alike
    one. Write yes or no into the column, and give the file to `slabsvm learn`.

    \b
    slabsvm ask model.slab new.csv --rows 20 -o answers.csv
    """
    with plain_errors(lines="output", model=model, table=table, output=output):
        from slabsvm.command.scoring import output_file, separator_of
        from slabsvm.files.tables import frame
        from slabsvm.tables.columns import TableError

        pipeline, how = _model_and_reading(model, options)
        with about(table):
            found = frame(table, how)
            if QUESTION in found.columns:
                raise TableError(f"it has a column {QUESTION!r}, which is for the answers: give that another name")
            some = found.iloc[pipeline[-1].to_label(pipeline[:-1].transform(found), rows)]
        with output_file(output) as file:
            some.assign(**{QUESTION: ""}).to_csv(file, index=False, sep=separator_of(output), lineterminator="\n")
        if str(output) != "-":
            say(
                f"Wrote {named(output)}: {counted(len(some), 'row')} to answer with yes or no in the column {QUESTION}."
            )


@click.command(short_help="Learn from rows that someone has labelled.", epilog=STATUSES)
@click.argument("model", type=FILE)
@click.argument("answers", type=TABLE, nargs=-1, required=True)
@click.option("--from", "training", type=TABLE, required=True, help="The table of good rows that MODEL learned.")
@click.option("-o", "--output", type=FILE, required=True, help="The model file to write.")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print what was learned, as JSON.")
def learn(
    *, model: Path, answers: tuple[Path, ...], training: Path, output: Path, as_json: bool, **options: Any
) -> None:
    """Learn the good rows again, with the ANSWERS to what `slabsvm ask` wrote: all such files so far.

    Outliers are told from good rows by one more member of the model. Good ones are learned, and have no say in the
    threshold: rows that were chosen because they looked abnormal are no random sample.

    \b
    slabsvm learn model.slab answers.csv --from good.csv -o better.slab
    """
    with plain_errors("output", model=model, output=output, training=training):
        from sklearn.base import clone
        from sklearn.pipeline import Pipeline

        from slabsvm.files.tables import frame, stacked

        pipeline, how = _model_and_reading(model, options)
        encoder, detector = clone(pipeline[0]), clone(pipeline[-1])
        with about(training):
            good = frame(training, how)
        known = stacked(*(_answered(path, how, good, encoder.weight_column) for path in answers))
        is_outlier = known.pop(QUESTION).astype(bool)
        with about(training):
            # What a false alarm has, such as a new category, is none that was never met.
            encoder.fit(stacked(good, known[~is_outlier]))
        weights = None if encoder.weight_column is None else good[encoder.weight_column].to_numpy(dtype=float)
        labelled = {"known_outliers": known[is_outlier], "known_positives": known[~is_outlier]}
        rows = {name: encoder.transform(some) for name, some in labelled.items() if len(some)}
        with kept_warnings() as texts, steps("Learning") as progress:
            detector.set_params(progress=progress).fit(encoder.transform(good), sample_weight=weights, **rows)
        fitted = Pipeline([(pipeline.steps[0][0], encoder), ("detector", detector)])
        counts = {name: len(some) for name, some in labelled.items()}
        facts = {"rows": len(good), **counts, "expected_recall": expected_recall(detector)}
        outliers, others = counts.values()
        lines = [
            f"Learned {len(good):,} rows of {named(training)}, {counted(outliers, 'known outlier')} and "
            f"{counted(others, 'row')} that looked abnormal and are good.",
            recall_said(detector, detector.recall),
        ]
        keep(fitted, output, facts, lines, texts, as_json=as_json)


def _model_and_reading(path: Path, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return a model that tables are asked of and learned by, and how they are read."""
    from slabsvm import AutoSlabSVM
    from slabsvm.command.scoring import RowNames, columns_read, loaded

    pipeline = loaded(path)
    if len(pipeline) != 2 or not isinstance(pipeline[-1], AutoSlabSVM):
        raise click.ClickException(
            f"{path} ends in {type(pipeline[-1]).__name__}, which learns no labels: `slabsvm fit --detector auto` "
            "writes a model that does."
        )
    read = columns_read(RowNames(pipeline[0], None))
    return pipeline, reading_of(options, **{**read, "texts": [*read["texts"], QUESTION]})


def _answered(path: Path, how: Any, good: Any, weight_column: str | None) -> Any:
    """Return the rows of a file that were answered, with the columns of the good rows and the answers."""
    from slabsvm.files.tables import frame
    from slabsvm.tables.columns import TableError

    with about(path):
        table = frame(path, how)
        if QUESTION not in table.columns:
            raise TableError(f"it has no column {QUESTION!r}: `slabsvm ask` writes one, for yes or no")
        words = table[QUESTION].fillna("").astype(str).str.strip().str.lower()
        wrong = ~words.isin(["", *ANSWERS])
        if wrong.any():
            place = int(wrong.argmax())
            raise TableError(f"row {place + 1} of the column {QUESTION!r} is {words[place]!r}; write yes or no")
        if not (words != "").any():
            raise TableError(f"the column {QUESTION!r} is empty: write yes or no into some rows")
        table = table[words != ""].reindex(columns=good.columns)
        if weight_column is not None:
            table[weight_column] = 1.0
        return table.assign(**{QUESTION: words[words != ""].map(ANSWERS)})
