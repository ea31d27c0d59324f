"""Mean distances from neighbours: those of all differences, and left-out ones that are what refits give."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from slabsvm import AutoDetector, NeighboursDetector
from slabsvm.ensemble.neighbours import Nearest
from slabsvm.ensemble.readings import OF_MEDIAN

# Few groups and rows are enough for what is exact.
pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")]


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def clusters(rng, n, d):
    """Rows so near to each other, beside the distances of their centres, as float32 can hardly tell apart."""
    centres = 1e3 * np.random.default_rng(9).normal(size=(7, d))
    return centres[rng.integers(0, 7, n)] + rng.normal(scale=1e-3, size=(n, d))


LAYOUTS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "clusters": clusters,
    "heavy": lambda rng, n, d: rng.standard_cauchy((n, d)),
    "far off": lambda rng, n, d: 1e8 + rng.normal(size=(n, d)),
    "on a grid": lambda rng, n, d: rng.integers(0, 3, (n, d)).astype(float),
    "small": lambda rng, n, d: 1e-100 * rng.normal(size=(n, d)),
    "all alike": lambda _, n, d: np.ones((n, d)),
    "large": lambda rng, n, d: 1e100 * rng.normal(size=(n, d)),
}


@pytest.mark.parametrize("d", [1, 3, 60])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_distances_and_left_out_ones_are_those_of_all_differences(layout, d):
    rng = np.random.default_rng(0)
    X = np.unique(LAYOUTS[layout](rng, 300, d), axis=0)
    counts, new = rng.integers(1, 4, len(X)).astype(float), LAYOUTS[layout](rng, 50, d)
    nearest = Nearest.of(X, counts)
    for rows, found, own in ((new, nearest.of_rows(new, 20), False), (X, nearest.of_samples(20), True)):
        for i, row in enumerate(np.linalg.norm(rows[:, None] - X, axis=2)):
            stays = counts - (np.arange(len(X)) == i) if own else counts
            every = np.sort(np.repeat(row, stays.astype(int)))
            for k in (1, 5, 20):
                if len(every) >= k:
                    assert found.mean(k)[i] == pytest.approx(every[:k].mean(), rel=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("d", [1, 4, 12, 60])
@pytest.mark.parametrize("k", [1, 5, 200])
def test_scores_are_mean_distances(sparse, d, k):
    X, new = rows(80, d), 3.0 * rows(30, d, 1)
    some, k_nearest = sp.csr_array if sparse else np.asarray, min(k, 80)
    model = NeighboursDetector(n_neighbours=k).fit(some(X))
    expected = -np.sort(cdist(new, X), axis=1)[:, :k_nearest].mean(axis=1)
    np.testing.assert_allclose(model.score_samples(some(new)), expected, rtol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("d", [3, 8])
@pytest.mark.parametrize("sizes", [[4] * 15, [100] * 3, [150, *[3] * 40], [200, 90]], ids=len)
def test_left_out_groups_are_those_of_refits(sparse, d, sizes):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    n = len(groups)
    X = sp.csr_array(rows(n, d)) if sparse else rows(n, d)
    model = NeighboursDetector().fit(X, groups=groups)
    for i in range(0, n, max(1, n // 60)):
        refit = NeighboursDetector().fit(X[groups != groups[i]]).score_samples(X[[i]])[0]
        assert model.calibration_scores_[i] == pytest.approx(refit, rel=1e-9), i


def test_no_answer_depends_on_what_is_asked_together_and_copies_are_at_no_distance():
    X = 1e3 + rows(300, 12)
    np.testing.assert_array_equal(NeighboursDetector(n_neighbours=1).fit(X).score_samples(X), 0.0)
    X, new = np.where(rows(400, 30) < -0.5, rows(400, 30, 1), 0.0), rows(60, 30, 2)
    model = NeighboursDetector().fit(X)
    alone = [model.score_samples(row[None])[0] for row in new]
    np.testing.assert_array_equal(alone, model.score_samples(new))


def test_rows_at_any_distance_are_rejected_and_have_a_finite_score():
    model = NeighboursDetector().fit(rows(100, 3))
    far = np.array([[1e9, 0.0, 0.0], [1e200, 1e200, 0.0], [-1.7e308, 0.0, 0.0]])
    assert (model.predict(far) == -1).all()
    assert np.isfinite(model.score_samples(far)).all()
    shares = model.explain(far[:1])
    assert shares[0].argmin() == 0
    assert shares.sum() == pytest.approx(model.decision_function(far[:1])[0], rel=1e-9)


# What the nearest rows say of a feature.


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
