"""Mean distances from neighbours: those of all differences, and left-out ones that are what refits give."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from slabsvm import NeighboursDetector
from slabsvm.ensemble.nearest import Nearest

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
