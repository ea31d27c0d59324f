"""What a path of nus or gammas costs: independent fits, `warm_start=True`, and `fit_path`, in the same run.

    python benchmarks/warm_start.py

The data are generated; medians of the processor time of interleaved repetitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from harness import Benchmark, Case, Options, Record, Table, interleaved, tables
from samples import clouds
from slabsvm import OneClassSlabSVM, fit_path

REPEATS = 3
SIZES = ((750, 16), (5_000, 16), (1_000, 784), (3_000, 784))
PATHS: dict[str, tuple[str, np.ndarray]] = {
    "nu_lower .02 to .3": ("nu_lower", np.linspace(0.02, 0.3, 12)),
    "gamma .25 to 4 times scale": ("gamma", np.geomspace(0.25, 4, 12)),
}


def independent(model: OneClassSlabSVM, X: np.ndarray, name: str, values: np.ndarray) -> int:
    """Fit at each value; return the solver's steps in all."""
    return sum(model.set_params(**{name: value}).fit(X).n_iter_ for value in values)


def warm(model: OneClassSlabSVM, X: np.ndarray, name: str, values: np.ndarray) -> int:
    return independent(model.set_params(warm_start=True), X, name, values)


def along_path(model: OneClassSlabSVM, X: np.ndarray, name: str, values: np.ndarray) -> int:
    return sum(fitted.n_iter_ for fitted in fit_path(model, X, **{name: values}))


WAYS: dict[str, Callable[[OneClassSlabSVM, np.ndarray, str, np.ndarray], int]] = {
    "independent": independent,
    "warm_start": warm,
    "fit_path": along_path,
}


def measure(path: str, m: int, d: int, epsilon: float) -> Record:
    name, values = PATHS[path]
    X = clouds(m, d)
    scale = 1.0 / (d * X.var())
    asked = values * scale if name == "gamma" else values

    def fitted(fit: Callable[..., int]) -> int:
        model = OneClassSlabSVM(nu_upper=0.05, gamma=scale, epsilon=epsilon, offsets="training")
        return fit(model, X, name, asked)

    ways = {way: partial(fitted, fit) for way, fit in WAYS.items()}
    taken, steps = interleaved(ways, REPEATS, clock=time.process_time)
    seconds = {way: float(np.median(times)) for way, times in taken.items()}
    return {"path": path, "m": m, "d": d, "epsilon": epsilon, "seconds": seconds, "steps": steps}


def row(record: Record) -> str:
    seconds, base = record["seconds"], record["seconds"]["independent"]
    steps = " | ".join(f"{record['steps'][way]:,}" for way in WAYS)
    return (
        f"{record['path']} | {record['m']:,} x {record['d']} | {record['epsilon']:.2g} | {base:.2f} s "
        f"| {base / seconds['warm_start']:.1f} | {base / seconds['fit_path']:.1f} | {steps}"
    )


def cases(_: Options) -> Iterator[Case]:
    for path in PATHS:
        for m, d in SIZES:
            for epsilon in (0.0, 2 / 3):
                yield f"{path}, {m} x {d}, epsilon {epsilon:.2g}", partial(measure, path, m, d, epsilon)


HEAD = "path of 12 | samples | epsilon | independent | / warm_start | / fit_path | steps | warm_start | fit_path"

if __name__ == "__main__":
    keys = ("path", "m", "d", "epsilon")
    Benchmark(__file__, __doc__, cases, tables(Table(HEAD, row)), keys=keys).main()
