"""Why rows are rejected: the columns that speak against each of them, and against all of them together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import numpy as np

from slabsvm.command.terminal import printable
from slabsvm.tables.columns import Column, Numbers
from slabsvm.tables.numbers import PLAIN, numbers_of

if TYPE_CHECKING:
    from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
    from slabsvm.tables.cells import Cells

# Columns of less of the blame are not named.
LEAST = 0.01
GAP = "(empty)"
# Numbers between these would be 1.01e+03 with three digits.
LEAST_EXPONENT, MOST_EXPONENT = 1e3, 1e6
# Columns that are named in a line, and rows that are kept.
FEW = 3
MOST_ROWS = 20
NEVER_SEEN, EMPTY = "never seen", "empty"
TOO_HIGH, TOO_LOW, UNLIKE = "too high", "too low", "unlike the other columns"
# What is wrong with a cell that was seen before, by whether it is beyond the learned values: 0, above 1 or below -1.
WAYS = (UNLIKE, TOO_HIGH, TOO_LOW)


@dataclass(frozen=True)
class Reason:
    """A cell that speaks against its row."""

    column: str
    cell: str
    nearest_rows: float  # the median of the column over the learned rows nearest in the others; NaN if nobody says
    part: float  # its part in what speaks against the row
    how: str  # one of the five above
    form: str = PLAIN  # how numbers of the column are written, one of `numbers.FORMS`
    unit: str = ""  # what stands beside them
    percent: bool = False

    def said(self) -> str:
        """Return COLUMN=CELL, nearest rows NUMBER (PART)."""
        return f"{self.column}={self.cell}{self.against()} ({self.part:.0%})"

    def against(self) -> str:
        """Return what the nearest rows have, as the end of a sentence; "" where it is what was found."""
        found, nearest = numbers_of([self.cell], self.form, self.unit)[0], short(self.nearest_rows)
        if np.isnan(self.nearest_rows) or short(found) == nearest:
            return ""
        nearest = f"{short(100 * self.nearest_rows)}%" if self.percent else nearest
        return f", nearest rows {nearest.replace('.', self.form[-2])}"


@dataclass(frozen=True)
class Outlier:
    """A rejected row."""

    row: int  # from 1
    name: str
    decision: float
    p_value: float | None
    reasons: list[Reason]


@dataclass(frozen=True)
class Driver:
    """A column that speaks against rejected rows."""

    column: Column
    part: float  # its part in what speaks against all of them
    ways: Counter[str]  # how many rows it rejects before all other columns, and how
    example: str  # the worst cell with its row; "" where the column is the first of no row
    way: str = ""  # what is wrong with it

    def said(self) -> str:
        """Return this in a few words."""
        name, example = printable([self.column.name, self.example])
        if not example:
            return f"{name} {self.part:.0%}"
        such = f"{EMPTY}{example.removeprefix(GAP)}" if example.startswith(GAP) else f"{self.way}: {example}"
        return f"{name} {self.part:.0%} ({such})"


class ReasonCounts:
    """What speaks against the rejected rows of a table, piece by piece."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.blame = np.zeros(len(columns))  # the sum of their parts
        self.ways: list[Counter[str]] = [Counter() for _ in columns]
        # By column and way the worst cell: how far it is from the median, its part in its row's rejection, its text
        self.examples: dict[tuple[int, str], tuple[float, float, str]] = {}
        self.outliers: list[Outlier] = []  # those with the least decisions

    def add(
        self, cells: list[Cells], unseen: BoolArray, blame: FloatArray, nearest: FloatArray, numbers: IndexArray
    ) -> list[list[Reason]]:
        """Count rejected rows, with a row each of cells, `unseen`, `blame` and `nearest`, (n, n_columns); return their
        reasons.
        """
        self.blame += blame.sum(axis=0)
        found = []
        order = np.argsort(-blame, axis=1, kind="stable")
        numeric = [isinstance(column, Numbers) for column in self.columns]
        # Among numbers a text may stand for an empty cell.
        read = [one.read(of) if number else of for one, of, number in zip(self.columns, cells, numeric, strict=True)]
        beyond = [_beyond(column, of_column) for column, of_column in zip(self.columns, read, strict=True)]
        writings = [
            (column.form, column.unit, column.percent) if isinstance(column, Numbers) else () for column in self.columns
        ]
        for number, (row, places) in enumerate(zip(numbers.tolist(), order.tolist(), strict=True)):
            reasons = [
                Reason(
                    self.columns[place].name,
                    shown(cells[place], number),
                    float(nearest[number, place]),
                    float(blame[number, place]),
                    EMPTY
                    if read[place].missing[number]
                    else NEVER_SEEN
                    if unseen[number, place]
                    else WAYS[beyond[place][number]],
                    *writings[place],
                )
                for place in places
                if blame[number, place] >= LEAST
            ]
            found.append(reasons)
            if reasons:
                first = reasons[0]
                self.ways[places[0]][first.how] += 1
                away, key = _away(self.columns[places[0]], read[places[0]], number), (places[0], first.how)
                away = np.inf if first.how == NEVER_SEEN else away
                worse = away, float(blame[number, places[0]])
                if key not in self.examples or worse > self.examples[key][:2]:
                    self.examples[key] = *worse, f"{first.cell} in row {row:,}{first.against()}"
        return found

    def keep(self, outliers: list[Outlier]) -> None:
        """Keep the rows with the least decisions."""
        self.outliers = nsmallest(MOST_ROWS, [*self.outliers, *outliers], key=lambda one: (one.decision, one.row))

    def drivers(self) -> list[Driver]:
        """Return the columns that speak against the rows, the heaviest first; equal percentages in table order."""
        total = self.blame.sum()
        if not total > 0:
            return []
        parts = self.blame / total
        heavy = [place for place in np.argsort(-np.round(parts, 2), kind="stable").tolist() if parts[place] >= LEAST]
        # The cell that is furthest away, or of what was never seen; an empty one where most are.
        found = []
        for at in heavy:
            known = [(*one, way) for (place, way), one in self.examples.items() if place == at]
            most = self.ways[at].most_common(1)
            some = [one for one in known if one[-1] == EMPTY] if most and most[0][0] == EMPTY else known
            _, _, text, way = max(some, default=(0.0, 0.0, "", ""))
            found.append(Driver(self.columns[at], float(parts[at]), self.ways[at], text, way))
        return found

    def said(self) -> str:
        """Return what drives the rejections in a line; "" where nobody says."""
        drivers = self.drivers()[:FEW]
        return f"Columns that drive the rejections: {'; '.join(one.said() for one in drivers)}." if drivers else ""


def _beyond(column: Column, cells: Cells) -> IndexArray:
    """Return which cells, as read, are above the learned values, 1, or below them, -1; 0 for others, or if unknown."""
    if not isinstance(column, Numbers) or column.boolean:
        return np.zeros(len(cells.missing), dtype=np.intp)
    return np.asarray((cells.values > column.high).astype(np.intp) - (cells.values < column.low))


def _away(column: Column, cells: Cells, row: int) -> float:
    """Return how far a cell, as read, is from the median of its column; 0 where it is no number."""
    if not isinstance(column, Numbers) or cells.missing[row]:
        return 0.0
    return abs(float(cells.values[row]) - column.median)


def short(number: float) -> str:
    """Return a number with three digits, or with those before its point where these are some more."""
    return f"{number:.0f}" if MOST_EXPONENT > abs(number) >= LEAST_EXPONENT else f"{number:.3g}"


def shown(cells: Any, row: int) -> str:
    """Return a cell as a reason names it."""
    if cells.missing[row]:
        return GAP
    value = cells.cell(row)
    return f"{value:.6g}" if isinstance(value, float | np.integer) else str(value)
