"""AutoDetector on more rows than a kernel model is fitted on: it learns a sample, and all others put its threshold.

    python benchmarks/sampled.py [--only WORD] [--rows 1000000]

Sections: sizes (what fits of 10,000 rows to --rows cost, and of them the pass that scores all others), file (a
memory-mapped float64 file, in a process of its own, with its peak memory; of --rows and ten times as many), dask (four
workers, in processes). Rows are of six clouds in ten features, in units that differ.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from harness import Benchmark, Case, Options, Record, Table, in_own_process, tables
from slabsvm import AutoDetector
from slabsvm.ensemble.sample import Sample

ROWS = 1_000_000
UNITS = np.arange(1.0, 11.0)


def rows(m: int, seed: int) -> np.ndarray:
    """Return rows of six clouds in ten features of different units, far from the origin."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(0.0, 2.0, (6, 10))
    X = centres[rng.integers(0, 6, m)] + rng.normal(size=(m, 10))
    return (X - centres.mean(axis=0)) / np.sqrt(1.0 + centres.var(axis=0)) * UNITS + 5.0


def private_memory() -> int:
    """Return the bytes of this process that are no file's."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024


def measured(X: Any, **parameters: Any) -> Record:
    """Return what a fit takes, the part that scores the rows that were not learned, and the recall on new rows."""
    scores, seconds = Sample.scores, []

    def timed(sample: Sample, score: Any) -> Any:
        begin = time.perf_counter()
        found = scores(sample, score)
        seconds.append(time.perf_counter() - begin)
        return found

    begin, processor = time.perf_counter(), time.process_time()
    with patch.object(Sample, "scores", timed):
        model = AutoDetector(**parameters).fit(X)
    whole, processor = time.perf_counter() - begin, time.process_time() - processor
    return {
        "m": model.n_samples_fit_,
        "n_learned": model.n_samples_fit_ if model.sample_ is None else len(model.sample_),
        "seconds": whole,
        "pass_seconds": sum(seconds),
        "cpu_seconds": processor,
        "recall_of_new_less_nominal": float((model.predict(rows(200_000, 1)) == 1).mean() - model.recall),
    }


def size(m: int) -> Record:
    return {"section": "sizes", **measured(rows(m, 0))}


def file(m: int) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(m, 10))
        for part, first in enumerate(range(0, m, 500_000)):
            X[first : first + 500_000] = rows(min(500_000, m - first), 10 + part)
        X.flush()
        del X
        return {"section": "file", **in_own_process(fit_file, path)}


def fit_file(path: Path) -> Record:
    before, peak, done = private_memory(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], private_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    X = np.load(path, mmap_mode="r")
    found = measured(X)
    done.set()
    watcher.join()
    return {
        **found,
        "file_megabytes": X.nbytes / 1e6,
        "megabytes_before": before / 1e6,
        "peak_megabytes": peak[0] / 1e6,
    }


def dask(m: int) -> Record:
    import dask.array as da
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        X = da.from_array(rows(m, 0), chunks=(m // 16, -1)).persist()
        return {"section": "dask", **measured(X)}


def cases(options: Options) -> Iterator[Case]:
    m = options.rows
    for n_rows in sorted({10_000, 40_000, 100_000, m}):
        yield f"sizes, {n_rows} rows", partial(size, n_rows)
    for times in (1, 10):
        yield f"file, {times * m} rows", partial(file, times * m)
    yield "dask", partial(dask, m)


COMMON = "{m:,} | {n_learned:,} | {seconds:.1f} | {pass_seconds:.1f} | {cpu_seconds:.1f}"
RECALL = " | {recall_of_new_less_nominal:+.4f}"
HEADS = "rows | learned | whole fit, s | of it the scoring pass | CPU s of this process"
TABLES = [
    Table(f"sizes: {HEADS} | recall less nominal", (COMMON + RECALL).format_map, "rrrrrr", section="sizes"),
    Table(
        f"file: {HEADS} | recall less nominal | file | memory before | most memory",
        (
            COMMON + RECALL + " | {file_megabytes:,.0f} MB | {megabytes_before:.0f} MB | {peak_megabytes:.0f} MB"
        ).format_map,
        "rrrrrrrrr",
        section="file",
    ),
    Table(f"Dask, 4 workers: {HEADS} | recall less nominal", (COMMON + RECALL).format_map, "rrrrrr", section="dask"),
]

if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        tables(*TABLES),
        keys=("section", "m", "n_learned"),
        whole=lambda options: options.rows == ROWS,
        arguments={"--rows": {"type": int, "default": ROWS, "help": "[%(default)s]"}},
    ).main()
