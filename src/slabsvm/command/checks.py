"""What the new cells of each column are beside the learned ones: how they lie, how many are outside, which is worst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

# The probability that any column is said to have changed where none has; the least cells expected in a bin.
BY_CHANCE, LEAST_EXPECTED = 0.01, 5.0
# The width and height of a picture, in its own units.
BOX = (168.0, 36.0)


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

    @classmethod
    def of(cls, column: Column) -> ColumnCheck:
        """Return the check of a column, before any cell."""
        return cls(column, np.zeros(len(column.counts)))

    def add(self, cells: Cells, called: Sequence[Any], first: int) -> None:
        """Count cells of rows with these names, the first of which has this number."""
        raw, column = cells, self.column
        cells = column.read(cells)
        self.n_cells += len(cells.missing)
        self.n_missing += int(cells.missing.sum())
        if isinstance(column, Numbers):
            values = np.where(cells.missing, column.median, cells.values)
            beyond = np.maximum(column.low - values, values - column.high)
            self.counts += np.bincount(column.bins_of(values[~cells.missing]), minlength=len(self.counts))
            away = np.where(cells.missing, 0.0, beyond) / ((column.high - column.low) or 1.0)
        elif isinstance(column, Categories):
            codes = column.codes_of(cells)
            self.counts += np.bincount(codes[~cells.missing], minlength=len(self.counts))
            away = ((codes == len(column.levels)) & ~cells.missing).astype(np.float64)
        else:
            return
        self.outside += int((away > 0).sum())
        if len(away) and away.max() > self.distance:
            row = int(away.argmax())
            self.distance = float(away[row])
            number, name = first + row, str(called[row])
            self.worst = f"{shown(raw, row)} in {f'row {number:,}' if name == str(number) else name}"

    def changed(self, n_columns: int) -> bool | None:
        """Return whether the cells are unlike the learned ones, as a whole, by a chi-squared test of homogeneity; None
        where too few are there to tell.
        """
        from scipy.stats import chi2_contingency

        both = np.stack([np.asarray(self.column.counts, dtype=np.float64), self.counts])
        n_learned, n_new = both.sum(axis=1)
        if not n_learned or not n_new:
            return None
        # Small bins are taken together.
        enough = both.sum(axis=0) * min(n_new, n_learned) / (n_learned + n_new) >= LEAST_EXPECTED
        both = np.column_stack([both[:, enough], both[:, ~enough].sum(axis=1)])
        both = both[:, both.sum(axis=0) > 0]
        if both.shape[1] < 2:
            return None
        return bool(chi2_contingency(both, correction=False).pvalue < BY_CHANCE / n_columns)

    def svg(self) -> str:
        """Return how the cells lie: learned ones pale, new ones before them."""
        learned = np.asarray(self.column.counts, dtype=np.float64)
        if not len(learned) or not self.counts.sum():
            return ""
        old, new = learned / max(learned.sum(), 1.0), self.counts / self.counts.sum()
        if isinstance(self.column, Categories) and len(old) > 13:
            order = np.argsort(-old[:-1], kind="stable")
            few, rest = order[:11], order[11:]
            old = np.concatenate([old[few], [old[rest].sum(), old[-1]]])
            new = np.concatenate([new[few], [new[rest].sum(), new[-1]]])
        step, tallest, bars = BOX[0] / len(old), max(old.max(), new.max()), []
        for place, pair in enumerate(zip(old, new, strict=True)):
            for kind, share, inset in (("learned", pair[0], 0.0), ("kept", pair[1], step / 4)):
                height = BOX[1] * share / tallest
                box = f'x="{step * place + inset:.1f}" y="{BOX[1] - height:.1f}" width="{step - 2 * inset - 1:.1f}"'
                bars += [f'<rect class="{kind}" {box} height="{height:.1f}"/>'] if share else []
        label = f"{escape(self.column.name)}: learned and new cells"
        view = f'class="small" viewBox="0 0 {BOX[0]:g} {BOX[1]:g}" role="img" aria-label="{label}"'
        return f"<svg {view}>{''.join(bars)}</svg>"


@dataclass
class Checks:
    """The new cells of all columns, piece by piece."""

    encoder: TableEncoder
    named: Callable[[Any, int], Sequence[Any]]  # what the rows of a piece are called, of which the first has a number
    columns: list[ColumnCheck] = field(init=False)
    n_rows: int = 0

    def __post_init__(self) -> None:
        self.columns = [ColumnCheck.of(column) for column in self.encoder.columns_]

    def add(self, piece: Any) -> None:
        """Count the cells of a piece."""
        places, called = places_of(piece), self.named(piece, self.n_rows + 1)
        for one in self.columns:
            one.add(self.encoder.cells(piece, places, one.column.name), called, self.n_rows + 1)
        self.n_rows += len(piece)

    def drifted(self) -> list[str]:
        """Return the names of columns whose cells are unlike the learned ones as a whole."""
        return [one.column.name for one in self.columns if one.changed(len(self.columns))]

    def items(self) -> list[str]:
        """Return the columns as HTML, each an item of a list."""
        items = []
        for one in self.columns:
            kind, holds, _ = one.column.described()
            drift = one.changed(len(self.columns))
            said = [
                f"{one.outside / max(one.n_cells - one.n_missing, 1):.1%} outside" if len(one.counts) else "",
                f"worst: <strong>{escape(one.worst)}</strong>" if one.worst else "",
                f"{one.n_missing:,} empty" if one.n_missing else "",
                "<strong>changed as a whole</strong>" if drift else "",
            ]
            items.append(
                f"<li>{one.svg()}<strong>{escape(one.column.name)}</strong> "
                f"<span class='soft'>{escape(kind)}: {escape(holds)}</span><br>{'; '.join(filter(None, said))}</li>"
            )
        return [
            "<h2>The columns</h2>",
            '<p class="soft">Pale: the learned cells; blue: the new ones. Outside: beyond the learned range, or of a '
            "category that was never met. Changed as a whole: unlike the learned cells by a chi-squared test. "
            f"{BY_CHANCE:.0%} of tables of good rows have such a column.</p>",
            f'<ul class="columns">{"".join(items)}</ul>',
        ]
