"""The cells of a column, numbers or texts with gaps; what is learned of each kind, and how they become coordinates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from math import isnan
from numbers import Real
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.caller import counted, escaped
from slabsvm.runtime.fields import LATER, Choice
from slabsvm.tables.texts import WRITINGS, as_number, is_placeholder, is_yes_no, number_of

# The letters of NumPy's types of numbers and booleans.
NUMERIC = frozenset("fiub")
# So much of a cell is shown in an error, and so many columns have a line of their own.
MOST_SHOWN = 40
MOST_LINES = 50
# So many texts are told to be gaps: more are no accident.
MOST_GAPS = 5
# Of whole numbers beyond this some are no float64.
LAST_EXACT = 2**53
WORDS_OF_BOOLEANS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


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
    remedy : (str, str) or None
        What the table could be taken with as it is: an option of the command or parameter of `TableEncoder` and its
        value, as ("gaps", "err"); None where there is none.
    errors : tuple of TableError
        One for each column that is wrong; the error itself, unless it is of several.
    """

    def __init__(
        self,
        what: str,
        *,
        column: str | None = None,
        row: int | None = None,
        remedy: tuple[str, str] | None = None,
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
    # Of texts that repeat: which of some levels each is, -1 where one is missing; or None
    codes: IndexArray | None = None  # (n,)
    levels: npt.NDArray[Any] | None = None  # the different texts, in the order of their first rows

    @property
    def present(self) -> npt.NDArray[Any]:
        """The values that are there."""
        return self.values[~self.missing]

    def kind(self) -> str:
        """Return "number", "boolean", "time", "text" or "other": what all that are there are; of several kinds texts.

        Those that are no numbers, texts or times are "other", whatever is beside them.
        """
        match self.values.dtype.kind:
            case "b":
                return "boolean"
            case "M":
                return "time"
            case kind if kind in NUMERIC:
                return "number"
        if self.codes is not None:
            return "text"
        kinds = {_kind(one) for one in set(map(type, self.present.tolist()))} or {"number"}
        return "other" if "other" in kinds else kinds.pop() if len(kinds) == 1 else "text"

    def at(self, row: int) -> Cells:
        """Return the cell of a row."""
        return Cells(self.name, self.values[row : row + 1], self.missing[row : row + 1], self.categorical)

    def without(self, gaps: Collection[str]) -> Cells:
        """Return the cells of which some texts, or numbers as they are written, are gaps."""
        if not gaps:
            return self
        if self.values.dtype.kind in "fiu":
            numbers = [number for text in gaps if (number := as_number(text)) is not None]
            return replace(self, missing=self.missing | np.isin(self.values, numbers))
        if self.values.dtype.kind != "O":
            return self
        levels, codes = self.distinct()
        return replace(
            self, missing=self.missing | np.array([str(one).strip() in gaps for one in levels] + [True])[codes]
        )

    def distinct(self) -> tuple[Sequence[Any], IndexArray]:
        """Return objects among which all cells are, and which one each is; -1 for some that are missing."""
        if self.codes is None or self.levels is None:
            return self.values.tolist(), np.arange(len(self.values))
        return self.levels.tolist(), self.codes

    def counts(self) -> tuple[list[str], IndexArray]:
        """Return the different texts, in the order of their first rows, and how often each is there."""
        if self.codes is None or self.levels is None:
            found = Counter(self.texts()[~self.missing].tolist())
            return list(found), np.fromiter(found.values(), dtype=np.intp, count=len(found))
        numbers = np.bincount(self.codes[~self.missing], minlength=len(self.levels))
        there = numbers > 0
        return self.levels[there].tolist(), numbers[there]

    def numbers(self, *, boolean: bool = False, writing: str = ".", learning: bool = False) -> Cells:
        """Return cells of float64, NaN where one is missing; refuse what is no number, or infinite.

        Texts are read as numbers of a writing, one of `texts.WRITINGS`; those that stand for nothing are gaps. An error
        says what helps, and more of it while a table is learned.
        """
        learned, missing = "booleans" if boolean else "numbers", self.missing
        if self.values.dtype.kind in NUMERIC:
            found = self.values.astype(np.float64)
            # A boolean may be written as 0 or 1, and a number not as a boolean.
            if boolean or self.values.dtype.kind == "b":
                wrong = ~missing & (~np.isin(found, (0.0, 1.0)) | (not boolean))
                if wrong.any():
                    row = int(wrong.argmax())
                    raise self.error(f"{shown(self.values[row])} stands where the model learned {learned}", row)
        elif self.values.dtype.kind == "O":
            read = _boolean if boolean else lambda value: number_of(value, writing)
            found, missing = self.read(lambda values: _each(read, values), learned, learning=learning)
        else:
            raise self.error(f"it holds times, where the model learned {learned}")
        found[missing] = np.nan
        infinite = np.isinf(found)
        if infinite.any():
            row = int(infinite.argmax())
            sign = "-inf" if found[row] < 0 else "inf"
            if not learning:
                raise self.error("it is infinite. Mend it, or leave the cell empty", row)
            raise self.error(
                "it is infinite. Mend it, or say that such cells are empty (gaps)", row, remedy=("gaps", sign)
            )
        return replace(self, values=found, missing=missing, codes=None)

    def read(
        self, reader: Callable[[Sequence[Any]], FloatArray], learned: str, *, learning: bool
    ) -> tuple[FloatArray, BoolArray]:
        """Return what a reader makes of objects, (n,), and which are missing; refuse those of which it makes NaN.

        Texts that stand for nothing, such as "-", are missing.
        """
        levels, codes = self.distinct()
        found = np.append(reader(levels), np.nan)[codes]
        unread = np.flatnonzero(np.isnan(found) & ~self.missing).tolist()
        if strange := [row for row in unread if not is_placeholder(self.values[row])]:
            raise self._among(strange, learned, learning=learning)
        missing = self.missing.copy()
        missing[unread] = True
        return found, missing

    def _among(self, rows: list[int], learned: str, *, learning: bool) -> TableError:
        """Return the error of cells that are not what was learned, or what most cells are."""
        first, more = self.values[rows[0]], f" (and {len(rows) - 1:,} cells more)" if len(rows) > 1 else ""
        if not learning:
            comma = learned == "numbers" and number_of(first, ",") is not None
            cure = "If its comma is a decimal point, say so (decimal)" if comma else "Mend the cell"
            what = f"{shown(first)} stands where the model learned {learned}{more}. {cure}"
            return self.error(what, rows[0], remedy=("decimal", ",") if comma else None)
        texts = list(dict.fromkeys(str(self.values[row]).strip() for row in rows))
        few = len(texts) <= MOST_GAPS
        others = "or that the column holds names (categories)"
        cure = f"Mend the cell, say that such cells are empty (gaps), {others}" if few else f"Mend the cells, {others}"
        remedy = ("gaps", ",".join(map(quoted, texts))) if few else ("categories", quoted(self.name))
        return self.error(f"{shown(first)} stands among {learned}{more}. {cure}", rows[0], remedy=remedy)

    def texts(self) -> npt.NDArray[np.object_]:
        """Return texts, where numbers that are whole have no point; what is missing means nothing."""
        if self.codes is not None or set(map(type, self.present.tolist())) <= {str}:
            return self.values
        return np.array([_text(value) for value in self.values.tolist()], dtype=object)

    def integers(self) -> list[int]:
        """Return the whole numbers among the cells that are there, with all of their digits; none of floats."""
        if self.values.dtype.kind not in "iuO":
            return []
        return [int(value) for value in self.present if isinstance(value, int | np.integer)]

    def error(self, what: str, row: int | None = None, *, remedy: tuple[str, str] | None = None) -> TableError:
        """Return the error of a cell, or of the column."""
        return TableError(what, column=self.name, row=row, remedy=remedy)


def _each(read: Callable[[Any], float | None], values: Sequence[Any]) -> FloatArray:
    return np.array([np.nan if (number := read(value)) is None else number for value in values], dtype=np.float64)


def _boolean(value: Any) -> float | None:
    return WORDS_OF_BOOLEANS.get(str(value).strip().lower())


def quoted(name: str) -> str:
    """Return a name as it stands in a list of names that commas part."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"' if "," in name or '"' in name or name != name.strip() else name


def shown(value: Any) -> str:
    """Return a cell or a name for an error, in quotes and not too long."""
    try:
        text = str(value)
    except NotImplementedError:
        # pandas writes no moment that Python's calendar does not reach.
        text = "a moment outside the years 1 to 9999"
    written = repr(text)
    return written if len(written) <= MOST_SHOWN else f"{written[:MOST_SHOWN]}... ({len(text):,} characters)"


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
    if said.startswith("datetime64") and hasattr(column, "dt"):
        # Of pandas with a zone: the clock that wrote them counts.
        column = column.dt.tz_localize(None)
    categorical = said.startswith(("category", "Categorical", "Enum"))
    if said.startswith("str") and hasattr(column, "factorize"):
        return _factorized(name, column)
    values = np.asarray(column.to_numpy())
    if said.lower().startswith(("int", "uint")) and values.dtype.kind == "f" and (np.abs(values) > LAST_EXACT).any():
        # Beside gaps integers have become floats, which have fewer digits.
        values = np.array(column.to_list(), dtype=object)
    return _cells(name, values, np.asarray(gaps.to_numpy()), categorical)


def _factorized(name: str, column: Any) -> Cells:
    """Return the cells of a column of pandas' texts, which tell their levels in no time."""
    codes, levels = column.factorize()
    levels = np.asarray(levels.to_numpy(), dtype=object)
    values = np.append(levels, np.array([None]))[codes]
    return Cells(name, values, codes < 0, codes=codes.astype(np.intp), levels=levels)


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
        case "M" | "m":
            missing = missing | np.isnat(values)
            # A duration is a quantity, of seconds.
            values = values.astype("M8[s]") if values.dtype.kind == "M" else values / np.timedelta64(1, "s")
        case "U" | "T" | "O":
            values = values.astype(object)
            missing = missing | np.array([_is_gap(value) for value in values.tolist()], dtype=bool)
        case "c":
            raise TableError("Complex data not supported: give real and imaginary parts", column=name)
        case _:
            what = f"it holds {values.dtype}, neither numbers nor texts. Leave it out (drop)"
            raise TableError(what, column=name, remedy=("drop", quoted(name)))
    return Cells(name, values, missing, categorical)


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _kind(of: type[Any]) -> str:
    if issubclass(of, str):
        return "text"
    if issubclass(of, bool | np.bool_):
        return "boolean"
    if issubclass(of, date | time | np.datetime64):
        return "time"
    # A decimal.Decimal is no Real, and a number.
    return "number" if issubclass(of, Real | Decimal) else "other"


def _text(value: Any) -> str:
    if isinstance(value, date | time) and not isinstance(value, datetime):
        return value.isoformat()
    whole = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))
    return str(int(value)) if whole and value == int(value) else str(value)


# Of categories with fewer rows, on average, little is learned: with fewer for each feature AutoSlabSVM does not trust
# leave-one-out scores. So many categories of one row are no accident: a count, whose error is its root.
ROWS_FOR_EACH = 5
SURE_SINGLES = 5
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

    def read(self, cells: Cells) -> Cells:
        """Return cells as numbers, moments or texts; refuse those that are not what was learned."""
        return cells

    @abstractmethod
    def coded(self, cells: Cells, *, fill: bool) -> Coded:
        """Return the coordinates of cells as read; of missing ones the usual ones with fill, or such as say nothing."""

    def is_text(self) -> bool:
        """Return whether a file's cells are to be read as texts."""
        return True

    @abstractmethod
    def kind(self) -> str:
        """Return what it is taken for."""

    @abstractmethod
    def span(self) -> str:
        """Return which values were learned."""

    def done(self) -> str:
        """Return what is done with it."""
        return "learned" if self.outputs() else "any other value is an outlier"

    def statement(self) -> str:
        """Return how it is taken, in a line."""
        return "; ".join([f"{self.kind()}: {self.span()}", *self._remarks()])

    def _remarks(self) -> list[str]:
        ends = [] if self.outputs() else [self.done()]
        return ends + ([f"{self.n_missing:,} missing"] if self.n_missing else [])


@dataclass(frozen=True, kw_only=True)
class Numbers(Column):
    """A column of numbers or booleans."""

    median: float
    constant: bool  # whether all cells were the same; then there is no coordinate, and any other value is strange
    boolean: bool
    # The least and the largest
    low: Annotated[float | None, LATER] = None
    high: Annotated[float | None, LATER] = None
    writing: Annotated[str | None, Choice(WRITINGS), LATER] = None  # how texts are read as numbers; None is "."

    @classmethod
    def learned(cls, cells: Cells, *, boolean: bool, writing: str = ".") -> Numbers:
        """Return what cells say, of which some are there."""
        cells = cells.numbers(boolean=boolean, writing=writing, learning=True)
        found = cells.present
        if not len(found):
            raise cells.error("it has no value at all. Leave it out (drop)", remedy=("drop", quoted(cells.name)))
        return cls(
            name=cells.name,
            n_missing=int(cells.missing.sum()),
            median=float(np.median(found)),
            constant=bool((found == found[0]).all()),
            boolean=boolean,
            low=float(found.min()),
            high=float(found.max()),
            writing=writing,
        )

    def outputs(self) -> list[str]:
        """Return the column's name, or nothing where it is constant."""
        return [] if self.constant else [self.name]

    def read(self, cells: Cells) -> Cells:
        """Return cells of float64."""
        return cells.numbers(boolean=self.boolean, writing=self.writing or ".")

    def coded(self, cells: Cells, *, fill: bool) -> Coded:
        """Return the numbers, the median where there is none: an indicator, if any, says so beside."""
        del fill
        found = cells.values
        found[cells.missing] = self.median
        strange = (found != self.median) if self.constant else np.zeros(len(found), dtype=bool)
        return Coded(found[:, None][:, : len(self.outputs())], strange)

    def is_text(self) -> bool:
        """Return whether numbers have other marks than a point."""
        return self.writing not in (None, ".")

    def kind(self) -> str:
        """Return the kind."""
        if self.constant:
            return "constant"
        if self.boolean:
            return "yes/no"
        return "decimal comma" if self.writing in (",", "1.234,5") else "number"

    def span(self) -> str:
        """Return the range, and the median."""
        if self.constant:
            return str(bool(self.median)) if self.boolean else f"{self.median:.6g}"
        if self.boolean:
            return "False, True"
        if self.low is None or self.high is None:
            return f"median {self.median:.6g}"
        return f"{self.low:.6g} to {self.high:.6g}, median {self.median:.6g}"


@dataclass(frozen=True, kw_only=True)
class Categories(Column):
    """A column of texts, each of which is a coordinate."""

    levels: tuple[str, ...]  # in alphabetical order
    usual: int  # the place of the most frequent one; of several the first
    # How many were met once. Of new rows a share of about singles / n has one that was never met (Good and Turing).
    singles: int

    @classmethod
    def learned(cls, cells: Cells) -> Categories:
        """Return what cells say, of which some are there."""
        counts = dict(zip(*cells.counts(), strict=True))
        levels = tuple(sorted(counts))
        singles = sum(count == 1 for count in counts.values())
        usual = max(range(len(levels)), key=lambda place: (counts[levels[place]], -place))
        return cls(
            name=cells.name, n_missing=int(cells.missing.sum()), levels=levels, usual=usual, singles=int(singles)
        )

    def outputs(self) -> list[str]:
        """Return NAME=LEVEL for each, or nothing where there is one level."""
        return [f"{self.name}={level}" for level in self.levels] if len(self.levels) > 1 else []

    def coded(self, cells: Cells, *, fill: bool) -> Coded:
        """Return a 1 at each cell's level, and zeros for a level that was never met."""
        places = {level: place for place, level in enumerate(self.levels)}
        texts, codes = replace(cells, values=cells.texts()).distinct()
        codes = np.array([*(places.get(text, -1) for text in texts), -1], dtype=np.intp)[codes]
        codes[cells.missing] = self.usual if fill else -1
        values = np.zeros((len(codes), len(self.outputs())))
        known = np.flatnonzero(codes >= 0)
        if values.shape[1]:
            values[known, codes[known]] = 1.0
        return Coded(values, (codes < 0) & ~cells.missing)

    def kind(self) -> str:
        """Return the kind."""
        return "constant" if len(self.levels) == 1 else "yes/no" if is_yes_no(self.levels) else "category"

    def span(self) -> str:
        """Return the levels."""
        if len(self.levels) <= FEW:
            return ", ".join(map(shown, self.levels))
        return f"{len(self.levels):,} of them: {', '.join(map(shown, self.levels[:FEW]))}, ..."

    def _remarks(self) -> list[str]:
        return [*([f"{self.singles:,} met once"] if self.singles else []), *super()._remarks()]

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
