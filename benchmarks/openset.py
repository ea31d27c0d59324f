"""Measure the promises of open-set recognition: the rate of false rejections, and what a thousand classes cost.

    python benchmarks/openset.py --data DIR [--page docs/open-set.md]
    python benchmarks/openset.py --read

Rates: 200 random splits of one known class into 199 training rows and 50 new ones, on each data set. A split's p-values
come from 99 held-out rows, cross and leave-one-out ones from all 199. Over the splits the share of new rows with
p <= alpha should be alpha. Its band is the binomial one of the new rows, widened by each split's own chance: with n
calibration rows a split's rate is Beta(k, n + 1 - k), k = alpha (n + 1).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from time import perf_counter

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness import Benchmark, Case, Document, Options, Record, table
from samples import DATA, has_letter, letters
from slabsvm import ConformalDetector, OneClassSlabSVM, OneClassSVM, OpenSetClassifier

ALPHAS = (0.01, 0.05, 0.1, 0.2)
N_SPLITS, N_TRAINING, N_NEW = 200, 199, 50
METHODS = ("split", "cross", "leave-one-out")
MODELS = {"slab": OneClassSlabSVM, "one-class SVM": OneClassSVM}
COVERAGE = 0.95
CLASS_COUNTS = (50, 100, 200, 400, 1000)


def known_classes(options: Options) -> Iterator[tuple[str, np.ndarray]]:
    """Give the rows of one known class of each data set."""
    cancer, digits = load_breast_cancer(), load_digits()
    yield "breast cancer, benign", cancer.data[cancer.target == 1]
    yield "digits 0 to 4", digits.data[digits.target < 5] / 16.0
    found = letters(options)
    if found:
        yield "Letter, M", found[0][found[1] == "M"] / 15.0


def rejections(rows: np.ndarray, seed: int) -> dict[tuple[str, str], np.ndarray]:
    """Return, for each model and method, which of one split's new rows are rejected at each alpha."""
    order = np.random.default_rng(seed).permutation(len(rows))
    training, new = rows[order[:N_TRAINING]], rows[order[N_TRAINING:][:N_NEW]]
    found = {}
    for name, make in MODELS.items():
        for method in METHODS:
            # The scaler is a part of the model: fitted to calibration rows too, these would not be as new as new ones.
            model = make_pipeline(StandardScaler(), make())
            detector = ConformalDetector(model, method=method, random_state=seed).fit(training)
            p = detector.p_values(new)
            found[name, method] = (p[:, None] <= np.array(ALPHAS) + 1e-12).mean(axis=0)
    return found


def rates(name: str, rows: np.ndarray) -> list[Record]:
    """Return the mean rate of false rejections over all splits, with its band."""
    splits = [rejections(rows, seed) for seed in range(N_SPLITS)]
    return [
        {"data": name, "model": model, "method": method, "alpha": alpha, "rate": round(float(rate), 4)}
        | {"low": round(alpha - half, 4), "high": round(alpha + half, 4), "within": bool(abs(rate - alpha) <= half)}
        for model in MODELS
        for method in METHODS
        for alpha, rate in zip(ALPHAS, np.mean([split[model, method] for split in splits], axis=0), strict=True)
        for half in [half_width(alpha, (N_TRAINING - 1) // 2 if method == "split" else N_TRAINING)]
    ]


def half_width(alpha: float, calibration: int) -> float:
    """Return the half width of the band of the mean rate."""
    own_chance = alpha * (1 - alpha) / (calibration + 2)
    variance = own_chance + (alpha * (1 - alpha) - own_chance) / N_NEW
    return float(norm.ppf(0.5 + COVERAGE / 2) * np.sqrt(variance / N_SPLITS))


def many_classes() -> list[Record]:
    """Return what fitting many classes of 100 samples costs, in time and in the size of the models."""
    random = np.random.default_rng(0)
    OpenSetClassifier(alpha=0.1).fit(random.normal(size=(200, 8)), np.repeat([0, 1], 100))
    found = []
    for count in CLASS_COUNTS:
        X = np.repeat(random.normal(size=(count, 8)) * 5, 100, axis=0) + random.normal(size=(100 * count, 8))
        begin = perf_counter()
        classifier = OpenSetClassifier().fit(X, np.repeat(np.arange(count), 100))
        fitted = perf_counter()
        classifier.predict(X[::100])
        asked = perf_counter()
        classifier.remove(0)
        removed = perf_counter()
        classifier.partial_add(X[:100], 0)
        found.append(
            {
                "classes": count,
                "fit_ms_per_class": round(1000 * (fitted - begin) / count, 2),
                "predict_ms_per_class": round(1000 * (asked - fitted) / count, 3),
                "add_ms": round(1000 * (perf_counter() - removed), 2),
                "kb_per_class": round(len(pickle.dumps(classifier)) / count / 1000, 2),
            }
        )
    return found


def cases(options: Options) -> Iterator[Case]:
    for name, rows in known_classes(options):
        yield name, partial(rates, name, rows)
    yield "many classes", many_classes


def document(records: list[Record]) -> Document:
    return {"rates": [r for r in records if "rate" in r], "classes": [r for r in records if "classes" in r]}


def report(document: Document) -> str:
    """Return the tables as Markdown; a rate outside its band is bold."""
    rows: dict[tuple[str, ...], list[str]] = {}
    bands: dict[str, dict[float, str]] = {method: {} for method in METHODS}
    for one in document["rates"]:
        text = f"{one['rate']:.4f}" if one["within"] else f"**{one['rate']:.4f}**"
        rows.setdefault((one["data"], one["model"], one["method"]), []).append(text)
        bands[one["method"]][one["alpha"]] = f"{one['low']:.4f} to {one['high']:.4f}"
    lines = [" | ".join([*key, *values]) for key, values in rows.items()]
    lines += [f"| band ({COVERAGE:.0%}) | {method} | {' | '.join(band.values())}" for method, band in bands.items()]
    head = "data | model | method | " + " | ".join(f"alpha {alpha:g}" for alpha in ALPHAS)
    classes = (
        "classes of 100 samples | fit, ms a class | one row of each, ms a class | add one, ms | models, kB a class"
    )
    first = f"{N_SPLITS} splits, {N_TRAINING} training rows, {N_NEW} new ones each; {document['date']}."
    costs = (" | ".join(map(str, one.values())) for one in document["classes"])
    return f"{first}\n\n{table(head, lines, 'lllrrrr')}\n\n{table(classes, costs, 'rrrrr')}"


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, document, whole=has_letter, arguments=DATA).main()
