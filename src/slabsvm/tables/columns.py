"""What is learned of a column of each kind, and how its cells become coordinates."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.caller import counted
from slabsvm.tables.cells import Cells, plainly, quoted, shown
from slabsvm.tables.numbers import PLAIN, Writing, is_placeholder, read_numbers, writing_of

# Beyond this share of the rows, categories that are met once are warned of: at .1 they set the default's threshold.
MOST_SINGLES = 0.05


class Described(NamedTuple):
    """What a user is told of a column."""

    kind: str  # what it is taken for
    holds: str
    done: str  # what is done with it


@dataclass(frozen=True)
class Encoded:
    """Rows for a detector, or the coordinates of one column's cells."""

    values: FloatArray  # (n, n_outputs)
    # (n, n_columns): cells like none that was learned: a new value of a constant, a new category, or a first gap
    strange: BoolArray


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A column that was learned."""

    name: str
    n_missing: int  # how many of its cells were missing
    counts: tuple[int, ...] = ()  # how many cells were in each bin, or of each category, and how many of none

    @abstractmethod
    def outputs(self) -> list[str]:
        """Return the names of its coordinates."""

    @abstractmethod
    def read(self, cells: Cells) -> Cells:
        """Return cells as numbers, moments or texts; refuse those that are not what was learned."""

    @abstractmethod
    def coded(self, cells: Cells, *, fill: bool) -> Encoded:
        """Return the coordinates of cells as read; of missing ones the usual ones with fill, or such as say nothing."""

    @abstractmethod
    def described(self) -> Described:
        """Return what it is taken for, which values were learned, and what is done with it."""

    def statement(self) -> str:
        """Return how it is taken, in a line."""
        kind, holds, done = self.described()
        ends = [] if self.outputs() else [done]
        ends += [f"{self.n_missing:,} missing"] if self.n_missing else []
        return "; ".join([f"{kind}: {holds}", *self._remarks(), *ends])

    def _remarks(self) -> list[str]:
        return []


# What is done with a column.
LEARNED, CONSTANT = "learned", "any other value is an outlier"


@dataclass(frozen=True, kw_only=True)
class Numbers(Column):
    """A column of numbers or booleans."""

    median: float
    constant: bool  # whether all cells were the same; then there is no coordinate, and any other value is unseen
    boolean: bool
    # The least and the largest
    low: float
    high: float
    # How texts are read as numbers: one of `numbers.FORMS`; what stands beside them; whether some are percents
    form: str = PLAIN
    unit: str = ""
    percent: bool = False
    code: float | None = None  # the least or the largest, where it may be a code for "no value"
    edges: tuple[float, ...] = ()  # of the bins, between which most cells are

    @classmethod
    def learned(cls, cells: Cells, *, boolean: bool, writing: Writing | None = None, percent: bool = False) -> Numbers:
        """Return what cells say, of which some are there; they may be read already, as percents or not."""
        writing = writing or Writing(PLAIN)
        texts = cells.levels
        cells = cells.numbers(boolean=boolean, form=writing.form, unit=writing.unit, learning=True)
        found = cells.present
        if not len(found):
            raise cells.error("it has no value at all. Leave it out (drop)", remedy=("drop", quoted(cells.name)))
        low, high = float(found.min()), float(found.max())
        if texts is not None:
            names = [text for text in texts.tolist() if isinstance(text, str)]
            percent = "%" in "".join(names)
            if percent:
                how = "Write the sign behind all, or leave the column out (drop)"
                _refuse_two_percents(cells, [*map(str, texts.tolist())], how, ("drop", quoted(cells.name)))
        # The histogram of the report has 12 bins between these, and one at either end.
        first, last = np.quantile(found, (0.01, 0.99)).tolist()
        with np.errstate(over="ignore", invalid="ignore"):
            edges = np.linspace(first, last, 13) if first < last else np.array([low])
        return cls(
            name=cells.name,
            n_missing=int(cells.missing.sum()),
            counts=tuple(np.bincount(np.searchsorted(edges, found, side="right"), minlength=len(edges) + 1).tolist()),
            edges=tuple(edges.tolist()),
            median=float(np.median(found)),
            constant=low == high,
            boolean=boolean,
            low=low,
            high=high,
            form=writing.form,
            unit=writing.unit,
            code=code_of(found),
            percent=percent,
        )

    def outputs(self) -> list[str]:
        """Return the column's name, or nothing where it is constant."""
        return [] if self.constant else [self.name]

    def read(self, cells: Cells) -> Cells:
        """Return cells of float64."""
        how, are_shares = "Write it as in the learned table", max(-self.low, self.high) <= 1.0
        levels = [] if cells.levels is None else cells.levels.tolist()
        if self.percent:
            # Numbers that are no texts, as of a workbook, are shares.
            _refuse_two_percents(cells, [str(one) for one in levels if isinstance(one, str) or are_shares], how)
            if cells.levels is None and are_shares and (beyond := np.abs(cells.present.astype(np.float64)) > 1.0).any():
                _refuse_two_percents(cells, [str(cells.present[beyond][0])], how)
        elif not are_shares and (signed := [one for one in levels if isinstance(one, str) and "%" in one]):
            raise cells.error(f"{shown(signed[0])} has a percent sign, and the learned numbers had none. {how}")
        return cells.numbers(boolean=self.boolean, form=self.form, unit=self.unit)

    def coded(self, cells: Cells, *, fill: bool) -> Encoded:
        """Return the numbers, the median where there is none: an indicator, if any, says so beside."""
        found = np.where(cells.missing, self.median, cells.values)
        unseen = (found != self.median) & self.constant
        return Encoded(found[:, None][:, : len(self.outputs())], unseen[:, None])

    def bins_of(self, numbers: FloatArray) -> IndexArray:
        """Return the bin of each number, (n,): the first is below all edges, and the last beyond."""
        return np.searchsorted(np.asarray(self.edges), numbers, side="right")

    def described(self) -> Described:
        """Return the kind, the range and the median."""
        if self.constant:
            return Described("constant", str(bool(self.median)) if self.boolean else f"{self.median:.6g}", CONSTANT)
        if self.boolean:
            return Described("yes/no", "False, True", LEARNED)
        kind = "percent" if self.percent else "number"
        kind += f" in {self.unit}" if self.unit else ""
        kind += f" as {self.form}" if self.form != PLAIN else ""
        low, high, median = (self.written(number, 6) for number in (self.low, self.high, self.median))
        return Described(kind, f"{low} to {high}, median {median}", LEARNED)

    def written(self, number: float, digits: int) -> str:
        """Return a number with some digits, a percent as one, with the decimal mark of the table."""
        text = f"{100 * number:.{digits}g}%" if self.percent else f"{number:.{digits}g}"
        return text.replace(".", ",") if self.form[-2] == "," else text

    def doubt(self, n_rows: int) -> str:
        """Return what is doubtful where some cells may have a code for "no value"; "" where none does."""
        del n_rows
        if self.code is None:
            return ""
        where = "and nothing else" if self.constant else "which is far from all its other numbers"
        return (
            f"Column {shown(self.name)} holds {self.code:g}, {where}. If it means that there is no value, say so "
            f"(gaps): {self.code:g}"
        )

    def mark(self) -> str:
        """Return the decimal mark of these numbers in their table, "" where nothing tells."""
        has_fractions = bool(self.low % 1 or self.high % 1)
        if self.form in ("1,234.5", "1.234,5", "1234,5"):
            return self.form[-2]
        return self.form[-2] if has_fractions and not self.percent else ""


def _refuse_two_percents(cells: Cells, texts: Sequence[str], cure: str, remedy: tuple[str, str] | None = None) -> None:
    """Refuse numbers beyond 1 beside percents: 6.25 may be 6.25 % or 625 %."""
    texts = [text for text in texts if "%" not in text and not is_placeholder(text)]
    for text, number in zip(texts, read_numbers(texts, (writing_of(texts) or Writing(PLAIN)).form), strict=True):
        if abs(number) > 1.0:
            raise cells.error(f"{shown(text)} has no percent sign, and stands among percents. {cure}", remedy=remedy)


def code_of(numbers: FloatArray) -> float | None:
    """Return the least or the largest of some numbers if it is all nines and far away, or is below 0 and all there is;
    None for others.
    """
    for code in (float(numbers.min()), float(numbers.max())):
        others = numbers[numbers != code]
        if not re.fullmatch(r"-?9{2,6}(?:\.9+)?", f"{code:g}"):
            continue
        if not len(others):
            return code if code < 0 else None
        span = float(others.max() - others.min())
        if float(np.abs(others - code).min()) > max(3.0 * span, abs(code) / 2):
            return code
    return None


@dataclass(frozen=True, kw_only=True)
class Categories(Column):
    """A column of texts, each of which is a coordinate."""

    levels: tuple[str, ...]  # in alphabetical order
    usual: int  # the place of the most frequent one; of several the first
    # How many were met once. Of new rows a share of about singles / n has one that was never met (Good and Turing).
    singles: int
    joined: tuple[str, ...] = ()  # the spellings of one of them that differ by blanks or case alone, if any do

    @classmethod
    def learned(cls, cells: Cells) -> Categories:
        """Return what texts say, of which some are there."""
        assert cells.levels is not None
        spelled, cells = cells.levels.tolist(), cells.alike()
        assert cells.levels is not None
        order, counts = np.argsort(cells.levels), cells.counts
        kept = set(cells.levels.tolist())
        usual = {plainly(level) for level in spelled if level.strip() not in kept}
        return cls(
            name=cells.name,
            n_missing=int(cells.missing.sum()),
            counts=(*counts[order].tolist(), 0),
            levels=tuple(cells.levels[order].tolist()),
            usual=int(counts[order].argmax()),
            singles=int((counts == 1).sum()),
            joined=tuple(level for level in spelled if plainly(level) == min(usual)) if usual else (),
        )

    def outputs(self) -> list[str]:
        """Return NAME=LEVEL for each, or nothing where there is one level."""
        return [f"{self.name}={level}" for level in self.levels] if len(self.levels) > 1 else []

    def read(self, cells: Cells) -> Cells:
        """Return texts."""
        return cells.texts()

    def codes_of(self, cells: Cells) -> IndexArray:
        """Return the place of each text among the levels, (n,), and their number for one that was never met or is
        missing.
        """
        assert cells.levels is not None
        places, most = {plainly(level): place for place, level in enumerate(self.levels)}, len(self.levels)
        codes = [*(places.get(plainly(text), most) for text in cells.levels.tolist()), most]
        return np.array(codes, dtype=np.intp).take(cells.values)

    def coded(self, cells: Cells, *, fill: bool) -> Encoded:
        """Return a 1 at each cell's level, and zeros for a level that was never met."""
        codes, most = self.codes_of(cells), len(self.levels)
        unseen = (codes == most) & ~cells.missing
        if fill:
            codes[cells.missing] = self.usual
        values = np.zeros((len(codes), len(self.outputs())))
        if values.shape[1]:
            known = np.flatnonzero(codes < most)
            values[known, codes[known]] = 1.0
        return Encoded(values, unseen[:, None])

    def described(self) -> Described:
        """Return the kind, and the levels."""
        few = ", ".join(map(shown, self.levels[:5]))
        holds = few if len(self.levels) <= 5 else f"{len(self.levels):,} of them: {few}, ..."
        if len(self.levels) == 1:
            return Described("constant", holds, CONSTANT)
        return Described("category", holds, LEARNED)

    def _remarks(self) -> list[str]:
        once = [f"{self.singles:,} met once"] if self.singles else []
        return [*once, *([f"{', '.join(map(shown, self.joined))} are one"] if self.joined else [])]

    def doubt(self, n_rows: int) -> str:
        """Return what is doubtful where categories are nearly as many as rows, or many are met once; else ""."""
        # Five rows for each say enough, if few rows have a category of their own: where as many have one as may be
        # rejected, such rows set the threshold. Fewer than five may be accidents.
        if self.singles < 5 or (5 * len(self.levels) <= n_rows and self.singles <= MOST_SINGLES * n_rows):
            return ""
        return (
            f"Column {shown(self.name)} has {len(self.levels):,} categories in {counted(n_rows, 'row')}, such as "
            f"{shown(self.levels[0])}; {self.singles:,} are in one row only. About {self.singles / n_rows:.0%} of new "
            "rows will have a category that was never seen, and be rejected for it; other outliers may be accepted for "
            "that. Leave the column out (drop), merge categories, or make numbers of them if they are quantities."
        )
