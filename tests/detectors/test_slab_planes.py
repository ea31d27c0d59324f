"""Planes of a slab: when they have no width, and its score, 1 at the most normal position and 0 on both."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from slabsvm import OneClassSlabSVM
from slabsvm.fitted.planes import SlabPlanes, TwoSided

# A slab that is narrower than this, relative to its offsets, has no width.
NO_WIDTH = 1e-6


def told(lower: float, upper: float, rounding: float = 0.0, status: str = "converged", spread: float = np.inf) -> str:
    """Return what a slab with these planes says of its width."""
    return SlabPlanes(lower, upper, None).without_width(status, rounding, remedy="a smaller gamma", spread=spread)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("near", "far", "rounding", "collapsed"),
    [
        # The width counts against the larger offset,
        *((1.0, 1.0 + 0.5 * NO_WIDTH, 0.0, True), (1.0, 1.0 + 2.0 * NO_WIDTH, 0.0, False)),
        *((100.0, 100.0 + 50 * NO_WIDTH, 0.0, True), (100.0, 100.0 + 200 * NO_WIDTH, 0.0, False)),
        (1e-9, 2e-9, 0.0, False),
        # and against what both planes were moved apart for rounding, with which they begin.
        *((0.0, 3.9e-3, 1e-3, True), (0.0, 4.1e-3, 1e-3, False), (2.0, 1.0, 0.0, True)),
        *((1.0, 1.0 + share * NO_WIDTH + 4e-7, 1e-7, share < 1) for share in (0.9, 1.1)),
    ],
)
def test_a_slab_has_no_width_where_rounding_or_the_sixth_digit_hides_it(near, far, rounding, collapsed, sign):
    lower, upper = (near, far) if sign > 0 else (-far, -near)
    text = told(lower, upper, rounding)
    assert text.startswith("The slab has no width") == collapsed
    assert collapsed or not text
    if collapsed:
        assert "the kernel matrix is so close to the identity" in text
        assert "Use a smaller gamma" in text


ROUNDING = 64 * np.finfo(np.float64).eps

reproducibly = settings(deadline=None, derandomize=True)


def clouds(n: int = 300, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def score_of(inner: float, width: float, peak: float, *, local: bool, side: float = 1.0) -> TwoSided:
    return TwoSided(side, inner, inner + width, inner + peak * width, local, depth=2.0)


length, share, side = st.floats(1e-6, 1e3), st.floats(0.01, 0.99), st.sampled_from([1.0, -1.0])
shapes = st.builds(score_of, inner=length, width=length, peak=share, local=st.booleans(), side=side)


@reproducibly
@given(shapes, st.lists(st.floats(-2.0, 3.0), min_size=2, max_size=30))
def test_scores_rise_to_the_peak_and_fall_from_it(score: TwoSided, places: list[float]) -> None:
    positions = np.sort(score.inner + np.array(places) * (score.outer - score.inner))
    found = score(score.side * positions)
    steps = np.diff(found)
    slack = ROUNDING * (1 + np.abs(found).max()) * (1 + score.outer / score.unit)
    assert (steps[positions[1:] <= score.peak] >= -slack).all()
    assert (steps[positions[:-1] >= score.peak] <= slack).all()


@reproducibly
@given(shapes, st.floats(-3.0, 3.0))
def test_the_sign_says_on_which_side_of_the_planes(score: TwoSided, place: float) -> None:
    position = score.inner + place * (score.outer - score.inner)
    within = score.inner <= position <= score.outer
    assert (score(np.array([score.side * position]))[0] >= 0) == within


@reproducibly
@given(shapes)
def test_planes_score_zero_and_the_peak_one(score: TwoSided) -> None:
    found = score(score.side * np.array([score.inner, score.peak, score.outer]))
    np.testing.assert_array_equal(found, [0.0, 1.0, 0.0])


@reproducibly
@given(shapes, st.floats(1e-9, 1e-3))
def test_a_plane_is_crossed_without_a_jump(score: TwoSided, step: float) -> None:
    width, least = score.outer - score.inner, min(score.unit, score.outer - score.peak)
    # Below the inner plane a logarithm falls, over the plane's own distance from 0.
    for plane, size in ((score.inner, min(width, score.inner)), (score.outer, width)):
        around = score(score.side * (plane + step * size * np.array([-1.0, 1.0])))
        # On either side the slope, over the width, is no more than this.
        slope = width / least + score.depth + 1.0
        assert np.ptp(around) <= 4 * step * slope + ROUNDING * (1 + score.outer / least)


@pytest.mark.parametrize("sparse", [False, True])
def test_strangers_beyond_every_training_score_are_told_apart(sparse: bool) -> None:
    X = clouds()
    model = OneClassSlabSVM().fit(sp.csr_array(X) if sparse else X)
    direction = np.array([0.5, -0.5, 0.5, 0.5])
    distances = np.geomspace(4.0, 1e4, 200)
    rows = distances[:, None] * direction
    along = model.project(rows)
    assert (along == 0).mean() > 0.5
    decisions = model.decision_function(sp.csr_array(rows) if sparse else rows)
    assert (np.diff(decisions) < 0).all()
    # Far out they fall with the squared distance: a step that is a constant factor is one, too, of the decisions.
    factors = decisions[-50:] / decisions[-51:-1]
    np.testing.assert_allclose(factors, (distances[1] / distances[0]) ** 2, rtol=0.01)


@pytest.mark.warns("of the training rows, and of rows that repeat them")
def test_rows_beyond_the_upper_plane_rank_above_strangers() -> None:
    """Under a local kernel they are near the samples, and score no lower than as rare a positive."""
    X = clouds()
    model = OneClassSlabSVM(gamma=8.0).fit(X)
    learned = model.project(X) > model.rho_upper_
    assert learned.mean() > 0.1
    beyond = model.decision_function(X[learned])
    assert (beyond < 0).all()
    assert beyond.min() > model.decision_function(np.full((1, 4), 6.0))[0]
    rarest = np.quantile(model.calibration_decisions_, 0.005)
    assert beyond.min() >= rarest


def test_positives_that_crowd_below_the_upper_plane_rank_above_strangers_inside() -> None:
    X, normal = clouds(400, 6), clouds(1000, 6, seed=1)
    strangers = 1.6 * clouds(1000, 6, seed=2)
    known = np.repeat([True, False], 1000)

    def auroc(ranking: str) -> float:
        model = OneClassSlabSVM(ranking=ranking).fit(X)
        return float(roc_auc_score(known, model.decision_function(np.concatenate([normal, strangers]))))

    assert auroc("two-sided") > auroc("centre") + 0.03


def test_ranking_moves_no_plane() -> None:
    X, rows = clouds(), 2 * clouds(seed=1)
    ranked, centred = (OneClassSlabSVM(ranking=ranking).fit(X) for ranking in ("two-sided", "centre"))
    assert (ranked.rho_lower_, ranked.rho_upper_) == (centred.rho_lower_, centred.rho_upper_)
    np.testing.assert_array_equal(ranked.project(rows), centred.project(rows))
    np.testing.assert_array_equal(ranked.predict(rows), centred.predict(rows))
    centre = np.minimum(ranked.project(rows) - ranked.rho_lower_, ranked.rho_upper_ - ranked.project(rows))
    np.testing.assert_allclose(centred.decision_function(rows), centre, rtol=0, atol=ROUNDING * ranked.rho_upper_)


def test_left_out_rows_out_of_reach_are_told_apart_by_their_distance() -> None:
    X = np.vstack([clouds(200, 2), [[30.0, 0.0], [0.0, 60.0], [-90.0, 0.0]]])
    model = OneClassSlabSVM(gamma=1.0).fit(X)
    decisions = model.calibration_decisions_[-3:]
    assert (np.diff(decisions) < 0).all()
    # Each is what a model of the other rows says of it, but for what leaving it out changes in these.
    others = OneClassSlabSVM(gamma=1.0).fit(X[:-3])
    found, expected = (
        found * model.planes_.two_sided.unit / model.planes_.two_sided.inner
        for model, found in ((model, decisions), (others, others.decision_function(X[-3:])))
    )
    np.testing.assert_allclose(found, expected, rtol=0.01)
