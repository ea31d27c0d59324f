"""What a search saves against scikit-learn's GridSearchCV with independent fits, over the same grid and folds.

    python benchmarks/selection_speed.py

GridSearchCV is given the same strangers, made once, and a scorer that shows them: it repeats nothing but the fits. One
thread, one BLAS thread; the least processor time of interleaved repetitions. Prints a table and writes
results/selection_speed.json. The data are bundled or generated.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from slabsvm import LabelFreeSearchCV, OneClassSlabSVM, OneClassSVM
from slabsvm.selection.criteria import TightestAtRecall
from slabsvm.selection.judging import answer
from speed import clouds

RESULTS = Path(__file__).parent / "results" / "selection_speed.json"
REPEATS = 2
CRITERION = TightestAtRecall()


def data_sets() -> dict[str, np.ndarray]:
    """Return positives: as many as a letter has, digits, and rows of many features."""
    digits, labels = load_digits(return_X_y=True)
    generator = np.random.default_rng(0)
    wide = generator.normal(size=(600, 20)) @ generator.normal(size=(20, 784)) + generator.normal(size=(600, 784))
    return {
        "clouds, 16 features": clouds(600, 16),
        "digits 0 to 4, 64 features": digits[labels < 5] / 16,
        "factors, 784 features": wide,
    }


def naive(model: Any, grid: dict[str, Any], X: np.ndarray) -> GridSearchCV:
    """Return GridSearchCV with the criterion as its scorer, ready to fit."""
    search = LabelFreeSearchCV(model, grid, criterion=CRITERION)
    search.criterion_ = CRITERION
    parts = search._parts(X)
    made = {X[part.held_out].tobytes(): part.strangers for part in parts}

    def scorer(fitted: Any, held_out: np.ndarray, y: None = None) -> dict[str, float]:
        del y
        strangers = made[held_out.tobytes()]
        return CRITERION.measure(answer(fitted, held_out), answer(fitted, strangers.X), strangers)

    def choose(results: dict[str, Any]) -> int:
        means = {name: results[f"mean_test_{name}"] for name in ("recall", "acceptance")}
        scores = CRITERION.scores(means, results["params"], len(X))
        best = np.flatnonzero(scores == scores.max())
        return int(best[np.argmax(means["recall"][best])])

    return GridSearchCV(model, grid, scoring=scorer, refit=choose, cv=[(part.train, part.held_out) for part in parts])


def main() -> None:
    warnings.simplefilter("ignore")
    records = []
    print("| data | rows | model | GridSearchCV, s | ratio, 5 folds | same choice | ratio, fold-free | same choice |")
    print("| --- | ---: | --- | ---: | ---: | --- | ---: | --- |")
    with threadpool_limits(1, "blas"):
        for name, X in data_sets().items():
            scale = 1.0 / (X.shape[1] * X.var())
            gammas = [scale * 2.0**power for power in range(-2, 6)]
            for model, nus in ((OneClassSlabSVM(), "nu_lower"), (OneClassSVM(), "nu")):
                grid = {"gamma": gammas, nus: [0.02, 0.05, 0.1, 0.2]}
                contenders: dict[str, Callable[[], Any]] = {
                    "grid": lambda model=model, grid=grid, X=X: naive(model, grid, X).fit(X),
                    "folds": lambda model=model, grid=grid, X=X: LabelFreeSearchCV(
                        model, grid, criterion=CRITERION
                    ).fit(X),
                    "fold-free": lambda model=model, grid=grid, X=X: LabelFreeSearchCV(
                        model, grid, criterion=CRITERION, cv="leave-one-out"
                    ).fit(X),
                }
                seconds: dict[str, list[float]] = {contender: [] for contender in contenders}
                best = {}
                for _ in range(REPEATS):
                    for contender, fit in contenders.items():
                        begin = time.process_time()
                        best[contender] = fit().best_params_
                        seconds[contender].append(time.process_time() - begin)
                least = {contender: min(times) for contender, times in seconds.items()}
                record = {"data": name, "m": len(X), "model": type(model).__name__, "seconds": least, "best": best}
                records.append(record)
                print(
                    f"| {name} | {len(X)} | {type(model).__name__} | {least['grid']:.2f} "
                    f"| {least['grid'] / least['folds']:.1f} | {best['folds'] == best['grid']} "
                    f"| {least['grid'] / least['fold-free']:.1f} | {best['fold-free'] == best['grid']} |",
                    flush=True,
                )
    RESULTS.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
