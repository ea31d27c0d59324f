"""The cells of a table's column: numbers, or texts by their levels, with gaps; and the error that names them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import cached_property, partial
from math import isnan
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.data.checks import MOST_WHOLE
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.caller import counted, escaped
from slabsvm.tables.numbers import PLAIN, as_number, is_placeholder, read_again, read_numbers, writing_of

# The letters of NumPy's types of numbers and booleans.
NUMERIC = frozenset("fiub")
# Below or above what could be measured, as <5.
LIMIT = re.compile(r"\s*[<>≤≥]\s*[\d.,]")


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
        line: str = "",
    ) -> None:
        where = [] if row is None else [f"row {row + 1:,}{line and f' ({line})'}"]
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
        shown_errors = errors[:50]  # a screen
        more = [f"and {len(errors) - len(shown_errors):,} others"] if len(errors) > len(shown_errors) else []
        found.args = ("\n  ".join([f"{found.what}:", *map(str, shown_errors), *more]),)
        return found

    def below(self, rows: int) -> TableError:
        """Return the error as one of a table whose rows follow `rows` others."""
        return self.placed(lambda row: (row + rows, ""))

    def placed(self, of: Callable[[int], tuple[int, str]]) -> TableError:
        """Return the error with what a function makes of rows: their place in the whole table, and their line."""
        if len(self.errors) > 1:
            return TableError.of([error.placed(of) for error in self.errors], self.what)
        row, line = (None, "") if self.row is None else of(self.row)
        return TableError(self.what, column=self.column, row=row, remedy=self.remedy, line=line)


# What to do about an error, and the option that does it, if there is one.
Cure = tuple[str, tuple[str, str] | None]


@dataclass(frozen=True)
class Cells:
    """A column as it was found."""

    name: str
    # (n,): floats, integers, booleans or moments; of other columns the place of each cell in `levels`
    values: npt.NDArray[Any]
    missing: BoolArray  # (n,): cells that are empty, whose values mean nothing; places are then -1
    # The different texts, in the order of their first rows, or all objects; None of numbers and moments
    levels: npt.NDArray[np.object_] | None = None
    zoned: bool = False  # whether moments have a zone
    categorical: bool = False  # whether the table says that these are categories, whatever they look like

    @property
    def present(self) -> npt.NDArray[Any]:
        """The values that are there; of texts and other objects the levels."""
        return self.values[~self.missing] if self.levels is None else self.levels

    def cell(self, row: int) -> Any:
        """Return the cell of a row, which is not empty."""
        return self.values[row] if self.levels is None else self.levels[self.values[row]]

    def kind(self) -> str:
        """Return "number", "boolean", "time", "text" or "other": what all that are there are; of several kinds "text",
        unless one is "other".
        """
        if self.levels is None:
            return {"b": "boolean", "M": "time"}.get(self.values.dtype.kind, "number")
        kinds = {_kind(one) for one in set(map(type, self.levels.tolist()))} or {"number"}
        return "other" if "other" in kinds else kinds.pop() if len(kinds) == 1 else "text"

    def without(self, gaps: Collection[str]) -> Cells:
        """Return the cells of which some texts, or numbers as they are written, are gaps."""
        if not gaps:
            return self
        if self.levels is None:
            numbers = [number for text in gaps if (number := as_number(text)) is not None]
            is_gap = np.isin(self.values, numbers) if self.values.dtype.kind in "fiu" else False
            return replace(self, missing=self.missing | is_gap)
        texts = [str(level).strip() for level in self.levels.tolist()]
        # -9999,0 is the number -9999.
        whole = (re.sub(r"(?:(?<=\d)[.,]0{1,2}|(?<=\d{4})[.,]0+)$", "", text) for text in texts)
        kept = np.array([not {text, number} & {*gaps} for text, number in zip(texts, whole, strict=True)], dtype=bool)
        values = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)[self.values]
        levels = self.levels[kept]
        if set(map(type, levels.tolist())) <= {str}:
            # Texts that stood beside other objects are levels once for each cell.
            levels, again = _distinct(levels.tolist())
            values = np.append(again, -1)[values]
        return replace(self, values=values, missing=values < 0, levels=levels)

    def texts(self) -> Cells:
        """Return the cells as texts, each a level once; numbers that are whole have no point."""
        levels, places = self.levels, self.values
        if levels is None:
            places = np.full(len(self.values), -1)
            levels, places[~self.missing] = np.unique(self.present, return_inverse=True)
        elif set(map(type, levels.tolist())) <= {str}:
            return self
        levels, again = _distinct([_text(level) for level in levels.tolist()])
        return replace(self, values=np.append(again, -1)[places], levels=levels)

    def alike(self) -> Cells:
        """Return texts of which those that differ by blanks or case alone are one, as most are written."""
        assert self.levels is not None
        groups: dict[str, list[int]] = {}
        for place, text in enumerate(self.levels.tolist()):
            groups.setdefault(plainly(text), []).append(place)
        if len(groups) == len(self.levels) and all(text == text.strip() for text in self.levels.tolist()):
            return self
        places, usual = np.empty(len(self.levels), dtype=np.intp), []
        for place, group in enumerate(groups.values()):
            places[group] = place
            usual.append(self.levels[max(group, key=self.counts.__getitem__)].strip())
        levels = np.array(usual, dtype=object)
        return replace(self, values=np.append(places, -1)[self.values], levels=levels)

    def named(self) -> list[str]:
        """Return the texts of all cells, (n,); "" where one is empty."""
        texts = self.texts()
        assert texts.levels is not None
        levels = [*texts.levels.tolist(), ""]
        return [levels[place] for place in texts.values.tolist()]

    @cached_property
    def counts(self) -> IndexArray:
        """How often each level is there."""
        assert self.levels is not None, "numbers have no levels"
        return np.bincount(self.values[~self.missing], minlength=len(self.levels))

    def numbers(self, *, boolean: bool = False, form: str = PLAIN, unit: str = "", learning: bool = False) -> Cells:
        """Return cells of float64, NaN where one is missing; refuse what is no number, or infinite.

        Texts are read as numbers of a form, one of `numbers.FORMS`. An error says more while a table is learned.
        """
        learned = "booleans" if boolean else "numbers"
        if self.levels is not None:
            numbers = read_numbers if learning else read_again
            reader = _booleans if boolean else partial(numbers, form=form, unit=unit)
            cells = self.read(reader, learned, learning=learning, changed=partial(_changed, form=form, unit=unit))
        elif self.values.dtype.kind in NUMERIC:
            values = self.values.astype(np.float64, copy=False)
            cells = replace(self, values=np.where(self.missing, np.nan, values) if self.missing.any() else values)
            # A boolean may be written as 0 or 1, and a number not as a boolean.
            is_bool = self.values.dtype.kind == "b"
            known = np.isin(values, (0.0, 1.0)) if boolean else np.full(len(values) if is_bool else 0, False)
            if not (known := known | self.missing[: len(known)]).all():
                row = int(known.argmin())
                raise self.error(f"{shown(self.cell(row))} stands where the model learned {learned}", row)
        else:
            raise self.error(f"it holds times, where the model learned {learned}")
        infinite = np.isinf(cells.values)
        if infinite.any():
            row = int(infinite.argmax())
            remedy = ("gaps", "-inf" if cells.values[row] < 0 else "inf") if learning else None
            raise self.error("it is infinite. Mend it, or empty the cell", row, remedy=remedy)
        return cells

    def read(
        self,
        reader: Callable[[list[Any]], FloatArray],
        learned: str,
        *,
        learning: bool,
        changed: Callable[[list[str]], Cure | None],
    ) -> Cells:
        """Return the numbers that a reader makes of the levels, (k,); refuse those of which it makes NaN, but "-" and
        such. `changed` says of texts how the table differs from the one that was learned.
        """
        assert self.levels is not None, "numbers are read already"
        levels = self.levels.tolist()
        numbers = reader(levels)
        unread = np.isnan(numbers)
        unseen = np.zeros(len(levels), dtype=bool)
        unseen[unread] = [not is_placeholder(level) for level in self.levels[unread]]
        if unseen.any():
            raise self._among(unseen, learned, changed, learning=learning)
        values = np.append(numbers, np.nan)[self.values]
        return replace(self, values=values, missing=np.isnan(values), levels=None)

    def _among(
        self, unseen: BoolArray, learned: str, changed: Callable[[list[str]], Cure | None], *, learning: bool
    ) -> TableError:
        """Return the error of levels that are not what was learned, or (learning) what most cells are."""
        assert self.levels is not None
        levels, rows = self.levels[unseen].tolist(), np.flatnonzero(np.append(unseen, False)[self.values])
        first, row = levels[0], int(rows[0])
        more = f" (and {counted(len(rows) - 1, 'more such cell')})" if len(rows) > 1 else ""
        texts = [level for level in levels if isinstance(level, str)]
        if learning and (changed(texts) is not None or any(map(LIMIT.match, texts))):
            is_limit = any(map(LIMIT.match, texts))
            kind = f"a limit among {learned}" if is_limit else "in another unit than the others, or written otherwise"
            what = f"{shown(first)} is {kind}{more}. Write all alike, or leave the column out (drop)"
            return self.error(what, row, remedy=("drop", quoted(self.name)))
        if not learning:
            cure, remedy = changed(texts) or ("Mend the cell, or empty it", None)
            what = f"{shown(first)} stands where the model learned {learned}{more}. {cure}"
            return self.error(what, row, remedy=remedy)
        names = list(dict.fromkeys(str(level).strip() for level in levels))
        if len(names) <= 5:  # more are no accident
            cure = "Mend the cell, say that such cells are empty (gaps), or that the column holds names (categories)"
            remedy = ("gaps", ",".join(map(quoted, names)))
        elif 2 * len(self.levels) < len(self.values):
            cure = "Mend the cells, or say that the column holds names (categories)"
            remedy = ("categories", quoted(self.name))
        else:
            # Of categories hardly one would be met again.
            cure, remedy = "Mend the cells, or leave the column out (drop)", ("drop", quoted(self.name))
        what = f"{shown(first)} stands among {learned}{more}. {cure}"
        return self.error(what, row, remedy=remedy)

    def error(self, what: str, row: int | None = None, *, remedy: tuple[str, str] | None = None) -> TableError:
        """Return the error of a cell, or of the column."""
        return TableError(what, column=self.name, row=row, remedy=remedy)


def _changed(texts: list[str], form: str, unit: str) -> Cure | None:
    """Return how the writing of numbers has changed, and what takes it; None where it has not."""
    found = writing_of(texts, np.ones(len(texts), dtype=np.intp))
    if found is None:
        return None
    if found.unit and found.unit != unit:
        was, cure = (shown(unit), f"Give the numbers in {shown(unit)}") if unit else ("none", "Give them without it")
        return f"The unit has changed: it is {shown(found.unit)}, and was {was}. {cure}", None
    if found.form == form:
        return None
    if form[-2] in (found.form[-2], found.other[-2:-1]):
        cure = "Its mark may stand between thousands, or be the decimal one, and was neither in the learned table"
        # Neither is suggested: by the wrong one numbers are a thousand times as large, or a thousandth.
        read = {one[-2]: read_numbers(texts[:1], one, found.unit)[0] for one in (found.form, found.other) if one}
        both = " or ".join(f"{mark} for {number:g}" for mark, number in read.items())
        return f"{cure}. Say which mark is the decimal one (decimal): {both}", None
    cure = f"The decimal mark has changed: numbers are written as {found.form}, and were as {form}"
    if form == PLAIN and found.form[-2] == ",":
        return f"{cure}. Say so (decimal)", ("decimal", ",")
    return f"{cure}. Write them as before", None


def _booleans(values: list[Any]) -> FloatArray:
    words = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
    return np.array([words.get(str(value).strip().lower(), np.nan) for value in values], dtype=np.float64)


def plainly(text: str) -> str:
    """Return a category without what people write in one way or another: blanks around it and its case."""
    return " ".join(text.split()).casefold()


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
    most = 40  # characters, about half a line
    return written if len(written) <= most else f"{written[:most]}... ({len(text):,} characters)"


def table_of(X: Any) -> Any:
    """Return a table: X itself where it has columns, or else its array; TypeError where sparse, TableError not of two
    axes.
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
    """Return the names of a table's columns, x0, x1, ... of an array; TableError where two have one name."""
    if hasattr(table, "columns"):
        return distinct_names([str(name) for name in table.columns])
    return [f"x{place}" for place in range(table.shape[1])]


def places_of(table: Any) -> dict[str, int]:
    """Return the place of each column by its name, in their order; raise as `names_of`."""
    return {name: place for place, name in enumerate(names_of(table))}


def distinct_names(names: list[str]) -> list[str]:
    """Return names of columns; raise TableError where two are the same."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError("there are two columns of this name, or more. Rename all but one", column=twice[0])
    return names


def listed(names: Sequence[str], most: int) -> str:
    """Return the first of some names, for an error."""
    more = f" and {counted(len(names) - most, 'other')}" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def cells_of(table: Any, places: Mapping[str, int], name: str) -> Cells:
    """Return the cells of a named column; the places are those of all columns."""
    if not hasattr(table, "columns"):
        return _cells(name, table[:, places[name]])
    column = table[table.columns[places[name]]]
    if getattr(column.dtype, "kind", "") in NUMERIC and isinstance(column.dtype, np.dtype):
        return _cells(name, column.to_numpy())
    if is_text(column):
        codes, levels = column.factorize()
        return Cells(name, codes.astype(np.intp), codes < 0, np.asarray(levels.to_numpy(), dtype=object))
    said, zoned = str(column.dtype), False
    gaps = column.isna() if hasattr(column, "isna") else column.is_null()
    if said.startswith("datetime64") and hasattr(column, "dt"):
        # Moments with a zone are instants.
        zone = getattr(column.dt, "tz", None)
        column = column.dt.tz_convert("UTC").dt.tz_localize(None) if zone is not None else column
        zoned = zone is not None
    values = np.asarray(column.to_numpy())
    if said.lower().startswith(("int", "uint")) and values.dtype.kind == "f" and (np.abs(values) >= MOST_WHOLE).any():
        # Beside gaps integers have become floats, which have fewer digits.
        values = np.array(column.to_list(), dtype=object)
    found = _cells(name, values, np.asarray(gaps.to_numpy(), dtype=bool))
    return replace(found, zoned=zoned, categorical=said.startswith(("category", "Categorical", "Enum")))


def is_text(column: Any) -> bool:
    """Return whether a column is one of pandas' texts, which hold nothing but texts and gaps."""
    return str(column.dtype).startswith("str") and hasattr(column, "factorize")


def _cells(name: str, values: npt.NDArray[Any], gaps: BoolArray | None = None) -> Cells:
    missing = np.zeros(len(values), dtype=bool) if gaps is None else gaps
    match values.dtype.kind:
        case "i" | "u" | "b":
            # As they are: long ones are no floats, and may be names.
            return Cells(name, values, missing)
        case "f":
            # Of a float32 that signals, the processor says that it is no number.
            with np.errstate(invalid="ignore"):
                values = values.astype(np.float64, copy=False)
            return Cells(name, values, missing | np.isnan(values))
        case "M":
            return Cells(name, values.astype("M8[s]"), missing | np.isnat(values))
        case "m":
            # A duration is a quantity, of seconds.
            return Cells(name, values / np.timedelta64(1, "s"), missing | np.isnat(values))
        case "U" | "T" | "O":
            return _of_objects(name, values.astype(object), missing)
        case "c":
            raise TableError("Complex data not supported: give real and imaginary parts", column=name)
    what = f"it holds {values.dtype}, neither numbers nor texts. Leave it out (drop)"
    raise TableError(what, column=name, remedy=("drop", quoted(name)))


def _of_objects(name: str, values: npt.NDArray[np.object_], gaps: BoolArray) -> Cells:
    empty = [value is None or (isinstance(value, float) and isnan(value)) for value in values.tolist()]
    missing = gaps | np.array(empty, dtype=bool)
    levels = values[~missing]
    found = np.arange(len(levels))
    if set(map(type, levels.tolist())) <= {str}:
        levels, found = _distinct(levels.tolist())
    places = np.full(len(values), -1)
    places[~missing] = found
    return Cells(name, places, missing, levels)


def _distinct(texts: Sequence[str]) -> tuple[npt.NDArray[np.object_], IndexArray]:
    """Return the different texts, in the order in which they come, and the place of each text among them."""
    known: dict[str, int] = {}
    places = np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.intp)
    return np.array(list(known), dtype=object), places


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
