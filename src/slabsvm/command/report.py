"""The report of scored rows: one HTML file for those who decide, that needs no network and fits a phone and paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from slabsvm import __version__
from slabsvm.command.checks import Checks
from slabsvm.command.reasons import GAP, Driver, Outlier
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from slabsvm.command.scoring import Answers, Run
    from slabsvm.monitor import DriftMonitor
    from slabsvm.runtime.arrays import FloatArray

N_BINS = 36
# These quantiles of the learned rows are within the picture; beyond it on the left is as much room again.
MOST = (0.005, 1.0)
# The picture in its own units.
WIDTH, HEIGHT, FLOOR = 720, 214, 180
MOST_DRIVERS = 8
MOST_REASONS = 4
NEAREST_ROWS = "Nearest rows: the median of the column over the learned rows that are nearest in all other columns."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
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


@dataclass
class Histogram:
    """How decisions of new rows lie beside those of the learned rows, each without itself."""

    learned: FloatArray | None  # (n_learned,)
    edges: FloatArray | None = None
    counts: FloatArray = field(default_factory=lambda: np.zeros(N_BINS))

    @classmethod
    def of(cls, detector: Any) -> Histogram:
        """Return the histogram beside the rows that a detector has learned, where it knows them."""
        learned = getattr(detector, "calibration_decisions_", None)
        return cls(None if learned is None else learned[np.isfinite(learned)])

    def count(self, answers: Answers) -> None:
        """Count the rows of a piece; what lies beyond the picture counts in its last bin."""
        if self.edges is None:
            shown = answers.decision if self.learned is None or not len(self.learned) else self.learned
            low, high = np.quantile(shown, MOST)
            low, high = min(low, 0.0), max(high, 0.0)
            span = max(high - low, 1e-9)
            # Zero, where acceptance begins, is an edge.
            step = 2.0 * span / N_BINS
            below = np.ceil((span - low) / step)
            self.edges = step * (np.arange(N_BINS + 1) - below)
        self.counts += np.histogram(np.clip(answers.decision, self.edges[0], self.edges[-1]), self.edges)[0]

    def svg(self) -> str:
        """Return the picture."""
        assert self.edges is not None, "no piece was read"
        new = self.counts / max(self.counts.sum(), 1.0)
        old = np.zeros(N_BINS)
        if self.learned is not None and len(self.learned):
            clipped = np.clip(self.learned, self.edges[0], self.edges[-1])
            old = np.histogram(clipped, self.edges)[0] / len(self.learned)
        tallest = max(new.max(), old.max(), 1e-9)
        step = WIDTH / N_BINS
        bars = []
        for place, (learned, found) in enumerate(zip(old, new, strict=True)):
            side = "rejected" if self.edges[place + 1] <= self.edges[-1] * 1e-12 else "kept"
            for kind, share, inset in (("learned", learned, 0.0), (side, found, step / 4)):
                height = FLOOR * share / tallest
                box = f'x="{step * place + inset:.1f}" y="{FLOOR - height:.1f}" width="{step - 2 * inset - 1:.1f}"'
                bars += [f'<rect class="{kind}" {box} height="{height:.1f}"/>'] if share else []
        zero = WIDTH * -self.edges[0] / (self.edges[-1] - self.edges[0])
        end = "start" if zero < WIDTH / 2 else "end"
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Decisions of the new rows beside those of the '
            f'learned rows; left of the dashed line rows are rejected">{"".join(bars)}'
            f'<line class="floor" x1="0" x2="{WIDTH}" y1="{FLOOR}" y2="{FLOOR}"/>'
            f'<line class="plane" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{FLOOR}"/>'
            f'<text x="0" y="{FLOOR + 26}">further out</text>'
            f'<text x="{WIDTH}" y="{FLOOR + 26}" text-anchor="end">more normal</text>'
            f'<text x="{zero + (6 if end == "start" else -6):.1f}" y="24" text-anchor="{end}">threshold</text></svg>'
        )


def drift_monitor(model: Pipeline) -> DriftMonitor | None:
    """Return a monitor of the rows, or None for a model without scores that new ones can be compared with."""
    from slabsvm import DriftMonitor

    monitor = DriftMonitor(model)
    try:
        monitor.fit(None)
    except (ValueError, TypeError, AttributeError):
        return None
    return monitor


def drift_said(monitor: DriftMonitor | None) -> str:
    """Return the verdict on drift."""
    if monitor is None:
        return "Drift was not tested: the model keeps no scores of its rows, or these repeat, or are no random sample."
    if monitor.alarm_:
        return (
            f"The rows have changed: an alarm was raised at row {monitor.alarm_row_:,}. At most "
            f"{monitor.alpha:.0%} of tables of good rows would raise one."
        )
    return "No drift is seen from the first row to the last."


def beyond_all(run: Run) -> str:
    """Return how many rows are further out than every learned row, and how many chance gives; "" where nobody says."""
    if run.least_learned is None:
        return ""
    by_chance = f"{run.rows / (run.least_learned[0] + 1):.2g}"
    verb = "is" if run.beyond == 1 else "are"
    return f"{run.beyond:,} of them {verb} further out than every learned row, where chance gives {by_chance}"


def page(run: Run, histogram: Histogram, drift: str, checks: Checks, facts: Sequence[tuple[str, str]]) -> str:
    """Return the report as HTML; facts are what it is about, each with its name."""
    n, rejected, expected = run.rows, run.rejected, run.scorer.expected_rejected()
    beside = ""
    if expected is not None:
        mean, spread = expected * n, 2.0 * np.sqrt(expected * (1.0 - expected) * n)
        low, high = np.floor(max(0.0, mean - spread)), np.ceil(min(float(n), mean + spread))
        than = "more than" if rejected > high else "fewer than" if rejected < low else "as"
        beside = f", {than} expected of good rows ({low:,.0f} to {high:,.0f})"
    lead = f"{rejected:,} of {counted(n, 'row')} {'is' if rejected == 1 else 'are'} rejected{beside}"
    further = beyond_all(run)
    lead = "; ".join(filter(None, [lead, further])) + "."
    drifted = checks.drifted()
    columns = f"Columns that changed as a whole: {', '.join(drifted)}." if drifted else "No column changed as a whole."
    body = [
        f"<h1>{escape(dict(facts)['Table'])}</h1>",
        f'<p class="lead">{escape(lead)}</p>',
        f"<p><strong>Drift</strong>: {escape(drift)} {escape(columns)}</p>",
        "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts) + "</dl>",
        "<h2>Where the rows lie</h2>",
        '<p><span class="key learned" style="background: var(--pale)"></span>learned rows, each without itself '
        '<span class="key" style="background: var(--good)"></span>new, accepted '
        '<span class="key" style="background: var(--out)"></span>new, rejected</p>',
        histogram.svg(),
        *_outliers(run.tally.outliers),
        *_drivers(run.tally.drivers()[:MOST_DRIVERS]),
        *checks.items(),
        '<p class="sign">Checked by <span></span> on <span></span></p>',
    ]
    return document(f"{dict(facts)['Table']}: scored rows", body)


def document(title: str, body: Sequence[str]) -> str:
    """Return a page of elements that needs no other file."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
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
    """Return the rows that are furthest out, with their reasons."""
    if not outliers:
        return ["<h2>The rows furthest out</h2>", "<p>None is rejected.</p>"]
    items = []
    for one in outliers:
        named = one.name if one.name == str(one.row) else f"{one.name}, row {one.row:,}"
        rank = "" if one.p_value is None else f", {100 * one.p_value:.2g}% of good rows are as far out"
        reasons = "".join(
            f"<li>{escape(some.column)}: <strong>{escape(some.cell)}</strong>{escape(some.against())}"
            f"{'' if some.cell == GAP else f'; {some.how}'} ({some.part:.0%})</li>"
            for some in one.reasons[:MOST_REASONS]
        )
        number = "row " if one.name == str(one.row) else ""
        items.append(
            f"<li>{number}<strong>{escape(named)}</strong> <span class='soft'>decision {one.decision:.3g}{rank}</span>"
            f"<ul>{reasons}</ul></li>"
        )
    return [
        f"<h2>The {counted(len(outliers), 'row')} furthest out</h2>",
        f'<p class="soft">{NEAREST_ROWS}</p>',
        f"<ol>{''.join(items)}</ol>",
    ]
