"""The demonstration's page: one HTML file with everything in it, drawn without a plotting library."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape
from itertools import pairwise
from statistics import median
from string import Template

import numpy as np
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from slabsvm_reproduction.demo.digits import (
    EPSILON,
    MODELS,
    NOMINAL_RECALL,
    NU,
    NU_LOWER,
    NU_UPPER,
    PEER,
    PEER_LOO,
    SLAB,
    Digits,
    Encounter,
    median_mcc,
)
from slabsvm_reproduction.report.colours import MODEL_COLOURS
from slabsvm_reproduction.report.parts import page_file

STRIP = 15  # pictures in a strip, at most


def demo_page(digits: Digits, sweep: dict[float, list[Encounter]]) -> str:
    """The whole page as HTML.

    Parameters
    ----------
    digits : Digits
        The split that the models were trained and tested on.
    sweep : dict
        For each multiple of the rule's gamma, the encounters there; the multiple 1 is the one that is shown.
    """
    met = sweep[1.0]
    slabs = [one for one in met if one.model == SLAB]
    return Template(page_file("page.html")).substitute(
        style=page_file("page.css"),
        n_train=len(digits.train),
        n_test=len(digits.test),
        n_each=round(len(digits.train) / 10),
        slab_mcc=f"{median_mcc(met, SLAB):.2f}",
        peer_mcc=f"{median_mcc(met, PEER):.2f}",
        loo_mcc=f"{median_mcc(met, PEER_LOO):.2f}",
        gamma=f"{digits.gamma:.3f}",
        nu_lower=f"{NU_LOWER:g}",
        nu_upper=f"{NU_UPPER:g}",
        nu=f"{NU:g}",
        epsilon=f"{EPSILON:.3f}",
        nominal=f"{NOMINAL_RECALL:.0%}",
        table=_table(met),
        sweep=_sweep_chart(digits.gamma, sweep),
        cards="\n".join(_card(digits, one) for one in slabs),
    )


def png(grey: NDArray[np.uint8]) -> bytes:
    """Encode a picture, an array of shape (height, width) from black 0 to white 255, as a PNG file."""
    height, width = grey.shape

    def chunk(kind: bytes, body: bytes) -> bytes:
        checksum = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)

    # Each row is led by the number of its filter: 0, none.
    rows = np.hstack([np.zeros((height, 1), np.uint8), grey]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def _card(digits: Digits, one: Encounter) -> str:
    """One digit's section: the density of its scores and four strips of pictures."""
    known, inside = digits.test_digits == one.digit, one.inside
    centre = (one.lower + one.upper) / 2
    by_depth = np.argsort(np.abs(one.scores - centre), kind="stable")

    def strip(title: str, note: str, chosen: NDArray[np.bool_], kind: str) -> str:
        members = by_depth[chosen[by_depth]]
        caption = f'<figcaption><b class="{kind}">{title}</b> <span>{len(members)} {note}</span></figcaption>'
        if not len(members):
            return f'<figure>{caption}<p class="none">none</p></figure>'
        shown = members[:STRIP]
        source = base64.b64encode(png(_contact_strip(digits.test[shown]))).decode()
        labels = ", ".join(str(digits.test_digits[index]) for index in shown)
        more = f' <span class="more">+ {len(members) - STRIP} more</span>' if len(members) > STRIP else ""
        style = f"width:{len(shown) * 9 * 3.7:.0f}px"
        picture = f'<img style="{style}" src="data:image/png;base64,{source}" alt="digits {labels}">'
        return f"<figure>{caption}<div>{picture}{more}</div></figure>"

    counts = one.counts
    return f"""<section class="card" id="digit-{one.digit}">
<header><h3>{one.digit}</h3><dl>
<div><dt>MCC</dt><dd>{counts.mcc:.2f}</dd></div>
<div><dt>known accepted</dt><dd>{counts.recall:.0%}</dd></div>
<div><dt>novel accepted</dt><dd>{counts.false_acceptance:.1%}</dd></div></dl></header>
{_density_chart(one, known)}
<div class="strips">
{strip("Accepted", f"of {int(known.sum())} known, the deepest inside first", inside & known, "right")}
{strip("Wrongly accepted", f"of {int((~known).sum())} novel", inside & ~known, "wrong")}
{strip("Wrongly rejected", "known, the nearest misses first", ~inside & known, "wrong")}
{strip("Rejected", "novel, the nearest misses first", ~inside & ~known, "right")}
</div></section>"""


def _contact_strip(pictures: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Lay pictures, of shape (n, 64), in a row: dark ink on paper, a pixel of paper to the right of each."""
    tiles = np.zeros((len(pictures), 8, 9))
    tiles[:, :, :8] = pictures.reshape(-1, 8, 8)
    return np.asarray(252 - 225 * np.hstack(list(tiles)), dtype=np.uint8)


def _density_chart(one: Encounter, known: NDArray[np.bool_]) -> str:
    """Draw how the scores of known and novel samples are spread, with both planes, as SVG."""
    width, height, floor = 360, 220, 192
    low, high = np.quantile(one.scores, [0.002, 1.0])
    low, high = min(low, one.lower), max(high, one.upper)
    low, high = low - 0.04 * (high - low), high + 0.06 * (high - low)
    grid = np.linspace(low, high, 160)

    def x_of(score: float) -> float:
        return float((score - low) / (high - low) * width)

    curves = []
    for name, scores in (("known", one.scores[known]), ("novel", one.scores[~known])):
        density = gaussian_kde(scores)(grid)
        points = [(x_of(s), floor - 158 * value) for s, value in zip(grid, density / density.max(), strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        curves.append(f'<polygon class="{name}" points="0,{floor} {path} {width},{floor}"/>')
    left, right = x_of(one.lower), x_of(one.upper)
    planes = "".join(f'<line class="plane" x1="{x:.1f}" x2="{x:.1f}" y1="20" y2="{floor}"/>' for x in (left, right))
    anchors = [(left, "end", -5, "lower plane"), (right, "start", 5, "upper plane")]
    if right > width - 70:
        anchors[1] = (right, "end", 0, "upper plane")
        anchors[0] = (left, "end", -5, "lower plane") if right - left > 85 else (left, "end", -12, "lower plane")
    labels = "".join(
        f'<text x="{x + shift:.1f}" y="14" text-anchor="{anchor}">{text}</text>' for x, anchor, shift, text in anchors
    )
    return f"""<svg class="density" viewBox="0 0 {width} {height}" role="img"
aria-label="density of the scores of known and novel test samples with the planes of the slab">
<rect class="slab" x="{left:.1f}" y="20" width="{right - left:.1f}" height="{floor - 20}"/>
{"".join(reversed(curves))}{planes}{labels}
<line class="axis" x1="0" x2="{width}" y1="{floor}" y2="{floor}"/>
<text x="0" y="{height - 8}">score &#8594;</text>
<text class="key" x="{width}" y="{height - 8}" text-anchor="end"><tspan class="known">&#9632;</tspan> known
<tspan class="novel" dx="8">&#9632;</tspan> novel</text></svg>"""


def _table(met: list[Encounter]) -> str:
    """The results for each digit: the slab's beside those of scikit-learn's one-class SVM."""
    rows = []
    for digit in range(10):
        cells = "".join(_table_cells([one]) for one in _of(met, digit))
        rows.append(f'<tr><th><a href="#digit-{digit}">{digit}</a></th>{cells}</tr>')
    models = [[one for one in met if one.model == model] for model in (SLAB, PEER)]
    medians = "".join(_table_cells(of_model) for of_model in models)
    return "\n".join(rows) + f'\n<tr class="median"><th>median</th>{medians}</tr>'


def _of(met: list[Encounter], digit: int) -> list[Encounter]:
    return [one for model in (SLAB, PEER) for one in met if one.digit == digit and one.model == model]


def _table_cells(met: list[Encounter]) -> str:
    """Three cells with the medians over `met`, which are of one model; the first with a bar."""
    counts = [one.counts for one in met]
    mcc, recall = median(c.mcc for c in counts), median(c.recall for c in counts)
    false_acceptance = median(c.false_acceptance for c in counts)
    style = f"--share:{max(mcc, 0):.3f};--hue:{MODEL_COLOURS[met[0].model]}"
    bar = f'<span class="bar" style="{style}"></span>'
    return f"<td>{bar}{mcc:.2f}</td><td>{recall:.2f}</td><td>{false_acceptance:.3f}</td>"


def _sweep_chart(gamma: float, sweep: dict[float, list[Encounter]]) -> str:
    """Draw the median Matthews correlation against gamma, one line a model, as SVG."""
    width, height, left, floor, top = 720, 250, 34, 206, 14
    multiples = sorted(sweep)
    step = (width - left - 16) / (len(multiples) - 1)

    def y_of(mcc: float) -> float:
        return floor - (floor - top) * max(mcc, 0.0)

    grid = "".join(
        f'<line class="grid" x1="{left}" x2="{width}" y1="{y_of(v):.1f}" y2="{y_of(v):.1f}"/>'
        f'<text x="{left - 8}" y="{y_of(v) + 4:.1f}" text-anchor="end">{v:g}</text>'
        for v in (0, 0.25, 0.5, 0.75, 1)
    )
    ticks = "".join(
        f'<text x="{left + 8 + i * step:.1f}" y="{floor + 18}" text-anchor="middle">{m * gamma:.2g}</text>'
        for i, m in enumerate(multiples)
    )
    lines = []
    for model in MODELS:
        points = [(left + 8 + i * step, y_of(median_mcc(sweep[m], model))) for i, m in enumerate(multiples)]
        segments = "".join(
            f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"/>' for a, b in pairwise(points)
        )
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in points)
        lines.append(f'<g style="--hue:{MODEL_COLOURS[model]}" class="model">{segments}{dots}</g>')
    at = left + 8 + multiples.index(1.0) * step
    key = "".join(f'<span><i style="background:{MODEL_COLOURS[model]}"></i>{escape(model)}</span>' for model in MODELS)
    return f"""<svg class="sweep" viewBox="0 0 {width} {height}" role="img"
aria-label="median Matthews correlation against gamma for the slab and for two one-class SVMs">{grid}
<line class="chosen" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{floor}"/>
{ticks}{"".join(reversed(lines))}
<text x="{left + 8}" y="{floor + 38}">gamma (the rule's is dashed)</text></svg><p class="key">{key}</p>"""
