"""The monitor: alarms, batches, references, classes, rates, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
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
)
from slabsvm.files import load, save

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore::UserWarning")]

RNG = np.random.default_rng(0)
TRAINING, REFERENCE, SAME = RNG.normal(size=(3, 200, 2))
OTHER = RNG.normal(1.5, size=(60, 2))
STREAM = np.concatenate([SAME[:120], OTHER])
DETECTOR = OneClassSlabSVM().fit(TRAINING)
LABELS = RNG.integers(0, 3, 600)
CLASSES = RNG.normal(size=(600, 2)) + 9.0 * np.array([[0, 0], [1, 0], [0, 1]])[LABELS]
CLASSIFIER = OpenSetClassifier().fit(CLASSES[:300], LABELS[:300])


def booleans(rng, count):
    return (rng.random((count, 10)) < np.linspace(0.05, 0.5, 10)).astype(float)


def counts(rng, count):
    return rng.poisson(3.0, (count, 2)).astype(float)


def zipf(rng, count):
    return rng.zipf(1.7, (count, 3)).astype(float)


def half_repeated(rng, count):
    rows, known = rng.normal(size=(count, 3)), np.arange(15.0).reshape(5, 3) / 10 - 0.7
    return np.where(rng.random((count, 1)) < 0.5, known[rng.integers(0, 5, count)], rows)


DISCRETE = (booleans, counts, zipf, half_repeated)


def state(monitor):
    """Return all that a monitor knows, as bytes."""
    course = monitor.course_
    parts = [course.n_rows, course.n_alarms, course.alarm_row, course.tallies, course.history.points.tobytes()]
    for test in course.tests:
        wealth = test.wealth
        parts += [test.bag.scores.tobytes(), test.bag.n_ranked, wealth.n_rows]
        parts += [part.tobytes() for part in (wealth.log_wealth, wealth.counts, np.asarray(wealth.log_value))]
    return parts


class TestAlarm:
    def test_a_change_is_found_soon_and_stays_found(self):
        monitor = DriftMonitor(DETECTOR).fit(REFERENCE)
        before = monitor.update(SAME)
        assert not monitor.alarm_
        assert not before.alarms.any()
        assert "no alarm" in monitor.summary()
        after = monitor.update(OTHER)
        assert monitor.alarm_
        assert 200 < monitor.alarm_row_ <= 240
        first = int(np.flatnonzero(after.alarms)[0])
        assert after.row[first] == monitor.alarm_row_
        assert after.log_evidence[first] >= np.log(100) > after.log_evidence[:first].max()
        assert after.alarms[first:].tolist() == [1] * (60 - first)
        assert f"ALARM      at row {monitor.alarm_row_}" in monitor.summary()
        assert monitor.log_evidence_ == after.log_evidence[-1]
        row = monitor.alarm_row_
        monitor.update(OTHER)
        assert (monitor.alarm_row_, monitor.n_alarms_) == (row, 1)

    @pytest.mark.parametrize(
        "change", [lambda X: X * 2.5, lambda X: X * 0.3, lambda X: X + 2], ids=["wider", "narrower", "elsewhere"]
    )
    def test_every_kind_of_change_is_found(self, change):
        monitor = DriftMonitor(DETECTOR).fit(REFERENCE)
        monitor.update(change(SAME))
        assert monitor.alarm_

    def test_with_a_run_length_alarms_come_again(self):
        monitor = DriftMonitor(DETECTOR, run_length=200).fit(REFERENCE)
        found = monitor.update(np.concatenate([SAME[:20], OTHER]))
        assert monitor.log_level_ == pytest.approx(np.log(200))
        assert monitor.n_alarms_ > 1
        rows = found.row[np.flatnonzero(np.diff(found.alarms, prepend=0))]
        assert rows[-1] == monitor.alarm_row_
        assert len(rows) == monitor.n_alarms_
        assert "a false alarm comes after 200 rows or more" in monitor.summary()
        # What is read at an alarm is what raised it; the stakes after it are new.
        assert "alarms, the last at row" in monitor.summary()

    @pytest.mark.parametrize(("detector", "reference"), [(DETECTOR, REFERENCE), (CLASSIFIER, CLASSES[300:])])
    def test_the_promise_is_that_of_the_stream_whatever_is_set_since(self, detector, reference):
        monitor = DriftMonitor(detector, alpha=0.02).fit(reference)
        assert "a false alarm is at most 0.02" in monitor.set_params(alpha=0.2).summary()
        assert "a false alarm is at most 0.02" in monitor.set_params(run_length=300).summary()
        assert "300 rows or more" in monitor.fit(reference).summary()
        assert "300 rows or more" in monitor.set_params(run_length=None).summary()

    def test_the_mix_of_classes_is_tested(self):
        monitor = DriftMonitor(CLASSIFIER).fit(CLASSES[300:500])
        same = monitor.update(CLASSES[500:])
        assert not monitor.alarm_
        # Rows as good as any, of one class.
        found = monitor.update(CLASSES[:300][LABELS[:300] == 2])
        assert monitor.alarm_
        assert found.class_log_evidence.max() > monitor.log_level_ > found.log_evidence.max()
        assert len(same.class_log_evidence) == 100
        assert "classes" in monitor.summary()

    def test_bets_on_classes_know_nothing_of_the_rows_ranked_among(self):
        reference = CLASSES[300:500]
        scores, mix = DriftMonitor(CLASSIFIER).fit(reference).course_.tests
        assert (len(scores.bag.scores), len(mix.bag.scores)) == (200, 175)
        named = np.searchsorted(CLASSIFIER.classes_, CLASSIFIER.predict(reference)) + 1.0
        named[CLASSIFIER.predict(reference) == CLASSIFIER.unknown_label_] = 0
        # The bins have the shares of the other rows, each class with half a row more.
        others = np.bincount(named.astype(int), minlength=4) - np.bincount(mix.bag.scores.astype(int), minlength=4)
        assert others.sum() == 25
        np.testing.assert_allclose(np.diff(mix.betting.edges), (others + 0.5) / 27, rtol=1e-12)

    def test_the_scores_of_a_classifier_are_tested(self):
        monitor = DriftMonitor(CLASSIFIER).fit(CLASSES[300:])
        found = monitor.update(CLASSES[:150] + 3.0)
        assert found.log_evidence.max() > monitor.log_level_


class TestBatches:
    @pytest.mark.slow
    @given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=5), most=st.sampled_from([None, 210]))
    @settings(max_examples=12, deadline=None)
    def test_the_state_does_not_depend_on_batches(self, cuts, most):
        whole = DriftMonitor(DETECTOR, max_scores=most, window=40).fit(REFERENCE)
        found = whole.update(STREAM)
        cut = DriftMonitor(DETECTOR, max_scores=most, window=40).fit(REFERENCE)
        parts = [cut.update(batch) for batch in np.split(STREAM, sorted(cuts)) if len(batch)]
        assert state(cut) == state(whole)
        for name in ("row", "p_value", "log_evidence", "alarms", "accepted"):
            assert np.concatenate([getattr(part, name) for part in parts]).tobytes() == getattr(found, name).tobytes()
        for name in ("low", "high", "share"):
            one_by_one = np.concatenate([getattr(part.rejection, name) for part in parts])
            assert one_by_one.tobytes() == getattr(found.rejection, name).tobytes()

    @pytest.mark.slow
    def test_row_by_row_is_the_same_too_and_with_a_run_length(self):
        whole = DriftMonitor(CLASSIFIER, run_length=300, window=7).fit(CLASSES[300:500])
        cut = DriftMonitor(CLASSIFIER, run_length=300, window=7).fit(CLASSES[300:500])
        stream = np.concatenate([CLASSES[500:540], CLASSES[:60] + 2])
        whole.update(stream)
        for row in stream:
            cut.update(row[None])
        assert whole.n_alarms_
        assert state(cut) == state(whole)

    def test_the_seed_breaks_ties_and_nothing_else(self):
        first, again, other = (DriftMonitor(DETECTOR, random_state=seed).fit(REFERENCE) for seed in (1, 1, 2))
        p, same, different = (one.update(STREAM).p_value for one in (first, again, other))
        np.testing.assert_array_equal(p, same)
        assert (p != different).all()
        # One part of n + 1 is random, where no two scores are equal.
        assert (np.abs(p - different) < 1 / (len(REFERENCE) + np.arange(len(p)) + 1)).all()


class TestReference:
    def test_a_calibrated_detector_brings_its_own(self):
        detector = ConformalDetector(OneClassSlabSVM(), random_state=0).fit(np.concatenate([TRAINING, REFERENCE]))
        monitor = DriftMonitor(detector).fit()
        assert (monitor.reference_, monitor.n_reference_) == ("held-out", 200)
        assert "nearly" not in monitor.summary()
        # The same ranks as those of the rows themselves.
        rows = np.concatenate([TRAINING, REFERENCE])[detector.held_out_]
        by_rows = DriftMonitor(detector).fit(rows)
        np.testing.assert_array_equal(monitor.update(STREAM).p_value, by_rows.update(STREAM).p_value)

    def test_weights_of_calibration_rows_are_counts(self):
        counts = np.random.default_rng(1).integers(0, 3, len(REFERENCE))
        weighed = ConformalDetector(FrozenEstimator(DETECTOR)).fit(REFERENCE, sample_weight=counts)
        repeated = ConformalDetector(FrozenEstimator(DETECTOR)).fit(np.repeat(REFERENCE, counts, axis=0))
        one, other = DriftMonitor(weighed).fit(), DriftMonitor(repeated).fit()
        np.testing.assert_array_equal(one.update(STREAM).p_value, other.update(STREAM).p_value)
        halves = ConformalDetector(FrozenEstimator(DETECTOR)).fit(REFERENCE, sample_weight=counts / 2)
        with pytest.raises(ValueError, match=r"not counts\. Give rows that the estimator has not learned"):
            DriftMonitor(halves).fit()

    @pytest.mark.parametrize(
        "detector",
        [
            DETECTOR,
            AutoDetector().fit(TRAINING),
            make_pipeline(StandardScaler(), OneClassSVM()).fit(TRAINING),
        ],
        ids=["slab", "auto", "pipeline"],
    )
    def test_leave_one_out_scores_stand_in_and_are_named(self, detector):
        monitor = DriftMonitor(detector).fit()
        assert (monitor.reference_, monitor.n_reference_) == ("leave-one-out", 200)
        assert "nearly: training rows stand in" in monitor.summary()
        assert 0.4 < monitor.update(SAME).p_value.mean() < 0.6
        monitor.update(OTHER)
        assert monitor.alarm_

    @pytest.mark.parametrize(
        "detector",
        [
            TheirOneClassSVM().fit(TRAINING),
            make_pipeline(StandardScaler(), TheirOneClassSVM(gamma=0.1)).fit(TRAINING),
            ConformalDetector().fit(TRAINING),
        ],
        ids=["theirs", "pipeline", "calibrated"],
    )
    def test_rows_held_out_serve_any_detector(self, detector):
        monitor = DriftMonitor(detector).fit(REFERENCE)
        found = monitor.update(STREAM)
        np.testing.assert_array_equal(found.accepted, detector.predict(STREAM) == 1)
        assert monitor.alarm_

    @pytest.mark.parametrize(
        "detector",
        [
            DETECTOR,
            OneClassSVM(nu=0.02, gamma="scale"),
            OneClassSVM(kernel="linear"),
            KernelDensityDetector(),
            AutoDetector(),
            make_pipeline(StandardScaler(), PCA(2), OneClassSVM()),
            ConformalDetector(),
            TrimmedDetector(OneClassSVM()),
        ],
        ids=lambda detector: type(detector).__name__,
    )
    def test_rows_that_were_learned_are_refused(self, detector, tmp_path):
        detector = clone(detector).fit(TRAINING)
        save(detector, tmp_path / "model.skops")
        shuffled = np.random.default_rng(0).permutation(200)
        for model, rows in [
            (detector, TRAINING),
            (detector, TRAINING[shuffled[:60]]),
            (detector, np.concatenate([REFERENCE[:150], TRAINING[shuffled[:50]]])),
            (load(tmp_path / "model.skops"), TRAINING[shuffled]),
        ]:
            with pytest.raises(ValueError, match=r"reference rows were learned by the estimator.*fit\(X\)"):
                DriftMonitor(model).fit(rows)
        assert DriftMonitor(detector).fit(REFERENCE).reference_ == "held-out"

    def test_rows_that_a_classifier_has_learned_are_refused(self):
        with pytest.raises(ValueError, match=r"of the 300 reference rows were learned by the estimator"):
            DriftMonitor(CLASSIFIER).fit(CLASSES[:300])

    @pytest.mark.slow
    @pytest.mark.parametrize("draw", DISCRETE, ids=lambda draw: draw.__name__)
    def test_rows_that_repeat_need_rows_held_out_and_have_no_false_alarms_then(self, draw):
        alarms = 0
        for seed in range(8):
            rng = np.random.default_rng(seed)
            model = OneClassSVM().fit(draw(rng, 300))
            with pytest.raises(ValueError, match=r"rows that the estimator has learned repeat others.*fit\(X\)"):
                DriftMonitor(model).fit()
            monitor = DriftMonitor(model).fit(draw(rng, 300))
            monitor.update(draw(rng, 400))
            alarms += monitor.alarm_
        # With chances of .01 each: 8 streams have two with probability .003.
        assert alarms <= 1

    def test_a_calibration_that_parts_equal_rows_from_learned_ones_is_no_reference_and_one_by_the_user_is(self):
        rng = np.random.default_rng(0)
        learned, held_out = booleans(rng, 200), booleans(rng, 200)
        with pytest.raises(ValueError, match=r"repeat others.*fit\(X\)"):
            DriftMonitor(ConformalDetector().fit(np.concatenate([learned, held_out]))).fit()
        by_the_user = ConformalDetector(FrozenEstimator(OneClassSVM().fit(learned))).fit(held_out)
        assert DriftMonitor(by_the_user).fit().n_reference_ == 200

    def test_a_row_given_twice_among_many_is_no_reason_to_refuse(self):
        model = OneClassSVM().fit(np.concatenate([TRAINING, TRAINING[:2]]))
        assert DriftMonitor(model).fit().n_reference_ == 202

    def test_frames_are_taken_as_the_estimator_takes_them(self):
        frames = [pd.DataFrame(rows, columns=["a", "b"]) for rows in (TRAINING, REFERENCE, STREAM)]
        detector = make_pipeline(StandardScaler(), OneClassSlabSVM()).fit(frames[0])
        assert DriftMonitor(detector).fit(frames[1]).update(frames[2]).row.tolist() == list(range(1, 181))


class TestRates:
    def test_rates_are_those_of_the_rows(self):
        monitor = DriftMonitor(DETECTOR, window=1000).fit(REFERENCE)
        known = np.r_[np.ones(100), np.zeros(20), -np.ones(60)]
        found = monitor.update(STREAM, known)
        rejected = DETECTOR.predict(STREAM) == -1
        np.testing.assert_array_equal(found.rejection.share, np.cumsum(rejected) / np.arange(1, 181))
        assert monitor.rate().share == rejected.mean()
        assert monitor.rate("recall").share == 1 - rejected[:100].mean()
        assert monitor.rate("detection").share == rejected[120:].mean()
        rate = monitor.rate("recall")
        assert rate.low < rate.share < rate.high
        assert rate.n_rows == 100
        for word in ("rejection", "recall", "detection"):
            assert word in monitor.summary()


class TestRefusals:
    @pytest.mark.parametrize("method", [lambda m: m.update(SAME), lambda m: m.rate(), lambda m: m.summary()])
    def test_an_estimator_or_a_monitor_that_is_not_fitted(self, method):
        with pytest.raises(NotFittedError):
            DriftMonitor(OneClassSlabSVM()).fit(REFERENCE)
        with pytest.raises(NotFittedError):
            method(DriftMonitor(DETECTOR))

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            (np.where(np.arange(400).reshape(200, 2) == 7, np.nan, SAME), "NaN"),
            (SAME[:, :1], "1 features"),
            (SAME[:0], "0 sample"),
            (SAME[0], "Reshape"),
        ],
        ids=["NaN", "width", "no rows", "one dimension"],
    )
    def test_rows_that_the_estimator_refuses_change_nothing(self, rows, words):
        monitor = DriftMonitor(DETECTOR).fit(REFERENCE)
        monitor.update(SAME[:50])
        before = state(monitor)
        with pytest.raises(ValueError, match=words):
            monitor.update(rows)
        assert state(monitor) == before

    def test_scores_that_are_nan(self):
        class Lost(TheirOneClassSVM):
            def decision_function(self, X):
                return np.where(X[:, 0] > 2, np.nan, super().decision_function(X))

        monitor = DriftMonitor(Lost().fit(TRAINING)).fit(REFERENCE[REFERENCE[:, 0] < 2])
        with pytest.raises(ValueError, match="score of row 1, counted from 0, is NaN"):
            monitor.update(np.array([[0.0, 0.0], [3.0, 0.0]]))

    @pytest.mark.parametrize("y", [[1, 2], [1], [[1], [0]], ["a", "b"]], ids=str)
    def test_what_is_known_of_rows_in_other_words(self, y):
        with pytest.raises(ValueError, match=r"y must hold 1 \(good\), -1 \(an outlier\) or 0"):
            DriftMonitor(DETECTOR).fit(REFERENCE).update(SAME[:2], y)

    @pytest.mark.parametrize(
        ("detector", "words"),
        [
            (TheirOneClassSVM().fit(TRAINING), "leave-one-out scores.*Give rows that the estimator has not learned"),
            (CLASSIFIER, "keeps no rows"),
        ],
        ids=["theirs", "classifier"],
    )
    def test_estimators_without_scores_of_their_own(self, detector, words):
        with pytest.raises(ValueError, match=words):
            DriftMonitor(detector).fit()

    @pytest.mark.parametrize(
        "wrong",
        [{"alpha": 0}, {"alpha": 1.0}, {"run_length": 0}, {"window": 0}, {"confidence": 1}, {"max_scores": 0}],
        ids=str,
    )
    def test_parameters(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DriftMonitor(DETECTOR, **wrong).fit(REFERENCE)

    def test_a_rate_of_another_name(self):
        with pytest.raises(ValueError, match="no rate 'precision'; there are rejection, recall, detection"):
            DriftMonitor(DETECTOR).fit(REFERENCE).rate("precision")
