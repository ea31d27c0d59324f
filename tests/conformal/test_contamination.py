"""What p-values say of the share of strangers, and what strangers among the reference rows do to p-values."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from slabsvm import conformal_p_values, contamination

pytestmark = pytest.mark.numeric


def scores(rng, n, share=0.0, shift=3.0):
    """Return scores of positives, of which a share are strangers': lower by a shift."""
    return rng.normal(size=n) - shift * (rng.random(n) < share)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_the_bound_holds_with_its_confidence_and_is_near_the_share(share):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        rows = np.concatenate([scores(rng, 400 - int(400 * share)), scores(rng, int(400 * share), 1.0, 5.0)])
        found.append(contamination(conformal_p_values(scores(rng, 400), rows), 400, confidence=0.9))
    missed = np.mean([one.least > share for one in found])
    assert missed <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 300)
    assert np.mean([one.least for one in found]) > share - 0.09
    if share:
        assert np.mean([one.estimate for one in found]) == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("count", [1, 20, 1000])
def test_the_bound_by_one_calibration_row_is_what_can_be_said_by_hand(count):
    # All rows score below it: with one error F is at most 1 - error there, and with the other G at least error^(1/m).
    error = 0.05 / 2
    found = contamination(np.full(count, 0.5), 1, confidence=0.95)
    assert found.least == pytest.approx(max(0.0, 1.0 - (1.0 - error ** (1 / count)) / error))


@pytest.mark.parametrize("n", [7, 8, 150])
@pytest.mark.parametrize("steps", [[1, 1, 1, 1, 2, 2, 3], [1, 3, 3, 4, 4, 4, 4], [7, 7, 7, 7, 7, 7, 7]])
def test_the_bound_is_the_largest_of_those_at_each_rank(steps, n):
    # Ten rows, of which three are above all that calibrated.
    counts = {rank: sum(step <= rank for step in steps) for rank in 2 ** np.arange(8) if rank <= n}
    p_values = np.array([*steps, n + 1, n + 1, n + 1]) / (n + 1)
    error = 0.1 / (2 * len(counts))
    bounds = []
    for rank, count in counts.items():
        # The most that F can be at the rank-th lowest of n rows, and the least share of which so many are below it.
        most = brentq(lambda f, rank=rank: binom.sf(rank - 1, n, f) - (1 - error), 0, 1)
        least = brentq(lambda g, count=count: binom.sf(count - 1, 10, g) - error, 0, 1) if count else 0.0
        bounds.append((least - most) / (1 - most))
    found = contamination(p_values, n, confidence=0.9)
    assert found.least == pytest.approx(max(0.0, *bounds), rel=1e-9)
    # Of positives alone, half of the rows would be above one half.
    assert found.estimate == pytest.approx(max(0.0, 1.0 - (p_values > 0.5).mean() / 0.5))


def test_one_row_below_all_of_many_says_something():
    # At ten ranks each side may err with .5 / 20: F is no more than 1 - .025^(1/1000) at the lowest, and G is .025.
    most = 1.0 - 0.025**1e-3
    found = contamination([1 / 1001], 1000, confidence=0.5)
    assert found.least == pytest.approx((0.025 - most) / (1.0 - most))


def test_rows_that_all_score_high_are_no_strangers():
    found = contamination(np.ones(20), 100)
    assert (found.least, found.estimate) == (0.0, 0.0)
    # One half is not above one half.
    assert contamination([0.5, 1.0], 1).estimate == 0.0
    assert contamination([0.5, 0.5, 0.5, 1.0], 1).estimate == 0.5


def test_strangers_among_the_calibration_rows_make_the_bound_smaller():
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows = np.concatenate([scores(rng, 300), scores(rng, 100, 1.0)])
        clean = scores(rng, 400)
        mixed = np.where(rng.random(400) < 0.1, clean - 3.0, clean)
        found = [contamination(conformal_p_values(one, rows), 400).least for one in (clean, mixed)]
        assert found[1] <= found[0]
        assert found[1] < 0.25


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_p_values_by_a_reference_with_strangers_keep_their_promise(share):
    rng = np.random.default_rng(2)
    new = rng.normal(size=20_000)
    for alpha in (0.05, 0.1):
        rates = [(conformal_p_values(scores(rng, 400, share), new) <= alpha).mean() for _ in range(20)]
        assert np.mean(rates) <= alpha
    # Conservative by about the share: what rejects is left to the positives only where strangers leave room.
    assert np.mean(rates) < 0.1 - 0.5 * share + 0.03


def test_numbers_that_are_no_p_values_are_refused():
    for value in (-1.0, 0.0, 1.0 + 1e-9, np.nan):
        with pytest.raises(ValueError, match="p-values must be above 0"):
            contamination([0.5, value], 10)
    with pytest.raises(ValueError, match="at least one row"):
        contamination([], 10)
    for count in (0, np.nan, np.inf):
        with pytest.raises(ValueError, match="the number of calibration rows, at least one"):
            contamination([0.5], count)
    for confidence in (95, 0.0, 1.0, -0.5):
        with pytest.raises(ValueError, match=f"confidence must be between 0 and 1, got {confidence}"):
            contamination([0.5], 10, confidence=confidence)


def test_known_outliers_say_how_many_the_estimate_overlooks():
    rng = np.random.default_rng(0)
    # A third of the outliers look as good rows do.
    strange = np.where(rng.random(3000) < 1 / 3, rng.random(3000), 0.02 * rng.random(3000)).clip(1e-3)
    mixed = np.concatenate([rng.random(2000).clip(1e-3), strange[:1000]])
    plain, told = contamination(mixed, 999), contamination(mixed, 999, known_outliers=strange[1000:])
    assert plain.estimate == pytest.approx(2 / 9, abs=0.04)
    assert told.estimate == pytest.approx(1 / 3, abs=0.05)
    assert told.least == plain.least
    # Those that were found by their small p-values overlook nothing.
    assert contamination(mixed, 999, known_outliers=[0.001, 0.01]).estimate == plain.estimate
    assert contamination(mixed, 999, known_outliers=[0.9]).estimate == 1.0
    with pytest.raises(ValueError, match="p-values must be above 0"):
        contamination(mixed, 999, known_outliers=[0.0])
