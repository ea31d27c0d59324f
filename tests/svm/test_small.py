"""Small programs: their optimum in one call of the core, and left-out scores against refits by another solver."""

from dataclasses import replace

import numpy as np
import pytest

import certificate
import many
import problems
from left_out import (
    KINDS,
    Program,
    assert_left_out,
    drawn,
    gap_of,
    kernel_matrix,
    left_out,
    off_by,
    refit,
    smaller,
    whole,
)
from slabsvm.svm import small
from slabsvm.svm.gram import Dense
from slabsvm.svm.program import Status, hypersphere, one_class, one_class_slab
from slabsvm.svm.small import MOST_EXACT, Leaving, solve_small

pytestmark = pytest.mark.numeric

EPSILONS = (0.0, 2 / 3, 1.5)  # of one plane, and of two
N_DRAWN = 120
# As many of each kind are solved each time; the others, where slow tests are.
N_OF_EACH_KIND = 2


def moving(counts):
    """Return how many sets had anything to move."""
    return sum(counts[way] for way in ("at_once", "handed_on", "stepwise", "again", "refitted"))


FIRST = N_OF_EACH_KIND * len(KINDS)
SEEDS = [*range(FIRST), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FIRST, N_DRAWN))]


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_without_rows_copies_or_groups_are_those_of_refits(seed):
    program = drawn(seed)
    # Of one feature K is singular to rounding, and scores are as near as the gaps say.
    found = assert_left_out(program, 12, exact="one feature" not in program.name)
    assert found.error <= 1e-7


def test_hardly_any_row_is_left_out_by_a_refit():
    refitted = all_of_them = 0
    for seed in range(36):
        program = drawn(seed)
        if program.groups is None:
            counts = left_out(program.dual, program.K, program.leaving)[1].counts
            refitted, all_of_them = refitted + counts["refitted"], all_of_them + moving(counts)
    assert all_of_them > 500
    assert refitted <= 0.01 * all_of_them


def special():
    """Return programs at the ends of what there is, by name, and how exactly and of how many sets they are compared."""
    cloud, fifty, four = kernel_matrix("cloud", 40, 0.5), kernel_matrix("cloud", 50), np.eye(4)
    four[0] = four[:, 0] = [1.0, 0.5, 0.25, 0.5]
    # All but three are one point to within rounding: a path would have an event for each.
    equal = np.ones((300, 300))
    equal[-3:, :] = equal[:, -3:] = 0.0
    np.fill_diagonal(equal, 1.0)
    # Every other sample is at its upper bound, and all boxes grow.
    mean, quarters = one_class(np.ones(40), 1.0), np.array_split(np.arange(40), 4)
    yield "nobody can take what leaves", mean, cloud, None, {"exact": True}
    yield "nobody can take what groups leave", mean, cloud, quarters, {"exact": True}
    yield "one has all the mass", one_class(np.ones(4), 0.25), four, None, {"exact": True}
    ball = problems.linear(*2 * [np.random.default_rng(0).normal(size=(50, 3))])
    yield "sphere", hypersphere(np.ones(50), 0.2, np.diagonal(ball).copy()), ball, None, {"some": 15}
    for epsilon in (2 / 3, 1.5):
        K = problems.rbf(2.0)(*2 * [np.random.default_rng(0).normal(size=(120, 8))])
        dual = one_class_slab(np.ones(120), 0.1, 0.05, epsilon)
        yield f"collapsed, {epsilon}", dual, K, None, {"some": 30, "exact": True}
    for epsilon in EPSILONS:
        yield f"equal points, {epsilon}", one_class_slab(np.ones(300), 0.1, 0.05, epsilon), equal, None, {"some": 10}
        for n in (1, 2, 5):
            groups, dual = [np.arange(n, 50), np.arange(n)], one_class_slab(np.ones(50), 0.3, 0.1, epsilon)
            yield f"all but {n} in a group, {epsilon}", dual, fifty, groups, {"exact": True}
        linear = 0.01 * np.random.default_rng(3).normal(size=50)
        dual = replace(one_class_slab(np.ones(50), 0.2, 0.1, epsilon), linear=linear)
        yield f"a linear term, {epsilon}", dual, fifty, None, {"some": 20, "exact": True}


@pytest.mark.parametrize(("name", "dual", "K", "groups", "how"), [pytest.param(*one, id=one[0]) for one in special()])
def test_scores_at_the_ends_of_what_there_is_are_those_of_refits(name, dual, K, groups, how):
    assert_left_out(Program(name, dual, K, np.ones(len(K)), groups), **how)


def equal_scores(dual, K):
    """Return beta whose scores are all the same, by the bordered system written out."""
    m = len(K)
    bordered = np.block([[K, np.ones((m, 1))], [np.ones((1, m)), 0.0]])
    return np.linalg.solve(bordered, np.append(-dual.linear, dual.signs @ dual.totals))[:-1]


def collapsed(m):
    """Return a slab whose planes meet, and its K."""
    X = np.random.default_rng(m).normal(size=(m, 16))
    return one_class_slab(np.ones(m), 0.1, 0.01, 2 / 3), problems.rbf(0.3)(X, X)


@pytest.mark.parametrize("m", [400, 700])
def test_a_collapsed_slab_is_solved_to_rounding_from_few_steps(m):
    dual, K = collapsed(m)
    solution, _ = solve_small(dual, Dense(K))
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= m
    wanted = equal_scores(dual, K)
    np.testing.assert_allclose(dual.beta(solution.multipliers), wanted, atol=1e-11 * np.abs(wanted).max())
    assert solution.relative_gap < 1e-10
    assert solution.gap == pytest.approx(certificate.gap(dual, K, solution.multipliers), abs=1e-12 * solution.objective)


def test_dependent_samples_share_what_one_of_them_would_have():
    dual, K = collapsed(400)
    K[1], K[:, 1] = K[0], K[:, 0]
    solution, _ = solve_small(dual, Dense(K))
    assert solution.status is Status.CONVERGED
    wanted, beta = equal_scores(dual.part(np.arange(1, 400)), K[1:, 1:]), dual.beta(solution.multipliers)
    np.testing.assert_allclose([beta[0] + beta[1], *beta[2:]], wanted, atol=1e-8 * np.abs(wanted).max())


def test_planes_that_are_apart_are_not_taken_for_merged_ones():
    # A sample far below all others takes part by its linear term alone: the planes would need more than they have.
    dual, K = collapsed(300)
    dual = replace(dual, linear=np.r_[-1.0, 1.0, np.zeros(298)])
    solution, _ = solve_small(dual, Dense(K))
    assert solution.status is Status.CONVERGED
    assert certificate.gap(dual, K, solution.multipliers) <= 1e-9 * abs(solution.objective)
    assert (solution.multipliers[:, :2] == np.diag(dual.upper_bounds.max(axis=1))).all()


def test_a_degenerate_solution_has_the_scores_that_it_has():
    X = np.random.default_rng(0).normal(size=(60, 2))
    dual, groups = one_class(np.ones(60), 0.5), np.array_split(np.arange(60), 7)
    for leaving in (None, whole(groups)):
        solution, found = left_out(dual, X @ X.T, leaving)
        assert solution.status is Status.DEGENERATE
        np.testing.assert_array_equal(found.scores, solution.scores)
        assert moving(found.counts) == 0


def test_a_sample_that_another_group_has_too_stays():
    K, dual = kernel_matrix("tiny clusters", 60), one_class(np.ones(60), 0.4)
    solution = solve_small(dual, Dense(K))[0]
    group = np.flatnonzero(solution.multipliers[0] > 0)[:6]
    solution, found = left_out(dual, K, Leaving(groups=[(group, group[1:])]))
    expected, off = refit(dual, K, group[1:])
    assert (np.abs(found.scores - expected[group]) <= off[group] + 1e-6 * solution.scores.std()).all()
    assert found.scores[0] != pytest.approx(solution.scores[group[0]], rel=1e-6)
    # A group of which nobody leaves, or one that is empty, changes nothing.
    nobody = np.array([], dtype=int)
    _, same = left_out(dual, K, Leaving(groups=[(group, nobody), (nobody, nobody)]))
    np.testing.assert_allclose(same.scores, solution.scores[group], rtol=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_where_nobody_stays_scores_are_zero(epsilon):
    K, every = kernel_matrix("cloud", 10), np.arange(10)
    _, found = left_out(one_class_slab(np.ones(10), 0.5, 0.2, epsilon), K, whole([every]))
    np.testing.assert_array_equal(found.scores, 0.0)


def test_from_a_rough_solution_scores_are_as_good_as_its_gap():
    K, dual = kernel_matrix("cloud", 60), one_class_slab(np.ones(60), 0.2, 0.1, 0.5)
    rough, found = left_out(dual, K, max_iter=30, tol=1e-12)
    assert rough.status is Status.ITERATION_LIMIT
    solution, exact = left_out(dual, K)
    bound = off_by(K, dual, rough.gap) + off_by(K, dual, gap_of(dual, solution, exact))
    assert (np.abs(found.scores - exact.scores) <= 2.0 * bound).all()


@pytest.mark.parametrize("max_iter", [0, 1, 7, 40])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_limit_of_steps_is_kept_and_its_gap_is_true(epsilon, max_iter):
    K, dual = kernel_matrix("ring", 150), one_class_slab(np.ones(150), 0.3, 0.1, epsilon)
    solution, left = solve_small(dual, Dense(K), tol=1e-9, max_iter=max_iter)
    assert left is None
    assert solution.iterations == max_iter
    assert solution.status is Status.ITERATION_LIMIT
    assert (solution.multipliers >= 0).all()
    assert (solution.multipliers <= dual.upper_bounds).all()
    np.testing.assert_allclose(solution.multipliers.sum(axis=1), dual.totals, rtol=1e-12)
    true_gap = certificate.gap(dual, K, solution.multipliers)
    assert solution.gap == pytest.approx(true_gap, rel=1e-6)


@pytest.mark.parametrize("tol", [0.3, 1e-3, 1e-7])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_without_the_optimum_a_descent_goes_down_to_tol(epsilon, tol):
    K, dual = kernel_matrix("cloud", 200), one_class_slab(np.ones(200), 0.3, 0.1, epsilon)
    solution, _ = solve_small(dual, Dense(K), tol=tol, optimum=False)
    exact, _ = solve_small(dual, Dense(K), tol=tol)
    assert solution.status is exact.status is Status.CONVERGED
    assert exact.relative_gap < 1e-9
    assert solution.relative_gap <= tol
    assert exact.objective <= solution.objective <= exact.objective + solution.gap


def test_a_descent_that_takes_too_long_ends_and_says_so(monkeypatch):
    # One feature and epsilon near 1: K is singular to rounding, and the planes' masses nearly cancel.
    X = np.random.default_rng(0).normal(size=(400, 1))
    K, dual = problems.rbf(5.0)(X, X), one_class_slab(np.ones(400), 0.1, 0.01, 0.999)
    monkeypatch.setattr(small, "MOST_WORK", 400 * 5000.0)
    solution, _ = solve_small(dual, Dense(K), tol=1e-9, optimum=False)
    assert solution.status is Status.SLOW
    assert "epsilon" in solution.status.value
    assert solution.iterations == pytest.approx(5000, abs=1)
    assert certificate.gap(dual, K, solution.multipliers) <= solution.gap * (1 + 1e-6) + 1e-15


def of_few_rows(seed):
    """Return a program of some rows with two features and the linear kernel: many are at bounds, some planes cross."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(4, 21))
    X = rng.gamma(16.0, 0.25, (m, 2))
    group = np.sort(rng.choice(m, int(rng.integers(2, max(3, m // 2))), replace=False))
    nus = ((0.3, 0.3), (0.4, 0.35))[int(rng.integers(2))]
    dual = one_class_slab(np.ones(m), *nus, float(rng.choice([0.0, 0.2, 2 / 3])))
    return Program(f"{seed}, {m} rows", dual, X @ X.T, np.ones(m), [group])


@pytest.mark.slow
def test_groups_of_few_rows_score_as_under_the_optimum_of_the_smaller_program():
    wrong = []
    for seed in range(4000):
        program = of_few_rows(seed)
        solution, found = left_out(program.dual, program.K, program.leaving)
        rest = smaller(program.dual, program.groups[0])
        kept = np.flatnonzero(rest.upper_bounds.any(axis=0))
        part, K = rest.part(kept), program.K[np.ix_(kept, kept)]
        exact, _ = solve_small(part, Dense(K), tol=1e-12)
        if Status.DEGENERATE in (solution.status, exact.status):
            continue
        assert certificate.gap(part, K, exact.multipliers) <= 1e-9 * exact.objective
        scores = program.K[np.ix_(program.groups[0], kept)] @ part.beta(exact.multipliers)
        if np.abs(found.scores - scores).max() > 1e-5 * np.abs(exact.scores).max():
            wrong.append(seed)
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 2 / 3])
def test_a_signal_ends_a_long_left_out_within_half_a_second(epsilon):
    # With one feature nearly every row that leaves has a path of many events.
    X = np.random.default_rng(0).normal(size=(MOST_EXACT, 1))
    gram = Dense(problems.rbf(1.0)(X, X), trusted=True)
    dual = one_class_slab(np.ones(MOST_EXACT), 0.5, 0.3, epsilon)
    gram.padded()
    for moment in (0.05, 0.3, 0.8):
        try:
            with many.interrupted_after(moment) as overdue:
                solve_small(dual, gram, leaving=Leaving(np.zeros(MOST_EXACT)))
        except KeyboardInterrupt:
            assert overdue() < 0.5
        else:
            # Sooner done than interrupted: only where there was time to.
            assert moment > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_one_feature_takes_no_more_factors_and_refits_than_there_is_budget_for(epsilon):
    # At this gamma K is singular to rounding, and mass moves back and forth between near equals.
    K = problems.rbf(19.0)(*[np.random.default_rng(0).normal(size=(400, 1))] * 2)
    solution, found = left_out(one_class_slab(np.ones(400), 0.1, 0.01, epsilon), K)
    assert solution.status is Status.CONVERGED
    assert found.counts["factors"] < 1000
    assert found.counts["refitted"] < 50


@pytest.mark.parametrize("epsilon", [0.0, 2 / 3])
def test_rows_that_are_one_point_hand_on_what_leaves(epsilon):
    # One row far away sets the scale: all others are one point to within rounding.
    X = 1e-9 * np.random.default_rng(0).normal(size=(600, 3))
    X[0] = 1.0
    solution, found = left_out(one_class_slab(np.ones(600), 0.1, 0.01, epsilon), problems.rbf(1.0)(X, X))
    assert solution.status is Status.CONVERGED
    # Rows that do not hand on what they have take a factor each, or several.
    assert found.counts["factors"] < 600 / 2
    # Where the gap that is left is a bit more than rounding, a refit finds next to nothing to do.
    assert found.counts["refit_steps"] <= 2 * 600


@pytest.mark.parametrize("gamma", [1e-6, 1e-8])
def test_left_out_scores_are_as_right_where_all_kernel_values_are_nearly_the_same(gamma):
    X = np.random.default_rng(0).normal(size=(150, 2))
    dual, scores = one_class_slab(np.ones(150), 0.1, 0.01, 2 / 3), []
    for each in (1e-4, gamma):
        # exp(-t) - 1 loses no digits; a constant in K moves all scores alike.
        K = 1.0 + np.expm1(-each * ((X[:, None] - X) ** 2).sum(axis=2))
        solution, found = left_out(dual, K)
        scores.append((found.scores - solution.scores.mean()) / solution.scores.std())
    np.testing.assert_allclose(scores[1], scores[0], atol=0.01)


def test_the_optimum_of_a_refit_is_found_after_a_few_steps_where_rows_are_near_copies():
    # A descent to the gap at which refits used to begin the search took 800,000 steps for each of these.
    rng = np.random.default_rng(0)
    X = np.tile(rng.normal(size=(60, 4)), (2, 1)) + 1e-9 * rng.normal(size=(120, 4))
    _, found = left_out(one_class_slab(np.ones(120), 0.1, 0.01, 2 / 3), problems.rbf(0.3)(X, X))
    assert found.counts["refitted"] > 0
    assert found.counts["refit_steps"] <= 20 * 120 * found.counts["refitted"]
