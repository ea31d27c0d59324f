"""From records to the tables of each experiment."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from statistics import median
from typing import Any

from slabsvm_reproduction.demo.digits import NOMINAL_RECALL, PEER, PEER_LOO, SLAB, Evaluation, median_mcc
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.report.parts import BEST, Grid
from slabsvm_reproduction.run.counts import Counts
from slabsvm_reproduction.run.journal import Record


def pick(records: Iterable[Record], **where: Any) -> list[Record]:
    """The records that have each of the values in `where`."""
    return [record for record in records if all(record[name] == value for name, value in where.items())]


def best_of_rows(values: Sequence[Sequence[float]]) -> dict[tuple[int, int], str]:
    """Mark the largest value of each row, all of them where several are; a column of names stands before the values."""
    return {(at, 1 + column): BEST for at, row in enumerate(values) for column, v in enumerate(row) if v == max(row)}


# The columns of the table of planes: its head, where its records are, and which planes of theirs decide.
PLANES = (
    ("slab, the paper's planes", {"epsilon": paper.EPSILON, "calibration": "training"}, ""),
    ("slab, leave-one-out planes", {"epsilon": paper.EPSILON, "calibration": "auto"}, ""),
    (
        "slab, leave-one-out, lower plane only",
        {"epsilon": paper.EPSILON, "calibration": "auto"},
        "_lower_only",
    ),
    ("one-class SVM, its own plane", {"epsilon": 0.0, "calibration": "training"}, ""),
    ("one-class SVM, leave-one-out plane", {"epsilon": 0.0, "calibration": "auto"}, ""),
)


def planes_values(records: Sequence[Record], gamma: float) -> list[tuple[float, float]]:
    """For each column of PLANES at `gamma`: the median MCC over the letters, and the pooled recall."""
    return [_mcc_and_recall(pick(records, gamma=gamma, **where), planes) for _, where, planes in PLANES]


def _mcc_and_recall(cells: Sequence[Record], planes: str) -> tuple[float, float]:
    """The median MCC of `cells`, and the accepted ones of all their known test samples over their number."""
    known = [cell["accepted"] + cell["rejected"] for cell in cells]
    accepted = sum(cell["recall" + planes] * count for cell, count in zip(cells, known, strict=True))
    return median(cell["mcc" + planes] for cell in cells), accepted / sum(known)


def planes_grid(records: Sequence[Record]) -> Grid:
    """The paper's planes against leave-one-out planes, over gamma."""
    rows = [
        [f"{gamma:g}", *(_pair(mcc, recall) for mcc, recall in planes_values(records, gamma))]
        for gamma in paper.PLANES_GAMMAS
    ]
    paper_planes = PLANES[0][1]
    without_ties = [
        _pair(*_mcc_and_recall(pick(records, gamma=gamma, **paper_planes), "_ties_rejected"))
        for gamma in paper.PLANES_GAMMAS
    ]
    return Grid(
        f"UCI Letter, RBF kernel: median MCC over {len(paper.LETTERS)} letters (and recall, pooled)",
        ["gamma", *(name for name, _, _ in PLANES)],
        rows,
        [
            f"Nominal recall: {paper.NOMINAL_RECALL:.2f} with two planes, {1 - paper.NU_LOWER:.2f} with one.",
            "Nearly a tenth of the test rows are copies of training rows. When a slab collapses its training "
            "samples lie on a plane, which counts as inside; so do their copies, and these are nearly all "
            f"that it accepts. With ties rejected the paper's planes give {', '.join(without_ties)}.",
            convergence(records),
        ],
    )


def digits_grid(evaluated: Sequence[Evaluation]) -> Grid:
    """The demonstration's table: for each digit the slab beside scikit-learn's one-class SVM."""

    def cells(counts: Sequence[Counts]) -> list[str]:
        return [
            f"{median(c.mcc for c in counts):.2f}",
            f"{median(c.recall for c in counts):.2f}",
            f"{median(c.false_acceptance for c in counts):.3f}",
        ]

    def row(name: str, digits: Container[int]) -> list[str]:
        some = [one for one in evaluated if one.digit in digits]
        groups = [[one.counts for one in some if one.model == model] for model in (SLAB, PEER)]
        return [name, *cells(groups[0]), *cells(groups[1])]

    return Grid(
        "Each digit learned from its positives alone, facing all ten",
        ["digit", "slab MCC", "recall", "novel accepted", "OC-SVM MCC", "recall", "novel accepted"],
        [*(row(str(digit), [digit]) for digit in range(10)), row("median", range(10))],
        [
            f"OC-SVM: scikit-learn's one-class SVM with the same kernel, the same gamma ({evaluated[0].gamma:.3f}, "
            f"set without looking at the test half) and the same promised recall of {NOMINAL_RECALL:.2f}.",
            f"With slabsvm's leave-one-out plane its median MCC is {median_mcc(evaluated, PEER_LOO):.2f}.",
        ],
    )


def _pair(mcc: float, recall: float) -> str:
    """Both without their leading zeros, so that five of them fit into a terminal's line."""
    first, second = (f"{value:.3f}".replace("0.", ".", 1) for value in (mcc, recall))
    return f"{first} ({second})"


def convergence(records: Sequence[Record]) -> str:
    """Say whether every fit reached its tolerance, and of how many the objective is 0, of which no gap is a share."""
    flat = [r for r in records if r.get("status") == "degenerate"]
    others = [r for r in records if r.get("status") != "degenerate"]
    slow = [r for r in others if r["duality_gap"] > r["tol"] * max(abs(r["dual_objective"]), 1e-12)]
    n_met = len(others) - len(slow)
    who = "All" if n_met == len(records) else f"{n_met} of"
    said = f"{who} {len(records)} fits reached a relative duality gap of {records[0]['tol']:g}."
    if slow:
        worst = max(r["duality_gap"] / abs(r["dual_objective"]) for r in slow if r["dual_objective"])
        said += f" Of {len(slow)} the gap is larger, at most {worst:.1e}."
    if flat:
        gap = max(r["duality_gap"] for r in flat)
        said += f" Of {len(flat)} the best w is zero, and the gap, at most {gap:.0e}, is no share of anything."
    return said
