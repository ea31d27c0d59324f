"""The cells of a column, numbers or texts with gaps; what is learned of each kind, and how they become coordinates."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from math import isnan
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.caller import counted, escaped

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

    Raises TypeError: X is sparse. TableError: X has not two dimensions.
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

    Raises TableError: two columns have one name, or the table has no columns.
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


# Of new rows more than this share would have a text that was never seen: then texts are no categories.
MOST_UNSEEN = 0.5
# Each category is a coordinate of its own.
MOST_LEVELS = 1000
# Of categories with fewer rows, on average, little is learned: with fewer for each feature AutoSlabSVM does not trust
# leave-one-out scores. So many categories of one row are no accident: a count, whose error is its root.
ROWS_FOR_EACH = 5
SURE_SINGLES = 5
# A column of texts of which more than this share are numbers is a column of numbers with errors.
MOST_NUMBERS = 0.5
# So many categories are named in a statement.
FEW = 5


@dataclass(frozen=True)
class Coded:
    """The cells of a column as coordinates."""

    values: FloatArray  # (n, width)
    strange: BoolArray  # (n,): cells like no cell that was learned, which no coordinate shows


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A column that was learned."""

    name: str
    n_missing: int  # how many of its cells were missing

    @abstractmethod
    def outputs(self) -> list[str]:
        """Return the names of its coordinates."""

    @abstractmethod
    def coded(self, cells: Cells, *, fill: bool) -> Coded:
        """Return the coordinates of cells; those of missing cells are the usual ones with fill, or say nothing."""

    @abstractmethod
    def statement(self) -> str:
        """Return how it is taken, for a person to read."""

    def _with_gaps(self, statement: str) -> str:
        return f"{statement}; {self.n_missing:,} missing" if self.n_missing else statement


@dataclass(frozen=True, kw_only=True)
class Numbers(Column):
    """A column of numbers or booleans."""

    median: float
    constant: bool  # whether all cells were the same; then there is no coordinate, and any other value is strange
    boolean: bool

    @classmethod
    def learned(cls, cells: Cells, *, boolean: bool) -> Numbers:
        """Return what cells say, of which some are there; refuse identifiers, which float64 cannot tell apart."""
        found = cells.numbers(boolean=boolean)[~cells.missing]
        if np.abs(found).max() > LAST_EXACT:
            _refuse_identifiers(cells)
        return cls(
            name=cells.name,
            n_missing=int(cells.missing.sum()),
            median=float(np.median(found)),
            constant=bool((found == found[0]).all()),
            boolean=boolean,
        )

    def outputs(self) -> list[str]:
        """Return the column's name, or nothing where it is constant."""
        return [] if self.constant else [self.name]

    def coded(self, cells: Cells, *, fill: bool) -> Coded:
        """Return the numbers, the median where there is none: an indicator, if any, says so beside."""
        del fill
        found = cells.numbers(boolean=self.boolean)
        found[cells.missing] = self.median
        strange = (found != self.median) if self.constant else np.zeros(len(found), dtype=bool)
        return Coded(found[:, None][:, : len(self.outputs())], strange)

    def statement(self) -> str:
        """Return the kind and the median."""
        if self.constant:
            value = bool(self.median) if self.boolean else f"{self.median:.6g}"
            return self._with_gaps(f"constant, {value}: any other value is strange")
        return self._with_gaps("boolean" if self.boolean else f"number, median {self.median:.6g}")


@dataclass(frozen=True, kw_only=True)
class Categories(Column):
    """A column of texts, each of which is a coordinate."""

    levels: tuple[str, ...]  # in alphabetical order
    usual: int  # the place of the most frequent one; of several the first
    # How many were met once. Of new rows a share of about singles / n has one that was never met (Good and Turing).
    singles: int

    @classmethod
    def learned(cls, cells: Cells) -> Categories:
        """Return what cells say, of which some are there; refuse those that cannot be categories."""
        texts = cells.texts()[~cells.missing].tolist()
        counts = Counter(texts)
        if not cells.categorical:
            _refuse_numbers(cells, counts)
        levels = tuple(sorted(counts))
        singles = sum(count == 1 for count in counts.values())
        if any(looks_like_a_date(level) for level in levels[:FEW]):
            raise cells.error(
                f"it holds dates, such as {shown(levels[0])}. Time goes on: every later date would be stranger than "
                "all that were learned. Leave it out (drop), or make numbers of it, such as an hour or an age",
                remedy="drop",
            )
        if singles > MOST_UNSEEN * len(texts) or len(levels) > MOST_LEVELS:
            raise cells.error(
                f"it holds {len(levels):,} different texts in {counted(len(texts), 'row')}, such as "
                f"{shown(texts[0])}: names or free text, and no categories. Leave it out (drop), or say that it names "
                "the rows (id)",
                remedy="id" if singles == len(texts) else "drop",
            )
        usual = max(range(len(levels)), key=lambda place: (counts[levels[place]], -place))
        return cls(name=cells.name, n_missing=int(cells.missing.sum()), levels=levels, usual=usual, singles=singles)

    def outputs(self) -> list[str]:
        """Return NAME=LEVEL for each, or nothing where there is one level."""
        return [f"{self.name}={level}" for level in self.levels] if len(self.levels) > 1 else []

    def coded(self, cells: Cells, *, fill: bool) -> Coded:
        """Return a 1 at each cell's level, and zeros for a level that was never met."""
        places = {level: place for place, level in enumerate(self.levels)}
        codes = np.array([places.get(text, -1) for text in cells.texts().tolist()], dtype=np.intp)
        codes[cells.missing] = self.usual if fill else -1
        values = np.zeros((len(codes), len(self.outputs())))
        known = np.flatnonzero(codes >= 0)
        if values.shape[1]:
            values[known, codes[known]] = 1.0
        return Coded(values, (codes < 0) & ~cells.missing)

    def statement(self) -> str:
        """Return the kind and the levels."""
        if len(self.levels) == 1:
            return self._with_gaps(f"constant, {shown(self.levels[0])}: any other value is strange")
        names = ", ".join(map(shown, self.levels[:FEW])) + (", ..." if len(self.levels) > FEW else "")
        once = f"; {self.singles:,} met once" if self.singles else ""
        return self._with_gaps(f"{len(self.levels):,} categories: {names}{once}")

    def doubt(self, n_rows: int) -> str:
        """Return what is doubtful where categories are nearly as many as rows; "" where it is not so."""
        if len(self.levels) * ROWS_FOR_EACH <= n_rows or self.singles < SURE_SINGLES:
            return ""
        new = f"{self.singles / n_rows:.0%}"
        return (
            f"Column {shown(self.name)} has {len(self.levels):,} categories in {counted(n_rows, 'row')}, such as "
            f"{shown(self.levels[0])}, and {self.singles:,} were met once: about {new} of new rows "
            "will have one that was never met, and each is a coordinate, by which a model grows. If they are "
            "quantities, make numbers of them; otherwise leave the column out (drop), or put categories together."
        )


def learned_column(cells: Cells, *, categorical: bool) -> Column:
    """Return what is learned of a column's cells.

    Raises TableError: the column is empty, or holds what is neither numbers nor categories.
    """
    if cells.missing.all():
        raise cells.error("it has no value at all. Leave it out (drop)", remedy="drop")
    kind = cells.kind()
    if categorical or cells.categorical or kind == "text":
        return Categories.learned(replace(cells, categorical=categorical or cells.categorical))
    return Numbers.learned(cells, boolean=kind == "boolean")


def _refuse_identifiers(cells: Cells) -> None:
    """Refuse whole numbers of so many digits that float64 makes one of several, or changes most."""
    whole = cells.integers()
    as_floats = [int(float(number)) for number in whole]
    changed = sum(number != rounded for number, rounded in zip(whole, as_floats, strict=True))
    if len(set(as_floats)) < len(set(whole)) or changed > MOST_NUMBERS * len(cells.present):
        raise cells.error(
            f"it holds whole numbers of more digits than a float64 has, such as {max(whole, key=abs)}: identifiers, "
            "and no quantity. Leave it out (drop), say that it names the rows (id), or that these are names "
            "(categories); a quantity is to be divided by a power of ten",
            remedy="id" if len(set(whole)) == len(cells.present) else "drop",
        )


def _refuse_numbers(cells: Cells, counts: Counter[str]) -> None:
    """Refuse texts most of which are numbers, and name the first that is none."""
    numbers = [text for text in counts if with_point(text) is not None]
    if sum(counts[text] for text in numbers) <= MOST_NUMBERS * counts.total():
        return
    row = next((row for row in np.flatnonzero(~cells.missing) if with_point(cells.values[row]) is None), None)
    if row is not None:
        raise cells.error(
            f"{shown(cells.values[row])} stands among numbers. Mend the cell, or say that these are names (categories)",
            int(row),
        )
    if (comma := next((text for text in numbers if as_number(text) is None), None)) is not None:
        raise cells.error(
            f"it holds numbers with a decimal comma, such as {shown(comma)}. Say so (decimal)", remedy="decimal"
        )
    some = next((text for text in numbers if "." in text), None)
    both = "" if some is None else ". If some columns have decimal points and others commas, say so (decimal)"
    raise cells.error(
        f"it holds numbers as texts, such as {shown(some or numbers[0])}{both}. Make numbers of it, or say that they "
        "are names (categories)",
        remedy=None if some is None else "points",
    )
