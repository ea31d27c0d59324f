"""A search is warned of what leaks into the held-out rows, as far as the data can show it, and of nothing else."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from positives import correlated_rows
from slabsvm import AutoSlabSVM, DistinctKFold, LabelFreeSearchCV, LeakageWarning, OneClassSlabSVM, OneClassSVM
from slabsvm.selection.folds import warn_of_scaling

GRID = {"gamma": [0.01, 0.1, 1.0]}


def test_folds_are_of_one_size_and_keep_equal_rows_together():
    X = np.random.default_rng(0).integers(0, 4, (200, 3))
    held_out = []
    for train, test in DistinctKFold(4).split(X):
        assert not {*map(tuple, X[train])} & {*map(tuple, X[test])}
        assert sorted([*train, *test]) == list(range(200))
        held_out.append(len(test))
    assert sum(held_out) == 200
    assert max(held_out) - min(held_out) <= 3


def test_folds_depend_on_the_rows_and_not_on_their_order(X):
    order = np.random.default_rng(1).permutation(len(X))
    for (_, test), (_, again) in zip(DistinctKFold(4).split(X), DistinctKFold(4).split(X[order]), strict=True):
        assert {*map(tuple, X[test])} == {*map(tuple, X[order][again])}


@pytest.mark.slow
@pytest.mark.warns("repeat others")
def test_folds_that_equal_rows_straddle_are_warned_of(X):
    twice = np.repeat(X, 2, axis=0)
    folds = KFold(5, shuffle=True, random_state=0)
    known = sum(row in {*map(tuple, twice[a])} for a, b in folds.split(twice) for row in map(tuple, twice[b]))
    with pytest.warns(LeakageWarning, match=rf"are in several folds: {known} held-out rows.*DistinctKFold"):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=folds).fit(twice)
    with warnings.catch_warnings(action="error", category=LeakageWarning):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=5).fit(twice)


@pytest.mark.warns("separates synthetic outliers from positives")
@pytest.mark.warns("that was tried, and a better one may lie beyond")
def test_groups_and_generators_of_folds_are_taken(X):
    groups = np.arange(len(X)) % 7
    grouped = LabelFreeSearchCV(OneClassSVM(), GRID, cv=GroupKFold(3)).fit(X, groups=groups)
    given = LabelFreeSearchCV(OneClassSVM(), GRID, cv=GroupKFold(3).split(X, groups=groups)).fit(X)
    np.testing.assert_array_equal(grouped.cv_results_["mean_test_score"], given.cv_results_["mean_test_score"])
    assert grouped.n_splits_ == 3
    plain = LabelFreeSearchCV(OneClassSVM(), GRID, cv=KFold(3)).fit(X)
    assert (plain.cv_results_["split0_recall"] != grouped.cv_results_["split0_recall"]).any()


def of_pandas(X):
    frame = pd.DataFrame(X)
    return (frame - frame.mean()) / frame.std()  # with n - 1 in place of n


def with_flags(X):
    return np.column_stack([MinMaxScaler().fit_transform(X), X[:, 0] > 0])


@pytest.mark.filterwarnings("ignore::slabsvm.selection.GridEdgeWarning")
@pytest.mark.parametrize(
    ("scaled", "scaler"),
    [
        (StandardScaler().fit_transform, "StandardScaler"),
        (lambda X: StandardScaler().fit_transform(X.astype(np.float32)), "StandardScaler"),
        (of_pandas, "StandardScaler"),
        (MinMaxScaler().fit_transform, "MinMaxScaler"),
        (lambda X: MinMaxScaler().fit_transform(np.vstack([X, X[X[:, 0].argmax()]])), "MinMaxScaler"),
        (lambda X: MinMaxScaler().fit_transform(X.astype(np.float32)), "MinMaxScaler"),
        (with_flags, "MinMaxScaler"),
        (lambda X: np.column_stack([StandardScaler().fit_transform(X), np.full(len(X), 7.0)]), "StandardScaler"),
        (lambda X: np.column_stack([MinMaxScaler().fit_transform(X), np.full(len(X), 7.0)]), "MinMaxScaler"),
    ],
    ids=[
        *("numpy", "float32", "pandas", "stretched", "with a row twice", "stretched float32", "with flags"),
        *("with a constant", "stretched with a constant"),
    ],
)
def test_features_scaled_all_rows_together_are_warned_of(scaled, scaler, X):
    with pytest.warns(LeakageWarning, match=rf"make_pipeline\({scaler}\(\), detector\)"):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3).fit(scaled(X))


def pixels(n):
    return np.random.default_rng(0).integers(0, 256, (n, 6)) / 255


def natural_features():
    X, generator = correlated_rows(), np.random.default_rng(0)
    return {
        "as it is": X,
        "pixels / 255, every level often": pixels(3000),
        "pixels / 255, every level seldom": pixels(300),
        "digits' ink": load_digits().data[:200, 18:46] / 16,
        "flags": (X > 0).astype(float),
        "shares of four": generator.integers(0, 5, (120, 3)) / 4,
        "clipped": np.clip(0.5 + X / 2, 0, 1),
        "probabilities": 1 / (1 + np.exp(-X)),
        "random in [0, 1)": generator.random((500, 8)),
        "one feature standardised": np.column_stack([StandardScaler().fit_transform(X[:, :1]), X[:, 1:]]),
        "centred": X - X.mean(axis=0),
        "whole numbers": np.rint(X).astype(int),
    }


NATURAL = natural_features()


@pytest.mark.parametrize("name", NATURAL)
def test_features_that_were_not_scaled_are_not_warned_of(name):
    with warnings.catch_warnings(action="error", category=LeakageWarning):
        warn_of_scaling(NATURAL[name])


@pytest.mark.slow
def test_of_scaling_nothing_is_said_where_it_makes_no_difference_or_cannot_be_seen(X):
    scaled = StandardScaler().fit_transform(X)
    with warnings.catch_warnings(action="error", category=LeakageWarning):
        # Leave-one-out scores are those of the detector alone: a scaler in the pipeline sees all rows, too.
        LabelFreeSearchCV(OneClassSVM(), GRID, cv="leave-one-out").fit(scaled)
        AutoSlabSVM().fit(scaled)
        for some in (sp.csr_array(scaled), scaled[:9], scaled[:, :1], [["a"], ["b"]], np.full((20, 2), 1e300)):
            warn_of_scaling(some)
        kernel = MinMaxScaler().fit_transform(rbf_kernel(X))
        LabelFreeSearchCV(OneClassSVM(kernel="precomputed"), {"nu": [0.1]}, criterion="recall", cv=3).fit(
            (kernel + kernel.T) / 2 + np.eye(len(X))
        )


@pytest.mark.slow
def test_warnings_point_at_the_callers_line(X):
    with warnings.catch_warnings(record=True, action="always") as caught:
        scaled = StandardScaler().fit_transform(np.repeat(X, 2, axis=0))
        LabelFreeSearchCV(OneClassSVM(), {"nu": [0.5]}, cv=KFold(3, shuffle=True)).fit(scaled, np.arange(240) % 2)
        LabelFreeSearchCV(OneClassSlabSVM(), {"nu_lower": [0.99, 0.1]}, cv=3).fit(X)
        AutoSlabSVM(recall=0.999).fit(X)
    texts = ["y holds", "Every feature has mean 0", "are in several folds"]
    texts += ["No candidate keeps", "fits failed", "can promise"]
    found = {text: warning.filename for text in texts for warning in caught if text in str(warning.message)}
    assert found == dict.fromkeys(texts, __file__)


def test_labels_of_two_classes_are_warned_of(X):
    with pytest.warns(LeakageWarning, match=r"y holds 2 values.*X\[y == 1\]"):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3).fit(X, np.arange(len(X)) % 2)
    with warnings.catch_warnings(action="error", category=LeakageWarning):
        LabelFreeSearchCV(OneClassSlabSVM(), GRID, cv=3).fit(X, np.ones(len(X)))
