"""The report of scored rows: one HTML page for those who decide about them.

The page loads nothing from a network, and can be read on a phone and on paper. Of each column it shows how the new
cells differ from the learned ones: a histogram of both, the share of new cells outside the learned range, the worst
cell, and a test of whether the column has changed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from slabsvm import __version__
from slabsvm.command.scoring import EMPTY_CELL, Driver, Outlier, shown
from slabsvm.runtime.caller import counted
from slabsvm.tables.cells import places_of
from slabsvm.tables.columns import Categories, Column, Numbers
from slabsvm.tables.encoder import TableEncoder

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.command.scoring import Answers, Run
    from slabsvm.runtime.arrays import FloatArray
    from slabsvm.tables.cells import Cells

# The bins of the picture of decisions.
HISTOGRAM_BINS = 36
# What pages of reports and models look like.
PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --soft: #5d6876; --line: #e2e0da; --ground: #fff; --good: #2f6db3;
  --out: #b35a16; --pale: #c9d6e6 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaee; --soft: #a9b2be; --line: #3a4048; --ground: #16191d;
  --good: #7db2ea; --out: #f0a064; --pale: #46566a } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb; --ground: #fff; --good: #2f6db3;
  --out: #b35a16; --pale: #c9d6e6 } li { break-inside: avoid } }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 0 auto; padding: 1rem; color: var(--ink);
  background: var(--ground); overflow-wrap: anywhere }
h1 { font-size: 1.4rem; margin: .5rem 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p { margin: .5rem 0 } .lead { font-size: 1.15rem } .soft { color: var(--soft) }
.bar { display: block; height: .5rem; background: var(--out); min-width: 2px }
ol { padding-left: 1.6rem } ul { list-style: none; padding: 0 } li { margin: .7rem 0 }
li ul { padding-left: 1.1rem; margin: .1rem 0 } li ul li { margin: 0 }
svg { width: 100%; height: auto; display: block } svg text { fill: var(--ink); font: 14px system-ui, sans-serif }
.learned { fill: var(--pale) } .kept { fill: var(--good) } .rejected { fill: var(--out) }
.plane { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 4 } .floor { stroke: var(--soft) }
@media (max-width: 600px) { svg text { font-size: 26px } .paper text { font-size: inherit }
  table, pre { font-size: .8rem } th, td { padding-right: .6rem } }
.bar, .key { print-color-adjust: exact; -webkit-print-color-adjust: exact }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } .wide, pre { overflow-x: auto }
th, td { padding: .25rem 1rem .25rem 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word }
.warning { border-left: 4px solid var(--out); padding-left: 1rem } .paper { background: #fff; margin: 1rem 0 }
pre { font-size: .85rem; white-space: pre-wrap }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 1rem 0 } dt { color: var(--soft) }
dd { margin: 0 } .columns li { overflow: hidden; border-bottom: 1px solid var(--line); padding-bottom: .5rem }
svg.small { float: right; width: 10.5rem; margin-left: 1rem }
.sign span { display: inline-block; width: 14rem; border-bottom: 1px solid var(--ink) } .sign { margin-top: 3rem }
.key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 0; vertical-align: -.1rem }
"""


# The probability that any column of a table of good rows is said to have changed.
CHANGED_BY_CHANCE = 0.01


@dataclass
class Histogram:
    """How decisions of new rows lie beside those of the learned rows, each without itself."""

    learned: FloatArray  # (n_learned,); empty where the detector keeps none
    edges: FloatArray | None = None
    counts: FloatArray = field(default_factory=lambda: np.zeros(HISTOGRAM_BINS))

    def count(self, answers: Answers) -> None:
        """Count the rows of a piece; what lies beyond the picture counts in its first or last bin."""
        if self.edges is None:
            # All learned rows but for the lowest .5% are within the picture; on the left is as much room again.
            low, high = np.quantile(self.learned if len(self.learned) else answers.decision, (0.005, 1.0))
            low, high = min(low, 0.0), max(high, 0.0)
            span = max(high - low, 1e-9)
            # Zero, where acceptance begins, is an edge.
            step = 2.0 * span / HISTOGRAM_BINS
            below = np.ceil((span - low) / step)
            self.edges = step * (np.arange(HISTOGRAM_BINS + 1) - below)
        self.counts += self._counted(answers.decision, self.edges)

    @staticmethod
    def _counted(decisions: FloatArray, edges: FloatArray) -> FloatArray:
        return np.histogram(np.clip(decisions, edges[0], edges[-1]), edges)[0].astype(np.float64)

    def svg(self) -> str:
        """Return the picture."""
        assert self.edges is not None, "no piece was read"
        width, floor = 720, 180
        new = self.counts / max(self.counts.sum(), 1.0)
        old = self._counted(self.learned, self.edges) / max(len(self.learned), 1)
        kinds = np.where(self.edges[1:] <= self.edges[-1] * 1e-12, "rejected", "kept").tolist()
        zero = width * -self.edges[0] / (self.edges[-1] - self.edges[0])
        end = "start" if zero < width / 2 else "end"
        return (
            f'<svg viewBox="0 0 {width} 214" role="img" aria-label="Decisions of the new rows beside those of the '
            f'learned rows; left of the dashed line rows are rejected">{bars(old, new, width, floor, kinds)}'
            f'<line class="floor" x1="0" x2="{width}" y1="{floor}" y2="{floor}"/>'
            f'<line class="plane" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{floor}"/>'
            f'<text x="0" y="{floor + 26}">further out</text>'
            f'<text x="{width}" y="{floor + 26}" text-anchor="end">more normal</text>'
            f'<text x="{zero + (6 if end == "start" else -6):.1f}" y="24" text-anchor="{end}">threshold</text></svg>'
        )


class Report:
    """What the report says of a table: where its rows lie, whether they drift, and how its columns have changed."""

    def __init__(self, run: Run, model: Pipeline) -> None:
        from slabsvm import DriftMonitor

        self.run, self.histogram = run, Histogram(run.learned)
        self.checks = Checks(run.scorer.encoder, run.names.of)
        self.monitor: DriftMonitor | None = DriftMonitor(model)
        try:
            self.monitor.fit(None)
        except (ValueError, TypeError, AttributeError):
            self.monitor = None  # the model has no scores that new ones can be compared with

    def add(self, piece: Any, answers: Answers) -> None:
        """Count the rows of a piece."""
        self.histogram.count(answers)
        self.checks.add(piece)
        if self.monitor is not None:
            self.monitor.update(piece)

    def drift(self) -> str:
        """Return the verdict on drift."""
        monitor = self.monitor
        if monitor is None:
            return (
                "Drift was not tested: the model keeps no scores of its rows, or these repeat, or are no random sample."
            )
        if monitor.alarm_:
            return (
                f"The rows have changed: an alarm was raised at row {monitor.alarm_row_:,}. At most "
                f"{monitor.alpha:.0%} of tables of good rows would raise one."
            )
        return "No drift is seen from the first row to the last."

    def lead(self) -> str:
        """Return how many rows are rejected beside the number that is expected, and how many are beyond all learned."""
        n, rejected, expected = self.run.rows, self.run.rejected, self.run.scorer.expected_rejected()
        found = f"{rejected:,} of {counted(n, 'row')} {'is' if rejected == 1 else 'are'} rejected"
        if expected is not None:
            # Within two standard deviations of a binomial number.
            mean, spread = expected * n, 2.0 * np.sqrt(expected * (1.0 - expected) * n)
            low, high = np.floor(max(0.0, mean - spread)), np.ceil(min(float(n), mean + spread))
            than = "more than" if rejected > high else "fewer than" if rejected < low else "as many as"
            found += f", {than} expected of good rows ({low:,.0f} to {high:,.0f})"
        from scipy.stats import poisson

        # As many beyond all learned rows come by chance in one of 100 tables.
        odd = len(self.run.learned) and poisson.sf(self.run.beyond - 1, n / (len(self.run.learned) + 1)) < 0.01
        return ("; but " if odd else "; ").join(filter(None, [found, self.run.beyond_phrase()])) + "."

    def page(self, facts: Sequence[tuple[str, str]]) -> str:
        """Return the report as HTML; facts are what it is about, each with its name, the table's first."""
        title, drifted = facts[0][1], ", ".join(self.checks.drifted())
        columns = f"Columns that changed as a whole: {drifted}." if drifted else "No column changed as a whole."
        body = [
            f"<h1>{escape(title)}</h1>",
            f'<p class="lead">{escape(self.lead())}</p>',
            f"<p><strong>Drift</strong>: {escape(self.drift())} {escape(columns)}</p>",
            "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts) + "</dl>",
            "<h2>Where the rows lie</h2>",
            '<p><span class="key learned" style="background: var(--pale)"></span>learned rows, each without itself '
            '<span class="key" style="background: var(--good)"></span>new, accepted '
            '<span class="key" style="background: var(--out)"></span>new, rejected</p>',
            self.histogram.svg(),
            *_outliers(self.run.counts.outliers),
            *_drivers(self.run.counts.drivers(8)),
            *self.checks.section(),
            '<p class="sign">Checked by <span></span> on <span></span></p>',
        ]
        return document(f"{title}: scored rows", body)


def document(title: str, body: Sequence[str]) -> str:
    """Return a page of elements that needs no other file."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head>\n<body><main>\n"
        + "\n".join([*body, f'<p class="soft">Made by slabsvm {escape(__version__)}.</p>'])
        + "\n</main></body></html>\n"
    )


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table below its title, which scrolls by itself where it is wider than the page."""
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return [
        f"<h2>{escape(title)}</h2>",
        f'<div class="wide" role="region" aria-label="{escape(title)}" tabindex="0">',
        f"<table><thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr></thead><tbody>",
        *(f"<tr>{line}</tr>" for line in lines),
        "</tbody></table></div>",
    ]


def _drivers(drivers: Sequence[Driver]) -> list[str]:
    """Return what drives the rejections, a row for each column."""
    if not drivers:
        return []
    items = []
    for one in drivers:
        ways = ", ".join(f"{n:,} {way}" for way, n in one.ways.most_common()) or "always beside a stronger column"
        example = f"; for example {one.example}" if one.example else ""
        bar = f'<span class="bar" style="width: {one.part:.0%}"></span>'
        items.append(f"<li><strong>{escape(one.column.name)}</strong> {one.part:.0%}{bar}{escape(ways + example)}</li>")
    note = "Each column's share in all rejections. A row counts for the column that comes first in it."
    return ["<h2>What drives the rejections</h2>", f'<p class="soft">{note}</p>', f"<ul>{''.join(items)}</ul>"]


def _outliers(outliers: Sequence[Outlier]) -> list[str]:
    """Return the rows that are furthest out, each with four reasons at most."""
    if not outliers:
        return ["<h2>The rows furthest out</h2>", "<p>None is rejected.</p>"]
    items = []
    for one in outliers:
        number, named = ("row ", one.name) if one.name == str(one.row) else ("", f"{one.name}, row {one.row:,}")
        rank = "" if one.p_value is None else f", {100 * one.p_value:.2g}% of good rows are as far out"
        reasons = "".join(
            f"<li>{escape(some.column)}: <strong>{escape(some.cell)}</strong>{escape(some.against())}"
            f"{'' if some.cell == EMPTY_CELL else f'; {some.how}'} ({some.part:.0%})</li>"
            for some in one.reasons[:4]
        )
        items.append(
            f"<li>{number}<strong>{escape(named)}</strong> <span class='soft'>decision {one.decision:.3g}{rank}</span>"
            f"<ul>{reasons}</ul></li>"
        )
    return [
        f"<h2>The {counted(len(outliers), 'row')} furthest out</h2>",
        '<p class="soft">Nearest rows: the median of the column over the learned rows that are nearest in all other '
        "columns.</p>",
        f"<ol>{''.join(items)}</ol>",
    ]


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
