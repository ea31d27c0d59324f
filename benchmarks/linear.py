"""Linear slabs on a million rows, in passes over the data: one pass is one X @ w and one X.T @ v.

    python benchmarks/linear.py [--only WORD] [--rows 1000000]

Sections: passes (against the time of a pass, measured around each fit, and at epsilon 0 against SGDOneClassSVM), file
(a memory-mapped float32 file, in a process of its own, with its peak memory), dask (four workers, in processes; bytes
that came back from a pass, for two lengths). Prints tables, and writes results/linear.json: with --only that section's
records, with other --rows nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.linear_model import SGDOneClassSVM

from slabsvm import LinearOneClassSlabSVM

RESULTS = Path(__file__).parent / "results" / "linear.json"
N_JOBS = os.cpu_count() or 1
D = 64
ROWS = 1_000_000
Records = list[dict[str, Any]]


def data_sets(m: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    blobs, _ = make_blobs(m, D, centers=5, cluster_std=[1.0, 1.5, 2.0, 2.5, 3.0], center_box=(0.0, 8.0), random_state=0)
    return {"five clouds": blobs, "one cloud": rng.normal(3.0, 1.0, (m, D))}


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


def passes(m: int) -> Records:
    records = []
    LinearOneClassSlabSVM().fit(np.random.default_rng(0).gamma(9.0, 1.0, (1000, 3)))  # compiles
    print("\n| data | epsilon | tol | seconds | pass-times | passes | gap | status | SGD: time, objective / ours |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |")
    for name, X in data_sets(m).items():
        for epsilon in (0.0, 2 / 3):
            for tol in (1e-3, 1e-6):
                before = pass_seconds(X)
                begin = time.perf_counter()
                model = LinearOneClassSlabSVM(epsilon=epsilon, nu_upper=0.05, tol=tol, n_jobs=N_JOBS).fit(X)
                seconds = time.perf_counter() - begin
                record = {
                    "section": "passes",
                    "case": name,
                    "m": m,
                    "d": D,
                    "epsilon": epsilon,
                    "tol": tol,
                    "seconds": seconds,
                    "pass_seconds": min(before, pass_seconds(X)),
                    "n_passes": model.n_passes_,
                    "relative_gap": model.relative_gap_,
                    "status": model.status_,
                }
                record["pass_times"] = seconds / record["pass_seconds"]
                peer = "-"
                if epsilon == 0 and tol == 1e-3:
                    begin = time.perf_counter()
                    sgd = SGDOneClassSVM(nu=0.1, random_state=0).fit(X)
                    record["sgd_seconds_over_ours"] = (time.perf_counter() - begin) / seconds
                    # Objectives are negative; the lower the better.
                    theirs = one_plane_objective(X, np.ravel(sgd.coef_), 0.1)
                    record["sgd_objective_over_ours"] = theirs / one_plane_objective(X, model.coef_[0], 0.1)
                    peer = f"{record['sgd_seconds_over_ours']:.1f}, {record['sgd_objective_over_ours']:.4f}"
                records.append(record)
                print(
                    f"| {name} | {epsilon:.2g} | {tol:.0e} | {seconds:.2f} | {record['pass_times']:.1f} "
                    f"| {model.n_passes_} | {model.relative_gap_:.0e} | {model.status_} | {peer} |",
                    flush=True,
                )
    return records


def file(m: int) -> Records:
    """A file, mapped into a process that reports the most memory it held, mapped pages left out."""
    code = """
        import json, sys, threading, time
        import numpy as np
        from slabsvm import LinearOneClassSlabSVM

        def private() -> int:
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024

        LinearOneClassSlabSVM().fit(np.random.default_rng(0).gamma(9.0, 1.0, (1000, 3)))
        before, peak, done = private(), [0], threading.Event()

        def watch() -> None:
            while not done.wait(0.002):
                peak[0] = max(peak[0], private())

        watcher = threading.Thread(target=watch)
        watcher.start()
        X = np.load(sys.argv[1], mmap_mode="r")
        begin = time.perf_counter()
        model = LinearOneClassSlabSVM(nu_upper=0.05).fit(X)
        seconds = time.perf_counter() - begin
        done.set()
        watcher.join()
        print(json.dumps({"seconds": seconds, "n_passes": model.n_passes_, "relative_gap": model.relative_gap_,
                          "file_megabytes": X.nbytes / 1e6, "megabytes_before": before / 1e6,
                          "peak_megabytes": peak[0] / 1e6}))
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(4 * m, D))
        rng = np.random.default_rng(0)
        for first in range(0, len(X), 100_000):
            some = X[first : first + 100_000]
            some[:] = rng.standard_normal(some.shape, dtype=np.float32) + 3
        X.flush()
        answer = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(path)], capture_output=True, text=True, check=True
        )
    record = {"section": "file", "m": 4 * m, "d": D, **json.loads(answer.stdout)}
    print("\n| file | seconds | passes | gap | memory before the fit | most memory during it |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    print(
        f"| {record['file_megabytes']:,.0f} MB | {record['seconds']:.1f} | {record['n_passes']} "
        f"| {record['relative_gap']:.0e} | {record['megabytes_before']:.0f} MB | {record['peak_megabytes']:.0f} MB |"
    )
    return [record]


def dask(m: int) -> Records:
    """Bytes that come back from the workers, for two lengths of the data."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from slabsvm.data.dask import Blocks

    visit, moved = Blocks._visit, []

    def counted(source: Any, visitor: Any) -> Any:
        results = visit(source, visitor)
        moved.append(
            sum(array.nbytes for part in results for array in vars(part).values() if isinstance(array, np.ndarray))
        )
        return results

    Blocks._visit = counted  # type: ignore[method-assign]
    records = []
    print("\n| Dask, 4 workers | data | came back in the survey | in each later pass | passes | gap | w, from local |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        for rows in (m // 4, m):
            X = da.random.default_rng(0).normal(3.0, 1.0, (rows, D), chunks=(rows // 16, -1)).persist()
            moved.clear()
            model = LinearOneClassSlabSVM(nu_upper=0.05, tol=1e-6).fit(X)
            came = list(moved)
            local = LinearOneClassSlabSVM(nu_upper=0.05, tol=1e-6).fit(X.compute())
            difference = float(np.linalg.norm(model.coef_ - local.coef_) / np.linalg.norm(local.coef_))
            records.append(
                {
                    "section": "dask",
                    "m": rows,
                    "d": D,
                    "survey_megabytes": came[0] / 1e6,
                    "pass_megabytes": float(np.mean(came[1:])) / 1e6,
                    "n_passes": model.n_passes_,
                    "relative_gap": model.relative_gap_,
                    "difference": difference,
                }
            )
            r = records[-1]
            print(
                f"| {rows:,} | {rows * D * 8 / 1e6:,.0f} MB | {r['survey_megabytes']:.1f} MB "
                f"| {r['pass_megabytes']:.1f} MB | {r['n_passes']} | {r['relative_gap']:.0e} | {difference:.0e} |",
                flush=True,
            )
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", choices=["", "passes", "file", "dask"])
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    records: Records = []
    for section in (passes, file, dask):
        if arguments.only in ("", section.__name__):
            records += section(arguments.rows)
    if arguments.rows == ROWS:
        earlier = json.loads(RESULTS.read_text()) if arguments.only else []
        kept = [record for record in earlier if record["section"] != arguments.only]
        RESULTS.write_text(json.dumps(kept + records, indent=1) + "\n")


if __name__ == "__main__":
    main()
