"""Runs that are killed, some of them several times, and then go on to their end."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from machine.children import Changes, Ended, done, ended, started
from machine.works import Contents, Work, make_inputs, records

Record = dict[str, Any]

# A run is killed so often at most, and then left alone.
MOST_KILLS = 3
EARLIER = b"what was there before\n"
LEFT = ".part"


class Killing:
    """One work, unbroken once, and killed in further runs.

    Parameters
    ----------
    work : Work
    inputs : Path
        The folder of what it reads.
    base : Path
        An empty folder, in which each run has its own.
    """

    def __init__(self, work: Work, inputs: Path, base: Path) -> None:
        self.work, self.inputs, self.base = work, inputs, base
        self.log = base / "said"
        folder = self._folder("unbroken")
        # Once for what is compiled and imported, and once for the time.
        for _ in range(2):
            self._clear(folder)
            self.unbroken = self._whole(folder)
        self.contents: Contents = work.contents(folder)
        self.known = set(records(folder / work.journal)) if work.journal else set()
        self._clear(folder)
        self.n_changes = self._count(folder)

    def run(self, generator: np.random.Generator) -> Record:
        """Kill a run once or several times, let it end, and say what was found."""
        folder = self._folder("killed")
        self._clear(folder)
        # Every other run finds files of an earlier one in the places of its results.
        if generator.random() < 0.5:
            for name in self.work.results:
                (folder / name).write_bytes(EARLIER)
        kills, faults = [], []
        for _ in range(generator.integers(1, MOST_KILLS + 1)):
            before = self.work.contents(folder)
            if generator.random() < 0.5:
                after = float(generator.uniform(0.0, self.unbroken.seconds))
                found = self._killed(folder, after, None)
                moment = "clock"
            else:
                found = self._killed(folder, None, int(generator.integers(1, self.n_changes + 1)))
                moment = "change"
            kills.append({"moment": moment, "found": self._found(folder, before, found)})
            faults += self._half_written(folder)
            if found.killed:
                continue
            if found.status:
                faults.append(f"it ended with {found.status}: {found.said[-300:]}")
            break
        last = self._do(folder)
        if last.status:
            faults.append(f"the last run ended with {last.status}: {last.said[-300:]}")
        if (contents := self.work.contents(folder)) != self.contents:
            names = {name for name in {*contents, *self.contents} if contents.get(name) != self.contents.get(name)}
            faults.append(f"these differ in the end, or are left: {sorted(names)}")
        return {"kills": kills, "faults": faults}

    def _found(self, folder: Path, before: Contents, how: Ended) -> str:
        """Say at which point of its work a process was found."""
        if not how.killed:
            return "ended"
        contents = self.work.contents(folder)
        if contents == self.contents:
            return "all"
        return "nothing" if contents == before else "part"

    def _half_written(self, folder: Path) -> list[str]:
        """Return what is wrong with the files under their final names."""
        wrong = []
        for name in self.work.results:
            path = folder / name
            if path.exists() and path.read_bytes() not in (EARLIER, self.contents.get(name)):
                wrong.append(f"{name} is neither what was there nor what is to be")
        if self.work.journal and not set(records(folder / self.work.journal)) <= self.known:
            wrong.append(f"{self.work.journal} has records that an unbroken run has not")
        return wrong

    def _whole(self, folder: Path) -> Ended:
        found = self._do(folder)
        if found.status:
            raise RuntimeError(f"{self.work.name} fails unbroken: {found.said}")
        return found

    def _do(self, folder: Path) -> Ended:
        return done(partial(self.work.do, self.inputs, folder), self.log)

    def _count(self, folder: Path) -> int:
        """Return how many changes an unbroken run makes in its folder."""
        counted = self.base / "changes"

        def do() -> None:
            changes = Changes(folder, None)
            changes.watch()
            self.work.do(self.inputs, folder)
            counted.write_text(str(changes.number))

        if done(do, self.log).status:
            raise RuntimeError(f"{self.work.name} fails when it is watched: {self.log.read_text()}")
        return int(counted.read_text())

    def _killed(self, folder: Path, after: float | None, change: int | None) -> Ended:
        def do() -> None:
            if change is not None:
                Changes(folder, change).watch()
            self.work.do(self.inputs, folder)

        return ended(started(do, self.log), self.log, after=after)

    def _folder(self, name: str) -> Path:
        found = self.base / name
        found.mkdir(exist_ok=True)
        return found

    @staticmethod
    def _clear(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.mkdir()


def killed(work: Work, runs: int, seed: int) -> Record:
    """Return what became of so many runs of a work; each has a generator of its own, of the seed and its number."""
    with TemporaryDirectory(prefix="slabsvm-faults-") as base:
        inputs = Path(base) / "inputs"
        inputs.mkdir()
        make_inputs(inputs)
        own = Path(base) / "own"
        own.mkdir()
        killing = Killing(work, inputs, own)
        found = [killing.run(np.random.default_rng([seed, number])) for number in range(runs)]
    kills = [kill for run in found for kill in run["kills"]]
    faults = [fault for run in found for fault in run["faults"]]
    counts = Counter(kill["found"] for kill in kills)
    return {
        "section": "kills",
        "what": work.name,
        "seed": seed,
        "runs": runs,
        "kills": sum(counts[name] for name in ("nothing", "part", "all")),
        "by_clock": sum(kill["moment"] == "clock" and kill["found"] != "ended" for kill in kills),
        "at_changes": sum(kill["moment"] == "change" and kill["found"] != "ended" for kill in kills),
        "too_late": counts["ended"],
        "nothing_written": counts["nothing"],
        "part_written": counts["part"],
        "all_written": counts["all"],
        "same_in_the_end": sum(not run["faults"] for run in found),
        "faults": faults,
    }
