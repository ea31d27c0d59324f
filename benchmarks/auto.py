"""What AutoSlabSVM is worth to somebody who sets nothing: against the best of its grid, other choices, and no choice.

    SLABSVM_DATA=... python benchmarks/auto.py [--every N] [--report]

Positives alone are learned; labelled test samples say afterwards what came of it, by Matthews correlation and recall.
The tasks are those of benchmarks/selection.py, the digits with every pixel black or white, wide tables, and one of
categories. Every other search is over the same grid. Prints tables and, where every task was run, writes
results/auto.json; --report prints the tables of the published results alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
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

from selection import SEED, Task, split, tasks
from slabsvm import AutoSlabSVM, OneClassSlabSVM
from slabsvm.selection.criteria import TightestAtRecall

RESULTS = Path(__file__).parent / "results" / "auto.json"
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


def run(task: Task) -> dict[str, Any]:
    """Learn a task in every way; return the Matthews correlation and the recall of each."""
    chosen = AutoSlabSVM(recall=RECALL).fit(task.train)
    fitted: dict[str, Any] = {AUTO: chosen}
    for name, changes in SEARCHES.items():
        fitted[name] = clone(chosen.search_).set_params(refit=True, **changes).fit(task.train)
    unchosen = make_pipeline(StandardScaler(), OneClassSlabSVM(nu_lower=0.09, nu_upper=0.01))
    fitted[UNCHOSEN] = unchosen.fit(task.train)
    candidates = [
        clone(chosen.search_.estimator).set_params(**candidate).fit(task.train)
        for candidate in ParameterGrid(chosen.search_.param_grid)
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


def report(records: list[dict[str, Any]]) -> None:
    """Print each way's worth as the mean over data sets, of which one is the mean over its classes, and in each."""
    groups = defaultdict(list)
    for record in records:
        groups[record["group"]].append(record)

    def of_groups(name: str, what: str) -> Any:
        return np.array([np.mean([r["ways"][name][what] for r in some]) for some in groups.values()])

    oracle = np.array([np.mean([r["oracle"] for r in some]) for some in groups.values()])
    names = [AUTO, *SEARCHES, UNCHOSEN]
    print(f"\n{len(records)} tasks of {len(groups)} data sets; a recall of {RECALL} is asked for\n")
    print("| way | share of the oracle's MCC | worst | MCC | recall | MCC less AutoSlabSVM's | Wilcoxon p |")
    print("| --- " + "| ---: " * 6 + "|")
    for name in names:
        mcc, less = of_groups(name, "mcc"), of_groups(name, "mcc") - of_groups(AUTO, "mcc")
        p = f"{wilcoxon(less.round(4)).pvalue:.2g}" if less.any() else ""
        print(
            f"| {name} | {(mcc / oracle).mean():.3f} | {(mcc / oracle).min():.3f} | {mcc.mean():.3f} "
            f"| {of_groups(name, 'recall').mean():.3f} | {less.mean():+.3f} | {p} |"
        )
    print("\n| data set | oracle | " + " | ".join(names) + " |")
    print("| --- " + "| ---: " * (1 + len(names)) + "|")
    for row, group in enumerate(groups):
        values = " | ".join(f"{of_groups(name, 'mcc')[row]:.3f}" for name in names)
        print(f"| {group} | {oracle[row]:.3f} | {values} |")
    report_tasks(records)


def report_tasks(records: list[dict[str, Any]]) -> None:
    """Print what recall comes of how many rows, and how often a choice is worth more than none."""
    print("\n| rows learned | tasks | recall: AutoSlabSVM | lowest | no choice |")
    print("| --- " + "| ---: " * 4 + "|")
    for low, high in itertools.pairwise((0, *SIZES, np.inf)):
        some = [r for r in records if low <= r["m"] < high]
        if not some:
            continue
        recall, unchosen = ([r["ways"][name]["recall"] for r in some] for name in (AUTO, UNCHOSEN))
        print(
            f"| {low} to {high} | {len(some)} | {np.mean(recall):.3f} | {min(recall):.3f} | {np.mean(unchosen):.3f} |"
        )
    less = np.array([r["ways"][AUTO]["mcc"] - r["ways"][UNCHOSEN]["mcc"] for r in records])
    print(
        f"\nAgainst no choice AutoSlabSVM wins {int((less > 0).sum())} tasks, loses {int((less < 0).sum())}, by "
        f"{-less.min():.3f} at most."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every N-th of Letter's letters")
    parser.add_argument("--report", action="store_true", help="print the tables of the published results alone")
    given = parser.parse_args()
    if given.report:
        report(json.loads(RESULTS.read_text()))
        return
    records = []
    warnings.simplefilter("ignore")
    with threadpool_limits(1, "blas"):
        for task in [*tasks(given.every), *hard_tasks()]:
            records.append(run(task))
            print(f"{task.group}: {task.name}", flush=True)
    report(records)
    if given.every == 1 and os.environ.get("SLABSVM_DATA"):
        RESULTS.write_text(json.dumps(records, indent=1) + "\n")
    else:
        print("\nNot every task was run: the published results stay as they are.")


if __name__ == "__main__":
    main()
