"""The cells of a column: numbers or texts, and which are missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from math import isnan
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.counting import escaped

# The letters of NumPy's types of numbers and booleans.
NUMERIC = frozenset("fiub")
# So much of a cell is shown in an error, and so many columns have a line of their own.
MOST_SHOWN = 40
MOST_LINES = 50
# Of whole numbers beyond this some are no float64.
LAST_EXACT = 2**53
WORDS_OF_BOOLEANS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]|$)|\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})(?: |$)")


class TableError(ValueError):
    """A table that cannot be taken as it is.

    Attributes
    ----------
    what : str
        What is wrong, and what to do.
    column : str or None
        Where; None where it is wrong as a whole.
    row : int or None
        The row's place in the table, from 0.
    remedy : {"drop", "id", "decimal", "points"} or None
        What the table could be taken with as it is: the column is to be left out, names the rows, has decimal commas,
        or has points where commas were read; None where a cell is to be mended.
    errors : tuple of TableError
        One for each column that is wrong; the error itself, unless it is of several.
    """

    def __init__(
        self, what: str, *, column: str | None = None, row: int | None = None, remedy: str | None = None
    ) -> None:
        where = [] if row is None else [f"row {row + 1:,}"]
        where += [] if column is None else [f"column {shown(column)}"]
        place, what = ", ".join(where), escaped(" ".join(what.splitlines()))
        super().__init__(f"{place[0].upper()}{place[1:]}: {what}" if place else what)
        self.what, self.column, self.row, self.remedy = what, column, row, remedy
        self.errors: tuple[TableError, ...] = (self,)

    @classmethod
    def of(cls, errors: Sequence[TableError], what: str) -> TableError:
        """Return the only error, or one of several columns: what is wrong with all, and a line for each."""
        if len(errors) == 1:
            return errors[0]
        found = cls(what)
        found.errors = tuple(errors)
        more = [f"and {len(errors) - MOST_LINES:,} others"] if len(errors) > MOST_LINES else []
        found.args = ("\n  ".join([f"{found.what}:", *map(str, errors[:MOST_LINES]), *more]),)
        return found

    def below(self, rows: int) -> TableError:
        """Return the error as one of a table of which these rows are preceded by so many others."""
        if len(self.errors) > 1:
            return TableError.of([error.below(rows) for error in self.errors], self.what)
        if self.row is None:
            return self
        return TableError(self.what, column=self.column, row=self.row + rows, remedy=self.remedy)


@dataclass(frozen=True)
class Cells:
    """A column as it was found."""

    name: str
    # (n,): floats, integers, booleans, or objects as they are, of which those that are missing mean nothing
    values: npt.NDArray[Any]
    missing: BoolArray  # (n,)
    categorical: bool = False  # whether the table says that these are categories, whatever they look like

    @property
    def present(self) -> npt.NDArray[Any]:
        """The values that are there."""
        return self.values[~self.missing]

    def kind(self) -> str:
        """Return "number", "boolean" or "text": what all that are there are; refuse anything else."""
        if self.values.dtype.kind in NUMERIC:
            return "boolean" if self.values.dtype.kind == "b" else "number"
        kinds: dict[str, Any] = {}
        for value in self.present:
            kinds.setdefault(_kind(value), value)
        if "date" in kinds:
            raise self.error(
                f"it holds dates, such as {shown(kinds['date'])}. Time goes on: every later date would be stranger "
                "than all that were learned. Leave it out (drop), or make numbers of it, such as an hour or an age",
                remedy="drop",
            )
        if "other" in kinds:
            raise self.error(
                f"it holds {type(kinds['other']).__name__}, neither numbers nor texts. Leave it out (drop)",
                remedy="drop",
            )
        if len(kinds) > 1:
            some, other = sorted(kinds)[:2]
            row = next(row for row in np.flatnonzero(~self.missing) if _kind(self.values[row]) == other)
            raise self.error(
                f"it holds {shown(self.values[row])}, a {other}, among cells that are a {some}. Make all of one kind",
                int(row),
            )
        return next(iter(kinds), "number")

    def numbers(self, *, boolean: bool = False) -> FloatArray:
        """Return float64, NaN where a cell is missing; refuse what is no number, or infinite."""
        learned = "booleans" if boolean else "numbers"
        if self.values.dtype.kind in NUMERIC:
            found = self.values.astype(np.float64)
            # A boolean may be written as 0 or 1, and a number not as a boolean.
            if boolean or self.values.dtype.kind == "b":
                wrong = ~self.missing & (~np.isin(found, (0.0, 1.0)) | (not boolean))
                if wrong.any():
                    row = int(wrong.argmax())
                    raise self.error(_other(self.values[row], learned), row)
        else:
            found = np.full(len(self.values), np.nan)
            found[~self.missing] = self._converted(boolean)
        found[self.missing] = np.nan
        infinite = np.isinf(found)
        if infinite.any():
            raise self.error("it is infinite. Mend it, or leave the cell empty", int(infinite.argmax()))
        return found

    def texts(self) -> npt.NDArray[np.object_]:
        """Return texts, where numbers that are whole have no point; what is missing means nothing."""
        if self.values.dtype.kind == "O" and all(type(value) is str for value in self.present):
            return self.values
        return np.array([_text(value) for value in self.values.tolist()], dtype=object)

    def integers(self) -> list[int]:
        """Return the whole numbers among the cells that are there, with all of their digits; none of floats."""
        if self.values.dtype.kind not in "iuO":
            return []
        return [int(value) for value in self.present if isinstance(value, int | np.integer)]

    def error(self, what: str, row: int | None = None, *, remedy: str | None = None) -> TableError:
        """Return the error of a cell, or of the column."""
        return TableError(what, column=self.name, row=row, remedy=remedy)

    def _converted(self, boolean: bool) -> Any:
        try:
            if not boolean and not any(isinstance(value, bool) for value in self.present):
                return self.present.astype(np.float64)
        except (ValueError, TypeError, OverflowError):
            pass
        read = _boolean if boolean else as_number
        found = [read(value) for value in self.present]
        wrong = [int(row) for row in np.flatnonzero(~self.missing) if read(self.values[row]) is None]
        if not wrong:
            return found
        # Where commas are decimal points, the cell that is no number at all is the one to mend.
        row = wrong[0] if boolean else next((row for row in wrong if with_point(self.values[row]) is None), wrong[0])
        raise self.error(_other(self.values[row], "booleans" if boolean else "numbers"), row)


def _boolean(value: Any) -> float | None:
    return WORDS_OF_BOOLEANS.get(str(value).strip().lower())


def _other(value: Any, learned: str) -> str:
    comma = learned == "numbers" and as_number(value) is None and with_point(value) is not None
    cure = "If its comma is a decimal point, say so (decimal)" if comma else "Mend the cell"
    return f"{shown(value)} stands where the model learned {learned}. {cure}"


def as_number(value: Any) -> float | None:
    """Return a number, also one written as a text; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def with_point(value: Any) -> float | None:
    """Return the number of a text in which a comma may be the decimal point; None for anything else."""
    return as_number(value.replace(",", ".")) if isinstance(value, str) else as_number(value)


def shown(value: Any) -> str:
    """Return a cell or a name for an error, in quotes and not too long."""
    try:
        text = str(value)
    except NotImplementedError:
        # pandas writes no moment that Python's calendar does not reach.
        text = "a moment outside the years 1 to 9999"
    written = repr(text)
    return written if len(written) <= MOST_SHOWN else f"{written[:MOST_SHOWN]}... ({len(text):,} characters)"


def looks_like_a_date(text: str) -> bool:
    """Return whether a text begins as a date of the calendar does."""
    return DATE.match(text.strip()) is not None


def table_of(X: Any) -> Any:
    """Return a table: X itself where it has columns, and otherwise its array.

    Raises
    ------
    TypeError
        X is sparse.
    TableError
        X has not two dimensions.
    """
    if sp.issparse(X):
        raise TypeError("a table is dense, and this is sparse data. Give X.toarray(), or learn sparse rows as they are")
    if hasattr(X, "columns"):
        return X
    array = np.asarray(X)
    if array.ndim != 2:
        raise TableError(f"a table has rows and columns, and this has the shape {array.shape}. Reshape your data")
    return array


def names_of(table: Any) -> list[str]:
    """Return the names of a table's columns; those of an array are x0, x1, ...

    Raises
    ------
    TableError
        Two columns have one name, or the table has no columns.
    """
    if hasattr(table, "columns"):
        names = [str(name) for name in table.columns]
    else:
        names = [f"x{place}" for place in range(table.shape[1])]
    if (twice := repeated(names)) is not None:
        raise TableError("there are two columns of this name, or more. Rename all but one", column=twice)
    return names


def places_of(table: Any) -> dict[str, int]:
    """Return the place of each column by its name, in their order; raise as `names_of`."""
    return {name: place for place, name in enumerate(names_of(table))}


def repeated(names: Sequence[str]) -> str | None:
    """Return the first name that was there before, None where all differ."""
    known: set[str] = set()
    for name in names:
        if name in known:
            return name
        known.add(name)
    return None


def n_rows_of(table: Any) -> int:
    """Return how many rows a table has."""
    return int(table.shape[0])


def cells_of(table: Any, places: Mapping[str, int], name: str) -> Cells:
    """Return the cells of a named column; the places are those of all columns."""
    if not hasattr(table, "columns"):
        return _cells(name, table[:, places[name]])
    column = table[table.columns[places[name]]]
    if getattr(column.dtype, "kind", "") in NUMERIC and isinstance(column.dtype, np.dtype):
        return _cells(name, column.to_numpy())
    gaps = column.isna() if hasattr(column, "isna") else column.is_null()
    said = str(column.dtype)
    categorical = said.startswith(("category", "Categorical", "Enum"))
    values = np.asarray(column.to_numpy())
    if said.lower().startswith(("int", "uint")) and values.dtype.kind == "f" and (np.abs(values) > LAST_EXACT).any():
        # Beside gaps integers have become floats, which have fewer digits.
        values = np.array(column.to_list(), dtype=object)
    return _cells(name, values, np.asarray(gaps.to_numpy()), categorical)


def _cells(name: str, values: npt.NDArray[Any], gaps: BoolArray | None = None, categorical: bool = False) -> Cells:
    missing = np.zeros(len(values), dtype=bool) if gaps is None else gaps.astype(bool)
    match values.dtype.kind:
        case "i" | "u":
            # As they are: long ones are no floats, and may be names.
            pass
        case "f":
            # Of a float32 that signals, the processor says that it is no number.
            with np.errstate(invalid="ignore"):
                values = values.astype(np.float64, copy=False)
            missing = missing | np.isnan(values)
        case "b":
            pass
        case "M" | "m" | "U" | "T" | "O":
            if values.dtype.kind in "Mm":
                values = values.astype(f"{values.dtype.kind}8[s]")
            values = values.astype(object)
            missing = missing | np.array([_is_gap(value) for value in values.tolist()], dtype=bool)
        case "c":
            raise TableError("Complex data not supported: give real and imaginary parts", column=name)
        case _:
            what = f"it holds {values.dtype}, neither numbers nor texts. Leave it out (drop)"
            raise TableError(what, column=name, remedy="drop")
    return Cells(name, values, missing, categorical)


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, date | time | timedelta | np.datetime64 | np.timedelta64):
        return "date"
    # A decimal.Decimal is no Real, and a number.
    return "number" if isinstance(value, Real) or type(value).__name__ == "Decimal" else "other"


def _text(value: Any) -> str:
    whole = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))
    return str(int(value)) if whole and value == int(value) else str(value)
