"""From records to tables: CSV and Markdown for the output folder, and the same tables for the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from slabsvm.experiments import paper, toy
from slabsvm.experiments.digits import NOMINAL_RECALL, PEER, PEER_LOO, SLAB, Encounter, median_mcc
from slabsvm.experiments.metrics import Counts
from slabsvm.experiments.protocol import Record

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Grid:
    """A table to be shown: a title, the heads of its columns, its rows, and notes to stand below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())

    def markdown(self) -> str:
        """The table as Markdown, under its title as a heading."""
        lines = [f"## {self.title}", "", _pipe(self.columns), "| --- |" + " ---: |" * (len(self.columns) - 1)]
        lines += [_pipe(row) for row in self.rows]
        lines += [line for note in self.notes for line in ("", note)]
        return "\n".join(lines) + "\n"

    def terminal(self) -> Table:
        """The table for the terminal, without its title; all columns but the first are set to the right."""
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        table.add_column(self.columns[0])
        for number, column in enumerate(self.columns[1:], start=1):
            # Heads are wrapped between words, never within one, and never wider than the values need.
            width = max(map(len, [*column.split(), *(row[number] for row in self.rows)]))
            table.add_column(column, justify="right", min_width=width, max_width=max(width, 10))
        for row in self.rows:
            table.add_row(*row)
        return table


def write_csv(records: Sequence[Record], path: Path) -> None:
    """Write `records`, which all have the same fields, as a CSV file with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    path.write_text(text.getvalue(), encoding="utf-8")


def write_report(title: str, parts: Iterable[str], path: Path) -> None:
    """Write a Markdown report with a title and its parts, one below the other."""
    path.write_text(f"# {title}\n\n" + "\n".join(part.rstrip("\n") + "\n" for part in parts), encoding="utf-8")


def pick(records: Iterable[Record], **where: Any) -> list[Record]:
    """The records that have each of the values in `where`."""
    return [record for record in records if all(record[name] == value for name, value in where.items())]


def letter_medians(records: Sequence[Record]) -> dict[str, float]:
    """The median over the letters of the Matthews correlation, for each kernel."""
    return {kernel: median(cell["mcc"] for cell in pick(records, kernel=kernel)) for kernel in paper.KERNELS}


def letter_grid(records: Sequence[Record]) -> Grid:
    """Table 1's column beside the paper's."""
    rows = []
    for kernel, mcc in letter_medians(records).items():
        cells = pick(records, kernel=kernel)
        rows.append(
            [
                kernel,
                # Four digits, since one of the medians is .3895, which three would round down.
                f"{mcc:.4f}",
                f"{paper.PAPER_MEDIANS[kernel]:.2f}",
                f"{median(cell['recall'] for cell in cells):.3f}",
                f"{median(cell['expected_recall'] for cell in cells):.3f}",
                f"{median(cell['false_acceptance'] for cell in cells):.3f}",
                f"{sum(cell['fit_seconds'] + cell['score_seconds'] for cell in cells):.1f} s",
            ]
        )
    offsets = records[0]["offsets"]
    planes = "the paper's planes" if offsets == "training" else "leave-one-out planes, which the paper does not have"
    return Grid(
        f"UCI Letter, median over {len(paper.LETTERS)} letters ({offsets} offsets)",
        ["kernel", "MCC", "paper", "recall", "expected recall", "novel accepted", "thread time"],
        rows,
        [f"With {planes}. The nominal recall is {paper.NOMINAL_RECALL:.2f}.", _convergence(records)],
    )


def letter_by_letter_grid(records: Sequence[Record]) -> Grid:
    """The Matthews correlation of each letter with each kernel."""
    mcc = {(record["known"], record["kernel"]): record["mcc"] for record in records}
    rows = [
        [letter, *(f"{mcc[letter, kernel]:.3f}" for kernel in paper.KERNELS), f"{paper.GAMMA[letter]:g}"]
        for letter in paper.LETTERS
    ]
    return Grid("Matthews correlation, letter by letter", ["letter", *paper.KERNELS, "gamma (rbf)"], rows)


# The columns of the table of planes: its head, where its records are, and which planes of theirs decide.
PLANES = (
    ("slab, the paper's planes", {"epsilon": paper.EPSILON, "offsets": "training"}, ""),
    ("slab, leave-one-out planes", {"epsilon": paper.EPSILON, "offsets": "leave-one-out"}, ""),
    (
        "slab, leave-one-out, lower plane only",
        {"epsilon": paper.EPSILON, "offsets": "leave-one-out"},
        "_lower_only",
    ),
    ("one-class SVM, its own plane", {"epsilon": 0.0, "offsets": "training"}, ""),
    ("one-class SVM, leave-one-out plane", {"epsilon": 0.0, "offsets": "leave-one-out"}, ""),
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
            _convergence(records),
        ],
    )


def toy_grid(records: Sequence[Record]) -> Grid:
    """The share of the toy points inside the slab for each epsilon, beside the paper's."""
    rows, notes = [], []
    for kernel in toy.KERNELS:
        cells = pick(records, kernel=kernel)
        means = [fmean(cell["share_inside"] for cell in pick(cells, epsilon=epsilon)) for epsilon in toy.EPSILONS]
        rows.append([kernel, *(f"{mean:.3f}" for mean in means), toy.PAPER_SHARES[kernel]])
        shares = [cell["share_inside"] for cell in cells]
        notes.append(f"Single draws, {kernel}: from {min(shares):.2f} to {max(shares):.2f}.")
    return Grid(
        f"Share of {toy.N_POINTS} toy points inside, mean of {len(toy.SEEDS)} draws, by epsilon",
        ["kernel", *(f"{k}/6" for k in range(1, 6)), "paper"],
        rows,
        [*notes, _convergence(records)],
    )


def digits_grid(met: Sequence[Encounter]) -> Grid:
    """The demonstration's table: for each digit the slab beside scikit-learn's one-class SVM."""

    def cells(counts: Sequence[Counts]) -> list[str]:
        return [
            f"{median(c.mcc for c in counts):.2f}",
            f"{median(c.recall for c in counts):.2f}",
            f"{median(c.false_acceptance for c in counts):.3f}",
        ]

    def row(name: str, digits: Container[int]) -> list[str]:
        groups = [[one.counts for one in met if one.model == model and one.digit in digits] for model in (SLAB, PEER)]
        return [name, *cells(groups[0]), *cells(groups[1])]

    return Grid(
        "Each digit learned from its positives alone, facing all ten",
        ["digit", "slab MCC", "recall", "novel accepted", "OC-SVM MCC", "recall", "novel accepted"],
        [*(row(str(digit), [digit]) for digit in range(10)), row("median", range(10))],
        [
            f"OC-SVM: scikit-learn's one-class SVM with the same kernel, the same gamma ({met[0].gamma:.3f}, "
            f"set without looking at the test half) and the same promised recall of {NOMINAL_RECALL:.2f}.",
            f"With slabsvm's leave-one-out plane its median MCC is {median_mcc(met, PEER_LOO):.2f}.",
        ],
    )


def _pair(mcc: float, recall: float) -> str:
    """Both without their leading zeros, so that five of them fit into a terminal's line."""
    first, second = (f"{value:.3f}".replace("0.", ".", 1) for value in (mcc, recall))
    return f"{first} ({second})"


def _convergence(records: Sequence[Record]) -> str:
    """Say whether every fit reached its tolerance."""
    slow = [r for r in records if r["duality_gap"] > r["tol"] * max(abs(r["dual_objective"]), 1e-12)]
    if not slow:
        return f"All {len(records)} fits reached a relative duality gap of {records[0]['tol']:g}."
    worst = max(r["duality_gap"] / abs(r["dual_objective"]) for r in slow if r["dual_objective"])
    return f"{len(slow)} of {len(records)} fits stopped early; the largest relative duality gap is {worst:.1e}."


def _pipe(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
