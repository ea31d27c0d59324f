"""What is done in a folder, and what must be in it in the end, whoever was killed meanwhile."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from archive_parts import parts
from slabsvm.command.group import slabsvm
from slabsvm.display.figures import figure
from slabsvm.files import load, save
from slabsvm_reproduction.run.journal import Journal
from slabsvm_reproduction.toy import experiment as toy
from slabsvm_reproduction.toy import report as toy_report

Contents = dict[str, bytes]

ROWS = {"good": 300, "new": 6_000}


@dataclass(frozen=True)
class Work:
    """What is done in a folder, from files of another one.

    Attributes
    ----------
    name : str
    do : function of the folder of inputs and of the folder
        Goes on from what an earlier try has left, as a user would.
    results : tuple of str
        Files that are there whole or not at all, and may be there from before.
    journal : str
        A file that grows by whole lines, or "".
    """

    name: str
    do: Callable[[Path, Path], None]
    results: tuple[str, ...] = ()
    journal: str = ""

    def contents(self, folder: Path) -> Contents:
        """Return what is to be the same: files, and a journal's records in any order."""
        found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != self.journal}
        if self.journal and (folder / self.journal).exists():
            found[self.journal] = b"\n".join(sorted(records(folder / self.journal)))
        return found


def records(journal: Path) -> list[bytes]:
    """Return the records of a journal."""
    return [json.dumps(record).encode() for record in Journal(journal).records()]


def make_inputs(folder: Path) -> None:
    """Make tables, and a model of one of them."""
    for seed, (name, n_rows) in enumerate(ROWS.items()):
        parts(n_rows, seed).to_csv(folder / f"{name}.csv", index=False)
    with redirect_stdout(io.StringIO()):
        command("fit", folder / "good.csv", "-o", folder / "model.slab", "--id", "serial")


def command(*arguments: object) -> None:
    """Run a subcommand.

    Raises
    ------
    SystemExit
        It ended with another status than 0.
    """
    try:
        slabsvm([str(argument) for argument in arguments], standalone_mode=True)
    except SystemExit as end:
        if end.code:
            raise


def fit(inputs: Path, folder: Path) -> None:
    command("fit", inputs / "good.csv", "-o", folder / "model.slab", "--id", "serial")


def score(inputs: Path, folder: Path) -> None:
    command("score", inputs / "model.slab", inputs / "new.csv", "-o", folder / "scored.csv")


def score_compressed(inputs: Path, folder: Path) -> None:
    command("score", inputs / "model.slab", inputs / "new.csv", "-o", folder / "scored.csv.gz", "--reasons", "0")


def inspect(inputs: Path, folder: Path) -> None:
    command("inspect", inputs / "model.slab", "--html", folder / "model.html")


def save_model(inputs: Path, folder: Path) -> None:
    save(load(inputs / "model.slab"), folder / "saved.slab")


def picture(_: Path, folder: Path) -> None:
    with figure(folder / "picture.png", 4, 3) as drawing:
        drawing.add_subplot().plot(np.arange(9.0))


def demo(_: Path, folder: Path) -> None:
    command("demo", "--output", folder)


def reproduce(_: Path, folder: Path, *further: str) -> None:
    """Reproduce the toy experiment with two draws of one covariance, as its tests do."""
    toy.DRAWS = range(2)
    toy.SHAPES = {"round": toy.SHAPES["round"]}
    toy.READINGS = toy_report.READINGS = toy.READINGS[:1]
    command("reproduce", "toy", "--output", folder, "--jobs", "1", *further)


def reproduce_without_figures(inputs: Path, folder: Path) -> None:
    reproduce(inputs, folder, "--no-figures")


PICTURES = ("toy-epsilon.png", "toy-slabs.png", "toy-distances.png")
WORKS = {
    work.name: work
    for work in (
        Work("reproduce", reproduce_without_figures, ("toy.csv", "toy.md", "toy.html"), "toy.jsonl"),
        Work("reproduce with figures", reproduce, ("toy.csv", "toy.md", "toy.html", *PICTURES), "toy.jsonl"),
        Work("score", score, ("scored.csv",)),
        Work("score to .gz", score_compressed, ("scored.csv.gz",)),
        Work("fit", fit, ("model.slab",)),
        Work("inspect", inspect, ("model.html",)),
        Work("demo", demo, ("digits.html", "digits.csv")),
        Work("save", save_model, ("saved.slab",)),
        Work("picture", picture, ("picture.png",)),
    )
}
