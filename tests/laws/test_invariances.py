"""What a model does not depend on: the order and the copies of rows, the unit of K and of features, where they are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import strategies
import tolerances
from hypothesis import assume
from hypothesis import strategies as st
from law import attempted, law, only_our_warnings
from strategies import FAMILY, Problem, drawn, plainly

from slabsvm import SVDD, KernelPCADetector, NeighboursDetector, OneClassSlabSVM

pytestmark = pytest.mark.numeric

of_rows = tuple(kernel for kernel in strategies.KERNELS if kernel != "precomputed")


# What rounding may do to scores by folds, as a share of the largest kernel value.
FOLDED = 1e-9
of_two_weights = Problem(rows=(0, 1, 2, 3, 1), kernel="intersection", weights=(1.0, 0.5, 0.3, 1e-3, 1e-3))


def learned(model: Any, problem: Problem, X: np.ndarray, weights: np.ndarray | None, **how: Any) -> Any:
    return attempted(lambda: model(**problem.kernel_of(model), **how).fit(X, sample_weight=weights))


def assert_equal_to_the_last_bit(one: Any, other: Any, problem: Problem, places: Any) -> None:
    """`other` learned of its rows what `one` learned of those at these places."""
    if isinstance(one, str):
        assert other == one
        return
    np.testing.assert_array_equal(other.decision_function(problem.new), one.decision_function(problem.new))
    assert other.offset_ == one.offset_
    if one.calibration == "auto":
        np.testing.assert_array_equal(other.calibration_scores_, one.calibration_scores_[places])
    assert getattr(other, "duality_gap_", None) == getattr(one, "duality_gap_", None)
    for name in ("expected_recall_", "expected_recall_error_"):
        assert getattr(other, name, 0.0) == pytest.approx(getattr(one, name, 0.0), abs=1e-12)


def assert_equal_but_for_rounding(one: Any, other: Any, problem: Problem, places: Any) -> None:
    if isinstance(one, str):
        assert other == one
        return
    known = FOLDED * tolerances.largest(problem)
    np.testing.assert_allclose(other.calibration_scores_, one.calibration_scores_[places], rtol=0, atol=known)
    assert other.offset_ == pytest.approx(one.offset_, rel=0, abs=known)


@pytest.mark.slow
@law(drawn(kernels=of_rows), st.sampled_from(FAMILY), st.randoms(use_true_random=False), examples=40)
def test_the_order_of_rows_changes_no_bit(problem: Problem, model: Any, random: Any) -> None:
    order = random.sample(range(len(problem)), len(problem))
    weights = problem.sample_weight
    one = learned(model, problem, problem.X, weights)
    other = learned(model, problem, problem.X[order], None if weights is None else weights[order])
    assert_equal_to_the_last_bit(one, other, problem, order)


of_one_feature = Problem(rows=(0, 1, 2), n_features=1, weights=(1.0, 1e-3))
BROKEN = [
    {"problem": of_two_weights, "model": OneClassSlabSVM},
    {"problem": of_one_feature, "model": KernelPCADetector},
]


@pytest.mark.slow
@law(drawn(kernels=of_rows), st.sampled_from(FAMILY), examples=40, broken_by=BROKEN)
def test_rows_given_twice_at_half_their_weights_teach_the_same_to_the_last_bit(problem: Problem, model: Any) -> None:
    # Where one of them is left out, the other stays. Copies are neighbours of each other.
    assume(model is not NeighboursDetector)
    weights = np.ones(len(problem)) if problem.sample_weight is None else problem.sample_weight
    one, twice = (
        attempted(lambda X=X, w=w: model(**problem.kernel_of(model), calibration="training").fit(X, sample_weight=w))
        for X, w in ((problem.X, weights), (np.tile(problem.X, (2, 1)), np.tile(weights / 2, 2)))
    )
    if isinstance(one, str):
        assert twice == one
        return
    np.testing.assert_array_equal(twice.decision_function(problem.new), one.decision_function(problem.new))
    assert twice.offset_ == one.offset_


whole_weights = st.lists(st.integers(0, 4), min_size=1, max_size=7).map(tuple)


@pytest.mark.slow
@law(drawn(kernels=of_rows, weights=whole_weights), st.sampled_from(FAMILY), examples=40)
def test_a_weight_of_three_is_three_rows_to_the_last_bit(problem: Problem, model: Any) -> None:
    weights = problem.sample_weight
    assert weights is not None
    places = np.repeat(np.arange(len(problem)), weights.astype(int))
    one = learned(model, problem, problem.X, weights)
    if len(places) > 1:
        other = learned(model, problem, problem.X[places], None)
        if model is KernelPCADetector or (model is SVDD and problem.kernel != "rbf"):
            # A fold scores all its rows at once, and what their number is decides how sums are rounded.
            assert_equal_but_for_rounding(one, other, problem, places)
        else:
            assert_equal_to_the_last_bit(one, other, problem, places)
    if not isinstance(one, str):
        assert (np.isnan(one.calibration_scores_) == (weights == 0)).all()
        here = weights > 0
        if here.sum() > 1:
            assert_equal_to_the_last_bit(one, learned(model, problem, problem.X[here], weights[here]), problem, here)


@law(drawn(kernels=("precomputed",)), st.integers(-66, 66), examples=20)
def test_a_kernel_matrix_times_a_power_of_four_gives_scores_times_it_to_the_last_bit(
    problem: Problem, power: int
) -> None:
    # Of another power of two a Cholesky factor would round otherwise.
    unit = 4.0**power
    for calibration in ("training", "auto"):
        with only_our_warnings():
            one = problem.slab(calibration=calibration)
            other = OneClassSlabSVM(**problem.parameters, calibration=calibration)
            other.fit(unit * problem.given, sample_weight=problem.sample_weight)
        asked = problem.asked(problem.new)
        np.testing.assert_array_equal(other.project(unit * asked), unit * one.project(asked))
        assert other.rho_lower_ == unit * one.rho_lower_
        np.testing.assert_array_equal(other.predict(unit * asked), one.predict(asked))


units = st.floats(1e-3, 1e3) | st.sampled_from([1e-40, 1e-20, 1e20, 1e40])


@law(drawn(kernels=("precomputed",)), units, examples=20)
def test_a_kernel_matrix_times_a_number_gives_scores_times_it(problem: Problem, unit: float) -> None:
    with only_our_warnings():
        one = problem.slab(**plainly)
        other = OneClassSlabSVM(**(problem.parameters | plainly))
        other.fit(unit * problem.given, sample_weight=problem.sample_weight)
    asked = problem.asked(problem.new)
    tolerances.assert_same_slab(problem, one, other, asked, unit * asked, unit=unit)


@law(drawn(kernels=strategies.NAMED), units, examples=30)
def test_the_unit_of_features_is_that_of_the_kernel_or_of_the_root_of_gamma(problem: Problem, unit: float) -> None:
    other = replace(problem, size=problem.size * unit)
    powers = {"rbf": 0, "linear": 2}
    with only_our_warnings():
        slabs, unit = (problem.slab(**plainly), other.slab(**plainly)), unit ** powers.get(problem.kernel, 1)
        tolerances.assert_same_slab(problem, *slabs, problem.new, other.new, unit=unit)


@law(drawn(kernels=of_rows), st.randoms(use_true_random=False), examples=30)
def test_the_order_of_features_does_not_matter(problem: Problem, random: Any) -> None:
    order = random.sample(range(problem.n_features), problem.n_features)
    with only_our_warnings():
        one = problem.slab(**plainly)
        other = OneClassSlabSVM(**(problem.parameters | plainly))
        other.fit(problem.X[:, order], sample_weight=problem.sample_weight)
    tolerances.assert_same_slab(problem, one, other, problem.new, problem.new[:, order])


@law(drawn(kernels=("rbf",), shapes=strategies.SHAPES[:4]), st.integers(-(2**12), 2**12), examples=30)
def test_where_the_origin_is_does_not_matter_to_the_rbf_kernel(problem: Problem, shift: int) -> None:
    # So many digits are left of each feature that moving it rounds none away.
    grid = problem.size * 2.0**-20
    X, new = (np.round(rows / grid) * grid for rows in (problem.X, problem.new))
    moved = grid * 2.0**10 * shift
    with only_our_warnings():
        one = OneClassSlabSVM(**(problem.parameters | plainly)).fit(X, sample_weight=problem.sample_weight)
        other = OneClassSlabSVM(**(problem.parameters | plainly)).fit(X + moved, sample_weight=problem.sample_weight)
    tolerances.assert_same_slab(problem, one, other, new, new + moved)


@law(drawn(epsilons=(0.0,)), st.sampled_from(["training", "auto"]), examples=30)
def test_without_an_upper_plane_the_slab_is_the_one_class_svm_to_the_last_bit(
    problem: Problem, calibration: str
) -> None:
    with only_our_warnings():
        slab, svm = problem.slab(calibration=calibration), problem.svm(calibration=calibration)
    asked = problem.asked(problem.new)
    np.testing.assert_array_equal(svm.decision_function(asked), slab.decision_function(asked))
    np.testing.assert_array_equal(svm.dual_coef_, slab.dual_coef_)
    assert svm.rho_ == svm.offset_ == slab.rho_lower_
