"""Additive kernels at their true cost: prediction, blocks, training, and explicit maps, as ratios in one run.

    python benchmarks/additive.py [--only WORD] [--data DIR]

Sections: prediction, blocks, training, maps (needs UCI Letter, in DIR/letter). Everything runs on one thread but for
rows that say "two threads" and the training section, which has n_jobs = 2 throughout. Runs are interleaved, and the
least of each is taken. Prints tables; without --only writes results/additive.json. The figure is docs/chi2-map.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numba import njit
from sklearn.metrics import matthews_corrcoef
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from slabsvm import LinearOneClassSlabSVM, OneClassSlabSVM
from slabsvm.detectors import kernelized
from slabsvm.gram.base import Computed
from slabsvm.kernels.base import Chi2, Intersection, Kernel
from slabsvm.kernels.features import Chi2Map
from slabsvm.kernels.tables import Chi2Table, IntersectionTable
from speed import clouds

HERE = Path(__file__).parent
REPEATS = 5
Records = list[dict[str, Any]]


def interleaved(actions: dict[str, Callable[[], Any]], repeats: int = REPEATS) -> dict[str, float]:
    """Return the least seconds of each action, run in turn; each runs once before, to compile and to warm up."""
    least = dict.fromkeys(actions, np.inf)
    for turn in range(repeats + 1):
        for name, act in actions.items():
            begin = time.perf_counter()
            act()
            if turn:
                least[name] = min(least[name], time.perf_counter() - begin)
    return least


def histograms(m: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).gamma(0.5, 1.0, (m, d))


def intersection_by_broadcasting(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.minimum(X[:, None], Z[None]).sum(axis=2)


def chi2_by_broadcasting(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return (2 * X[:, None] * Z[None] / (X[:, None] + Z[None])).sum(axis=2)


def prediction() -> Records:
    """Scores of new rows: tables against a compiled loop over the support vectors, and against NumPy."""
    d, m, few = 256, 4096, 32
    X = histograms(m, d, 1)
    records = []
    print("\n| prediction, d = 256 | n_SV | table, ns | loop / table | NumPy / table | error / range | bound / range |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for n in (10, 30, 100, 300, 2000):
        V, beta = histograms(n, d, 0), np.random.default_rng(2).normal(size=n) / n
        cases: list[tuple[str, Kernel, Any, Any]] = [
            ("intersection", Intersection(), IntersectionTable(V, beta), intersection_by_broadcasting),
            ("chi2, exact", Chi2(), Chi2Table(V, beta), chi2_by_broadcasting),
        ]
        exact = Chi2()(X, V) @ beta
        table = Chi2Table(V, beta, 1e-6 * float(np.ptp(exact)))
        cases.append(("chi2", Chi2(), table, chi2_by_broadcasting))
        for name, kernel, score, formula in cases:
            actions = {
                "table": lambda score=score: score(X),
                "loop": lambda kernel=kernel, V=V, beta=beta: kernel(X, V) @ beta,
                "numpy": lambda formula=formula, V=V, beta=beta: formula(X[:few], V) @ beta,
            }
            least = interleaved(actions, 3)
            expected = kernel(X, V) @ beta
            span = float(np.ptp(expected))
            records.append(
                {
                    "section": "prediction",
                    "case": name,
                    "n_support": n,
                    "nanoseconds_per_row_and_feature": least["table"] / (m * d) * 1e9,
                    "loop_over_table": least["loop"] / least["table"],
                    "numpy_over_table": least["numpy"] * m / few / least["table"],
                    "error_over_range": float(np.abs(score(X) - expected).max()) / span,
                    "bound_over_range": score.error / span,
                }
            )
            r = records[-1]
            print(
                f"| {name} | {n:,} | {r['nanoseconds_per_row_and_feature']:.1f} | {r['loop_over_table']:.1f} "
                f"| {r['numpy_over_table']:.0f} | {r['error_over_range']:.0e} | {r['bound_over_range']:.0e} |",
                flush=True,
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


def blocks() -> Records:
    """Kernel blocks, in time for a pair and a feature, against scikit-learn, NumPy, and a bare sum of minima."""
    n_left, n_right, d, few = 400, 2000, 256, 20
    records = []
    print("\n| block, 400 x 2,000 pairs, d = 256 | ps each | scikit-learn / ours | NumPy / ours | ours / minima |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for dtype in (np.float64, np.float32):
        X, Z = (histograms(n, d, n).astype(dtype) + dtype(0.01) for n in (n_left, n_right))
        for name, kernel, formula in (
            ("intersection", Intersection(), intersection_by_broadcasting),
            ("chi2", Chi2(), chi2_by_broadcasting),
        ):
            left, right = kernel.prepare(X, dtype), kernel.prepare(Z, dtype)
            actions = {
                "ours": lambda kernel=kernel, left=left, right=right: kernel.block(left, right),
                "scikit-learn": lambda X=X, Z=Z: additive_chi2_kernel(X, Z),
                "numpy": lambda X=X, Z=Z, formula=formula: formula(X[:few], Z),
                "minima": lambda X=X, dtype=dtype: minima(X[:4].ravel(), dtype(0.5), 10_000),
            }
            if dtype is np.float64:
                gram = Computed(kernel, np.concatenate([X, Z]), 2)
                rows, columns = np.split(np.arange(n_left + n_right), [n_left])
                actions["two threads"] = lambda gram=gram, rows=rows, columns=columns: gram.block(rows, columns)
            least = interleaved(actions)
            pairs = n_left * n_right * d
            for threads in [name for name in ("ours", "two threads") if name in least]:
                records.append(
                    {
                        "section": "blocks",
                        "case": f"{name}, {np.dtype(dtype).name}" + (", two threads" if threads != "ours" else ""),
                        "picoseconds_per_pair_and_feature": least[threads] / pairs * 1e12,
                        "scikit_learn_over_ours": least["scikit-learn"] / least[threads],
                        "numpy_over_ours": least["numpy"] * n_left / few / least[threads],
                        "ours_over_minima": least[threads] / pairs / (least["minima"] / (4 * d * 10_000)),
                    }
                )
                r = records[-1]
                print(
                    f"| {r['case']} | {r['picoseconds_per_pair_and_feature']:.0f} | {r['scikit_learn_over_ours']:.1f} "
                    f"| {r['numpy_over_ours']:.1f} | {r['ours_over_minima']:.1f} |",
                    flush=True,
                )
    return records


def training() -> Records:
    """Fits on 20,000 rows of 64 features: sorted products against blocks, and against the RBF kernel's fit."""
    m, d = 20_000, 64
    rng = np.random.default_rng(0)
    drawn = rng.gamma(2.0 * rng.random(d), 1.0, (m, d))
    blobs = clouds(m, d)
    data = {"histograms": drawn / drawn.sum(axis=1, keepdims=True), "clouds, shifted": blobs - blobs.min(axis=0)}
    records = []
    print("\n| training, 20,000 x 64 | epsilon | intersection | blocks / it | RBF / it | support vectors | gap |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, X in data.items():
        for epsilon in (0.0, 2 / 3):
            models = {
                kernel: OneClassSlabSVM(kernel=kernel, epsilon=epsilon, nu_upper=0.05, n_jobs=2)
                for kernel in ("intersection", "rbf")
            }

            def by_blocks(model: OneClassSlabSVM = models["intersection"], X: np.ndarray = X) -> None:
                with patch.object(kernelized, "gram_of", Computed):
                    model.fit(X)

            least = interleaved(
                {
                    "blocks": by_blocks,
                    "rbf": lambda models=models, X=X: models["rbf"].fit(X),
                    "sorted": lambda models=models, X=X: models["intersection"].fit(X),
                },
                2,
            )
            model = models["intersection"]
            records.append(
                {
                    "section": "training",
                    "case": name,
                    "epsilon": epsilon,
                    "seconds": least["sorted"],
                    "blocks_over_sorted": least["blocks"] / least["sorted"],
                    "rbf_over_sorted": least["rbf"] / least["sorted"],
                    "n_support": len(model.support_),
                    "relative_gap": model.relative_gap_,
                    "megabytes_of_sorted_features": 12 * X.size / 1e6,
                }
            )
            r = records[-1]
            print(
                f"| {name} | {epsilon:.2g} | {r['seconds']:.2f} s | {r['blocks_over_sorted']:.1f} "
                f"| {r['rbf_over_sorted']:.1f} | {r['n_support']:,} | {r['relative_gap']:.0e} |",
                flush=True,
            )
    return records


def maps(folder: Path) -> Records:
    """The linear slab on sampled chi2 features against the exact kernel, over the 26 letters."""
    text = np.loadtxt(folder / "letter" / "letter-recognition.data", delimiter=",", dtype=str)
    X, labels = text[:, 1:].astype(float) / 15, text[:, 0]
    parameters = {"nu_lower": 0.1, "nu_upper": 0.01, "epsilon": 2 / 3, "tol": 1e-6}
    models: dict[Any, Any] = {0: OneClassSlabSVM(kernel="chi2", **parameters)}
    models |= {
        n: make_pipeline(Chi2Map(sample_steps=n), LinearOneClassSlabSVM(**parameters)) for n in (1, 2, 3, 4, 6, 10)
    }
    found: dict[Any, list[float]] = {n: [] for n in models}
    train = np.random.default_rng(0).random(len(X)) < 0.5
    for letter in np.unique(labels):
        own = labels == letter
        for n, model in models.items():
            predicted = model.fit(X[train & own]).predict(X[~train])
            found[n].append(float(matthews_corrcoef(np.where(own[~train], 1, -1), predicted)))
    records = []
    print("\n| chi2 on 26 letters | features | median MCC | largest difference from the kernel of any letter |")
    print("| --- | ---: | ---: | ---: |")
    for n, values in found.items():
        records.append(
            {
                "section": "maps",
                "case": "exact kernel" if n == 0 else f"{n} samples",
                "n_features": 16 * (2 * n - 1) if n else None,
                "median_mcc": float(np.median(values)),
                "largest_difference": float(np.abs(np.subtract(values, found[0])).max()),
            }
        )
        r = records[-1]
        print(f"| {r['case']} | {r['n_features'] or '-'} | {r['median_mcc']:.4f} | {r['largest_difference']:.4f} |")
    return records


def draw(records: Records) -> None:
    """Draw the maps' median MCC over their size, beside the exact kernel's."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    exact, *sampled = [record for record in records if record["section"] == "maps"]
    figure, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
    axes.axhspan(
        exact["median_mcc"] - 0.01, exact["median_mcc"] + 0.01, color="0.9", label="within .01 of the exact kernel"
    )
    axes.axhline(exact["median_mcc"], color="0.3", linewidth=1, label="exact chi2 kernel")
    axes.plot(
        [record["n_features"] for record in sampled],
        [record["median_mcc"] for record in sampled],
        "o-",
        color="#1f5fa8",
        label="sampled map, linear slab",
    )
    axes.set_xlabel("features of the map (16 before it)")
    axes.set_ylabel("median MCC over 26 letters")
    axes.legend(frameon=False, loc="lower right")
    mpl.rcParams["svg.hashsalt"] = "slabsvm"
    figure.savefig(HERE.parent / "docs" / "chi2-map.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", choices=["", "prediction", "blocks", "training", "maps"])
    parser.add_argument("--data", type=Path, default=os.environ.get("SLABSVM_DATA"), help="folder with letter/")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    records: Records = []
    for section in (prediction, blocks):
        if arguments.only in ("", section.__name__):
            with threadpool_limits(1):
                records += section()
    if arguments.only in ("", "training"):
        records += training()
    if arguments.only in ("", "maps") and arguments.data:
        records += maps(Path(arguments.data))
        draw(records)
    file = HERE / "results" / "additive.json"
    measured = {record["section"] for record in records}
    kept = (
        [record for record in json.loads(file.read_text()) if record["section"] not in measured]
        if file.exists()
        else []
    )
    file.write_text(json.dumps(kept + records, indent=1) + "\n")


if __name__ == "__main__":
    main()
