"""The kinds of columns: what is learned of each, and which coordinates its cells become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.counting import counted
from slabsvm.tables.cells import LAST_EXACT, Cells, as_number, looks_like_a_date, shown, with_point

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

    Raises
    ------
    TableError
        The column is empty, or holds what is neither numbers nor categories.
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
