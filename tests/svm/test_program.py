"""A program and its certificate, by numbers that can be checked by hand."""

import numpy as np
import pytest

from slabsvm.svm.program import (
    DualProblem,
    GapScale,
    Point,
    Status,
    certified,
    hypersphere,
    linear_minimiser,
    one_class,
    one_class_slab,
    weighted_quantile,
    with_right_sums,
)

pytestmark = pytest.mark.numeric

SCORES = np.array([1.0, 2.0, 3.0, 4.0])


def slab(epsilon=0.5):
    """Four samples; at epsilon 1/2 all upper bounds are 1/2, and the planes have 1 and 1/2 of mass."""
    return one_class_slab(np.ones(4), 0.5, 0.25, epsilon)


@pytest.mark.parametrize("signs", [[1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, -1.0], [-1.0], [-1.0, 1.0]])
def test_a_program_of_other_planes_is_refused(signs):
    upper_bounds = np.ones((len(signs), 4))
    with pytest.raises(ValueError, match=r"one plane, of sign \+1, or two"):
        DualProblem(np.array(signs), upper_bounds, np.ones(len(signs)), np.zeros(4))


def test_the_programs_of_the_models_are_those_of_the_table():
    one = one_class(np.array([1.0, 3.0]), 0.5)
    assert (one.n_planes, one.n_samples, one.total, one.side) == (1, 2, 1.0, 1.0)
    np.testing.assert_allclose(one.upper_bounds, [[0.5, 1.5]])
    two = one_class_slab(np.array([1.0, 3.0]), 0.5, 0.25, 0.5)
    assert (two.n_planes, two.n_samples, two.total, two.side) == (2, 2, 1.5, 1.0)
    np.testing.assert_allclose(two.upper_bounds, [[0.5, 1.5], [0.5, 1.5]])
    np.testing.assert_allclose(two.totals, [1.0, 0.5])
    np.testing.assert_allclose(two.nus, [0.5, 0.25])
    assert slab(2.0).side == -1.0
    assert slab(0.0).n_planes == 1
    ball = hypersphere(np.array([1.0, 3.0]), 0.5, np.array([4.0, 6.0]))
    np.testing.assert_allclose(ball.upper_bounds, one.upper_bounds)
    np.testing.assert_allclose(ball.linear, [-2.0, -3.0])
    for dual in (one, two):
        np.testing.assert_array_equal(dual.linear, 0.0)
        np.testing.assert_array_equal(dual.signs, [1.0, -1.0][: dual.n_planes])


def test_a_nu_of_less_than_half_a_sample_is_that_of_half_a_sample():
    # The upper bound is then twice what the multipliers sum to, which binds as little as any larger one.
    np.testing.assert_allclose(one_class(np.ones(4), 0.01).upper_bounds, 2.0)
    np.testing.assert_allclose(one_class(np.ones(4), 0.2).upper_bounds, 1.25)
    np.testing.assert_allclose(one_class(np.array([1.0, 1.0, 2.0]), 1e-9).upper_bounds, [[2.0, 2.0, 4.0]])
    # A single weight may stand for any number of samples.
    np.testing.assert_allclose(one_class(np.array([3.0]), 1e-9).upper_bounds, 1e9)
    np.testing.assert_allclose(one_class(np.array([3.0]), 1e-40).upper_bounds, 2.0**100)


def test_objective_distances_and_gap_are_those_of_the_formulas():
    dual = slab()
    multipliers = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.125, 0.375]])
    np.testing.assert_allclose(dual.beta(multipliers), [0.5, 0.25, 0.125, -0.375])
    assert dual.objective(multipliers, SCORES) == pytest.approx(0.5 * (0.5 + 0.5 + 0.375 - 1.5))
    with_term = DualProblem(dual.signs, dual.upper_bounds, dual.totals, np.array([2.0, 0.0, 0.0, 1.0]))
    assert with_term.objective(multipliers, SCORES) == pytest.approx(0.5 * (-0.125 + 1.0 - 0.375))
    distances = dual.distances(SCORES, np.array([1.5, 3.5]))
    np.testing.assert_allclose(distances, [[-0.5, 0.5, 1.5, 2.5], [2.5, 1.5, 0.5, -0.5]])
    excess = [[0.0, 0.125, 0.375, 0.0], [0.0, 0.0, 0.0625, 0.0625]]
    np.testing.assert_allclose(dual.excess(multipliers, distances), excess)


def test_a_gap_is_relative_to_the_objective_or_to_a_share_of_the_largest():
    scale = GapScale.of(slab(), 2.0)
    assert scale.largest == pytest.approx(2.0 * 1.5**2)
    assert scale.size(-3.0) == 3.0
    assert scale.size(1e-9) == pytest.approx(4.5e-7)
    assert scale.relative(0.3, -3.0) == pytest.approx(0.1)
    assert GapScale.of(slab(), 0.0).relative(0.0, 0.0) == 0.0
    assert scale.target(-3.0, 0.01) == pytest.approx(0.03)
    # Of a K known to few digits, too: where w is not 0 its rounding is no reason to stop early.
    assert scale.target(-3.0, 0.01, 1.0) == pytest.approx(0.03)
    assert scale.target(1e-9, 1e-3) == pytest.approx(4.5e-10)
    assert scale.target(1e-9, 1e-9) == pytest.approx(4.5e-14)
    assert scale.target(1e-9, 1e-3, 1e-6) == pytest.approx(4.5e-6)


def test_samples_on_a_plane_are_accepted_and_those_beyond_its_rounding_are_not():
    offsets = np.array([2.0, 3.0])
    np.testing.assert_array_equal(slab().accepts(SCORES, offsets, 0.0), [False, True, True, False])
    near = np.array([1.75, 1.5, 3.25, 3.5])
    np.testing.assert_array_equal(slab().accepts(near, offsets, 0.25), [True, False, True, False])


def test_the_best_multipliers_for_given_scores_fill_each_planes_tail():
    dual = DualProblem(np.array([1.0, -1.0]), np.full((2, 4), 0.4), np.array([1.0, 0.5]), np.zeros(4))
    expected = [[0.4, 0.4, 0.2, 0.0], [0.0, 0.0, 0.1, 0.4]]
    np.testing.assert_allclose(linear_minimiser(dual, SCORES), expected)
    order = np.array([2, 0, 3, 1])
    np.testing.assert_allclose(linear_minimiser(dual, SCORES[order]), np.array(expected)[:, order])


def test_of_samples_that_score_the_same_the_first_are_filled():
    dual = one_class(np.ones(40), 0.25)
    expected = np.where(np.arange(40) < 10, 0.1, 0.0)
    np.testing.assert_allclose(linear_minimiser(dual, np.ones(40))[0], expected, atol=1e-15)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5, 0.25, 0.25, 0.25], [0.5, 1 / 6, 1 / 6, 1 / 6]),  # what is too much is taken from those inside
        ([0.5, 0.25, 0.125, 0.0], [0.5, 0.25 + 1 / 12, 0.125 + 1 / 24, 0.0]),  # in proportion to their room
        ([0.5, 0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3, 0.0]),  # none is inside
        ([0.5, 0.0, 0.0, 0.0], [0.5, 1 / 6, 1 / 6, 1 / 6]),
        ([0.7, 0.5, -0.2, 0.0], [0.5, 0.5, 0.0, 0.0]),  # the boxes come first
        ([0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_sums_are_put_right_by_what_has_room(values, expected):
    dual = one_class(np.ones(4), 0.5)
    given = np.array([values])
    np.testing.assert_allclose(with_right_sums(dual, given), [expected], rtol=1e-14)
    np.testing.assert_array_equal(given, [values])


def test_a_part_of_the_samples_has_the_problem_of_the_whole():
    # The share that each plane may leave outside stays what it was, whatever weights the part has.
    weights = np.random.default_rng(0).exponential(size=50) + 0.1
    dual = one_class_slab(weights, 0.2, 0.1, 2 / 3)
    part = np.arange(3, 20)
    np.testing.assert_allclose(dual.restrict(part).nus, dual.nus, rtol=1e-12)
    np.testing.assert_allclose(
        dual.restrict(part).upper_bounds[0] / dual.upper_bounds[0, part], weights.sum() / weights[part].sum()
    )


def test_programs_over_other_samples_keep_what_they_should():
    dual = hypersphere(np.ones(4), 0.5, np.array([2.0, 4.0, 6.0, 8.0]))
    some = np.array([1, 3])
    fixed = dual.part(some)
    np.testing.assert_allclose(fixed.upper_bounds, 0.5)
    grown = dual.restrict(some)
    np.testing.assert_allclose(grown.upper_bounds, 1.0)
    for other in (fixed, grown):
        np.testing.assert_allclose(other.linear, [-2.0, -4.0])
        np.testing.assert_allclose(other.totals, 1.0)


def test_a_weighted_quantile_is_the_offset_and_leaves_the_scores_in_their_order():
    scores = SCORES[::-1].copy()
    assert weighted_quantile(scores, np.ones(4), 0.5) == 2.5
    assert weighted_quantile(scores, np.array([1.0, 1.0, 1.0, 3.0]), 0.25) == 1.0
    np.testing.assert_array_equal(scores, SCORES[::-1])


# The objective is 1, the offset 3, and the gap 1/2: two samples of multiplier 1/4 score 1 off the plane, one above it
# and one below.
MULTIPLIERS = np.array([[0.5, 0.25, 0.25, 0.0]])
POINT = Point(one_class(np.ones(4), 0.5), MULTIPLIERS, np.array([1.0, 2.0, 4.0, 8.0]))


def test_a_point_has_its_objective_offsets_and_gap():
    np.testing.assert_allclose(POINT.beta, MULTIPLIERS[0])
    assert POINT.objective == 1.0
    np.testing.assert_allclose(POINT.offsets, [3.0])
    np.testing.assert_allclose(POINT.distances, [[-2.0, -1.0, 1.0, 5.0]])
    assert POINT.gap == 0.5


@pytest.mark.parametrize(
    ("tol", "rounding", "status"),
    [(0.5, 0.0, Status.CONVERGED), (0.49, 0.0, Status.STALLED), (0.5, 0.01, Status.STALLED)],
)
def test_a_solution_has_converged_where_its_gap_with_its_rounding_is_within_tol(tol, rounding, status):
    found = certified(POINT, mean_diagonal=2.0, tol=tol, iterations=7, unfinished=Status.STALLED, rounding=rounding)
    assert found.status is status
    assert found.converged == (status is Status.CONVERGED)
    assert found.gap == found.relative_gap == 0.5 + rounding
    assert (found.objective, found.iterations, found.history) == (1.0, 7, ())
    for name in ("multipliers", "scores", "offsets"):
        np.testing.assert_array_equal(getattr(found, name), getattr(POINT, name))


def test_a_negative_objective_has_converged_and_one_of_zero_is_degenerate():
    # With the linear term -3 the objective is -1/2.
    dual = DualProblem(POINT.dual.signs, POINT.dual.upper_bounds, POINT.dual.totals, np.full(4, -3.0))
    asked = {"mean_diagonal": 1.0, "tol": 1.0, "iterations": 0, "unfinished": Status.STALLED}
    found = certified(Point(dual, MULTIPLIERS, POINT.scores), **asked)
    assert (found.objective, found.status) == (-0.5, Status.CONVERGED)
    flat = certified(Point(POINT.dual, MULTIPLIERS, np.zeros(4)), **asked)
    assert flat.status is Status.DEGENERATE
    assert flat.converged
    # Rounding of K hides a gap there that tol alone would not allow.
    rough = Point(POINT.dual, MULTIPLIERS, 1e-9 * POINT.scores)
    assert certified(rough, **asked | {"tol": 1e-6}).status is Status.STALLED
    assert certified(rough, **asked | {"tol": 1e-6}, resolution=1e-6).status is Status.DEGENERATE


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
