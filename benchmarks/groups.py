"""Rows in groups: how near left-out scores are to refits, what recall rows of new groups keep, and what groups cost.

    python benchmarks/groups.py [--only WORD] [--output FILE.json]

Refits: 60 problems, 12 with each of five kernels (10 to 40 groups of one to six rows, near each other by .03
or .3 of what parts groups; epsilon 0, .2, 2/3 and 1.5; gamma .02 to 2). Every group that has a support vector is left
out in turn and the model refitted to a relative gap of 1e-11, with the boxes of the others unchanged. Errors are in
units of the standard deviation of the exact scores of the same model.

Recall: groups of normal rows around normal centres, new rows each of a group of its own, models at their defaults, each
with and without groups; and digits with copies that are shifted by a pixel, of which each image is a group.

Cost: default fits with and without groups, one of each, in wall-clock seconds on all processors: normal centres in five
features, and rows around them half as far apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm import SVDD, AutoDetector, ConformalDetector, KernelDensityDetector, OneClassSlabSVM, OneClassSVM
from slabsvm.dual.program import Dual, one_class_slab
from slabsvm.dual.solution import Solution, Status
from slabsvm.gram.base import Dense
from slabsvm.kernels import NAMED
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import loop
from slabsvm.solvers.small import Leaving, LeftOut, solve_small

EXACT, TIGHT = 1e-6, 1e-11
# nu_lower, nu_upper and epsilon.
SETTINGS = ((0.1, 0.01, 2 / 3), (0.1, 0.05, 0.2), (0.2, 0.1, 0.0), (0.1, 0.1, 1.5))
N_PROBLEMS = 12
MODELS = {
    "slab": OneClassSlabSVM(),
    "one-class SVM": OneClassSVM(),
    "SVDD": SVDD(),
    "kernel density": KernelDensityDetector(),
    "AutoDetector": AutoDetector(),
    "conformal": ConformalDetector(OneClassSVM(), alpha=0.1),
}
# Groups, rows in each, features, and how far rows of a group are apart beside groups.
CLOUDS = ((30, 8, 3, 0.1), (100, 5, 3, 0.1), (100, 5, 16, 0.2), (100, 5, 6, 0.5))
N_DRAWS = 8
# Rows and groups of the fits that are timed; of so many rows before, so that all is imported.
COSTS = ((1000, 20), (1000, 200), (2000, 4), (2000, 20), (5000, 20), (5000, 200), (10_000, 8), (10_000, 100))
N_BEFORE = 500


def problem(kernel: str, seed: int) -> tuple[Dual, np.ndarray, list[np.ndarray]]:
    """Return a dual with its K, and the samples of each group."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, int(rng.integers(10, 41)))
    centres = rng.gamma(16.0, 1 / 4, (len(sizes), int(rng.choice([2, 5, 20]))))
    X = np.repeat(centres, sizes, axis=0)
    X = np.abs(X + rng.choice([0.03, 0.3]) * rng.normal(size=X.shape))
    made = RBF(float(rng.choice([0.02, 0.2, 2.0]))) if kernel == "rbf" else NAMED[kernel]()
    nu_lower, nu_upper, epsilon = SETTINGS[seed % 4]
    dual = one_class_slab(np.ones(len(X)), nu_lower, nu_upper, epsilon)
    return dual, made(X, X), np.split(np.arange(len(X)), np.cumsum(sizes)[:-1])


def refitted_scores(dual: Dual, K: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return the scores of some samples under the model that has not learned them."""
    rest = np.setdiff1d(np.arange(len(K)), some)
    without = Dual(dual.signs, dual.caps[:, rest], dual.totals, dual.linear[rest])
    refit = loop.solve(without, Dense(K[np.ix_(rest, rest)]), tol=TIGHT)
    return np.asarray(K[np.ix_(some, rest)] @ without.beta(refit.multipliers))


def left_out(dual: Dual, K: np.ndarray, leaving: Leaving) -> tuple[Solution, LeftOut]:
    """Return the optimum, and scores without what leaves."""
    solution, found = solve_small(dual, Dense(K), tol=TIGHT, leaving=leaving)
    assert found is not None
    return solution, found


def distribution(kernel: str) -> Record:
    """Return the distribution of the errors over the rows of all groups that hold a plane."""
    by_groups, by_rows, one, other, problems, groups_left = [], [], [], [], 0, 0
    for seed in range(N_PROBLEMS):
        dual, K, groups = problem(kernel, seed)
        solution, by_group = left_out(dual, K, Leaving(groups=[(group, group) for group in groups]))
        if solution.status is Status.DEGENERATE:
            continue
        exact, found = solution.scores.copy(), solution.scores.copy()
        left = np.split(by_group.scores, np.cumsum([len(group) for group in groups])[:-1])
        held = np.zeros(len(K), dtype=bool)
        for group, scores in zip(groups, left, strict=True):
            if (solution.multipliers[:, group] > 0).any():
                exact[group], found[group], held[group] = refitted_scores(dual, K, group), scores, True
                groups_left += 1
        problems += 1
        alone = left_out(dual, K, Leaving(np.zeros(len(K))))[1].scores
        by_groups.append(np.abs(found - exact)[held] / exact.std())
        by_rows.append(np.abs(alone - exact)[held] / exact.std())
        one.append((found[held] - exact.mean()) / exact.std())
        other.append((exact[held] - exact.mean()) / exact.std())
    errors, alone = np.concatenate(by_groups), np.concatenate(by_rows)
    return {
        "section": "refits",
        "label": kernel,
        "problems": problems,
        "groups": groups_left,
        "share_exact": float((errors < EXACT).mean()),
        "median": float(np.median(errors)),
        "p90": float(np.quantile(errors, 0.9)),
        "p99": float(np.quantile(errors, 0.99)),
        "correlation": float(np.corrcoef(np.concatenate(one), np.concatenate(other))[0, 1]),
        "rows_median": float(np.median(alone)),
        "rows_p90": float(np.quantile(alone, 0.9)),
    }


def drawn(setting: tuple[int, int, int, float], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, the numbers of their groups, and new rows, each of a group of its own."""
    n_groups, size, d, spread = setting
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    rows = rng.normal(size=(n_groups, d))[groups]
    new = rng.normal(size=(500, d))
    return rows + spread * rng.normal(size=rows.shape), groups, new + spread * rng.normal(size=new.shape)


def shifted_digits(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return threes with four copies each that are shifted by a pixel, the images' numbers, and other threes."""
    digits, labels = load_digits(return_X_y=True)
    images = np.random.default_rng(seed).permutation(digits[labels == 3]).reshape(-1, 8, 8)
    learned, new = images[:90], images[90:]
    moves = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
    copies = np.stack([np.roll(learned, move, axis=(1, 2)) for move in moves], axis=1)
    # Which shift a new image has is as likely any of them.
    places = np.random.default_rng(seed).integers(0, len(moves), len(new))
    new = np.stack([np.roll(image, moves[place], axis=(0, 1)) for image, place in zip(new, places, strict=True)])
    return copies.reshape(-1, 64), np.repeat(np.arange(90), len(moves)), new.reshape(-1, 64)


def recall(name: str, label: str) -> Record:
    """Return the recall of new groups' rows with and without groups, the mean of draws."""
    found = []
    for seed in range(N_DRAWS):
        data = shifted_digits(seed) if label == "digits, shifted" else drawn(CLOUDS[int(label[-1]) - 1], seed)
        X, groups, new = data
        alone, whole = clone(MODELS[name]).fit(X), clone(MODELS[name]).fit(X, groups=groups)
        found.append([(alone.predict(new) == 1).mean(), (whole.predict(new) == 1).mean()])
    rows, by_groups = np.mean(found, axis=0)
    spread = np.std(found, axis=0, ddof=1)[1] / np.sqrt(N_DRAWS)
    record = {"section": "recall", "label": f"{label}, {name}", "data": label, "model": name}
    asked = 0.89 if name == "slab" else 0.9
    return record | {"asked": asked, "rows": rows, "by_groups": by_groups, "error": spread}


def cost(name: str, n_rows: int, n_groups: int) -> Record:
    """Return the seconds of a default fit with groups and without."""
    rng = np.random.default_rng(0)
    groups = np.arange(n_rows) % n_groups
    X = rng.normal(size=(n_groups, 5))[groups] + 0.5 * rng.normal(size=(n_rows, 5))
    clone(MODELS[name]).fit(X[:N_BEFORE], groups=groups[:N_BEFORE])
    seconds = []
    for given in (None, groups):
        begun = time.perf_counter()
        clone(MODELS[name]).fit(X, groups=given)
        seconds.append(time.perf_counter() - begun)
    record = {"section": "cost", "label": f"{name}, {n_rows:,} rows, {n_groups} groups", "model": name}
    return record | {"rows": n_rows, "groups": n_groups, "alone": seconds[0], "by_groups": seconds[1]}


def cases(_: Options) -> Iterator[Case]:
    for kernel in NAMED:
        yield kernel, partial(distribution, kernel)
    for label in (*(f"cloud {number + 1}" for number in range(len(CLOUDS))), "digits, shifted"):
        for name in MODELS:
            yield f"{label}, {name}", partial(recall, name, label)
    for name in ("one-class SVM", "slab"):
        for n_rows, n_groups in COSTS:
            yield f"{name}, {n_rows:,} rows, {n_groups} groups", partial(cost, name, n_rows, n_groups)


REPORT = tables(
    Table(
        "kernel | problems | groups | exact | median | 90 % | 99 % | correlation | single rows left out: median | 90 %",
        (
            "{label} | {problems} | {groups} | {share_exact:.0%} | {median:.2g} | {p90:.2g} | {p99:.2g} "
            "| {correlation:.3f} | {rows_median:.2g} | {rows_p90:.2g}"
        ).format_map,
        section="refits",
    ),
    Table(
        "data | model | asked | without groups | with groups | +-",
        "{data} | {model} | {asked:.2f} | {rows:.3f} | {by_groups:.3f} | {error:.3f}".format_map,
        align="llrrrr",
        section="recall",
    ),
    Table(
        "model | rows | groups | s | s with groups",
        "{model} | {rows:,} | {groups} | {alone:.2g} | {by_groups:.2g}".format_map,
        align="lrrrr",
        section="cost",
    ),
)


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, REPORT, keys=("label",)).main()
