"""The monitor: bets, ranks and bounds keep their laws, alarms their promise, and what breaks it is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM as TheirOneClassSVM

from slabsvm import (
    AutoDetector,
    ConformalDetector,
    DriftMonitor,
    KernelDensityDetector,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
    monitor,
)

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::UserWarning")]


class First(BaseEstimator):
    """A detector whose decision is a row's first feature."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def decision_function(self, X):
        return X[:, 0]


class Within(First):
    """A detector that says yes or no alone."""

    decision_function = property()

    def predict(self, X):
        return np.where(np.abs(X).max(axis=1) < 2.5, 1, -1)


RNG = np.random.default_rng(0)
TRAINING, REFERENCE, SAME = RNG.normal(size=(3, 200, 2))
OTHER = RNG.normal(1.5, size=(60, 2))
STREAM = np.concatenate([SAME[:120], OTHER])
DETECTOR, FIRST = OneClassSlabSVM().fit(TRAINING), First().fit(None)
NO_WEALTH = np.zeros(len(monitor.BETS))
# What is promised fails a test with at most this probability.
ERROR = 1e-4


KNOWN = np.arange(15.0).reshape(5, 3) / 10 - 0.7
DRAWS = {
    "normal": lambda rng, n: rng.normal(size=(n, 5)),
    "heavy tails": lambda rng, n: rng.standard_t(2, (n, 3)),
    "skewed": lambda rng, n: rng.lognormal(size=(n, 2)),
    "booleans": lambda rng, n: (rng.random((n, 10)) < np.linspace(0.05, 0.5, 10)).astype(float),
    "zipf": lambda rng, n: rng.zipf(1.7, (n, 3)).astype(float),
    "counts": lambda rng, n: rng.poisson(3.0, (n, 2)).astype(float),
    "half repeated": lambda rng, n: np.where(
        rng.random((n, 1)) < 0.5, KNOWN[rng.integers(0, 5, n)], rng.normal(size=(n, 3))
    ),
}
DISCRETE = ("booleans", "zipf", "counts", "half repeated")
# The estimator, its rows, and whether reference rows are given.
STREAMS = {
    "leave-one-out": (OneClassSlabSVM(), "normal", False),
    "calibrated": (ConformalDetector(OneClassSlabSVM()), "normal", False),
    "heavy tails": (OneClassSVM(), "heavy tails", True),
    "skewed": (make_pipeline(StandardScaler(), OneClassSlabSVM()), "skewed", True),
    "ties": (KernelDensityDetector(), "booleans", True),
    "yes or no": (Within(), "normal", True),
}
normal = DRAWS["normal"]


def chance(logs, alpha):
    """Return the probability of as many alarms or more, if each has the probability alpha."""
    return binom.sf(np.count_nonzero(np.array(logs) >= -np.log(alpha)) - 1, len(logs), alpha)


def state(watch):
    """Return all that a monitor knows, as bytes."""
    return {name: np.asarray(value).tobytes() for name, value in vars(watch).items() if name != "estimator"}


def integral(of):
    """Return the integral over p of a function of p and 1 - p with poles at both ends: p or 1 - p is u^10 / 2."""
    halves = (lambda u: of(u**10 / 2, 1 - u**10 / 2) * 5 * u**9, lambda u: of(1 - u**10 / 2, u**10 / 2) * 5 * u**9)
    return sum(quad(half, 0, 1, epsabs=1e-11)[0] for half in halves)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STREAMS)
def test_unchanged_streams_raise_alarms_within_the_promise(kind):
    (estimator, rows, given_rows), most = STREAMS[kind], []
    for seed in range(100):
        rng, draw = np.random.default_rng(seed), DRAWS[rows]
        watch = DriftMonitor(clone(estimator).fit(draw(rng, 200))).fit(draw(rng, 200) if given_rows else None)
        most.append(watch.update(draw(rng, 1000)).log_evidence.max())
    for alpha in (0.2, 0.05, 0.01):
        assert chance(most, alpha) > ERROR, alpha


@pytest.mark.slow
def test_a_shift_of_half_a_deviation_is_found_within_400_rows():
    delays = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        watch = DriftMonitor(OneClassSlabSVM().fit(normal(rng, 200))).fit(normal(rng, 200))
        watch.update(np.concatenate([normal(rng, 2000), normal(rng, 1500) + 0.5]))
        delays.append(watch.alarm_row_ - 2000 if watch.alarm_ else np.inf)
    assert np.median([delay for delay in delays if delay > 0]) <= 400


class TestBets:
    @pytest.mark.parametrize("rows", [0, 1, 57])
    def test_the_mean_of_the_wealth_after_a_row_is_the_wealth_before(self, rows):
        p = np.random.default_rng(1).random(rows) ** 1.5
        logs, wealth = monitor.after_bets(NO_WEALTH, 0.0, 0, np.stack([p, 1 - p], axis=1))
        before = logs[-1] if rows else 0.0
        mean = integral(lambda *p: np.exp(monitor.after_bets(wealth, before, rows, np.array([p]))[0][0]))
        assert mean == pytest.approx(np.exp(before), rel=1e-9)

    def test_the_wealth_is_that_of_the_formula_and_no_less_than_the_reserve(self):
        reserve, p = (1 + np.arange(301) / 100) ** -0.5, np.random.default_rng(2).random(300)
        a, b, share = np.array(monitor.BETS).T[..., None]
        densities = 1 - share + monitor.SCALE[:, None] * p ** (a - 1) * (1 - p) ** (b - 1)
        held, expected = NO_WEALTH, []
        for row, bets in enumerate(densities.T):
            held = (held + (reserve[row] - reserve[row + 1]) / len(a)) * bets
            expected.append(held.sum() + reserve[row + 1])
        logs, _ = monitor.after_bets(NO_WEALTH, 0.0, 0, np.stack([p, 1 - p], axis=1))
        np.testing.assert_allclose(np.exp(logs), expected, rtol=1e-10)
        assert (np.exp(logs) >= reserve[1:]).all()

    def test_evidence_of_any_size_is_finite(self):
        logs, wealth = monitor.after_bets(NO_WEALTH, 0.0, 0, np.tile([1e-12, 1.0], (2000, 1)))
        assert np.isfinite(logs).all()
        assert logs[-1] > 10_000
        assert wealth.sum() == pytest.approx(1.0)


class TestRanks:
    def test_a_rank_is_a_share_of_those_below_and_ties_are_broken_at_random(self):
        p, bag = monitor.ranked(np.array([1.0, 2.0, 2.0, 3.0]), np.array([2.0, 0.0, 5.0]), 3, 0)
        ties = p[:, 0] * [5, 6, 7] - [1, 0, 6]
        assert ((ties > 0) & (ties < [3, 1, 1])).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-15)
        assert bag.tolist() == [0.0, 1.0, 2.0, 2.0, 2.0, 3.0, 5.0]

    @pytest.mark.slow
    @pytest.mark.parametrize("most", [10**5, 30], ids=["all", "bounded"])
    @pytest.mark.parametrize("levels", [3, 10**9], ids=["ties", "no ties"])
    def test_p_values_of_exchangeable_scores_are_uniform_and_independent(self, most, levels, monkeypatch):
        monkeypatch.setattr(monitor, "MOST_HELD", most)
        scores = np.random.default_rng(5).integers(0, levels, (4000, 80)).astype(float)
        p = np.stack([monitor.ranked(np.sort(s[:20]), s[20:], seed, 0)[0][:, 0] for seed, s in enumerate(scores)])
        assert ((p > 0) & (p < 1)).all()
        # Means, second moments and products of neighbours: some hundred, each within 4.5 standard deviations.
        error, centred = 4.5 / np.sqrt(len(p)), p - 0.5
        assert np.abs(centred.mean(axis=0)).max() < error * np.sqrt(1 / 12)
        assert np.abs((centred**2).mean(axis=0) - 1 / 12).max() < error * np.sqrt(1 / 180)
        for lag in (1, 2, 25):
            assert np.abs((centred[:, lag:] * centred[:, :-lag]).mean(axis=0)).max() < error / 12

    @pytest.mark.parametrize("size", [0.0, 5e-324, 1e-310, 1.0, 1e307, np.inf])
    @pytest.mark.filterwarnings("error")
    def test_scores_that_differ_by_rounding_tie_and_others_keep_their_order(self, size):
        scores = np.array([-np.inf, -1e308, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e307, 1.75e308, np.inf])
        unit = monitor.unit_of_ties(np.full(3, size))
        assert np.log2(unit) == np.round(np.log2(unit))
        found = monitor.rounded(scores, unit)
        assert (found[:-1] <= found[1:]).all()
        if size == 1.0:
            noisy = RNG.normal(size=100)
            same = monitor.rounded(noisy, unit) == monitor.rounded(noisy * (1 + 1e-14), unit)
            assert same.mean() >= 0.99


class TestRate:
    def test_a_window_begins_with_the_block_before_the_current_one(self):
        rejected = np.arange(35) % 3 == 0
        found = DriftMonitor(FIRST, window=10).fit(REFERENCE).update(0.5 - rejected[:, None]).rejection
        first = [max(row // 10 - 1, 0) * 10 for row in range(1, 36)]
        np.testing.assert_array_equal(found.n_rows, np.arange(1, 36) - first)
        np.testing.assert_allclose(found.share, [rejected[f : r + 1].mean() for r, f in enumerate(first)])

    @pytest.mark.slow
    def test_bounds_hold_at_all_rows_at_once_for_a_rate_that_changes(self):
        n_streams, n_rows, confidence, rng, missed = 150, 500, 0.5, np.random.default_rng(2), 0
        probability = np.clip(0.1 + 0.25 * np.sin(np.arange(n_rows) / 60.0), 0.01, None)
        total, last = np.concatenate([[0.0], np.cumsum(probability)]), np.arange(1, n_rows + 1)
        for _ in range(n_streams):
            watch = DriftMonitor(FIRST, window=100, confidence=confidence).fit(REFERENCE)
            found = watch.update(0.5 - (rng.random(n_rows) < probability)[:, None]).rejection
            mean = (total[last] - total[last - found.n_rows]) / found.n_rows
            missed += ((mean < found.low) | (mean > found.high)).any()
        assert 0 < missed <= (1 - confidence) * n_streams

    def test_bounds_are_mirrored_contain_the_share_and_narrow(self):
        some = np.array([[0, 50, 7], [3, 50, 0], [0, 0, 0], [0, 1, 1], [0, 5000, 700]])
        found, mirrored = monitor.rates(some, 0.9), monitor.rates(some @ [[1, 0, 0], [0, 1, 1], [0, 0, -1]], 0.9)
        np.testing.assert_array_equal(found.low, 1 - mirrored.high)
        seen = some[:, 1] > 0
        assert (found.low[seen] <= found.share[seen]).all()
        assert (found.share[seen] <= found.high[seen]).all()
        assert np.isnan(found.share[2])
        assert (found.low[2], found.high[2]) == (0.0, 1.0)
        assert found.high[4] - found.low[4] < 0.05 < found.high[0] - found.low[0]


class TestAlarm:
    def test_a_change_is_found_soon_and_stays_found(self):
        watch = DriftMonitor(DETECTOR).fit(REFERENCE)
        assert "0 rows" in watch.summary()
        assert not watch.update(SAME).alarm.any()
        assert not watch.alarm_
        assert "no alarm" in watch.summary()
        after = watch.update(OTHER)
        assert 200 < watch.alarm_row_ <= 240
        first = int(np.flatnonzero(after.alarm)[0])
        assert after.row[first] == watch.alarm_row_
        assert after.log_evidence[first] >= np.log(100) > after.log_evidence[:first].max()
        assert after.alarm[first:].all()
        assert f"ALARM      at row {watch.alarm_row_}" in watch.summary()
        assert watch.log_evidence_ == after.log_evidence[-1]
        row, level = watch.alarm_row_, watch.log_level_
        # Parameters count from the next fit on.
        assert "a false alarm is at most 0.01\n" in watch.set_params(alpha=0.2, window=5).summary()
        assert watch.update(OTHER).alarm.all()
        assert (watch.alarm_row_, watch.log_level_) == (row, level)
        assert "a false alarm is at most 0.2\n" in watch.fit(REFERENCE).summary()
        assert (watch.n_rows_, watch.alarm_, watch.log_evidence_) == (0, False, 0.0)

    @pytest.mark.parametrize("change", [(2.5, 0), (0.3, 0), (1, 2)], ids=["wider", "narrower", "elsewhere"])
    def test_every_kind_of_change_is_found(self, change):
        watch = DriftMonitor(DETECTOR).fit(REFERENCE)
        watch.update(SAME * change[0] + change[1])
        assert watch.alarm_

    @pytest.mark.slow
    @given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=5), most=st.sampled_from([10**5, 210]))
    @settings(max_examples=12, deadline=None)
    def test_batches_change_no_bit(self, cuts, most):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(monitor, "MOST_HELD", most)
            patch.setattr(monitor, "MOST_DRAWN", 50)
            whole, cut, single = (DriftMonitor(DETECTOR, window=40).fit(REFERENCE) for _ in range(3))
            found = whole.update(STREAM)
            parts = [cut.update(batch) for batch in np.split(STREAM, sorted(cuts)) if len(batch)]
            for row in STREAM:
                single.update(row[None])
        assert state(cut) == state(single) == state(whole)
        assert len(whole._bag) == min(most, 380)
        np.testing.assert_array_equal(whole._history[:, 0], np.arange(4, 181, 4))
        for name in ("row", "p_value", "log_evidence", "alarm", "accepted"):
            assert np.concatenate([getattr(part, name) for part in parts]).tobytes() == getattr(found, name).tobytes()
        for name in ("low", "high", "share", "n_rows"):
            joined, of_all = (np.concatenate([getattr(p.rejection, name) for p in some]) for some in (parts, [found]))
            assert joined.tobytes() == of_all.tobytes()
            assert getattr(whole.rate(), name) == of_all[-1]

    def test_the_seed_breaks_ties_and_nothing_else(self):
        watches = [DriftMonitor(DETECTOR, random_state=seed).fit(REFERENCE) for seed in (1, 1, 2)]
        p, same, different = (one.update(STREAM).p_value for one in watches)
        np.testing.assert_array_equal(p, same)
        assert (p != different).all()
        # One part of n + 1 is random, where no two scores are equal.
        assert (np.abs(p - different) < 1 / (len(REFERENCE) + np.arange(len(p)) + 1)).all()

    def test_frames_are_taken_as_the_estimator_takes_them_and_the_state_is_plain(self):
        frames = [pd.DataFrame(rows, columns=["a", "b"]) for rows in (TRAINING, REFERENCE, STREAM)]
        watch = DriftMonitor(make_pipeline(StandardScaler(), OneClassSlabSVM()).fit(frames[0])).fit(frames[1])
        assert watch.update(frames[2]).row.tolist() == list(range(1, 181))
        fitted = {name: value for name, value in vars(watch).items() if name not in watch.get_params()}
        assert {type(value) for value in fitted.values()} == {int, float, str, np.ndarray}
        assert clone(watch).get_params(deep=False).keys() == watch.get_params(deep=False).keys()


class TestReference:
    def test_a_calibrated_detector_brings_its_own(self):
        calibrated = ConformalDetector(OneClassSlabSVM()).fit(np.concatenate([TRAINING, REFERENCE]))
        watch = DriftMonitor(calibrated).fit()
        assert (watch.reference_, watch.n_reference_) == ("held-out", 200)
        assert "nearly" not in watch.summary()
        by_rows = DriftMonitor(calibrated).fit(np.concatenate([TRAINING, REFERENCE])[calibrated.held_out_])
        found = watch.update(STREAM)
        np.testing.assert_array_equal(found.p_value, by_rows.update(STREAM).p_value)
        np.testing.assert_array_equal(found.accepted, calibrated.predict(STREAM) == 1)

    def test_weights_of_calibration_rows_are_counts(self):
        weights, frozen = np.random.default_rng(1).integers(0, 3, 200), ConformalDetector(FrozenEstimator(DETECTOR))
        one = DriftMonitor(clone(frozen).fit(REFERENCE, sample_weight=weights)).fit()
        other = DriftMonitor(clone(frozen).fit(np.repeat(REFERENCE, weights, axis=0))).fit()
        np.testing.assert_array_equal(one.update(STREAM).p_value, other.update(STREAM).p_value)
        with pytest.raises(ValueError, match=r"not counts\. Give rows that the estimator has not learned"):
            DriftMonitor(frozen.fit(REFERENCE, sample_weight=weights / 2)).fit()

    @pytest.mark.parametrize(
        "detector", [OneClassSlabSVM(), AutoDetector(), make_pipeline(StandardScaler(), OneClassSVM())]
    )
    def test_leave_one_out_scores_stand_in_and_are_named(self, detector):
        watch = DriftMonitor(clone(detector).fit(TRAINING)).fit()
        assert (watch.reference_, watch.n_reference_) == ("leave-one-out", 200)
        assert "nearly: training rows stand in" in watch.summary()
        assert 0.4 < watch.update(SAME).p_value.mean() < 0.6
        watch.update(OTHER)
        assert watch.alarm_

    def test_rows_held_out_serve_any_detector(self):
        detector = make_pipeline(StandardScaler(), TheirOneClassSVM(gamma=0.1)).fit(TRAINING)
        watch = DriftMonitor(detector).fit(REFERENCE)
        np.testing.assert_array_equal(watch.update(STREAM).accepted, detector.predict(STREAM) == 1)
        assert watch.alarm_
        with pytest.raises(ValueError, match=r"leave-one-out scores.*Give rows that the estimator has not learned"):
            DriftMonitor(detector).fit()


LEARNERS = (OneClassSlabSVM(), OneClassSVM(kernel="linear"), AutoDetector(), ConformalDetector(), TrimmedDetector())
GROUPED = (OneClassSlabSVM(), OneClassSVM(calibration="training"), AutoDetector(), ConformalDetector())


class TestRefusals:
    @pytest.mark.parametrize("detector", [*LEARNERS, make_pipeline(StandardScaler(), OneClassSVM())])
    def test_rows_that_were_learned(self, detector):
        detector, shuffled = clone(detector).fit(TRAINING), np.random.default_rng(0).permutation(200)
        for rows in (TRAINING, TRAINING[shuffled[:60]], np.concatenate([REFERENCE[:150], TRAINING[shuffled[:50]]])):
            with pytest.raises(ValueError, match=r"reference rows were learned by the estimator.*fit\(X\)"):
                DriftMonitor(detector).fit(rows)
        assert DriftMonitor(detector).fit(REFERENCE).reference_ == "held-out"

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", DISCRETE)
    def test_rows_that_equal_learned_ones_by_nature_are_not_refused(self, kind):
        fresh, learned = [], []
        for seed in range(300):
            rows = DRAWS[kind](np.random.default_rng(seed), 500)
            numbers = np.unique(rows, axis=0, return_inverse=True)[1].ravel().astype(np.uint64)
            fresh.append(-np.log(monitor.chance_of_pairs(numbers[:300], numbers[300:])))
            learned.append(-np.log(monitor.chance_of_pairs(numbers[:300], numbers)))
        for probability in (0.1, 0.001):
            assert chance(fresh, probability) > ERROR
        assert chance(learned, 0.1) < ERROR

    @pytest.mark.parametrize("kind", DISCRETE)
    def test_own_scores_of_rows_that_repeat(self, kind):
        rows, held_out = np.split(DRAWS[kind](np.random.default_rng(0), 600), 2)
        model = OneClassSVM().fit(rows)
        for odd in (model, ConformalDetector().fit(np.concatenate([rows, held_out]))):
            with pytest.raises(ValueError, match=r"rows that the estimator has learned repeat others.*fit\(X\)"):
                DriftMonitor(odd).fit()
        assert DriftMonitor(model).fit(held_out).n_reference_ == 300
        assert DriftMonitor(ConformalDetector(FrozenEstimator(model)).fit(held_out)).fit().n_reference_ == 300
        # A row given twice among many is no reason.
        assert DriftMonitor(OneClassSVM().fit(np.concatenate([TRAINING, TRAINING[:2]]))).fit().n_reference_ == 202

    @pytest.mark.parametrize("detector", GROUPED)
    def test_an_estimator_of_groups_needs_one_row_of_each_group(self, detector):
        groups = np.arange(200) // 4
        grouped = clone(detector).fit(TRAINING, groups=groups)
        for model in (grouped, ConformalDetector(FrozenEstimator(grouped)).fit(SAME)):
            for rows in (None, REFERENCE):
                with pytest.raises(ValueError, match=r"was fitted with groups.*one row.*fit\(X, groups=\.\.\.\)"):
                    DriftMonitor(model).fit(rows)
            assert DriftMonitor(model).fit(REFERENCE, groups=np.arange(200)).n_reference_ == 200
        with pytest.raises(ValueError, match=r"Give these, too"):
            DriftMonitor(grouped).fit(groups=groups)
        with pytest.raises(ValueError, match=r"200 reference rows are of 50 groups.*Give one row of each group"):
            DriftMonitor(DETECTOR).fit(REFERENCE, groups=groups)

    @pytest.mark.parametrize("order", ["copies", "groups", "trend"])
    def test_a_reference_whose_order_carries_information(self, order):
        rng, noise = np.random.default_rng(1), np.random.default_rng(2).normal(size=(200, 2))
        rows = {
            "copies": np.repeat(noise[:100], 2, axis=0) + 1e-3 * noise,
            "groups": np.repeat(rng.normal(size=(20, 2)), 10, axis=0) + 0.2 * noise,
            "trend": noise + np.linspace(0, 4, 200)[:, None],
        }[order]
        with pytest.raises(ValueError, match=r"order of the reference rows carries information.*0\.\d"):
            DriftMonitor(DETECTOR).fit(rows)
        assert DriftMonitor(DETECTOR).fit(rows[rng.permutation(200)]).n_reference_ == 200
        if order != "trend":
            with pytest.raises(ValueError, match="order of the reference rows carries information"):
                DriftMonitor(KernelDensityDetector().fit(rows)).fit()

    def test_a_reference_in_random_order_is_not_refused(self):
        for seed in range(300):
            scores = np.random.default_rng(seed).geometric([0.98, 0.3, 1e-9][seed % 3], 20 + seed).astype(float)
            assert DriftMonitor(FIRST).fit(scores[:, None]).n_reference_ == 20 + seed

    def test_what_is_not_fitted_and_a_classifier(self):
        with pytest.raises(NotFittedError):
            DriftMonitor(OneClassSlabSVM()).fit(REFERENCE)
        for method in (lambda watch: watch.update(SAME), DriftMonitor.rate, DriftMonitor.summary):
            with pytest.raises(NotFittedError):
                method(DriftMonitor(DETECTOR))
        labels = np.arange(200) % 2
        with pytest.raises(ValueError, match="needs a detector, which learns from one class alone"):
            DriftMonitor(OpenSetClassifier().fit(TRAINING + 9.0 * labels[:, None], labels)).fit(REFERENCE)

    def test_rows_that_the_estimator_refuses_or_cannot_score_change_nothing(self):
        watch = DriftMonitor(DETECTOR).fit(REFERENCE)
        watch.update(SAME[:50])
        before, gap = state(watch), np.where(np.arange(400).reshape(200, 2) == 7, np.nan, SAME)
        for rows, words in ((gap, "NaN"), (SAME[:, :1], "1 features"), (SAME[:0], "0 sample"), (SAME[0], "Reshape")):
            for change in (watch.update, watch.fit):
                with pytest.raises(ValueError, match=words):
                    change(rows)
                assert state(watch) == before
        with pytest.raises(ValueError, match="Row 1, counted from 0, has the score NaN"):
            DriftMonitor(FIRST).fit(REFERENCE).update(np.array([[0.0], [np.nan]]))

    @pytest.mark.parametrize("wrong", [{"alpha": 0}, {"alpha": 1.0}, {"window": 0}, {"confidence": 1}], ids=str)
    def test_parameters(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DriftMonitor(DETECTOR, **wrong).fit(REFERENCE)
