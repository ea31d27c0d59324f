"""Measure the promises of `DriftMonitor`: false alarms, the delay to find changes, mixes of classes, bounds of rates.

    python benchmarks/monitor.py [--page docs/results/drift.md]
    python benchmarks/monitor.py --only change
    python benchmarks/monitor.py --read

Streams have 10,000 rows of five normal features. Each has a slab of its own, with default parameters, learned from 200
rows, and 200 reference rows. "Held out": ranks among reference rows and all rows before, which is what is promised of.
"Leave-one-out": the slab's own training rows stand in for the reference. "Fixed": ranks among the held-out rows alone,
bet against alike; it is no part of the package, and shows why not.

Changes come at row 2,001, in 300 streams: all features move by .5; spread 1.3 times as wide; a row in twenty is a
outlier, 4 away in all features; or move by 1 in 4,000 rows. CUSUM sums reference value k less the score, standardised
by the mean and deviation of the reference rows, and restarts at 0. Its threshold is the one with which a share alpha of
the 1,000 streams without a change raises an alarm, which nobody has in practice. "Best k" is that of seven with the
least median delay for the change in question, in hindsight; "k = .5" is the usual one.

Delays are those of streams without an alarm before the change; what is never found counts as infinite.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, partial

import numpy as np

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm import OneClassSlabSVM
from slabsvm.monitoring.betting import EDGES, Bag, Betting
from slabsvm.monitoring.course import Tally, rates
from slabsvm.monitoring.monitor import PLACING, edges_of, own_scores

N_STREAMS, N_CHANGED, N_ROWS, N_LEARNED, N_FEATURES, CHANGE = 1000, 300, 10_000, 200, 5, 2000
# Delays are those at the last of them.
ALPHAS = (0.05, 0.01)
RUN_LENGTH, LONG_RUN = 1000, 10_000
KINDS = ("shift", "scale", "outliers", "drift")
REFERENCE_VALUES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
USUAL = 0.5
# The classes that a classifier names, unknown first, as shares of all rows; and after the change.
MIX, OTHER_MIX = (0.05, 0.4, 0.3, 0.25), (0.05, 0.5, 0.25, 0.2)
# Streams that share the reference rows which place the bins: bets are made on these at once.
N_TOGETHER, N_PLACING = 50, N_LEARNED // PLACING
CONFIDENCE, WIDTH = 0.95, 1000
KEYS = ("section", "reference", "method", "kind", "alpha", "rate")


def changed(kind: str, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return rows after a change of this kind."""
    if kind == "shift":
        return rows + 0.5
    if kind == "scale":
        return rows * 1.3
    if kind == "outliers":
        return rows + 4.0 * (rng.random(len(rows)) < 0.05)[:, None]
    return rows + np.arange(1, len(rows) + 1)[:, None] / 4000.0


def detectors(n_streams: int) -> Iterator[tuple[OneClassSlabSVM, np.ndarray, np.random.Generator]]:
    """Give each stream's detector, the scores of its reference rows, and what draws its rows."""
    for seed in range(n_streams):
        rng = np.random.default_rng(seed)
        model = OneClassSlabSVM().fit(rng.normal(size=(N_LEARNED, N_FEATURES)))
        yield model, model.decision_function(rng.normal(size=(N_LEARNED, N_FEATURES))), rng


def ranked(reference: np.ndarray, scores: np.ndarray, seed: int) -> np.ndarray:
    """Return p-values and 1 less them, (2, n_rows)."""
    below, above, _ = Bag.of(reference, None, seed).ranked(scores)
    return np.stack([below, above])


def against_fixed(reference: np.ndarray, scores: np.ndarray, seed: int) -> np.ndarray:
    """Return p-values against the reference alone, (2, n_rows), with ties broken at random as for ranks."""
    draws = np.random.default_rng(seed).random(len(scores))
    less = np.searchsorted(np.sort(reference), scores)
    below = (less + draws) / (len(reference) + 1)
    return np.stack([below, 1.0 - below])


@cache
def without_change() -> dict[str, np.ndarray]:
    """Return p-values by each reference, (2, n_rows, n_streams), and standardised scores, (n_rows, n_streams)."""
    shape = (2, N_ROWS, N_STREAMS)
    found = {name: np.empty(shape) for name in ("held out", "leave-one-out", "fixed")}
    standardised = np.empty(shape[1:])
    for stream, (model, reference, rng) in enumerate(detectors(N_STREAMS)):
        scores = model.decision_function(rng.normal(size=(N_ROWS, N_FEATURES)))
        found["held out"][..., stream] = ranked(reference, scores, stream)
        found["leave-one-out"][..., stream] = ranked(own_scores(model)[0], scores, stream)
        found["fixed"][..., stream] = against_fixed(reference, scores, stream)
        standardised[:, stream] = (scores - reference.mean()) / reference.std()
    return found | {"scores": standardised}


@cache
def with_change(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return p-values, (2, n_rows, n_streams), and standardised scores of streams with a change."""
    p, standardised = np.empty((2, N_ROWS, N_CHANGED)), np.empty((N_ROWS, N_CHANGED))
    for stream, (model, reference, rng) in enumerate(detectors(N_CHANGED)):
        rows = rng.normal(size=(N_ROWS, N_FEATURES))
        rows[CHANGE:] = changed(kind, rows[CHANGE:], rng)
        scores = model.decision_function(rows)
        p[..., stream] = ranked(reference, scores, stream)
        standardised[:, stream] = (scores - reference.mean()) / reference.std()
    return p, standardised


def first_alarms(p: np.ndarray, levels: Iterable[float], *, proper: bool = True, edges: object = EDGES) -> np.ndarray:
    """Return the row, from 1, at which wealth first reaches each level, (n_levels, n_streams); infinite if never."""
    betting, steps = Betting(np.array(edges), proper), np.log(np.array(list(levels)))
    wealth = betting.begun((p.shape[2],))
    found = np.full((len(steps), p.shape[2]), np.inf)
    for row in range(p.shape[1]):
        wealth = betting.after(wealth, p[0, row], p[1, row])
        found = np.where((wealth.log_value >= steps[:, None]) & np.isinf(found), row + 1, found)
    return found


def cusum(scores: np.ndarray, k: float) -> np.ndarray:
    """Return the largest sum so far at each row, (n_rows, n_streams)."""
    total, largest = np.zeros(scores.shape[1]), np.empty_like(scores)
    most = total
    for row, some in enumerate(scores):
        total = np.maximum(0.0, total - some - k)
        most = np.maximum(most, total)
        largest[row] = most
    return largest


def false_alarms(reference: str) -> list[Record]:
    """Return the share of streams without a change that raise an alarm."""
    alarms = first_alarms(without_change()[reference], [1 / alpha for alpha in ALPHAS])
    return [
        {"section": "false", "reference": reference, "alpha": alpha, "streams": N_STREAMS, "rows": N_ROWS}
        | {"share": round(float(np.isfinite(some).mean()), 4)}
        for alpha, some in zip(ALPHAS, alarms, strict=True)
    ]


def run_lengths(reference: str) -> Record:
    """Return the mean number of rows up to a false alarm, of at most all rows."""
    rows = first_alarms(without_change()[reference], [RUN_LENGTH], proper=False)[0]
    return {"section": "runs", "reference": reference, "promised": RUN_LENGTH, "rows": N_ROWS} | {
        "mean": round(float(np.minimum(rows, N_ROWS).mean())),
        "without": round(float(np.isinf(rows).mean()), 4),
    }


def delays(kind: str) -> list[Record]:
    """Return how soon a change is found."""
    p, scores = with_change(kind)
    alpha = ALPHAS[-1]

    def record(method: str, alpha: float | None, rows: np.ndarray, **more: object) -> Record:
        late = rows[rows > CHANGE] - CHANGE
        return {"section": "change", "kind": kind, "method": method, "alpha": alpha} | {
            "early": round(float((rows <= CHANGE).mean()), 4),
            "found": round(float(np.isfinite(late).mean()), 4),
            "median": _finite(np.quantile(late, 0.5, method="higher")),
            "nine in ten": _finite(np.quantile(late, 0.9, method="higher")),
            **more,
        }

    of_k = {}
    for k in REFERENCE_VALUES:
        level = np.sort(cusum(without_change()["scores"], k)[-1])[-int(alpha * N_STREAMS) - 1]
        over = cusum(scores, k) > level
        of_k[k] = np.where(over.any(axis=0), over.argmax(axis=0) + 1.0, np.inf)
    medians = {k: np.quantile(some[some > CHANGE], 0.5, method="higher") for k, some in of_k.items()}
    best = min(REFERENCE_VALUES, key=medians.__getitem__)
    return [
        record(f"monitor, run length {LONG_RUN:,}", None, first_alarms(p, [LONG_RUN], proper=False)[0]),
        record("monitor", alpha, first_alarms(p, [1 / alpha])[0]),
        record("CUSUM, best k", alpha, of_k[best], k=best),
        record("CUSUM, k = .5", alpha, of_k[USUAL], k=USUAL),
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def mixes() -> list[Record]:
    """Return false alarms and delays of the test of classes, and of one that takes shares of the reference for true."""
    rng, levels = np.random.default_rng(0), [1 / alpha for alpha in ALPHAS]
    found = []
    for kind, n_streams in (("none", N_STREAMS), ("mix", N_CHANGED)):
        alarms = defaultdict(list)
        for group in range(n_streams // N_TOGETHER):
            edges = edges_of(rng.choice(len(MIX), N_PLACING, p=MIX), len(MIX))
            online, plugged = np.empty((2, 2, N_ROWS, N_TOGETHER))
            for stream in range(N_TOGETHER):
                reference = rng.choice(len(MIX), N_LEARNED - N_PLACING, p=MIX)
                classes = rng.choice(len(MIX), N_ROWS, p=MIX)
                if kind == "mix":
                    classes[CHANGE:] = rng.choice(len(MIX), N_ROWS - CHANGE, p=OTHER_MIX)
                ranks = ranked(reference.astype(float), classes.astype(float), group * N_TOGETHER + stream)
                online[..., stream] = ranks
                ends = edges_of(reference, len(MIX))
                below = ends[classes] + rng.random(N_ROWS) * np.diff(ends)[classes]
                plugged[..., stream] = below, 1.0 - below
            alarms["ranks"].append(first_alarms(online, levels, edges=edges))
            alarms["shares as if known"].append(first_alarms(plugged, levels, edges=edges))
        for method, parts in alarms.items():
            for alpha, rows in zip(ALPHAS, np.concatenate(parts, axis=1), strict=True):
                late = rows[rows > CHANGE] - CHANGE
                found.append(
                    {"section": "mix", "kind": kind, "method": method, "alpha": alpha}
                    | {
                        "early": round(
                            float(np.isfinite(rows).mean() if kind == "none" else (rows <= CHANGE).mean()), 4
                        ),
                        "found": None if kind == "none" else round(float(np.isfinite(late).mean()), 4),
                        "median": None if kind == "none" else _finite(np.quantile(late, 0.5, method="higher")),
                    }
                )
    return found


def coverage(name: str) -> Record:
    """Return the share of streams of yes and no in which any bound at any row misses the window's mean probability."""
    chance = np.full(N_ROWS, 0.05) if name == "constant, .05" else 0.3 + 0.2 * np.sin(np.arange(N_ROWS) / 700.0)
    total, last = np.concatenate([[0.0], np.cumsum(chance)]), np.arange(1, N_ROWS + 1)
    rng, missed, width = np.random.default_rng(0), 0, 0.0
    for _ in range(N_STREAMS):
        yes = rng.random(N_ROWS) < chance
        tally, counts = Tally(WIDTH), []
        for one in yes.tolist():
            tally = tally.after(one)
            counts.append(tally.counts)
        found = np.array(counts)[::5]
        bounds = rates(found, CONFIDENCE)
        rows = last[::5]
        mean = (total[rows] - total[rows - found[:, 1]]) / found[:, 1]
        missed += bool(((mean < bounds.low) | (mean > bounds.high)).any())
        width += float(bounds.high[-1] - bounds.low[-1]) / N_STREAMS
    return {"section": "rates", "rate": name, "promised": round(1 - CONFIDENCE, 4), "streams": N_STREAMS} | {
        "missed": missed / N_STREAMS,
        "width": round(width, 4),
    }


def cases(options: Options) -> Iterator[Case]:
    """Give the cases; those of streams share them."""
    del options
    for reference in ("held out", "leave-one-out", "fixed"):
        yield f"false alarms, {reference}", partial(false_alarms, reference)
    for reference in ("held out", "leave-one-out"):
        yield f"run length, {reference}", partial(run_lengths, reference)
    for kind in KINDS:
        yield f"change, {kind}", partial(delays, kind)
    yield "mix of classes", mixes
    for name in ("constant, .05", "changing"):
        yield f"rates, {name}", partial(coverage, name)


def _shown(value: float | None) -> str:
    return "not found" if value is None else f"{value:,.0f}"


def _of_change(r: Record) -> str:
    k = f" ({r['k']:g})" if r["method"].endswith("best k") else ""
    alpha = "" if r["alpha"] is None else f"{r['alpha']:g}"
    cells = [r["kind"], r["method"] + k, alpha, f"{r['early']:.3f}", f"{r['found']:.3f}"]
    return " | ".join([*cells, _shown(r["median"]), _shown(r["nine in ten"])])


def _of_mix(r: Record) -> str:
    found = ["", ""] if r["kind"] == "none" else [f"{r['found']:.3f}", _shown(r["median"])]
    return " | ".join([r["kind"], r["method"], f"{r['alpha']:g}", f"{r['early']:.3f}", *found])


report = tables(
    Table(
        "reference | alpha | streams | rows | share with a false alarm",
        lambda r: f"{r['reference']} | {r['alpha']:g} | {r['streams']:,} | {r['rows']:,} | {r['share']:.3f}",
        section="false",
    ),
    Table(
        "reference | run length promised | mean, of at most 10,000 | without an alarm",
        lambda r: f"{r['reference']} | {r['promised']:,} | {r['mean']:,} | {r['without']:.3f}",
        section="runs",
    ),
    Table(
        "change | method | alpha | alarm before it | found | median delay, rows | nine in ten, rows",
        _of_change,
        align="llrrrrr",
        section="change",
    ),
    Table(
        "change of mix | method | alpha | alarm before it | found | median delay, rows",
        _of_mix,
        align="llrrrr",
        section="mix",
    ),
    Table(
        "rate | error promised | streams with a miss at any row | mean width at the end",
        lambda r: f"{r['rate']} | {r['promised']:g} | {r['missed']:.3f} | {r['width']:.3f}",
        section="rates",
    ),
)

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=KEYS).main()
