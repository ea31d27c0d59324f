"""A few known outliers: one more member, the same recall, and the same answers as ever where none is known."""

from copy import deepcopy

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

from slabsvm import AutoSlabSVM, TableEncoder
from slabsvm.ensemble.known import FOLDS, OutlierClassifier, Trees, labelled, share_of, with_surprises
from slabsvm.files import load, save, to_onnx
from slabsvm.files.models.archive import ModelFileError

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
    return AutoSlabSVM().fit(X)


@pytest.fixture(scope="module")
def model():
    return AutoSlabSVM().fit(X, known_outliers=Z)


@pytest.fixture(scope="module")
def of_support_vectors():
    return AutoSlabSVM(classifier=SVC()).fit(X, known_outliers=Z)


def ranks(model):
    score = model.score_samples(np.concatenate([NEW, BAD]))
    return roc_auc_score(np.repeat([1, 0], [len(NEW), len(BAD)]), score)


def parts(n, seed):
    """Rows of two numbers that go together, and of a category of three, one-hot."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    return np.column_stack(
        [10 + 0.2 * size, 50 + 2 * size + 0.4 * rng.normal(size=n), np.eye(3)[rng.integers(3, size=n)]]
    )


def test_the_recall_is_kept_where_columns_of_a_category_repeat_a_hundred_times():
    # A member on columns of the category alone scores each row by its copies there, learned or new.
    found = AutoSlabSVM().fit(parts(400, 0), known_outliers=parts(10, 1) - [0, 1.2, 0, 0, 0])
    assert (found.predict(parts(2000, 2)) == 1).mean() == pytest.approx(0.9, abs=0.04)


@pytest.mark.slow
def test_outliers_like_the_known_ones_are_told_and_the_recall_is_kept(plain, model):
    assert ranks(model) > ranks(plain) + 0.03
    assert (model.predict(BAD) == -1).mean() > (plain.predict(BAD) == -1).mean() + 0.1
    # Three deviations of one model of 300 rows.
    assert (model.predict(NEW) == 1).mean() == pytest.approx(0.9, abs=0.055)
    assert model.expected_recall_ == pytest.approx(0.9, abs=0.01)


@pytest.mark.slow
def test_the_recall_of_new_positives_is_kept_on_average_whatever_the_number_of_labels():
    counts = np.repeat([1, 5, 25], 3)
    recalls = [
        (AutoSlabSVM().fit(normal(400, 10 + draw), known_outliers=outliers(k, draw)).predict(NEW) == 1).mean()
        for draw, k in enumerate(counts)
    ]
    # One model of 400 rows, whose left-out scores are not those of folds, has a deviation of .015; nine have .005.
    assert np.mean(recalls) == pytest.approx(0.9, abs=0.015)


def test_the_classifier_is_one_more_member_and_the_others_are_what_they_were(plain, model):
    assert model.member_names_[:-1] == plain.member_names_
    assert model.member_names_[-1] == "classifier, as normal scores"
    np.testing.assert_array_equal(model.member_p_values(NEW)[:, :-1], plain.member_p_values(NEW))
    own = -np.log(model.member_p_values(NEW)[:, -1])
    share = share_of(len(Z), of_features=False)
    # It adds to what the others say, and takes nothing from it: a usual surprise is 1.
    expected = (1 - share) * plain.score_samples(NEW) - share * np.maximum(own, 1.0)
    np.testing.assert_allclose(model.score_samples(NEW), expected, rtol=1e-9, atol=1e-9)
    assert "classifier" in model.outlier_to(BAD)[0]
    shares = model.explain(BAD)
    np.testing.assert_allclose(shares.sum(axis=1), model.decision_function(BAD), atol=1e-9)


def said_without(model, training):
    """What each member but the classifier says of each training row without it, by its left-out scores."""
    members, found = model.model_.combination.members[:-1], []
    for member in members:
        view = model.model_.combination.views[member.view]
        rows = member.taken(view.transform(training.samples))
        refit = clone(member.detector)
        refit.fit_training(refit.training(rows, training.distinct.weights, None), part=True)
        found.append(-member.surprise.of_learned(refit.calibration_scores_))
    return np.column_stack(found)


@pytest.mark.slow
def test_left_out_scores_are_those_of_refits_without_a_fold(model, plain):
    member = model.model_.combination.members[-1]
    view = model.model_.combination.views[member.view]
    # Members learn distinct rows in the order of their hashes.
    training = model.training(X, None)
    known = labelled(model, Z, "known_outliers")
    others, of_known = said_without(model, training), plain.model_.combination.by_member(known)
    rows = with_surprises(view.transform(training.samples), others)
    known = with_surprises(view.transform(known), of_known)
    fold = np.arange(len(rows)) % FOLDS
    left_out = np.empty(len(rows))
    for number in range(FOLDS):
        some = rows[fold != number]
        learned = np.concatenate([some, known])
        y = np.repeat([1, -1], [len(some), len(known)])
        refit = clone(member.detector).fit(learned, y)
        left_out[fold == number] = refit.score_samples(rows[fold == number])
    np.testing.assert_array_equal(np.sort(left_out), member.surprise.shares.scores)
    share = share_of(len(Z), of_features=False)
    total = (1 - share) * plain.calibration_scores_[training.distinct.representatives]
    total -= share * np.maximum(member.surprise.of_learned(left_out), 1.0)
    np.testing.assert_allclose(model.calibration_scores_[training.distinct.representatives], total, rtol=1e-9)


@pytest.mark.slow
def test_a_label_never_raises_the_p_value_of_its_own_row(plain):
    asked = outliers(4, 5)
    before = plain.p_values(asked)
    for place in range(len(asked)):
        after = AutoSlabSVM().fit(X, known_outliers=asked[[place]]).p_values(asked[[place]])[0]
        assert after <= before[place] + 0.01


@pytest.mark.slow
def test_outliers_opposite_to_all_known_ones_are_no_more_normal_than_good_rows():
    found = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        good, new = rng.normal(size=(450, 4)), rng.normal(size=(500, 4))
        known, opposite = (rng.normal(side * 1.2, 0.3, size=(n, 4)) for side, n in ((1, 8), (-1, 200)))
        model = AutoSlabSVM().fit(good, known_outliers=known)
        scores = np.concatenate([model.score_samples(new), model.score_samples(opposite)])
        found.append(roc_auc_score(np.repeat([1, 0], [len(new), len(opposite)]), scores))
    # .72 without labels, .62 with these, each +- .03; .45 if what is normal to the classifier counted.
    assert np.mean(found) > 0.53


@pytest.mark.slow
def test_one_known_outlier_and_copies_of_it_are_enough():
    one = AutoSlabSVM().fit(X, known_outliers=Z[:1])
    copies = AutoSlabSVM().fit(X, known_outliers=np.repeat(Z[:1], 5, axis=0))
    assert ranks(one) > 0.5
    np.testing.assert_array_equal(one.score_samples(NEW), copies.score_samples(NEW))


@pytest.mark.slow
def test_neither_the_order_of_rows_nor_that_of_outliers_matters(model):
    turned = AutoSlabSVM().fit(X[::-1], known_outliers=Z[::-1])
    np.testing.assert_array_equal(turned.score_samples(NEW), model.score_samples(NEW))
    np.testing.assert_array_equal(turned.calibration_scores_[::-1], model.calibration_scores_)


@pytest.mark.slow
@pytest.mark.warns("equal rows of X, which count as positives")
def test_a_known_outlier_among_the_rows_is_a_warning():
    doubtful = AutoSlabSVM().fit(X, known_outliers=np.concatenate([Z, X[:2]]))
    assert doubtful.warning_.startswith("2 known outliers equal rows of X")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, 450])
def test_known_positives_are_learned_and_judge_nothing(rows):
    strange, moved = np.random.default_rng(4).normal([4.0, 0, 0, 0], 0.2, size=(20, 4)), []
    for seed in range(2):
        good = normal(rows, seed)
        taught = AutoSlabSVM().fit(good, known_outliers=Z, known_positives=strange)
        untaught = AutoSlabSVM().fit(good, known_outliers=Z)
        assert taught.calibration_scores_.shape == (rows,)
        assert taught.n_samples_fit_ == rows
        assert taught.score_samples(strange + 0.05).mean() > untaught.score_samples(strange + 0.05).mean() + 1
        # Had they a say, 20 strange rows of 470 would make the threshold more lenient.
        assert taught.expected_recall_ == pytest.approx(untaught.expected_recall_, abs=1e-9)
        moved.append((taught.predict(NEW) == 1).mean() - (untaught.predict(NEW) == 1).mean())
    # Of 60 rows one draw's has a deviation of .02.
    assert abs(np.mean(moved)) < 0.03


@pytest.mark.slow
def test_groups_are_left_out_whole():
    names = np.repeat(np.arange(60), 5)
    near = np.repeat(normal(60, 7), 5, axis=0) + 0.01 * normal(300, 8)
    found = AutoSlabSVM().fit(near, groups=names, known_outliers=Z, known_positives=outliers(3, 9) - 1)
    assert found.calibration_scores_.shape == (300,)
    assert np.isfinite(found.calibration_scores_).all()
    assert (found.predict(NEW) == 1).mean() == pytest.approx(0.9, abs=0.1)
    assert (found.predict(BAD) == -1).mean() > 0.5


@pytest.mark.slow
@pytest.mark.warns("of the samples repeat others, as given or by whole-number weights")
def test_a_weight_is_as_good_as_copies():
    weights = np.where(np.arange(len(X)) % 3 == 0, 3.0, 1.0)
    weighted = AutoSlabSVM().fit(X, sample_weight=weights, known_outliers=Z, known_positives=BAD[:2])
    copied = AutoSlabSVM().fit(np.repeat(X, weights.astype(int), axis=0), known_outliers=Z, known_positives=BAD[:2])
    np.testing.assert_array_equal(weighted.score_samples(NEW), copied.score_samples(NEW))


@pytest.mark.slow
def test_of_many_rows_a_sample_is_learned_and_the_others_put_the_threshold():
    many = normal(3000, 11)
    sampled = AutoSlabSVM(max_fit_samples=500).fit(many, known_outliers=Z, known_positives=BAD[:3])
    assert len(sampled.sample_) == 500
    assert np.isfinite(sampled.calibration_scores_).all()
    assert (sampled.predict(NEW) == 1).mean() == pytest.approx(0.9, abs=0.02)
    assert (sampled.predict(BAD) == -1).mean() > 0.6


@pytest.mark.slow
def test_dask_arrays_are_learned_where_they_are():
    array = pytest.importorskip("dask.array")
    many = normal(1200, 12)
    here = AutoSlabSVM(max_fit_samples=300).fit(many, known_outliers=Z)
    there = AutoSlabSVM(max_fit_samples=300).fit(array.from_array(many, chunks=(400, 4)), known_outliers=Z)
    np.testing.assert_array_equal(here.score_samples(NEW), there.score_samples(NEW))


@pytest.mark.slow
def test_sparse_rows_have_the_member_too():
    rows = sp.random_array((300, 30), density=0.2, random_state=0, format="csr")
    strange = sp.random_array((6, 30), density=0.2, random_state=1, format="csr") * 5
    found = AutoSlabSVM().fit(rows, known_outliers=strange, known_positives=rows[:2] * 0.9)
    assert found.member_names_[-1] == "classifier, as they are"
    assert (found.predict(sp.random_array((50, 30), density=0.2, random_state=2, format="csr") * 5) == -1).all()
    np.testing.assert_allclose(found.explain(strange).sum(axis=1), found.decision_function(strange), atol=1e-9)


@pytest.mark.parametrize(
    "classifier",
    [
        SVC(),
        KNeighborsClassifier(3),
        ExtraTreesClassifier(20, random_state=0),
        make_pipeline(StandardScaler(), SVC(class_weight="balanced")),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_any_classifier_may_be_the_member(classifier, plain):
    found = AutoSlabSVM(classifier=classifier).fit(X, known_outliers=Z)
    assert ranks(found) > ranks(plain)
    assert (found.predict(NEW) == 1).mean() == pytest.approx(0.9, abs=0.04)
    np.testing.assert_allclose(found.explain(BAD[:9]).sum(axis=1), found.decision_function(BAD[:9]), atol=1e-9)
    assert repr(clone(found)) == repr(found)
    # Of a user's own classifier nothing is known: it takes no left-out surprises.
    assert found.members_[-1].n_features_in_ == 4
    assert found.model_.combination.members[-1].weight == pytest.approx(0.35)


def test_trees_score_as_scikit_learns_forest_does():
    rows, y = np.concatenate([X, Z]).astype(np.float32), np.repeat([1, -1], [len(X), 8])
    forest = ExtraTreesClassifier(30, random_state=0).fit(rows, y)
    trees = Trees.of(forest.estimators_)
    np.testing.assert_allclose(trees(NEW), forest.predict_proba(NEW)[:, 1], atol=1e-12)
    np.testing.assert_allclose(trees(sp.csr_array(NEW)), forest.predict_proba(NEW)[:, 1], atol=1e-12)
    assert set(trees.used) <= set(range(4))


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (Z[:, :3], "known_outliers: X has 3 features"),
        (np.full((1, 4), np.nan), "known_outliers: Input X contains NaN"),
        (np.empty((0, 4)), "known_outliers: Found array with 0 sample"),
        (Z[0], "known_outliers: Expected 2D array"),
        (pd.DataFrame(Z, columns=list("abcd")), "known_outliers has named columns, and X has none. In a pipeline"),
    ],
    ids=range(5),
)
def test_what_cannot_be_rows_like_the_others_is_refused_and_the_model_stays(known, text, plain):
    found = deepcopy(plain)
    before = found.score_samples(NEW)
    with pytest.raises(ValueError, match=text):
        found.fit(X * 2, known_outliers=known)
    np.testing.assert_array_equal(found.score_samples(NEW), before)


def test_frames_must_have_the_same_columns():
    table = pd.DataFrame(X, columns=list("abcd"))
    AutoSlabSVM().fit(table, known_outliers=pd.DataFrame(Z, columns=list("abcd")))
    with pytest.raises(ValueError, match="known_outliers: The feature names should match"):
        AutoSlabSVM().fit(table, known_outliers=pd.DataFrame(Z, columns=list("abce")))


def test_a_classifier_that_says_no_sureness_is_refused():
    class Silent(SVC):
        decision_function = property()

    with pytest.raises(ValueError, match="has neither decision_function nor predict_proba"):
        AutoSlabSVM(classifier=Silent()).fit(X, known_outliers=Z)


@pytest.mark.slow
def test_in_a_pipeline_outliers_go_through_the_steps_by_name():
    table = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 0] > 0, "up", "down"))
    known = pd.DataFrame(Z, columns=list("abcd")).assign(e="up")
    encoder = TableEncoder().fit(table)
    by_hand = AutoSlabSVM().fit(encoder.transform(table), known_outliers=encoder.transform(known))
    with sklearn.config_context(enable_metadata_routing=True):
        detector = AutoSlabSVM().set_fit_request(known_outliers=True)
        pipeline = make_pipeline(TableEncoder(), detector, transform_input=["known_outliers"])
        pipeline.fit(table, known_outliers=known)
    np.testing.assert_array_equal(
        pipeline.decision_function(known), by_hand.decision_function(encoder.transform(known))
    )
    with pytest.raises(ValueError, match="only X passes through the earlier steps"):
        make_pipeline(TableEncoder(), AutoSlabSVM()).fit(table, autoslabsvm__known_outliers=known)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model", "of_support_vectors"])
def test_a_model_file_keeps_the_member(name, request, tmp_path):
    found = request.getfixturevalue(name)
    save(found, tmp_path / "model.slab")
    loaded = load(tmp_path / "model.slab")
    np.testing.assert_array_equal(loaded.decision_function(BAD), found.decision_function(BAD))
    np.testing.assert_array_equal(loaded.explain(BAD), found.explain(BAD))
    assert loaded.outlier_to(BAD) == found.outlier_to(BAD)
    assert isinstance(loaded.members_[-1], OutlierClassifier)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda member: member.trees_.left.__setitem__(5, 0), "a node leads to one before it"),
        (lambda member: setattr(member, "n_surprises", 3), "a member takes what another number of members say"),
    ],
    ids=["trees without end", "surprises of nobody"],
)
def test_a_file_is_refused_whose_member_no_fit_would_have_made(tmp_path, model, change, text):
    broken = deepcopy(model)
    change(broken.members_[-1])
    save(broken, tmp_path / "model.slab")
    with pytest.raises(ModelFileError, match=text):
        load(tmp_path / "model.slab")


@pytest.mark.slow
def test_a_forest_of_the_users_is_kept_without_the_parameter(tmp_path):
    found = AutoSlabSVM(classifier=ExtraTreesClassifier(10, random_state=0)).fit(X, known_outliers=Z)
    with pytest.raises(ModelFileError, match=r"classifier is of the class .*ExtraTreesClassifier, which is not kept"):
        save(found, tmp_path / "model.slab")
    save(found.set_params(classifier=None), tmp_path / "model.slab")
    np.testing.assert_array_equal(load(tmp_path / "model.slab").score_samples(NEW), found.score_samples(NEW))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_onnx_answers_as_the_model_does(model, dtype):
    runtime = pytest.importorskip("onnxruntime")
    rows = np.concatenate([NEW[:300], BAD[:100]]).astype(dtype)
    session = runtime.InferenceSession(to_onnx(model, dtype=dtype).SerializeToString())
    names = [one.name for one in session.get_outputs()]
    scores = session.run(None, {session.get_inputs()[0].name: rows})[names.index("score_samples")]
    np.testing.assert_allclose(np.ravel(scores), model.score_samples(rows), rtol=1e-3, atol=1e-3)


def test_a_classifier_of_the_users_has_no_form_in_onnx(of_support_vectors):
    pytest.importorskip("onnx")
    with pytest.raises(TypeError, match="OutlierClassifier has no form in ONNX"):
        to_onnx(of_support_vectors)
