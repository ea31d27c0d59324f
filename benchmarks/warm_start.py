"""What a path of nus or gammas costs: independent fits, `warm_start=True`, and `fit_path`, in the same run.

    python benchmarks/warm_start.py

Prints a table and writes results/warm_start.json. The data are generated; medians of interleaved repetitions.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from slabsvm import OneClassSlabSVM, fit_path
from speed import clouds

RESULTS = Path(__file__).parent / "results" / "warm_start.json"
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


def main() -> None:
    warnings.simplefilter("ignore")
    records = []
    print(
        "| path of 12 | samples | epsilon | independent | / warm_start | / fit_path | steps | warm_start | fit_path |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for path, (name, values) in PATHS.items():
        for m, d in SIZES:
            X = clouds(m, d)
            scale = 1.0 / (d * X.var())
            asked = values * scale if name == "gamma" else values
            for epsilon in (0.0, 2 / 3):
                times: dict[str, list[float]] = {way: [] for way in WAYS}
                steps = {}
                for repeat in range(REPEATS + 1):
                    for way, fit in WAYS.items():
                        model = OneClassSlabSVM(nu_upper=0.05, gamma=scale, epsilon=epsilon, offsets="training")
                        begin = time.perf_counter()
                        steps[way] = fit(model, X, name, asked)
                        if repeat:
                            times[way].append(time.perf_counter() - begin)
                seconds = {way: float(np.median(taken)) for way, taken in times.items()}
                record = {"path": path, "m": m, "d": d, "epsilon": epsilon, "seconds": seconds, "steps": steps}
                records.append(record)
                base = seconds["independent"]
                print(
                    f"| {path} | {m:,} x {d} | {epsilon:.2g} | {base:.2f} s | {base / seconds['warm_start']:.1f} "
                    f"| {base / seconds['fit_path']:.1f} | {' | '.join(f'{steps[way]:,}' for way in WAYS)} |",
                    flush=True,
                )
    RESULTS.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
