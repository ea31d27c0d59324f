"""Long calls interrupted, and calls repeated hundreds of times: are states and memory what is promised?

    python campaigns/concurrency.py [--only interruption]

An interruption is a signal that Python answers as it answers Ctrl-C; its seconds are from the moment when the signal
was due until the call has raised. Memory is the process's resident memory.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.base import clone

import slabsvm
from slabsvm import OneClassSlabSVM
from slabsvm.files import load, save

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
sys.path.append(str(Path(__file__).parents[1] / "tests"))
import many
from harness import Benchmark, Case, Options, Record, Table, in_own_process, tables

CYCLES, MOMENTS = 500, 6
PAGE = os.sysconf("SC_PAGE_SIZE")


# Interrupted


def cloud(m: int, d: int = 8) -> np.ndarray:
    """Return m rows around ten places."""
    random = np.random.default_rng(0)
    return np.abs(random.normal(0.0, 3.0, (10, d))[random.integers(10, size=m)] + random.normal(size=(m, d)))


def _precomputed(m: int) -> np.ndarray:
    X = cloud(m)
    lengths = (X**2).sum(axis=1)
    return np.exp(-0.05 * (lengths[:, None] + lengths - 2 * (X @ X.T)))


# A model and rows whose fit takes a second of a processor or more; what long call there is, in words.
LONG: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "descent, a tight gap": lambda: (
        OneClassSlabSVM(gamma="scale", tol=1e-6, calibration="training"),
        cloud(5000),
    ),
    "all of K": lambda: (OneClassSlabSVM(gamma=3.0), cloud(8000)),
    "leave-one-out, one feature": lambda: (OneClassSlabSVM(gamma=1.0), cloud(2000, 1)),
    "leave-one-out, a large factor": lambda: (OneClassSlabSVM(gamma=0.5), cloud(2000)),
    "chi2 kernel": lambda: (OneClassSlabSVM(kernel="chi2"), cloud(4000, 30)),
    "SVDD": lambda: (slabsvm.SVDD(gamma=1.0), cloud(4000)),
    "precomputed matrix": lambda: (OneClassSlabSVM(kernel="precomputed"), _precomputed(4000)),
    "eigenvectors of kernel PCA": lambda: (slabsvm.KernelPCADetector(), cloud(1800)),
    "kernel density": lambda: (slabsvm.KernelDensityDetector(), cloud(8000)),
    "average": lambda: (slabsvm.AutoDetector(), cloud(3000)),
    "average of drawn rows": lambda: (slabsvm.AutoDetector(max_rows=500), cloud(50_000)),
    "open set, 2 jobs": lambda: (slabsvm.OpenSetClassifier(OneClassSlabSVM(gamma=0.5), n_jobs=2), cloud(6000)),
    "calibrated": lambda: (slabsvm.ConformalDetector(OneClassSlabSVM()), cloud(6000)),
}


def interruption(name: str) -> Record:
    """Interrupt a long fit of a model that has been fitted to other rows before."""
    model, X = LONG[name]()
    few = X[:100, :100] if name == "precomputed matrix" else X[:100]
    many.fitted(model, few)
    before = dict(vars(model))
    n_broken = 0

    def fit() -> None:
        nonlocal n_broken
        try:
            many.fit(model, X)
        finally:
            now = vars(model)
            kept = now.keys() == before.keys() and all(now[key] is value for key, value in before.items())
            # Of a new state nothing is the old one's but None and numbers, of which equal ones may be one object.
            learned = [value for key, value in before.items() if key[-1] == "_"]
            old = {id(value) for value in learned if value is not None and not np.isscalar(value)}
            n_broken += not kept and any(id(value) in old for value in now.values())
            now.clear()
            now.update(before)

    return interruptions(name, lambda: many.fitted(clone(model), X), fit) | {"broken": n_broken}


def prediction() -> Record:
    model, X = OneClassSlabSVM(gamma=0.5).fit(cloud(3000)), cloud(200_000)
    return interruptions("predictions of 200,000 rows", lambda: model.predict(X), lambda: model.predict(X))


def interruptions(what: str, whole: Callable[[], Any], act: Callable[[], Any]) -> Record:
    """Interrupt an act at random moments, of which the whole says how long it takes; return the slowest answer."""
    begin, waited = time.perf_counter(), []
    whole()
    lasting = time.perf_counter() - begin
    for moment in np.random.default_rng(0).uniform(0.02, 1.0, MOMENTS) * lasting:
        try:
            with many.interrupted_after(float(moment)) as late:
                act()
        except KeyboardInterrupt:
            waited.append(late())
    worst = round(max(waited, default=0.0), 2)
    return {"section": "interruption", "what": what, "interrupted": len(waited), "worst": worst, "broken": 0}


# Memory


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _fit_and_predict(name: str) -> Callable[[], object]:
    X, prototype = many.rows(0), many.MODELS[name]()
    return lambda: many.fitted(clone(prototype), X).predict(X)


def _load_and_predict() -> Callable[[], object]:
    path = Path(tempfile.mkdtemp()) / "model"
    save(many.fitted(many.MODELS["calibrated"](), many.rows(0)), path)
    return lambda: load(path).predict(many.rows(1))


def _predict_chunks() -> Callable[[], object]:
    model, X = many.fitted(many.MODELS["slab"](), many.rows(0)), many.rows(1, 20_000)
    return lambda: [model.predict(X[first : first + 1000]) for first in range(0, len(X), 1000)]


def _update_monitor() -> Callable[[], object]:
    monitor, X = slabsvm.DriftMonitor(many.fitted(many.MODELS["calibrated"](), many.rows(0))).fit(), many.rows(1)
    return lambda: monitor.update(X)


REPEATED: dict[str, tuple[Callable[[], Callable[[], object]], int]] = {
    **{
        f"fit and predict: {name}": (partial(_fit_and_predict, name), CYCLES // (5 if name == "average" else 1))
        for name in many.MODELS
        if name != "trimmed"
    },
    "load a file and predict": (_load_and_predict, CYCLES),
    "predict 20 chunks": (_predict_chunks, CYCLES),
    "update a monitor": (_update_monitor, CYCLES),
}


def growth(what: str) -> Record:
    """Return how resident memory grows with cycles, after a tenth of them."""
    warnings.simplefilter("ignore")
    make, n_cycles = REPEATED[what]
    cycle = make()
    for _ in range(n_cycles // 10):
        cycle()
    gc.collect()
    sizes = [resident()]
    for number in range(n_cycles):
        cycle()
        if number % (n_cycles // 20) == 0:
            sizes.append(resident())
    slope = np.polyfit(np.linspace(0, n_cycles, len(sizes)), sizes, 1)[0]
    return {"section": "memory", "what": what, "cycles": n_cycles, "slope": round(float(slope), 1)}


def budget(m: int, cache_size: int) -> Record:
    """Return what a fit takes at most, beside what the process had."""
    warnings.simplefilter("ignore")
    X = cloud(m)
    OneClassSlabSVM().fit(X[:700])
    before = resident()
    OneClassSlabSVM(gamma="scale", cache_size=cache_size).fit(X)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"section": "budget", "m": m, "cache_mb": cache_size, "peak_mb": round((peak - before) / 1e6)}


def cases(_: Options) -> Iterator[Case]:
    yield "interruption: prediction", prediction
    for name in LONG:
        yield f"interruption: {name}", partial(interruption, name)
    for what in REPEATED:
        yield f"memory: {what}", partial(in_own_process, growth, what)
    for m, cache in ((2000, 50), (4000, 50), (8000, 50), (4000, 200), (8000, 200)):
        yield f"budget: {m}, {cache} MB", partial(in_own_process, budget, m, cache)


REPORT = tables(
    Table(
        "interrupted | times | worst s | states broken",
        "{what} | {interrupted} | {worst} | {broken}".format_map,
        section="interruption",
    ),
    Table("repeated | cycles | bytes a cycle", "{what} | {cycles} | {slope}".format_map, section="memory"),
    Table("rows | cache_size, MB | most, MB", "{m} | {cache_mb} | {peak_mb}".format_map, section="budget"),
)

if __name__ == "__main__":
    keys = ("section", "what", "m", "cache_mb")
    with parallel_config(n_jobs=1):
        Benchmark(__file__, __doc__, cases, REPORT, keys=keys, alone=("interruption",)).main()
