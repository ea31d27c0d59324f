"""The demonstration's page, one HTML file with everything in it: the values that its template shows.

The template draws the charts, as SVG. matplotlib would take nearly a second to be imported and to draw eleven figures,
where all the rest takes three, and its figures stay light where the page is dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import gaussian_kde

from slabsvm_reproduction.demo import digits as experiment
from slabsvm_reproduction.demo.digits import MODELS, SLAB, Digits, Evaluation, median_mcc
from slabsvm_reproduction.report.colours import MODEL_COLOURS
from slabsvm_reproduction.report.page import page
from slabsvm_reproduction.report.tables import digits_grid

STRIP = 15  # pictures in a strip, at most


def demo_page(digits: Digits, sweep: Mapping[float, Sequence[Evaluation]]) -> str:
    """The whole page as HTML.

    Parameters
    ----------
    digits : Digits
        The split that the models were trained and tested on.
    sweep : mapping
        For each multiple of the rule's gamma, the evaluations there; the page shows those of the multiple 1.
    """
    return page(
        "digits.html",
        digits=digits,
        experiment=experiment,
        colours=MODEL_COLOURS,
        medians=[median_mcc(sweep[1.0], model) for model in MODELS],
        rows=digits_grid(sweep[1.0]).rows,
        sweep=_sweep(digits.gamma, sweep),
        cards=[_card(digits, one) for one in sweep[1.0] if one.model == SLAB],
    )


def _sweep(gamma: float, sweep: Mapping[float, Sequence[Evaluation]]) -> dict[str, Any]:
    """The median Matthews correlation against gamma, one line a model."""
    multiples = sorted(sweep)
    return {
        "gammas": [multiple * gamma for multiple in multiples],
        "chosen": multiples.index(1.0),
        # Below 0 there is no chart.
        "lines": {model: [max(0.0, median_mcc(sweep[m], model)) for m in multiples] for model in MODELS},
    }


def _card(digits: Digits, one: Evaluation) -> dict[str, Any]:
    """One digit's section: the density of its scores and four strips of pictures."""
    known, inside = digits.test_digits == one.digit, one.inside
    centre = (one.lower + one.upper) / 2
    by_depth = np.argsort(np.abs(one.scores - centre), kind="stable")

    def strip(title: str, note: str, chosen: NDArray[np.bool_], kind: str) -> dict[str, Any]:
        members = by_depth[chosen[by_depth]]
        shown = members[:STRIP]
        return {
            "title": title,
            "note": f"{len(members)} {note}",
            "kind": kind,
            "labels": digits.test_digits[shown].tolist(),
            "picture": _contact_strip(digits.test[shown]) if len(shown) else None,
            "more": len(members) - len(shown),
        }

    return {
        "digit": one.digit,
        "counts": one.counts,
        "density": _density(one, known),
        "strips": [
            strip("Accepted", f"of {int(known.sum())} known, the deepest inside first", inside & known, "right"),
            strip("Wrongly accepted", f"of {int((~known).sum())} novel", inside & ~known, "wrong"),
            strip("Wrongly rejected", "known, the nearest misses first", ~inside & known, "wrong"),
            strip("Rejected", "novel, the nearest misses first", ~inside & ~known, "right"),
        ],
    }


def _contact_strip(pictures: NDArray[np.float64]) -> bytes:
    """Lay pictures, of shape (n, 64), in a row, as a PNG: dark ink on paper, a pixel of paper to the right of each."""
    tiles = np.zeros((len(pictures), 8, 9))
    tiles[:, :, :8] = pictures.reshape(-1, 8, 8)
    content = BytesIO()
    Image.fromarray(np.asarray(252 - 225 * np.hstack(list(tiles)), dtype=np.uint8)).save(content, "PNG", optimize=True)
    return content.getvalue()


def _density(one: Evaluation, known: NDArray[np.bool_]) -> dict[str, Any]:
    """How the scores of known and novel samples are spread, and where the planes are, as shares of the chart."""
    low, high = np.quantile(one.scores, [0.002, 1.0])
    low, high = min(low, one.lower), max(high, one.upper)
    low, high = low - 0.04 * (high - low), high + 0.06 * (high - low)
    shares = np.linspace(0, 1, 160)

    def hill(scores: NDArray[np.float64]) -> list[tuple[float, float]]:
        density = gaussian_kde(scores)(low + shares * (high - low))
        return list(zip(shares, density / density.max(), strict=True))

    return {
        "planes": [(plane - low) / (high - low) for plane in (one.lower, one.upper)],
        "hills": {"novel": hill(one.scores[~known]), "known": hill(one.scores[known])},
    }
