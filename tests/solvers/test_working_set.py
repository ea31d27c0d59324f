"""Which samples are worked on, counted by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from slabsvm.dual.program import Dual, one_class, one_class_slab
from slabsvm.solvers.working_set import candidates_of, working_set

M = 1000


def rough(n_supporting, n_planes=1):
    """Return what a part of ten samples says of how many support each plane."""
    return SimpleNamespace(multipliers=np.tile(np.arange(10) < n_supporting, (n_planes, 1)).astype(float))


@pytest.mark.parametrize(("n_supporting", "expected"), [(4, 19), (1, 12)])
def test_candidates_are_half_as_many_again_as_the_part_has_and_mass_enough(n_supporting, expected):
    # Of 32 samples, .4 x 1.5 x 32 = 19; and caps of 1/8 take 12 samples for a mass of 1.5.
    scores = np.random.default_rng(0).permutation(32).astype(float)
    found = candidates_of(one_class(np.ones(32), 0.25), scores, rough(n_supporting))
    np.testing.assert_array_equal(found, np.flatnonzero(scores < expected))


def test_candidates_of_two_planes_are_the_lowest_and_the_highest():
    scores = np.random.default_rng(0).permutation(32).astype(float)
    found = candidates_of(one_class_slab(np.ones(32), 0.25, 0.25, 0.5), scores, rough(3, 2))
    np.testing.assert_array_equal(found, np.flatnonzero((scores < 14) | (scores >= 32 - 14)))


def point(multipliers, distances):
    dual = Dual(np.array([1.0, -1.0])[: len(multipliers)], np.ones((len(multipliers), M)), np.ones(1), np.zeros(M))
    return SimpleNamespace(dual=dual, multipliers=multipliers, distances=distances)


def test_of_samples_at_their_bounds_the_64_nearest_to_violating_come_from_each_side():
    # The first half is at the cap, where high samples should fall; the others are at 0, where low ones should rise.
    multipliers = np.where(np.arange(M) < 500, 1.0, 0.0)[None]
    distances = np.where(np.arange(M) < 500, np.arange(M) - 1000.0, np.arange(M) * 1.0)[None]
    found = working_set(point(multipliers, distances), M)
    np.testing.assert_array_equal(found, np.arange(500 - 64, 500 + 64))


def test_all_free_samples_are_in_it_and_a_quarter_as_many_violators_from_each_side():
    # 400 are free, so that 100 may come from each side: 80 of those at 0 violate, and of those at the cap none.
    multipliers = np.where(np.arange(M) < 400, 0.5, np.where(np.arange(M) < 700, 1.0, 0.0))[None]
    distances = np.where(np.arange(M) < 700, -1.0 - np.arange(M), np.arange(M) - 779.5)[None]
    found = working_set(point(multipliers, distances), M)
    # Of those at the cap the highest 64 come.
    np.testing.assert_array_equal(found, [*range(400), *range(400, 464), *range(700, 780)])


def test_no_more_come_than_a_quarter_of_those_that_are_free():
    multipliers = np.where(np.arange(M) < 400, 0.5, 0.0)[None]
    distances = (np.arange(M) - 2.0 * M)[None]
    found = working_set(point(multipliers, distances), M)
    np.testing.assert_array_equal(found, np.arange(500))


def test_what_one_plane_has_chosen_is_not_chosen_again_by_the_other():
    # All are at 0 of both planes, and the same samples are the lowest merit of both: each plane brings 64 of its own.
    distances = np.tile(np.arange(M) * 1.0, (2, 1))
    found = working_set(point(np.zeros((2, M)), distances), M)
    np.testing.assert_array_equal(found, np.arange(128))


def test_where_there_is_room_for_few_the_worst_violators_stay():
    multipliers = np.where(np.arange(M) < 500, 1.0, 0.0)[None]
    distances = np.where(np.arange(M) < 500, np.arange(M) - 450.5, np.arange(M) - 550.0)[None]
    # Violations: 48.5 at 499 and less below it, 50 at 500, 49, 48, and less above those.
    np.testing.assert_array_equal(working_set(point(multipliers, distances), 4), [499, 500, 501, 502])
    assert len(working_set(point(multipliers, distances), 128)) == 128


def test_of_many_violators_of_either_plane_those_stay_that_violate_most():
    rng = np.random.default_rng(0)
    # Samples are at 0 of one plane and at the cap of the other; how far they violate is no two samples' alike.
    multipliers = rng.integers(0, 2, (2, M)).astype(float)
    distances = rng.permutation(2 * M).reshape(2, M) - M + 0.5
    everything = working_set(point(multipliers, distances), M)
    violations = np.where(multipliers > 0, distances, -distances).max(axis=0)
    for largest in (3, 50, 101):
        worst = everything[np.argsort(-violations[everything])[:largest]]
        np.testing.assert_array_equal(working_set(point(multipliers, distances), largest), np.sort(worst))
