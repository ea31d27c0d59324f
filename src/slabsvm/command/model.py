"""A saved model as the subcommands use it: its file, its expected recall, and the columns that it reads of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from slabsvm.command.terminal import printable, say
from slabsvm.tables.cells import cells_of, names_of, places_of
from slabsvm.tables.columns import Column, Numbers
from slabsvm.tables.encoder import TableEncoder, require_columns
from slabsvm.tables.numbers import DURATION, GROUPED, HOURS, PLAIN, with_decimal

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.files.tables import Reading


def loaded(path: Path) -> Pipeline:
    """Return the model of a file: an encoder of tables, other steps, and a detector with scores; ClickException for
    others.
    """
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    from slabsvm.detectors.answers import unwrapped
    from slabsvm.files import load

    model = load(path)
    before, detector = unwrapped(model)
    if not before or not isinstance(before[0][1], TableEncoder):
        raise click.ClickException(
            f"{path} holds a {type(model).__name__}, and no model that takes tables. `slabsvm fit` writes such models, "
            "as does slabsvm.files.save of make_pipeline(TableEncoder(), detector)."
        )
    try:
        check_is_fitted(before[0][1])
        check_is_fitted(detector)
    except NotFittedError as error:
        raise click.ClickException(f"{path} holds a model that has learned nothing: save it after its fit.") from error
    if not hasattr(detector, "score_samples"):
        raise click.ClickException(
            f"{path} ends in {type(detector).__name__}, which gives rows no score: load it from Python."
        )
    return Pipeline([*before, ("detector", detector)])


def expected_recall(detector: Any) -> float | None:
    """Return the share of new good rows that a fitted detector is expected to accept; None where it does not say."""
    if hasattr(detector, "expected_recall_"):
        return float(detector.expected_recall_)
    if hasattr(detector, "n_calibration_"):
        return 1.0 - float(detector.alpha)
    decisions = getattr(detector, "calibration_decisions_", None)
    return None if decisions is None else float(np.mean(decisions[~np.isnan(decisions)] >= 0))


def left_out(encoder: TableEncoder) -> list[str]:
    """Return the names of columns that are not learned from, with the reason where it has one."""
    taken = {column.name for column in encoder.columns_}
    reasons: dict[str | None, str] = {one.name: f" ({one.taken_for})" for one in encoder.plan().left_out}
    reasons |= {encoder.id_column: " (names the rows)", encoder.weight_column: " (weighs the rows)"}
    return [f"{name}{reasons.get(name, '')}" for name in encoder.feature_names_in_ if name not in taken]


@dataclass
class RowNames:
    """What the rows of a table are called, and which of its columns a model reads."""

    encoder: TableEncoder  # of the model that reads them
    # The column that must be there to name the rows. None is the model's, or numbers where that is not there.
    asked: str | None
    further: list[str] = field(default_factory=list)  # columns that the model did not learn
    unnamed: bool = False  # whether the model's column that names the rows is not there
    how: Reading | None = None  # how the table is read, of which rows may be skipped

    @property
    def column(self) -> str | None:
        """The column that names the rows; None for numbers."""
        return None if self.unnamed else self.asked or self.encoder.id_column

    def look_at(self, piece: Any) -> None:
        """Learn from the first piece which columns there are."""
        columns, learned = names_of(piece), set(self.encoder.feature_names_in_)
        self.further = [name for name in columns if name not in learned]
        if self.asked is not None:
            require_columns(columns, {self.asked: "id"})
        self.unnamed = self.column is not None and self.column not in columns

    def of(self, piece: Any, first: int) -> Sequence[Any]:
        """Return what the rows of a piece are called, of which the first is this one of those that are read, from 1."""
        if self.column is None:
            if self.how is None or not self.how.skip_rows:
                return range(first, first + len(piece))
            return self.how.numbers(first - 1, len(piece))
        return cells_of(piece, places_of(piece), self.column).named()

    def read(self) -> dict[str, Any]:
        """Return what the reading of a table is to know of the model's columns, for `reading_of`."""
        columns = self.encoder.columns_
        # Of numbers with marks between thousands pandas would read some as others, and of a piece it knows no other.
        texts = [one.name for one in columns if not _is_plain(one) and not getattr(one, "unix", 0)]
        return {
            "texts": [*texts, *filter(None, [self.column])],
            # A column that is learned, too, has gaps.
            "ids": {self.column} - {None, *(one.name for one in columns)},
            "optional": [one.name for one in columns if one.n_missing],
            "n_columns": len(self.encoder.feature_names_in_),
            "kept": getattr(self.encoder, "encoding_", None),
        }

    def say_further(self) -> None:
        """Say on the standard error which columns were left out."""
        if self.further:
            some = ", ".join(printable(self.further[:20]))
            say(f"Columns left out, as the model did not learn them: {some}", err=True)

    def say_columns(self) -> None:
        """Say on the standard error which columns were left out, and where rows have no names."""
        self.say_further()
        if self.unnamed:
            say(f"Rows are numbered, because there is no column {self.encoder.id_column!r} to name them.", err=True)


def _is_plain(column: Column) -> bool:
    """Return whether numbers are written with points alone, as pandas reads them."""
    return isinstance(column, Numbers) and column.form == PLAIN and not column.unit and not column.percent


def read_with_decimal(encoder: TableEncoder, decimal: str) -> None:
    """Have an encoder read numbers that are texts with this decimal mark, "." or ","; others change nothing."""
    if decimal in GROUPED:
        encoder.columns_ = tuple(
            replace(one, form=with_decimal(one.form, decimal))
            if isinstance(one, Numbers) and one.form not in (DURATION, HOURS) and not _is_plain(one)
            else one
            for one in encoder.columns_
        )
