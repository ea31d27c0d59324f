"""The nearest samples are those that all differences give, and so is what they say of a feature."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from slabsvm import AutoDetector
from slabsvm.ensemble.readings import OF_MEDIAN

pytestmark = pytest.mark.numeric


def nearest(model, rows, feature, gap=None):
    return model.model_.combination.nearest_median(np.asarray(rows, dtype=np.float64), feature, gap)


@pytest.fixture(scope="module")
def dependent():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    X = np.column_stack([x, x + 0.05 * rng.normal(size=400), 100.0 + rng.normal(size=400)])
    return X, AutoDetector().fit(X)


def test_it_is_what_a_plain_search_in_normal_scores_finds(dependent):
    X, model = dependent
    rows = 0.8 * np.random.default_rng(1).normal(size=(50, 3)) + [0.0, 0.0, 100.0]
    view = model.model_.combination.views[-1]
    Z, new = view.of(X), view.of(rows)
    new = np.clip(new, Z.min(axis=0), Z.max(axis=0))
    for feature in range(3):
        others = np.delete(np.arange(3), feature)
        squares = ((new[:, None, others] - Z[None, :, others]) ** 2).sum(axis=2)
        plain = np.median(X[np.argsort(squares, axis=1)[:, :OF_MEDIAN], feature], axis=1)
        np.testing.assert_allclose(nearest(model, rows, feature), plain, rtol=1e-9)
        alone = [nearest(model, row[None], feature)[0] for row in rows[:3]]
        np.testing.assert_array_equal(nearest(model, rows, feature)[:3], alone)


@pytest.mark.parametrize("far", [50.0, 1e9, 1.7e308, np.inf])
def test_far_and_infinite_rows_are_taken_to_be_within_the_learned_range(dependent, far):
    X, model = dependent
    found = nearest(model, [[far, 0.0, 100.0], [0.0, -far, 100.0]], 1)
    # What is beside the largest x, or nearly so.
    assert np.quantile(X[:, 1], 0.97) < found[0] <= X[:, 1].max()
    assert found[1] == pytest.approx(0.0, abs=0.2)
    assert np.isfinite(nearest(model, [[far, -far, far]], 2)).all()


def test_copies_count_and_so_do_all_rows_that_are_as_near():
    X = np.array([[0.0, 5.0]] * 30 + [[0.0, 1.0]] * 20 + [[0.0, 9.0]] * 4 + [[3.0, 2.0], [4.0, 2.0]] * 8)
    with warnings.catch_warnings(action="ignore"):
        model = AutoDetector().fit(X)
    assert nearest(model, [[0.0, 7.0]], 1).tolist() == [5.0]
    assert nearest(model, [[3.0, 7.0]], 1).tolist() == [2.0]


def test_rows_that_have_no_value_are_no_neighbours():
    rng = np.random.default_rng(0)
    x, gap = rng.normal(size=300), rng.random(300) < 0.6
    X = np.column_stack([x, np.where(gap, 0.0, 10.0 + x), gap])
    model = AutoDetector().fit(X)
    assert nearest(model, [[1.0, 0.0, 1.0], [1.0, 5.0, 0.0]], 1, 2) == pytest.approx([11.0, 11.0], abs=0.3)
    # And where they are asked by it, they answer.
    assert nearest(model, [[1.0, 0.0, 1.0]], 1)[0] == 0.0


@pytest.mark.parametrize("other", [(), (7.0,)])
def test_a_single_feature_has_no_others_and_sparse_rows_are_not_asked(other):
    X = np.column_stack([np.random.default_rng(0).normal(size=60), *(np.full(60, value) for value in other)])
    model = AutoDetector().fit(X)
    assert np.isnan(nearest(model, X[:2], 0)).all()
    if other:
        assert np.isnan(nearest(model, X[:2], 0, 1)).all()
        assert nearest(model, X[:2] + 1.0, 1).tolist() == [7.0, 7.0]
    sparse = AutoDetector().fit(sp.csr_array(X))
    assert np.isnan(sparse.model_.combination.nearest_median(sp.csr_array(X[:2]), 0)).all()
