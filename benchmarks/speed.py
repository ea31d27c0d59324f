"""How fast the slab trains, as ratios to a peer measured in the same run: docs/results/performance.md.

    python benchmarks/speed.py [--only WORD] [--data DIR]

The peer is scikit-learn's `OneClassSVM` at tol 1e-3. Time is of the processor, the sum over threads, which favours the
peer: it has one thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from harness import Benchmark, Case, Options, Record, Table, tables
from samples import clouds, folder, letters, read_table
from slabsvm import OneClassSlabSVM

N_JOBS = os.cpu_count() or 1
REPEATS, REPEATS_OF_SMALL = 3, 30
# So much memory is touched before a large run.
MEMORY_BYTES = 2**29
# Tables of novelty detection (ADBench, Han et al. 2022), standardised, of at most 4,000 rows.
TABLES = ("cardiotocography", "letter", "mnist", "pageblocks", "pendigits", "satellite", "shuttle", "spambase", "wilt")


@dataclass(frozen=True)
class Fit:
    """One row of the table."""

    name: str
    data: str
    m: int
    parameters: dict[str, Any]
    target: str = ""
    gamma: str = "scale"
    peer: bool = True
    repeats: int = REPEATS


def normal(m: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(m, d))


def clusters(m: int, d: int, spread: float = 0.25) -> np.ndarray:
    """Return rows of eight clusters, so far apart in units of what parts their centres."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(8, d))[np.arange(m) % 8] + spread * rng.normal(size=(m, d))) / spread


def spec(nu_upper: float = 0.05, n_jobs: int | None = N_JOBS, epsilon: float = 2 / 3, nu_lower: float = 0.1) -> Any:
    return {"nu_lower": nu_lower, "nu_upper": nu_upper, "epsilon": epsilon, "n_jobs": n_jobs}


ONE_PLANE = spec(epsilon=0.0)
SLAB = spec()
# Where the planes' masses nearly cancel, what is left of w is small, and K of one feature is singular to rounding.
near_one = partial(spec, 0.01, None)
FEW_OUTLIERS = spec(nu_lower=0.02, nu_upper=0.01)
SMALL: dict[int, tuple[float, float]] = {100: (0.6, 0.6), 300: (0.9, 0.9), 1_000: (0.8, 0.8), 2_000: (0.4, 0.5)}

FITS = [
    *(
        Fit(f"{name}, defaults", "normal 8", m, plane, f"peer >= {target}", "neighbours", repeats=REPEATS_OF_SMALL)
        for m, targets in SMALL.items()
        for name, plane, target in zip(("one plane", "slab"), ({"epsilon": 0.0}, {}), targets, strict=True)
    ),
    *(
        Fit("slab, planes apart", data, m, spec(n_jobs=None, nu_upper=0.01), repeats=REPEATS_OF_SMALL)
        for data in ("normal 8", "clusters 8")
        for m in SMALL
    ),
    *(
        Fit(f"{name}, few features", f"normal {d}", 1_000, plane, gamma="neighbours")
        for d in (1, 2)
        for name, plane in (("one plane", {"epsilon": 0.0}), ("slab", {}))
    ),
    Fit("one plane", "clouds 16", 20_000, ONE_PLANE, "peer >= 10"),
    Fit("slab", "clouds 16", 20_000, SLAB, "peer >= 2"),
    Fit("one plane", "clouds 784", 10_000, ONE_PLANE),
    Fit("slab", "clouds 784", 10_000, SLAB),
    Fit("one plane", "letter", 20_000, ONE_PLANE),
    Fit("slab", "letter", 20_000, SLAB),
    *(Fit("slab, gamma of neighbours", f"table {table}", 4_000, SLAB, gamma="neighbours") for table in TABLES),
    *(
        Fit(f"slab, epsilon {epsilon:g}", data, 4_000, near_one(epsilon), "<= 5 s", "neighbours", False, 1)
        for data in ("normal 1", "normal 20")
        for epsilon in (0.9, 0.99, 0.999, 1.001)
    ),
    Fit("slab, nu .02/.01", "clouds 16", 100_000, FEW_OUTLIERS, peer=False, repeats=1),
]


def load(fit: Fit, options: Options) -> np.ndarray:
    m = fit.m
    if fit.data == "letter":
        return letters(options)[0][:m] / 15
    if fit.data.startswith("table "):
        train, _, _ = read_table(folder(options) / "tabular" / f"{fit.data.replace('table ', 'adbench-')}.npz")
        return StandardScaler().fit_transform(train[:m])
    kind, _, d = fit.data.rpartition(" ")
    return {"clouds": clouds, "normal": normal, "clusters": clusters}[kind](m, int(d))


def seconds(action: Callable[[], Any], *, large: bool) -> float:
    """Return the time of an action, once there is memory for a large one.

    A virtual machine gives memory that is free for a second back to its host, and takes up to .3 s to have it again:
    whoever runs first after a pause would pay for that.
    """
    if large:
        np.ones(MEMORY_BYTES // 8)
    begin = time.process_time()
    action()
    return time.process_time() - begin


def measure(fit: Fit, options: Options) -> Record:
    """Return medians of interleaved runs of ours and the peer's."""
    X = load(fit, options)
    ours = OneClassSlabSVM(**fit.parameters, gamma=fit.gamma)
    large = fit.m > 1000
    first = seconds(lambda: ours.fit(X), large=large)
    peer = OneClassSVM(gamma=ours.gamma_, nu=ours.nu_lower, cache_size=1000)
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(fit.repeats):
        # A fit of minutes need not be repeated to be warm.
        times["ours"].append(first if fit.repeats == 1 else seconds(lambda: ours.fit(X), large=large))
        if fit.peer:
            times["peer"].append(seconds(lambda: peer.fit(X), large=large))
    median = {name: float(np.median(values)) for name, values in times.items() if values}
    record = {
        "case": fit.name,
        "data": fit.data,
        "m": len(X),
        "d": X.shape[1],
        "seconds": median["ours"],
        "relative_gap": ours.relative_gap_,
        "status": ours.status_,
        "n_support": len(ours.support_),
        "repeats": fit.repeats,
        "target": fit.target,
    }
    return record | ({"peer_over_ours": median["peer"] / median["ours"]} if fit.peer else {})


def row(record: Record) -> str:
    peer = f"{record['peer_over_ours']:.1f}" if "peer_over_ours" in record else "-"
    return (
        f"{record['case']} | {record['data']} | {record['m']:,} x {record['d']} | {record['seconds'] * 1e3:,.1f} ms "
        f"| {peer} | {record['relative_gap']:.0e} {record['status']} "
        f"| {record['target'] or '-'}"
    )


def cases(options: Options) -> Iterator[Case]:
    for fit in FITS:
        yield f"{fit.name} {fit.data} {fit.m}", partial(measure, fit, options)


TABLE = Table("case | data | size | time | peer / ours | gap | target", row, "lllrrll")

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(TABLE), keys=("case", "data", "m")).main()
