"""Where planes lie: as many rows outside as nu allows, by training scores or by left-out ones, which are refits'."""

from typing import Any

import numpy as np
import pytest
import strategies
import tolerances
from hypothesis import strategies as st
from law import attempted, law, only_our_warnings
from strategies import Problem, drawn
from test_certified import whole

from left_out import Program, assert_left_out, programs
from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, OneClassSVM

pytestmark = pytest.mark.numeric

# Sums of shares are right to so much.
SHARES = 1e-9


def assert_a_quantile(scores: np.ndarray, shares: np.ndarray, plane: float, nu: float, on_it: float) -> None:
    """As many score below the plane as nu allows, and as many at most that as it asks; those on it count as either."""
    assert shares[scores < plane - on_it].sum() <= nu + SHARES
    assert shares[scores <= plane + on_it].sum() >= nu - SHARES


@pytest.mark.slow
@law(strategies.problems_of_all_kinds, examples=50)
def test_nu_bounds_the_rows_outside_and_the_rows_that_hold_a_plane(problem: Problem) -> None:
    with only_our_warnings():
        slab = problem.slab(calibration="training")
    beta, (lower, upper), on_it = whole(slab, len(problem)), problem.nus, 2 * tolerances.of_plane(problem)
    s = (problem.K @ beta).astype(float)
    assert_a_quantile(s, problem.shares, slab.rho_lower_, lower, on_it)
    assert problem.shares[slab.support_].sum() >= lower - SHARES
    if problem.epsilon:
        assert_a_quantile(-s, problem.shares, -slab.rho_upper_, upper, on_it)


@pytest.mark.slow
@law(strategies.problems_of_all_kinds, examples=50)
def test_left_out_planes_are_quantiles_of_left_out_scores(problem: Problem) -> None:
    with only_our_warnings():
        slab = problem.slab()
    counted = problem.shares > 0
    left_out, shares, (lower, upper) = slab.calibration_scores_[counted], problem.shares[counted], problem.nus
    # Of rows that repeat the larger of both scores puts the plane that faces away from the origin.
    learned, side = slab.project(problem.given)[counted], 1.0 if problem.epsilon < 1 else -1.0
    outer = np.where(copies(problem)[counted] > 1, side * np.maximum(side * left_out, side * learned), left_out)
    of_lower, of_upper = (left_out, outer) if side > 0 else (outer, left_out)
    on_it = 2 * tolerances.of_plane(problem)
    assert 0.0 <= slab.expected_recall_ <= 1.0 + SHARES
    # A new row is one of n + 1 in random order: at each plane one of them is on either side of it.
    n = float(problem.counts.sum()) if problem.are_counts else 1.0 / float(shares @ shares)
    chance = (1 + (problem.epsilon > 0)) / (n + 1) + SHARES
    for sign, bound in ((1, np.less_equal), (-1, np.greater_equal)):
        wide = (of_lower >= slab.rho_lower_ - sign * on_it) & (of_upper <= slab.rho_upper_ + sign * on_it)
        assert bound(slab.expected_recall_ - sign * chance, shares @ wide)
    assert slab.training_recall_bound_ == pytest.approx(1.0 - problem.shares[slab.support_].sum(), abs=SHARES)
    # A plane that faces the limit of a local kernel is kept off it, which is said.
    if not slab.model_.infinity_warning:
        assert shares[of_lower < slab.rho_lower_ - on_it].sum() <= lower + SHARES
        assert shares[of_upper > slab.rho_upper_ + on_it].sum() <= upper + SHARES


# Seen from their mean, their K is 0.
of_one_point = Problem(rows=(0, 1), n_features=1, shape="constant feature", kernel="linear")
RIVALS = (OneClassSVM, SVDD, KernelPCADetector, KernelDensityDetector)


BROKEN = [{"problem": Problem(rows=(0, 1, 2)), "model": SVDD, "nu": 0.1}]
BROKEN += [{"problem": of_one_point, "model": SVDD, "nu": 1.0}]


@law(drawn(kernels=strategies.NAMED), st.sampled_from(RIVALS), st.floats(0.01, 1.0), examples=50, broken_by=BROKEN)
def test_a_rivals_threshold_is_a_quantile_of_left_out_scores(problem: Problem, model: Any, nu: float) -> None:
    kernel = {} if model is KernelDensityDetector else problem.of_kernel
    one = attempted(lambda: model(nu=nu, **kernel).fit(problem.X, sample_weight=problem.sample_weight))
    if isinstance(one, str) or one.model_.infinity_warning:
        return
    counted = problem.shares > 0
    assert problem.shares[counted & (one.calibration_scores_ < one.offset_)].sum() <= nu + SHARES


def copies(problem: Problem) -> np.ndarray:
    """Return how many rows each row is one of, (n,); whole-number weights are counts.

    What a model is given says which are equal: rows that differ may have one row of K.
    """
    _, sample = np.unique(problem.given, axis=0, return_inverse=True)
    each = problem.counts if problem.are_counts else problem.shares > 0
    return np.bincount(sample.ravel(), weights=each)[sample.ravel()]


@pytest.mark.slow
@law(programs, examples=40)
def test_what_is_left_out_scores_what_a_refit_gives_it_to_within_the_gaps(program: Program) -> None:
    assert_left_out(program, 15)
