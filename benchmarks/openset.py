"""Open-set recognition: the rate of false rejections, unknown letters among known ones, and a thousand classes.

    python benchmarks/openset.py --data DIR [--only "unknown letters"] [--page docs/results/open-set.md]

Over splits the share of new rows with p <= alpha should be the mean of k / (n + 1), k = floor(alpha (n + 1)), with n
calibration rows. Its band is the binomial one of the new rows, widened by each split's own chance: a split's rate is
Beta(k, n + 1 - k). Of Letter rows 1 to 16,000 are for training and the last 4,000 for testing.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from harness import Benchmark, Case, Document, Options, Record, means, table
from samples import letters
from slabsvm import ConformalDetector, OneClassSlabSVM, OneClassSVM, OpenSetClassifier, metrics
from slabsvm.openset.rules import confidences

ALPHAS = (0.01, 0.05, 0.1, 0.2)
N_SPLITS, N_TRAINING, N_NEW = 200, 199, 50
MODELS = {"slab": OneClassSlabSVM, "one-class SVM": OneClassSVM}
COVERAGE = 0.95
# Known classes of Letter, training rows, and the classifier beside each model. Half of the rows of each class are held
# out, of an odd number one less: so many that .01 of them and one more is a whole number, or just above one.
KNOWN_LETTERS = {"Letter, A to F": ("ABCDEF", 1206), "Letter, O and Q": ("OQ", 800)}
N_JOINT_SPLITS = 100
BESIDE = {
    "slab": ("SVC", SVC(C=10.0)),
    "one-class SVM": ("logistic regression", LogisticRegression(max_iter=300)),
}
N_DRAWS, N_KNOWN, N_UNKNOWN, N_LEARNED, UNKNOWN = 5, 13, (4, 8, 13), 16_000, "?"
# Per variance and feature, as gamma="scale": of known letters, held out of 5,000 rows in three draws, an SVC of 1, 2
# and 4 named .952, .954 and .948 rightly.
SVC_GAMMA = 2.0
RATE, MEASURED = 0.05, ("auroc", "f1", "rejected")
SECTIONS = ("rates", "beside", "unknown letters", "classes")
KEYS = ("section", "data", "model", "alpha", "draw", "name", "unknown", "classes")
CLASS_COUNTS = (50, 100, 200, 400, 1000)
Array = np.ndarray
# How sure a fitted classifier is of each class of rows.
Sure = Callable[[Any, Array], Array]
# The p-values of new rows, and those up to which rows are rejected at each alpha.
Asked = tuple[Array, list[float]]
# Classes, how sure a method is of each, and the p-value of the name that it gives.
Answers = tuple[Array, Array, Array]


def known_classes(options: Options) -> Iterator[tuple[str, np.ndarray]]:
    cancer, digits = load_breast_cancer(), load_digits()
    yield "breast cancer, benign", cancer.data[cancer.target == 1]
    yield "digits 0 to 4", digits.data[digits.target < 5] / 16.0
    rows, labels = letters(options)
    yield "Letter, M", rows[labels == "M"] / 15.0


def of_one(training: Array, new: Array, seed: int, *, make: Callable[[], Any], rows: Array) -> Asked:
    """Ask a calibrated detector of one class."""
    # The scaler is a part of the model: fitted to calibration rows too, these would not be as new as new ones.
    detector = ConformalDetector(make_pipeline(StandardScaler(), make()), random_state=seed).fit(rows[training])
    return detector.p_values(rows[new]), [detector.level(alpha) for alpha in ALPHAS]


def of_several(
    training: Array, new: Array, seed: int, *, make: Callable[[], Any], classifier: Any, rows: Array, labels: Array
) -> Asked:
    """Ask detectors of several classes, beside a classifier."""
    detector, beside = (make_pipeline(StandardScaler(), one) for one in (make(), classifier))
    joint = OpenSetClassifier(detector, classifier=beside, random_state=seed).fit(rows[training], labels[training])
    return joint.p_values(rows[new]).max(axis=1), [float(joint.rule_.levels(alpha)[0]) for alpha in ALPHAS]


def rates(
    what: Record, ask: Callable[[Array, Array, int], Asked], own: Array, n_training: int, n_splits: int
) -> Iterator[Record]:
    """Give the mean rate of false rejections at each alpha, over splits of known rows, with its band."""
    of_splits = []
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(own)
        p_values, levels = ask(order[:n_training], order[n_training:][:N_NEW], seed)
        of_splits.append([(p_values[:, None] <= np.array(ALPHAS) + 1e-12).mean(axis=0), levels])
    for alpha, rate, level in zip(ALPHAS, *np.mean(of_splits, axis=0), strict=True):
        own_chance = alpha * (1 - alpha) / (n_training // 2 + 2)
        variance = own_chance + (alpha * (1 - alpha) - own_chance) / N_NEW
        half = float(norm.ppf(0.5 + COVERAGE / 2) * np.sqrt(variance / n_splits))
        band = {"rate": float(rate), "low": float(level) - half, "high": float(level) + half}
        rounded = {key: round(value, 4) for key, value in band.items()}
        yield what | {"alpha": alpha} | rounded | {"within": bool(abs(rate - level) <= half)}


def closed_set(classifier: Any, sure: Sure, X: Array, y: Array, new: Array) -> Answers:
    """Threshold a closed-set classifier by p-values of how sure it is of a class of held-out rows."""
    learned, held = next(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    fitted = make_pipeline(StandardScaler(), classifier).fit(X[learned], y[learned])
    held_out = np.sort(sure(fitted, X[held]).max(axis=1))
    confidence = sure(fitted, new)
    passed = np.searchsorted(held_out, confidence.max(axis=1), side="right")
    return fitted.classes_, confidence, (1 + passed) / (1 + len(held_out))


def open_set(detector: Any, classifier: Any, X: Array, y: Array, new: Array) -> Answers:
    beside = None if classifier is None else make_pipeline(StandardScaler(), classifier)
    model = OpenSetClassifier(make_pipeline(StandardScaler(), detector), classifier=beside).fit(X, y)
    return model.classes_, model.decisions(new), model.p_values(new).max(axis=1)


def bounded(classifier: Any, X: Array) -> Array:
    """Return one-versus-rest decisions, whose biases are what they are far away; refuse one that accepts there."""
    biases = np.concatenate([one.intercept_ for one in classifier[-1].estimators_])
    if not (biases < 0).all():
        raise ValueError(f"A bias is {biases.max():.3g}: it would have to be forced below 0, which is not done here.")
    return classifier.decision_function(X)


def contenders(n_features: int) -> dict[str, Callable[[Array, Array, Array], Answers]]:
    """Return each method: a function of learned rows, their classes and new rows."""
    svc = partial(SVC, C=10.0, gamma=SVC_GAMMA / n_features)
    return {
        "SVC, margin": partial(closed_set, svc(), lambda one, X: confidences(one, X, one.classes_)),
        "SVC, probability": partial(
            closed_set, svc(probability=True, random_state=0), lambda one, X: one.predict_proba(X)
        ),
        "bounded SVM": partial(closed_set, OneVsRestClassifier(svc()), bounded),
        "slab per class": partial(open_set, OneClassSlabSVM(), None),
        **{f"{name} and SVC": partial(open_set, model(), svc()) for name, model in MODELS.items()},
    }


def unknown_letters(draw: int, rows: np.ndarray, labels: np.ndarray) -> Iterator[Record]:
    """Give how well each method tells known letters from ever more unknown ones, in one draw."""
    order = np.random.default_rng(draw).permutation(np.unique(labels))
    known, others = order[:N_KNOWN], order[N_KNOWN:]
    learned = np.flatnonzero(np.isin(labels[:N_LEARNED], known))
    new, met = rows[N_LEARNED:], labels[N_LEARNED:]
    truth = np.where(np.isin(met, known), met, UNKNOWN)
    for name, contender in contenders(rows.shape[1]).items():
        classes, table, p = contender(rows[learned], labels[learned], new)
        names = classes[table.argmax(axis=1)]
        for count in N_UNKNOWN:
            asked = np.isin(met, [*known, *others[:count]])
            record = {"section": "unknown letters", "draw": draw, "name": name, "unknown": count}
            record["auroc"] = metrics.known_unknown_auroc(truth[asked], table[asked], UNKNOWN)
            given = np.where(p > RATE + 1e-12, names, UNKNOWN)
            record["f1"] = metrics.open_set_f1(truth[asked], given[asked], UNKNOWN)
            record["rejected"] = float(np.mean(given[truth != UNKNOWN] == UNKNOWN))
            yield {key: round(value, 4) if isinstance(value, float) else value for key, value in record.items()}


def many_classes() -> Iterator[Record]:
    """Give what fitting many classes of 100 samples costs, in time and in the size of the models."""
    random = np.random.default_rng(0)
    OpenSetClassifier(alpha=0.1).fit(random.normal(size=(200, 8)), np.repeat([0, 1], 100))
    for count in CLASS_COUNTS:
        X = np.repeat(random.normal(size=(count, 8)) * 5, 100, axis=0) + random.normal(size=(100 * count, 8))
        begin = perf_counter()
        classifier = OpenSetClassifier().fit(X, np.repeat(np.arange(count), 100))
        fitted = perf_counter()
        classifier.predict(X[::100])
        asked = perf_counter()
        yield {
            "section": "classes",
            "classes": count,
            "fit_ms_per_class": round(1000 * (fitted - begin) / count, 2),
            "predict_ms_per_class": round(1000 * (asked - fitted) / count, 3),
            "kb_per_class": round(len(pickle.dumps(classifier)) / count / 1000, 2),
        }


def cases(options: Options) -> Iterator[Case]:
    for name, rows in known_classes(options):
        for model, make in MODELS.items():
            what = {"section": "rates", "data": name, "model": model}
            ask = partial(of_one, make=make, rows=rows)
            yield f"{name}, {model}", partial(rates, what, ask, np.arange(len(rows)), N_TRAINING, N_SPLITS)
    rows, labels = letters(options)
    for name, (known, n_training) in KNOWN_LETTERS.items():
        own = np.flatnonzero(np.isin(labels, list(known)))
        for model, (beside, classifier) in BESIDE.items():
            what = {"section": "beside", "data": name, "model": model, "beside": beside}
            ask = partial(of_several, make=MODELS[model], classifier=classifier, rows=rows, labels=labels)
            yield f"classifier: {name}, {model}", partial(rates, what, ask, own, n_training, N_JOINT_SPLITS)
    for draw in range(N_DRAWS):
        yield f"unknown letters: draw {draw}", partial(unknown_letters, draw, rows, labels)
    yield "many classes", many_classes


def report(document: Document) -> str:
    """Return the tables as Markdown; a rate outside its band is bold."""
    classes = "classes of 100 samples | fit, ms a class | one row of each, ms a class | models, kB a class"
    of = {section: [r for r in document["records"] if r["section"] == section] for section in SECTIONS}
    costs = (" | ".join(str(value) for key, value in one.items() if key != "section") for one in of["classes"])
    first = f"{N_SPLITS} splits, {N_TRAINING} training rows, {N_NEW} new ones each; {document['date']}."
    return "\n\n".join(
        (
            first,
            of_rates(of["rates"], ("data", "model")),
            f"With a classifier: {N_JOINT_SPLITS} splits, {N_NEW} new rows each.",
            of_rates(of["beside"], ("data", "model", "beside")),
            of_unknown_letters(of["unknown letters"]),
            table(classes, costs, "rrrr"),
        )
    )


def of_rates(records: list[Record], keys: tuple[str, ...]) -> str:
    """Return a table of rates, and of the bands of each data set."""
    rows: dict[tuple[str, ...], list[str]] = {}
    bands: dict[str, dict[float, str]] = {}
    for one in records:
        text = f"{one['rate']:.4f}" if one["within"] else f"**{one['rate']:.4f}**"
        rows.setdefault(tuple(one[key] for key in keys), []).append(text)
        band = f"{one['low']:.4f} to {one['high']:.4f}"
        bands.setdefault(one["data"], {})[one["alpha"]] = band
    lines = [" | ".join([*key, *values]) for key, values in rows.items()]
    blank = " |" * (len(keys) - 2)
    lines += [f"{data} | band ({COVERAGE:.0%}) |{blank} {' | '.join(band.values())}" for data, band in bands.items()]
    head = f"{' | '.join(keys)} | " + " | ".join(f"alpha {alpha:g}" for alpha in ALPHAS)
    return table(head.replace("beside", "classifier"), lines, "l" * len(keys) + "r" * len(ALPHAS))


def of_unknown_letters(records: list[Record]) -> str:
    found = {(one["name"], one["unknown"]): one for one in means(records, ("name", "unknown"), MEASURED)}
    lines = []
    for name in dict.fromkeys(name for name, _ in found):
        of = [found[name, count] for count in N_UNKNOWN]
        values = [*(one["auroc"] for one in of), *(of[-1][measured] for measured in MEASURED[1:])]
        lines.append(f"{name} | {' | '.join(f'{value:.3f}' for value in values)}")
    aurocs = " | ".join(f"AUROC, {count} unknown" for count in N_UNKNOWN)
    head = f"{N_KNOWN} known letters ({N_DRAWS} draws) | {aurocs} | macro F1, {N_UNKNOWN[-1]} unknown | known rejected"
    return table(head, lines)


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=KEYS, alone=("many classes",)).main()
