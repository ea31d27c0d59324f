"""Programs that samples are left out of, and refits without them by another solver: the interior point."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import problems
from slabsvm.svm.gram import Dense
from slabsvm.svm.program import DualProblem, Solution, Status, one_class_slab
from slabsvm.svm.small import Leaving, LeftOutScores, solve_small
from slabsvm_reproduction.interior_point import interior_point

# Half a unit in the last place of a rounded number.
UNIT = 2.0**-53
# The core's optimum is that of a program with a term of so much more, as a share of what the planes hold; where states
# go in circles, of a hundred times as much.
ADDED, STIFFER = 1e-9, 100.0
# Of the scores' deviation: what a left-out score is off by where K is not nearly singular.
EXACT = 1e-6


def ring(rng, n):
    angles = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.column_stack([np.cos(angles), np.sin(angles)]) + 0.05 * rng.normal(size=(n, 2))


def tiny_clusters(rng, n):
    centres = rng.uniform(size=(8, 2))
    return centres[rng.integers(0, 8, n)] + 0.01 * rng.normal(size=(n, 2))


def distinct(values, n):
    return np.unique(values, axis=0)[:n].astype(float)


LAYOUTS = {"cloud": lambda rng, n: rng.normal(size=(n, 3)), "ring": ring}
LAYOUTS |= {"one feature": lambda rng, n: rng.normal(size=(n, 1)), "tiny clusters": tiny_clusters}
LAYOUTS |= {"positive": lambda rng, n: rng.gamma(16.0, 1 / 4, (n, 4))}
KINDS = {**LAYOUTS, "counts": lambda rng, n: distinct(rng.poisson(3.0, (4 * n, 2)), n)}
KINDS |= {"booleans": lambda rng, n: distinct(rng.integers(0, 2, (4 * n, 8)), n)}
KINDS |= {kernel: LAYOUTS["positive"] for kernel in problems.FORMULAS if kernel != "rbf"}
KINDS |= {"three clusters": lambda rng, n: 0.2 * rng.normal(size=(n, 3)) + 3.0 * rng.integers(0, 3, (n, 1))}


def kernel_matrix(layout, n, gamma=1.0, *, seed=0):
    """Return the RBF kernel's K of rows of a layout."""
    X = LAYOUTS[layout](np.random.default_rng(seed), n)
    return problems.rbf(gamma)(X, X)


@dataclass(frozen=True)
class Program:
    """A program, its K, and what leaves: one of the copies of each sample, (m,), or groups of samples."""

    name: str
    dual: DualProblem
    K: np.ndarray
    copies: np.ndarray
    groups: list[np.ndarray] | None

    @property
    def leaving(self) -> Leaving:
        return whole(self.groups) if self.groups else Leaving(1.0 - 1.0 / self.copies)

    @property
    def sets(self) -> list[np.ndarray]:
        return self.groups or [np.array([i]) for i in range(len(self.K))]

    @property
    def stays(self) -> np.ndarray:
        return np.zeros(len(self.K)) if self.groups else 1.0 - 1.0 / self.copies


def drawn(seed: int) -> Program:
    """Return a program of a kind, for rows alone, with copies or in groups."""
    rng = np.random.default_rng(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    X = KINDS[kind](rng, int(rng.integers(8, 90)))
    m, gamma = len(X), float(rng.choice([0.1, 1.0, 10.0, 100.0]))
    K = problems.FORMULAS.get(kind, (problems.rbf(gamma),))[0](X, X)
    copies = rng.integers(1, 4, m).astype(float) if rng.random() < 0.5 else np.ones(m)
    epsilon = float(rng.choice([0.0, 0.2, 2 / 3, 0.95, 1.5]))
    nus = float(rng.choice([0.05, 0.1, 0.3, 0.6])), float(rng.choice([0.02, 0.1, 0.3]))
    number = rng.integers(0, rng.integers(3, 9), m) if rng.random() < 0.3 else None
    groups = None if number is None else [np.flatnonzero(number == g) for g in np.unique(number)]
    what = f"{len(groups)} groups" if groups else "copies" if copies.max() > 1 else "rows"
    name = f"{seed} {kind}, m {m}, gamma {gamma:g}, epsilon {epsilon:.2g}, nu {nus}, {what}"
    return Program(name, one_class_slab(copies, *nus, epsilon), K, copies, groups)


# Programs of all kinds.
programs = st.integers(0, 2**32 - 1).map(drawn)


def whole(groups: Sequence[np.ndarray]) -> Leaving:
    """Return groups of which each leaves whole."""
    return Leaving(groups=[(np.asarray(group), np.asarray(group)) for group in groups])


def left_out(
    dual: DualProblem, K: np.ndarray, leaving: Leaving | None = None, **how: Any
) -> tuple[Solution, LeftOutScores]:
    """Return the optimum of a program, and scores without what leaves; without each sample if None is given."""
    leaving = Leaving(np.zeros(len(K))) if leaving is None else leaving
    solution, without = solve_small(dual, Dense(K), leaving=leaving, **how)
    assert without is not None
    return solution, without


def smaller(dual: DualProblem, leaving: Any, stays: Any = 0.0) -> DualProblem:
    """Return the program in which a share stays of some boxes, and all grow until they hold what their planes have."""
    upper_bounds = dual.upper_bounds.copy()
    upper_bounds[:, leaving] *= stays
    return replace(dual, upper_bounds=upper_bounds * np.maximum(1.0, dual.totals / upper_bounds.sum(axis=1))[:, None])


def refit(dual: DualProblem, K: np.ndarray, leaving: Any, stays: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of all samples where a share stays of some boxes, and how far each may be off, (m,) arrays."""
    rest = smaller(dual, leaving, stays)
    kept = np.flatnonzero(rest.upper_bounds.any(axis=0))
    part = rest.part(kept)
    found = interior_point(K[np.ix_(kept, kept)], part)
    return dual.linear + K[:, kept] @ part.beta(found.multipliers), off_by(K, dual, found.gap)


def off_by(K: np.ndarray, dual: DualProblem, gap: float) -> np.ndarray:
    """Return how far scores are off, at most, of a feasible point with this gap, (m,).

    * Scores are those of their multipliers, c + K beta, which is a sum of m + 1 rounded products of at most `largest`
      in all: it is off by no more than e = 2 (m + 2) UNIT largest.
    * The gap is a sum of v t+ + (u - v) t- over samples and planes. Where each distance t is off by e, that of the
      multipliers is off by at most e sum(v), and what those of the optimum would be by as much.
    * Half of |w - w*|^2 is at most the true gap. So a score is off by at most sqrt(k(x, x)) sqrt(2 gap), and by e.
    """
    largest = dual.total * float(np.abs(K).max()) + float(np.abs(dual.linear).max())
    rounding = 2.0 * (len(K) + 2) * UNIT * largest
    hidden = 2.0 * rounding * dual.total
    return np.sqrt(2.0 * (max(gap, 0.0) + hidden) * np.diagonal(K)) + rounding


def gap_of(dual: DualProblem, solution: Solution, found: LeftOutScores) -> float:
    """Return the gap that the core's optimum without what leaves may have, by the term that it adds."""
    added = ADDED * (STIFFER if found.counts["again"] else 1.0)
    return added * float(np.abs(solution.offsets) @ dual.totals)


def assert_left_out(program: Program, some: int | None = None, *, exact: bool = False) -> LeftOutScores:
    """Assert that scores without what leaves are those of refits, as far as the gaps of both say; of some sets alone.

    Exact ones are off by no more than a millionth of the scores' deviation, and what the refit may be off by.
    """
    dual, K = program.dual, program.K
    solution, found = left_out(dual, K, program.leaving)
    if solution.status is Status.DEGENERATE:
        # There is no w to change.
        samples = np.concatenate(program.sets)
        np.testing.assert_array_equal(found.scores, solution.scores[samples])
        return found
    deviation = float(solution.scores.std()) + 1e-6 * float(np.abs(solution.scores).max())
    own = np.full(len(K), EXACT * deviation) if exact else off_by(K, dual, gap_of(dual, solution, found))
    by_set = np.split(found.scores, np.cumsum([len(leaving) for leaving in program.sets])[:-1])
    for number in np.random.default_rng(0).permutation(len(by_set))[:some]:
        leaving = program.sets[number]
        scores, off = refit(dual, K, leaving, program.stays[leaving])
        errors, allowed = np.abs(by_set[number] - scores[leaving]), (own + off)[leaving]
        assert (errors <= allowed).all(), f"{program.name}: {leaving} are off by {errors / allowed} of what is allowed"
    return found
