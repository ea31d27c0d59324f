"""Many at once, interrupted, hundreds of times: are answers, states, memory and bytes what is promised?

    python campaigns/concurrency.py [--only interruption]
    python campaigns/concurrency.py --read                # the tables of the last campaign

Differences are counted to the last bit: of decisions for new rows, of the bytes of the model's file, and of decisions
after it was loaded. An interruption is a signal that Python answers as it answers Ctrl-C; its seconds are from the
moment when the signal was due until the call has raised. Processor seconds are these times the share of a processor
that the process had meanwhile: what an idle machine would take. Memory is the process's resident memory.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
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
from processes import python

NAMES = list(many.MODELS)
SEEDS = (0, 1, 2)
CYCLES, MOMENTS = 500, 6
PAGE = os.sysconf("SC_PAGE_SIZE")


# At once


def counted(what: str, found: list[dict[str, str]], alone: list[dict[str, str]], begin: float) -> Record:
    pairs = [(one[name], other[name]) for one, other in zip(found, alone, strict=True) for name in other]
    differ = sum(one != other for one, other in pairs)
    return {"section": "at once", "what": what, "runs": len(pairs), "differ": differ} | {
        "seconds": round(time.perf_counter() - begin, 1)
    }


def in_threads(n_threads: int) -> Record:
    alone = [many.outcomes(NAMES, seed) for seed in SEEDS]
    tasks = [(place, name) for place in range(len(SEEDS)) for name in NAMES]
    np.random.default_rng(0).shuffle(tasks)
    begin = time.perf_counter()
    found: list[dict[str, str]] = [{} for _ in SEEDS]

    def fit(task: tuple[int, str]) -> None:
        found[task[0]][task[1]] = many.outcome(task[1], SEEDS[task[0]])

    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(fit, tasks))
    return counted(f"{n_threads} threads, every kind of model", found, alone, begin)


def in_processes(method: str, n_processes: int) -> Record:
    """Compare processes with this one, which has fitted everything before."""
    alone = [many.outcomes(NAMES, seed) for seed in SEEDS]
    begin = time.perf_counter()
    with ProcessPoolExecutor(n_processes, mp_context=multiprocessing.get_context(method)) as processes:
        given = [seed for seed in SEEDS for _ in range(n_processes)]
        found = list(processes.map(many.outcomes, [NAMES] * len(given), given))
    return counted(f"{n_processes} processes by {method}", found, [alone[seed] for seed in given], begin)


def a_hundred() -> Record:
    begin, seeds = time.perf_counter(), range(100)
    with ThreadPoolExecutor(100) as threads:
        found = list(threads.map(partial(many.outcomes, ["slab"]), seeds))
    return counted("100 threads, a slab each", found, [many.outcomes(["slab"], seed) for seed in seeds], begin)


def other_circumstances() -> Record:
    """Compare processes of other hashes and other numbers of BLAS's threads with this one."""
    code = (
        "import sys; import many; from joblib import parallel_config\n"
        "with parallel_config('threading', n_jobs=int(sys.argv[1])):\n"
        "    print(*many.outcomes(list(many.MODELS), 0).values())"
    )
    begin, found = time.perf_counter(), []
    for seed, n_threads in (("1", "1"), ("2", "2"), ("3", "4")):
        run = python(code, n_threads, flags=("-W", "ignore"), PYTHONHASHSEED=seed, OPENBLAS_NUM_THREADS=n_threads)
        run.check_returncode()
        found.append(dict(zip(NAMES, run.stdout.split(), strict=True)))
    what = "3 processes of other hashes, with 1, 2 and 4 threads"
    return counted(what, found, [many.outcomes(NAMES, 0)] * 3, begin)


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
    """Interrupt an act at random moments, of which the whole says how long it takes."""
    begin, cpu = time.perf_counter(), time.process_time()
    whole()
    lasting, cpu = time.perf_counter() - begin, time.process_time() - cpu
    found = interrupted(act, np.random.default_rng(0).uniform(0.02, 1.0, MOMENTS) * lasting)
    clock, processor = np.array(found).reshape(-1, 2).T
    return {
        "section": "interruption",
        "what": what,
        "fit_cpu": rounded(cpu),
        "interrupted": len(found),
        "median": rounded(np.median(clock)),
        "worst": rounded(clock.max(initial=0.0)),
        "worst_cpu": rounded(processor.max(initial=0.0)),
        "broken": 0,
    }


def rounded(seconds: float) -> float | None:
    return None if np.isnan(seconds) else round(float(seconds), 2)


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
        for name in NAMES
        if name != "trimmed"
    },
    "load a file and predict": (_load_and_predict, CYCLES),
    "predict 20 chunks": (_predict_chunks, CYCLES),
    "update a monitor": (_update_monitor, CYCLES),
}


def growth(what: str) -> Record:
    """Return how memory grows with cycles, after a tenth of them: resident, and of Python's objects in some more."""
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
    tracemalloc.start()
    cycle()
    gc.collect()
    before, n_traced = tracemalloc.get_traced_memory()[0], n_cycles // 10
    for _ in range(n_traced):
        cycle()
    gc.collect()
    objects = (tracemalloc.get_traced_memory()[0] - before) / n_traced
    what_grew = {"section": "memory", "what": what, "cycles": n_cycles}
    return what_grew | {"slope": round(float(slope), 1), "objects": round(objects, 1)}


def budget(m: int, cache_size: int) -> Record:
    """Return what a fit takes at most, beside what the process had."""
    warnings.simplefilter("ignore")
    X = cloud(m)
    OneClassSlabSVM().fit(X[:700])
    before = resident()
    OneClassSlabSVM(gamma="scale", cache_size=cache_size).fit(X)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"section": "budget", "m": m, "cache_mb": cache_size, "peak_mb": round((peak - before) / 1e6)}


# Limits


def limits() -> Iterator[Record]:
    """Count fits that took more iterations than max_iter."""
    for kernel in ("rbf", "linear", "chi2"):
        n_fits, n_over = 0, 0
        for m in (20, 300, 1000):
            X = cloud(m)
            for max_iter in (0, 1, 7, 100, 5000):
                model = OneClassSlabSVM(kernel=kernel, tol=1e-9, max_iter=max_iter).fit(X)
                n_fits += 1
                n_over += model.n_iter_ > max_iter
        yield {"section": "limits", "what": kernel, "fits": n_fits, "over": n_over}


# Warnings


def escaped(name: str) -> Record:
    """Count a model's answers to usual and odd rows, and the warnings of dependencies that escaped."""
    n_answered, found = many.escaped(name, many.ODD)
    return {"section": "warnings", "what": name, "kinds": len(many.ODD), "answered": n_answered, "escaped": len(found)}


def cases(_: Options) -> Iterator[Case]:
    yield "at once: threads", partial(in_threads, 8)
    yield "at once: a hundred", a_hundred
    for method in ("fork", "spawn"):
        yield f"at once: {method}", partial(in_processes, method, 4)
    yield "at once: other circumstances", other_circumstances
    yield "interruption: prediction", prediction
    for name in LONG:
        yield f"interruption: {name}", partial(interruption, name)
    yield "limits", limits
    for name in NAMES:
        yield f"warnings: {name}", partial(escaped, name)
    for what in REPEATED:
        yield f"memory: {what}", partial(in_own_process, growth, what)
    for m, cache in ((2000, 50), (4000, 50), (8000, 50), (4000, 200), (8000, 200)):
        yield f"budget: {m}, {cache} MB", partial(in_own_process, budget, m, cache)


# Of each section the head of its table, and the fields that are shown.
SHOWN = {
    "at once": ("at once | answers | that differ | seconds", "what runs differ seconds"),
    "interruption": (
        "interrupted | fit, CPU s | times | median s | worst s | worst CPU s | states broken",
        "what fit_cpu interrupted median worst worst_cpu broken",
    ),
    "memory": ("repeated | cycles | bytes a cycle | of these, of objects", "what cycles slope objects"),
    "budget": ("rows | cache_size, MB | most, MB", "m cache_mb peak_mb"),
    "limits": ("kernel | fits | beyond max_iter", "what fits over"),
    "warnings": (
        "rows of all kinds given to | kinds | fits and askings answered | warnings of others",
        "what kinds answered escaped",
    ),
}


def row(record: Record) -> str:
    values = (record[name] for name in SHOWN[record["section"]][1].split())
    return " | ".join("" if value is None else str(value) for value in values)


REPORT = tables(*(Table(head, row, section=section) for section, (head, _) in SHOWN.items()))

if __name__ == "__main__":
    keys, alone = ("section", "what", "m", "cache_mb"), ("at once", "interruption")
    with parallel_config(n_jobs=1):
        Benchmark(__file__, __doc__, cases, REPORT, keys=keys, alone=alone).main()
