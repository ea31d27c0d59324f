"""What a few known outliers are worth to AutoSlabSVM, beside two-class classifiers of the same rows.

    python benchmarks/known_outliers.py --data DIR [--draws N] [--rivals N] [--only WORD] [--jobs N]
    python benchmarks/known_outliers.py --read [--page docs/results/known-outliers.md]

"labels": of each of the 81 tables (benchmarks/tabular.py) at most 800 training rows are learned. The anomalies among
the test rows are divided at random into halves: known outliers come from the one, and the other is judged with at most
500 normal test rows. Each draw has other rows and another division. The recall of models of few rows, whose threshold
takes ten times the time, is measured in the first --recalls draws. "classifier alone" are the extra trees that learn
the features and nothing else; "its member" is AutoSlabSVM's classifier by itself, which knows what other members say.

"open set": of Letter 13 classes are positives, 2,000 rows of them; some rows of one other class are known outliers, and
the rows of the 12 others, never labelled, are judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from harness import JOBS, Benchmark, Case, Document, Options, Record, table
from samples import DATA, letters, read_table, table_files
from slabsvm import AutoSlabSVM
from slabsvm.ensemble.known import OutlierClassifier

LABELS = (1, 5, 10, 25)
DRAWS = {
    "--draws": {"type": int, "default": 10, "metavar": "N", "help": "draws of rows [%(default)s]"},
    "--rivals": {"type": int, "default": 10, "metavar": "N", "help": "draws that rivals learn, too [%(default)s]"},
    "--recalls": {"type": int, "default": 10, "metavar": "N", "help": "draws with recalls of few rows [%(default)s]"},
}
LEARNED, JUDGED = 800, 500
OURS, MEMBER, ALONE = "AutoSlabSVM", "its member", "classifier alone"
RIVALS: dict[str, ClassifierMixin] = {
    "HistGradientBoosting": HistGradientBoostingClassifier(class_weight="balanced", random_state=0),
    "SVC": SVC(class_weight="balanced"),
    "weighted kNN": KNeighborsClassifier(weights="distance"),
}
WAYS = (OURS, MEMBER, ALONE, *RIVALS)
# Worse by more than this is worse.
LOST = 0.002
KNOWN_CLASSES, KNOWN_ROWS, OF_ONE_CLASS = 13, 2000, (10, 25)


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


def labels(file: Path, draw: int, rivals: bool, recalls: bool) -> Iterator[Record]:
    """Give what each way makes of some known outliers."""
    train, known, good, bad = drawn(file, draw)
    good = good[:JUDGED]
    if not len(known):
        return
    scaler = StandardScaler().fit(train)
    model = AutoSlabSVM().fit(train)
    # Where the threshold comes from is nothing to the ranks.
    judged = recalls or not model.model_.by_folds
    untaught = AutoSlabSVM(calibration="auto" if judged else "training")
    unlabelled, without = auroc(model.score_samples(good), model.score_samples(bad)), recall(model, good)
    for count in LABELS:
        if count > len(known):
            return
        model = clone(untaught).fit(train, known_outliers=known[:count])
        ranks, y = model.model_.combination.views[-1].transform, np.repeat([1, -1], [len(train), count])
        alone = OutlierClassifier().fit(ranks(np.concatenate([train, known[:count]])), y)
        found = {
            OURS: auroc(model.score_samples(good), model.score_samples(bad)),
            MEMBER: auroc(model.member_p_values(good)[:, -1], model.member_p_values(bad)[:, -1]),
            ALONE: auroc(alone.score_samples(ranks(good)), alone.score_samples(ranks(bad))),
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
            "unlabelled": round(unlabelled, 4),
            "auroc": {name: round(value, 4) for name, value in found.items()},
            "recall": round(recall(model, good), 4) if judged else None,
            "recall_unlabelled": round(without, 4),
        }


def recall(model: AutoSlabSVM, good: np.ndarray) -> float:
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
        model = AutoSlabSVM().fit(train, **known)
        score = model.score_samples(good)
        yield {
            "section": "open set",
            "draw": draw,
            "labels": count,
            "others": round(auroc(score, model.score_samples(others)), 4),
            "same": round(auroc(score, model.score_samples(same)), 4),
            "recall": round(recall(model, good), 4),
        }


def report(document: Document) -> str:
    """Return the tables of what was measured."""
    records = document["records"]
    parts = []
    for section, shown in (("labels", of_labels), ("open set", of_open_set)):
        some = [record for record in records if record["section"] == section]
        parts += [shown(some)] if some else []
    return "\n\n".join(parts)


def by_table(records: list[Record], value: Any) -> np.ndarray:
    """Return the mean of a value over the draws of each table."""
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record["table"], []).append(value(record))
    return np.array([np.mean(values) for values in found.values()])


def of_labels(records: list[Record]) -> str:
    rows = []
    for count in LABELS:
        for way in WAYS:
            some = [record for record in records if record["labels"] == count and way in record["auroc"]]
            if not some:
                continue
            n_tables, n_draws = len({r["table"] for r in some}), len({r["draw"] for r in some})
            gain = by_table(some, lambda r, way=way: r["auroc"][way] - r["unlabelled"])
            kept = ""
            if way == OURS:
                judged = [record for record in some if record["recall"] is not None]
                after, before = (by_table(judged, itemgetter(name)).mean() for name in ("recall", "recall_unlabelled"))
                kept = f"{after:.3f} ({before:.3f})"
            rows.append(
                f"{count} | {way} | {n_tables} x {n_draws} | {gain.mean():+.3f} ({gain.std() / len(gain) ** 0.5:.3f}) "
                f"| {(gain < -LOST).mean():.0%} | {gain.min():+.3f} | {kept}"
            )
    head = "known outliers | way | tables x draws | AUROC less the unlabelled (standard error) | worse | worst | recall"
    return table(head, rows, "rlrrrrr")


def of_open_set(records: list[Record]) -> str:
    rows = []
    for count in (0, *OF_ONE_CLASS):
        some = [record for record in records if record["labels"] == count]
        mean = {name: float(np.mean([r[name] for r in some])) for name in ("others", "same", "recall")}
        rows.append(f"{count} | {mean['others']:.4f} | {mean['same']:.4f} | {mean['recall']:.3f}")
    n_draws = len({record["draw"] for record in records})
    return table(
        f"known outliers ({n_draws} draws) | AUROC, the 12 others | the labelled letter | recall", rows, "rrrr"
    )


def cases(options: Options) -> Iterator[Case]:
    files, found = table_files(options), letters(options)
    for draw in range(options.draws):
        for file in files:
            yield (
                f"labels, {draw}: {file.stem}",
                partial(labels, file, draw, draw < options.rivals, draw < options.recalls),
            )
        if found:
            yield f"open set, {draw}", partial(open_set, *found, draw)


if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        report,
        keys=("section", "table", "draw", "labels"),
        arguments=DATA | DRAWS | JOBS,
    ).main()
