"""Two runs that work in one folder at once."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from machine.children import done, ended, started
from machine.works import Work, make_inputs, records

Record = dict[str, Any]

# What a run is told that may not go on.
REFUSED = "Another run is at work on"


def at_once(work: Work, rounds: int, seed: int) -> Record:
    """Return what became of so many pairs of runs; the second begins up to the length of a run later."""
    faults: list[str] = []
    refused = 0
    with TemporaryDirectory(prefix="slabsvm-faults-") as base:
        inputs, folder, log = Path(base) / "inputs", Path(base) / "results", Path(base) / "said"
        inputs.mkdir()
        make_inputs(inputs)
        do = partial(work.do, inputs, folder)
        for _ in range(2):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if (unbroken := done(do, log)).status:
                raise RuntimeError(f"{work.name} fails unbroken: {unbroken.said}")
        expected = _contents(work, folder)
        for number in range(rounds):
            shutil.rmtree(folder)
            folder.mkdir()
            generator = np.random.default_rng([seed, number])
            logs = [Path(base) / name for name in ("first", "second")]
            first = started(do, logs[0])
            time.sleep(float(generator.uniform(0.0, unbroken.seconds)) if number % 2 else 0.0)
            second = started(do, logs[1])
            both = [ended(process, log) for process, log in zip((first, second), logs, strict=True)]
            told = [run for run in both if REFUSED in run.said]
            refused += len(told)
            faults += [
                f"it ended with {run.status}: {run.said[-300:]}" for run in both if run.status and run not in told
            ]
            if len(told) == len(both):
                faults.append("both were refused")
            if _contents(work, folder) != expected:
                faults.append("the results differ from those of one run alone")
    return {
        "section": "together",
        "what": work.name,
        "seed": seed,
        "pairs": rounds,
        "refused": refused,
        "faults": faults,
    }


def _contents(work: Work, folder: Path) -> Any:
    """Return what must be the same; a record that both have made counts once."""
    found: dict[str, Any] = dict(work.contents(folder))
    if work.journal:
        found[work.journal] = set(records(folder / work.journal))
    return found
