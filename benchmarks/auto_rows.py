"""What AutoSlabSVM's search of many rows in two steps is worth and costs, against all 28 candidates at once.

    python benchmarks/auto_rows.py --tables DIR [--rows N] [--every N]
    python benchmarks/auto_rows.py --report

DIR holds tables as NAME.npz: `train` (normal rows), `test` and `test_is_normal`. Of those that have more rows than the
first step takes, every N-th is learned from its first rows. Labelled test rows say what each choice is worth. Besides,
8,000 rows in 10 dimensions are learned, where time is counted in fits with nothing set. Processor time of search and
refit, one thread; a single run of each, so that only large ratios mean something.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wilcoxon
from sklearn.base import clone
from sklearn.metrics import matthews_corrcoef, roc_auc_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Document, Options, Record, Table
from samples import clouds
from slabsvm import AutoSlabSVM, OneClassSlabSVM
from slabsvm.selection.auto import FIRST_SAMPLES

LARGE = (8_000, 10)
WORTH = ("MCC", "recall", "AUROC")


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    return fit(), time.process_time() - begin


def in_two_steps(X: np.ndarray, n_searched: int) -> tuple[AutoSlabSVM, float]:
    return timed(lambda: AutoSlabSVM(max_search_samples=n_searched).fit(X))


def all_at_once(chosen: AutoSlabSVM, X: np.ndarray, n_searched: int) -> tuple[Any, float]:
    """Return the pipeline of the best of all candidates with the first rows, learned from all, and the seconds."""
    grid = chosen._grid(X, np.ones(len(X)))
    search = clone(chosen.search_).set_params(param_grid=grid, progress=None)
    return timed(lambda: clone(search.estimator).set_params(**search.fit(X[:n_searched]).best_params_).fit(X))


def worth(model: Any, X: np.ndarray, normal: np.ndarray) -> dict[str, float]:
    decisions = model.decision_function(X)
    accepted = decisions >= 0
    found = (matthews_corrcoef(normal, accepted), accepted[normal].mean(), roc_auc_score(normal, decisions))
    return dict(zip(WORTH, (round(float(value), 4) for value in found), strict=True))


def described(slab: OneClassSlabSVM, n_features: int) -> list[float]:
    """Return gamma, as a multiple of 1 / number of features, and epsilon and nu_lower."""
    return [round(float(value), 4) for value in (slab.gamma * n_features, slab.epsilon, slab.nu_lower)]


@threadpool_limits.wrap(limits=1, user_api="blas")
def of_table(file: Path, n_rows: int) -> Record:
    with np.load(file) as data:
        X, test, normal = data["train"][:n_rows].astype(float), data["test"].astype(float), data["test_is_normal"]
    two, seconds = in_two_steps(X, n_rows)
    once, seconds_at_once = all_at_once(two, X, n_rows)
    return {
        "section": "table",
        "data": file.stem,
        "m": len(X),
        "d": X.shape[1],
        "seconds": {"two steps": round(seconds, 2), "at once": round(seconds_at_once, 2)},
        "chosen": {"two steps": described(two.slab_, X.shape[1]), "at once": described(once[-1], X.shape[1])},
        "worth": {"two steps": worth(two, test, normal), "at once": worth(once, test, normal)},
    }


@threadpool_limits.wrap(limits=1, user_api="blas")
def of_clouds() -> Record:
    X = clouds(*LARGE)
    standard = StandardScaler().fit_transform(X)
    OneClassSlabSVM().fit(standard[:1000])  # compiles
    defaults = min(timed(lambda: OneClassSlabSVM().fit(standard))[1] for _ in range(3))
    two, seconds = in_two_steps(X, 2000)
    refit = min(timed(lambda: clone(two.slab_).fit(standard))[1] for _ in range(2))
    once, seconds_at_once = all_at_once(two, X, 2000)
    return {
        "section": "clouds",
        "data": f"clouds, {len(X):,} x {X.shape[1]}",
        "defaults": round(defaults, 3),
        "seconds": {"two steps": round(seconds, 2), "at once": round(seconds_at_once, 2), "refit": round(refit, 2)},
        "chosen": {"two steps": described(two.slab_, X.shape[1]), "at once": described(once[-1], X.shape[1])},
    }


def cases(options: Options) -> Iterator[Case]:
    yield "clouds", of_clouds
    files = sorted(options.tables.glob("*.npz")) if options.tables else []
    for file in [file for file in files if _n_distinct(file, options.rows) > FIRST_SAMPLES][:: options.every]:
        yield file.stem, partial(of_table, file, options.rows)


def has_tables(options: Options) -> bool:
    return options.tables is not None


def _n_distinct(file: Path, n_rows: int) -> int:
    with np.load(file) as data:
        return len(np.unique(data["train"][:n_rows], axis=0))


def clouds_row(record: Record) -> str:
    seconds, one = record["seconds"], record["defaults"]
    shares = " | ".join(f"{seconds[way] / one:.1f}" for way in ("two steps", "at once", "refit"))
    return f"{record['data']} | {one:.2f} s | {shares}"


def report(document: Document) -> str:
    """Return the times on the clouds, and the means over the tables of what each way is worth."""
    records = document["records"]
    large = Table(
        "data | a fit with nothing set | in two steps | at once | the refit alone", clouds_row, section="clouds"
    )
    found = [record for record in records if record["section"] == "table"]
    if not found:
        return large.of(records)
    return f"{large.of(records)}\n\n{worth_of(found)}"


def worth_of(records: list[Record]) -> str:
    def of(way: str, what: str) -> np.ndarray:
        return np.array([record["worth"][way][what] for record in records])

    seconds = {way: sum(record["seconds"][way] for record in records) for way in ("two steps", "at once")}
    rows = [{"way": way, "seconds": seconds[way]} | {what: of(way, what).mean() for what in WORTH} for way in seconds]
    line = "{way} | {seconds:.0f} s | {MCC:.3f} | {recall:.3f} | {AUROC:.3f}".format_map
    same = np.mean([record["chosen"]["two steps"] == record["chosen"]["at once"] for record in records])
    less = [of("two steps", what) - of("at once", what) for what in ("MCC", "AUROC")]
    told = ", ".join(
        f"{name} {values.mean():+.4f} (standard error {values.std(ddof=1) / np.sqrt(len(values)):.4f}, Wilcoxon p "
        f"{wilcoxon(values).pvalue:.2g})"
        for name, values in zip(("MCC", "AUROC"), less, strict=True)
    )
    return (
        f"{Table('way | all searches and refits | MCC | recall | AUROC', line).of(rows)}\n\n"
        f"{len(records)} tables; the same choice on {same:.0%}; two steps less at once: {told}."
    )


ARGUMENTS = {
    "--tables": {"type": Path, "metavar": "DIR", "help": "folder of tables"},
    "--rows": {"type": int, "default": 1200, "metavar": "N", "help": "learn the first N rows of a table [%(default)s]"},
    "--every": {"type": int, "default": 1, "metavar": "N", "help": "take every N-th table"},
}

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, whole=has_tables, arguments=ARGUMENTS, keys=("section", "data")).main()
