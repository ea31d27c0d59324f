"""How near left-out scores are to refits without each row.

    python benchmarks/leave_one_out.py [--only KERNEL] [--output FILE.json]

For 20 problems with each of five kernels (scikit-learn's bundled data, and a cloud; m <= 200; epsilon 0, .2, 2/3 and
1.5) a row of every support vector is left out in turn and the model refitted to a relative gap of 1e-11, with the boxes
of the others unchanged, and with what its copies leave of its own; and for a ring, a line, thirty tiny clusters and a
grid on which rows repeat, of 100 and 300 rows, one-class SVMs at gamma 1, nu .1. What is compared is the score of the
row left out; errors are in units of the standard deviation of all refits' scores of the same model. Samples that
support nothing are exact and are not counted, nor are models whose w is zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm.dual.program import Dual, one_class, one_class_slab
from slabsvm.dual.solution import Solution, Status
from slabsvm.gram.base import Dense
from slabsvm.kernels import NAMED
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import loop
from slabsvm.solvers.small import Leaving, LeftOutScores, solve_small

TIGHT = 1e-11
LARGEST = 200
LAYOUTS = ("ring", "line", "tiny clusters", "repeats")
# A problem: the dual, its K, and how many rows each sample is.
Problem = tuple[Dual, np.ndarray, np.ndarray]
GAMMAS = (0.3, 1.0, 3.0, 10.0)
SETTINGS = ((0.1, 0.01, 2 / 3), (0.1, 0.05, 0.2), (0.2, 0.1, 0.0), (0.1, 0.1, 1.5))


def data_sets() -> list[np.ndarray]:
    """Return positives of five kinds, features in [0, 1], at most LARGEST samples each."""
    digits, labels = load_digits(return_X_y=True)
    wine, cultivars = load_wine(return_X_y=True)
    cells, benign = load_breast_cancer(return_X_y=True)
    cloud = np.random.default_rng(0).gamma(9.0, 1.0, (LARGEST, 3))
    found = [digits[labels == 3], load_iris().data, wine[cultivars == 1], cells[benign == 1][:, :10], cloud]
    return [(X[:LARGEST] - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-12) for X in found]


def problems(kernel: str) -> list[Problem]:
    """Return 20 duals with their K: five data sets under four settings, and four gammas."""
    found = []
    for place, X in enumerate(data_sets()):
        distinct = np.unique(X, axis=0)
        for setting, (nu_lower, nu_upper, epsilon) in enumerate(SETTINGS):
            gamma = GAMMAS[(place + setting) % 4]
            made = RBF(gamma) if kernel == "rbf" else NAMED[kernel]()
            dual = one_class_slab(np.ones(len(distinct)), nu_lower, nu_upper, epsilon)
            found.append((dual, made(distinct, distinct), np.ones(len(distinct))))
    return found


def changing(layout: str) -> list[Problem]:
    """Return four programs of rows among which the face changes as a sample leaves."""
    found = []
    for seed in range(2):
        for m in (100, 300):
            rng = np.random.default_rng(seed)
            if layout == "ring":
                angles = rng.uniform(0.0, 2.0 * np.pi, m)
                X = np.column_stack([np.cos(angles), np.sin(angles)]) + 0.05 * rng.normal(size=(m, 2))
            elif layout == "line":
                X = rng.normal(size=(m, 1))
            elif layout == "repeats":
                X = np.round(2.0 * rng.normal(size=(m, 2))) / 2.0
            else:
                X = rng.uniform(size=(30, 2))[rng.integers(0, 30, m)] + 0.003 * rng.normal(size=(m, 2))
            X, counts = np.unique(X, axis=0, return_counts=True)
            found.append((one_class(counts.astype(float), 0.1), RBF(1.0)(X, X), counts))
    return found


def refitted_scores(dual: Dual, K: np.ndarray, some: np.ndarray, stays: float = 0.0) -> np.ndarray:
    """Return the scores of some samples under the model in which this share of their boxes stays."""
    caps = dual.caps.copy()
    caps[:, some] *= stays
    here = np.flatnonzero(caps[0])
    rest = Dual(dual.signs, caps[:, here], dual.totals, dual.linear[here])
    refit = loop.solve(rest, Dense(K[np.ix_(here, here)]), tol=TIGHT)
    return np.asarray(K[np.ix_(some, here)] @ rest.beta(refit.multipliers))


def left_out(dual: Dual, K: np.ndarray, leaving: Leaving) -> tuple[Solution, LeftOutScores]:
    """Return the optimum, and scores without what leaves."""
    solution, found = solve_small(dual, Dense(K), tol=TIGHT, leaving=leaving)
    assert found is not None
    return solution, found


def errors(dual: Dual, K: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    """Return the support vectors' errors by left-out and by training scores, over the spread of refits' scores."""
    stays = 1.0 - 1.0 / counts
    solution, found = left_out(dual, K, Leaving(stays))
    if solution.status is Status.DEGENERATE:
        return {}
    support = np.flatnonzero((solution.multipliers > 0).any(axis=0))
    exact = solution.scores.copy()
    exact[support] = [refitted_scores(dual, K, np.array([i]), stays[i])[0] for i in support]
    return {
        "left_out": np.abs(found.scores - exact)[support] / exact.std(),
        "trained": np.abs(solution.scores - exact)[support] / exact.std(),
    }


def distribution(kind: str) -> Record:
    """Return the distribution of the errors over all support vectors of a kernel's problems, or of a layout's."""
    found = [e for e in (errors(*problem) for problem in (problems if kind in NAMED else changing)(kind)) if e]
    without, trained = (np.concatenate([e[key] for e in found]) for key in found[0])
    return {
        "kernel": kind,
        "problems": len(found),
        "support_vectors": len(without),
        "median": float(np.median(without)),
        "p99": float(np.quantile(without, 0.99)),
        "max": float(without.max()),
        "training_median": float(np.median(trained)),
        "training_p90": float(np.quantile(trained, 0.9)),
    }


def cases(_: Options) -> Iterator[Case]:
    for kind in (*NAMED, *LAYOUTS):
        yield kind, partial(distribution, kind)


TABLE = Table(
    "problems of | problems | support vectors | left out: median | 99 % | largest | training score: median | 90 %",
    (
        "{kernel} | {problems} | {support_vectors} | {median:.1g} | {p99:.1g} | {max:.1g} | {training_median:.2g} "
        "| {training_p90:.2g}"
    ).format_map,
    "l" * 8,
)


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(TABLE)).main()
