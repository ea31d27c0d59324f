"""Long fits and predictions that are interrupted: how soon they answer, and what they leave."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

import many
from harness import Record
from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OpenSetClassifier,
)

MOMENTS = 8


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
    "descent, a tight gap": lambda: (OneClassSlabSVM(gamma="scale", tol=1e-6, calibration="training"), cloud(5000)),
    "all of K": lambda: (OneClassSlabSVM(gamma=3.0), cloud(8000)),
    "leave-one-out, one feature": lambda: (OneClassSlabSVM(gamma=1.0), cloud(2000, 1)),
    "leave-one-out, a large factor": lambda: (OneClassSlabSVM(gamma=0.5), cloud(2000)),
    "chi2 kernel": lambda: (OneClassSlabSVM(kernel="chi2"), cloud(4000, 30)),
    "SVDD": lambda: (SVDD(gamma=1.0), cloud(4000)),
    "precomputed matrix": lambda: (OneClassSlabSVM(kernel="precomputed"), _precomputed(4000)),
    "eigenvectors of kernel PCA": lambda: (KernelPCADetector(), cloud(1800)),
    "kernel density": lambda: (KernelDensityDetector(), cloud(8000)),
    "average": lambda: (AutoDetector(), cloud(3000)),
    "average of drawn rows": lambda: (AutoDetector(max_rows=500), cloud(50_000)),
    "open set, 2 jobs": lambda: (OpenSetClassifier(OneClassSlabSVM(gamma=0.5), n_jobs=2), cloud(6000)),
    "calibrated": lambda: (ConformalDetector(OneClassSlabSVM()), cloud(6000)),
}


def interrupted(act: Callable[[], Any], moments: np.ndarray) -> list[tuple[float, float]]:
    """Return seconds until each interruption was answered, by the clock and of the processor."""
    found = []
    for moment in moments:
        begin, cpu = time.perf_counter(), time.process_time()
        try:
            with many.interrupted_after(float(moment)) as late:
                act()
        except KeyboardInterrupt:
            seconds = late()
            share = min(1.0, (time.process_time() - cpu) / (time.perf_counter() - begin))
            found.append((seconds, seconds * share))
    return found


def interruption(name: str) -> Record:
    """Interrupt a long fit of a model that has been fitted to other rows before."""
    warnings.simplefilter("ignore")
    model, X = LONG[name]()
    few = X[:100, :100] if name == "precomputed matrix" else X[:100]
    many.fitted(model, few)
    before = dict(vars(model))
    begin, cpu = time.perf_counter(), time.process_time()
    many.fitted(clone(model), X)
    lasting, cpu = time.perf_counter() - begin, time.process_time() - cpu
    moments = np.random.default_rng(0).uniform(0.02, 1.0, MOMENTS) * lasting
    n_broken = 0

    def fit() -> None:
        nonlocal n_broken
        try:
            many.fit(model, X)
        finally:
            now = vars(model)
            kept = now.keys() == before.keys() and all(now[key] is value for key, value in before.items())
            # Of a new state nothing is the old one's but numbers, of which equal ones may be one object.
            old = {id(value) for key, value in before.items() if key[-1] == "_" and not np.isscalar(value)}
            n_broken += not kept and any(id(value) in old for value in now.values())
            now.clear()
            now.update(before)

    return _interruption_record(name, cpu, interrupted(fit, moments), n_broken)


def prediction() -> Record:
    """Interrupt predictions of many rows."""
    model, X = OneClassSlabSVM(gamma=0.5).fit(cloud(3000)), cloud(200_000)
    begin, cpu = time.perf_counter(), time.process_time()
    model.predict(X)
    lasting, cpu = time.perf_counter() - begin, time.process_time() - cpu
    moments = np.random.default_rng(0).uniform(0.02, 1.0, MOMENTS) * lasting
    return _interruption_record("predictions of 200,000 rows", cpu, interrupted(lambda: model.predict(X), moments), 0)


def _interruption_record(what: str, cpu: float, found: list[tuple[float, float]], n_broken: int) -> Record:
    clock, processor = np.array(found).reshape(-1, 2).T
    return {
        "section": "interruption",
        "what": what,
        "fit_cpu": rounded(cpu),
        "interrupted": len(found),
        "median": rounded(np.median(clock)),
        "worst": rounded(clock.max(initial=0.0)),
        "worst_cpu": rounded(processor.max(initial=0.0)),
        "broken": n_broken,
    }


def rounded(seconds: float) -> float | None:
    return None if np.isnan(seconds) else round(float(seconds), 2)
