"""How near leave-one-out scores, by paths and by the closed form alone, are to refits without each sample.

    python benchmarks/leave_one_out.py [--only KERNEL] [--output FILE.json]

For 20 problems with each of five kernels (scikit-learn's bundled data, and a cloud; m <= 200; epsilon 0, .2, 2/3 and
1.5) every support vector is left out in turn and the model refitted to a relative gap of 1e-11, with the boxes of the
others unchanged; and for a ring, a line and thirty tiny clusters of 100 and 300 rows, one-class SVMs at gamma 1, nu .1.
What is compared is the score of the sample left out; errors are in units of the standard deviation of all refits'
scores of the same model. Samples that support nothing are exact and are not counted, nor are models whose w is zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm.dual.leave_one_out import closed_form, leave_one_out
from slabsvm.dual.program import Dual, one_class, one_class_slab
from slabsvm.dual.solution import Status
from slabsvm.gram.base import Dense
from slabsvm.kernels import NAMED
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import loop

TIGHT = 1e-11
EXACT = 1e-6
LARGEST = 200
LAYOUTS = ("ring", "line", "tiny clusters")
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


def problems(kernel: str) -> list[tuple[Dual, np.ndarray]]:
    """Return 20 duals with their K: five data sets under four settings, and four gammas."""
    found = []
    for place, X in enumerate(data_sets()):
        distinct = np.unique(X, axis=0)
        for setting, (nu_lower, nu_upper, epsilon) in enumerate(SETTINGS):
            gamma = GAMMAS[(place + setting) % 4]
            made = RBF(gamma) if kernel == "rbf" else NAMED[kernel]()
            dual = one_class_slab(np.ones(len(distinct)), nu_lower, nu_upper, epsilon)
            found.append((dual, made(distinct, distinct)))
    return found


def changing(layout: str) -> list[tuple[Dual, np.ndarray]]:
    """Return four programs of rows among which the face changes as a sample leaves, with their K."""
    found = []
    for seed in range(2):
        for m in (100, 300):
            rng = np.random.default_rng(seed)
            if layout == "ring":
                angles = rng.uniform(0.0, 2.0 * np.pi, m)
                X = np.column_stack([np.cos(angles), np.sin(angles)]) + 0.05 * rng.normal(size=(m, 2))
            elif layout == "line":
                X = rng.normal(size=(m, 1))
            else:
                X = rng.uniform(size=(30, 2))[rng.integers(0, 30, m)] + 0.003 * rng.normal(size=(m, 2))
            found.append((one_class(np.ones(m), 0.1), RBF(1.0)(X, X)))
    return found


def refitted_scores(dual: Dual, K: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return the scores of some samples under the model without them."""
    others = np.delete(np.arange(len(K)), some)
    rest = Dual(dual.signs, dual.caps[:, others], dual.totals, dual.linear[others])
    refit = loop.solve(rest, Dense(K[np.ix_(others, others)]), tol=TIGHT)
    return np.asarray(K[np.ix_(some, others)] @ rest.beta(refit.multipliers))


def errors(dual: Dual, K: np.ndarray) -> dict[str, np.ndarray]:
    """Return the support vectors' errors by each score, and two leave-one-out scores, over their spread."""
    gram = Dense(K)
    solution = loop.solve(dual, gram, tol=TIGHT)
    if solution.status is Status.DEGENERATE:
        return {}
    left_out, closed = (of(dual, gram, solution).scores for of in (leave_one_out, closed_form))
    support = np.flatnonzero((solution.multipliers > 0).any(axis=0))
    exact = solution.scores.copy()
    exact[support] = [refitted_scores(dual, K, np.array([i]))[0] for i in support]
    spread, middle = exact.std(), exact.mean()
    return {
        "paths": np.abs(left_out - exact)[support] / spread,
        "closed": np.abs(closed - exact)[support] / spread,
        "trained": np.abs(solution.scores - exact)[support] / spread,
        "closed_score": (closed[support] - middle) / spread,
        "exact_score": (exact[support] - middle) / spread,
    }


def distribution(kind: str) -> Record:
    """Return the distribution of the errors over all support vectors of a kernel's problems, or of a layout's."""
    found = [e for e in (errors(dual, K) for dual, K in (problems if kind in NAMED else changing)(kind)) if e]
    paths, closed, trained, one, other = (np.concatenate([e[key] for e in found]) for key in found[0])
    return {
        "kernel": kind,
        "problems": len(found),
        "support_vectors": len(closed),
        "paths_median": float(np.median(paths)),
        "paths_p99": float(np.quantile(paths, 0.99)),
        "paths_max": float(paths.max()),
        "share_exact": float((closed < EXACT).mean()),
        "median": float(np.median(closed)),
        "p90": float(np.quantile(closed, 0.9)),
        "p99": float(np.quantile(closed, 0.99)),
        "max": float(closed.max()),
        "correlation": float(np.corrcoef(one, other)[0, 1]),
        "training_median": float(np.median(trained)),
        "training_p90": float(np.quantile(trained, 0.9)),
        "training_max": float(trained.max()),
    }


def cases(_: Options) -> Iterator[Case]:
    for kind in (*NAMED, *LAYOUTS):
        yield kind, partial(distribution, kind)


TABLE = Table(
    "problems of | problems | support vectors | paths: median | 99 % | largest | closed form: exact | median | 90 % "
    "| 99 % | largest | correlation | training score: median | 90 %",
    (
        "{kernel} | {problems} | {support_vectors} | {paths_median:.1g} | {paths_p99:.1g} | {paths_max:.1g} "
        "| {share_exact:.0%} | {median:.2g} | {p90:.2g} | {p99:.2g} "
        "| {max:.2g} | {correlation:.4f} | {training_median:.2g} | {training_p90:.2g}"
    ).format_map,
    "l" * 14,
)


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(TABLE)).main()
