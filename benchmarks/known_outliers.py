"""What a few known outliers are worth to AutoDetector, beside two-class classifiers of the same rows, and the rate.

    python benchmarks/known_outliers.py --data DIR [--only WORD]

docs/results/known-outliers.md says what is measured. Of tables and of Letter there are two draws; rivals learn one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from harness import Benchmark, Case, Document, Options, Record, Table, table
from samples import letters, read_table, table_files
from slabsvm import AutoDetector
from slabsvm.ensemble.known import OutlierClassifier

LABELS = (1, 5, 10, 25)
# Draws of rows, those that rivals learn, too, and draws of each rate.
N_DRAWS, N_OF_RIVALS, N_OF_RATES = 2, 1, 30
LEARNED, JUDGED = 800, 500
OURS, ALONE, RANKS = "AutoDetector", "extra trees", "rank average"
RIVALS: dict[str, ClassifierMixin] = {
    "HistGradientBoosting": HistGradientBoostingClassifier(class_weight="balanced", random_state=0),
    "SVC": SVC(class_weight="balanced"),
    "weighted kNN": KNeighborsClassifier(weights="distance"),
}
WAYS = (OURS, RANKS, ALONE, *RIVALS)
# Worse by more than this is worse.
LOST = 0.002
KNOWN_CLASSES, KNOWN_ROWS, OF_ONE_CLASS = 13, 2000, (10, 25)
Drawn = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
SHAPES: dict[str, Drawn] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t, 2 degrees": lambda rng, shape: rng.standard_t(2, shape),
}
COPIES = "copies of learned rows"
N_NEW = 4000


@dataclass(frozen=True)
class Rate:
    """Positives and known outliers, of which the rate is measured."""

    features: int
    rows: int
    labels: int
    shift: float | None  # in standard deviations; None: the outliers are copies of learned rows
    shape: str = "normal"
    classifier: ClassifierMixin | None = None


RATES = (
    *(Rate(features, 400, 10, 0.7) for features in (2, 3, 5, 10)),
    *(Rate(3, rows, 10, 0.7) for rows in (100, 200, 1000)),
    *(Rate(4, 400, labels, 0.0) for labels in (1, 5, 10, 25)),
    *(Rate(features, rows, 25, 0.0) for features, rows in ((2, 100), (10, 100), (10, 1000))),
    *(Rate(4, 400, labels, shift) for labels, shift in ((5, 1.5), (25, 1.5), (5, 3.0), (25, 3.0))),
    *(Rate(features, 100, 25, 1.5) for features in (2, 10)),
    *(Rate(4, 400, 10, shift, "t, 2 degrees") for shift in (0.0, 1.5)),
    *(Rate(features, rows, 10, None) for features, rows in ((3, 100), (5, 400))),
    *(Rate(3, rows, 10, 0.7, classifier=SVC()) for rows in (100, 400)),
    Rate(3, 400, 10, 0.7, classifier=RandomForestClassifier(random_state=0)),
)


def drawn(file: Path, draw: int) -> tuple[np.ndarray, ...]:
    """Return rows to learn, anomalies that may be known, normal rows, and anomalies to judge."""
    train, test, normal = read_table(file)
    rng = np.random.default_rng(draw)
    train = rng.permutation(train)[:LEARNED]
    anomalies, good = rng.permutation(test[~normal]), rng.permutation(test[normal])
    half = len(anomalies) // 2
    return train, anomalies[:half], good, anomalies[half:][:JUDGED]


def auroc(good: np.ndarray, bad: np.ndarray) -> float:
    return float(roc_auc_score(np.repeat([1, 0], [len(good), len(bad)]), np.concatenate([good, bad])))


def labels(file: Path, draw: int, rivals: bool) -> Iterator[Record]:
    train, known, good, bad = drawn(file, draw)
    good = good[:JUDGED]
    if not len(known):
        return
    scaler = StandardScaler().fit(train)
    model = AutoDetector().fit(train)
    untaught = [model.score_samples(good), model.score_samples(bad)]
    without = recall(model, good)
    ranks = model.model_.combination.views[-1].of
    for count in LABELS:
        if count > len(known):
            return
        model = AutoDetector().fit(train, known_outliers=known[:count])
        y = np.repeat([1, -1], [len(train), count])
        trees = OutlierClassifier().fit(ranks(np.concatenate([train, known[:count]])), y)
        alone = [trees.score_samples(ranks(good)), trees.score_samples(ranks(bad))]
        averaged = np.mean([rankdata(np.concatenate(scores)) for scores in (untaught, alone)], axis=0)
        found = {
            OURS: auroc(model.score_samples(good), model.score_samples(bad)),
            RANKS: auroc(averaged[: len(good)], averaged[len(good) :]),
            ALONE: auroc(*alone),
        }
        X = scaler.transform(np.concatenate([train, known[:count]]))
        for name, rival in RIVALS.items() if rivals else ():
            fitted: Any = rival.fit(X, y)
            score = getattr(fitted, "decision_function", None) or (lambda rows, of=fitted: of.predict_proba(rows)[:, 1])
            found[name] = auroc(score(scaler.transform(good)), score(scaler.transform(bad)))
        yield {
            "section": "labels",
            "table": file.stem,
            "draw": draw,
            "labels": count,
            "unlabelled": round(auroc(*untaught), 4),
            "auroc": {name: round(value, 4) for name, value in found.items()},
            "recall": round(recall(model, good), 4),
            "recall_unlabelled": round(without, 4),
        }


def recall(model: AutoDetector, good: np.ndarray) -> float:
    return float((model.predict(good) == 1).mean())


def open_set(rows: np.ndarray, classes: np.ndarray, draw: int) -> Iterator[Record]:
    """Give how outliers of classes that nobody labelled rank, with and without known outliers of one other class."""
    rng = np.random.default_rng(draw)
    order = rng.permutation(np.unique(classes))
    positive = rng.permutation(np.flatnonzero(np.isin(classes, order[:KNOWN_CLASSES])))
    one = rng.permutation(np.flatnonzero(classes == order[KNOWN_CLASSES]))
    others = rows[rng.permutation(np.flatnonzero(np.isin(classes, order[KNOWN_CLASSES + 1 :])))[:2000]]
    train, good = rows[positive[:KNOWN_ROWS]], rows[positive[KNOWN_ROWS:][:2000]]
    same = rows[one[max(OF_ONE_CLASS) :]]
    for count in (0, *OF_ONE_CLASS):
        known = {"known_outliers": rows[one[:count]]} if count else {}
        model = AutoDetector().fit(train, **known)
        score = model.score_samples(good)
        yield {
            "section": "open set",
            "draw": draw,
            "labels": count,
            "others": round(auroc(score, model.score_samples(others)), 4),
            "same": round(auroc(score, model.score_samples(same)), 4),
            "recall": round(recall(model, good), 4),
        }


def rate(one: Rate) -> Record:
    """Return by how much more is accepted than expected, the mean of draws and its standard error."""
    less = []
    for draw in range(N_OF_RATES):
        rng = np.random.default_rng(draw)
        positives = SHAPES[one.shape](rng, (one.rows + N_NEW, one.features))
        X, new = positives[: one.rows], positives[one.rows :]
        if one.shift is None:
            outliers = X[rng.choice(one.rows, one.labels, replace=False)]
        else:
            outliers = SHAPES[one.shape](rng, (one.labels, one.features)) + one.shift
        model = AutoDetector(classifier=one.classifier).fit(X, known_outliers=outliers)
        less.append(recall(model, new) - model.expected_recall_)
    return {
        "section": "rate",
        "features": one.features,
        "rows": one.rows,
        "labels": one.labels,
        "outliers": COPIES if one.shift is None else f"{one.shape}, {one.shift:+g}",
        "classifier": "" if one.classifier is None else type(one.classifier).__name__,
        "less": round(float(np.mean(less)), 4),
        "error": round(float(np.std(less, ddof=1) / N_OF_RATES**0.5), 4),
    }


def report(document: Document) -> str:
    shown = {"labels": of_labels, "open set": of_open_set, "rate": OF_RATES.of}
    of = {section: [record for record in document["records"] if record["section"] == section] for section in shown}
    return "\n\n".join(shown[section](some) for section, some in of.items() if some)


def of_labels(records: list[Record]) -> str:
    rows = []
    for count, way in product(LABELS, WAYS):
        some = [record for record in records if record["labels"] == count and way in record["auroc"]]
        if not some:
            continue
        gains = [{**record, "gain": record["auroc"][way] - record["unlabelled"]} for record in some]
        of_tables = pd.DataFrame(gains).groupby("table")[["gain", "recall", "recall_unlabelled"]].mean()
        gain, recalls = of_tables["gain"], of_tables[["recall", "recall_unlabelled"]].mean()
        rows.append(
            f"{count} | {way} | {len(gain)} | {gain.mean():+.3f} | {gain.std(ddof=0) / len(gain) ** 0.5:.3f} "
            f"| {(gain < -LOST).mean():.0%} | {gain.min():+.3f} | "
            + (" | ".join(f"{recall:.3f}" for recall in recalls) if way == OURS else " | ")
        )
    head = f"known outliers ({N_DRAWS} draws) | way | tables | AUROC less the unlabelled | standard error"
    return table(f"{head} | worse | worst | recall | without labels", rows, "rlrrrrrrr")


def of_open_set(records: list[Record]) -> str:
    shown = Table(
        f"known outliers ({N_DRAWS} draws) | AUROC, the 12 others | the labelled letter | recall",
        "{labels} | {others:.4f} | {same:.4f} | {recall:.3f}".format_map,
        align="rrrr",
    )
    mean = pd.DataFrame(records).groupby("labels")[["others", "same", "recall"]].mean()
    return shown.of(mean.reset_index().to_dict("records"))


OF_RATES = Table(
    "features | rows | known outliers | from | classifier "
    f"| accepted less expected ({N_OF_RATES} draws) | standard error",
    "{features} | {rows} | {labels} | {outliers} | {classifier} | {less:+.3f} | {error:.3f}".format_map,
    align="rrrllrr",
)


def cases(options: Options) -> Iterator[Case]:
    files, letter = table_files(options), letters(options)
    for draw in range(N_DRAWS):
        for file in files:
            yield f"labels, {draw}: {file.stem}", partial(labels, file, draw, draw < N_OF_RIVALS)
        yield f"open set, {draw}", partial(open_set, *letter, draw)
    for one in RATES:
        yield f"rate, {one}", partial(rate, one)


KEYS = ("section", "table", "draw", "labels", "features", "rows", "outliers", "classifier")

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=KEYS, alone=()).main()
