"""The nearest samples are those that all differences give, however rows lie and whatever is asked for together."""

import numpy as np
import pytest
import scipy.sparse as sp

from slabsvm.ensemble.neighbours import BOX_FEATURES, FARTHEST, NOBODY, index_of

pytestmark = pytest.mark.numeric


def clusters(generator, n, d):
    """Rows so near to each other, beside the distances of their centres, as float32 can hardly tell apart."""
    centres = 1e3 * np.random.default_rng(9).normal(size=(7, d))
    return centres[generator.integers(0, 7, n)] + generator.normal(scale=1e-3, size=(n, d))


def heavy(generator, n, d):
    return generator.standard_cauchy((n, d)) ** 5


def far_off(generator, n, d):
    return 1e8 + generator.normal(size=(n, d))


def on_a_grid(generator, n, d):
    return generator.integers(0, 3, (n, d)).astype(float)


LAYOUTS = {
    "normal": lambda generator, n, d: generator.normal(size=(n, d)),
    "clusters": clusters,
    "heavy": heavy,
    "far off": far_off,
    "on a grid": on_a_grid,
    "small": lambda generator, n, d: 1e-100 * generator.normal(size=(n, d)),
    "large": lambda generator, n, d: 1e100 * generator.normal(size=(n, d)),
    "all alike": lambda _, n, d: np.ones((n, d)),
}
FEATURES = [1, 3, BOX_FEATURES, BOX_FEATURES + 1, 60]


def found(samples, rows, count=5, own=None, labels=None):
    n, m = rows.shape[0], samples.shape[0]
    squares, near = np.empty((n, count)), np.empty((n, count), dtype=np.intp)
    own = np.full(n, NOBODY) if own is None else own
    index_of(samples).search(rows, own, np.arange(m) if labels is None else labels, squares, near)
    return squares, near


def all_squares(samples, rows):
    return np.square(rows[:, None] - samples).sum(axis=2)


@pytest.mark.parametrize("d", FEATURES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nearest_samples_are_those_of_all_differences(layout, d):
    generator = np.random.default_rng(0)
    samples = LAYOUTS[layout](generator, 300, d)
    rows = np.vstack([samples[:20], LAYOUTS[layout](generator, 40, d), 200 * LAYOUTS[layout](generator, 20, d)])
    squares, near = found(samples, rows)
    every = all_squares(samples, rows)
    np.testing.assert_allclose(squares, np.sort(every, axis=1)[:, :5], rtol=1e-13)
    np.testing.assert_allclose(np.take_along_axis(every, near, axis=1), squares, rtol=1e-13)
    assert all(len(set(some)) == 5 for some in near)


@pytest.mark.parametrize("d", FEATURES)
def test_samples_of_a_rows_own_label_are_left_out(d):
    generator = np.random.default_rng(1)
    samples, labels = generator.normal(size=(90, d)), np.arange(90) % 3
    squares, near = found(samples, samples, 40, labels, labels)
    every = np.where(labels[:, None] == labels, np.inf, all_squares(samples, samples))
    np.testing.assert_allclose(squares, np.sort(every, axis=1)[:, :40], rtol=1e-13)
    assert (labels[near] != labels[:, None]).all()
    # 60 are left of 61 that are asked for.
    squares, _ = found(samples, samples, 61, labels, labels)
    np.testing.assert_array_equal(np.isinf(squares), np.arange(61) == np.full((90, 1), 60))


@pytest.mark.parametrize("d", FEATURES)
def test_a_rows_nearest_do_not_depend_on_what_is_asked_together(d):
    generator = np.random.default_rng(2)
    samples, rows = generator.normal(size=(500, d)), generator.normal(size=(300, d))
    together, _ = found(samples, rows)
    alone = np.vstack([found(samples, rows[[i]])[0] for i in range(0, 300, 10)])
    np.testing.assert_array_equal(alone, together[::10])


@pytest.mark.parametrize("d", [3, 60])
def test_rows_and_samples_may_be_at_any_distance(d):
    generator = np.random.default_rng(3)
    samples, rows = generator.normal(size=(100, d)), generator.normal(size=(30, d))
    rows[:10] *= np.geomspace(1e3, 1e140, 10)[:, None]
    np.testing.assert_allclose(found(samples, rows)[0], np.sort(all_squares(samples, rows), axis=1)[:, :5], rtol=1e-13)
    samples[:2], rows[:2] = 1.7e308, -1.7e308
    squares, _ = found(samples, rows)
    assert np.isfinite(squares).all()
    assert (squares[:2] >= FARTHEST**2).all()
    near = np.sort(all_squares(samples[2:], rows[20:]), axis=1)[:, :5]
    np.testing.assert_allclose(squares[20:], near, rtol=1e-13)


def test_csr_rows_have_the_nearest_of_dense_ones():
    generator = np.random.default_rng(4)
    samples, rows = generator.poisson(0.3, (200, 40)).astype(float), generator.poisson(0.3, (50, 40)).astype(float)
    labels, own = np.arange(200) % 4, np.arange(50) % 4
    squares, near = found(sp.csr_array(samples), sp.csr_array(rows), 5, own, labels)
    np.testing.assert_allclose(squares, found(samples, rows, 5, own, labels)[0], atol=1e-12)
    assert (labels[near] != own[:, None]).all()
