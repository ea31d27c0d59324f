"""How far the volumes are off that criterion="volume" compares, where the truth is known: balls around Gaussian data.

    python benchmarks/volumes.py

Rows of a standard normal distribution in d dimensions; balls of radius .7 sqrt(d) and sqrt(d) around the origin, which
hold few and half of them, and whose volumes are known. Their volumes are sampled as a search samples them, with 2,000
points, from 20 draws of the rows. Two questions: by how much is a volume off, in units that nobody would call wrong
(the standard deviations that the data were drawn with), and by how much in the rows' own unit, in which candidates are
compared with each other? And how much is the ratio of the two balls' volumes off, which is what a choice rests on?
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy.special import gammaln

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm.selection.criteria import MAKERS, SHRINKAGE, TightestAtRecall, log_volume_of

DIMENSIONS = (2, 8, 16, 32)
ROWS = (60, 200, 1000)
RADII = np.array([0.7, 1.0])
REPEATS = 20
N_POINTS = TightestAtRecall("volume").n_outliers


def errors(d: int, n_rows: int, seed: int) -> dict[str, float]:
    """Return by what the logarithms of volumes are off: of the larger ball, in either unit, and of the two's ratio."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(n_rows, d))
    made = MAKERS["volume"](rows, N_POINTS, generator)
    covariance = np.cov(rows.T, bias=True)
    shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(np.diag(covariance))
    unit = 0.5 * np.linalg.slogdet(shrunk)[1]
    radii = RADII * np.sqrt(d)
    exact = 0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1) + d * np.log(radii)
    squared = (made.X**2).sum(axis=1)
    sampled = np.array([log_volume_of(squared <= radius**2, made.log_volume) for radius in radii])
    off = sampled - exact
    return {"true unit": off[1], "own unit": off[1] + unit, "ratio": off[1] - off[0]}


def shown(logs: list[float]) -> str:
    """Return the median and the ninth decile of |sampled / true - 1|."""
    relative = np.abs(np.expm1(logs))
    return f"{np.median(relative):.2f} ({np.quantile(relative, 0.9):.2f})"


def measure(d: int, n_rows: int) -> Record:
    off = [errors(d, n_rows, seed) for seed in range(REPEATS)]
    logs = {what: [round(float(one[what]), 4) for one in off] for what in off[0]}
    return {"d": d, "n_rows": n_rows, "log_errors": logs}


def row(record: Record) -> str:
    return " | ".join([str(record["d"]), f"{record['n_rows']:,}", *map(shown, record["log_errors"].values())])


def cases(_: Options) -> Iterator[Case]:
    for d in DIMENSIONS:
        for n_rows in ROWS:
            yield f"{d} features, {n_rows} rows", partial(measure, d, n_rows)


TABLE = Table("features | rows | volume, true unit | volume, own unit | ratio of two volumes", row, "rrrrr")

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(TABLE), keys=("d", "n_rows")).main()
