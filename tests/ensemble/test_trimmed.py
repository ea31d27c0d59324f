"""Training rows of which some are strangers: trimmed fits keep the recall, and rank better."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slabsvm import SVDD, OneClassSlabSVM, OneClassSVM, TrimmedDetector, explain

pytestmark = pytest.mark.numeric


def contaminated(share, seed=0, n=200):
    """Return rows of which a share are strangers that lie together, and which are."""
    rng = np.random.default_rng(seed)
    strange = np.arange(n) < share * n
    rows = np.where(strange[:, None], rng.normal(4.0, 0.5, size=(n, 3)), rng.normal(size=(n, 3)))
    return rows, strange


@pytest.mark.parametrize("model", [None, OneClassSlabSVM(), SVDD(), make_pipeline(StandardScaler(), OneClassSVM())])
def test_strangers_among_the_rows_are_not_learned_and_the_recall_is_kept(model):
    rng = np.random.default_rng(99)
    good, strange = rng.normal(size=(400, 3)), rng.normal(4.0, 0.5, size=(200, 3))
    is_good = np.repeat([True, False], [400, 200])
    recalls, areas, untrimmed = [], [], []
    for seed in range(4):
        X, _ = contaminated(0.15, seed)
        trimmed = TrimmedDetector(model).fit(X)
        decisions = trimmed.decision_function(np.concatenate([good, strange]))
        recalls.append((decisions[is_good] >= 0).mean())
        areas.append(roc_auc_score(is_good, decisions))
        plain = trimmed._detector.fit(X).score_samples(np.concatenate([good, strange]))
        untrimmed.append(roc_auc_score(is_good, plain))
    assert np.mean(recalls) > 0.86
    assert np.mean(areas) > 0.98
    assert np.mean(areas) > np.mean(untrimmed)


def test_the_recall_of_clean_rows_is_kept_too():
    new = np.random.default_rng(99).normal(size=(1000, 3))
    found = [(TrimmedDetector().fit(contaminated(0.0, seed)[0]).predict(new) == 1).mean() for seed in range(5)]
    # One model of 200 rows has a deviation of about .02, five of .01.
    assert np.mean(found) == pytest.approx(0.9, abs=0.03)


def test_what_is_trimmed_is_the_least_normal_and_is_named():
    X, strange = contaminated(0.1)
    model = TrimmedDetector(trim=0.1).fit(X)
    assert len(model.trimmed_) == 20
    assert strange[model.trimmed_].mean() > 0.9
    assert model.n_rounds_ <= 4
    # What was not learned is asked as new rows are.
    np.testing.assert_array_equal(model.decisions_[model.trimmed_], model.decision_function(X[model.trimmed_]))
    assert (model.decisions_ >= 0).mean() == pytest.approx(0.9, abs=0.01)
    np.testing.assert_allclose(model.explain(X[:5]).sum(axis=1), model.decision_function(X[:5]), atol=1e-9)
    np.testing.assert_array_equal(explain(model, X[:5]), model.explain(X[:5]))
    # In floating point .07 times 100 is more than 7.
    assert len(TrimmedDetector(trim=0.07).fit(X[:100]).trimmed_) == 7


GRID = np.stack(np.meshgrid(np.arange(7.0), np.arange(7.0)), axis=-1).reshape(-1, 2)
WIDE = OneClassSVM(gamma=1.0, nu=0.5)
FAR_AWAY = np.concatenate([np.linspace(0, 3, 60), np.geomspace(1e2, 1e4, 20)])[:, None]


@pytest.mark.warns("of the training rows, and of rows that repeat them", cases=["a grid"])
@pytest.mark.warns("a few extreme rows set the scale", cases=["far away"])
@pytest.mark.parametrize(
    ("X", "model"),
    [(GRID, TrimmedDetector(judge=SVDD())), (FAR_AWAY, TrimmedDetector(judge=WIDE, trim=0.1))],
    ids=["a grid", "far away"],
)
def test_rows_that_score_alike_are_trimmed_in_no_order_of_theirs(X, model):
    one = model.fit(X).decision_function(X)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(X))
        np.testing.assert_array_equal(model.fit(X[order]).decision_function(X), one)


def test_known_outliers_among_the_rows_are_not_learned_and_put_no_threshold():
    # More strangers than nu rejects: the threshold lies among them, unless half of them are known.
    X, strange = contaminated(0.18, 3)
    known = np.flatnonzero(strange)[::2]
    told, untold = TrimmedDetector().fit(X, outlier_rows=known), TrimmedDetector().fit(X)
    assert set(known) <= set(told.trimmed_)
    assert len(told.trimmed_) == len(untold.trimmed_)
    rng = np.random.default_rng(9)
    new, others = rng.normal(size=(1000, 3)), rng.normal(4.0, 0.5, size=(500, 3))
    assert (told.predict(others) == -1).mean() > (untold.predict(others) == -1).mean() + 0.2
    assert (told.predict(new) == 1).mean() > 0.86
    # More than are to be trimmed are left out all the same.
    assert len(TrimmedDetector(trim=0.05).fit(X, outlier_rows=np.flatnonzero(strange)).trimmed_) == strange.sum()
