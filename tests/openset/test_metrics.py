"""The open-set metrics, each against a second implementation that is written another way."""

import math
from itertools import product

import numpy as np
import pytest

from slabsvm.openset import metrics

pytestmark = pytest.mark.numeric

CLASSES = ["a", "b", "c"]


@pytest.fixture(name="truth")
def labels() -> np.ndarray:
    return np.random.default_rng(0).choice([*CLASSES, "?"], 60)


@pytest.fixture(name="answers")
def answered(truth) -> np.ndarray:
    random = np.random.default_rng(1)
    return np.where(random.uniform(size=60) < 0.6, truth, random.choice([*CLASSES, "?"], 60))


@pytest.fixture(name="scores", params=["continuous", "tied"])
def scored(request, truth) -> np.ndarray:
    random = np.random.default_rng(2)
    right = (truth[:, None] == np.array(CLASSES)).astype(float)
    scores = random.normal(size=(60, 3)) + 1.5 * right
    return scores if request.param == "continuous" else np.round(scores)


def test_openness_is_the_formula_and_0_where_nothing_is_unknown():
    assert metrics.openness(13, 13) == 0
    assert metrics.openness(13, 26) == pytest.approx(1 - math.sqrt(2 / 3))


@pytest.mark.parametrize("include", [True, False])
def test_f1_counts_an_unknown_sample_with_a_name_against_that_class(include, truth, answers):
    values = []
    for label in [*CLASSES, "?"] if include else CLASSES:
        hits = sum(t == a == label for t, a in zip(truth, answers, strict=True))
        values.append(2 * hits / (list(truth).count(label) + list(answers).count(label)))
    assert metrics.open_set_f1(truth, answers, "?", include_unknown=include) == pytest.approx(sum(values) / len(values))


def test_unknown_has_no_f1_where_it_is_not_met():
    assert metrics.open_set_f1(["a", "b"], ["a", "b"], "?") == 1.0
    assert metrics.open_set_f1(["a", "b"], ["a", "?"], "?") == pytest.approx(1 / 3)


def test_auroc_is_the_share_of_pairs_in_order(truth, scores):
    pairs = product(scores[truth != "?"].max(axis=1), scores[truth == "?"].max(axis=1))
    expected = np.mean([(k > u) + 0.5 * (k == u) for k, u in pairs])
    assert metrics.known_unknown_auroc(truth, scores, "?") == pytest.approx(expected)


def test_the_oscr_curve_holds_both_rates_at_every_threshold(truth, scores):
    curve = metrics.oscr_curve(truth, scores, CLASSES, "?")
    assert set(curve.thresholds[1:]) == set(scores.max(axis=1))
    rates = curve.false_positive_rate, curve.correct_classification_rate
    for fpr, ccr, threshold in zip(*rates, curve.thresholds, strict=True):
        named = [CLASSES[int(np.argmax(row))] if row.max() >= threshold else "" for row in scores]
        pairs = list(zip(named, truth, strict=True))
        assert fpr == pytest.approx(np.mean([name != "" for name, t in pairs if t == "?"]))
        assert ccr == pytest.approx(np.mean([name == t for name, t in pairs if t != "?"]))


def test_ccr_at_a_rate_is_the_highest_that_the_rate_allows(truth, scores):
    curve = metrics.oscr_curve(truth, scores, CLASSES, "?")
    for allowed in (0.0, 0.1, 0.5, 1.0):
        assert curve.ccr_at(allowed) == curve.correct_classification_rate[curve.false_positive_rate <= allowed].max()


def test_the_oscr_area_is_a_share_of_pairs_with_ties_by_half(truth, scores):
    known, unknown = scores[truth != "?"], scores[truth == "?"]
    right = [CLASSES[int(np.argmax(row))] == label for row, label in zip(known, truth[truth != "?"], strict=True)]
    half = []
    for (row, correct), other in product(zip(known, right, strict=True), unknown):
        half.append(correct * (0.5 * (row.max() > other.max()) + 0.5 * (row.max() >= other.max())))
    assert metrics.oscr_curve(truth, scores, CLASSES, "?").area == pytest.approx(np.mean(half))


def test_numbers_are_labels_too():
    truth, scores = [0, 0, 1, -1], [[0.9, 0.1], [0.2, 0.3], [0.1, 0.8], [0.25, 0.2]]
    assert metrics.oscr_curve(truth, scores, [0, 1], -1).area == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: metrics.openness(13, 12), "as many in testing"),
        (lambda: metrics.openness(0, 12), "at least one class in training"),
        (lambda: metrics.open_set_f1(["?"], ["?"], "?"), "no known class"),
        (lambda: metrics.open_set_f1(["a"], [-1], -1), "mix words and numbers"),
        (lambda: metrics.open_set_f1(["a", "?"], ["a", "?"], -1), "unknown_label=-1 and the labels"),
        (lambda: metrics.open_set_f1(["a"], ["a", "b"], "?"), "inconsistent numbers of samples"),
        (lambda: metrics.known_unknown_auroc(["a"], [[1.0]], "?"), "all of these are known"),
        (lambda: metrics.known_unknown_auroc(["?"], [[1.0]], "?"), "all of these are unknown"),
        (lambda: metrics.known_unknown_auroc(["a", "?"], [1.0, 2.0], "?"), "column for each known class"),
        (lambda: metrics.oscr_curve(["a", "?"], [[1.0], [np.nan]], ["a"], "?"), "Row 1 of scores, from 0, holds NaN"),
        (lambda: metrics.oscr_curve(["a", "?"], [[1.0], [2.0]], ["a", "b"], "?"), "have 1 column, and there are 2 cl"),
        (lambda: metrics.oscr_curve(["z", "?"], [[1.0], [2.0]], ["a"], "?"), "neither known classes nor"),
        (lambda: metrics.oscr_curve(["a", "?"], [[1.0], [2.0]], ["a"], "?").ccr_at(2.0), "between 0 and 1"),
    ],
)
def test_nonsense_is_refused_with_the_reason(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_unsigned_labels_and_signed_answers_stay_apart_beyond_the_digits_of_a_float():
    truth = np.array([2**60, 2**60 + 1, 2**60, 2**60 + 1], dtype=np.uint64)
    answers = np.array([2**60, 2**60, 2**60, -1])
    assert metrics.open_set_f1(truth, answers, -1) == pytest.approx((0.8 + 0 + 0) / 3)
