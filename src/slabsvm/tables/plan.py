"""What each column of a table is taken for, and what is done with it: the plan that comes before all learning."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.data.checks import MOST_WHOLE
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import counted
from slabsvm.tables.cells import Cells, TableError, quoted, shown
from slabsvm.tables.columns import Categories, Column, Described, Numbers
from slabsvm.tables.letters import Letters
from slabsvm.tables.numbers import (
    DURATION,
    DURATIONS,
    GROUPED,
    HOURS,
    MOST_NUMBERS,
    N_FIRST,
    PLAIN,
    Writing,
    are_durations,
    as_number,
    numbers_of,
    writing_of,
)
from slabsvm.tables.times import PARTS, AmbiguousError, Times, is_unix, looks_like_times, seconds_of

# Each category is a coordinate of its own.
MOST_LEVELS = 1000
# Names of columns whose whole numbers, all different, name the rows.
NAMES_OF_IDENTIFIERS = re.compile(
    r"(?:(?:^|[^A-Za-z])(?i:id|nr|no|key|index|serial|uuid|guid)|[a-z](?:ID|Id|Nr|No))\.?\s*$"
)


@dataclass(frozen=True)
class LeftOut:
    """A column that is not learned from."""

    name: str
    n_missing: int
    taken_for: str  # "identifier", "text", "time", "empty" or "other"
    examples: str
    why: str = ""  # what would have it learned

    def described(self) -> Described:
        """Return what it is taken for, some of its cells, and what takes it."""
        return Described(self.taken_for, self.examples, f"left out{self.why and '; '}{self.why}")


@dataclass(frozen=True)
class Rules:
    """What a user says of a table's columns."""

    categories: Collection[str] = ()  # columns of names, whatever they look like
    keep: Collection[str] = ()  # columns that are learned, though identifiers or texts
    times: Collection[str] = PARTS[:2]  # what is learned of moments
    gaps: Collection[str] = ()  # texts that are empty cells
    day_first: bool | None = None  # whether 05/01/2024 is in January; None is found by the other dates


@dataclass(frozen=True)
class Undecided:
    """Numbers as texts, whose points, or commas, may be decimal marks or stand between thousands."""

    cells: Cells
    writing: Writing

    def read(self, decimal: str) -> Numbers:
        """Return the numbers, where one mark is known to be the decimal one."""
        form = self.writing.form if self.writing.form[-2] == decimal else self.writing.other
        return Numbers.learned(self.cells, boolean=False, writing=replace(self.writing, form=form))

    @property
    def mark(self) -> str:
        """The mark that may be either."""
        return self.writing.form[-2]

    def error(self) -> TableError:
        """Return what is doubtful."""
        texts = (text for text in self.cells.present.tolist() if isinstance(text, str))
        text = next(text for text in texts if self.mark in text).strip()
        forms = {form[-2]: form for form in (self.writing.form, self.writing.other)}
        point, comma = (f"{numbers_of([text], forms[mark], self.writing.unit)[0]:.12g}" for mark in ".,")
        what = (
            f"{shown(text)} may mean {point} or {comma}, and no other column tells which. Say which mark is the "
            f"decimal one (decimal): . for {point}, or , for {comma}"
        )
        return self.cells.error(what, remedy=("decimal", ","))


@dataclass(frozen=True)
class Plan:
    """What is done with the columns of a table."""

    n_rows: int
    columns: tuple[Column, ...]  # those that are learned
    left_out: tuple[LeftOut, ...]
    names: tuple[str, ...]  # all columns in their order
    errors: tuple[TableError, ...] = ()  # those of columns that cannot be taken as they are
    # What is done with columns that a user has set aside, such as those that name the rows
    aside: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[tuple[str, str, str, str, str]]:
        """Return a line for each column: its name, what it is taken for, its gaps, what it holds, what is done."""
        found = {name: ("", "", "", self.aside.get(name, "left out, as asked")) for name in self.names}
        known: list[Column | LeftOut] = [*self.columns, *self.left_out]
        for one in known:
            kind, holds, done = one.described()
            empty = f"{one.n_missing:,}" if one.n_missing else ""
            found[one.name] = (kind, empty, holds, self.aside.get(one.name, done))
        found |= {error.column: ("?", "", "", "to be mended: see below") for error in self.errors if error.column}
        return [(name, *line) for name, line in found.items()]

    def not_learned(self) -> str:
        """Return which columns are not learned, and what each is, as a sentence."""
        learned = {column.name for column in self.columns}
        kinds = {one.name: one.taken_for for one in self.left_out} | self.aside
        rest = [
            f"{shown(name)[1:-1]} ({kinds.get(name, 'not asked for')})" for name in self.names if name not in learned
        ]
        n_columns = counted(len(self.names), "column")
        if not rest:
            return f"All {n_columns} are learned." if len(self.names) > 1 else "The column is learned."
        named = rest[:20]
        more = f", and {len(rest) - len(named):,} more" if len(rest) > len(named) else ""
        verb = "is" if len(rest) == 1 else "are"
        return f"{len(rest):,} of {n_columns} {verb} not learned: {', '.join(named)}{more}."

    def naming(self) -> Plan:
        """Return the plan where the first identifier names the rows, as the command has it."""
        name = self.identifier()
        return self if name is None else replace(self, aside={**self.aside, name: "names the rows"})

    def identifier(self) -> str | None:
        """Return the first column that names each row, None where there is none."""
        return next((one.name for one in self.left_out if one.taken_for == "identifier" and not one.n_missing), None)


def taken(cells: Cells, rules: Rules) -> Column | LeftOut | Undecided:
    """Return what a column is taken for by its cells; TableError where it cannot be taken as it is."""
    cells, name = cells.without(rules.gaps), cells.name
    if cells.missing.all():
        return LeftOut(name, len(cells.missing), "empty", "")
    if name in rules.categories or cells.categorical:
        return _categories(cells.texts(), kept=True)
    match cells.kind():
        case "boolean" | "number" as kind:
            unix = kind == "number" and name not in rules.keep and is_unix(name, cells.present)
            return _times(cells, rules) if unix else _numbers(cells, kept=name in rules.keep, boolean=kind == "boolean")
        case "time":
            return _times(cells, rules)
        case "text":
            return _texts(cells, rules)
    return LeftOut(name, int(cells.missing.sum()), "other", type(cells.present[0]).__name__)


def read_at_once(name: str, column: Any, rules: Rules) -> Column | None:
    """Return what texts are taken for that are all moments, or all numbers of one reading, as `taken` does; texts are
    not told apart. None for other columns.
    """
    found = None if name in rules.categories or rules.gaps else Letters.of_column(column)
    if found is None or len(found[0]) < N_FIRST:
        return None
    letters, missing = found
    first = letters[:N_FIRST].texts()
    if all(text.strip().isdecimal() for text in first) or are_durations(name, first):
        return None
    cells = Cells(name, np.full(len(missing), np.nan), missing)
    if (writing := writing_of(letters)) is not None:
        return _numbers_at_once(cells, letters, writing)
    return _times_at_once(cells, letters, rules) if looks_like_times(first) and letters.are_ascii else None


def _numbers_at_once(cells: Cells, letters: Letters, writing: Writing) -> Numbers | None:
    cells.values[~cells.missing] = numbers = numbers_of(letters, writing.form, writing.unit)
    n_percents = sum(len(shape.places) for shape in letters.shapes if "%" in shape.example)
    plain = writing == Writing(PLAIN) and not n_percents
    if plain or writing.other or np.isnan(numbers).any() or n_percents not in (0, len(letters)):
        return None
    return Numbers.learned(cells, boolean=False, writing=writing, percent=n_percents > 0)


def _times_at_once(cells: Cells, letters: Letters, rules: Rules) -> Times | None:
    try:
        moments = seconds_of(letters, day_first=rules.day_first)
    except AmbiguousError:
        return None
    if np.isnan(moments.seconds).any() or len(np.unique(moments.zoned)) > 1:
        return None
    cells.values[~cells.missing] = moments.seconds
    found = Times.of_seconds(cells, rules.times, moments.day_first, zoned=bool(moments.zoned[0]))
    return found if found.parts else None


def decided(
    found: Sequence[Column | LeftOut | Undecided], numbers: Callable[[str], FloatArray], said: str | None
) -> tuple[list[Column | LeftOut], list[TableError], list[str]]:
    """Return columns whose marks are known, by what a user said or the other columns show; errors, and warnings.

    Where some columns have decimal commas and none has points, points are between thousands.
    """
    marks = {one.mark() for one in found if isinstance(one, Numbers) and not one.boolean} - {""}
    decimal = said or (marks.pop() if len(marks) == 1 else None)
    columns: list[Column | LeftOut] = []
    errors, warned = [], []
    for one in found:
        if isinstance(one, Undecided):
            if decimal is None and one.mark == ",":
                errors.append(one.error())
                continue
            warned += [f"{one.error()}. Until then it is read as the former."] if decimal is None else []
            try:
                columns.append(one.read(decimal or "."))
            except TableError as error:
                errors.append(error)
        elif isinstance(one, Numbers) and not one.boolean and one.form == PLAIN and not one.unit and decimal == ",":
            # Points would stand between thousands.
            is_whole = (numbers(one.name) % 1 == 0).all()
            columns.append(replace(one, form=GROUPED[","]) if said or is_whole else one)
        else:
            columns.append(one)
    return columns, errors, warned


def _texts(cells: Cells, rules: Rules) -> Column | LeftOut | Undecided:
    """Return numbers or times that are written as texts, or categories."""
    found, cells = cells, cells.texts()
    levels = cells.present.tolist()
    if _are_codes(levels):
        return _categories(cells, kept=True)
    if len(levels) > 1 and (writing := _writing(found)) is not None:
        return _written(found, writing, rules)
    if are_durations(cells.name, levels):
        return Numbers.learned(cells, boolean=False, writing=Writing(_duration(cells)))
    if looks_like_times(levels):
        return _times(cells, rules)
    return _categories(cells, kept=cells.name in rules.keep)


def _written(cells: Cells, writing: Writing, rules: Rules) -> Column | LeftOut | Undecided:
    """Return numbers that are written as texts, unless they are identifiers, Unix times, or can be read in two ways."""
    if writing == Writing(PLAIN) and cells.name not in rules.keep:
        if _names_rows(texts := cells.texts()):
            examples = _examples(texts.present.tolist())
            return LeftOut(cells.name, int(cells.missing.sum()), "identifier", examples, "--keep takes it")
        numbers = cells.numbers(learning=True)
        if len(numbers.present) and is_unix(cells.name, numbers.present):
            return _times(numbers, rules)
    return Undecided(cells, writing) if writing.other else Numbers.learned(cells, boolean=False, writing=writing)


def _writing(cells: Cells) -> Writing | None:
    """Return how most cells are written as numbers: as texts, of which numbers beside them tell nothing; None where
    most are no numbers.
    """
    levels, counts = cells.present.tolist(), cells.counts
    are_texts = np.array([isinstance(level, str) for level in levels], dtype=bool)
    if are_texts.all():
        return writing_of(levels, counts)
    n_numbers = sum(as_number(level) is not None for level in cells.present[~are_texts])
    found = writing_of(cells.present[are_texts].tolist(), counts[are_texts])
    return found or (Writing(PLAIN) if n_numbers > MOST_NUMBERS * counts.sum() else None)


def _duration(cells: Cells) -> str:
    """Return the form of durations, all of which have seconds, or none; TableError otherwise."""
    found = [match for text in cells.present.tolist() if (match := DURATIONS.fullmatch(text)) is not None]
    long, short = ([match for match in found if (match[4] is None) == bare] for bare in (False, True))
    if not (long and short):
        return DURATION if long else HOURS
    first, second = short[0][2], short[0][3]
    what = (
        f"{shown(short[0][0].strip())} stands beside {shown(long[0][0].strip())}, and may be {first} h {second} min or "
        f"{first} min {second} s. Write all as h:mm:ss, or leave the column out (drop)"
    )
    raise cells.error(what, remedy=("drop", quoted(cells.name)))


def _names_rows(cells: Cells) -> bool:
    """Return whether texts are whole numbers that name the rows, as `_numbers` has it of numbers."""
    all_there = bool((cells.counts == 1).all()) and not cells.missing.any()
    whole = all_there and all(text.strip().isdecimal() for text in cells.present.tolist())
    return whole and NAMES_OF_IDENTIFIERS.search(cells.name) is not None


def _are_codes(texts: Sequence[str]) -> bool:
    """Return whether all texts are digits, and one has a leading zero, which numbers would lose."""
    return all(map(str.isdecimal, map(str.strip, texts))) and any(re.match(r"\s*0\d", text) for text in texts)


def _numbers(cells: Cells, *, kept: bool, boolean: bool) -> Column | LeftOut:
    """Return numbers, unless they are identifiers: too long for float64, or whole, different and named as such."""
    present = cells.present
    if cells.levels is not None:
        whole = np.array([int(one) for one in present if isinstance(one, int | np.integer)], dtype=object)
    else:
        whole = present if present.dtype.kind in "iu" else present[:0]
    if not kept and not boolean and len(whole):
        # Of the index of a table pandas or `names_of_header` made the name, and its numbers increase.
        unnamed = re.fullmatch(r"Unnamed: \d+|column \d+", cells.name) is not None
        is_index = unnamed and (np.diff(whole) > 0).all()
        looks_named = (NAMES_OF_IDENTIFIERS.search(cells.name) or is_index) and len(whole) == len(cells.missing)
        named = looks_named and len(np.unique(whole)) == len(whole)
        if named or _too_long(whole, len(present)):
            how = "--keep takes it" if named else "--categories takes it as names"
            return LeftOut(cells.name, int(cells.missing.sum()), "identifier", _examples(map(str, whole)), how)
    return Numbers.learned(cells, boolean=boolean)


def _too_long(whole: npt.NDArray[Any], n_present: int) -> bool:
    """Return whether whole numbers are too long for float64, which makes one of several, or changes most."""
    if whole.min() >= -MOST_WHOLE and whole.max() <= MOST_WHOLE:
        return False
    numbers = whole.tolist()
    if max(map(abs, numbers)) > sys.float_info.max:
        return True
    as_floats = [int(float(number)) for number in numbers]
    changed = sum(number != rounded for number, rounded in zip(numbers, as_floats, strict=True))
    return len(set(as_floats)) < len(set(numbers)) or changed > MOST_NUMBERS * n_present


def _times(cells: Cells, rules: Rules) -> Column | LeftOut:
    found = Times.learned(cells, rules.times, rules.day_first)
    if found.parts:
        return found
    asked = " and no ".join(rules.times)
    why = f"no {asked} in so short a time" if asked else "--times hour,weekday takes its parts"
    return LeftOut(found.name, found.n_missing, "time", found.described().holds, why)


def _categories(cells: Cells, *, kept: bool) -> Column | LeftOut:
    """Return categories, unless too many texts are there once, or too many differ: those are names, or free text."""
    # Ten spellings of each category are not to be expected.
    joined = cells.alike() if len(cells.present) < 10 * MOST_LEVELS else cells
    levels, counts = joined.present, joined.counts
    many = len(levels) > MOST_LEVELS
    if kept and many:
        raise cells.error(
            f"it holds {len(levels):,} different texts, and each would be a coordinate. Leave it out (drop)",
            remedy=("drop", quoted(cells.name)),
        )
    # Of new rows as large a share has a text that was never seen (Good and Turing).
    if kept or not (many or (counts == 1).sum() > 0.5 * counts.sum()):
        return Categories.learned(cells)
    why = "" if many else "--keep takes it"
    first = levels[:100].tolist()
    are_names = (counts == 1).all() and all(len(text.split()) <= 2 for text in first)
    taken_for = "identifier" if are_names else "text"
    return LeftOut(cells.name, int(cells.missing.sum()), taken_for, _examples(levels), why)


def _examples(texts: Iterable[str]) -> str:
    return ", ".join([*map(shown, islice(texts, 2)), "..."])


def nothing_left(columns: Sequence[Column], left_out: Sequence[LeftOut]) -> TableError:
    """Return the error of a table of which no column is learned: all are of one value, or left out."""
    if columns:
        n_columns = counted(len(columns), "column")
        return TableError(f"no column varies: {n_columns} of one value each, by which no row differs from another")
    why = f": {counted(len(left_out), 'column')} of identifiers, texts or no value" if left_out else ""
    return TableError(f"no column is left to learn from{why}. Numbers, times, or texts that repeat are needed")


def refused(errors: Collection[TableError]) -> TableError:
    """Return the error of columns that cannot be learned from."""
    return TableError.of(list(errors), f"{counted(len(errors), 'column')} cannot be learned from")
