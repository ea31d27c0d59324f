"""The solver finds the optimum, and says truthfully how near to it it is."""

import warnings

import numpy as np
import pytest

import certificate
import problems
from problems import Problem, by_name
from slabsvm import FitWarning, OneClassSlabSVM
from slabsvm.svm import loop
from slabsvm.svm.gram import Computed
from slabsvm.svm.program import GapScale, Solution, Status, one_class, one_class_slab
from slabsvm_reproduction.interior_point import Optimum, interior_point

pytestmark = pytest.mark.numeric

TOL = 1e-9
# Two independent solvers can agree no better than rounding lets either know its own objective. A score is a sum of
# numbers of the size of K times the totals, each right to 1.1e-16 of itself; so an objective is known to a few 1e-15 of
# the largest that the boxes allow. That matters where the optimum is below 1e-7 of the largest, and nowhere else.
ROUNDING = 4e-15
AGREEMENT = 1e-8
# The interior point stops where rounding lets it go no further: elsewhere under each processor's kernels.
WELL_ENOUGH = 1e-7


def rounding(problem: Problem) -> float:
    """Return how exactly a gap can be known: K in float64 by any formula, times the totals.

    K's largest entry counts (outliers make single scores far larger than the mean diagonal says), and so does how much
    K by the naive formula differs from K by blocks (the RBF's exponent is a difference of large numbers).
    """
    kernel_rounding = np.abs(problem.gram.block(np.arange(len(problem.K)), None) - problem.K).max()
    size = 16 * float(np.finfo(float).eps) * float(np.abs(problem.K).max()) + float(kernel_rounding)
    return size * float(problem.dual.totals.sum()) ** 2


def assert_feasible(problem: Problem, solution: Solution) -> None:
    dual = problem.dual
    assert (solution.multipliers >= 0).all()
    assert (solution.multipliers <= dual.upper_bounds).all()
    np.testing.assert_allclose(solution.multipliers.sum(axis=1), dual.totals, rtol=1e-12)


def assert_certificate_is_true(problem: Problem, solution: Solution) -> None:
    """The reported objective and gap are those of the multipliers, whatever the solver did to find them."""
    dual, K = problem.dual, problem.K
    true_gap = certificate.gap(dual, K, solution.multipliers)
    assert solution.gap == pytest.approx(true_gap, rel=1e-6, abs=rounding(problem))
    true_objective = certificate.objective(dual, K, solution.multipliers)
    assert solution.objective == pytest.approx(true_objective, rel=1e-10, abs=rounding(problem))
    reached = solution.gap <= GapScale.of(dual, float(np.diagonal(K).mean())).target(solution.objective, TOL)
    assert solution.converged == reached


def assert_every_sample_is_where_its_multiplier_says(problem: Problem, solution: Solution) -> None:
    """The table of optimality, sample by sample; how exactly it must hold follows from the gap.

    The gap is a sum of terms v t+ and (u - v)(-t)+, with t how far the sample is above its plane: none exceeds it.
    """
    dual = problem.dual
    s = certificate.scores(dual, problem.K, solution.multipliers).astype(float)
    allowed = solution.gap * (1 + 1e-6) + 2 * rounding(problem)
    for sign, rho, v, upper_bounds in zip(
        dual.signs, solution.offsets, solution.multipliers, dual.upper_bounds, strict=True
    ):
        above = sign * (s - rho)
        holds, has_room = v > 0, v < upper_bounds
        assert (above[holds] <= allowed / v[holds]).all()
        assert (-above[has_room] <= allowed / (upper_bounds - v)[has_room]).all()
    if dual.n_planes == 2:
        both = np.minimum(*solution.multipliers)
        rho_lower, rho_upper = solution.offsets
        assert (rho_upper - rho_lower <= 2 * allowed / both[both > 0]).all()


def assert_offsets_are_those_of(problem: Problem, solution: Solution, reference: Optimum) -> None:
    """Every optimal offset lies between the samples that hold its plane and those that have room.

    |s_i - s*_i| <= sqrt(K_ii) |w - w*| and |w - w*|^2 <= 2 gap bound how far two nearly optimal offsets are apart; a
    sample of multiplier v may be gap / v on the wrong side.
    """
    gaps = solution.gap + reference.gap + rounding(problem)
    allowed = np.sqrt(2 * gaps * np.diagonal(problem.K).max()) + 1e-7 * np.abs(solution.scores).max() + 1e-300
    s = certificate.scores(problem.dual, problem.K, reference.multipliers).astype(float)
    for p, (sign, upper_bounds) in enumerate(zip(problem.dual.signs, problem.dual.upper_bounds, strict=True)):
        offset, held, room = (
            sign * solution.offsets[p],
            reference.multipliers[p],
            upper_bounds - reference.multipliers[p],
        )
        assert offset >= (sign * s - 2 * gaps / np.maximum(held, 1e-300))[held > 0].max() - allowed
        if (room > 0).any():
            assert offset <= (sign * s + 2 * gaps / np.maximum(room, 1e-300))[room > 0].min() + allowed
        # Where a sample is strictly inside its box the offset is unique.
        if (free := strictly_inside(upper_bounds, reference.multipliers[p])).any():
            smallest = np.minimum(held, room)[free].max()
            assert abs(solution.offsets[p] - reference.offsets[p]) <= allowed + 2 * gaps / smallest


def strictly_inside(upper_bounds: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    return (multipliers > 1e-3 * upper_bounds) & (multipliers < (1 - 1e-3) * upper_bounds)


EVERYTHING = problems.everything()


# A module's fixtures with parameters group its tests, so that each problem is solved once by each of two solvers. What
# one of them cannot do fails in the tests that ask for it, and hides none of the others.


@pytest.fixture(scope="module", params=EVERYTHING, ids=by_name)
def problem(request) -> Problem:
    return request.param


@pytest.fixture(scope="module")
def solution(problem: Problem) -> Solution:
    return loop.solve(problem.dual, problem.gram, tol=TOL)


@pytest.fixture(scope="module")
def reference(problem: Problem) -> Optimum:
    return interior_point(problem.K, problem.dual)


def allowed_of(problem: Problem, objective: float) -> float:
    """Return by how much two objectives may differ that are both the optimum's."""
    return AGREEMENT * abs(objective) + ROUNDING * problem.largest


def test_a_solution_is_what_it_says_and_optimal_by_a_gap_recomputed_from_scratch(problem: Problem, solution: Solution):
    assert_feasible(problem, solution)
    assert_certificate_is_true(problem, solution)
    assert_every_sample_is_where_its_multiplier_says(problem, solution)
    true_gap = certificate.gap(problem.dual, problem.K, solution.multipliers)
    assert true_gap <= allowed_of(problem, solution.objective) + rounding(problem), solution.status


def test_a_solution_is_the_one_that_the_interior_point_finds(problem: Problem, solution: Solution, reference: Optimum):
    difference = abs(solution.objective - reference.objective)
    # The reference is above the optimum by no more than its gap.
    assert difference <= allowed_of(problem, reference.objective) + reference.gap, solution.status
    assert_offsets_are_those_of(problem, solution, reference)


def test_the_interior_point_knows_the_optimum_well_enough_to_judge_by(problem: Problem, reference: Optimum):
    dual, multipliers = problem.dual, reference.multipliers
    assert (multipliers >= 0).all()
    assert (multipliers <= dual.upper_bounds).all()
    np.testing.assert_allclose(multipliers.sum(axis=1), dual.totals, rtol=1e-12)
    true_gap = certificate.gap(dual, problem.K, multipliers)
    assert reference.gap == pytest.approx(true_gap, rel=1e-6, abs=rounding(problem))
    assert true_gap <= WELL_ENOUGH * abs(reference.objective) + ROUNDING * problem.largest + rounding(problem)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "m"), [("linear", 2500), ("rbf", 2500), ("intersection", 2100)])
def test_large_problems_are_solved_to_a_tight_gap_too(kernel, m):
    X = np.abs(np.random.default_rng(m).normal(5.0, 1.0, (m, 4)))
    _, kernel_object = problems.FORMULAS[kernel]
    dual = one_class_slab(np.ones(m), 0.1, 0.05, 2 / 3)
    gram = Computed(kernel_object, X)
    solution = loop.solve(dual, gram, tol=1e-8)
    assert solution.status is Status.CONVERGED
    K = kernel_object(X, X)
    assert solution.gap == pytest.approx(certificate.gap(dual, K, solution.multipliers), rel=1e-3, abs=1e-13 * K.max())
    # A cache of a few rows changes the way, not the place.
    bounded = loop.solve(dual, gram, tol=1e-6, cache_bytes=1e6)
    assert bounded.status is Status.CONVERGED
    assert bounded.objective == pytest.approx(solution.objective, rel=2e-6)


@pytest.mark.parametrize("seed", range(40))
def test_a_gap_is_no_smaller_than_that_of_the_multipliers_in_extended_precision(seed):
    """The rounding of the gap itself is in it: the multipliers' objective is within it of the optimum, at most."""
    rng = np.random.default_rng(seed)
    n, epsilon, size = int(rng.integers(20, 300)), float(rng.choice([0.0, 0.5, 2 / 3, 0.9])), 10 ** rng.uniform(-3, 3)
    X = rng.normal(size=(n, 3))
    K = size * np.exp(-(10 ** rng.uniform(-2, 1)) * ((X[:, None] - X) ** 2).sum(axis=-1))
    K = (K + K.T) / 2
    calibration = ("auto", "training")[seed % 2]
    with warnings.catch_warnings(action="ignore", category=FitWarning):
        slab = OneClassSlabSVM(kernel="precomputed", nu_lower=0.2, nu_upper=0.05, epsilon=epsilon)
        slab.set_params(calibration=calibration).fit(K)
    beta = np.zeros(n, dtype=np.longdouble)
    beta[slab.support_] = slab.dual_coef_[0]
    s, shares = K.astype(np.longdouble) @ beta, np.full(n, 1 / n)
    highest = -certificate.lowest_mean(-s, shares, 0.05) if epsilon else 0.0
    gap = beta @ s - certificate.lowest_mean(s, shares, 0.2) + epsilon * highest
    assert gap <= slab.duality_gap_


# Offsets are weighted quantiles, in the middle of a gap.


def quantile(values: np.ndarray, weights: np.ndarray, total: float) -> float:
    """Return the middle of where the weights of lower values are at most total, and of those not higher at least."""
    ordered = np.sort(values)
    reached = [value for value in ordered if weights[values <= value].sum() >= total - 1e-12]
    not_passed = [value for value in ordered if weights[values < value].sum() <= total + 1e-12]
    return 0.5 * (reached[0] + not_passed[-1])


@pytest.mark.parametrize("seed", range(30))
def test_offsets_are_weighted_quantiles(seed):
    random = np.random.default_rng(seed)
    m = int(random.integers(2, 12))
    weights = np.ones(m) if seed % 2 else random.integers(1, 4, m).astype(float)
    scores = random.integers(0, 9, m).astype(float)
    # Whole numbers of samples half of the time, where an interval of offsets is optimal.
    nu = float(random.integers(1, m)) / m if seed % 3 else float(random.uniform(0.05, 0.6))
    dual = one_class_slab(weights, nu / 2, nu / 3, 0.7)
    lower, upper = dual.offsets(scores)
    assert lower == pytest.approx(quantile(scores, dual.upper_bounds[0], 1.0), rel=1e-12, abs=1e-12)
    assert upper == pytest.approx(-quantile(-scores, dual.upper_bounds[1], 0.7), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("m", [7, 49, 1000])
def test_rounding_of_the_sum_of_caps_does_not_move_an_offset(m):
    # 1/(nu m), m nu times over, is 1 but for rounding, with equal upper bounds and with nearly equal ones.
    for count in range(1, m, max(1, m // 7)):
        scores = np.arange(m, dtype=float)
        for weights in (np.ones(m), np.where(np.arange(m) == m - 1, 1.0 - 1e-15, 1.0)):
            assert one_class(weights, count / m).offsets(scores)[0] == count - 0.5
