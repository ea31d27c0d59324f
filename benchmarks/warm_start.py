"""What warm starts save along a path of nus or gammas, against independent fits in the same run.

    python benchmarks/warm_start.py

Prints a table and writes results/warm_start.json. The data are generated; medians of interleaved repetitions.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from slabsvm import OneClassSlabSVM
from speed import clouds

RESULTS = Path(__file__).parent / "results" / "warm_start.json"
REPEATS = 5
PATHS: dict[str, list[dict[str, float]]] = {
    "nu_lower .02 to .3": [{"nu_lower": float(nu)} for nu in np.linspace(0.02, 0.3, 12)],
    "gamma .25 to 4 times scale": [{"gamma": float(times)} for times in np.geomspace(0.25, 4, 12)],
}


def seconds_and_steps(
    X: np.ndarray, path: list[dict[str, float]], scale: float, **parameters: Any
) -> tuple[float, int]:
    """Return the time and the solver's steps of all fits on the path."""
    model = OneClassSlabSVM(nu_upper=0.05, gamma=scale, offsets="training", **parameters).fit(X)
    steps, begin = 0, time.perf_counter()
    for changes in path:
        scaled = {name: value * scale if name == "gamma" else value for name, value in changes.items()}
        steps += model.set_params(**scaled).fit(X).n_iter_
    return time.perf_counter() - begin, steps


def main() -> None:
    warnings.simplefilter("ignore")
    records = []
    print("| path of 12 | samples | epsilon | independent / warm | steps, independent | steps, warm |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, path in PATHS.items():
        for m in (750, 5_000):
            X = clouds(m, 16)
            scale = 1.0 / (16 * X.var())
            for epsilon in (0.0, 2 / 3):
                times: dict[bool, list[float]] = {False: [], True: []}
                steps = {}
                for _ in range(REPEATS):
                    for warm in (False, True):
                        taken, steps[warm] = seconds_and_steps(X, path, scale, epsilon=epsilon, warm_start=warm)
                        times[warm].append(taken)
                ratio = float(np.median(times[False]) / np.median(times[True]))
                records.append(
                    {"path": name, "m": m, "epsilon": epsilon, "ratio": ratio, "steps": [steps[False], steps[True]]}
                )
                print(
                    f"| {name} | {m:,} | {epsilon:.2g} | {ratio:.1f} | {steps[False]:,} | {steps[True]:,} |", flush=True
                )
    RESULTS.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
