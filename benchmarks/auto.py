"""What AutoSlabSVM is worth to somebody who sets nothing: against the best of its grid, other choices, and no choice.

    python benchmarks/auto.py --data DIR [--every N]
    python benchmarks/auto.py --report

Positives alone are learned; labelled test samples say afterwards what came of it, by Matthews correlation and recall.
The tasks are those of benchmarks/selection.py, the digits with every pixel black or white, wide tables, and one of
categories. Every other search is over the same grid.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import wilcoxon
from sklearn import datasets
from sklearn.base import clone
from sklearn.metrics import matthews_corrcoef
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Document, Options, Record, table
from samples import DATA
from selection import EVERY, SEED, Task, every_task, split, tasks
from slabsvm import AutoSlabSVM, OneClassSlabSVM
from slabsvm.selection.criteria import TightestAtRecall

AUTO = "AutoSlabSVM"
RECALL = 0.9
# Recall is shown for fewer rows than each of these, and for more.
SIZES = (60, 300)
UNCHOSEN = "no choice: gamma scale, nu_lower .09, nu_upper .01"
SEARCHES: dict[str, dict[str, Any]] = {
    "volume, 5 folds": {"cv": 5},
    "marginals, leave-one-out": {"criterion": TightestAtRecall("marginals", RECALL)},
    "marginals, 5 folds": {"criterion": TightestAtRecall("marginals", RECALL), "cv": 5},
}


def hard_tasks() -> Iterator[Task]:
    """Give what volumes are said to be poor at: two values a feature, and more features than samples."""
    generator = np.random.default_rng(SEED)
    digits, labels = datasets.load_digits(return_X_y=True)
    ink = (digits > 7).astype(float)
    large = np.kron(digits.reshape(-1, 8, 8), np.ones((4, 4))).reshape(len(digits), -1)
    large += generator.normal(size=large.shape)
    for label in np.unique(labels):
        known = labels == label
        yield split("digits, binary", str(label), ink[known], ink[~known])
        yield split("digits, 1,024-d", str(label), large[known], large[~known])
    loadings, others = generator.normal(size=(2, 10, 500))
    latent, noise = generator.normal(size=(2, 300, 10)), 0.3 * generator.normal(size=(2, 300, 500))
    yield split(
        "factors, 500-d",
        "other loadings",
        np.tanh(latent[0] @ loadings) + noise[0],
        np.tanh(latent[1] @ others) + noise[1],
    )
    codes, strangers = generator.integers(0, 4, (2, 600, 12))
    codes[:, 6:] = codes[:, :6]
    one_hot = np.eye(4)
    yield split("one-hot", "pairs agree", one_hot[codes].reshape(600, -1), one_hot[strangers].reshape(600, -1))


@threadpool_limits.wrap(limits=1, user_api="blas")
def run(task: Task) -> Record:
    """Learn a task in every way; return the Matthews correlation and the recall of each."""
    chosen = AutoSlabSVM(recall=RECALL).fit(task.train)
    grid = chosen._grid(task.train, np.ones(len(task.train)))
    fitted: dict[str, Any] = {AUTO: chosen}
    for name, changes in SEARCHES.items():
        search = clone(chosen.search_).set_params(param_grid=grid, refit=True, **changes)
        fitted[name] = search.fit(task.train)
    unchosen = make_pipeline(StandardScaler(), OneClassSlabSVM(nu_lower=0.09, nu_upper=0.01))
    fitted[UNCHOSEN] = unchosen.fit(task.train)
    candidates = [
        clone(chosen.search_.estimator).set_params(**candidate).fit(task.train) for candidate in ParameterGrid(grid)
    ]
    return {
        "group": task.group,
        "task": task.name,
        "m": len(task.train),
        "oracle": max(worth(candidate, task)["mcc"] for candidate in candidates),
        "ways": {name: worth(model, task) for name, model in fitted.items()},
    }


def worth(model: Any, task: Task) -> dict[str, float]:
    """Return the Matthews correlation on the test rows, and the share of its positives that are accepted."""
    accepted = model.predict(task.test) == 1
    return {
        "mcc": round(float(matthews_corrcoef(task.truth, accepted)), 4),
        "recall": round(float(accepted[task.truth].mean()), 4),
    }


def report(document: Document) -> str:
    """Return each way's worth as the mean over data sets, of which one is the mean over its classes, and in each."""
    records = document["records"]
    groups = defaultdict(list)
    for record in records:
        groups[record["group"]].append(record)

    def of_groups(name: str, what: str) -> np.ndarray:
        return np.array([np.mean([r["ways"][name][what] for r in some]) for some in groups.values()])

    oracle = np.array([np.mean([r["oracle"] for r in some]) for some in groups.values()])
    names = [AUTO, *SEARCHES, UNCHOSEN]
    ways, sets = [], []
    for name in names:
        mcc, less = of_groups(name, "mcc"), of_groups(name, "mcc") - of_groups(AUTO, "mcc")
        p = f"{wilcoxon(less.round(4)).pvalue:.2g}" if less.any() else ""
        ways.append(
            f"{name} | {(mcc / oracle).mean():.3f} | {(mcc / oracle).min():.3f} | {mcc.mean():.3f} "
            f"| {of_groups(name, 'recall').mean():.3f} | {less.mean():+.3f} | {p}"
        )
    for row, group in enumerate(groups):
        values = " | ".join(f"{of_groups(name, 'mcc')[row]:.3f}" for name in names)
        sets.append(f"{group} | {oracle[row]:.3f} | {values}")
    parts = [
        f"{len(records)} tasks of {len(groups)} data sets; a recall of {RECALL} is asked for",
        table("way | share of the oracle's MCC | worst | MCC | recall | MCC less AutoSlabSVM's | Wilcoxon p", ways),
        table(f"data set | oracle | {' | '.join(names)}", sets),
        *by_size(records),
    ]
    return "\n\n".join(parts)


def by_size(records: list[Record]) -> tuple[str, str]:
    """Return what recall comes of how many rows, and how often a choice is worth more than none."""
    rows = []
    for low, high in itertools.pairwise((0, *SIZES, np.inf)):
        some = [r for r in records if low <= r["m"] < high]
        recall, unchosen = ([r["ways"][name]["recall"] for r in some] for name in (AUTO, UNCHOSEN))
        if some:
            means = f"{np.mean(recall):.3f} | {min(recall):.3f} | {np.mean(unchosen):.3f}"
            rows.append(f"{low} to {high} | {len(some)} | {means}")
    less = np.array([r["ways"][AUTO]["mcc"] - r["ways"][UNCHOSEN]["mcc"] for r in records])
    wins, losses = int((less > 0).sum()), int((less < 0).sum())
    return (
        table("rows learned | tasks | recall: AutoSlabSVM | lowest | no choice", rows),
        f"Against no choice AutoSlabSVM wins {wins} tasks, loses {losses}, by {-less.min():.3f} at most.",
    )


def cases(options: Options) -> Iterator[Case]:
    for task in itertools.chain(tasks(options), hard_tasks()):
        yield f"{task.group}: {task.name}", partial(run, task)


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, whole=every_task, arguments=DATA | EVERY).main()
