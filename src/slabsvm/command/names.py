"""What rows of a table are called, and which of its columns a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slabsvm.command.terminal import printable, say
from slabsvm.tables.cells import cells_of, names_of, places_of
from slabsvm.tables.columns import Column, Numbers
from slabsvm.tables.encoder import TableEncoder, require_columns
from slabsvm.tables.numbers import DURATION, GROUPED, HOURS, PLAIN, with_decimal


@dataclass
class RowNames:
    """What rows are called."""

    encoder: TableEncoder  # of the model that reads them
    # The column that must be there to name the rows. None is the model's, or numbers where that is not there.
    asked: str | None
    further: list[str] = field(default_factory=list)  # columns that the model did not learn
    unnamed: bool = False  # whether the model's column that names the rows is not there

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
        """Return what the rows of a piece are called, of which the first has this number."""
        if self.column is None:
            return range(first, first + len(piece))
        return cells_of(piece, places_of(piece), self.column).named()


def written_with(encoder: TableEncoder, decimal: str) -> None:
    """Have an encoder read numbers that are texts with this decimal mark, "." or ","; others change nothing."""

    def written(column: Column) -> Column:
        if not isinstance(column, Numbers) or column.form in (DURATION, HOURS):
            return column
        as_text = column.form != PLAIN or column.unit or column.percent
        return replace(column, form=with_decimal(column.form, decimal)) if as_text else column

    if decimal in GROUPED:
        encoder.columns_ = tuple(map(written, encoder.columns_))


def columns_read(names: RowNames) -> dict[str, Any]:
    """Return what the reading of a table is to know of the model's columns, for `reading_of`."""
    encoder = names.encoder
    # Of numbers with marks between thousands pandas would read some as others, and of a piece it knows no other.
    texts = [
        column.name
        for column in encoder.columns_
        if not (isinstance(column, Numbers) and column.form == PLAIN and not column.unit and not column.percent)
        and not getattr(column, "unix", 0)
    ]
    # A column that is learned, too, has gaps.
    ids = {names.column} - {None, *(column.name for column in encoder.columns_)}
    texts += filter(None, [names.column])
    optional = [column.name for column in encoder.columns_ if column.n_missing]
    known = {"texts": texts, "ids": ids, "optional": optional, "n_columns": len(encoder.feature_names_in_)}
    return {**known, "kept": getattr(encoder, "encoding_", None)}


def say_further(names: RowNames) -> None:
    """Say on the standard error which columns were left out."""
    if names.further:
        say(f"Columns left out, as the model did not learn them: {', '.join(printable(names.further[:20]))}", err=True)


def say_columns(names: RowNames) -> None:
    """Say on the standard error which columns were left out, and where rows have no names."""
    say_further(names)
    if names.unnamed:
        say(f"Rows are numbered, because there is no column {names.encoder.id_column!r} to name them.", err=True)
