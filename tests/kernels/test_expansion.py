"""An expansion is its sum, whatever the tiles of it, and what is near a row under the RBF kernel is by definition."""

import numpy as np
import pytest
import scipy.sparse as sp

from slabsvm.kernels.expansion import TYPICAL_ROWS, Expansion, SoftNeighbours
from slabsvm.kernels.named import RBF

pytestmark = pytest.mark.numeric

GAMMA = 0.3


@pytest.mark.parametrize("n_features", [1, 16])
@pytest.mark.parametrize("n_rows", [1, 7, 8, 700])
@pytest.mark.parametrize("n_samples", [1, 40, 1300])
@pytest.mark.parametrize("n_sums", [None, 3])
@pytest.mark.parametrize("exact", [False, True])
def test_an_expansion_is_the_sum_of_its_kernel_values(n_features, n_rows, n_samples, n_sums, exact):
    rng = np.random.default_rng(0)
    samples, rows = rng.normal(size=(n_samples, n_features)), rng.normal(size=(n_rows, n_features))
    coefficients = rng.normal(size=n_samples if n_sums is None else (n_samples, n_sums))
    kernel = RBF(0.5 / n_features, samples.mean(axis=0), differences=exact)
    expected = np.exp(-kernel.gamma * ((rows[:, None] - samples) ** 2).sum(axis=2)) @ coefficients
    found = Expansion(kernel, samples, coefficients)(rows)
    # Exponents are at most some 10, and off by some eps times that.
    allowed = 1e-14 * np.abs(coefficients).sum(axis=0)
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= allowed).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_rows_far_from_an_origin_that_is_not_moved_have_no_kernel_values_above_1(form):
    rows = 1e4 + np.random.default_rng(0).normal(scale=1e-3, size=(300, 16))
    sums = Expansion(RBF(1.0), form(rows), np.ones(300))(rows)
    assert (sums <= 300).all()


@pytest.fixture(scope="module", name="samples")
def learned() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 5)) * [1.0, 2.0, 0.1, 1.0, 0.0]


@pytest.fixture(scope="module", name="coefficients")
def weights() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(60, 3))


@pytest.fixture(scope="module", name="rows")
def asked(samples) -> np.ndarray:
    return np.concatenate([samples[:5], 3.0 * np.random.default_rng(2).normal(size=(20, 5)), np.full((1, 5), 40.0)])


def by_definition(samples, coefficients, rows):
    """Return D, the sums and the log mass by broadcasting."""
    squares = GAMMA * np.square(rows[:, None] - samples)
    exponents = -squares.sum(axis=2)
    weights = np.abs(coefficients.reshape(len(samples), -1)[:, -1])
    shifted = weights * np.exp(exponents - exponents.max(axis=1, keepdims=True))
    p = shifted / shifted.sum(axis=1, keepdims=True)
    log_mass = np.log(shifted.sum(axis=1)) + exponents.max(axis=1)
    return (p[:, :, None] * squares).sum(axis=1), np.exp(exponents) @ coefficients, log_mass


@pytest.mark.parametrize("of_rows", [np.asarray, sp.csr_array], ids=["dense rows", "CSR rows"])
@pytest.mark.parametrize("of_samples", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_distances_sums_and_mass_are_those_of_the_definition(of_samples, of_rows, samples, coefficients, rows):
    for some in (coefficients, coefficients[:, 0]):
        found = SoftNeighbours(RBF(GAMMA), of_samples(samples), some).distances(of_rows(rows))
        distances, sums, log_mass = by_definition(samples, some, rows)
        # Of CSR rows they are differences of squares of up to 40^2.
        assert np.abs(found.distances - distances).max() <= 1e-10
        assert np.abs(found.sums - sums).max() <= 1e-12
        assert np.abs(found.log_mass - log_mass).max() <= 1e-10


def test_typical_is_what_samples_are_from_each_other(samples, coefficients):
    expected = []
    for i in range(len(samples)):
        others = np.arange(len(samples)) != i
        expected.append(by_definition(samples[others], coefficients[others], samples[[i]])[0][0])
    for of_samples in (np.asarray, sp.csr_array):
        soft_neighbours = SoftNeighbours(RBF(GAMMA), of_samples(samples), coefficients)
        assert soft_neighbours.typical == pytest.approx(np.mean(expected, axis=0), abs=1e-12)
    many = np.random.default_rng(0).normal(size=(TYPICAL_ROWS + 50, 2))
    part = SoftNeighbours(RBF(GAMMA), many, np.ones(len(many))).typical
    others = np.random.default_rng(3).permutation(len(many) - TYPICAL_ROWS)
    reordered = np.concatenate([many[:TYPICAL_ROWS], many[TYPICAL_ROWS:][others]])
    assert SoftNeighbours(RBF(GAMMA), reordered, np.ones(len(many))).typical == pytest.approx(part, rel=1e-12)
    assert (SoftNeighbours(RBF(GAMMA), samples[:1], np.ones(1)).typical == 0).all()


@pytest.mark.parametrize("of_samples", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_the_parts_along_a_line_add_up_to_the_change(of_samples, samples, coefficients, rows):
    def score(sums):
        return (sums**2).sum(axis=1) + sums[:, 0]

    def slopes(sums):
        return 2.0 * sums + [1.0, 0.0, 0.0]

    soft_neighbours = SoftNeighbours(RBF(GAMMA), of_samples(samples), coefficients)
    parts = soft_neighbours.along_lines(of_samples(rows), slopes)
    # Where the lines begin.
    squares = -GAMMA * np.square(rows[:, None] - samples).sum(axis=2)
    p = np.abs(coefficients[:, -1]) * np.exp(squares - squares.max(axis=1, keepdims=True))
    start = p @ samples / p.sum(axis=1, keepdims=True)
    begin, end = (score(by_definition(samples, coefficients, some)[1]) for some in (start, rows))
    change = end - begin
    # What 16 nodes leave of an integral over at most 6 bandwidths, in the unit of the largest change.
    assert np.abs(parts.sum(axis=1) - change).max() <= 1e-6 * np.abs(change).max()
    assert (parts[:, 4][rows[:, 4] == 0] == 0).all()


def test_rows_beyond_all_squares_have_finite_distances(samples):
    far = np.array([[1e200, 1.0, 0.0, 0.0, 0.0], [1.7e308, -1.7e308, 0.0, 0.0, 0.0]])
    for of_samples in (np.asarray, sp.csr_array):
        found = SoftNeighbours(RBF(GAMMA), of_samples(samples), np.ones(60)).distances(far)
        assert (found.log_mass == -np.inf).all()
        assert (found.sums == 0).all()
        assert np.isfinite(found.distances).all()
        assert (found.distances.argmax(axis=1) == 0).all()
        assert found.distances[1, 0] == pytest.approx(found.distances[1, 1])
