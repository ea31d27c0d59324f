"""A few known outliers: a classifier as a part of the sum, and the same recall."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from slabsvm import AutoDetector, TableEncoder
from slabsvm.ensemble.known import Trees, labelled, share_of
from slabsvm.fitted.training import FOLDS

pytestmark = pytest.mark.numeric


def normal(n, seed, d=4):
    return np.random.default_rng(seed).normal(size=(n, d))


def outliers(n, seed, d=4):
    """Rows that are not far out: a one-class model rejects some of them."""
    return np.random.default_rng(seed).normal(1.2, 0.3, size=(n, d))


X, Z = normal(450, 0), outliers(8, 1)
NEW, BAD = normal(2000, 2), outliers(500, 3)


@pytest.fixture(scope="module")
def plain():
    return AutoDetector().fit(X)


@pytest.fixture(scope="module")
def model():
    return AutoDetector().fit(X, known_outliers=Z)


def ranks(model):
    score = model.score_samples(np.concatenate([NEW, BAD]))
    return roc_auc_score(np.repeat([1, 0], [len(NEW), len(BAD)]), score)


@pytest.mark.slow
def test_outliers_like_the_known_ones_are_told_and_the_recall_is_kept(plain, model):
    assert ranks(model) > ranks(plain) + 0.03
    assert (model.predict(BAD) == -1).mean() > (plain.predict(BAD) == -1).mean() + 0.1
    # Three deviations of one model of 300 rows.
    assert (model.predict(NEW) == 1).mean() == pytest.approx(0.9, abs=0.055)
    assert model.expected_recall_ == pytest.approx(0.9, abs=0.01)


# What is drawn as good rows, and as known outliers of these: features, rows, labels and by how much they are shifted.
def shifted(by, count, d):
    return lambda rng, _: rng.normal(by, 1.0, (count, d))


def of_features(d):
    return lambda rng, n: rng.normal(size=(n, d))


def in_halves(rng, n):
    return np.round(2.0 * rng.normal(size=(n, 2))) / 2.0


KINDS = {
    "shifted by .7": (of_features(3), 400, shifted(0.7, 10, 3)),
    "two features": (of_features(2), 400, shifted(0.7, 10, 2)),
    "ten features": (of_features(10), 400, shifted(0.7, 10, 10)),
    "1,000 rows": (of_features(3), 1000, shifted(0.7, 10, 3)),
    "100 rows": (of_features(3), 100, shifted(0.7, 10, 3)),
    "far": (of_features(4), 400, shifted(3.0, 25, 4)),
    "one": (of_features(4), 400, shifted(1.5, 1, 4)),
    "mislabelled": (of_features(4), 400, shifted(0.0, 25, 4)),
    "heavy tails": (lambda rng, n: rng.standard_t(2, (n, 4)), 400, lambda rng, _: 1.5 + rng.standard_t(2, (10, 4))),
    "rounded and mislabelled": (in_halves, 400, lambda rng, _: in_halves(rng, 10)),
    "copies of learned rows": (of_features(5), 400, lambda _, X: X[:10]),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize(
    ("kind", "classifier"),
    [*((kind, None) for kind in KINDS), *((kind, SVC()) for kind in ("two features", "one", "mislabelled"))],
)
def test_the_share_of_new_positives_is_as_expected_whatever_the_labels(kind, classifier):
    draw, n, of = KINDS[kind]
    less = []
    for seed in range(20 if classifier else 12):
        rng = np.random.default_rng(seed)
        good = draw(rng, n)
        model = AutoDetector(classifier=classifier).fit(good, known_outliers=of(rng, good))
        less.append((model.predict(draw(rng, 2000)) == 1).mean() - model.expected_recall_)
    error = np.std(less) / np.sqrt(len(less))
    assert abs(np.mean(less)) < 0.02 + error


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("calibration", ["auto", "held-out", "training"])
def test_every_calibration_takes_known_outliers_and_learns_known_positives(calibration):
    rng = np.random.default_rng(0)
    good, odd, bad = rng.normal(size=(200, 3)), rng.normal(2.0, 1.0, (40, 3)), rng.normal(3.0, 1.0, (10, 3))
    model = AutoDetector(calibration=calibration).fit(good, known_outliers=bad, known_positives=odd)
    nearest = model.model_.combination.views[0].nearest
    # A known positive is its own neighbour.
    distances = nearest.of_rows(model.model_.combination.views[0].of(odd), 1).distances[:, 0]
    assert (distances == 0).all()
    assert len(nearest.counts) == (140 if calibration == "held-out" else 240)
    assert (model.predict(rng.normal(size=(2000, 3))) == 1).mean() > 0.5
    assert (model.predict(bad) == -1).mean() > 0.5


def test_known_positives_that_are_rows_already_change_nothing():
    plain, model = AutoDetector().fit(X), AutoDetector().fit(X, known_positives=X[:30])
    np.testing.assert_array_equal(model.calibration_scores_, plain.calibration_scores_)


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("sizes", [[2100] + [10] * 59, [1500, 1000] + [10] * 58, [40] * 50], ids=len)
def test_a_group_that_holds_most_rows_leaves_others_to_the_classifier(sizes):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    good, bad = rng.normal(size=(len(groups), 3)), rng.normal(2, 1, (10, 3))
    model = AutoDetector().fit(good, groups=groups, known_outliers=bad)
    assert (model.predict(rng.normal(size=(2000, 3))) == 1).mean() == pytest.approx(model.expected_recall_, abs=0.05)
    assert (model.predict(rng.normal(2, 1, (2000, 3))) == -1).mean() > 0.7


def test_the_classifier_is_a_part_of_the_sum(plain, model):
    known, view = model.model_.combination.known, model.model_.combination.views[-1]
    assert known.share == share_of(len(Z)) == pytest.approx(24 / 44)
    expected = (1 - known.share) * plain.score_samples(NEW) - known.share * known.surprise_of(view.of(NEW))
    np.testing.assert_allclose(model.score_samples(NEW), expected, rtol=1e-9, atol=1e-9)
    assert "like known outliers" in model.outlier_to(BAD)[0]
    np.testing.assert_allclose(model.explain(BAD).sum(axis=1), model.decision_function(BAD), atol=1e-9)
    assert "55% of the sum" in model.summary()


@pytest.mark.slow
def test_left_out_scores_are_those_of_refits_without_a_fold(model, plain):
    combination, training = model.model_.combination, model.training(X, None)
    rows = combination.views[-1].of(training.samples)
    known = combination.views[-1].of(labelled(model, Z, "known_outliers"))
    fold, left_out = np.arange(len(rows)) % FOLDS, np.empty(len(rows))
    for number in range(FOLDS):
        some = rows[fold != number]
        y = np.repeat([1, -1], [len(some), len(known)])
        refit = clone(combination.known.classifier).fit(np.concatenate([some, known]), y)
        left_out[fold == number] = refit.score_samples(rows[fold == number])
    np.testing.assert_array_equal(np.sort(-left_out), combination.known.surprise.readings)
    share, places = share_of(len(Z)), training.distinct.representatives
    of_known = np.maximum(combination.known.surprise.of_learned(-left_out), 1.0)
    total = (1 - share) * plain.calibration_scores_[places] - share * of_known
    np.testing.assert_allclose(model.calibration_scores_[places], total, rtol=1e-9)


@pytest.mark.slow
def test_a_label_never_raises_the_p_value_of_its_own_row(plain):
    asked = outliers(4, 5)
    before = plain.p_values(asked)
    for place in range(len(asked)):
        after = AutoDetector().fit(X, known_outliers=asked[[place]]).p_values(asked[[place]])[0]
        assert after <= before[place] + 0.01


@pytest.mark.slow
def test_one_known_outlier_and_copies_of_it_are_enough():
    one = AutoDetector().fit(X, known_outliers=Z[:1])
    copies = AutoDetector().fit(X, known_outliers=np.repeat(Z[:1], 5, axis=0))
    assert ranks(one) > 0.5
    np.testing.assert_array_equal(one.score_samples(NEW), copies.score_samples(NEW))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, 450])
def test_known_positives_are_learned_and_judge_nothing(rows):
    strange, moved = np.random.default_rng(4).normal([4.0, 0, 0, 0], 0.2, size=(20, 4)), []
    for seed in range(2):
        good = normal(rows, seed)
        taught = AutoDetector().fit(good, known_outliers=Z, known_positives=strange)
        untaught = AutoDetector().fit(good, known_outliers=Z)
        assert taught.calibration_scores_.shape == (rows,)
        assert taught.n_samples_fit_ == rows
        assert taught.score_samples(strange + 0.05).mean() > untaught.score_samples(strange + 0.05).mean() + 1
        # Had they a say, 20 strange rows of 470 would make the threshold more lenient.
        assert taught.expected_recall_ == pytest.approx(untaught.expected_recall_, abs=1e-9)
        moved.append((taught.predict(NEW) == 1).mean() - (untaught.predict(NEW) == 1).mean())
    # Of 60 rows one draw's has a deviation of .02.
    assert abs(np.mean(moved)) < 0.03


@pytest.mark.slow
def test_of_many_rows_a_sample_is_learned_and_the_others_put_the_threshold():
    many = normal(3000, 11)
    sampled = AutoDetector(max_rows=500).fit(many, known_outliers=Z, known_positives=BAD[:3])
    assert len(sampled.sample_) == 500
    assert np.isfinite(sampled.calibration_scores_).sum() == 2500
    assert (sampled.predict(NEW) == 1).mean() == pytest.approx(0.9, abs=0.02)
    assert (sampled.predict(BAD) == -1).mean() > 0.6


@pytest.mark.slow
def test_sparse_rows_have_a_classifier_too():
    rows = sp.random_array((300, 30), density=0.2, random_state=0, format="csr")
    strange = sp.random_array((6, 30), density=0.2, random_state=1, format="csr") * 5
    found = AutoDetector().fit(rows, known_outliers=strange, known_positives=rows[:2] * 0.9)
    assert (found.predict(sp.random_array((50, 30), density=0.2, random_state=2, format="csr") * 5) == -1).all()
    np.testing.assert_allclose(found.explain(strange).sum(axis=1), found.decision_function(strange), atol=1e-9)


CLASSIFIERS = [SVC(), KNeighborsClassifier(3), ExtraTreesClassifier(20, random_state=0)]
CLASSIFIERS += [make_pipeline(StandardScaler(), SVC(class_weight="balanced"))]


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda classifier: type(classifier).__name__)
def test_any_classifier_may_be_given(classifier, plain):
    found = AutoDetector(classifier=classifier).fit(X, known_outliers=Z)
    assert ranks(found) > ranks(plain)
    assert (found.predict(NEW) == 1).mean() == pytest.approx(0.9, abs=0.04)
    np.testing.assert_allclose(found.explain(BAD[:9]).sum(axis=1), found.decision_function(BAD[:9]), atol=1e-9)
    assert repr(clone(found)) == repr(found)
    assert found.model_.combination.known.classifier.n_features_in_ == 4


def test_trees_score_as_scikit_learns_forest_does():
    rows, y = np.concatenate([X, Z]).astype(np.float32), np.repeat([1, -1], [len(X), 8])
    forest = ExtraTreesClassifier(30, random_state=0).fit(rows, y)
    trees = Trees.of(forest.estimators_)
    np.testing.assert_allclose(trees(NEW), forest.predict_proba(NEW)[:, 1], atol=1e-12)
    np.testing.assert_allclose(trees(sp.csr_array(NEW)), forest.predict_proba(NEW)[:, 1], atol=1e-12)
    assert set(trees.used) <= set(range(4))


@pytest.mark.slow
def test_in_a_pipeline_outliers_go_through_the_steps_by_name():
    table = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 0] > 0, "up", "down"))
    known = pd.DataFrame(Z, columns=list("abcd")).assign(e="up")
    encoder = TableEncoder().fit(table)
    by_hand = AutoDetector().fit(encoder.transform(table), known_outliers=encoder.transform(known))
    with sklearn.config_context(enable_metadata_routing=True):
        detector = AutoDetector().set_fit_request(known_outliers=True)
        pipeline = make_pipeline(TableEncoder(), detector, transform_input=["known_outliers"])
        pipeline.fit(table, known_outliers=known)
    expected = by_hand.decision_function(encoder.transform(known))
    np.testing.assert_array_equal(pipeline.decision_function(known), expected)
    with pytest.raises(ValueError, match="only X passes through the earlier steps"):
        make_pipeline(TableEncoder(), AutoDetector()).fit(table, autodetector__known_outliers=known)


@pytest.mark.slow
def test_groups_are_left_out_whole():
    names = np.repeat(np.arange(60), 5)
    near = np.repeat(normal(60, 7), 5, axis=0) + 0.01 * normal(300, 8)
    found = AutoDetector().fit(near, groups=names, known_outliers=Z, known_positives=outliers(3, 9) - 1)
    assert found.calibration_scores_.shape == (300,)
    assert np.isfinite(found.calibration_scores_).all()
    assert (found.predict(NEW) == 1).mean() == pytest.approx(0.9, abs=0.1)
    assert (found.predict(BAD) == -1).mean() > 0.5
