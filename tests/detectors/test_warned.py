"""What is odd about a fit is warned of once, at the caller's line and in words that help; a good fit says nothing."""

import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

import problems
from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    FitWarning,
    KernelDensityDetector,
    KernelPCADetector,
    NeighboursDetector,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
)

pytestmark = pytest.mark.numeric


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def positive(n, d):
    return np.random.default_rng(0).gamma(64.0, 1 / 16, (n, d))


def cells(n, *sides):
    """Return so many rows of whole numbers below these."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, side, n) for side in sides]).astype(float)


def near_copies(copies, spread):
    rng = np.random.default_rng(0)
    X = np.tile(rng.normal(size=(60, 4)), (copies, 1))
    return X + spread * rng.normal(size=X.shape)


THREE = (OneClassSlabSVM, OneClassSVM, SVDD)
# A quarter of the samples are so far from all others that their kernel values with them underflow to 0.
UNLIKE = np.concatenate([normal(60, 2), 1e3 * np.arange(1, 21)[:, None] * np.ones((1, 2))])
COPIED = (*(make() for make in problems.FAMILY.values() if make is not NeighboursDetector), AutoDetector())
NEAR, COPIES = "100% of the distinct training rows have near copies.*groups", tuple(product((2, 3), (1e-9, 1e-4)))
NOTHING_APART = "(?s)not learned are the same to within rounding.*smaller gamma"
REJECTING = "(?s)support vectors.*calibration='auto'"
NO_ERROR = "(?s)without error.*fewer components"
UNREACHED = "25% of the training samples score no more than it where they are not learned"
TIED = "were not learned are the same|The slab has no width"
MEETING = partial(OneClassSlabSVM, calibration="training", nu_lower=0.05, nu_upper=0.05)
AROUND_0 = np.concatenate([normal(200, 2), -normal(200, 2)])
MATRICES = [problems.rbf(0.3)(X, X) for X in (near_copies(*how) for how in COPIES)]
subspace = partial(KernelPCADetector, n_components=4, kernel="linear")
UNEVEN = r"300 samples of weights as uneven as these are worth 1\.69 of equal weights, .* are few to set a threshold"
COPIES_GIVEN = "(9[0-9]|100)% of the samples repeat others, as given or by whole-number weights"
THREE_TIMES = np.concatenate([normal(300, 3), normal(300, 3), normal(300, 3)[1:]])
BY_NEIGHBOURS = (AutoDetector(), NeighboursDetector())


def heavy(weight):
    return {"sample_weight": np.r_[weight, np.ones(299)]}


# A model, what it learns, what it is given besides, and what it says.
WARNED = [
    *((make(gamma=1e3), normal(60, 20), {}, NOTHING_APART) for make in (OneClassSVM, SVDD, KernelPCADetector)),
    *((make(gamma=5.0, calibration="training"), normal(200, 10), {}, REJECTING) for make in (OneClassSVM, SVDD)),
    *((subspace(calibration=how), positive(120, 4), {}, NO_ERROR) for how in ("auto", "training")),
    (KernelPCADetector(gamma=0.5, n_components=119, calibration="training"), positive(120, 4), {}, NO_ERROR),
    (OneClassSVM(kernel="linear", nu=0.5), AROUND_0, {}, "(?s)w is zero.*origin.*SVDD"),
    (OneClassSlabSVM(gamma=1.7e308), positive(60, 3), {}, "identity"),
    (OneClassSlabSVM(), positive(60, 3), {"sample_weight": 2.0 * (np.arange(60) == 7)}, "no width"),
    *((MEETING(gamma=gamma), normal(200, d), {}, "auto") for d, gamma in ((10, 10.0), (2, 2.0))),
    (OneClassSVM(kernel=problems.rbf(0.1), nu=0.2), UNLIKE, {}, UNREACHED),
    *((make(gamma="scale"), cells(300, 4, 4), {}, TIED) for make in THREE),
    (OneClassSVM(gamma=1e-14), normal(50, 5), {}, "are the same to within rounding"),
    (AutoDetector(), np.ones((20, 3)), {}, "All rows are the same point"),
    (AutoDetector(), normal(100, 3), {"groups": ["a"] * 99 + ["b"]}, "2 groups are few"),
    *((model, near_copies(*how), {}, NEAR) for model, how in product(COPIED, COPIES)),
    *((OneClassSVM(kernel="precomputed"), K, {}, NEAR) for K in MATRICES),
    *(
        (model, form(normal(300, 3)), heavy(1000.0), f"{UNEVEN}.*expect 5.*worth 26 or more")
        for model, form in product((*COPIED, NeighboursDetector()), (sp.csr_array, np.array))
    ),
    (ConformalDetector(OneClassSVM(), alpha=0.1, random_state=1), normal(300, 3), heavy(1000.0), "are worth 1"),
    *(
        (model, normal(300, 3), heavy(weight), "are worth 1 of equal weights")
        for model, weight in product(BY_NEIGHBOURS, (1e18, 1e200, 1.7e308))
    ),
    (
        AutoDetector(recall=0.999),
        normal(40, 8),
        {},
        r"recall=0\.999 is more than 40 .*recall of 0\.976 at most",
    ),
    (AutoDetector(), normal(300, 3), {"known_outliers": normal(300, 3)[:2]}, "^Rows of X, .* equal 2 known outliers"),
    (
        ConformalDetector(OneClassSVM()),
        normal(48, 3),
        {"groups": np.arange(48) // 4},
        "with 6 .*or groups, if you",
    ),
    *((model, THREE_TIMES, {}, f"{COPIES_GIVEN}.*give each once") for model in BY_NEIGHBOURS),
]


@pytest.mark.parametrize(("model", "rows", "given", "text"), WARNED)
def test_what_is_odd_about_a_fit_is_warned_of_once_at_the_line_that_called_it(model, rows, given, text):
    with pytest.warns(FitWarning, match=text) as told:
        model = clone(model).fit(rows, **given)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert np.isfinite(model.decision_function(rows)).all()
    assert text != "are worth 1 of equal weights" or np.isfinite(model.calibration_scores_).all()
    # A slab on its way to its collapse leaves out more than it was asked to; what ties, or is one point, is accepted.
    assert text != "auto" or model.expected_recall_ < 0.8
    assert (
        text not in (TIED, "no width", "All rows are the same point")
        or (model.predict(rows[given.get("sample_weight", np.ones(len(rows))) > 0]) == 1).all()
    )


EQUAL = {name: make for name, make in problems.FAMILY.items() if name not in problems.WITH_KERNEL}
EQUAL |= {
    f"{name}, {kernel}": partial(problems.FAMILY[name], kernel=kernel)
    for name, kernel in product(problems.WITH_KERNEL, problems.FORMULAS)
}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("calibration", ["auto", "training"])
def test_samples_that_are_all_equal_or_zero_are_warned_of_and_accepted(name, calibration):
    for row in ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]):
        same = np.tile([row], (20, 1))
        model = EQUAL[name](calibration=calibration)
        with pytest.warns(FitWarning) as told:
            model.fit(same)
        assert told[0].filename == __file__
        if any(row) and name.endswith("rbf"):
            assert "features for constants" in str(told[0].message) or "more samples" in str(told[0].message)
        assert (model.predict(same) == 1).all()
        assert np.isfinite(model.decision_function(same + 1)).all()
        if any(row) and isinstance(model, OneClassSlabSVM):
            with warnings.catch_warnings(action="ignore"):
                without_upper = model.set_params(epsilon=0).fit(same)
            assert (without_upper.predict(same) == 1).all()


SKEWED, FEW_COPIES = np.random.default_rng(0), np.concatenate([normal(300, 6), normal(300, 6)[:20]])
EXTREME = np.concatenate([1e9 * normal(3, 3), normal(297, 3, 1)])
# Rows of which no few make the scale.
SCALES = {"t": SKEWED.standard_t(2, (300, 3)), "log-normal": SKEWED.lognormal(sigma=2.0, size=(300, 3))}
SCALES |= {"counts": SKEWED.poisson(0.02, (300, 4)).astype(float), "few": EXTREME[:15]}
SCALES |= {"rare": np.where(SKEWED.random((300, 40)) < 0.02, 9.0, 0.0) + np.eye(300, 40)}
SCALES |= {"sparse": sp.random_array((300, 50), density=0.05, random_state=SKEWED, format="csr")}
SCALES |= {"constant": np.ones((30, 3)) + 1e-9 * np.eye(30, 3)}
SCALES |= {"two clouds": np.vstack([normal(300, 3), normal(300, 3) + 1e9])}


def quiet():
    """Return fits without a word: by name, the model, its rows, what it is given besides, what may be said."""
    for name, make in problems.FAMILY.items():
        for gamma in (0.01, 0.5, 5.0) if name in problems.WITH_KERNEL else ("",):
            yield f"{name}, {gamma}", make(**({"gamma": gamma} if gamma else {})), normal(300, 3), {}, ""
        weights = {"sample_weight": np.random.default_rng(0).integers(1, 4, 300)}
        # Of neighbours.
        yield (
            f"{name}, weights",
            make(),
            normal(300, 6),
            weights,
            "of the samples repeat others, .*whole-number weights",
        )
        yield f"{name}, a few rows repeat", make(), FEW_COPIES, {}, ""
    yield "density, training", KernelDensityDetector(calibration="training"), normal(1500, 2), {}, ""
    few = {"n_components": 2, "gamma": 0.05, "calibration": "training"}
    yield "components, training", KernelPCADetector(**few), normal(1500, 2), {}, ""
    for make in (*THREE, KernelPCADetector):
        ages = cells(300, 62, 2) + np.array([18.0, 0.0])
        yield f"of which few repeat, {make.__name__}", make(gamma="scale"), ages, {}, ""
    for make in (OneClassSVM, SVDD, partial(KernelPCADetector, n_components=1)):
        yield f"well above rounding, {make()}", make(gamma=1e-8), normal(300, 3), {}, ""
    counted = np.random.default_rng(0).poisson(0.5, (1000, 3)).astype(float)
    patterns, counts = np.unique(counted, axis=0, return_counts=True)
    for model, (rows, given) in product(BY_NEIGHBOURS, ((patterns, {"sample_weight": counts}), (counted, {}))):
        # Neighbours of counts accept more than they are asked to, and say so.
        yield f"counts, {model}, {bool(given)}", model, rows, given, "repeat others. The model accepts 9"
    yield "a recall that so many rows promise", AutoDetector(recall=0.99), normal(120, 4), {}, ""
    yield "few values", OneClassSVM(gamma=1.0), cells(300, 2, 2, 2), {}, "(?!.*distinct samples are few)"
    for name, rows in SCALES.items():
        yield f"scale, {name}", KernelDensityDetector(), rows, {}, "(?!.*set the scale)"
    for model in (OneClassSlabSVM(gamma=1.0), KernelDensityDetector(bandwidth=1.0), SVDD(kernel="intersection")):
        yield f"scale that was given, {model}", model, np.abs(EXTREME) * 1e-6, {}, "(?!.*set the scale)"


@pytest.mark.parametrize(("model", "rows", "given", "allowed"), [pytest.param(*one, id=name) for name, *one in quiet()])
def test_a_good_fit_is_not_warned_of(model, rows, given, allowed):
    with warnings.catch_warnings(action="error"):
        if allowed:
            warnings.filterwarnings("ignore", f".*{allowed}" if allowed[0] != "(" else allowed)
        model.fit(rows, **given)
    if getattr(model, "gamma", None) == 1e-8:
        assert 1e-12 < np.ptp(model.calibration_scores_) < 1e-6


# A few rows that make the scale.


RNG = np.random.default_rng(0)
USUAL = RNG.normal(size=(300, 3))
FAR = np.array([[50.0, 50.0, 50.0], [1e5, 1e5, 0.0]])
TAKING_SCALE = {"slab": OneClassSlabSVM(), "one plane": OneClassSVM(gamma="scale"), "ball": SVDD()}
TAKING_SCALE |= {"linear ball": SVDD(kernel="linear"), "components": KernelPCADetector()}
TAKING_SCALE |= {"density": KernelDensityDetector(), "calibrated": ConformalDetector(KernelDensityDetector())}


def with_outliers(n_out: int = 3, size: float = 1e9) -> np.ndarray:
    X = USUAL.copy()
    X[:n_out] *= size
    return X


def scale_warnings(model, X) -> list[str]:
    with warnings.catch_warnings(record=True, action="always") as warned:
        model.fit(X)
    return [str(one.message) for one in warned if "set the scale" in str(one.message)]


@pytest.mark.parametrize("name", TAKING_SCALE)
def test_a_few_rows_that_make_the_scale_are_warned_of_once(name):
    assert len(scale_warnings(TAKING_SCALE[name], with_outliers())) == 1
    assert scale_warnings(TAKING_SCALE[name], USUAL) == []


def test_an_accepted_stranger_is_warned_of_and_rejected_once_the_remedy_is_taken():
    X = with_outliers()
    for model in (KernelDensityDetector(), SVDD(kernel="linear")):
        with pytest.warns(FitWarning, match="In column x[012] and 2 others a few extreme rows set the scale"):
            assert (model.fit(X).predict(FAR) == 1).any()
        assert scale_warnings(model, X[3:]) == []
        assert (model.predict(FAR) == -1).all()
    spread = make_pipeline(QuantileTransformer(n_quantiles=300, output_distribution="normal"), KernelDensityDetector())
    assert scale_warnings(spread, X) == []
    assert (spread.predict(FAR[:1]) == -1).all()


@pytest.mark.slow
def test_the_column_is_named_and_one_is_enough():
    X = pd.DataFrame(USUAL, columns=["width", "height", "price"])
    X.loc[7, "price"] = 1e6
    assert "In column 'price' a few extreme rows" in scale_warnings(OneClassSVM(), X)[0]
    # A view of ranks is made by no few rows.
    assert not scale_warnings(AutoDetector(), X)
    with pytest.warns(FitWarning, match=r"Class 1.*column 'price' a few extreme rows set the scale"):
        OpenSetClassifier().fit(X, np.arange(300) % 2)


@pytest.mark.slow
def test_rows_that_are_trimmed_do_not_move_the_threshold_by_their_rounding():
    X = with_outliers()
    model = TrimmedDetector(KernelDensityDetector())
    assert scale_warnings(model, X) == []
    assert set(model.trimmed_) >= {0, 1, 2}
    assert (model.predict(FAR) == -1).all()
    assert (model.predict(RNG.normal(size=(1000, 3))) == 1).mean() == pytest.approx(0.9, abs=0.05)


# Weights that leave little to put a threshold by.


def test_heavy_rows_of_those_that_were_not_learned_are_warned_of_too():
    X = normal(300, 3)
    model = AutoDetector(max_rows=100)
    drawn = model.fit(X).sample_
    other = int(np.setdiff1d(np.arange(300), drawn)[0])
    weights = np.where(np.arange(300) == other, 1e6, 1.0)
    with pytest.warns(FitWarning, match="200 samples of weights as uneven as these are worth 1 "):
        model.fit(X, sample_weight=weights)
    # Only the threshold's rows matter.
    weights[other], weights[drawn[0]] = 1.0, 1000.0
    with warnings.catch_warnings(action="error"):
        model.fit(X, sample_weight=weights)


@pytest.mark.parametrize("make", [AutoDetector, NeighboursDetector])
def test_whole_numbers_that_say_how_much_rows_matter_are_warned_of_with_a_remedy_that_keeps_the_recall(make):
    X = normal(300, 3)
    weights, new = np.random.default_rng(1).integers(1, 11, 300), np.random.default_rng(2).normal(size=(2000, 3))
    with pytest.warns(FitWarning, match=COPIES_GIVEN):
        model = make().fit(X, sample_weight=weights)
    assert (model.predict(new) == 1).mean() < 0.7
    assert "ConformalDetector(model, alpha=0.1)." in model.warning_
    with warnings.catch_warnings(action="error"):
        held_out = ConformalDetector(make(), alpha=0.1).fit(X, sample_weight=weights)
    assert 0.85 < (held_out.predict(new) == 1).mean() < 0.95
    # Not so weights that are no whole multiples.
    with warnings.catch_warnings(action="error"):
        model = make().fit(X, sample_weight=weights + 0.3 * X[:, 0] ** 2)
    assert (model.predict(new) == 1).mean() > 0.84


@pytest.mark.parametrize(
    ("rows", "features", "settings"), [(100, 50, {}), (60, 300, {"n_components": 16}), (400, 3, {})]
)
def test_kernel_pca_says_how_many_new_rows_training_scores_reject(rows, features, settings):
    X, new = normal(rows, features), normal(1000, features, seed=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = KernelPCADetector(calibration="training", **settings).fit(X)
    accepted = float((model.predict(new) == 1).mean())
    # A model of half of the samples knows no more than that of all, but for chance.
    assert model.model_.expected_training_recall <= accepted + 0.1
    assert bool(said) == (accepted < 0.8)
    assert all("With calibration='training' expect" in str(one.message) for one in said)
