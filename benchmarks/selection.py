"""How good a model each label-free criterion chooses, against the best of the grid, and how long the search takes.

    python benchmarks/selection.py --data DIR [--every N] [--fresh]
    python benchmarks/selection.py --report

Positives alone choose among the candidates of a grid; labelled test samples say afterwards what each choice is worth,
by Matthews correlation, and what the best candidate would have been (the oracle). Every task is kept in
results/selection.jsonl as soon as it is done, so that a run that was stopped goes on. Letter tasks need the data set
(see the README); the others are bundled or generated. The records hold criteria that version 7ffeacb had; a new run
measures those that are left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range, wilcoxon
from sklearn import datasets
from sklearn.base import clone
from sklearn.metrics import matthews_corrcoef
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Document, Options, Record, table
from samples import DATA, bundled, has_letter, letters
from slabsvm import LabelFreeSearchCV, OneClassSlabSVM, OneClassSVM
from slabsvm.detectors.answers import Answer
from slabsvm.kernels import bandwidth
from slabsvm.selection.criteria import MAKERS, Criterion, Recall, SyntheticOutliers, TightestAtRecall
from slabsvm.selection.runs import Journal

EVERY = {"--every": {"type": int, "default": 1, "metavar": "N", "help": "take every N-th of Letter's letters"}}
KINDS = {"marginals": 1000, "volume": 2000}
CRITERIA: dict[str, Criterion] = {
    "recall (the paper's)": Recall(),
    **{
        f"{kind}, recall {recall:g}{'' if slack else ', no slack'}": TightestAtRecall(kind, recall, KINDS[kind], slack)
        for kind in KINDS
        for recall in (0.8, 0.9)
        for slack in (0.0, 1.0)
    },
}
MODELS = ("slab", "one-class SVM")
DEFAULT = "marginals, recall 0.9"
SEED = 0


@dataclass(frozen=True)
class Stacked(SyntheticOutliers):
    """Synthetic outliers of every kind below each other, and which rows are of which."""

    rows: Mapping[str, slice] = field(default_factory=dict)


class Several(Criterion):
    """All criteria at once, each shown synthetic outliers of its own kind: one search measures for all."""

    def outliers(self, positives: Any, generator: np.random.Generator) -> SyntheticOutliers:
        made = [MAKERS[kind](positives, number, generator) for kind, number in KINDS.items()]
        ends = np.cumsum([len(some.X) for some in made])
        volumes = [np.zeros(len(some.X)) if some.log_volume is None else some.log_volume for some in made]
        rows = {kind: slice(end - len(some.X), end) for kind, some, end in zip(KINDS, made, ends, strict=True)}
        return Stacked(np.concatenate([some.X for some in made]), np.concatenate(volumes), rows)

    def measure(self, positives: Answer, outliers: Answer | None, made: SyntheticOutliers | None) -> dict[str, float]:
        measured = {"recall": positives.share}
        for name, criterion in CRITERIA.items():
            answer = shown = None
            if isinstance(criterion, TightestAtRecall):
                rows = made.rows[criterion.kind]
                answer = Answer(outliers.values[rows], outliers.accepted[rows])
                shown = SyntheticOutliers(made.X[rows], made.log_volume[rows] if criterion.kind == "volume" else None)
            measured |= {f"{name}: {what}": v for what, v in criterion.measure(positives, answer, shown).items()}
        return measured

    def scores(self, measured: Any, candidates: Any, n_held_out: int) -> np.ndarray:
        del candidates, n_held_out
        return measured["recall"]


@dataclass(frozen=True)
class Task:
    """Positives to learn, and test rows with the truth about them; the scale says what gamma is a multiple of."""

    group: str
    name: str
    train: np.ndarray
    test: np.ndarray
    truth: np.ndarray
    scaled: bool


def models(task: Task) -> dict[str, tuple[Any, dict[str, list[Any]]]]:
    """Return the two models and their grids; gamma .25 to 64 on Letter's features / 15, .125/d to 32/d elsewhere."""
    gammas = [2.0**k for k in range(-2, 7)]
    if task.scaled:
        gammas = [2.0**k / task.train.shape[1] for k in range(-3, 6)]
    nus = [0.02, 0.05, 0.1, 0.2]
    slab = {"gamma": gammas, "nu_lower": nus, "epsilon": [2 / 3, 0.9]}
    return {"slab": (OneClassSlabSVM(), slab), "one-class SVM": (OneClassSVM(), {"gamma": gammas, "nu": nus})}


def every_task(options: Options) -> bool:
    return options.every == 1 and has_letter(options)


def tasks(options: Options) -> Iterator[Task]:
    found = letters(options)
    if found:
        yield from letter_tasks(found[0] / 15, found[1], options.every)
    yield from other_tasks()


def letter_tasks(X: np.ndarray, y: np.ndarray, every: int) -> Iterator[Task]:
    for letter in sorted(set(y))[::every]:
        known = y == letter
        yield Task("Letter", letter, X[:16000][known[:16000]], X[16000:], known[16000:], scaled=False)
    for name, members in {"vowels": "AEIOU", "round": "CDGOQ", "strokes": "EFHIL"}.items():
        known = np.isin(y, list(members))
        rows = np.flatnonzero(known[:16000])[::4]
        yield Task(f"Letter, {name}", name, X[rows], X[16000:], known[16000:], scaled=True)


def other_tasks() -> Iterator[Task]:
    for name, X, y in bundled():
        for label in np.unique(y):
            yield split(name, str(label), X[y == label], X[y != label])
    generator = np.random.default_rng(SEED)
    moons, side = datasets.make_moons(1200, noise=0.12, random_state=SEED)
    yield split("moons", "upper", moons[side == 0], moons[side == 1])
    rings, ring = datasets.make_circles(1200, noise=0.08, factor=0.55, random_state=SEED)
    yield split("rings", "outer", rings[ring == 0], rings[ring == 1])
    roll, _ = datasets.make_swiss_roll(1500, noise=0.5, random_state=SEED)
    box = generator.uniform(roll.min(axis=0), roll.max(axis=0), roll.shape)
    yield split("swiss roll", "roll in its box", roll, box)
    blobs, blob = datasets.make_blobs(1800, n_features=8, centers=6, cluster_std=2.5, random_state=SEED)
    yield split("blobs", "three of six", blobs[blob < 3], blobs[blob >= 3])
    root = generator.normal(size=(16, 16)) * 0.7 ** np.arange(16)
    cloud = generator.normal(size=(700, 16)) @ root
    yield split("cloud, 16-d", "twice as wide", cloud, 2.0 * generator.normal(size=(700, 16)) @ root)
    latent = generator.normal(size=(900, 3))
    mixing, other = generator.normal(size=(2, 3, 40))
    noise = 0.3 * generator.normal(size=(2, 900, 40))
    yield split(
        "factors, 40-d", "other loadings", np.tanh(latent @ mixing) + noise[0], np.tanh(latent @ other) + noise[1]
    )


def split(group: str, name: str, positives: np.ndarray, negatives: np.ndarray) -> Task:
    """Learn from three fifths of the positives, in random order; test on the rest and on all negatives."""
    order = np.random.default_rng(SEED).permutation(len(positives))
    cut = len(positives) * 3 // 5
    test = np.concatenate([positives[order[cut:]], negatives])
    truth = np.arange(len(test)) < len(positives) - cut
    return Task(group, name, positives[order[:cut]], test, truth, scaled=True)


@threadpool_limits.wrap(limits=1, user_api="blas")
def run(task: Task) -> list[Record]:
    """Return, for each model, what every candidate is worth, what was measured of it, and what rules alone give."""
    records = []
    for name, (detector, grid) in models(task).items():
        estimator = make_pipeline(StandardScaler(), detector) if task.scaled else detector
        prefix = f"{estimator.steps[-1][0]}__" if task.scaled else ""
        named = {prefix + parameter: values for parameter, values in grid.items()}
        candidates = list(ParameterGrid(named))
        record: dict[str, Any] = {"group": task.group, "task": task.name, "model": name, "m": len(task.train)}
        record["parameters"] = [{key.removeprefix(prefix): v for key, v in c.items()} for c in candidates]
        record["worth"] = [value_of(clone(estimator).set_params(**candidate), task) for candidate in candidates]
        for way, folds in (("folds", 5), ("fold-free", "leave-one-out")):
            search = LabelFreeSearchCV(estimator, named, criterion=Several(), cv=folds, refit=False).fit(task.train)
            means = {key: v for key, v in search.cv_results_.items() if key.startswith("mean_") and ": " in key}
            record[way] = {key.removeprefix("mean_"): v.tolist() for key, v in means.items()}
            record["nominal_recall"] = search.cv_results_["nominal_recall"].tolist()
        learned = StandardScaler().fit_transform(task.train) if task.scaled else task.train
        record["rules"] = {
            rule: value_of(clone(estimator).set_params(**{f"{prefix}gamma": gamma_of(learned)}), task)
            for rule, gamma_of in bandwidth.RULES.items()
        }
        records.append(record)
    return records


def chosen(record: Mapping[str, Any], way: str, name: str) -> int:
    """Return the candidate that a criterion chooses, by the means of what was measured of each."""
    lead = f"{name}: "
    measured = {key.removeprefix(lead): np.array(v) for key, v in record[way].items() if key.startswith(lead)}
    measured["nominal_recall"] = np.array(record["nominal_recall"])
    scores = CRITERIA[name].scores(measured, record["parameters"], record["m"])
    best = np.flatnonzero(scores == scores.max())
    return int(best[np.argmax(measured["recall"][best])])


def value_of(estimator: Any, task: Task) -> float:
    """Return the Matthews correlation on the test rows of an estimator that has learned the positives."""
    accepted = estimator.fit(task.train).predict(task.test) == 1
    return float(matthews_corrcoef(task.truth, accepted))


def choices(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is published of a record: the worth of each choice and of the best, and the default choice."""
    places = {
        name + ("" if way == "folds" else ", fold-free"): chosen(record, way, name)
        for way in ("folds", "fold-free")
        for name in CRITERIA
    }
    return {
        **{key: record[key] for key in ("group", "task", "model", "m")},
        "oracle": round(max(record["worth"]), 5),
        "mcc": {name: round(record["worth"][place], 5) for name, place in places.items()}
        | {f"no search, {rule}": round(worth, 5) for rule, worth in record["rules"].items()},
        "parameters": record["parameters"][places[DEFAULT]],
    }


def report(document: Document) -> str:
    """Return how the criteria rank over data sets.

    A data set is the mean over its classes, and for ranks and tests over the two models, too: what they make of the
    same rows is no two observations.
    """
    records = document["records"]
    names = list(records[0]["mcc"])
    ranked = [name for name in names if not re.search("no slack|fold-free|no search", name)]
    groups = sorted({r["group"] for r in records})
    cells = [[[r for r in records if (r["group"], r["model"]) == (g, model)] for model in MODELS] for g in groups]

    def over_classes(value: Callable[[Record], float]) -> np.ndarray:
        return np.array([[np.mean([value(r) for r in some]) for some in row] for row in cells])

    means = {name: over_classes(lambda r, name=name: r["mcc"][name]) for name in names}
    oracle = over_classes(lambda r: r["oracle"])
    values = np.stack([means[name].mean(axis=1) for name in ranked], axis=1).round(4)
    ranks = dict(zip(ranked, rankdata(-values, axis=1).mean(axis=0), strict=True))
    p = friedmanchisquare(*values.T).pvalue
    critical = critical_difference(len(ranked), len(groups))
    rows = []
    for name in sorted(names, key=lambda n: (ranks.get(n, np.inf), -np.mean(means[n] / oracle))):
        share, less = means[name] / oracle, (means[name] - means[DEFAULT]).mean(axis=1).round(4)
        rank = f"{ranks[name]:.1f}" if name in ranks else ""
        p_less = f"{wilcoxon(less).pvalue:.2g}" if less.any() else ""
        rows.append(
            f"{name} | {rank} | {share[:, 0].mean():.3f} | {share[:, 1].mean():.3f} | {share.min():.3f} "
            f"| {less.mean():+.3f} | {p_less} | " + " | ".join(on_letters(records, model, name) for model in MODELS)
        )
    head = (
        f"criterion | mean rank | share of the oracle's MCC, slab | one-class SVM | worst | MCC less {DEFAULT}'s "
        "| Wilcoxon p | Letter, slab | one-class SVM"
    )
    return (
        f"{len(groups)} data sets; Friedman p {p:.1g}, critical difference of mean ranks (Nemenyi, .05) "
        f"{critical:.2f}\n\n{table(head, rows)}"
    )


def on_letters(records: Sequence[Mapping[str, Any]], model: str, name: str) -> str:
    """Return the median MCC over the letters, and its share of the oracle's median."""
    some = [r for r in records if r["model"] == model and r["group"] == "Letter"]
    if not some:
        return ""
    value, best = np.median([r["mcc"][name] for r in some]), np.median([r["oracle"] for r in some])
    return f"{value:.3f} ({value / best:.3f})"


def critical_difference(n_methods: int, n_sets: int) -> float:
    """Return Nemenyi's critical difference of mean ranks at .05 (Demsar, JMLR 7, 2006)."""
    q = studentized_range.ppf(0.95, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def cases(options: Options) -> Iterator[Case]:
    journal = Journal(options.file.with_suffix(".jsonl"))
    if options.fresh:
        journal.path.unlink(missing_ok=True)
    known = {(r["group"], r["task"], r["model"]): r for r in journal.records()}

    def of_task(task: Task) -> Iterator[Record]:
        if (task.group, task.name, MODELS[-1]) not in known:
            for record in run(task):
                journal.append(record)
                known[record["group"], record["task"], record["model"]] = record
        return (choices(known[task.group, task.name, model]) for model in MODELS)

    for task in tasks(options):
        yield f"{task.group}: {task.name}", partial(of_task, task)


if __name__ == "__main__":
    fresh = {"--fresh": {"action": "store_true", "help": "compute again what is recorded"}}
    Benchmark(__file__, __doc__, cases, report, whole=every_task, arguments=DATA | EVERY | fresh).main()
