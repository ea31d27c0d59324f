"""Bets are densities, wealth is a martingale, ranks are uniform, and bounds of rates hold at all rows at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from slabsvm.monitoring.betting import (
    EDGES,
    FIXED,
    HORIZON,
    MEMORIES,
    N_BETS,
    Bag,
    Betting,
    rounded,
    uniform_draws,
    unit_of_ties,
)
from slabsvm.monitoring.course import MOST_POINTS, History, Tally, rates

pytestmark = pytest.mark.numeric

BETTING = Betting(np.array(EDGES), proper=True)
N_FIXED, N_LEARNING = len(FIXED), len(MEMORIES)
RNG = np.random.default_rng(0)
COUNTS = RNG.gamma(1.0, 20.0, (N_LEARNING, len(EDGES) - 1))


def bets(counts, below, above):
    below, above = np.asarray(below), np.asarray(above)
    return np.exp(BETTING.log_bets(counts, below, above, BETTING.bin_of(below)))


class TestBets:
    @pytest.mark.parametrize("number", range(N_FIXED))
    def test_a_fixed_bet_is_a_density(self, number):
        # Substitutions that end both poles, at 0 and at 1: p = u^10 / 2 and p = 1 - u^10 / 2.
        def lower(u):
            below = u**10 / 2
            return bets(COUNTS, below, 1 - below)[number] * 5 * u**9

        def upper(u):
            above = u**10 / 2
            return bets(COUNTS, 1 - above, above)[number] * 5 * u**9

        whole = quad(lower, 0, 1, epsabs=1e-11)[0] + quad(upper, 0, 1, epsabs=1e-11)[0]
        assert whole == pytest.approx(1.0, abs=1e-9)

    @pytest.mark.parametrize("number", range(N_FIXED, N_FIXED + N_LEARNING))
    @pytest.mark.parametrize("counts", [COUNTS, np.zeros_like(COUNTS)], ids=["seen", "nothing seen"])
    def test_a_learning_bet_is_a_density_and_favours_what_it_saw(self, number, counts):
        middles = (BETTING.edges[1:] + BETTING.edges[:-1]) / 2
        heights = np.array([bets(counts, middle, 1.0 - middle)[number] for middle in middles])
        assert (heights * np.diff(BETTING.edges)).sum() == pytest.approx(1.0, abs=1e-12)
        seen = counts[number - N_FIXED] / np.diff(BETTING.edges)
        if counts.any():
            assert heights.argmax() == seen.argmax()

    @pytest.mark.parametrize("rows", [0, 1, 57])
    def test_the_mean_of_wealth_after_a_row_is_the_wealth_before(self, rows):
        wealth = BETTING.begun()
        for below in RNG.random(rows) ** 1.5:
            wealth = BETTING.after(wealth, np.asarray(below), np.asarray(1 - below))
        stakes = np.exp(wealth.log_wealth) + np.exp(BETTING.log_stake(rows + 1)) / N_BETS
        # Each bet is a density, so that the mean is what is at stake and what is held back.
        held_back = np.exp(BETTING.log_reserve(rows + 1))
        assert stakes.sum() + held_back == pytest.approx(np.exp(wealth.log_value), rel=1e-12)
        below = np.float64(0.3)
        after = BETTING.after(wealth, below, 1 - below)
        made = bets(wealth.counts, below, 1 - below)
        assert np.exp(after.log_value) == pytest.approx((stakes * made).sum() + held_back, rel=1e-12)

    def test_stakes_and_reserve_are_the_whole(self):
        stakes = np.exp([BETTING.log_stake(row) for row in range(1, 2001)])
        reserve = np.exp(BETTING.log_reserve(2000))
        assert reserve == pytest.approx((1 + 2000 / HORIZON) ** -0.5, rel=1e-12)
        assert stakes.sum() + reserve == pytest.approx(1.0, abs=1e-12)
        assert (np.diff(stakes) < 0).all()

    def test_stakes_of_one_are_those_of_shiryaev_and_roberts(self):
        betting = Betting(BETTING.edges, proper=False)
        wealth, held = betting.begun(), np.zeros(N_BETS)
        for below in RNG.random(40):
            held = (held + 1 / N_BETS) * bets(wealth.counts, below, 1 - below)
            wealth = betting.after(wealth, np.asarray(below), np.asarray(1 - below))
            assert np.exp(wealth.log_value) == pytest.approx(held.sum(), rel=1e-10)

    @pytest.mark.slow
    def test_false_alarms_are_as_far_apart_as_promised(self):
        length, n_streams, n_rows = 60, 300, 900
        betting = Betting(BETTING.edges, proper=False)
        wealth, first = betting.begun((n_streams,)), np.full(n_streams, n_rows)
        for row, p in enumerate(np.random.default_rng(4).random((n_rows, n_streams)), start=1):
            wealth = betting.after(wealth, p, 1 - p)
            first = np.where((wealth.log_value >= np.log(length)) & (first == n_rows), row, first)
        # Streams without an alarm count as if they had one at the end.
        assert first.mean() >= length
        assert (first < n_rows).mean() > 0.9
        for t in (10, 30):
            share = t / length
            assert (first <= t).mean() <= share + 3 * np.sqrt(share * (1 - share) / n_streams)

    @pytest.mark.slow
    def test_false_alarms_are_within_the_promise_and_wealth_stays_near_what_was_held_back(self):
        n_streams, n_rows = 400, 1000
        wealth, most = BETTING.begun((n_streams,)), np.zeros(n_streams)
        for p in np.random.default_rng(1).random((n_rows, n_streams)):
            wealth = BETTING.after(wealth, p, 1 - p)
            assert (wealth.log_value >= BETTING.log_reserve(wealth.n_rows)).all()
            most = np.maximum(most, wealth.log_value)
        # Three standard deviations of a share of 400 above the promise.
        for alpha in (0.2, 0.05):
            assert (most >= -np.log(alpha)).mean() <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / n_streams)
        assert (most >= np.log(2)).any()


class TestRanks:
    def test_a_rank_is_a_share_of_those_below_and_ties_are_broken_at_random(self):
        scores = np.array([1.0, 2.0, 2.0, 3.0])
        below, above, bag = Bag.of(scores, None, 3).ranked(np.array([2.0, 0.0, 5.0]))
        ties = uniform_draws(3, 0, 3)[:, 0]
        np.testing.assert_allclose(below, [(1 + 3 * ties[0]) / 5, ties[1] / 6, (6 + ties[2]) / 7], rtol=1e-15)
        np.testing.assert_allclose(above, 1 - below, rtol=1e-12)
        assert bag.scores.tolist() == [0.0, 1.0, 2.0, 2.0, 2.0, 3.0, 5.0]

    @pytest.mark.slow
    @pytest.mark.parametrize("most", [None, 30], ids=["all", "bounded"])
    @pytest.mark.parametrize("levels", [3, 10**9], ids=["ties", "no ties"])
    def test_p_values_of_exchangeable_scores_are_uniform_and_independent(self, most, levels):
        rng = np.random.default_rng(5)
        p = np.stack(
            [
                Bag.of(s[:20], most, seed).ranked(s[20:])[0]
                for seed, s in enumerate(rng.integers(0, levels, (4000, 80)).astype(float))
            ]
        )
        assert ((p > 0) & (p < 1)).all()
        # Means, second moments and products of neighbours: some hundred, each within 4.5 standard deviations.
        error = 4.5 / np.sqrt(len(p))
        centred = p - 0.5
        assert np.abs(centred.mean(axis=0)).max() < error * np.sqrt(1 / 12)
        assert np.abs((centred**2).mean(axis=0) - 1 / 12).max() < error * np.sqrt(1 / 180)
        for lag in (1, 2, 25):
            assert np.abs((centred[:, lag:] * centred[:, :-lag]).mean(axis=0)).max() < error / 12

    def test_a_bounded_bag_holds_no_more(self):
        *_, bag = Bag.of(RNG.normal(size=50), 20, 0).ranked(RNG.normal(size=100))
        assert len(bag.scores) == 20
        assert (np.diff(bag.scores) >= 0).all()

    @given(cuts=st.lists(st.integers(0, 60), max_size=6), most=st.sampled_from([None, 25]), seed=st.integers(0, 2**31))
    @settings(max_examples=30, deadline=None)
    def test_ranks_do_not_depend_on_batches(self, cuts, most, seed):
        scores = np.random.default_rng(seed).integers(0, 40, 80).astype(float)
        start = Bag.of(scores[:20], most, seed)
        *whole, end = start.ranked(scores[20:])
        parts, bag = [], start
        for batch in np.split(scores[20:], sorted(cuts)):
            *p, bag = bag.ranked(batch)
            parts.append(p)
        assert np.concatenate(parts, axis=1).tobytes() == np.array(whole).tobytes()
        assert bag.scores.tobytes() == end.scores.tobytes()
        assert bag.n_ranked == end.n_ranked == 60

    def test_scores_that_differ_by_rounding_tie(self):
        scores = RNG.normal(size=100)
        unit = unit_of_ties(scores)
        assert np.log2(unit) == np.round(np.log2(unit))
        noisy = scores * (1 + 1e-14 * RNG.normal(size=100))
        assert (rounded(scores, unit) != rounded(noisy, unit)).mean() <= 0.01
        np.testing.assert_allclose(rounded(scores, unit), scores, atol=unit)
        assert unit_of_ties(np.zeros(3)) > 0
        assert rounded(np.array([np.inf, -np.inf]), unit).tolist() == [np.inf, -np.inf]
        assert not np.signbit(rounded(np.array([-0.1, 0.0, 0.1]) * unit, unit)).any()

    @pytest.mark.parametrize("size", [5e-324, 1e-310, 1.0, 1e307])
    @pytest.mark.filterwarnings("error")
    def test_scores_of_any_size_keep_their_order(self, size):
        scores = np.array([-1e308, -1e307, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e307, 1.7e308, 1.75e308])
        found = rounded(scores, unit_of_ties(np.full(3, size)))
        assert (np.diff(found) >= 0).all()
        far = [0, 1, -3, -2, -1]
        np.testing.assert_allclose(found[far], scores[far], rtol=2.0**-30)


class TestRates:
    def test_a_window_begins_with_the_block_before_the_current_one(self):
        tally, seen = Tally(10), []
        for row in range(35):
            tally = tally.after(row % 3 == 0)
            seen.append(tally.counts)
        assert seen[4] == (0, 5, 2)
        assert seen[14] == (0, 15, 5)
        assert seen[19] == (1, 10, 3)
        # Rows 10 to 24.
        assert seen[24] == (1, 15, 5)
        assert seen[34] == (2, 15, 5)

    @pytest.mark.slow
    def test_bounds_hold_at_all_rows_at_once_for_a_rate_that_changes(self):
        n_streams, n_rows, confidence = 200, 500, 0.8
        rng = np.random.default_rng(2)
        chance = np.clip(0.1 + 0.25 * np.sin(np.arange(n_rows) / 60.0), 0.01, None)
        counts = []
        for stream in (rng.random((n_streams, n_rows)) < chance).tolist():
            tally = Tally(100)
            for yes in stream:
                tally = tally.after(yes)
                counts.append(tally.counts)
        different, place = np.unique(np.array(counts), axis=0, return_inverse=True)
        found = rates(different, confidence)
        low, high = found.low[place].reshape(n_streams, n_rows), found.high[place].reshape(n_streams, n_rows)
        total, last = np.concatenate([[0.0], np.cumsum(chance)]), np.arange(1, n_rows + 1)
        rows = np.array(counts)[:n_rows, 1]
        mean = (total[last] - total[last - rows]) / rows
        outside = ((mean < low) | (mean > high)).any(axis=1)
        assert outside.mean() <= 1 - confidence
        assert outside.any()

    def test_bounds_are_mirrored_and_contain_the_share(self):
        counts = np.array([[0, 50, 7], [3, 50, 0], [0, 0, 0], [0, 1, 1]])
        found, mirrored = (
            rates(counts, 0.9),
            rates(np.stack([counts[:, 0], counts[:, 1], counts[:, 1] - counts[:, 2]], 1), 0.9),
        )
        np.testing.assert_array_equal(found.low, 1 - mirrored.high)
        assert (found.low[[0, 1, 3]] <= found.share[[0, 1, 3]]).all()
        assert (found.share[[0, 1, 3]] <= found.high[[0, 1, 3]]).all()
        assert (found.low[2], found.high[2]) == (0.0, 1.0)
        assert str(Tally(3).rate(0.9)) == "no rows yet"


def test_a_history_has_bounded_length_and_rows_a_stride_apart():
    history = History(1, np.empty((0, 1)))
    for row in range(1, 5001):
        history = history.after(row, (float(row),))
        assert len(history.points) < MOST_POINTS
    assert history.stride == 8
    np.testing.assert_array_equal(history.points[:, 0], np.arange(8, 5001, 8))
