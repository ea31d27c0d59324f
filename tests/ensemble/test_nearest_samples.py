"""The nearest samples are those that all differences give, however rows lie and whatever is asked for together."""

import numpy as np
import pytest
import scipy.sparse as sp

from slabsvm.ensemble.nearest import Nearest

pytestmark = pytest.mark.numeric


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
    "large": lambda rng, n, d: 1e100 * rng.normal(size=(n, d)),
    "all alike": lambda _, n, d: np.ones((n, d)),
}


@pytest.mark.parametrize("d", [1, 3, 60])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_distances_are_those_of_all_differences(layout, d):
    rng = np.random.default_rng(0)
    X = np.unique(LAYOUTS[layout](rng, 300, d), axis=0)
    counts, new = rng.integers(1, 4, len(X)).astype(float), LAYOUTS[layout](rng, 50, d)
    nearest = Nearest.of(X, counts)
    for rows, found, own in ((new, nearest.of_rows(new, 20), False), (X, nearest.of_samples(20), True)):
        distances = np.linalg.norm(rows[:, None] - X, axis=2)
        for i, row in enumerate(distances):
            stays = counts - (np.arange(len(X)) == i) if own else counts
            every = np.sort(np.repeat(row, stays.astype(int)))
            for k in (1, 5, 20):
                if len(every) >= k:
                    assert found.mean(k)[i] == pytest.approx(every[:k].mean(), rel=1e-6)


@pytest.mark.parametrize("sizes", [[3] * 60, [150, *[3] * 40], [200, 90]])
def test_rows_of_groups_are_read_among_other_groups(sizes):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(groups), 3))
    found = Nearest.of(X, np.ones(len(X))).of_groups(X, 20, groups, groups)
    for i, row in enumerate(np.linalg.norm(X[:, None] - X, axis=2)):
        assert found.mean(20)[i] == pytest.approx(np.sort(row[groups != groups[i]])[:20].mean(), rel=1e-9)


def test_no_bit_depends_on_what_is_asked_for_together_and_sparse_rows_are_as_near():
    rng = np.random.default_rng(0)
    X, new = np.where(rng.random((400, 30)) < 0.3, rng.normal(size=(400, 30)), 0.0), rng.normal(size=(60, 30))
    nearest = Nearest.of(X, np.ones(400))
    together = nearest.of_rows(new, 20).mean(20)
    np.testing.assert_array_equal(np.concatenate([nearest.of_rows(row[None], 20).mean(20) for row in new]), together)
    sparse = Nearest.of(sp.csr_array(X), np.ones(400)).of_rows(sp.csr_array(new), 20)
    np.testing.assert_allclose(sparse.mean(20), together, rtol=1e-9)
