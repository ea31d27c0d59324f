"""Linear slabs on a million rows, in passes over the data: one pass is one X @ w and one X.T @ v.

    python benchmarks/linear.py [--only WORD] [--rows 1000000]

Sections: passes (against the time of a pass, measured around each fit, and at epsilon 0 against SGDOneClassSVM), file
(a memory-mapped float32 file, in a process of its own, with its peak memory), dask (four workers, in processes; bytes
that came back from a pass, for two lengths), map (standardised rows, ten features, feature_map="nystroem", and what a
pass through scikit-learn's transformer takes), kernel (the same on 20,000 rows beside the kernel model and Fourier
features, at the gamma that so many landmarks allow, and the maps at 16 times that).
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDOneClassSVM
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Options, Record, Table, in_own_process, tables
from samples import clouds
from slabsvm import LinearOneClassSlabSVM, OneClassSlabSVM

N_JOBS = os.cpu_count() or 1
D = 64
ROWS = 1_000_000
DATA = {
    "five clouds": lambda m: clouds(m, D, centres=(0.0, 8.0)),
    "one cloud": lambda m: np.random.default_rng(0).normal(3.0, 1.0, (m, D)),
}


def compile_solver() -> None:
    LinearOneClassSlabSVM().fit(np.random.default_rng(0).gamma(9.0, 1.0, (1000, 3)))


def pass_seconds(X: np.ndarray) -> float:
    """Return the least time of three passes, with BLAS's own threads."""
    w, v = np.random.default_rng(0).normal(size=X.shape[1]), np.random.default_rng(1).normal(size=X.shape[0])
    least = np.inf
    for _ in range(3):
        begin = time.perf_counter()
        X @ w
        X.T @ v
        least = min(least, time.perf_counter() - begin)
    return least


def one_plane_objective(X: np.ndarray, w: np.ndarray, nu: float) -> float:
    """Return 1/2 |w|^2 less the mean of the lowest nu m scores: the best offset's objective, for any length of w.

    The best length is taken, so that a peer that scales w otherwise loses nothing by it.
    """
    scores = X @ w
    k = int(nu * len(scores))
    low = float(np.partition(scores, k)[:k].mean())
    return -0.5 * max(low, 0.0) ** 2 / float(w @ w)


def passes(data: str, m: int, epsilon: float, tol: float) -> Record:
    compile_solver()
    X = DATA[data](m)
    before = pass_seconds(X)
    begin = time.perf_counter()
    model = LinearOneClassSlabSVM(epsilon=epsilon, nu_upper=0.05, tol=tol, n_jobs=N_JOBS).fit(X)
    seconds = time.perf_counter() - begin
    a_pass = min(before, pass_seconds(X))
    return {
        "section": "passes",
        "case": data,
        "m": m,
        "d": D,
        "epsilon": epsilon,
        "tol": tol,
        "seconds": seconds,
        "pass_seconds": a_pass,
        "n_passes": model.n_passes_,
        "relative_gap": model.relative_gap_,
        "status": model.status_,
        "pass_times": seconds / a_pass,
        **(peer(X, model, seconds) if epsilon == 0 and tol == 1e-3 else {}),
    }


def peer(X: np.ndarray, model: LinearOneClassSlabSVM, seconds: float) -> Record:
    """Return what scikit-learn's stochastic gradients take and reach, over what ours did."""
    begin = time.perf_counter()
    sgd = SGDOneClassSVM(nu=0.1, random_state=0).fit(X)
    taken = time.perf_counter() - begin
    # Objectives are negative; the lower the better.
    theirs = one_plane_objective(X, np.ravel(sgd.coef_), 0.1)
    objective = theirs / one_plane_objective(X, model.coef_[0], 0.1)
    return {"sgd_seconds_over_ours": taken / seconds, "sgd_objective_over_ours": objective}


def file(m: int) -> Record:
    """A file, mapped into a process that reports the most memory it held, mapped pages left out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(4 * m, D))
        rng = np.random.default_rng(0)
        for first in range(0, len(X), 100_000):
            some = X[first : first + 100_000]
            some[:] = rng.standard_normal(some.shape, dtype=np.float32) + 3
        X.flush()
        return {"section": "file", "m": 4 * m, "d": D, **in_own_process(fit_file, path)}


def fit_file(path: Path) -> Record:
    compile_solver()
    before, peak, done = private_memory(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], private_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    X = np.load(path, mmap_mode="r")
    begin = time.perf_counter()
    model = LinearOneClassSlabSVM(nu_upper=0.05).fit(X)
    seconds = time.perf_counter() - begin
    done.set()
    watcher.join()
    return {
        "seconds": seconds,
        "n_passes": model.n_passes_,
        "relative_gap": model.relative_gap_,
        "file_megabytes": X.nbytes / 1e6,
        "megabytes_before": before / 1e6,
        "peak_megabytes": peak[0] / 1e6,
    }


def private_memory() -> int:
    """Return the bytes of this process that are no file's."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024


def dask(rows: int) -> Record:
    """Bytes that come back from the workers."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from slabsvm.data.passes import DaskBlocks

    visit, came = DaskBlocks.visit, []

    def counted(source: Any, visitor: Any, bytes_per_row: int) -> Any:
        results = visit(source, visitor, bytes_per_row)
        arrays = [array for part in results for array in vars(part).values() if isinstance(array, np.ndarray)]
        came.append(sum(array.nbytes for array in arrays))
        return results

    with LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        X = da.random.default_rng(0).normal(3.0, 1.0, (rows, D), chunks=(rows // 16, -1)).persist()
        with patch.object(DaskBlocks, "visit", counted):
            model = LinearOneClassSlabSVM(nu_upper=0.05, tol=1e-6).fit(X)
        local = LinearOneClassSlabSVM(nu_upper=0.05, tol=1e-6).fit(X.compute())
    return {
        "section": "dask",
        "m": rows,
        "d": D,
        "survey_megabytes": came[0] / 1e6,
        "pass_megabytes": float(np.mean(came[1:])) / 1e6,
        "n_passes": model.n_passes_,
        "relative_gap": model.relative_gap_,
        "difference": float(np.linalg.norm(model.coef_ - local.coef_) / np.linalg.norm(local.coef_)),
    }


def standardised(m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of six clouds in ten features, of mean 0 and variance 1, and as many of their box, evenly spread."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(0.0, 2.0, (6, 10))
    X = centres[rng.integers(0, 6, m)] + rng.normal(size=(m, 10))
    X = (X - centres.mean(axis=0)) / np.sqrt(1.0 + centres.var(axis=0))
    return X, rng.uniform(X.min(axis=0), X.max(axis=0), X.shape)


def map_by_passes(m: int, n_components: int) -> Record:
    compile_solver()
    X, _ = standardised(m, 0)
    begin = time.perf_counter()
    model = LinearOneClassSlabSVM(feature_map="nystroem", n_components=n_components, n_jobs=N_JOBS).fit(X)
    seconds = time.perf_counter() - begin
    some, new = X[:100_000], standardised(200_000, 1)[0]
    peer = Nystroem(gamma=model.gamma_, n_components=n_components, random_state=0).fit(some[:10_000])
    one = LinearOneClassSlabSVM(feature_map="nystroem", n_components=n_components).fit(some)
    scores = partial(one.project, some)
    times = {"ours": least_seconds(scores), "peer": least_seconds(lambda: through(peer, some, one.coef_[0]))}
    return {
        "section": "map",
        "m": m,
        "n_components": n_components,
        "seconds": seconds,
        "n_passes": model.n_passes_,
        "relative_gap": model.relative_gap_,
        "status": model.status_,
        "recall_of_new": float((model.predict(new) == 1).mean()),
        "rows_a_second": len(some) / times["ours"],
        "peer_over_ours": times["peer"] / times["ours"],
    }


def through(peer: Nystroem, X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return scores of rows that a transformer maps, a few thousand at a time."""
    w = np.resize(w, len(peer.components_))
    with threadpool_limits(1):
        return np.concatenate([peer.transform(X[first : first + 2000]) @ w for first in range(0, len(X), 2000)])


def least_seconds(act: Callable[[], object]) -> float:
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        act()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def beside_the_kernel(kind: str, n_components: int, times: int) -> Record:
    compile_solver()
    (X, _), (new, outliers) = standardised(20_000, 0), standardised(20_000, 1)
    far = 1e6 * np.random.default_rng(2).normal(size=(20_000, 10))
    mapped = LinearOneClassSlabSVM(feature_map="nystroem", n_components=n_components)
    gamma = times * mapped.fit(X).gamma_
    model, images = mapped.set_params(gamma=gamma), lambda rows: rows
    if kind == "kernel":
        model = OneClassSlabSVM(gamma=gamma)
    elif kind == "fourier":
        model = LinearOneClassSlabSVM()
        images = RBFSampler(gamma=gamma, n_components=n_components, random_state=0).fit(X).transform
    begin = time.process_time()
    model.fit(images(X))
    seconds = time.process_time() - begin
    begin = time.process_time()
    scores = model.project(images(np.concatenate([new, outliers])))
    return {
        "section": "kernel",
        "case": kind,
        "n_components": n_components,
        "times": times,
        "gamma": gamma,
        "status": model.status_,
        "fit_seconds": seconds,
        "predict_seconds": time.process_time() - begin,
        "auroc": float(roc_auc_score(np.repeat([1, 0], len(new)), scores)),
        "recall_of_new": float((model.predict(images(new)) == 1).mean()),
        "far_accepted": float((model.predict(images(far)) == 1).mean()),
    }


def cases(options: Options) -> Iterator[Case]:
    m = options.rows
    for data in DATA:
        for epsilon in (0.0, 2 / 3):
            for tol in (1e-3, 1e-6):
                yield f"passes, {data}, epsilon {epsilon:.2g}, tol {tol:.0e}", partial(passes, data, m, epsilon, tol)
    yield "file", partial(file, m)
    for n_components in (100, 300):
        yield f"map, {n_components} landmarks", partial(map_by_passes, m, n_components)
    for n_components, times in ((100, 1), (300, 1), (300, 16)):
        # The kernel model of 16 times the gamma has nearly all rows as support vectors, and is fitted for minutes.
        for kind in ("kernel", "nystroem", "fourier")[times > 1 :]:
            label = f"kernel, {kind}, {n_components} features, gamma x {times}"
            yield label, partial(beside_the_kernel, kind, n_components, times)
    for rows in (m // 4, m):
        yield f"dask, {rows} rows", partial(dask, rows)


def passes_row(record: Record) -> str:
    against = "-"
    if "sgd_seconds_over_ours" in record:
        against = "{sgd_seconds_over_ours:.1f}, {sgd_objective_over_ours:.4f}".format_map(record)
    return (
        "{case} | {epsilon:.2g} | {tol:.0e} | {seconds:.2f} | {pass_times:.1f} | {n_passes} | {relative_gap:.0e} "
        "| {status} | "
    ).format_map(record) + against


PASSES = Table(
    "data | epsilon | tol | seconds | pass-times | passes | gap | status | SGD: time, objective / ours",
    passes_row,
    "lrrrrrrlr",
    section="passes",
)
FILE = Table(
    "file | seconds | passes | gap | memory before the fit | most memory during it",
    (
        "{file_megabytes:,.0f} MB | {seconds:.1f} | {n_passes} | {relative_gap:.0e} | {megabytes_before:.0f} MB "
        "| {peak_megabytes:.0f} MB"
    ).format_map,
    "rrrrrr",
    section="file",
)
DASK = Table(
    "Dask, 4 workers | data | came back in the survey | in each later pass | passes | gap | w, from local",
    lambda r: (
        f"{r['m']:,} | {r['m'] * D * 8 / 1e6:,.0f} MB | {r['survey_megabytes']:.1f} MB | {r['pass_megabytes']:.1f} MB "
        f"| {r['n_passes']} | {r['relative_gap']:.0e} | {r['difference']:.0e}"
    ),
    "rrrrrrr",
    section="dask",
)
MAP = Table(
    "landmarks | rows | fit, s | passes | gap | recall of new rows (.89) | rows scored a second, one core "
    "| scikit-learn's transformer takes",
    (
        "{n_components} | {m:,} | {seconds:.1f} | {n_passes} | {relative_gap:.0e} | {recall_of_new:.4f} "
        "| {rows_a_second:,.0f} | {peer_over_ours:.1f} times as long"
    ).format_map,
    "rrrrrrrr",
    section="map",
)
KERNEL = Table(
    "20,000 x 10 | features | gamma | status | fit, CPU s | predict 40k | AUROC | recall of new (.89) | far accepted",
    (
        "{case} | {n_components} | {gamma:.3g} | {status} | {fit_seconds:.2f} | {predict_seconds:.2f} | {auroc:.3f} "
        "| {recall_of_new:.3f} | {far_accepted:.3f}"
    ).format_map,
    "lrrlrrrrr",
    section="kernel",
)

if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        tables(PASSES, FILE, DASK, MAP, KERNEL),
        keys=("section", "case", "m", "epsilon", "tol", "n_components", "times"),
        whole=lambda options: options.rows == ROWS,
        arguments={"--rows": {"type": int, "default": ROWS, "help": "[%(default)s]"}},
    ).main()
