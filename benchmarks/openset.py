"""Measure the promises of open-set recognition: the rate of false rejections, and what a thousand classes cost.

    .venv/bin/python benchmarks/openset.py [--data DIR] [--page docs/open-set.md]   # measure, write records and tables
    .venv/bin/python benchmarks/openset.py --read                                   # the tables of those records

Rates: 200 random splits of one known class into 199 training rows and 50 new ones, on each data set. A split's p-values
come from 99 held-out rows, cross and leave-one-out ones from all 199. Over the splits the share of new rows with
p <= alpha should be alpha. Its band is the binomial one of the new rows, widened by each split's own chance: with n
calibration rows a split's rate is Beta(k, n + 1 - k), k = alpha (n + 1).
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import warnings
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from offsets import LETTER_FILE, MARKS
from slabsvm import ConformalDetector, OneClassSlabSVM, OneClassSVM, OpenSetClassifier
from slabsvm_reproduction.letter.data import load_letters

RECORDS = Path(__file__).parent / "results" / "openset.json"
ALPHAS = (0.01, 0.05, 0.1, 0.2)
N_SPLITS, N_TRAINING, N_NEW = 200, 199, 50
METHODS = ("split", "cross", "leave-one-out")
MODELS = {"slab": OneClassSlabSVM, "one-class SVM": OneClassSVM}
COVERAGE = 0.95
CLASS_COUNTS = (50, 100, 200, 400, 1000)

Record = dict[str, Any]


def known_classes(letter_file: Path | None) -> dict[str, np.ndarray]:
    """Return the rows of one known class of each data set."""
    cancer, digits = load_breast_cancer(), load_digits()
    found = {
        "breast cancer, benign": cancer.data[cancer.target == 1],
        "digits 0 to 4": digits.data[digits.target < 5] / 16.0,
    }
    if letter_file:
        letters = load_letters(letter_file)
        found["Letter, M"] = letters.X[letters.y == "M"] / 15.0
    return found


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


def measured(letter_file: Path | None) -> Record:
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [record for name, rows in known_classes(letter_file).items() for record in rates(name, rows)]
        classes = many_classes()
    return {
        "date": date.today().isoformat(),
        "cores": os.cpu_count(),
        "seconds": round(perf_counter() - begin),
        "rates": found,
        "classes": classes,
    }


def tables(found: Record) -> str:
    """Return the tables as Markdown; a rate outside its band is bold."""
    heads = " | ".join(f"alpha {alpha:g}" for alpha in ALPHAS)
    lines = [
        f"{N_SPLITS} splits, {N_TRAINING} training rows, {N_NEW} new ones each; {found['date']}.",
        "",
        f"| data | model | method | {heads} |",
        f"| --- | --- | --- |{' ---: |' * len(ALPHAS)}",
    ]
    rows: dict[tuple[str, ...], list[str]] = {}
    for one in found["rates"]:
        text = f"{one['rate']:.4f}" if one["within"] else f"**{one['rate']:.4f}**"
        rows.setdefault((one["data"], one["model"], one["method"]), []).append(text)
    lines += [f"| {' | '.join([*key, *values])} |" for key, values in rows.items()]
    for method in METHODS:
        band = {
            one["alpha"]: f"{one['low']:.4f} to {one['high']:.4f}" for one in found["rates"] if one["method"] == method
        }
        lines.append(f"| | band ({COVERAGE:.0%}) | {method} | {' | '.join(band.values())} |")
    lines += [
        "",
        "| classes of 100 samples | fit, ms a class | one row of each, ms a class | add one, ms | models, kB a class |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [f"| {' | '.join(str(value) for value in one.values())} |" for one in found["classes"]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("SLABSVM_DATA"), help="the folder of Letter's file")
    parser.add_argument("--read", action="store_true", help="print the tables of the records that are there")
    parser.add_argument("--page", type=Path, help="a page to put the tables in, between its marks")
    options = parser.parse_args()
    if not options.read:
        letter = Path(options.data) / LETTER_FILE if options.data else None
        found = measured(letter if letter and letter.exists() else None)
        RECORDS.write_text(json.dumps(found, indent=1) + "\n")
    text = tables(json.loads(RECORDS.read_text()))
    print(text)
    if options.page:
        page = options.page.read_text()
        before, _, rest = page.partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        options.page.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
