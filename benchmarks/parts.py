"""What single parts cost: predictions, and a first fit.

    python benchmarks/parts.py [--only WORD] [--page docs/results/performance.md]

Predictions: `decision_function` of 10,001 support vectors of 16 features, in the least time of the same kernel block by
float32 products and exponentials, and against scikit-learn's. First fits: 257 rows in a new process, imports included.
Medians of interleaved runs, on one thread.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from time import perf_counter

import numpy as np
from sklearn.svm import OneClassSVM

from harness import Benchmark, Case, Options, Record, Table, interleaved, tables
from samples import clouds
from slabsvm import OneClassSlabSVM
from slabsvm.runtime.blas import ONE_BLAS_THREAD

REPEATS, FEW_REPEATS = 9, 3
# What a block is computed of at once.
BLOCK_BYTES = 2**25


def prediction(models: list[tuple[OneClassSlabSVM, OneClassSVM]], n_rows: int) -> Record:
    """Return the time of so many rows, over that of their block and of scikit-learn."""
    if not models:
        X = clouds(20_000, 16)
        gamma = 1 / (16 * X.var())
        ours = OneClassSlabSVM(gamma=gamma, nu_lower=0.5, epsilon=0.0, calibration="training").fit(X)
        models.append((ours, OneClassSVM(gamma=gamma, nu=0.5, cache_size=1000).fit(X)))
    ours, peer = models[0]
    rows = clouds(30_000, 16)[-n_rows:]
    kernel, vectors = ours.model_.kernel, ours.support_vectors_
    left, right = (kernel.prepare(some, np.float32) for some in (rows, vectors))
    height = max(1, min(n_rows, BLOCK_BYTES // (4 * len(vectors))))
    memory = np.empty((height, len(vectors)), dtype=np.float32)

    def block() -> None:
        with ONE_BLAS_THREAD:
            for first in range(0, n_rows, height):
                some = left[first : first + height]
                kernel.block(some, right, memory[: len(some)])

    actions = {"block": block, "ours": lambda: ours.decision_function(rows)}
    # scikit-learn takes seconds for many rows.
    peers = {"peer": lambda: peer.decision_function(rows)}
    seconds, _ = interleaved(actions | peers, REPEATS if n_rows <= 1000 else FEW_REPEATS)
    median = float(np.median(seconds["ours"]))
    return {
        "part": f"prediction, {n_rows:,} rows",
        "size": f"{len(vectors):,} x 16",
        "ms": 1e3 * median,
        "limits": median / min(seconds["block"]),
        "peer_over_ours": float(np.median(seconds["peer"])) / median,
    }


FIRST = """
import numpy, slabsvm
slabsvm.{}().fit(numpy.random.default_rng(0).normal(size=(257, 5)))
"""


def first_fit(name: str) -> Record:
    seconds = []
    for _ in range(FEW_REPEATS):
        begin = perf_counter()
        subprocess.run([sys.executable, "-c", FIRST.format(name)], check=True)
        seconds.append(perf_counter() - begin)
    return {"part": f"first fit, {name}", "size": "257 x 5", "ms": 1e3 * float(np.median(seconds))}


def cases(_: Options) -> Iterator[Case]:
    models: list[tuple[OneClassSlabSVM, OneClassSVM]] = []
    for n_rows in (1, 100, 1000, 10_000):
        yield f"prediction {n_rows}", partial(prediction, models, n_rows)
    for name in ("OneClassSVM", "OneClassSlabSVM", "AutoDetector"):
        yield f"first fit {name}", partial(first_fit, name)


def row(record: Record) -> str:
    shares = (f"{record[name]:.1f}" if name in record else "-" for name in ("limits", "peer_over_ours"))
    return f"{record['part']} | {record['size']} | {record['ms']:,.2f} ms | {' | '.join(shares)}"


if __name__ == "__main__":
    table = Table("part | size | time | kernel values | peer / ours", row, "llrrr")
    Benchmark(__file__, __doc__, cases, tables(table), keys=("part",)).main()
