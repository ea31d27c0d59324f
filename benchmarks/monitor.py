"""The promises of `DriftMonitor`: false alarms, the rows until a change is found, and bounds of the rate.

    python benchmarks/monitor.py --page docs/results/drift.md

That page says what is measured. "Ranks among the reference alone" are no part of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm import ConformalDetector, DriftMonitor, KernelDensityDetector, OneClassSlabSVM, OneClassSVM
from slabsvm.monitor import BETS, after_bets

N_STREAMS, N_ROWS, N_LEARNED, CHANGE, N_CALIBRATING = 200, 5000, 200, 2000, 500
ALPHA, REFERENCE_VALUES = 0.01, (0.1, 0.2, 0.5, 1.0)


class Coin(BaseEstimator):
    """A detector that accepts rows whose first feature is at least 0, and with yes_or_no says no more than that."""

    def __init__(self, yes_or_no: bool = False):
        self.yes_or_no = yes_or_no

    def fit(self, X: object, y: object = None) -> Coin:
        self.fitted_ = True
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] < 0, -1.0, 1.0) if self.yes_or_no else X[:, 0]


ROWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=(n, 5)),
    "moved": lambda rng, n: rng.normal(2.0, size=(n, 1)),
    "heavy tails": lambda rng, n: rng.standard_t(2, (n, 3)),
    "log-normal": lambda rng, n: rng.lognormal(size=(n, 2)),
    "booleans": lambda rng, n: (rng.random((n, 10)) < np.linspace(0.05, 0.5, 10)).astype(float),
}
# What rows become at a change.
CHANGES: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "none": lambda _, rows: rows,
    "shift": lambda _, rows: rows + 0.5,
    "scale": lambda _, rows: rows * 1.3,
    "outliers": lambda rng, rows: rows + 4.0 * (rng.random(len(rows)) < 0.05)[:, None],
    "drift": lambda _, rows: rows + np.arange(1, len(rows) + 1)[:, None] / 4000.0,
}
# The estimator, its rows, and whether reference rows are given.
STREAMS: dict[str, tuple[Any, str, bool]] = {
    "normal, slab, leave-one-out": (OneClassSlabSVM(), "normal", False),
    "normal, calibrated slab": (ConformalDetector(OneClassSlabSVM()), "normal", False),
    "heavy tails, one-class SVM": (OneClassSVM(), "heavy tails", True),
    "log-normal, scaler and slab": (make_pipeline(StandardScaler(), OneClassSlabSVM()), "log-normal", True),
    "booleans, kernel density": (KernelDensityDetector(), "booleans", True),
    "normal, yes or no alone": (Coin(yes_or_no=True), "moved", True),
}
ALONE = "normal, slab, ranks among the reference alone"


def false_alarms(kind: str) -> list[Record]:
    """Return how many streams without a change raise an alarm."""
    estimator, name, given = STREAMS.get(kind, (OneClassSlabSVM(), "normal", True))
    draw, most = ROWS[name], np.empty(N_STREAMS)
    for seed in range(N_STREAMS):
        rng = np.random.default_rng(seed)
        model, reference, rows = clone(estimator).fit(draw(rng, N_LEARNED)), draw(rng, N_LEARNED), draw(rng, N_ROWS)
        if kind == ALONE:
            less = np.searchsorted(np.sort(model.decision_function(reference)), model.decision_function(rows))
            p = (less + rng.random(N_ROWS)) / (N_LEARNED + 1)
            logs, _ = after_bets(np.zeros(len(BETS)), 0.0, 0, np.stack([p, 1 - p], axis=1))
        else:
            logs = DriftMonitor(model).fit(reference if given else None).update(rows).log_evidence
        most[seed] = logs.max()
    found = [(alpha, int(np.count_nonzero(most >= -np.log(alpha)))) for alpha in (0.05, ALPHA)]
    return [
        {"section": "false", "kind": kind, "alpha": alpha, "streams": N_STREAMS, "rows": N_ROWS, "alarms": count}
        | {"chance": float(binom.sf(count - 1, N_STREAMS, alpha))}
        for alpha, count in found
    ]


def stream_of(kind: str, seed: int) -> tuple[DriftMonitor, np.ndarray, np.ndarray]:
    """Return a monitor, a stream, and its scores, standardised by the reference."""
    rng, draw = np.random.default_rng(seed), ROWS["normal"]
    model, reference, rows = OneClassSlabSVM().fit(draw(rng, N_LEARNED)), draw(rng, N_LEARNED), draw(rng, N_ROWS)
    rows[CHANGE:] = CHANGES[kind](rng, rows[CHANGE:])
    scores = model.decision_function(reference)
    return DriftMonitor(model).fit(reference), rows, (model.decision_function(rows) - scores.mean()) / scores.std()


def cusum(scores: np.ndarray, k: float) -> np.ndarray:
    """Return the largest sum so far of k less the score, from 0, at each row, (n_rows, n_streams), as scores are."""
    total, sums = np.zeros(scores.shape[1]), np.empty_like(scores)
    for row, some in enumerate(scores):
        sums[row] = total = np.maximum(0.0, total - some - k)
    return np.maximum.accumulate(sums)


@cache
def thresholds() -> dict[float, float]:
    scores = np.stack([stream_of("none", 10_000 + seed)[2] for seed in range(N_CALIBRATING)], axis=1)
    return {k: float(np.quantile(cusum(scores, k)[-1], 1 - ALPHA)) for k in REFERENCE_VALUES}


def delays(kind: str) -> list[Record]:
    """Return how many rows after a change it is found."""
    streams = [stream_of(kind, seed) for seed in range(N_STREAMS)]
    scores = np.stack([one[2] for one in streams], axis=1)
    logs = np.stack([monitor.update(rows).log_evidence for monitor, rows, _ in streams], axis=1)
    alarms = {f"CUSUM, k = {k:g}": cusum(scores, k) > level for k, level in thresholds().items()}
    found = []
    for method, over in ({"monitor": logs >= -np.log(ALPHA)} | alarms).items():
        first = np.where(over.any(axis=0), over.argmax(axis=0) + 1.0, np.inf)
        quantiles = np.quantile(first[first > CHANGE] - CHANGE, (0.5, 0.9), method="higher")
        median, most = (float(one) if np.isfinite(one) else None for one in quantiles)
        record = {"section": "change", "kind": kind, "method": method, "early": float((first <= CHANGE).mean())}
        found.append(record | {"median": median, "nine in ten": most})
    return [found[0], min(found[1:], key=lambda one: one["median"] or np.inf)]


def coverage(name: str) -> Record:
    """Return the share of streams in which any bound at any row misses the window's mean probability."""
    n_rows = 2 * N_ROWS
    chance = np.full(n_rows, 0.05) if name == "constant, .05" else 0.3 + 0.2 * np.sin(np.arange(n_rows) / 700.0)
    total, last = np.concatenate([[0.0], np.cumsum(chance)]), np.arange(1, n_rows + 1)
    rng, missed, width = np.random.default_rng(0), 0, []
    for _ in range(N_STREAMS):
        monitor = DriftMonitor(Coin().fit(None)).fit(rng.normal(size=(N_LEARNED, 1)))
        found = monitor.update(chance[:, None] * -1.0 + rng.random((n_rows, 1))).rejection
        mean = (total[last] - total[last - found.n_rows]) / found.n_rows
        missed += bool(((mean < found.low) | (mean > found.high)).any())
        width.append(found.high[-2] - found.low[-2])
    return {"section": "rates", "rate": name, "streams": N_STREAMS, "rows": n_rows} | {
        "missed": missed / N_STREAMS,
        "width": round(float(np.mean(width)), 4),
    }


def cases(_: Options) -> Iterator[Case]:
    for kind in (*STREAMS, ALONE):
        yield f"false alarms, {kind}", partial(false_alarms, kind)
    for kind in CHANGES:
        if kind != "none":
            yield f"change, {kind}", partial(delays, kind)
    for name in ("constant, .05", "changing"):
        yield f"rates, {name}", partial(coverage, name)


def _of_change(r: Record) -> str:
    delays = ("not found" if r[name] is None else f"{r[name]:,.0f}" for name in ("median", "nine in ten"))
    return " | ".join([r["kind"], r["method"], f"{r['early']:.3f}", *delays])


report = tables(
    Table(
        "stream | alpha | streams | rows | false alarms | chance",
        lambda r: " | ".join(f"{r[name]:,}" for name in ("alpha", "streams", "rows", "alarms")).join(
            [f"{r['kind']} | ", f" | {r['chance']:.2g}"]
        ),
        section="false",
    ),
    Table(
        "change | method | alarm before it | median delay, rows | nine in ten, rows",
        _of_change,
        align="llrrr",
        section="change",
    ),
    Table(
        "rate | error promised | streams | rows | streams with a miss at any row | mean width",
        lambda r: f"{r['rate']} | 0.05 | {r['streams']} | {r['rows']:,} | {r['missed']:.3f} | {r['width']:.3f}",
        section="rates",
    ),
)

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=("section", "kind", "method", "alpha", "rate"), alone=()).main()
