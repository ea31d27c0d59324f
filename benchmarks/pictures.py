"""The pictures of the site's pages of results, from the published records. Nothing is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import tabular_report
from harness import read

mpl.use("agg")
from matplotlib import pyplot as plt

RECORDS = Path(__file__).parent / "results"
OURS, WARM, OTHERS = "#1f5fa8", "#d9772b", "0.45"
# Text stays text, which is small, and the file is the same for the same records.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "slabsvm", "font.size": 9, "font.sans-serif": ["DejaVu Sans"]}
# What scores of a calibration are called.
LABELS = {"training": "training", "auto": "leave-one-out"}
# Each detector at the setting that it has by default.
DETECTORS = {
    "slab": "rbf, neighbours",
    "one-class SVM": "rbf, neighbours",
    "SVDD": "rbf, neighbours",
    "kernel PCA": "rbf, 1 x scale",
    "kernel density": "scott",
}


def recall(axes: Any) -> None:
    """Draw the recall of new positives on sixteen data sets, with either threshold of each detector."""
    cells = read(RECORDS / "family.json")["cells"]
    for row, (model, setting) in enumerate(DETECTORS.items()):
        for calibration, colour, off in (("training", WARM, 0.16), ("auto", OURS, -0.16)):
            found = [c for c in cells if (c["model"], c["setting"], c["calibration"]) == (model, setting, calibration)]
            values = [0.9 + c["bias"] for c in found]
            axes.plot(values, [row + off] * len(values), "o", color=colour, alpha=0.35, markersize=5, linewidth=0)
            label = f"{LABELS[calibration]} scores" if row == 0 else None
            axes.plot(np.mean(values), row + off, "|", color=colour, markersize=15, markeredgewidth=3, label=label)
    axes.axvline(0.9, color="0.2", linewidth=1, linestyle=":")
    axes.annotate("asked for", (0.9, -0.62), ha="center", fontsize=8)
    axes.set_yticks(range(len(DETECTORS)), DETECTORS)
    axes.set_ylim(len(DETECTORS) - 0.5, -0.7)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("share of new positives that is accepted, a dot for each of 16 data sets, a bar for their mean")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1.02), ncols=2, title="threshold at a quantile of")


def rates(axes: Any) -> None:
    """Draw how often new positives are rejected against the rate that was asked for, with all bands of chance."""
    records = [r for r in read(RECORDS / "openset.json")["records"] if r["section"] == "rates"]
    for model, colour, off in (("slab", OURS, 0.98), ("one-class SVM", WARM, 1.02)):
        some = [r for r in records if r["model"] == model]
        axes.plot(
            [off * r["alpha"] for r in some], [r["rate"] for r in some], "o", color=colour, alpha=0.6, label=model
        )
    # The bands of data sets differ by how many rows calibrate.
    alphas = sorted({r["alpha"] for r in records})
    low = [min(r["low"] for r in records if r["alpha"] == alpha) for alpha in alphas]
    high = [max(r["high"] for r in records if r["alpha"] == alpha) for alpha in alphas]
    axes.fill_between(alphas, low, high, color="0.88", zorder=0, label="chance, 95 %")
    axes.plot(alphas, alphas, color="0.2", linewidth=1, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = [0.01, 0.05, 0.1, 0.2]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("alpha, the rate that was asked for")
    axes.set_ylabel("new positives rejected")
    axes.legend(frameon=False)


def speed(axes: Any) -> None:
    """Draw how many times faster than scikit-learn's OneClassSVM fits are; below 1 they are slower."""
    cases = {
        "one plane, 100 x 8": ("one plane, defaults", "normal 8", 100),
        "one plane, 1,000 x 8": ("one plane, defaults", "normal 8", 1000),
        "slab, 100 x 8": ("slab, defaults", "normal 8", 100),
        "slab, 1,000 x 8": ("slab, defaults", "normal 8", 1000),
        "slab, planes apart, 1,000 x 8": ("slab, planes apart", "normal 8", 1000),
        "one plane, 20,000 x 16": ("one plane", "clouds 16", 20000),
        "slab, 20,000 x 16": ("slab", "clouds 16", 20000),
        "one plane, 10,000 x 784": ("one plane", "clouds 784", 10000),
        "slab, 10,000 x 784": ("slab", "clouds 784", 10000),
        "slab, Letter, 20,000 x 16": ("slab", "letter", 20000),
        "slab, a real table, 4,000 x 9": ("slab, gamma of neighbours", "table shuttle", 4000),
        "slab, the slowest table, 2,281 x 5": ("slab, gamma of neighbours", "table wilt", 2281),
    }
    records = {(r["case"], r["data"], r["m"]): r for r in read(RECORDS / "speed.json")["records"]}
    ratios = [records[key]["peer_over_ours"] for key in cases.values()]
    axes.barh(range(len(cases)), np.log10(ratios), color=[OURS if ratio >= 1 else WARM for ratio in ratios])
    for row, ratio in enumerate(ratios):
        axes.annotate(f"{ratio:.2g}", (np.log10(ratio), row), (3 if ratio >= 1 else -3, 0), va="center",
                      ha="left" if ratio >= 1 else "right", textcoords="offset points", fontsize=8)  # fmt: skip
    axes.axvline(0, color="0.2", linewidth=1)
    axes.set_yticks(range(len(cases)), cases)
    axes.invert_yaxis()
    axes.set_xlim(-2.15, 1.15)
    axes.set_xticks([-1, 0, 1], ["10 times slower", "as fast", "10 times faster"])
    axes.tick_params(left=False)


def ranks(figure: Any) -> None:
    """Draw mean ranks, a panel for each measure; a bar beside the methods joins those that cannot be told apart."""
    results = tabular_report.split(read(RECORDS / "tabular.json"))[tabular_report.SOME]
    panels = figure.subplots(1, len(tabular_report.MEASURES))
    for axes, (title, what) in zip(panels, tabular_report.MEASURES.items(), strict=True):
        one = tabular_report.ranking(results[what])
        places = range(len(one.names))
        colours = [OURS if name in tabular_report.OURS else OTHERS for name in one.names]
        axes.scatter(one.ranks, places, color=colours, zorder=3, s=28)
        right = max(one.ranks) + 0.35
        for row, (first, last) in enumerate(one.cliques):
            axes.plot([right + 0.22 * row] * 2, [first, last], color="0.2", linewidth=3, solid_capstyle="round")
        axes.set_yticks(places, one.names)
        for label, colour in zip(axes.get_yticklabels(), colours, strict=True):
            label.set_color(colour if colour == OURS else "0.15")
        axes.invert_yaxis()
        axes.set_title(title)
        axes.set_xlabel("mean rank")
        axes.grid(axis="x", color="0.92", zorder=0)
        axes.tick_params(left=False)
        axes.spines["left"].set_visible(False)


# What draws into a figure or, of one panel, into its axes; the size in inches.
PICTURES: dict[str, tuple[Callable[[Any], None], float, float]] = {
    "recall": (recall, 7.2, 3.6),
    "rates": (rates, 5.2, 3.8),
    "speed": (speed, 7.2, 4.2),
    "tabular": (ranks, 12.6, 5.32),
}


if __name__ == "__main__":
    mpl.rcParams |= STYLE
    for name, (picture, width, height) in PICTURES.items():
        figure = plt.figure(figsize=(width, height), layout="constrained")
        picture(figure if picture is ranks else figure.subplots())
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        file = Path(__file__).parents[1] / "docs" / "results" / f"{name}.svg"
        figure.savefig(file, format="svg", metadata={"Date": None})
        plt.close(figure)
