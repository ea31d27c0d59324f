"""What it costs to add, forget or exchange one row in a hundred of a model, against a full fit of as many rows.

    python benchmarks/updates.py

Updates go on from the last solution, at its gamma; the full fit has the same gamma. The data are generated; medians of
the processor time of interleaved repetitions. The slab of 10,000 rows at the default gamma, of which each fit takes
half a minute, is left out unless --only "slab, gamma neighbours, 10000" asks for it; it has one repetition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import copy
from functools import partial

import numpy as np

from harness import Benchmark, Case, Options, Record, Table, interleaved, tables
from samples import clouds
from slabsvm import OneClassSlabSVM, OneClassSVM, WindowedDetector

REPEATS = 5
# Nearly collapsed.
SLOW = ("slab", "neighbours", 10_000)
SHARE = 100
N_FEATURES = 16
MODELS = {"slab": OneClassSlabSVM, "one plane": OneClassSVM}


def measure(name: str, rule: str, m: int) -> Record:
    X = clouds(m + m // SHARE, N_FEATURES)
    start = WindowedDetector(MODELS[name](gamma=rule)).fit(X[:m])
    gamma = start.estimator_.gamma_

    def added() -> WindowedDetector:
        return copy(start).partial_fit(X[m:])

    def forgotten() -> WindowedDetector:
        return copy(start).forget(start.numbers_[: m // SHARE])

    def moved() -> WindowedDetector:
        return copy(start).set_params(n_rows=m).partial_fit(X[m:])

    def full() -> WindowedDetector:
        return WindowedDetector(MODELS[name](gamma=gamma)).fit(X[-m:])

    slow = (name, rule, m) == SLOW
    ways = {"full": full, "added": added, "forgotten": forgotten, "moved": moved}
    taken, windows = interleaved(ways, 1 if slow else REPEATS, warm_up=not slow, clock=time.process_time)
    objectives = [windows[way].estimator_.dual_objective_ for way in ("full", "moved")]
    return {
        "model": name,
        "gamma": rule,
        "m": m,
        "support": len(windows["full"].estimator_.support_) / m,
        "seconds": {way: float(np.median(times)) for way, times in taken.items()},
        "steps": {way: window.estimator_.n_iter_ for way, window in windows.items()},
        "difference": abs(objectives[1] / objectives[0] - 1.0),
        "largest_gap": max(window.estimator_.relative_gap_ for window in windows.values()),
    }


def row(record: Record) -> str:
    seconds, steps = record["seconds"], record["steps"]
    ratios = " | ".join(f"{seconds[way] / seconds['full']:.2f}" for way in ("added", "forgotten", "moved"))
    return (
        f"{record['model']} | {record['gamma']} | {record['m']:,} | {record['support']:.0%} | {seconds['full']:.3f} s "
        f"| {ratios} | {steps['full']:,} | {steps['moved']:,} | {record['difference']:.0e}"
    )


def cases(options: Options) -> Iterator[Case]:
    # What is compiled when it is first used is no part of a fit.
    for model in MODELS.values():
        WindowedDetector(model()).fit(clouds(1_200, N_FEATURES)).partial_fit(clouds(12, N_FEATURES))
    for m in (1_000, 3_000, 10_000):
        for rule in ("scale", "neighbours"):
            for name in MODELS:
                if (name, rule, m) == SLOW and not options.only:
                    continue
                yield f"{name}, gamma {rule}, {m} rows", partial(measure, name, rule, m)


HEAD = (
    "model | gamma | rows | support vectors | full fit | 1 % added | 1 % forgotten | window moved by 1 % "
    "| steps of a full fit | steps of a move | objectives differ by"
)

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(Table(HEAD, row)), keys=("model", "gamma", "m")).main()
