"""A fit that makes no sense is refused, in words that say what is wrong and what to do."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.svm import OneClassSVM as TheirOneClassSVM

from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    KernelDensityDetector,
    KernelPCADetector,
    NeighboursDetector,
    NormalScores,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
    bandwidth,
)

HUGE = 10**400
OUTSIDE: dict[Any, dict[str, tuple[Any, ...]]] = {
    OneClassSlabSVM: {"nu_lower": (0, -0.1, 1.5, np.nan), "nu_upper": (0, 1)}
    | {"epsilon": (-0.5, np.nan, np.inf, "much", HUGE), "gamma": (0, -1.0, np.inf, np.nan, "big", HUGE)}
    | {"tol": (0, -1e-3, np.inf, HUGE), "kernel": ("gaussian", None), "calibration": ("loo",), "n_jobs": (1.5,)}
    | {"ranking": ("distance",), "max_iter": (-2, 1.5), "cache_size": (0, HUGE)},
    OneClassSVM: {"nu": (0, 1.01, np.nan), "kernel": ("gaussian",)},
    SVDD: {"nu": (-0.1,), "C": (0, np.inf, "large", HUGE)},
    KernelPCADetector: {"n_components": (0, 1.0, 1.5, None), "gamma": (-1.0,), "nu": (0.0,), "calibration": ("loo",)},
    KernelDensityDetector: {"bandwidth": (0, np.inf, "wide", HUGE), "nu": (2,), "calibration": ("out-of-fold",)},
    AutoDetector: {"recall": (0, 1.0), "max_rows": (5,), "progress": (1,)},
    ConformalDetector: {"estimator": (3,), "alpha": (0.0, 1.0, "much"), "calibration_size": (0.0, 1.0)}
    | {"random_state": ("seed",)},
    TrimmedDetector: {"trim": (0.7,)},
}
X = np.random.default_rng(0).gamma(64.0, 1 / 16, (60, 3))


@pytest.mark.parametrize("make", OUTSIDE)
def test_parameters_outside_their_range_are_named(make):
    for name, values in OUTSIDE[make].items():
        for value in values:
            with pytest.raises(ValueError, match=f"The '{name}' parameter of {make.__name__} must be"):
                make(**{name: value}).fit(X)


def indefinite(m, kind):
    K = np.eye(m) if kind == "four points" else np.full((m, m), 0.5) + 0.5 * np.eye(m)
    if kind == "a pair":
        K[0, 1] = K[1, 0] = 2.0
    elif kind == "a diagonal":
        K[2, 2] = -1.0
    else:
        K[:4, :4] = 0.5 * np.array([[2.0, 1, 1, 1], [1, 2, -2, -2], [1, -2, 2, -2], [1, -2, -2, 2]])
    return K


def far_apart(A, B):
    return np.hypot.reduce(A[:, None] - B[None], axis=2)


class Silent(SVC):
    """A classifier that does not say how sure it is."""

    decision_function = property()


GIVEN, MATRIX = OneClassSlabSVM(kernel="precomputed"), OneClassSVM(kernel="precomputed")
HALVES = {"nu_lower": 0.5, "nu_upper": 0.4, "kernel": "precomputed"}
WIDE = r"(?s)n_components=4 is more than the 3 components.*n_components=0\.9"
ONE_POINT = "(?s)n_components=1.*the same point of feature space.*no components.*for constants"
LEAST_C = r"(?s)C must be at least 1 / \(sum of weights\) = 0\.01667, got 0\.01"
NO_C = "(?s)sample weights sum to .*too little for any C.*give nu"
LITTLE = "(?s)vary by so little.*Scale the features up"
SMALL = "(?s)so small.*few of their digits, or none.*Scale the features or the kernel up"
DISTANCES = r"there are no distances\. Divide them by powers of ten"
CLASSIFIER = "needs a detector, which learns from one class alone, and (SVC|Pipeline) is a classifier"
LEFT_OUT = r"needs the leave-one-out.*such as OneClassSVM"
MATRICES = r"TrimmedDetector needs rows, not a kernel matrix.*may be a function"
NUMBERS = "outlier_rows must be a list of row numbers of X, whole and from 0 to 59"
MORE = r"Give more groups\. Up to 2,000 distinct rows need not be held out"
HELD_OUT = {"calibration": "held-out"}
OWN, Y = OneClassSVM(), np.arange(60) % 2
UNCERTAIN = "has neither decision_function nor predict_proba"
INCONSISTENT = np.eye(6)
INCONSISTENT[0, 1] = 0.25
# What is fitted, to which rows, what is given besides, and what is said.
REFUSED = [
    *(
        (OneClassSlabSVM(nu_lower=a, nu_upper=b), X, {}, "less than 1")
        for a, b in ((0.5, 0.5), (0.9, 0.2), (0.99, 0.01))
    ),
    (OneClassSlabSVM(epsilon=1.0), X, {}, "must not be 1"),
    *((OneClassSlabSVM(epsilon=epsilon), X, {}, "lost in rounding") for epsilon in (1e300, 1e16, 1e-17, 1e-320)),
    # Matrices and functions that are no kernels.
    (GIVEN, np.full((5, 5), np.nan), {}, "NaN"),
    (GIVEN, np.ones((5, 4)), {}, "square"),
    (GIVEN, INCONSISTENT, {}, "symmetric"),
    (GIVEN, sp.eye_array(6, format="csr"), {}, "dense data is required"),
    (GIVEN, 1e-310 * np.eye(9), {}, "(?s)kernel's values are so small.*or the kernel"),
    *(
        (OneClassSlabSVM(**HALVES), indefinite(m, kind), {}, "positive semidefinite")
        for m, kind in product((4, 40), ("a pair", "a diagonal", "four points"))
    ),
    *(
        (OneClassSlabSVM(kernel=kernel), X, {}, words)
        for kernel, words in (
            (lambda A, B: -(A @ B.T), "positive semidefinite"),
            (lambda A, _: A[:, 0], "must return the block of all pairs"),
            (lambda a, b: float(a @ b), "two arrays of rows, not two samples"),
            (lambda A, B: np.full((len(A), len(B)), np.nan), "NaN or infinity"),
            (lambda A, B: A @ B.T + 0j, "complex numbers"),
        )
    ),
    *(
        (make(kernel=lambda A, B, on=on: on + far_apart(A, B)), X, {}, "positive semidefinite")
        for make, on in product((OneClassSlabSVM, SVDD, KernelPCADetector), (0, 1))
    ),
    # Parameters that the rows or weights do not allow.
    (SVDD(C=0.01), X, {}, LEAST_C),
    (SVDD(C=0.005), X, {"sample_weight": np.full(60, 3.0)}, r"= 0\.005556, got 0\.005"),
    (SVDD(C=1.0), X, {"sample_weight": np.full(60, 1e-320)}, NO_C),
    (KernelPCADetector(kernel="linear", n_components=4), X, {}, WIDE),
    (KernelPCADetector(gamma=1.0, n_components=60), X, {}, "more than the 59 components"),
    (KernelPCADetector(n_components=1), np.ones((20, 3)), {}, ONE_POINT),
    *(
        (KernelDensityDetector(bandwidth=h), X, {}, "(?s)bandwidth.*too small.*Scale the features.*raise bandwidth")
        for h in (1e-170, 1e-155)
    ),
    (TrimmedDetector(trim=0.5), X[:3], {}, r"trim=0.5 leaves 1 of n_samples=3.*or trim less"),
    (
        ConformalDetector(),
        X,
        {"sample_weight": np.full(60, 1e308)},
        "counts of rows.*add up to inf.*Divide the weights",
    ),
    (ConformalDetector(), X, {"sample_weight": np.full(60, 1e14)}, "add up to 6e[+]15"),
    (OpenSetClassifier(), X, {"y": Y, "sample_weight": np.full(60, 1e308)}, "Class 0.*add up to"),
    (ConformalDetector(OWN), X, {"sample_weight": -np.ones(60)}, "Negative values"),
    (NormalScores(), X, {"sample_weight": -np.ones(60)}, "Negative values"),
    (ConformalDetector(OWN), X, {"sample_weight": np.ones(59)}, "sample_weight.shape"),
    # Numbers that float64 does not hold, or not as they are.
    *((make(), 1e-170 * X, {}, LITTLE) for make in (OneClassSlabSVM, SVDD, KernelPCADetector, KernelDensityDetector)),
    (OneClassSlabSVM(kernel="linear"), 1e-170 * X, {}, SMALL),
    *(
        (OneClassSlabSVM(kernel=kernel), np.full((9, 2), 5e-324), {}, SMALL)
        for kernel in ("intersection", "hellinger", "chi2")
    ),
    *(
        (AutoDetector(), X * by, {}, DISTANCES)
        for by in (1e300, 1e-300, np.array([1.0, 1e300, 1.0]), np.array([1.0, 1e-300, 1.0]))
    ),
    *((NeighboursDetector(), X * size, {}, "there are no distances") for size in (1e160, 1e-160)),
    *((AutoDetector(), sp.csr_array(X * size), {}, "there are no distances") for size in (1e160, 1e-160)),
    # Estimators that cannot do what is asked.
    *((take(SVC()), X, {}, CLASSIFIER) for take in (ConformalDetector, TrimmedDetector)),
    (OpenSetClassifier(SVC()), X, {}, r"SVC is a classifier. Give it as OpenSetClassifier\(classifier=...\)"),
    (OpenSetClassifier(), X, {}, r"requires y to be passed.*fit\(X, y\)"),
    (TrimmedDetector(TheirOneClassSVM()), X, {}, LEFT_OUT),
    (TrimmedDetector(judge=OneClassSVM(calibration="training")), X, {}, LEFT_OUT),
    *((TrimmedDetector(**{role: MATRIX}), X @ X.T, {}, MATRICES) for role in ("estimator", "judge")),
    *((TrimmedDetector(), X, {"outlier_rows": rows}, NUMBERS) for rows in ([-1], [60], [0.5], [[1]], [True])),
    (AutoDetector(classifier=Silent()), X, {"known_outliers": X[:5] + 3.0}, UNCERTAIN),
    *(
        (AutoDetector(), pd.DataFrame(X, columns=list("abc")) if "names" in said else X, {"known_outliers": rows}, said)
        for rows, said in (
            (X[:5, :2], "known_outliers has 2 features"),
            (np.full((1, 3), np.nan), "known_outliers contains NaN"),
            (np.empty((0, 3)), "known_outliers: Found array with 0 sample"),
            (X[0], "known_outliers: Expected 2D array"),
            (pd.DataFrame(X[:5]).add_prefix("x"), "known_outliers has named columns, and X has none. In a pipeline"),
            (pd.DataFrame(X[:5], columns=list("abe")), "known_outliers: The feature names should match"),
        )
    ),
    (ConformalDetector(FrozenEstimator(OWN)), X, {}, "not fitted"),
    *(
        (ConformalDetector(model), X, {"sample_weight": np.ones(60)}, f"{name}.fit takes no sample_weight")
        for model, name in (
            (LocalOutlierFactor(novelty=True), "LocalOutlierFactor"),
            (make_pipeline(StandardScaler(), GaussianMixture()), "GaussianMixture"),
        )
    ),
    # Too few rows or groups, and groups that are none.
    (ConformalDetector(), X[:2], {}, "at least 2 samples must be learned"),
    (ConformalDetector(calibration_size=0.9), X[:10], {}, "n_samples = 10: at least 2 samples must be learned"),
    (ConformalDetector(OWN), X, {"groups": np.zeros(60)}, r"number of groups = 1: .*Give more groups"),
    (ConformalDetector(OWN), X, {"groups": np.arange(59)}, r"groups must name the group of each row.*\(59,\)"),
    *(
        (make(**HELD_OUT), X[:2], {}, r"Two rows have to be learned .* there are 2")
        for make in (OneClassSVM, KernelPCADetector, NeighboursDetector)
    ),
    *(
        (make(**HELD_OUT), X, {"groups": Y}, r"Two groups have to be learned .* there are 2")
        for make in (OneClassSVM, NeighboursDetector)
    ),
    (AutoDetector(max_rows=20), X, {"groups": np.arange(60) // 3}, "max_rows=20 draws some"),
    (OWN, np.random.default_rng(0).normal(size=(2100, 4)), {"groups": np.arange(2100) % 2}, MORE),
]
NO_GROUPS = [
    (np.zeros(12), r"All rows are of one group.*Give rows of at least 2 groups, or leave groups out"),
    (np.arange(11), r"groups must name the group of each row, as an array of shape \(12,\).*\(11,\)"),
    (np.ones((12, 1)), r"shape \(12, 1\)"),
    ([np.nan, *range(11)], r"groups has no name for 1 row, the first of them row 0"),
    (["a", None] * 6, r"no name for 6 rows, the first of them row 1"),
    (["a", float("nan")] * 6, r"no name for 6 rows, the first of them row 1"),
    (np.ma.array(np.arange(12), mask=np.arange(12) == 3), r"no name for 1 row, the first of them row 3"),
    (pd.Series(["a", pd.NA] * 6, dtype="string"), r"no name for 6 rows"),
    (pd.to_datetime(["2026-01-01", None] * 6), r"no name for 6 rows"),
    *((pd.Series([[number] * n for number in range(12)]), "groups must hold numbers or words") for n in (1, 2)),
]
REFUSED += [
    (model, X[:12], {"groups": names}, said)
    for (names, said), model in product(NO_GROUPS, (OneClassSlabSVM(), KernelDensityDetector(), AutoDetector()))
]
IDENTIFIERS = np.int64(2**62) + np.random.default_rng(0).integers(0, 200, 300)
NUMBERED = [
    np.column_stack([np.arange(300), IDENTIFIERS]),
    pd.DataFrame({"number": np.arange(300), "x1": IDENTIFIERS}),
    pl.DataFrame({"number": np.arange(300), "x1": IDENTIFIERS.astype(np.uint64)}),
    [[i, 2**70 + int(i)] for i in range(300)],
    sp.csr_array(np.column_stack([np.arange(300), IDENTIFIERS])),
]
REFUSED += [
    (model, table, {}, r"Column '?x1'? holds whole numbers .* become .*leave the column out")
    for model, table in product((OWN, NeighboursDetector(), AutoDetector(max_rows=100)), NUMBERED)
]


@pytest.mark.parametrize(("model", "rows", "given", "said"), REFUSED)
def test_a_fit_that_makes_no_sense_is_refused_in_words(model, rows, given, said):
    with pytest.raises((ValueError, TypeError), match=said):
        clone(model).fit(rows, **given)


def test_what_is_at_the_end_of_what_makes_sense_is_learned():
    assert SVDD(C=1 / 60, kernel="linear").fit(X).nu_ == 1.0
    # Large whole numbers that float64 tells apart.
    rows = np.column_stack([2**62 + 2**40 * np.arange(300), np.random.default_rng(0).integers(0, 99, 300)])
    assert OneClassSVM().fit(rows).gamma_ == OneClassSVM().fit(rows.astype(float)).gamma_


@pytest.mark.parametrize("rule", [getattr(bandwidth, name) for name in bandwidth.__all__])
def test_rules_for_gamma_refuse_features_that_vary_too_little_and_complex_numbers(rule):
    for rows, said in (
        (1e-155 * X, LITTLE),
        (1e-170 * X, LITTLE),
        (sp.csr_array(1e-170 * X), LITTLE),
        (X + 1j, "Complex"),
    ):
        with pytest.raises(ValueError, match=said):
            rule(rows)
