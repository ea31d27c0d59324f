"""`AutoDetector` on a million rows, and `slabsvm score` and `slabsvm check` on large files.

    python benchmarks/large_data.py [--only WORD] [--page docs/results/large-data.md]

That page says what is measured.
"""

from __future__ import annotations

import io
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness import Benchmark, Case, Options, Record, Table, in_own_process, interleaved, tables
from slabsvm import SVDD, AutoDetector, OneClassSlabSVM, OneClassSVM, TableEncoder
from slabsvm.command.group import slabsvm
from slabsvm.files import save
from slabsvm.files.tables import Reading, pieces, whole

REPEATS = 3
FITTED, MANY = (10_000, 40_000, 100_000), 1_000_000
UNITS = np.arange(1.0, 11.0)
N_COLUMNS, N_CHECKED = 20, 200_000
DETECTORS: dict[str, Callable[[], Any]] = {
    "auto": AutoDetector,
    "slab": partial(OneClassSlabSVM, nu_lower=0.09, nu_upper=0.01),
    # What a search finds on these rows.
    "slab, tuned": partial(OneClassSlabSVM, nu_lower=0.09, nu_upper=0.01, gamma=0.5 / N_COLUMNS),
    "one-class-svm": OneClassSVM,
    "svdd": SVDD,
}
# The detector, the rows that it learns, the rows that it scores, and the reasons of a rejection.
SCORED = (
    ("auto", 1000, 200_000, 0),
    ("auto", 1000, 200_000, 3),
    ("auto", 10_000, 50_000, 0),
    ("slab", 1000, 200_000, 0),
    ("slab, tuned", 1000, 200_000, 0),
    ("one-class-svm", 1000, 200_000, 0),
    ("svdd", 1000, 200_000, 0),
    ("one-class-svm", 1000, MANY, 0),
    ("auto", 1000, MANY, 0),
)
Draw = Callable[[np.random.Generator, int], Any]


def times(form: str) -> Draw:
    start = pd.to_datetime("2020-01-01")
    return lambda draw, n: (start + pd.to_timedelta(draw.integers(0, 10**8, n), unit="s")).strftime(form)


KINDS: dict[str, Draw] = {
    "numbers": lambda draw, n: draw.normal(size=n).round(4),
    "whole numbers": lambda draw, n: draw.integers(0, 9999, n),
    "decimal commas": lambda draw, n: [f"{value:.2f}".replace(".", ",") for value in draw.normal(size=n) * 100],
    "money": lambda draw, n: [f"${value:,.2f}" for value in draw.lognormal(8, 1, n)],
    "percents": lambda draw, n: [f"{value:.1f}%" for value in draw.random(n) * 100],
    "categories": lambda draw, n: draw.choice(["matt", "gloss", "raw", "blue"], n),
    "postcodes": lambda draw, n: [f"{value:05}" for value in draw.integers(1000, 1200, n)],
    "ISO times": times("%Y-%m-%d %H:%M:%S"),
    "times with points": times("%d.%m.%Y %H:%M"),
}


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="slabsvm-large-"))


def of_process(field: str) -> float:
    """Return what the system says of this process's memory, in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.split(f"{field}:")[1].split()[0]) / 1024


# Fits


def clouds(m: int, seed: int) -> np.ndarray:
    """Return rows of six clouds in ten features of different units, far from the origin."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(0.0, 2.0, (6, 10))
    X = centres[rng.integers(0, 6, m)] + rng.normal(size=(m, 10))
    return (X - centres.mean(axis=0)) / np.sqrt(1.0 + centres.var(axis=0)) * UNITS + 5.0


def fit(X: Any, where: str) -> Record:
    """Return what a fit takes, and the recall on new rows."""
    begin, processor = time.perf_counter(), time.process_time()
    model = AutoDetector().fit(X)
    whole, processor = time.perf_counter() - begin, time.process_time() - processor
    return {
        "section": "fit",
        "where": where,
        "m": model.n_samples_fit_,
        "n_learned": model.n_samples_fit_ if model.sample_ is None else len(model.sample_),
        "seconds": whole,
        "cpu_seconds": processor,
        "recall_of_new": float((model.predict(clouds(200_000, 1)) == 1).mean()),
    }


def in_a_file() -> Record:
    path = folder() / "rows.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(MANY, 10))
    for part, first in enumerate(range(0, MANY, 500_000)):
        X[first : first + 500_000] = clouds(500_000, 10 + part)
    X.flush()
    del X
    return in_own_process(fit_file, path)


def fit_file(path: Path) -> Record:
    """Fit a memory-mapped file, and look a hundred times a second at the memory that is no file's."""
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], of_process("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    found = fit(np.load(path, mmap_mode="r"), "memory-mapped")
    done.set()
    watcher.join()
    return {**found, "peak_mb": round(peak[0])}


def in_dask() -> Record:
    import dask.array as da
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        return fit(da.from_array(clouds(MANY, 0), chunks=(MANY // 16, -1)).persist(), "Dask, four workers")


# Scores


def correlated(n_rows: int, seed: int) -> pd.DataFrame:
    mixing = np.eye(N_COLUMNS) + np.random.default_rng(9).normal(size=(N_COLUMNS, N_COLUMNS)) / 4
    drawn = np.random.default_rng(seed).normal(size=(n_rows, N_COLUMNS)) @ mixing
    return pd.DataFrame(drawn).add_prefix("c").round(5)


@cache
def table_of(n_rows: int) -> Path:
    path = folder() / f"{n_rows}.csv"
    correlated(n_rows, 1).to_csv(path, index=False)
    return path


def score(model: Path, table: Path, reasons: int) -> float:
    """Score a table as the command does; return the most MB that this process has needed."""
    words = ["score", model, table, "-o", folder() / "scored.csv", "--reasons", reasons]
    # What it says of the table is not shown.
    with warnings.catch_warnings(action="ignore"), redirect_stderr(io.StringIO()):
        slabsvm.main(list(map(str, words)), standalone_mode=False)
    # What getrusage says is no less than the process had before it became this one.
    return of_process("VmHWM")


def scoring(detector: str, n_learned: int, n_rows: int, reasons: int) -> Record:
    model, path = folder() / "model.skops", table_of(n_rows)
    scaler = [] if detector == "auto" else [StandardScaler()]
    fitted = make_pipeline(TableEncoder(), *scaler, DETECTORS[detector]()).fit(correlated(n_learned, 0))
    save(fitted, model)
    score(model, table_of(1000), reasons)
    actions = {
        "read": lambda: sum(map(len, pieces(path, Reading()))),
        "score": lambda: score(model, path, reasons),
    }
    repeats = 1 if n_rows == MANY else REPEATS
    seconds, _ = interleaved(actions, repeats, warm_up=False, clock=time.process_time)
    by_reading, whole = (min(seconds[name]) for name in actions)
    return {
        "section": "score",
        "detector": detector,
        "learned": n_learned,
        "rows": n_rows,
        "reasons": reasons,
        "support_vectors": len(getattr(fitted[-1], "support_", ())),
        "read_seconds": round(by_reading, 3),
        "ratio": round(whole / by_reading, 2),
        "peak_mb": round(in_own_process(score, model, path, reasons)),
    }


# Checks


def checking(kind: str) -> Record:
    draw, path = np.random.default_rng(0), folder() / "checked.csv"
    columns = {f"c{place}": KINDS[kind](draw, N_CHECKED) for place in range(N_COLUMNS)}
    pd.DataFrame(columns).to_csv(path, index=False, sep=";")
    found: list[pd.DataFrame] = []
    actions = {
        "pandas": lambda: pd.read_csv(path, sep=";"),
        "read": lambda: found.append(whole(path, Reading())),
        "plan": lambda: TableEncoder().fit(found.pop()),
    }
    seconds, _ = interleaved(actions, REPEATS)
    by_pandas, to_read, to_plan = (median(seconds[name]) for name in actions)
    return {
        "section": "check",
        "kind": kind,
        "rows": N_CHECKED,
        "pandas_seconds": round(by_pandas, 3),
        "read_ratio": round(to_read / by_pandas, 1),
        "plan_ratio": round(to_plan / by_pandas, 1),
        "ratio": round((to_read + to_plan) / by_pandas, 1),
    }


def cases(_: Options) -> Iterator[Case]:
    for n_rows in (*FITTED, MANY):
        yield f"fit, {n_rows} rows", lambda m=n_rows: fit(clouds(m, 0), "in memory")
    yield "fit, file", in_a_file
    yield "fit, dask", in_dask
    for case in SCORED:
        yield "score, {}, {} learned, {} rows, {} reasons".format(*case), partial(scoring, *case)
    for kind in KINDS:
        yield f"check, {kind}", partial(checking, kind)


TABLES = (
    Table(
        "fit of rows | learned | whole fit, s | processor, s | recall of 200,000 new rows | most private memory, MB",
        lambda r: (
            f"{r['m']:,}, {r['where']} | {r['n_learned']:,} | {r['seconds']:.1f} | {r['cpu_seconds']:.1f} "
            f"| {r['recall_of_new']:.4f} | {r.get('peak_mb', '')}"
        ),
        section="fit",
    ),
    Table(
        "score by | learned | support vectors | rows | reasons | reading, us a row | all / reading | MB",
        lambda r: (
            f"{r['detector']} | {r['learned']:,} | {r['support_vectors']:,} | {r['rows']:,} | {r['reasons']} "
            f"| {1e6 * r['read_seconds'] / r['rows']:.1f} | {r['ratio']:.1f} | {r['peak_mb']}"
        ),
        section="score",
    ),
    Table(
        "check of | rows | pandas, s | read / pandas | plan / pandas | both / pandas",
        "{kind} | {rows:,} | {pandas_seconds} | {read_ratio} | {plan_ratio} | {ratio}".format_map,
        section="check",
    ),
)

if __name__ == "__main__":
    keys = ("section", "where", "m", "detector", "learned", "rows", "reasons", "kind")
    Benchmark(__file__, __doc__, cases, tables(*TABLES), keys=keys).main()
