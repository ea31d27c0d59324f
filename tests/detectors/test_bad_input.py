"""What makes no sense is refused, and what is doubtful is warned of, in words that help."""

import re
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import many
import problems
from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    FitWarning,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
)
from slabsvm.kernels import expansion

ADDITIVE = ("intersection", "hellinger", "chi2")


@pytest.fixture(scope="module", name="X")
def positives() -> np.ndarray:
    return np.random.default_rng(0).gamma(64.0, 1 / 16, (60, 3))


def refused(match: str, error: Any = ValueError):
    return pytest.raises(error, match=match)


@pytest.mark.warns("Rows that exceed the training rows", cases=["chi2", "intersection"])
@pytest.mark.parametrize("kernel", ADDITIVE)
def test_negative_features_are_refused_where_the_kernel_is_not_defined(kernel, X):
    bad = X.copy()
    bad[3, 1] = -0.125
    model = OneClassSlabSVM(kernel=kernel).fit(X)
    for data in (bad, sp.csr_array(bad)):
        for act in (OneClassSlabSVM(kernel=kernel).fit, model.predict):
            with refused(f"(?s)Negative values.*{kernel} kernel"):
                act(data)


HUGE = 10**400


@pytest.mark.parametrize("make", [OneClassSlabSVM, OneClassSVM, SVDD, KernelPCADetector])
def test_a_row_at_which_a_callable_overflows_is_named(make, X, monkeypatch):
    monkeypatch.setattr(expansion, "STEP_BYTES", 8 * 60 * 7)  # seven rows at once
    model = make(kernel=lambda A, B: (A @ B.T + 1.0) ** 3).fit(X)
    new = np.tile(X[:10], (3, 1))
    new[[17, 29]] *= 1e150
    with np.errstate(over="ignore"), refused(r"NaN or infinity for row 17, counted from 0\."):
        model.predict(new)
    assert np.isfinite(model.decision_function(np.delete(new, [17, 29], axis=0))).all()


narrow = problems.rbf(40.0)


NARROW = [make(kernel=narrow) for make in (OneClassSlabSVM, OneClassSVM, SVDD, KernelPCADetector)]
NARROW += [make(gamma=40.0) for make in (OneClassSlabSVM, OneClassSVM, SVDD, KernelPCADetector)]
NARROW += [KernelDensityDetector(bandwidth=0.05), ConformalDetector(OneClassSVM(gamma=40.0)), AutoDetector()]


@pytest.mark.parametrize(
    "model",
    NARROW,
    ids=lambda model: re.sub(r"<function.*? at 0x\w+>", "narrow", str(model)).replace(" ", "")[:60],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_underflow_is_no_error_to_a_caller_who_asks_for_errors(model, X):
    new = np.concatenate([X[:5], 3 * X[:5], 1e4 * X[:5]])
    weights = {"sample_weight": np.r_[1e-320, np.full(59, 1e5)]}
    expected = clone(model).fit(X, **weights).decision_function(new)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(clone(model).fit(X, **weights).decision_function(new), expected)
        if isinstance(model, OneClassSVM):
            OpenSetClassifier(model).fit(X, np.arange(60) % 2).predict(new)


@pytest.mark.warns("out of the kernel's reach of all others", cases=["slab"])
@pytest.mark.parametrize(
    "model", [OneClassSlabSVM(gamma="scale"), OneClassSVM(), SVDD()], ids=["slab", "one-class SVM", "SVDD"]
)
def test_a_fit_that_runs_out_of_iterations_warns_with_its_gap_and_the_remedy(model, X):
    with pytest.warns(ConvergenceWarning, match="raise max_iter") as caught:
        model.set_params(max_iter=1, tol=1e-9).fit(X)
    assert f"relative duality gap of {model.relative_gap_:.2g}" in str(caught[0].message)
    assert caught[0].filename == __file__  # a warning points at the line that called fit
    assert model.n_iter_ == 1
    assert model.status_ == "iteration limit"
    assert model.relative_gap_ > 1e-9


# Every detector refuses what the slab refuses.

ALSO_DRAWN = {**problems.FAMILY, "of drawn rows": partial(AutoDetector, max_rows=20)}


@pytest.mark.parametrize("name", ALSO_DRAWN)
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_every_detector_refuses_sparse_values_that_are_no_numbers(name, value, word, X):
    make, bad = ALSO_DRAWN[name], X.copy()
    bad[3, 1] = value
    for act in (make().fit, make().fit(X).predict):
        with refused(word):
            act(sp.csr_array(bad))


@pytest.mark.parametrize("name", [*ALSO_DRAWN, "auto", "conformal"])
def test_every_detector_refuses_weights_that_make_no_sense(name, X):
    for weights, words, error in (
        (np.zeros(60), "(?s)All sample weights are zero.*Give at least one sample a positive weight", ValueError),
        (np.r_[-1.0, np.ones(59)], "(?i)negative", ValueError),
        (np.ones(59), r"sample_weight.*shape", ValueError),
        (np.r_[np.nan, np.ones(59)], "NaN", ValueError),
        ({}, "sample_weight is a mapping", TypeError),
    ):
        with refused(words, error):
            {**ALSO_DRAWN, **AROUND}[name]().fit(X, sample_weight=weights)


def test_a_callable_may_return_sparse_blocks(X):
    called = OneClassSlabSVM(kernel=lambda A, B: A @ B.T, epsilon=0.2).fit(sp.csr_array(X))
    named = OneClassSlabSVM(kernel="linear", epsilon=0.2).fit(X)
    np.testing.assert_allclose(called.decision_function(sp.csr_array(X)), named.decision_function(X), atol=1e-6)


# Extremes: a decision is never NaN, and what float64 cannot hold is refused in words, not in NumPy's or LAPACK's.

KERNELLED = {name: problems.FAMILY[name] for name in problems.WITH_KERNEL}
# Every detector with every kernel.
EVERY: dict[str, Callable[..., Any]] = {
    f"{name}, {kernel}": partial(make, kernel=kernel)
    for name, make in KERNELLED.items()
    for kernel in ("rbf", "linear", *ADDITIVE)
}
EVERY["kernel density"] = KernelDensityDetector
AROUND = {"auto": AutoDetector, "conformal": partial(ConformalDetector, alpha=0.1)}
AROUND |= {"open set": partial(OpenSetClassifier, alpha=0.2)}
by_detector = pytest.mark.parametrize("name", EVERY)
by_any = pytest.mark.parametrize("name", [*EVERY, *AROUND])
# What refuses a table has not come to the kernel yet.
by_class = pytest.mark.parametrize(
    "name", [name for name in [*EVERY, *AROUND] if not name.endswith(("linear", *ADDITIVE))]
)


def fitted(name: str, X: Any) -> Any:
    """Fit, with two classes where classes are asked for."""
    if name == "open set":
        return AROUND[name]().fit(X, np.repeat(["a", "b"], 30))
    return {**EVERY, **AROUND}[name]().fit(X)


def outcome(act: Callable[[], Any]) -> tuple[Any, str, list[type[Warning]]]:
    """Return what came of it, the words of a refusal, and the kinds of warnings."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            result, refusal = act(), ""
        except (ValueError, TypeError) as error:
            result, refusal = None, str(error)
    assert not [str(warning.message) for warning in caught if issubclass(warning.category, RuntimeWarning)]
    return result, refusal, [warning.category for warning in caught]


@by_detector
def test_every_detector_takes_many_more_features_than_samples(name):
    wide = np.random.default_rng(0).gamma(2.0, 1.0, (12, 3000))
    with warnings.catch_warnings(action="ignore", category=FitWarning):
        assert np.isfinite(EVERY[name]().fit(wide).decision_function(wide)).all()


@by_detector
@pytest.mark.parametrize("size", [1e-320, 1e-155, 1e-30, 1e100, 1e154, 1e307])
def test_no_extreme_of_the_features_gives_nan(name, size, X, capfd):
    usual, _, _ = outcome(lambda: EVERY[name]().fit(X).predict(X))
    for data in (size * X, sp.csr_array(size * X)):
        decision, refusal, kinds = outcome(lambda data=data: EVERY[name]().fit(data).decision_function(data))
        if refusal:
            assert "scale" in refusal.lower()
            assert "NaN" not in refusal
            continue
        assert np.isfinite(decision).all()
        # A model that warns of nothing is the usual one in another unit.
        assert kinds or ((decision >= 0) == (usual > 0)).mean() > 0.9
    assert capfd.readouterr() == ("", "")


@by_any
@pytest.mark.parametrize("far", [1e154, 1.7e308])
def test_a_row_at_the_end_of_float64_gets_a_decision(name, far, X):
    with warnings.catch_warnings(action="ignore"):
        model = fitted(name, X)
    signs = [1.0] if any(kernel in name for kernel in ADDITIVE) else [1.0, -1.0]
    for sign in signs:
        rows = np.array([[sign * far] * 3, [far, 0.0, 1.0], [far, far, sign * far]])
        for data in (rows, sp.csr_array(rows), rows.clip(-3e38, 3e38).astype(np.float32)):
            decision, refusal, _ = outcome(lambda data=data: model.decision_function(data))
            assert refusal == ""
            assert not np.isnan(decision).any()
            if "rbf" in name or name in ("kernel density", "auto", "open set"):
                assert (np.atleast_2d(decision) < 0).all() or name == "open set"
                assert set(model.predict(data)) <= {-1, "unknown"}


EXTREME_WEIGHTS = {"largest": np.full(60, np.finfo(float).max), "least": np.full(60, 5e-324)}
EXTREME_WEIGHTS["one of 1e308"] = np.r_[1e308, np.ones(59)]


@pytest.mark.parametrize(
    ("name", "weights"),
    [*product(EVERY, EXTREME_WEIGHTS.values()), *(("auto", EXTREME_WEIGHTS[each]) for each in ("largest", "least"))],
    ids=lambda each: each if isinstance(each, str) else f"{each[0]:.0e}, {each[1]:.0e}",
)
def test_only_the_ratios_of_weights_count_however_large(name, weights, X):
    make = {**EVERY, **AROUND}[name]
    decision, refusal, _ = outcome(lambda: make().fit(X, sample_weight=weights).decision_function(X))
    if np.ptp(weights) > 0:
        # One sample with all the weight has no spread.
        assert refusal or np.isfinite(decision).all()
        assert "NaN" not in refusal
        return
    usual, _, _ = outcome(lambda: make().fit(X, sample_weight=np.ones(60)).decision_function(X))
    np.testing.assert_allclose(decision, usual, rtol=1e-9, atol=1e-9)


def test_c_is_in_the_unit_of_weights_however_large(X):
    usual = SVDD(C=0.1).fit(X).decision_function(X)
    for unit in (2.0**-1000, 2.0**1000, 2.0**1017):
        model = SVDD(C=0.1 / unit).fit(X, sample_weight=np.full(60, unit))
        np.testing.assert_allclose(model.decision_function(X), usual, atol=1e-12)
        assert model.nu_ == pytest.approx(1 / 6)
    assert SVDD(C=1e308).fit(X, sample_weight=np.full(60, 1e308)).nu_ == 0.0


@by_detector
@pytest.mark.parametrize("value", [1e-320, 1e-30])
def test_a_share_below_one_sample_is_that_of_none(name, value, X):
    make, tiny = EVERY[name], 1e-4
    for own in {"nu", "nu_lower", "nu_upper"} & {*make().get_params()}:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            one, usual = (make(**{own: share}).fit(X).predict(X) for share in (value, tiny))
        np.testing.assert_array_equal(one, usual)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_parameters_may_be_floats_of_any_width(kind, X):
    for name in ("nu_lower", "nu_upper", "epsilon", "gamma", "tol", "cache_size"):
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            OneClassSlabSVM(**{name: kind(0.125)}).fit(X)


# Tables of all kinds.


def corrupt(X: np.ndarray, kind: str) -> Any:
    made = {"csr": sp.csr_array, "csc": sp.csc_array, "coo": sp.coo_array}[kind[:3]](X)
    if kind == "coo beyond":
        made = sp.coo_array((made.data, made.coords), shape=X.shape)
        made.coords[1][0] = 99
    elif kind.endswith("beyond"):
        made.indices[0] = 99
    elif kind.endswith("negative"):
        made.indices[0] = -1
    elif kind.endswith("too long"):
        made.indptr[2] = 10**6
    else:
        made.indptr[2] = 0
    return made


@by_class
@pytest.mark.parametrize(
    "kind", ["csr beyond", "csr negative", "csr too long", "csr descending", "csc beyond", "csc too long", "coo beyond"]
)
def test_a_corrupt_sparse_matrix_is_refused_by_fit_and_by_predict(name, kind, X):
    bad = corrupt(X, kind)
    with warnings.catch_warnings(action="ignore"):
        model = fitted(name, sp.csr_array(X))
    for act in (partial(fitted, name), model.predict):
        with refused("(?s)corrupt sparse matrix.*make it anew"):
            act(bad)


@by_class
def test_what_is_no_table_of_numbers_is_refused_in_words(name, X):
    with warnings.catch_warnings(action="ignore"):
        model = fitted(name, X)
    beyond = X.astype(object)
    beyond[0, 0] = HUGE
    others = (X + 1j, X[:, :, None], np.array("abc"), np.array([["a", "b", "c"]] * 60), [[1, 2], [3]], None)
    for data, words, error in (
        ({"a": X[:, 0], "b": X[:, 1]}, r"(?s)X is a mapping.*pandas\.DataFrame.*column_stack", TypeError),
        (np.ma.array(X, mask=X > 4), "(?s)masked entries.*missing.*filled", ValueError),
        (beyond, "(?s)too large|beyond the largest number of float64", ValueError),
        *((data, ".", (ValueError, TypeError)) for data in others),
    ):
        for act in (partial(fitted, name), model.predict):
            with refused(words, error):
                act(data)


@pytest.mark.parametrize("name", many.MODELS)
def test_texts_and_gaps_are_refused_with_the_column_and_what_takes_them(name, X):
    gaps = X.copy()
    gaps[7, 2] = np.nan
    texts = pd.DataFrame({"width": X[:, 0], "finish": np.where(X[:, 1] > 4, "matt", "gloss"), "height": X[:, 2]})
    unknown = texts.assign(finish=1.0, height=pd.array([None, *X[1:, 2]], dtype="Float64"))
    for data, said in (
        (texts, "X holds texts, such as '(matt|gloss)' in column 'finish'"),
        (texts.to_numpy(), "X holds texts, such as '(matt|gloss)' in column x1"),
        (gaps, "Input X contains NaN, gaps in column x2"),
        (pd.DataFrame(gaps, columns=list("abc")), "gaps in column 'c'"),
        (pl.DataFrame(gaps, schema=list("abc")), "gaps in column 'c'"),
        (unknown, "gaps in column 'height'"),
        (gaps.tolist(), "gaps in column x2"),
    ):
        with refused(rf"{said}.*make_pipeline\(TableEncoder\(\), AutoDetector\(\)\)"):
            many.fit(clone(many.MODELS[name]()), data)
    model = many.fitted(clone(many.MODELS[name]()), X)
    with refused("Input X contains NaN, gaps in column x2.*TableEncoder"):
        model.predict(gaps)


def test_weights_of_all_kinds_are_read_or_refused(X):
    usual = OneClassSlabSVM().fit(X).decision_function(X)
    for weights in (np.ones(60, dtype=bool), [1] * 60, 0.5, np.ma.array(np.ones(60)), np.ones(60, dtype=np.float16)):
        np.testing.assert_array_equal(OneClassSlabSVM().fit(X, sample_weight=weights).decision_function(X), usual)
    for weights, words, error in (
        ([HUGE] + [1] * 59, "sample_weight holds a whole number beyond", ValueError),
        (np.ma.array(np.ones(60), mask=X[:, 0] > 4), "sample_weight is a masked array", ValueError),
        (np.full(60, 1j), "Complex data not supported", ValueError),
        (["a"] * 60, "could not convert string", ValueError),
        (np.ones((60, 1)), "must be 1D array or scalar", ValueError),
    ):
        for make in (OneClassSlabSVM, ALSO_DRAWN["of drawn rows"]):
            with refused(words, error):
                make().fit(X, sample_weight=weights)
