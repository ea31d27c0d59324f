"""How fast the slab trains, as ratios to a peer and to the machine's limit, measured in the same run.

    python benchmarks/speed.py [--only WORD] [--repeats 5] [--clock processor] [--data DIR]

*limit*: the least time to compute the kernel columns of the final support vectors once, by float32 matrix products and
exponentials, on as many threads as the fit, and to keep none. *peer*: `sklearn.svm.OneClassSVM` on the same data,
kernel and nu at tol 1e-3; for epsilon = 0 it solves the same problem. Runs are interleaved: limit, ours, peer, limit,
ours, peer ... Medians are quoted of ours and the peer's. A fit is the whole public call, leave-one-out planes included.
Processor time, the sum over threads, is what to compare by where other programs use the machine too; it favours the
peer, which has one thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from harness import Benchmark, Case, Options, Record, Table, tables
from samples import DATA, clouds, has_letter, letters
from slabsvm import OneClassSlabSVM
from slabsvm.kernels.base import Kernel
from slabsvm.runtime.blas import ONE_BLAS_THREAD

N_JOBS = os.cpu_count() or 1
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
LIMIT_RUNS = 3
REPEATS_OF_SMALL = 30
# So much memory is touched before a large run.
MEMORY_BYTES = 2**29
# Tables of novelty detection (ADBench, Han et al. 2022), standardised, of at most so many rows.
TABLES = ("cardiotocography", "letter", "mnist", "pageblocks", "pendigits", "satellite", "shuttle", "spambase", "wilt")
MOST_ROWS = 4000
# What a thread computes at once of the limit.
LIMIT_BYTES = 2**25


@dataclass(frozen=True)
class Fit:
    """One row of the table; gamma is a multiple of "scale", or for None what the fifth neighbours ask for."""

    name: str
    data: str
    m: int
    parameters: dict[str, Any]
    target: str = ""
    gamma_times: float | None = 1.0
    peer: bool = True
    repeats: int | None = None


def clusters(m: int, d: int) -> np.ndarray:
    """Return rows of eight clusters."""
    rng = np.random.default_rng(0)
    return 4.0 * rng.normal(size=(8, d))[np.arange(m) % 8] + rng.normal(size=(m, d))


def neighbour_gamma(X: np.ndarray) -> float:
    """Return 2 over the median squared distance to the fifth neighbour."""
    distinct = np.unique(X, axis=0)
    fifth = NearestNeighbors(n_neighbors=6).fit(distinct).kneighbors(distinct)[0][:, 5]
    return float(2.0 / np.median(fifth) ** 2)


def spec(**changed: Any) -> dict[str, Any]:
    return {"nu_lower": 0.1, "nu_upper": 0.05, "n_jobs": N_JOBS, **changed}


ONE_PLANE = spec(epsilon=0.0)
SLAB = spec()
# Where the planes' masses nearly cancel, what is left of w is small, and K of one feature is singular to rounding.
NEAR_ONE = spec(nu_upper=0.01, n_jobs=None, gamma="neighbours")
FEW_OUTLIERS = spec(nu_lower=0.02, nu_upper=0.01)
# As the detectors are made without a parameter.
DEFAULTS = {"nu_lower": 0.1, "nu_upper": 0.01, "n_jobs": None, "gamma": "neighbours"}
SMALL: dict[int, tuple[float, float]] = {100: (0.6, 0.6), 300: (0.9, 0.9), 1_000: (0.8, 0.8), 2_000: (0.4, 0.5)}

FITS = [
    *(
        Fit(name, "normal 8", m, DEFAULTS | plane, f"peer >= {target}", repeats=REPEATS_OF_SMALL)
        for m, targets in SMALL.items()
        for name, plane, target in (
            ("one plane, defaults", {"epsilon": 0.0}, targets[0]),
            ("slab, defaults", {}, targets[1]),
        )
    ),
    *(
        Fit("slab, planes apart", data, m, spec(n_jobs=None, nu_upper=0.01), gamma_times=1.0, repeats=REPEATS_OF_SMALL)
        for data in ("normal 8", "clusters 8")
        for m in SMALL
    ),
    Fit("one plane", "clouds 16", 20_000, ONE_PLANE, "peer >= 10"),
    Fit("slab", "clouds 16", 20_000, SLAB, "peer >= 2"),
    Fit("one plane", "clouds 784", 10_000, ONE_PLANE),
    Fit("slab", "clouds 784", 10_000, SLAB),
    Fit("one plane", "letter", 20_000, ONE_PLANE),
    Fit("slab", "letter", 20_000, SLAB),
    *(
        Fit(f"slab, gamma {name}", f"table {table}", MOST_ROWS, SLAB, gamma_times=times)
        for table in TABLES
        for name, times in (("x 4", 4.0), ("of neighbours", None))
    ),
    *(
        Fit(f"slab, epsilon {epsilon:g}", data, 4_000, NEAR_ONE | {"epsilon": epsilon}, "<= 5 s", peer=False, repeats=1)
        for data in ("normal 1", "normal 20")
        for epsilon in (0.9, 0.99, 0.999, 1.001)
    ),
    Fit("slab, nu .02/.01", "clouds 16", 100_000, FEW_OUTLIERS, peer=False, repeats=1),
]


def load(fit: Fit, options: Options) -> np.ndarray | None:
    m = fit.m
    if fit.data == "letter":
        found = letters(options)
        return found and found[0][:m] / 15
    if fit.data.startswith("table "):
        file = options.data and options.data / "tabular" / f"adbench-{fit.data.removeprefix('table ')}.npz"
        if not file or not file.exists():
            return None
        return StandardScaler().fit_transform(np.load(file)["train"][:m].astype(np.float64))
    kind, _, d = fit.data.rpartition(" ")
    made: dict[str, Callable[[int, int], np.ndarray]] = {
        "clouds": clouds,
        "normal": lambda m, d: np.random.default_rng(0).normal(size=(m, d)),
        "clusters": clusters,
    }
    return made[kind](m, int(d))


def seconds(action: Callable[[], Any], clock: Callable[[], float], *, large: bool) -> float:
    """Return the time of an action by a clock, once there is memory for a large one.

    A virtual machine gives memory that is free for a second back to its host, and takes up to .3 s to have it again:
    whoever runs first after a pause would pay for that.
    """
    if large:
        np.ones(MEMORY_BYTES // 8)
    begin = clock()
    action()
    return clock() - begin


def columns_once(kernel: Kernel, X: np.ndarray, n_columns: int, n_threads: int) -> Callable[[], None]:
    """Return what computes so many columns of K in float32 and keeps none."""
    # Memory is taken once, or taking it would cost more than filling it.
    rows = kernel.prepare(X, np.float32)
    height = max(1, min(LIMIT_BYTES // (4 * len(X)), -(-n_columns // n_threads)))
    pieces = [slice(first, min(first + height, n_columns)) for first in range(0, n_columns, height)]
    own = threading.local()

    def compute(piece: slice) -> None:
        if not hasattr(own, "memory"):
            own.memory = np.empty((height, len(X)), dtype=np.float32)
        kernel.block(rows[piece], rows, own.memory[: piece.stop - piece.start])

    pool = ThreadPoolExecutor(n_threads)

    def once() -> None:
        with ONE_BLAS_THREAD:
            list(pool.map(compute, pieces) if n_threads > 1 else map(compute, pieces))

    once()
    return once


def measure(fit: Fit, options: Options) -> list[Record]:
    """Return medians of interleaved runs of limit, ours and peer; nothing where the data are not there."""
    X = load(fit, options)
    if X is None:
        return []
    repeats = fit.repeats or options.repeats
    gamma = neighbour_gamma(X) if fit.gamma_times is None else fit.gamma_times / (X.shape[1] * X.var())
    ours = OneClassSlabSVM(**{"gamma": gamma, **fit.parameters})
    if "gamma" in fit.parameters:
        gamma = OneClassSlabSVM(**fit.parameters).fit(X).gamma_
    kernel, nu = fit.parameters.get("kernel", "rbf"), fit.parameters["nu_lower"]
    peer = OneClassSVM(kernel=kernel, gamma=gamma, nu=nu, cache_size=1000)
    large, clock = fit.m > 1000, CLOCKS[options.clock]
    first = seconds(lambda: ours.fit(X), clock, large=large)
    distinct = np.unique(X, axis=0)
    n_columns = len(np.unique(X[ours.support_], axis=0))
    limit = columns_once(ours.model_.kernel, distinct, n_columns, N_JOBS if large else 1)

    times: dict[str, list[float]] = {"limit": [], "ours": [], "peer": []}
    for _ in range(repeats):
        times["limit"] += [seconds(limit, clock, large=large) for _ in range(LIMIT_RUNS)]
        # A fit of minutes need not be repeated to be warm.
        times["ours"].append(first if repeats == 1 else seconds(lambda: ours.fit(X), clock, large=large))
        if fit.peer:
            times["peer"].append(seconds(lambda: peer.fit(X), clock, large=large))
    median = {name: float(np.median(values)) for name, values in times.items() if values}
    # A limit is what nothing can go below.
    least = min(times["limit"])
    record = {
        "case": fit.name,
        "data": fit.data,
        "m": len(X),
        "d": X.shape[1],
        "seconds": median["ours"],
        "limit_seconds": least,
        "ours_over_limit": median["ours"] / least,
        "relative_gap": ours.relative_gap_,
        "status": ours.status_,
        "n_support": len(ours.support_),
        "repeats": repeats,
        "target": fit.target,
    }
    if fit.peer:
        record["peer_over_ours"] = median["peer"] / median["ours"]
        if fit.parameters.get("epsilon") == 0.0:
            # libsvm scales its coefficients by nu m; its objective in our unit, from its own scores.
            beta = peer.dual_coef_[0] / (nu * len(X))
            scores = ours.model_.kernel(peer.support_vectors_, peer.support_vectors_) @ beta
            record["peer_objective_over_ours"] = float(0.5 * beta @ scores / ours.dual_objective_)
    return [record]


def row(record: Record) -> str:
    peer = f"{record['peer_over_ours']:.1f}" if "peer_over_ours" in record else "-"
    return (
        f"{record['case']} | {record['data']} | {record['m']:,} x {record['d']} | {record['seconds'] * 1e3:,.1f} ms "
        f"| {peer} | {record['ours_over_limit']:.1f} | {record['relative_gap']:.0e} {record['status']} "
        f"| {record['target'] or '-'}"
    )


def cases(options: Options) -> Iterator[Case]:
    for fit in FITS:
        yield f"{fit.name} {fit.data} {fit.m}", partial(measure, fit, options)


if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        tables(Table("case | data | size | time | peer / ours | ours / limit | gap | target", row, "lllrrrll")),
        keys=("case", "data", "m"),
        whole=has_letter,
        arguments=DATA
        | {
            "--repeats": {"type": int, "default": 5, "help": "[%(default)s]"},
            "--clock": {"choices": tuple(CLOCKS), "default": "wall", "help": "[%(default)s]"},
        },
    ).main()
