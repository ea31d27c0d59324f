"""Kill, fill, forbid and share: everything that writes or computes elsewhere, in the middle of its work.

    python campaigns/faults.py                  # all, in some 40 minutes
    python campaigns/faults.py --only kills     # or workers, disks, together, cache
    python campaigns/faults.py --read           # the tables of what was found

Kills: runs are forked from a process that has imported all they need, so that SIGKILL meets their work and not its
imports. Half of the kills come at a moment that is drawn of the time that an unbroken run takes; the others at a change
of a file that is drawn of all that it makes (a name that appears, changes or goes, or a write, of which half is done).
A run is killed up to three times, half of the runs in a folder with files of an earlier one; then it goes on to its
end, and what the folder holds is compared with what an unbroken run has made, byte by byte: of journals the records,
without times. A file under a final name is at all times what was there before or what is to be.

Disks: of 1 MB in memory (tmpfs, mounted by root or in a namespace of users, `unshare -rm`), filled up to what a run
may write; the same mounted read-only; and a folder of 0555 for a user that is nobody.

Every draw is made of --seed and the number of the run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# The harness and the tests' tables are no part of any distribution.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
sys.path.append(str(Path(__file__).parents[1] / "tests"))
from harness import Benchmark, Case, Options, Record, Table, in_own_process, tables
from machine.caches import caches
from machine.clusters import killed_workers
from machine.disks import in_a_namespace
from machine.kills import killed
from machine.together import at_once
from machine.works import WORKS

RUNS = {"reproduce": 30, "score": 20, "score to .gz": 10, "fit": 15}
RUNS |= {"reproduce with figures": 4, "inspect": 4, "demo": 6, "save": 10}
PAIRS = {"reproduce": 10, "score": 20, "fit": 20}


def by_name(function: Callable[..., Any], name: str, *arguments: int) -> Any:
    """Call a function with a work."""
    return function(WORKS[name], *arguments)


def cases(options: Options) -> Iterator[Case]:
    # Read by processes of their own when they import NumPy: one that is forked has no threads.
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    seed = options.seed
    yield f"workers, seed {seed}", partial(killed_workers, seed)
    for name, most in RUNS.items():
        runs = options.runs or most
        yield f"kills: {name}, {runs} runs, seed {seed}", partial(in_own_process, by_name, killed, name, runs, seed)
    for name in WORKS:
        yield f"disks: {name}, seed {seed}", partial(in_a_namespace, name, seed)
    for name, most in PAIRS.items():
        pairs = options.runs or most
        yield (
            f"together: {name}, {pairs} pairs, seed {seed}",
            partial(in_own_process, by_name, at_once, name, pairs, seed),
        )
    yield f"cache, seed {seed}", partial(in_own_process, caches, seed)


def faults_of(record: Record) -> str:
    return "; ".join(dict.fromkeys(record["faults"])) or "none"


report = tables(
    Table(
        "killed | runs | kills | by the clock | at changes | nothing written yet | part written | all written | "
        "too late | same in the end | faults",
        lambda r: (
            f"{r['what']} | {r['runs']} | {r['kills']} | {r['by_clock']} | {r['at_changes']} | "
            f"{r['nothing_written']} | {r['part_written']} | {r['all_written']} | {r['too_late']} | "
            f"{r['same_in_the_end']} | {faults_of(r)}"
        ),
        "lrrrrrrrrrl",
        "kills",
    ),
    Table("a worker dies in | faults", lambda r: f"{r['what']} | {faults_of(r)}", "ll", "workers"),
    Table(
        "no room for | where | bytes | faults",
        lambda r: f"{r['what']} | {r['how']} | {r['bytes']:,} | {faults_of(r)}",
        "llrl",
        "disks",
    ),
    Table(
        "two at once | pairs | refused | faults",
        lambda r: f"{r['what']} | {r['pairs']} | {r['refused']} | {faults_of(r)}",
        "lrrl",
        "together",
    ),
    Table("the compilation cache | faults", lambda r: f"{r['what']} | {faults_of(r)}", "ll", "cache"),
)


if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        report,
        keys=("section", "what", "how"),
        whole=lambda options: not options.runs,
        arguments={
            "--seed": {"type": int, "default": 0, "help": "of all draws [%(default)s]"},
            "--runs": {"type": int, "default": 0, "help": "so many runs, or pairs, of each work"},
        },
    ).main()
