"""How much faster the slab's solver is than general ones on the same quadratic program.

    python benchmarks/conic.py [--repeats 3] [--sizes 1000 2000]

Clarabel (interior point, conic) and PIQP (proximal interior point, dense) solve the Dual over its 2 m variables, given
K; the paper's own interior point, which the reproduction has, solves it too. All are asked for the same relative gap,
and the gap of each answer is computed from its multipliers alone, after they were made feasible. Ours is the whole
solver, the computation of K included, which the others are given. One BLAS thread for all; runs are interleaved and
medians quoted.
Needs clarabel and piqp: pip install ".[benchmarks]".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Options, Record, Table, interleaved, tables
from samples import clouds
from slabsvm.dual.program import Dual, one_class_slab
from slabsvm.dual.solution import Point
from slabsvm.gram.computed import Computed
from slabsvm.kernels import NAMED
from slabsvm.kernels.rbf import RBF
from slabsvm.solvers import loop
from slabsvm_reproduction.interior_point import Problem, interior_point

TOL = 1e-3
NU_LOWER, NU_UPPER, EPSILON = 0.1, 0.05, 2 / 3


def histograms(m: int) -> np.ndarray:
    """Non-negative features with sum one, 16 of them, from five clouds."""
    positive = np.exp(0.3 * clouds(m, 16))
    return positive / positive.sum(axis=1, keepdims=True)


def expanded(dual: Dual, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 2 m variables' matrix, and the sums' rows; in units of each plane's cap, as a careful user would pose it."""
    units = np.repeat(dual.signs * dual.caps.mean(axis=1), dual.n_samples)
    P = np.tile(K, (2, 2)) * units[:, None] * units
    return P / np.abs(P).max(), np.repeat(np.eye(2), dual.n_samples, axis=1)


def by_clarabel(upper: sp.csc_array, sums: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Solve with the upper triangle of P, which Clarabel takes as a sparse matrix."""
    import clarabel

    n = upper.shape[0]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_rel = TOL
    settings.tol_gap_abs = 0.0
    rows = sp.vstack([sp.csc_array(sums), -sp.eye_array(n), sp.eye_array(n)], format="csc")
    right = np.concatenate([totals, np.zeros(n), np.ones(n)])
    cones = [clarabel.ZeroConeT(2), clarabel.NonnegativeConeT(2 * n)]
    answer = clarabel.DefaultSolver(upper, np.zeros(n), rows, right, cones, settings).solve()
    # Almost: its own tests of feasibility were met with its looser tolerances; the true gap is told below.
    if answer.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        raise RuntimeError(f"Clarabel ended with {answer.status}")
    return np.array(answer.x)


def by_piqp(P: np.ndarray, sums: np.ndarray, totals: np.ndarray) -> np.ndarray:
    import piqp

    n = len(P)
    solver = piqp.DenseSolver()
    solver.settings.verbose = False
    solver.settings.check_duality_gap = True
    solver.settings.eps_duality_gap_abs = 1e-12
    solver.settings.eps_duality_gap_rel = TOL
    solver.setup(P=P, c=np.zeros(n), A=sums, b=totals, x_l=np.zeros(n), x_u=np.ones(n))
    status = solver.solve()
    if status != piqp.PIQP_SOLVED:
        raise RuntimeError(f"PIQP ended with {status}")
    return np.array(solver.result.x)


def true_gap(dual: Dual, K: np.ndarray, multipliers: np.ndarray) -> float:
    feasible = dual.project_sums(multipliers)
    scores = K @ dual.beta(feasible)
    return Point(dual, feasible, scores).gap / abs(dual.objective(feasible, scores))


@threadpool_limits.wrap(limits=1)
def measure(name: str, m: int, repeats: int) -> Record:
    X = histograms(m)
    kernel = RBF(1.0 / (X.shape[1] * X.var())) if name == "rbf" else NAMED[name]()
    dual, problem = (
        one_class_slab(np.ones(m), NU_LOWER, NU_UPPER, EPSILON),
        Problem.slab(m, NU_LOWER, NU_UPPER, EPSILON),
    )
    K = np.asarray(kernel(X, X), dtype=np.float64)
    P, sums = expanded(dual, K)
    caps = dual.caps.mean(axis=1)
    totals = dual.totals / caps
    upper = sp.csc_array(np.triu(P))

    def scaled(flat: np.ndarray) -> np.ndarray:
        return flat.reshape(2, m) * caps[:, None]

    solvers = {
        "ours": lambda: loop.solve(dual, Computed(kernel, X), tol=TOL).multipliers,
        "interior": lambda: interior_point(K, problem, tol=TOL).multipliers,
        "clarabel": lambda: scaled(by_clarabel(upper, sums, totals)),
        "piqp": lambda: scaled(by_piqp(P, sums, totals)),
    }
    solvers["ours"]()  # compiles
    seconds, answers = interleaved(solvers, repeats, warm_up=False)
    record: Record = {"kernel": name, "m": m, "d": X.shape[1], "repeats": repeats}
    for solver, answer in answers.items():
        record[f"{solver}_seconds"] = float(np.median(seconds[solver]))
        record[f"{solver}_gap"] = true_gap(dual, K, answer)
    return record | {"tol": TOL}


def row(record: Record) -> str:
    ours = record["ours_seconds"]
    cells = [f"{record['kernel']}", f"{record['m']:,}", f"{1e3 * ours:,.1f} ms", f"{record['ours_gap']:.0e}"]
    for solver in ("interior", "clarabel", "piqp"):
        cells += [f"{record[f'{solver}_seconds'] / ours:,.0f}", f"{record[f'{solver}_gap']:.0e}"]
    return " | ".join(cells)


def cases(options: Options) -> Iterator[Case]:
    for m in options.sizes:
        for kernel in ("rbf", "linear", "intersection", "hellinger", "chi2"):
            yield f"{kernel} {m}", partial(measure, kernel, m, options.repeats)


SIZES = [1000, 2000]
HEAD = "kernel | m | ours | gap | paper's / ours | gap | Clarabel / ours | gap | PIQP / ours | gap"

if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        tables(Table(HEAD, row)),
        keys=("kernel", "m"),
        whole=lambda options: options.sizes == SIZES,
        arguments={
            "--repeats": {"type": int, "default": 3, "help": "[%(default)s]"},
            "--sizes": {"type": int, "nargs": "+", "default": SIZES, "help": "[%(default)s]"},
        },
        packages=("clarabel", "piqp"),
    ).main()
