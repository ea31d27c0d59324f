"""Additive kernels at their true cost: prediction, blocks, training, and explicit maps, as ratios in one run.

    python benchmarks/additive.py [--only WORD] [--data DIR]

Sections: prediction, blocks, training, maps (needs UCI Letter). Everything runs on one thread but for rows that say
"two threads" and the training section, which has n_jobs = 2 throughout. Runs are interleaved, and the least of each is
taken. The maps' figure is docs/results/chi2-map.svg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from sklearn.metrics import matthews_corrcoef
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Options, Record, Table, interleaved, tables
from samples import DATA, clouds, has_letter, letters
from slabsvm import LinearOneClassSlabSVM, OneClassSlabSVM
from slabsvm.gram.computed import Computed
from slabsvm.kernels.additive import Chi2, Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.features import Chi2Map

FIGURE = Path(__file__).parents[1] / "docs" / "results" / "chi2-map.svg"
REPEATS = 5
D = 256
# So many rows do for NumPy, which keeps all pairs' features at once.
FEW_ROWS, FEW_LEFT = 32, 20
SAMPLES = (1, 2, 3, 4, 6, 10)


def least_seconds(actions: dict[str, Callable[[], Any]], repeats: int = REPEATS) -> dict[str, float]:
    return {name: min(taken) for name, taken in interleaved(actions, repeats)[0].items()}


def histograms(m: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).gamma(0.5, 1.0, (m, d))


def intersection_by_broadcasting(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.minimum(X[:, None], Z[None]).sum(axis=2)


def chi2_by_broadcasting(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return (2 * X[:, None] * Z[None] / (X[:, None] + Z[None])).sum(axis=2)


@threadpool_limits.wrap(limits=1)
def prediction(n: int, m: int = 4096) -> list[Record]:
    """Scores of new rows by n support vectors: tables against a compiled loop over these, and against NumPy."""
    X, V, beta = histograms(m, D, 1), histograms(n, D, 0), np.random.default_rng(2).normal(size=n) / n
    cases: list[tuple[str, Kernel, Any]] = [
        ("intersection", Intersection(), intersection_by_broadcasting),
        ("chi2", Chi2(), chi2_by_broadcasting),
    ]
    records = []
    for name, kernel, formula in cases:
        score = kernel.projection(V, beta)
        assert score is not None
        actions = {
            "table": partial(score, X),
            "loop": lambda kernel=kernel: kernel(X, V) @ beta,
            "numpy": lambda formula=formula: formula(X[:FEW_ROWS], V) @ beta,
        }
        least = least_seconds(actions, 3)
        expected = kernel(X, V) @ beta
        span = float(np.ptp(expected))
        records.append(
            {
                "section": "prediction",
                "case": name,
                "n_support": n,
                "nanoseconds_per_row_and_feature": least["table"] / (m * D) * 1e9,
                "loop_over_table": least["loop"] / least["table"],
                "numpy_over_table": least["numpy"] * m / FEW_ROWS / least["table"],
                "error_over_range": float(np.abs(score(X) - expected).max()) / span,
            }
        )
    return records


@njit(fastmath={"nnan", "nsz", "reassoc", "contract"})
def minima(values: np.ndarray, bound: float, times: int) -> float:
    """Sum minima over an array that stays in the first-level cache: what the vector unit gives at most."""
    total = bound - bound
    for _ in range(times):
        for i in range(values.shape[0]):
            total += min(values[i], bound)
    return total


@threadpool_limits.wrap(limits=1)
def blocks(name: str, dtype: Any, n_left: int = 400, n_right: int = 2000) -> list[Record]:
    """A kernel's block, in time for a pair and a feature, against scikit-learn, NumPy, and a bare sum of minima."""
    kernel, formula = {
        "intersection": (Intersection(), intersection_by_broadcasting),
        "chi2": (Chi2(), chi2_by_broadcasting),
    }[name]
    X, Z = (histograms(n, D, n).astype(dtype) + dtype(0.01) for n in (n_left, n_right))
    left, right = kernel.prepare(X, dtype), kernel.prepare(Z, dtype)
    actions = {
        "ours": lambda: kernel.block(left, right),
        "scikit-learn": lambda: additive_chi2_kernel(X, Z),
        "numpy": lambda: formula(X[:FEW_LEFT], Z),
        "minima": lambda: minima(X[:4].ravel(), dtype(0.5), 10_000),
    }
    if dtype is np.float64:
        gram = Computed(kernel, np.concatenate([X, Z]), 2)
        rows, columns = np.split(np.arange(n_left + n_right), [n_left])
        actions["two threads"] = lambda: gram.block(rows, columns)
    least = least_seconds(actions)
    pairs = n_left * n_right * D
    return [
        {
            "section": "blocks",
            "case": f"{name}, {np.dtype(dtype).name}" + (", two threads" if threads != "ours" else ""),
            "picoseconds_per_pair_and_feature": least[threads] / pairs * 1e12,
            "scikit_learn_over_ours": least["scikit-learn"] / least[threads],
            "numpy_over_ours": least["numpy"] * n_left / FEW_LEFT / least[threads],
            "ours_over_minima": least[threads] / pairs / (least["minima"] / (4 * D * 10_000)),
        }
        for threads in ("ours", "two threads")
        if threads in least
    ]


def rows_of(data: str, m: int = 20_000, d: int = 64) -> np.ndarray:
    if data == "histograms":
        rng = np.random.default_rng(0)
        drawn = rng.gamma(2.0 * rng.random(d), 1.0, (m, d))
        return drawn / drawn.sum(axis=1, keepdims=True)
    blobs = clouds(m, d)
    return blobs - blobs.min(axis=0)


def training(data: str, epsilon: float) -> Record:
    """Fits on 20,000 rows of 64 features, against the RBF kernel's fit."""
    X = rows_of(data)
    model, rbf = (
        OneClassSlabSVM(kernel=kernel, epsilon=epsilon, nu_upper=0.05, n_jobs=2) for kernel in ("intersection", "rbf")
    )

    least = least_seconds({"rbf": lambda: rbf.fit(X), "ours": lambda: model.fit(X)}, 2)
    return {
        "section": "training",
        "case": data,
        "epsilon": epsilon,
        "seconds": least["ours"],
        "rbf_over_ours": least["rbf"] / least["ours"],
        "n_support": len(model.support_),
        "relative_gap": model.relative_gap_,
    }


def maps(options: Options) -> list[Record]:
    """The linear slab on sampled chi2 features against the exact kernel, over the 26 letters."""
    found = letters(options)
    if not found:
        return []
    X, labels = found[0] / 15, found[1]
    parameters = {"nu_lower": 0.1, "nu_upper": 0.01, "epsilon": 2 / 3, "tol": 1e-6}
    models: dict[int, Any] = {0: OneClassSlabSVM(kernel="chi2", **parameters)}
    models |= {n: make_pipeline(Chi2Map(sample_steps=n), LinearOneClassSlabSVM(**parameters)) for n in SAMPLES}
    mcc: dict[int, list[float]] = {n: [] for n in models}
    train = np.random.default_rng(0).random(len(X)) < 0.5
    for letter in np.unique(labels):
        own = labels == letter
        for n, model in models.items():
            predicted = model.fit(X[train & own]).predict(X[~train])
            mcc[n].append(float(matthews_corrcoef(np.where(own[~train], 1, -1), predicted)))
    records = [
        {
            "section": "maps",
            "case": f"{n} samples" if n else "exact kernel",
            "n_features": 16 * (2 * n - 1) if n else None,
            "median_mcc": float(np.median(values)),
            "largest_difference": float(np.abs(np.subtract(values, mcc[0])).max()),
        }
        for n, values in mcc.items()
    ]
    if not options.output:
        draw(*records)
    return records


def draw(exact: Record, *sampled: Record) -> None:
    """Draw the maps' median MCC over their size, beside the exact kernel's."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
    centre = exact["median_mcc"]
    axes.axhspan(centre - 0.01, centre + 0.01, color="0.9", label="within .01 of the exact kernel")
    axes.axhline(centre, color="0.3", linewidth=1, label="exact chi2 kernel")
    sizes, medians = ([record[name] for record in sampled] for name in ("n_features", "median_mcc"))
    axes.plot(sizes, medians, "o-", color="#1f5fa8", label="sampled map, linear slab")
    axes.set_xlabel("features of the map (16 before it)")
    axes.set_ylabel("median MCC over 26 letters")
    axes.legend(frameon=False, loc="lower right")
    mpl.rcParams["svg.hashsalt"] = "slabsvm"
    figure.savefig(FIGURE, metadata={"Date": None})


def cases(options: Options) -> Iterator[Case]:
    for n in (10, 30, 100, 300, 2000):
        yield f"prediction, {n} support vectors", partial(prediction, n)
    for dtype in (np.float64, np.float32):
        for kernel in ("intersection", "chi2"):
            yield f"blocks, {kernel}, {dtype.__name__}", partial(blocks, kernel, dtype)
    for data in ("histograms", "clouds, shifted"):
        for epsilon in (0.0, 2 / 3):
            yield f"training, {data}, epsilon {epsilon:.2g}", partial(training, data, epsilon)
    yield "maps", partial(maps, options)


PREDICTION = Table(
    "prediction, d = 256 | n_SV | table, ns | loop / table | NumPy / table | error / range",
    (
        "{case} | {n_support:,} | {nanoseconds_per_row_and_feature:.1f} | {loop_over_table:.1f} "
        "| {numpy_over_table:.0f} | {error_over_range:.0e}"
    ).format_map,
    section="prediction",
)
BLOCKS = Table(
    "block, 400 x 2,000 pairs, d = 256 | ps each | scikit-learn / ours | NumPy / ours | ours / minima",
    (
        "{case} | {picoseconds_per_pair_and_feature:.0f} | {scikit_learn_over_ours:.1f} | {numpy_over_ours:.1f} "
        "| {ours_over_minima:.1f}"
    ).format_map,
    section="blocks",
)
TRAINING = Table(
    "training, 20,000 x 64 | epsilon | intersection | RBF / it | support vectors | gap",
    ("{case} | {epsilon:.2g} | {seconds:.2f} s | {rbf_over_ours:.1f} | {n_support:,} | {relative_gap:.0e}").format_map,
    section="training",
)
MAPS = Table(
    "chi2 on 26 letters | features | median MCC | largest difference from the kernel of any letter",
    lambda r: f"{r['case']} | {r['n_features'] or '-'} | {r['median_mcc']:.4f} | {r['largest_difference']:.4f}",
    section="maps",
)

if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        tables(PREDICTION, BLOCKS, TRAINING, MAPS),
        keys=("section", "case", "n_support", "epsilon"),
        whole=has_letter,
        arguments=DATA,
    ).main()
