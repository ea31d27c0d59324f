"""What a search saves against scikit-learn's GridSearchCV with independent fits, over the same grid and folds.

    python benchmarks/selection_speed.py

GridSearchCV is given the same synthetic outliers, made once, and a scorer that shows them: it repeats the fits alone.
One thread, one BLAS thread; the least processor time of interleaved repetitions. The data are bundled or generated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Options, Record, Table, interleaved, tables
from samples import clouds
from slabsvm import LabelFreeSearchCV, OneClassSlabSVM, OneClassSVM
from slabsvm.detectors.answers import answer
from slabsvm.selection.criteria import TightestAtRecall

REPEATS = 2
CRITERION = TightestAtRecall()
MODELS = {"nu_lower": OneClassSlabSVM(), "nu": OneClassSVM()}


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
    splits = search._splits(X)
    made = {X[split.held_out].tobytes(): split.outliers for split in splits}

    def scorer(fitted: Any, held_out: np.ndarray, y: None = None) -> dict[str, float]:
        del y
        outliers = made[held_out.tobytes()]
        return CRITERION.measure(answer(fitted, held_out), answer(fitted, outliers.X), outliers)

    def choose(results: dict[str, Any]) -> int:
        means = {name: results[f"mean_test_{name}"] for name in ("recall", "acceptance")}
        scores = CRITERION.scores(means, results["params"], len(X))
        best = np.flatnonzero(scores == scores.max())
        return int(best[np.argmax(means["recall"][best])])

    folds = [(split.train, split.held_out) for split in splits]
    return GridSearchCV(model, grid, scoring=scorer, refit=choose, cv=folds)


@threadpool_limits.wrap(limits=1, user_api="blas")
def measure(data: str, X: np.ndarray, nus: str) -> Record:
    model, scale = MODELS[nus], 1.0 / (X.shape[1] * X.var())
    grid = {"gamma": [scale * 2.0**power for power in range(-2, 6)], nus: [0.02, 0.05, 0.1, 0.2]}

    def search(**changes: Any) -> LabelFreeSearchCV:
        return LabelFreeSearchCV(model, grid, criterion=CRITERION, **changes).fit(X)

    contenders = {
        "grid": lambda: naive(model, grid, X).fit(X),
        "folds": search,
        "fold-free": partial(search, cv="leave-one-out"),
    }
    taken, searches = interleaved(contenders, REPEATS, warm_up=False, clock=time.process_time)
    least = {contender: min(seconds) for contender, seconds in taken.items()}
    best = {contender: fitted.best_params_ for contender, fitted in searches.items()}
    return {"data": data, "m": len(X), "model": type(model).__name__, "seconds": least, "best": best}


def row(record: Record) -> str:
    seconds, best = record["seconds"], record["best"]
    ratios = " | ".join(
        f"{seconds['grid'] / seconds[w]:.1f} | {best[w] == best['grid']}" for w in ("folds", "fold-free")
    )
    return f"{record['data']} | {record['m']} | {record['model']} | {seconds['grid']:.2f} | {ratios}"


def cases(_: Options) -> Iterator[Case]:
    for data, X in data_sets().items():
        for nus, model in MODELS.items():
            yield f"{data}, {type(model).__name__}", partial(measure, data, X, nus)


HEAD = "data | rows | model | GridSearchCV, s | ratio, 5 folds | same choice | ratio, fold-free | same choice"

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(Table(HEAD, row, "lrlrrlrl")), keys=("data", "model")).main()
