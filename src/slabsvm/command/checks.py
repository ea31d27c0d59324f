"""How the new cells of each column differ from the learned ones: a histogram of both, the share of new cells outside
the learned range, the worst cell, and a test of whether the column has changed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from slabsvm.command.reasons import shown
from slabsvm.tables.cells import places_of
from slabsvm.tables.columns import Categories, Column, Numbers
from slabsvm.tables.encoder import TableEncoder

if TYPE_CHECKING:
    from slabsvm.runtime.arrays import FloatArray
    from slabsvm.tables.cells import Cells

# The probability that any column of a table of good rows is said to have changed.
CHANGED_BY_CHANCE = 0.01


@dataclass
class ColumnCheck:
    """The new cells of a column."""

    column: Column
    counts: FloatArray  # by the bins of the learned cells, or by category, with one more for all others
    n_cells: int = 0
    n_missing: int = 0
    outside: int = 0  # cells beyond the learned range, or of a category that was never met
    worst: str = ""  # the cell that is furthest outside, with its row
    distance: float = 0.0  # how far, in widths of the learned range

    def add(self, cells: Cells, called: Sequence[Any], first: int) -> None:
        """Count cells of rows with these names, the first of which has this number."""
        raw, column = cells, self.column
        cells = column.read(cells)
        self.n_cells += len(cells.missing)
        self.n_missing += int(cells.missing.sum())
        if isinstance(column, Numbers):
            values = np.where(cells.missing, column.median, cells.values)
            beyond = np.maximum(column.low - values, values - column.high)
            bins = column.bins_of(values)
            away = np.where(cells.missing, 0.0, beyond) / ((column.high - column.low) or 1.0)
        elif isinstance(column, Categories):
            bins = column.codes_of(cells)
            away = ((bins == len(column.levels)) & ~cells.missing).astype(np.float64)
        else:
            return
        self.counts += np.bincount(bins[~cells.missing], minlength=len(self.counts))
        self.outside += int((away > 0).sum())
        if len(away) and away.max() > self.distance:
            row = int(away.argmax())
            self.distance = float(away[row])
            number, name = first + row, str(called[row])
            self.worst = f"{shown(raw, row)} in {f'row {number:,}' if name == str(number) else name}"

    def changed(self, n_columns: int) -> bool:
        """Return whether the cells are unlike the learned ones, as a whole, by a chi-squared test of homogeneity; too
        few cells do not tell.
        """
        from scipy.stats import chi2_contingency

        both = np.stack([np.asarray(self.column.counts, dtype=np.float64), self.counts])
        n_learned, n_new = both.sum(axis=1)
        if not n_learned or not n_new:
            return False
        # Bins are taken together where fewer than five cells are expected, for which the test does not hold.
        enough = both.sum(axis=0) * min(n_new, n_learned) / (n_learned + n_new) >= 5.0
        both = np.column_stack([both[:, enough], both[:, ~enough].sum(axis=1)])
        both = both[:, both.sum(axis=0) > 0]
        if both.shape[1] < 2:
            return False
        return bool(chi2_contingency(both, correction=False).pvalue < CHANGED_BY_CHANCE / n_columns)

    def svg(self) -> str:
        """Return how the cells lie: learned ones pale, new ones before them."""
        learned = np.asarray(self.column.counts, dtype=np.float64)
        if not len(learned) or not self.counts.sum():
            return ""
        old, new = learned / max(learned.sum(), 1.0), self.counts / self.counts.sum()
        if isinstance(self.column, Categories) and len(old) > 13:
            # The eleven most frequent categories, all other learned ones, and those that were never met.
            order = np.argsort(-old[:-1], kind="stable")
            few, rest = order[:11], order[11:]
            old, new = (np.concatenate([one[few], [one[rest].sum(), one[-1]]]) for one in (old, new))
        label = f"{escape(self.column.name)}: learned and new cells"
        view = f'class="small" viewBox="0 0 168 36" role="img" aria-label="{label}"'
        return f"<svg {view}>{bars(old, new, 168.0, 36.0, ['kept'] * len(old))}</svg>"

    def item(self, n_columns: int) -> str:
        """Return what is said of the column as HTML, an item of a list."""
        kind, holds, _ = self.column.described()
        parts = [
            f"{self.outside / max(self.n_cells - self.n_missing, 1):.1%} outside" if len(self.counts) else "",
            f"worst: <strong>{escape(self.worst)}</strong>" if self.worst else "",
            f"{self.n_missing:,} empty" if self.n_missing else "",
            "<strong>changed as a whole</strong>" if self.changed(n_columns) else "",
        ]
        return (
            f"<li>{self.svg()}<strong>{escape(self.column.name)}</strong> "
            f"<span class='soft'>{escape(kind)}: {escape(holds)}</span><br>{'; '.join(filter(None, parts))}</li>"
        )


@dataclass
class Checks:
    """The new cells of all columns, piece by piece."""

    encoder: TableEncoder
    named: Callable[[Any, int], Sequence[Any]]  # what the rows of a piece are called, of which the first has a number
    columns: list[ColumnCheck] = field(init=False)
    n_rows: int = 0

    def __post_init__(self) -> None:
        self.columns = [ColumnCheck(column, np.zeros(len(column.counts))) for column in self.encoder.columns_]

    def add(self, piece: Any) -> None:
        """Count the cells of a piece."""
        places, called = places_of(piece), self.named(piece, self.n_rows + 1)
        for one in self.columns:
            one.add(self.encoder.cells(piece, places, one.column.name), called, self.n_rows + 1)
        self.n_rows += len(piece)

    def drifted(self) -> list[str]:
        """Return the names of columns whose cells are unlike the learned ones as a whole."""
        return [one.column.name for one in self.columns if one.changed(len(self.columns))]

    def section(self) -> list[str]:
        """Return the columns as HTML."""
        return [
            "<h2>The columns</h2>",
            '<p class="soft">Pale: the learned cells; blue: the new ones. Outside: beyond the learned range, or of a '
            "category that was never met. Changed as a whole: unlike the learned cells by a chi-squared test. "
            f"{CHANGED_BY_CHANCE:.0%} of tables of good rows have such a column.</p>",
            f'<ul class="columns">{"".join(one.item(len(self.columns)) for one in self.columns)}</ul>',
        ]


def bars(learned: FloatArray, new: FloatArray, width: float, height: float, kinds: Iterable[str]) -> str:
    """Return the shares of learned and of new rows in each bin as SVG; kinds are the classes of the new ones' bars."""
    step, tallest, found = width / len(new), max(new.max(), learned.max(), 1e-9), []
    for place, (old_share, new_share, kind) in enumerate(zip(learned, new, kinds, strict=True)):
        for name, share, inset in (("learned", old_share, 0.0), (kind, new_share, step / 4)):
            tall = height * share / tallest
            box = f'x="{step * place + inset:.1f}" y="{height - tall:.1f}" width="{step - 2 * inset - 1:.1f}"'
            found += [f'<rect class="{name}" {box} height="{tall:.1f}"/>'] if share else []
    return "".join(found)
