"""What additive kernels cost: fits, predictions and explanations of a slab, and blocks of kernel values.

    python benchmarks/additive.py [--only WORD]

Processor time of one thread, the least of some turns. Fits are of histograms at the defaults; predictions of 4,096 new
rows and explanations of 500 are given a row. Blocks are of 400 by 2,000 rows of 256 features, against scikit-learn's
`additive_chi2_kernel`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import additive_chi2_kernel
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Options, Record, Table, interleaved, tables
from slabsvm import OneClassSlabSVM
from slabsvm.kernels import NAMED

KERNELS = ("intersection", "chi2")
SIZES = ((1_000, 50), (5_000, 50), (20_000, 16))
N_NEW, N_EXPLAINED = 4096, 500
BLOCK = (400, 2000, 256)


def histograms(m: int, d: int, seed: int) -> np.ndarray:
    """Return rows that sum to 1, of features of different sizes."""
    shapes = 0.2 + 2.0 * np.random.default_rng(0).random(d)
    drawn = np.random.default_rng(seed).gamma(shapes, 1.0, (m, d))
    return drawn / drawn.sum(axis=1, keepdims=True)


def least_seconds(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    seconds, _ = interleaved(actions, repeats, clock=time.process_time)
    return {name: min(taken) for name, taken in seconds.items()}


@threadpool_limits.wrap(limits=1)
def model(kernel: str, m: int, d: int) -> Record:
    """A fit, and what a row costs afterwards."""
    X, new = histograms(m, d, 1), histograms(N_NEW, d, 2)
    slab = OneClassSlabSVM(kernel=kernel)
    fit = least_seconds({"fit": lambda: slab.fit(X)}, 3 if m <= 1000 else 1)["fit"]
    actions = {"predict": lambda: slab.project(new), "explain": lambda: slab.explain(new[:N_EXPLAINED])}
    least = least_seconds(actions, 3)
    return {
        "section": "model",
        "case": kernel,
        "m": m,
        "d": d,
        "n_support": len(slab.support_),
        "fit_seconds": fit,
        "microseconds_per_prediction": least["predict"] / N_NEW * 1e6,
        "microseconds_per_explanation": least["explain"] / N_EXPLAINED * 1e6,
    }


@threadpool_limits.wrap(limits=1)
def block(kernel: str, dtype: Any) -> Record:
    """A block, in time for a pair and a feature, and scikit-learn's time over it."""
    n_left, n_right, d = BLOCK
    made, X, Z = NAMED[kernel](), *(histograms(n, d, n).astype(dtype) for n in (n_left, n_right))
    actions = {"ours": lambda: made.block(X, Z), "scikit-learn": lambda: additive_chi2_kernel(X, Z)}
    least = least_seconds(actions, 5)
    return {
        "section": "block",
        "case": kernel,
        "dtype": np.dtype(dtype).name,
        "picoseconds_per_pair_and_feature": least["ours"] / (n_left * n_right * d) * 1e12,
        "scikit_learn_over_ours": least["scikit-learn"] / least["ours"],
    }


def cases(_: Options) -> Iterator[Case]:
    for m, d in SIZES:
        for kernel in KERNELS:
            yield f"{kernel}, {m} x {d}", partial(model, kernel, m, d)
    for dtype in (np.float64, np.float32):
        for kernel in KERNELS:
            yield f"block, {kernel}, {dtype.__name__}", partial(block, kernel, dtype)


MODELS = Table(
    "kernel | rows | support vectors | fit | a prediction | an explanation",
    (
        "{case} | {m:,} x {d} | {n_support:,} | {fit_seconds:.2f} s | {microseconds_per_prediction:.1f} µs "
        "| {microseconds_per_explanation:.0f} µs"
    ).format_map,
    section="model",
)
BLOCKS = Table(
    "block | type | ps a pair and feature | scikit-learn / ours",
    "{case} | {dtype} | {picoseconds_per_pair_and_feature:.0f} | {scikit_learn_over_ours:.1f}".format_map,
    "llrr",
    section="block",
)

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(MODELS, BLOCKS), keys=("section", "case", "m", "d", "dtype")).main()
