"""Normal scores are ranks: no increasing change of a feature is seen, and what is far stays far."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn import config_context

from slabsvm import AutoDetector, NormalScores

COLUMNS = arrays(np.float64, st.tuples(st.integers(2, 40), st.just(1)), elements=st.integers(-20, 20).map(float))


@settings(max_examples=60, deadline=None)
@given(COLUMNS)
def test_training_rows_have_the_scores_of_their_mid_ranks_and_others_those_of_the_gap(X):
    model, n = NormalScores().fit(X), len(X)
    np.testing.assert_allclose(model.transform(X)[:, 0], ndtri(rankdata(X[:, 0]) / (n + 1)), atol=1e-12)
    values = np.unique(X)
    for low, high in itertools.pairwise(values):
        expected = ndtri(((low >= X).sum() + 0.5) / (n + 1))
        np.testing.assert_allclose(model.transform([[low + 0.1], [high - 0.1]])[:, 0], expected, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(COLUMNS, st.sampled_from([np.exp, np.arctan, lambda x: x**3 + 5.0]))
def test_an_increasing_change_of_a_feature_leaves_no_trace_in_what_was_learned(X, change):
    # Scores of values that a change brings together stay apart: exp of -20 and -19 differ.
    np.testing.assert_allclose(NormalScores().fit_transform(change(X)), NormalScores().fit_transform(X), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(COLUMNS, arrays(np.float64, (30, 1), elements=st.floats(-1e6, 1e6)))
def test_scores_ascend_with_the_values_and_lead_back_to_them(X, new):
    model = NormalScores().fit(X)
    ordered = np.sort(new, axis=0)
    scores = model.transform(ordered)[:, 0]
    assert (np.diff(scores) >= -1e-12 * (1.0 + np.abs(scores[1:]))).all()  # but for rounding where two pieces meet
    # Learned values come back.
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(COLUMNS, st.integers(0, 2**32 - 1))
def test_a_weight_means_repetition(X, seed):
    times = np.random.default_rng(seed).integers(0, 4, len(X))
    times[0] = 1
    weighted = NormalScores().fit(X, sample_weight=times)
    repeated = NormalScores().fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-9)
    np.testing.assert_allclose(weighted.scale_, repeated.scale_, rtol=1e-9)


def test_beyond_the_ends_distances_are_those_of_standard_deviations():
    X = np.random.default_rng(0).normal(5.0, 3.0, size=(200, 1))
    model = NormalScores().fit(X)
    highest, lowest = ndtri(0.5 / 201) * np.array([-1.0, 1.0])
    found = model.transform([[X.max() + 2 * X.std()], [X.min() - 7 * X.std()], [1e300], [-1e308]])[:, 0]
    np.testing.assert_allclose(found[:2], [highest + 2, lowest - 7], rtol=1e-12)
    assert found[2] > 1e299
    assert np.isfinite(found).all()


def test_a_constant_keeps_its_own_unit_and_values_of_any_size_are_taken():
    model = NormalScores().fit([[7.0, 1e-300], [7.0, 2e-300], [7.0, 4e300]])
    np.testing.assert_allclose(model.transform([[7.0, 1e-300], [9.0, 2e-300]])[:, 0], [0.0, 2.0])
    assert np.isfinite(model.transform([[7.0, 1e-300], [7.0, 3e300]])).all()
    np.testing.assert_allclose(model.inverse_transform([[2.0, 0.0]]), [[9.0, 2e-300]])


def test_what_transformers_are_asked_for_at_large_does_not_reach_a_detectors_views():
    X = np.random.default_rng(0).normal(size=(60, 3))
    expected = AutoDetector().fit(X).decision_function(X)
    with config_context(transform_output="pandas"):
        np.testing.assert_array_equal(AutoDetector().fit(X).decision_function(X), expected)
