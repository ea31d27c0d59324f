"""Rows that come in groups: thresholds by whole groups left out, for rows of new groups."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from positives import grouped
from slabsvm import SVDD, KernelDensityDetector, OneClassSlabSVM, OneClassSVM, p_values

# Few groups and rows are enough for what is exact.
pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore:.* are few to set a threshold")]

MODELS = [OneClassSlabSVM(), OneClassSVM(), SVDD(), KernelDensityDetector()]


@pytest.mark.slow
@pytest.mark.warns("of the training rows, and of rows that repeat them", cases=["OneClassSlabSVM"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_rows_of_new_groups_are_accepted_as_asked_where_single_rows_left_out_lose_many(model):
    (new, _), by_rows, by_groups = grouped(1000, 1, seed=99), [], []
    for seed in range(3):
        X, groups = grouped(seed=seed)
        by_rows.append((model.fit(X).predict(new) == 1).mean())
        by_groups.append((model.fit(X, groups=groups).predict(new) == 1).mean())
    # The recall of one model has a standard deviation of about sqrt(.09 / 40), of three .03.
    assert np.mean(by_groups) == pytest.approx(0.9, abs=0.07)
    assert np.mean(by_rows) < np.mean(by_groups) - 0.1


@pytest.mark.parametrize("model", MODELS)
def test_groups_of_one_row_are_rows(model):
    X = np.random.default_rng(0).normal(size=(60, 3))
    alone, each = clone(model).fit(X), model.fit(X, groups=np.arange(60))
    # A density without a row is a mean of as many, without a group one of what is left.
    allowed = np.log(60 / 59) if isinstance(model, KernelDensityDetector) else 0.0
    assert each.offset_ - alone.offset_ == pytest.approx(allowed, abs=1e-8 * np.abs(model.calibration_scores_).max())
    if hasattr(alone, "expected_recall_"):
        assert each.expected_recall_ == pytest.approx(alone.expected_recall_, abs=1e-6)


def test_all_groups_count_alike_however_many_rows_they_have():
    # Nine groups of two rows near 0, and one of a hundred far from them: a tenth of the groups.
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(18, 2)), 6 + 0.1 * rng.normal(size=(100, 2))])
    groups = np.concatenate([np.repeat(np.arange(9), 2), np.full(100, 9)])
    model = OneClassSVM(nu=0.15, gamma=0.3).fit(X, groups=groups)
    assert (model.calibration_decisions_[18:] < 0).all()
    shares = [(model.calibration_decisions_[groups == g] >= 0).mean() for g in range(10)]
    # A new group moves the plane's place among all rows by a part of its own weight, one in eleven.
    assert np.mean(shares) == pytest.approx(0.85, abs=0.05)
    assert 0 < np.mean(shares) - model.expected_recall_ < 1 / 11
    assert model.expected_recall_error_ == pytest.approx(np.std(shares, ddof=1) / np.sqrt(10))
    assert f"by left-out scores, +- {model.expected_recall_error_:.1%}" in model.summary()


def test_a_weight_of_0_leaves_a_row_of_a_group_out():
    X, groups = grouped(15, 4)
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    weighed = OneClassSlabSVM().fit(X, sample_weight=weights, groups=groups)
    np.testing.assert_array_equal(np.isnan(weighed.calibration_scores_), weights == 0)
    # No more of a group that weighs nothing.
    without = OneClassSlabSVM().fit(X, sample_weight=(groups > 0).astype(float), groups=groups)
    assert without.offset_ == OneClassSlabSVM().fit(X[groups > 0], groups=groups[groups > 0]).offset_


def test_a_row_that_several_groups_have_is_known_without_any_of_them():
    X, groups = grouped(12, 3)
    far = np.full((1, 3), 5.0)
    alone = OneClassSVM().fit(np.concatenate([X, far]), groups=np.append(groups, 0))
    shared = OneClassSVM().fit(np.concatenate([X, far, far]), groups=np.append(groups, [0, 1]))
    assert alone.calibration_decisions_[-1] < 0
    # Both rows score as new ones that repeat them.
    np.testing.assert_allclose(shared.calibration_decisions_[-2:], shared.decision_function(far)[0], atol=0.01)


def test_groups_far_out_are_told_apart_by_their_distance():
    X, groups = grouped(30, 4)
    out = np.array([[30.0, 0, 0], [30.1, 0, 0], [0, 60.0, 0], [0, 60.1, 0]])
    X, groups = np.concatenate([X, out]), np.append(groups, [30, 30, 31, 31])
    model = OneClassSlabSVM().fit(X, groups=groups)
    decisions = model.calibration_decisions_[-4:]
    assert decisions.max() < model.calibration_decisions_[:-4].min()
    assert decisions[2:].max() < decisions[:2].min()
    model.set_params(tol=1e-10).fit(X, groups=groups)
    for group in (30, 31):
        own = groups == group
        # The boxes of the others stay what they were, where nu is of so many more rows.
        grown = len(X) / (~own).sum()
        nus = {name: grown * getattr(model, name) for name in ("nu_lower", "nu_upper")}
        rest = OneClassSlabSVM(gamma=model.gamma_, tol=1e-10, **nus).fit(X[~own], groups=groups[~own])
        # Scores are within sqrt(2 gap k(x, x)) of the optimum's, where the gap is 1e-7 of the objective.
        allowed = np.sqrt(2.0 * 1e-7 * rest.dual_objective_) + np.sqrt(2.0 * rest.duality_gap_)
        np.testing.assert_allclose(model.calibration_scores_[own], rest.project(X[own]), atol=allowed)


def test_sparse_rows_and_matrices_have_groups_too():
    X, groups = grouped(15, 3)
    X += 4
    dense = OneClassSVM(kernel="linear").fit(X, groups=groups)
    sparse = OneClassSVM(kernel="linear").fit(sp.csr_array(X), groups=groups)
    given = OneClassSVM(kernel="precomputed").fit(X @ X.T, groups=groups)
    expected = dense.calibration_scores_
    for other in (sparse, given):
        np.testing.assert_allclose(other.calibration_scores_, expected, atol=0.02 * np.ptp(expected))


@pytest.mark.warns("of the training samples are support vectors")
def test_training_planes_have_no_use_for_groups():
    X, groups = grouped(15, 4)
    models = [OneClassSVM(calibration="training", gamma=1.0).fit(X, groups=names) for names in (None, groups)]
    assert models[0].offset_ == models[1].offset_


def of_any_kind(values):
    """Return an array that holds these values as they are."""
    names = np.empty(len(values), dtype=object)
    names[:] = values
    return names


def test_names_mean_what_they_are_whatever_holds_them():
    X, groups = grouped(10, 3)
    numbered = OneClassSVM().fit(X, groups=groups).offset_
    pairs = [(f"ward {n % 2}", int(n)) for n in groups]
    for names in (
        of_any_kind(pairs),
        pd.MultiIndex.from_tuples(pairs),
        pd.Categorical([f"patient {n}" for n in groups]),
        pd.Series(groups, index=groups[::-1], dtype="Int64"),
        np.datetime64("2026-01-01") + groups.astype("timedelta64[D]"),
        # A number is no word.
        [int(n) if n < 5 else str(n - 5) for n in groups],
    ):
        assert OneClassSVM().fit(X, groups=names).offset_ == numbered


@pytest.mark.parametrize("make", [OneClassSVM, KernelDensityDetector], ids=lambda make: make.__name__)
def test_p_values_of_rows_of_new_groups_are_at_most_alpha_as_often(make):
    """Rows of one group resemble each other: by rows .017 to .031 of new ones had a p-value of .01 or less."""
    below = {0.02: [], 0.1: []}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(160, 2))
        X = np.repeat(centres[:60], 5, axis=0) + 0.2 * rng.normal(size=(300, 2))
        new = centres[60:] + 0.2 * rng.normal(size=(100, 2))
        p = p_values(make().fit(X, groups=np.repeat(np.arange(60), 5)), new)
        assert p.min() >= 1 / 61 - 1e-12
        for alpha, shares in below.items():
            shares.append((p <= alpha).mean())
    for alpha, shares in below.items():
        assert np.mean(shares) <= alpha + 2 * np.std(shares) / np.sqrt(len(shares))
    assert np.mean(below[0.1]) > 0.06
