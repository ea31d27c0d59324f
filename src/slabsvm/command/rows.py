"""Rows of a table that are read piece by piece: what each is called, and the lines that are written of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slabsvm.command.terminal import printable, say
from slabsvm.tables.cells import cells_of, names_of, places_of
from slabsvm.tables.encoder import require_columns

if TYPE_CHECKING:
    from slabsvm.tables import TableEncoder

# A row that nobody named has its number.
NUMBERED = "row"


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

    def of(self, piece: Any, first: int) -> Iterable[Any]:
        """Return what the rows of a piece are called, of which the first has this number."""
        if self.column is None:
            return range(first, first + len(piece))
        cells = cells_of(piece, places_of(piece), self.column)
        return ["" if gap else text for gap, text in zip(cells.missing, cells.texts(), strict=True)]


def columns_read(names: RowNames) -> dict[str, Any]:
    """Return what the reading of a table is to know of the model's columns, for `reading_of`."""
    encoder = names.encoder
    texts = [column.name for column in encoder.columns_ if hasattr(column, "levels")]
    # A column that is learned, too, has gaps.
    ids = {names.column} - {None, *(column.name for column in encoder.columns_)}
    texts += filter(None, [names.column])
    return {"texts": texts, "ids": ids, "n_columns": len(encoder.feature_names_in_)}


def say_columns(names: RowNames) -> None:
    """Say on the standard error which columns were left out, and where rows have no names."""
    if names.further:
        say(f"Left out, since the model did not learn them: {', '.join(printable(names.further[:20]))}", err=True)
    if names.unnamed:
        say(f"Rows have numbers, since there is no column {names.encoder.id_column!r} to name them.", err=True)


class Lines:
    """Lines of separated values; numbers have six digits.

    Parameters
    ----------
    file : text file
    separator : str
    head : sequence of str
        The names of the columns.
    forms : sequence of str
        How the values of each are written: "%s" for texts.
    """

    def __init__(self, file: Any, separator: str, head: Sequence[str], forms: Sequence[str]) -> None:
        self._file = file
        self._special = ('"', separator, "\n", "\r")
        # csv.writer puts no quotes around a carriage return where lines end in a line feed, and takes longer.
        self._line = separator.join(forms) + "\n"
        file.write(separator.join(self.quoted(list(head))) + "\n")

    def write(self, *columns: Iterable[Any]) -> None:
        """Write a line for each row."""
        self._file.write("".join(map(self._line.__mod__, zip(*columns, strict=True))))

    def names(self, names: Iterable[Any]) -> Iterable[Any]:
        """Return names of rows, in quotes where they need them."""
        return names if isinstance(names, range) else self.quoted(list(names))

    def quoted(self, texts: list[str]) -> list[str]:
        """Return texts, in quotes where they hold what has a meaning between cells."""
        if not self._needs_quotes("".join(texts)):
            return texts
        return [_in_quotes(text) if self._needs_quotes(text) else text for text in texts]

    def _needs_quotes(self, text: str) -> bool:
        return any(character in text for character in self._special)


def _in_quotes(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
