"""Which samples are worked on, counted by hand."""

from types import SimpleNamespace

import numpy as np

from slabsvm.dual.program import Dual
from slabsvm.solvers.working_set import in_turns, working_set

M = 1000


def point(multipliers, distances):
    dual = Dual(np.array([1.0, -1.0])[: len(multipliers)], np.ones((len(multipliers), M)), np.ones(1), np.zeros(M))
    return SimpleNamespace(dual=dual, multipliers=multipliers, distances=distances)


def test_what_one_plane_has_chosen_is_not_chosen_again_by_the_other():
    # All are at 0 of both planes, and the same samples are the lowest merit of both: each plane brings 64 of its own.
    distances = np.tile(np.arange(M) * 1.0, (2, 1))
    found = working_set(point(np.zeros((2, M)), distances))
    np.testing.assert_array_equal(found, np.arange(128))


def test_of_more_than_there_is_room_for_the_worst_come_of_each_side_and_those_that_have_waited():
    # All are free, and those in front score low: of a room of 20 two may come from each end.
    multipliers, distances = np.full((1, M), 0.5), (np.arange(M) - 450.5)[None]
    everything = np.arange(M)
    last_turns = np.where((everything >= 300) & (everything < 316), 0, 1)
    found = in_turns(point(multipliers, distances), everything, 20, last_turns)
    np.testing.assert_array_equal(found, [0, 1, *range(300, 316), 998, 999])


def test_of_each_plane_come_as_many_that_should_rise_as_should_fall():
    rng = np.random.default_rng(0)
    multipliers, distances = np.full((2, M), 0.5), rng.normal(size=(2, M))
    # One plane's violators lie all on one side, and violate more than any others.
    distances[0] = 10.0 + np.abs(distances[0])
    found = in_turns(point(multipliers, distances), np.arange(M), 40, np.zeros(M, dtype=np.intp))
    for own in distances:
        ranks = np.argsort(np.argsort(own))[found]
        assert np.count_nonzero(ranks < 2) == np.count_nonzero(ranks >= M - 2) == 2


def test_every_sample_has_its_turn():
    rng = np.random.default_rng(0)
    last_turns, everything = np.zeros(M, dtype=np.intp), np.arange(M)
    where = point(np.full((2, M), 0.5), rng.normal(size=(2, M)))
    # A fifth of the room is for violators, the same ones at every turn here.
    n_rounds = -(-M // 80)
    for turn in range(1, n_rounds + 1):
        found = in_turns(where, everything, 100, last_turns)
        assert len(found) == 100
        last_turns[found] = turn
    assert (last_turns > 0).all()


def test_all_free_samples_come_while_there_is_room_for_them():
    # Those that wait, and violate more, are at 0.
    multipliers = np.where(np.arange(M) < 30, 0.5, 0.0)[None]
    distances = np.where(np.arange(M) < 30, 0.0, -1.0 - np.arange(M))[None]
    last_turns = np.where(np.arange(M) < 30, 5, 0)
    found = in_turns(point(multipliers, distances), np.arange(M), 40, last_turns)
    assert len(found) == 40
    np.testing.assert_array_equal(found[:30], np.arange(30))


def test_no_more_come_than_the_working_set_has():
    multipliers = np.where(np.arange(M) < 30, 0.5, 0.0)[None]
    distances = np.arange(M, dtype=float)[None]
    found = in_turns(point(multipliers, distances), np.arange(30), 20, np.zeros(M, dtype=np.intp))
    assert len(found) == 20
    assert found.max() < 30
