"""Figures of the experiments, drawn with matplotlib, which is the optional extra `slabsvm[plots]`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi

from slabsvm.display import figure
from slabsvm.display.palette import GREEN, INK, KNOWN, LINE, NOVEL, SAND, SOFT, VIOLET
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.report.parts import Chart
from slabsvm_reproduction.report.tables import PLANES, planes_values
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import TIE
from slabsvm_reproduction.run.printed import FIGURES_EPSILON, TOY
from slabsvm_reproduction.toy import experiment as toy

PLANES_COLOURS = (NOVEL, KNOWN, VIOLET, SAND, GREEN)


def planes_charts(records: Sequence[Record]) -> list[Chart]:
    """The figure of the planes."""
    caption = "Median over the letters, and recall pooled over them, for each kind of planes."
    return [Chart("planes", "MCC and recall against gamma", caption, partial(planes_chart, records))]


def planes_chart(records: Sequence[Record], path: Path) -> None:
    """Draw median MCC and pooled recall against gamma, for each kind of planes."""
    values = np.array([planes_values(records, gamma) for gamma in paper.PLANES_GAMMAS])
    with figure(path, 10, 4.1) as drawing:
        left, right = drawing.subplots(1, 2)
        for column, ((name, _, _), colour) in enumerate(zip(PLANES, PLANES_COLOURS, strict=True)):
            for axes, measure in ((left, 0), (right, 1)):
                axes.plot(paper.PLANES_GAMMAS, values[:, column, measure], "o-", ms=5, color=colour, label=name)
        right.axhline(paper.NOMINAL_RECALL, color=SOFT, ls=(0, (4, 4)), lw=1, zorder=0)
        right.text(
            paper.PLANES_GAMMAS[0],
            0.945,
            "dashed: the slab's nominal recall",
            va="center",
            size=9,
            color=SOFT,
        )
        for axes, title in (
            (left, "Median Matthews correlation"),
            (right, "Recall, pooled over the letters"),
        ):
            axes.set_xscale("log", base=2)
            axes.set_xticks(paper.PLANES_GAMMAS, [f"{gamma:g}" for gamma in paper.PLANES_GAMMAS])
            axes.set_ylim(0, 1)
            axes.set_xlabel("gamma")
            axes.grid(axis="y", color=LINE, lw=0.8)
            axes.set_title(title)
        handles, labels = left.get_legend_handles_labels()
        drawing.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)
        drawing.subplots_adjust(wspace=0.18)


def toy_charts() -> list[Chart]:
    """The figures of the toy experiment."""
    return [
        Chart(
            "toy-epsilon",
            "What epsilon changes",
            "One draw; both planes and the slab between them. Counterpart of the paper's planes against epsilon.",
            toy_planes_chart,
        ),
        Chart(
            "toy-slabs",
            "What the slab accepts",
            "One draw at epsilon 4/6; orange is outside. Counterpart of the paper's linear and RBF slabs on toy data.",
            toy_slabs_chart,
        ),
        Chart(
            "toy-distances",
            "Why a slab",
            "Distances of 20,000 standard normal samples, and their exact density. Counterpart of the paper's "
            "densities of the Mahalanobis distance in 2 and 16 dimensions.",
            toy_distances_chart,
        ),
    ]


def toy_planes_chart(path: Path, seed: int = 0) -> None:
    """Draw the slab for each epsilon, with the linear and with the RBF kernel."""
    with figure(path, 12, 5.3) as drawing:
        panels = drawing.subplots(len(toy.KERNELS), len(toy.EPSILONS), sharex=True, sharey=True)
        for row, kernel in zip(panels, toy.KERNELS, strict=True):
            for number, (axes, epsilon) in enumerate(zip(row, toy.EPSILONS, strict=True), start=1):
                slab, X = toy.toy_fit(toy.ToyCell(kernel, epsilon, seed))
                _draw_slab(axes, slab, X, width=1.2)
                _draw_points(axes, X, size=1.5)
                axes.set_title(f"epsilon {number}/6", size=10, pad=4)
            row[0].set_ylabel(_KERNEL_TITLES[kernel])
        drawing.subplots_adjust(wspace=0.06, hspace=0.2)


def toy_slabs_chart(path: Path, seed: int = 0) -> None:
    """Draw the inside of the slab at the paper's epsilon: a band with the linear kernel, a doughnut with RBF."""
    with figure(path, 10, 5.2) as drawing:
        for axes, kernel in zip(drawing.subplots(1, 2), toy.KERNELS, strict=True):
            slab, X = toy.toy_fit(toy.ToyCell(kernel, FIGURES_EPSILON, seed))
            _draw_slab(axes, slab, X, width=1.8)
            tie = TIE * abs(slab.rho_lower_)
            outside = slab.decision_function(X) < -tie
            _draw_points(axes, X[~outside])
            axes.scatter(*X[outside].T, s=7, color=NOVEL, lw=0, zorder=3, label="outside")
            axes.set_title(f"{_KERNEL_TITLES[kernel]}: {np.mean(~outside):.1%} inside")


def toy_distances_chart(path: Path) -> None:
    """Draw the density of the Mahalanobis distance of normal samples in 2 and in 16 dimensions."""
    grid = np.linspace(0, 7, 400)
    with figure(path, 7.2, 3.6) as drawing:
        axes = drawing.add_subplot()
        for n_features, colour, at in zip(
            TOY["dimensions_of_the_figure_of_distances"], (NOVEL, KNOWN), (1.0, 3.87), strict=True
        ):
            axes.hist(toy.mahalanobis_distances(n_features), bins=70, density=True, color=colour, alpha=0.22, lw=0)
            density = chi(n_features).pdf(grid)
            axes.plot(grid, density, color=colour, lw=2)
            axes.text(at, density.max() + 0.06, f"{n_features} dimensions", color=colour, ha="center")
        axes.set_xlim(0, 7)
        axes.set_ylim(0, 0.72)
        axes.set_xlabel("Mahalanobis distance from the mean")
        axes.set_ylabel("density")
        axes.set_title("As dimensions grow, normal samples leave the centre: a shell, not a ball", pad=12)


_KERNEL_TITLES = {"linear": "Linear kernel", "rbf": "RBF kernel"}


def _score_field(slab: Any, X: Any) -> tuple[tuple[Any, Any], Any]:
    """The scores on a grid around the two-dimensional points X: the grid's x and y, and the scores."""
    low, high = X.min(axis=0) - 0.7, X.max(axis=0) + 0.7
    x, y = np.meshgrid(np.linspace(low[0], high[0], 240), np.linspace(low[1], high[1], 240))
    return (x, y), slab.project(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)


def _draw_slab(axes: Any, slab: Any, X: Any, width: float) -> None:
    grid, scores = _score_field(slab, X)
    levels = [slab.rho_lower_, slab.rho_upper_]
    axes.contourf(*grid, scores, levels, colors=[KNOWN], alpha=0.16)
    axes.contour(*grid, scores, levels, colors=[KNOWN], linewidths=width)


def _draw_points(axes: Any, X: Any, size: float = 5) -> None:
    axes.scatter(*X.T, s=size, color=INK, alpha=0.45, lw=0, zorder=2)
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
