"""scikit-learn's contract, its peers and its habits, kept by the estimator."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import gen_batches
from sklearn.utils.estimator_checks import parametrize_with_checks

import problems
from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    FitWarning,
    KernelDensityDetector,
    KernelPCADetector,
    NeighboursDetector,
    NormalScores,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
    p_values,
)
from slabsvm.runtime.arrays import STEP_BYTES

pytestmark = pytest.mark.numeric

KERNELS = tuple(problems.FORMULAS)
by_kernel = pytest.mark.parametrize("kernel", KERNELS)
# The others need k(x, x) of new rows, which a matrix of another diagonal than a constant one does not tell.
BY_MATRIX = ("one-class slab SVM", "one-class SVM")


# One of each class. A slab answers by training planes, as the checks of fit_predict want it, or by its others.
CHECKED = [OneClassSlabSVM(gamma="scale", calibration="training"), OneClassSlabSVM(gamma="scale"), OneClassSlabSVM()]
CHECKED += [OneClassSVM(gamma="scale"), SVDD(gamma="scale"), NeighboursDetector(), KernelPCADetector()]
CHECKED += [KernelDensityDetector(), ConformalDetector(OneClassSlabSVM(gamma="scale", ranking="centre"))]
# At the default alpha some of the training rows are rejected, which the checks of a classifier do not want.
CHECKED += [OpenSetClassifier(alpha=0.001), OpenSetClassifier(classifier=SVC(), alpha=0.001)]
LEARNED_ROWS = (
    "the check asks that some of the rows that were learned are rejected; at the default gamma each raises its own "
    "score above planes that are put for rows that were not learned"
)


def expected_to_fail(estimator):
    if isinstance(estimator, TrimmedDetector):
        return {}
    by_default = isinstance(estimator, OneClassSlabSVM) and estimator.gamma != "scale"
    return ({"check_outliers_train": LEARNED_ROWS} if by_default else {}) | problems.answering_without_each_row(
        estimator
    )


@parametrize_with_checks([*CHECKED, TrimmedDetector(), NormalScores()], expected_failed_checks=expected_to_fail)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([AutoDetector(recall=0.7)], expected_failed_checks=expected_to_fail)
def test_scikit_learns_own_checks_pass_for_the_default(estimator, check):
    check(estimator)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_bring_their_feature_names(frame, X, new):
    names = ["a", "b", "c", "d"]
    table, new_table = frame(dict(zip(names, X.T, strict=True))), frame(dict(zip(names, new.T, strict=True)))
    model = OneClassSlabSVM().fit(table)
    assert list(model.feature_names_in_) == names
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.predict(new_table), OneClassSlabSVM().fit(X).predict(new))
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*order"):
        model.predict(new_table[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*unseen"):
        model.predict(frame(dict(zip(["a", "b", "c", "z"], new.T, strict=True))))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(new)


@pytest.mark.parametrize("name", problems.WITH_KERNEL)
@by_kernel
def test_a_callable_or_a_precomputed_matrix_is_its_named_kernel(name, kernel, X, new):
    formula, _ = problems.FORMULAS[kernel]
    # A linear kernel of four features has four components, and nine tenths of the variance would take all of them.
    few = {"n_components": 2} if name == "kernel PCA" else {"tol": 1e-9}
    if name == "one-class slab SVM":
        # Only of a named kernel is it known that it is local, which the two-sided score asks.
        few["ranking"] = "centre"
    for calibration in ("auto", "training"):
        model = problems.FAMILY[name](gamma=0.5, calibration=calibration, **few)
        with warnings.catch_warnings(action="ignore"):
            named, called = (clone(model).set_params(kernel=each).fit(X) for each in (kernel, formula))
            given = clone(model).set_params(kernel="precomputed") if name in BY_MATRIX else None
            answers = [called.decision_function(new)]
            if given is not None:
                answers.append(given.fit(formula(X, X)).decision_function(formula(new, X)))
        expected = named.decision_function(new)
        for found in answers:
            np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
        if given is not None:
            assert given.dual_objective_ == pytest.approx(named.dual_objective_, rel=1e-8)
            assert called.dual_objective_ == pytest.approx(named.dual_objective_, rel=1e-8)


@pytest.mark.warns("The fitted w is zero")
def test_kernel_matrices_of_single_precision_are_no_less_positive():
    X = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    for K in (rbf_kernel(X, gamma=0.01), (X + 5) @ (X + 5).T):
        assert np.linalg.eigvalsh(K.astype(float))[0] < 0
        for form in (K, K.astype(np.float64)):
            assert OneClassSlabSVM(kernel="precomputed", epsilon=0.2).fit(form).status_ == "converged"
    centred = OneClassSlabSVM(kernel="precomputed").fit(X @ X.T)
    assert centred.status_ == "degenerate"


def test_the_order_of_a_precomputed_matrix_matters_no_more_than_its_gap():
    X = np.random.default_rng(0).normal(size=(300, 2))
    order = np.argsort(X[:, 0])
    K = rbf_kernel(X)
    shuffled = OneClassSlabSVM(kernel="precomputed", tol=1e-9).fit(K)
    ordered = OneClassSlabSVM(kernel="precomputed", tol=1e-9).fit(K[np.ix_(order, order)])
    assert ordered.dual_objective_ == pytest.approx(shuffled.dual_objective_, rel=1e-8)


def test_parameters_changed_after_a_fit_do_not_change_its_predictions(X):
    model = OneClassSlabSVM(epsilon=0.0).fit(X)
    expected = model.predict(X)
    np.testing.assert_array_equal(model.set_params(epsilon=0.5).predict(X), expected)


by_name = pytest.mark.parametrize("name", problems.FAMILY)


@pytest.mark.warns("The slab has no width")
def test_leave_one_out_decisions_follow_both_planes_of_a_slab(X):
    model = OneClassSlabSVM(gamma="scale", nu_lower=0.1, nu_upper=0.1).fit(X)
    assert not (model.predict(X) == -1).any()
    inside = (model.rho_lower_ <= model.calibration_scores_) & (model.calibration_scores_ <= model.rho_upper_)
    np.testing.assert_array_equal(model.calibration_decisions_ >= 0, inside)
    assert 0.15 < 1 - inside.mean() < 0.2
    with pytest.raises(
        AttributeError, match=r"has no calibration_decisions_\. Fit it with calibration='auto' or 'held-out'"
    ):
        _ = OneClassSlabSVM(calibration="training").fit(X).calibration_decisions_


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 20, 40])
def test_of_few_rows_the_recall_is_foretold_with_its_error_and_fewer_than_it_needs_are_warned_of(count):
    found = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(record=True, action="always") as warned:
            model = OneClassSlabSVM().fit(rng.normal(size=(count, 2)))
        met = (model.predict(rng.normal(size=(1000, 2))) == 1).mean()
        found.append((model.expected_recall_, model.expected_recall_error_, met))
        assert any(f"{count} distinct samples are few" in str(one.message) for one in warned) == (count < 40)
    foretold, error, met = np.array(found).T
    # Three standard errors of a mean of so many.
    assert abs(foretold.mean() - met.mean()) < 3 * met.std() / np.sqrt(len(found))
    # The error is that of one plane by exchangeable scores.
    assert error.mean() == pytest.approx(met.std(), rel=0.35)


@pytest.mark.warns("of the training samples are support vectors")
@pytest.mark.parametrize("name", ["one-class slab SVM", "one-class SVM", "SVDD"])
def test_the_expected_recall_is_that_of_this_model(name):
    generator = np.random.default_rng(0)
    X, new = generator.normal(8.0, 1.0, (300, 2)), generator.normal(8.0, 1.0, (4000, 2))
    chance = 3 * np.sqrt(0.25 / len(X))  # three standard deviations of a share among so many
    for calibration in ("auto", "training"):
        model = problems.FAMILY[name](gamma=3.0, calibration=calibration).fit(X)
        met = (model.predict(new) == 1).mean()
        if calibration == "auto":
            assert abs(model.expected_recall_ - met) < chance
            assert model.expected_recall_ > model.training_recall_bound_ + chance
        else:
            assert model.expected_recall_ == model.training_recall_bound_ < met + chance


@by_name
def test_every_detector_scores_sparse_rows_as_dense_ones(name, X, new):
    model = problems.FAMILY[name]().fit(X)
    expected = model.decision_function(new)
    allowed = 1e-6 * np.abs(expected).max()
    for form in (sp.csr_array, sp.csc_matrix):
        sparse = problems.FAMILY[name]().fit(form(X))
        np.testing.assert_allclose(sparse.decision_function(form(new)), expected, atol=allowed)
        np.testing.assert_allclose(model.decision_function(form(new)), expected, atol=allowed)


ROWS_OF, COUNTS = np.random.default_rng(0).normal(size=(60, 3)), np.random.default_rng(1).integers(0, 4, 60)
IN_GROUPS = {"groups": np.arange(60) // 4}
# One of the known positives is a row of weight 3, and the others are none.
POSITIVES = np.vstack([ROWS_OF[COUNTS == 3][:1], ROWS_OF[:2] + 1.5])
KNOWN = {"known_outliers": ROWS_OF[:4] + 3.0, "known_positives": POSITIVES}
SEEN = FrozenEstimator(OneClassSVM().fit(ROWS_OF + 0.1))
# A model, what it is asked, what it is given besides, and by how much answers may differ.
COUNTED = {
    **{f"SVDD, C {C}": (SVDD(kernel="linear", C=C), "decision_function", {}, 1e-9) for C in (0.02, 0.05, 0.3)},
    "slab by groups": (OneClassSlabSVM(), "decision_function", IN_GROUPS, 1e-9),
    "p-values": (OneClassSVM(), p_values, {}, 1e-12),
    "calibrated": (ConformalDetector(OneClassSVM(), alpha=0.2), "p_values", {}, 1e-12),
    "calibrated as it is": (ConformalDetector(SEEN, alpha=0.2), "p_values", {}, 1e-12),
    "calibrated as it is, by groups": (ConformalDetector(SEEN, alpha=0.2), "p_values", IN_GROUPS, 1e-12),
    "average": (AutoDetector(), "decision_function", {}, 1e-6),
    "average of sparse rows": (AutoDetector(), "decision_function", {}, 1e-6),
    "average with known outliers": (AutoDetector(), "score_samples", KNOWN, 1e-9),
    "average with few known positives": (AutoDetector(), "decision_function", {"known_positives": POSITIVES}, 1e-6),
}


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
@pytest.mark.parametrize("name", COUNTED)
def test_a_whole_weight_means_repetition(name):
    model, ask, given, allowed = COUNTED[name]
    form, places = sp.csr_array if "sparse" in name else np.asarray, np.repeat(np.arange(60), COUNTS)
    weighted = clone(model).fit(form(ROWS_OF), sample_weight=COUNTS, **given)
    repeated = {key: value[places] if key == "groups" else value for key, value in given.items()}
    copied, new = clone(model).fit(form(ROWS_OF[places]), **repeated), form(2.0 * ROWS_OF[::-1])
    answers = [ask(one, new) if callable(ask) else getattr(one, ask)(new) for one in (weighted, copied)]
    np.testing.assert_allclose(*answers, rtol=allowed, atol=allowed)
    if hasattr(weighted, "calibration_decisions_"):
        np.testing.assert_array_equal(np.isnan(weighted.calibration_decisions_), COUNTS == 0)


@pytest.mark.warns("The slab has no width", cases=["class slab SVM"])
@pytest.mark.warns("of the training samples are support vectors", cases=["SVDD", "class SVM"])
@pytest.mark.warns("With calibration='training' expect", cases=["kernel density", "kernel PCA"])
@by_name
def test_every_detector_forgets_its_first_fit(name, X, new):
    model = problems.FAMILY[name]().fit(X)
    model.set_params(calibration="training").fit(X[:100])
    fresh = problems.FAMILY[name](calibration="training").fit(X[:100])
    assert set(vars(model)) == set(vars(fresh))
    np.testing.assert_array_equal(model.decision_function(new), fresh.decision_function(new))


@by_name
def test_many_rows_are_scored_as_few_are(name, X):
    # Two blocks and a part of one, and a tenth of a block at a time.
    height = STEP_BYTES // (8 * len(X))
    new = np.random.default_rng(3).gamma(32.0, 1 / 8, (5 * height // 2, 4))
    model = problems.FAMILY[name]().fit(X)
    whole = model.decision_function(new)
    few = np.concatenate([model.decision_function(new[rows]) for rows in gen_batches(len(new), height // 10)])
    np.testing.assert_allclose(few, whole, atol=1e-12 * np.abs(whole).max())


# fit_predict answers each row as the model without it does.


RNG = np.random.default_rng(0)
PLANTED = np.arange(0, 200, 20)
ROWS = RNG.normal(size=(200, 3))
# Each by itself, a long way out.
ROWS[PLANTED] = 12.0 * np.linalg.qr(RNG.normal(size=(10, 10)))[0][:, :3] + 9.0 * RNG.choice([-1.0, 1.0], (10, 3))
LEAVING_OUT = {
    **{name: make() for name, make in problems.FAMILY.items()},
    "average": AutoDetector(),
    "average of drawn rows": AutoDetector(max_rows=120),
    "pipeline": make_pipeline(StandardScaler(), OneClassSVM()),
    "trimmed": TrimmedDetector(),
    "calibrated": ConformalDetector(OneClassSVM(), alpha=0.1),
    "calibrated pipeline": ConformalDetector(make_pipeline(StandardScaler(), AutoDetector()), alpha=0.1),
}


# Frames, too, of one of each kind of wrapper.
@pytest.mark.parametrize(
    ("name", "rows"),
    [(name, ROWS) for name in LEAVING_OUT]
    + [(name, pd.DataFrame(ROWS, columns=list("abc"))) for name in ("SVDD", "average", "calibrated")],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_outliers_among_the_learned_rows_are_named_and_few_others(name, rows):
    labels = LEAVING_OUT[name].fit_predict(rows)
    assert labels.shape == (200,)
    assert labels.dtype.kind == "i"
    assert set(labels) == {-1, 1}
    theirs = LocalOutlierFactor(contamination=0.1).fit_predict(ROWS)
    assert (labels[PLANTED] == -1).mean() >= (theirs[PLANTED] == -1).mean() - 0.1
    assert (labels == -1).mean() < 0.17


def test_they_are_the_sign_of_the_left_out_decisions_and_predict_stays_what_it_is():
    """Of the others laws/test_answers.py holds it."""
    model, weights = AutoDetector(), np.ones(len(ROWS))
    weights[[0, 1]] = 0.0
    labels = model.fit_predict(ROWS, sample_weight=weights)
    np.testing.assert_array_equal(labels[2:] == 1, model.calibration_decisions_[2:] >= 0)
    # Rows of no weight are new ones.
    np.testing.assert_array_equal(labels[:2], model.predict(ROWS[:2]))
    np.testing.assert_array_equal(model.predict(ROWS), np.where(model.decision_function(ROWS) >= 0, 1, -1))


def test_with_groups_each_row_is_answered_without_its_group():
    groups = np.arange(200) // 2
    model = OneClassSVM()
    np.testing.assert_array_equal(model.fit_predict(ROWS, groups=groups) == 1, model.calibration_decisions_ >= 0)


def test_a_calibrated_detector_compares_scores_of_its_model_without_the_row():
    weights = np.ones(len(ROWS))
    weights[:5] = 0.0
    model = ConformalDetector(OneClassSVM(), alpha=0.1)
    labels = model.fit_predict(ROWS, sample_weight=weights)
    np.testing.assert_array_equal(labels[:5], model.predict(ROWS[:5]))
    held = model.held_out_
    np.testing.assert_array_equal(labels[held], model.predict(ROWS[held]))
    # By the rate, which a p-value reaches in whole steps and with one row more.
    assert (labels[held] == -1).mean() == pytest.approx(0.1, abs=2.0 / len(held))
    learned = np.setdiff1d(np.arange(5, len(ROWS)), held)
    below = model.calibration_scores_ <= model.estimator_.calibration_decisions_[:, None]
    p = (1 + below.sum(axis=1)) / (len(held) + 1)
    np.testing.assert_array_equal(labels[learned] == -1, p <= 0.1)


def test_a_calibrated_detector_of_few_rows_warns_once():
    with pytest.warns(FitWarning, match="Nothing will be rejected") as warned:
        labels = ConformalDetector().fit_predict(ROWS[1:13])
    assert (labels == 1).all()
    assert len(warned) == 1
