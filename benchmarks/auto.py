"""What AutoSlabSVM, which chooses nothing, is worth beside searches of a grid, its best candidate, and a slab as it is.

    python benchmarks/auto.py --data DIR [--every N]
    python benchmarks/auto.py --report

Positives alone are learned; labelled test samples say afterwards what came of it, by Matthews correlation and recall.
The tasks are those of benchmarks/selection.py, the digits with every pixel black or white, wide tables, and one of
categories. Then the recall that AutoSlabSVM keeps with few rows is measured, on many draws from data of which there is
more.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
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

from harness import JOBS, Benchmark, Case, Document, Options, Record, table
from samples import DATA, clouds, letters
from selection import EVERY, SEED, Task, every_task, split, tasks
from slabsvm import AutoSlabSVM, LabelFreeSearchCV, OneClassSlabSVM
from slabsvm.selection.criteria import TightestAtRecall

RECALL = 0.9
AUTO, UNCHOSEN = "AutoSlabSVM", "OneClassSlabSVM()"
SEARCHES = {f"search by {kind}": TightestAtRecall(kind, recall=RECALL) for kind in ("volume", "marginals")}
WAYS = (AUTO, *SEARCHES, UNCHOSEN)
# The searches' gammas, as multiples of 1 / number of features that vary: "scale" for standardised ones.
GAMMA_MULTIPLES = tuple(2.0**power for power in range(-2, 5))
NU_UPPER = 0.01
REST_OF_GRID = {
    "oneclassslabsvm__nu_lower": [share * (1.0 - RECALL) - NU_UPPER for share in (0.5, 1.0)],
    "oneclassslabsvm__nu_upper": [NU_UPPER],
    "oneclassslabsvm__epsilon": [2 / 3, 0.9],
}
FEW = (30, 60, 100, 300)
N_DRAWS, N_NEW = 40, 1000


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
    codes, outliers = generator.integers(0, 4, (2, 600, 12))
    codes[:, 6:] = codes[:, :6]
    one_hot = np.eye(4)
    yield split("one-hot", "pairs agree", one_hot[codes].reshape(600, -1), one_hot[outliers].reshape(600, -1))


def run(task: Task) -> Record:
    """Learn a task in every way; return the Matthews correlation and the recall of each."""
    slab = make_pipeline(StandardScaler(), OneClassSlabSVM())
    n_varying = np.count_nonzero(np.ptp(task.train, axis=0))
    grid = REST_OF_GRID | {"oneclassslabsvm__gamma": [multiple / n_varying for multiple in GAMMA_MULTIPLES]}
    candidates = [worth(clone(slab).set_params(**candidate), task) for candidate in ParameterGrid(grid)]
    found = {AUTO: worth(AutoSlabSVM(recall=RECALL), task), UNCHOSEN: worth(slab, task)}
    for name, criterion in SEARCHES.items():
        search = LabelFreeSearchCV(slab, grid, criterion=criterion, cv="leave-one-out", refit=False)
        found[name] = candidates[search.fit(task.train).best_index_]
    return {
        "section": "ways",
        "group": task.group,
        "task": task.name,
        "m": len(task.train),
        "oracle": max(candidate["mcc"] for candidate in candidates),
        "ways": {name: found[name] for name in WAYS},
    }


def worth(model: Any, task: Task) -> dict[str, float]:
    """Return the Matthews correlation on the test rows, and the share of its positives that are accepted."""
    accepted = model.fit(task.train).predict(task.test) == 1
    return {
        "mcc": round(float(matthews_corrcoef(task.truth, accepted)), 4),
        "recall": round(float(accepted[task.truth].mean()), 4),
    }


def sources(options: Options) -> Iterator[tuple[str, Callable[[np.random.Generator, int], np.ndarray]]]:
    """Give names, and what draws so many rows that are like each other."""
    yield "Gaussian, 4-d", lambda generator, n: generator.normal(size=(n, 4))
    yield "Gaussian, 30-d", lambda generator, n: generator.normal(size=(n, 30))
    yield "box, 3-d", lambda generator, n: generator.uniform(size=(n, 3))
    yield "heavy tails, 6-d", lambda generator, n: generator.standard_t(3, size=(n, 6))
    yield "four values, 5-d", lambda generator, n: generator.integers(0, 4, (n, 5))
    five = clouds(20_000, 8)
    yield "clouds, 8-d", lambda generator, n: generator.permutation(five)[:n]
    digits = datasets.load_digits().data
    yield "digits, 64-d", lambda generator, n: generator.permutation(digits)[:n]
    found = letters(options)
    if found:
        vowels = found[0][np.isin(found[1], list("AEIOU"))]
        yield "Letter, vowels, 16-d", lambda generator, n: generator.permutation(vowels)[:n]


def recall_of_few(source: str, draw: Callable[[np.random.Generator, int], np.ndarray]) -> Iterator[Record]:
    """Give, for each number of rows, the mean recall of new rows over draws of both, and its standard error."""
    for n_rows in FEW:
        recalls = []
        for seed in range(N_DRAWS):
            rows = draw(np.random.default_rng(seed), n_rows + N_NEW)
            recalls.append((AutoSlabSVM(recall=RECALL).fit(rows[:n_rows]).predict(rows[n_rows:]) == 1).mean())
        error = float(np.std(recalls, ddof=1) / np.sqrt(N_DRAWS))
        yield {
            "section": "few rows",
            "source": source,
            "m": n_rows,
            "recall": round(float(np.mean(recalls)), 4),
            "standard_error": round(error, 4),
        }


def report(document: Document) -> str:
    """Return the tables of what was measured."""
    by_section: dict[str, list[Record]] = defaultdict(list)
    for record in document["records"]:
        by_section[record["section"]].append(record)
    shown = {"ways": ways, "few rows": few_rows}
    return "\n\n".join(shown[section](records) for section, records in by_section.items())


def ways(records: Sequence[Record]) -> str:
    """Return each way's worth as the mean over data sets, of which one is the mean over its classes, and in each."""
    groups = defaultdict(list)
    for record in records:
        groups[record["group"]].append(record)

    def of_groups(name: str, what: str) -> np.ndarray:
        return np.array([np.mean([r["ways"][name][what] for r in some]) for some in groups.values()])

    oracle = np.array([np.mean([r["oracle"] for r in some]) for some in groups.values()])
    means, sets = [], []
    for name in WAYS:
        mcc, less = of_groups(name, "mcc"), of_groups(name, "mcc") - of_groups(AUTO, "mcc")
        p = f"{wilcoxon(less.round(4)).pvalue:.2g}" if less.any() else ""
        means.append(
            f"{name} | {(mcc / oracle).mean():.3f} | {(mcc / oracle).min():.3f} | {mcc.mean():.3f} "
            f"| {of_groups(name, 'recall').mean():.3f} | {less.mean():+.3f} | {p}"
        )
    for row, group in enumerate(groups):
        values = " | ".join(f"{of_groups(name, 'mcc')[row]:.3f}" for name in WAYS)
        sets.append(f"{group} | {oracle[row]:.3f} | {values}")
    parts = [
        f"{len(records)} tasks of {len(groups)} data sets; a recall of {RECALL} is asked for",
        table("way | share of the oracle's MCC | worst | MCC | recall | MCC less AutoSlabSVM's | Wilcoxon p", means),
        table(f"data set | oracle | {' | '.join(WAYS)}", sets),
        *([on_letters(groups["Letter"])] if "Letter" in groups else []),
        *(wins_over(records, other) for other in WAYS[1:]),
    ]
    return "\n\n".join(parts)


def on_letters(records: Sequence[Record]) -> str:
    """Return the share of the oracle's MCC over the letters, each by itself."""
    rows = []
    for name in WAYS:
        shares = np.array([r["ways"][name]["mcc"] / r["oracle"] for r in records])
        worst = int(shares.argmin())
        rows.append(
            f"{name} | {shares.mean():.3f} | {np.median(shares):.3f} | {shares[worst]:.3f} ({records[worst]['task']}) "
            f"| {int((shares < 0.85).sum())}"
        )
    return table(f"{len(records)} letters: share of the oracle's | mean | median | worst | below .85", rows)


def wins_over(records: Sequence[Record], other: str) -> str:
    less = np.array([r["ways"][AUTO]["mcc"] - r["ways"][other]["mcc"] for r in records])
    wins, losses, worst = int((less > 0).sum()), int((less < 0).sum()), int(less.argmin())
    return (
        f"Against {other} AutoSlabSVM wins {wins} tasks, loses {losses}, by {-less[worst]:.3f} at most "
        f"({records[worst]['group']}, {records[worst]['task']}), and by more than .03 {int((less < -0.03).sum())}."
    )


def few_rows(records: Sequence[Record]) -> str:
    """Return the table of recalls of so many rows."""
    found = {(r["source"], r["m"]): r for r in records}
    names = list(dict.fromkeys(source for source, _ in found))
    rows = [
        f"{name} | "
        + " | ".join(f"{found[name, m]['recall']:.3f} ({found[name, m]['standard_error']:.3f})" for m in FEW)
        for name in names
    ]
    means = [np.mean([found[name, m]["recall"] for name in names]) for m in FEW]
    rows.append("mean | " + " | ".join(f"{mean:.3f}" for mean in means))
    head = f"recall of AutoSlabSVM (standard error over {N_DRAWS} draws) | {' | '.join(f'{m} rows' for m in FEW)}"
    return table(head, rows)


def cases(options: Options) -> Iterator[Case]:
    for task in itertools.chain(tasks(options), hard_tasks()):
        yield f"{task.group}: {task.name}", partial(run, task)
    for source, draw in sources(options):
        yield f"few rows: {source}", partial(recall_of_few, source, draw)


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, whole=every_task, arguments=DATA | EVERY | JOBS).main()
