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

# Columns with a smaller part of the blame are not named, in a row or in all.
LEAST_BLAME = 0.01
# How a cell without a value is shown.
EMPTY_CELL = "(empty)"


@dataclass(frozen=True)
class Reason:
    """A cell that speaks against its row."""

    column: str
    cell: str
    nearest_rows: float  # the median of the column over the learned rows nearest in the others; NaN if not known
    part: float  # its part in what speaks against the row
    how: str  # what is wrong with it, by `_wrong_with`
    form: str = PLAIN  # how numbers of the column are written, one of `numbers.FORMS`
    unit: str = ""  # what stands beside them
    percent: bool = False

    def phrase(self) -> str:
        """Return COLUMN=CELL, nearest rows NUMBER (PART)."""
        return f"{self.column}={self.cell}{self.against()} ({self.part:.0%})"

    def against(self) -> str:
        """Return what the nearest rows have, as the end of a sentence; "" where it is what was found."""
        found, nearest = numbers_of([self.cell], self.form, self.unit)[0], _short(self.nearest_rows)
        if np.isnan(self.nearest_rows) or _short(found) == nearest:
            return ""
        nearest = f"{_short(100 * self.nearest_rows)}%" if self.percent else nearest
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
    way: str  # what is wrong with it

    def phrase(self) -> str:
        """Return the column, its part and its example."""
        name, example = printable([self.column.name, self.example])
        if example.startswith(EMPTY_CELL):
            example = f" (empty{example.removeprefix(EMPTY_CELL)})"
        elif example:
            example = f" ({self.way}: {example})"
        return f"{name} {self.part:.0%}{example}"


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
        # Among numbers a text may stand for an empty cell.
        read = [
            column.read(of) if isinstance(column, Numbers) else of
            for column, of in zip(self.columns, cells, strict=True)
        ]
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
                    _wrong_with(self.columns[place], read[place], number, unseen=bool(unseen[number, place])),
                    *writings[place],
                )
                for place in places
                if blame[number, place] >= LEAST_BLAME
            ]
            found.append(reasons)
            if reasons:
                first, worst = reasons[0], places[0]
                self.ways[worst][first.how] += 1
                column, key, away = self.columns[worst], (worst, first.how), 0.0
                if first.how == "never seen":
                    away = np.inf
                elif isinstance(column, Numbers) and first.how != "empty":
                    away = abs(float(read[worst].values[number]) - column.median)
                if key not in self.examples or (away, first.part) > self.examples[key][:2]:
                    self.examples[key] = away, first.part, f"{first.cell} in row {row:,}{first.against()}"
        return found

    def keep(self, outliers: list[Outlier]) -> None:
        """Keep the twenty rows with the least decisions, as many as a reader of the report looks at."""
        self.outliers = nsmallest(20, [*self.outliers, *outliers], key=lambda one: (one.decision, one.row))

    def drivers(self, most: int) -> list[Driver]:
        """Return the columns that speak against the rows, the heaviest first; equal percentages in table order."""
        total = self.blame.sum()
        if not total > 0:
            return []
        parts = self.blame / total
        found: list[Driver] = []
        for at in np.argsort(-np.round(parts, 2), kind="stable").tolist():
            if parts[at] < LEAST_BLAME or len(found) == most:
                continue
            known = [(*one, way) for (place, way), one in self.examples.items() if place == at]
            # The cell that is furthest away, or of what was never seen; an empty one where most are.
            if self.ways[at] and self.ways[at].most_common(1)[0][0] == "empty":
                known = [one for one in known if one[-1] == "empty"]
            _, _, text, way = max(known, default=(0.0, 0.0, "", ""))
            found.append(Driver(self.columns[at], float(parts[at]), self.ways[at], text, way))
        return found

    def sentence(self) -> str:
        """Return the three columns that drive the rejections; "" where the detector gives no reasons."""
        drivers = "; ".join(one.phrase() for one in self.drivers(3))
        return f"Columns that drive the rejections: {drivers}." if drivers else ""


def _wrong_with(column: Column, cells: Cells, row: int, *, unseen: bool) -> str:
    """Return in a few words what is wrong with a cell, as read."""
    if cells.missing[row]:
        return "empty"
    if unseen:
        return "never seen"
    if isinstance(column, Numbers) and not column.boolean:
        if cells.values[row] > column.high:
            return "too high"
        if cells.values[row] < column.low:
            return "too low"
    return "unlike the other columns"


def _short(number: float) -> str:
    """Return a number with three digits; from 1,000 to a million, where these would have an exponent, as a whole."""
    return f"{number:.0f}" if 1e6 > abs(number) >= 1e3 else f"{number:.3g}"


def shown(cells: Any, row: int) -> str:
    """Return a cell as a reason names it."""
    if cells.missing[row]:
        return EMPTY_CELL
    value = cells.cell(row)
    return f"{value:.6g}" if isinstance(value, float | np.integer) else str(value)
