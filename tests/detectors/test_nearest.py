"""Mean distances from neighbours: those of scikit-learn, and left-out ones that are what refits give."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from slabsvm import NeighboursDetector

# Few groups and rows are enough for what is exact.
pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore:.* are few to set a threshold")]


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def plain(X, new, k):
    return -np.sort(cdist(new, X), axis=1)[:, :k].mean(axis=1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("d", [1, 4, 12, 60])
@pytest.mark.parametrize("k", [1, 5, 200])
def test_scores_are_mean_distances(sparse, d, k):
    X, new = rows(80, d), 3.0 * rows(30, d, 1)
    some = sp.csr_array if sparse else np.asarray
    model = NeighboursDetector(n_neighbours=k).fit(some(X))
    np.testing.assert_allclose(model.score_samples(some(new)), plain(X, new, min(k, 80)), rtol=1e-9)


@pytest.mark.parametrize("d", [2, 12])
def test_left_out_scores_are_those_of_refits(d):
    X = rows(60, d)
    # A row that is there three times is left out once.
    X = np.vstack([X, X[:10], X[:10]])
    model = NeighboursDetector().fit(X)
    refits = [NeighboursDetector().fit(np.delete(X, i, axis=0)).score_samples(X[[i]])[0] for i in range(len(X))]
    np.testing.assert_allclose(model.calibration_scores_, refits, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("d", [3, 8])
@pytest.mark.parametrize("size", [4, 100])  # of larger groups each one asks the others
def test_left_out_groups_are_those_of_refits(sparse, d, size):
    n = 60 if size == 4 else 300
    X, groups = rows(n, d), np.arange(n) // size
    X = sp.csr_array(X) if sparse else X
    model = NeighboursDetector().fit(X, groups=groups)
    for i in range(0, n, n // 60):
        refit = NeighboursDetector().fit(X[groups != groups[i]]).score_samples(X[[i]])[0]
        assert model.calibration_scores_[i] == pytest.approx(refit, rel=1e-9), i


def test_no_answer_depends_on_what_is_asked_together_and_copies_are_at_no_distance():
    X = 1e3 + rows(300, 12)
    np.testing.assert_array_equal(NeighboursDetector(n_neighbours=1).fit(X).score_samples(X), 0.0)
    model = NeighboursDetector().fit(X)
    alone = [model.score_samples(X[[i]])[0] for i in range(20)]
    np.testing.assert_allclose(alone, model.score_samples(X)[:20], rtol=1e-6)


def test_rows_at_any_distance_are_rejected_and_have_a_finite_score():
    model = NeighboursDetector().fit(rows(100, 3))
    far = np.array([[1e9, 0.0, 0.0], [1e200, 1e200, 0.0], [-1.7e308, 0.0, 0.0]])
    assert (model.predict(far) == -1).all()
    assert np.isfinite(model.score_samples(far)).all()
    shares = model.explain(far[:1])
    assert shares[0].argmin() == 0
    assert shares.sum() == pytest.approx(model.decision_function(far[:1])[0], rel=1e-9)
