"""The recall that a fit foretells: its law, against distributions that are known."""

import numpy as np
import pytest
from scipy.special import ndtr

from slabsvm import KernelDensityDetector, OneClassSlabSVM, OneClassSVM
from slabsvm.fitted.threshold import Calibration, calibration_by, least_recall

# Of a score of exponential tail, half way between two order statistics is not quite halfway in probability.
LAWS = {
    "uniform": (lambda rng, m: rng.random(m), lambda s: np.clip(s, 0.0, 1.0)),
    "normal": (lambda rng, m: rng.normal(size=m), ndtr),
    "exponential tail": (lambda rng, m: np.log(rng.random(m)), lambda s: np.exp(np.minimum(s, 0.0))),
}
DRAWS = 2000
# What puts a plane's own sample inside.
OUTWARDS = 1e-12


def calibration_of(weights, groups=None):
    return calibration_by(np.ones(len(weights), dtype=bool), np.asarray(weights, dtype=float), groups)


def assert_as_foretold(less: list[float], allowed: float) -> None:
    """The mean of what was found less what was foretold is 0 to within four standard errors, and what is allowed."""
    assert abs(np.mean(less)) < 4 * np.std(less, ddof=1) / np.sqrt(len(less)) + allowed


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("m", [20, 37])  # of 37 the plane is on a score, of 20 midway
@pytest.mark.parametrize("law", LAWS)
def test_the_recall_of_order_statistics_and_of_midpoints_is_as_foretold(law, m, planes):
    draw, cumulated = LAWS[law]
    rng, calibration, less = np.random.default_rng(0), calibration_of(np.ones(m)), []
    for _ in range(DRAWS):
        scores = draw(rng, m)
        lower = calibration.quantile(scores, 0.1)
        within, found = [scores - lower], 1.0 - cumulated(lower)
        if planes == 2:
            upper = -calibration.quantile(-scores, 0.05)
            within, found = [*within, upper - scores], found - (1.0 - cumulated(upper))
        less.append(found - calibration.expected_recall(np.array(within) + OUTWARDS)[0])
    assert_as_foretold(less, 0.2 / (m + 1) if law == "exponential tail" else 0.1 / (m + 1))


@pytest.mark.parametrize("m", [20, 37, 200])
def test_the_error_is_the_deviation_of_what_is_found(m):
    rng, calibration = np.random.default_rng(0), calibration_of(np.ones(m))
    planes = [calibration.quantile(rng.random(m), 0.1) for _ in range(DRAWS)]
    _, error = calibration.expected_recall(np.linspace(-0.1, 0.9, m)[None] + OUTWARDS)
    # Midway between two scores a plane varies less than on one.
    assert error == pytest.approx(np.std(planes), rel=0.2)


@pytest.mark.slow
def test_rows_that_repeat_are_accepted_where_they_are_and_others_are_in_random_order():
    # Half of the rows are one of eight that are known, at fixed scores of which one is outside.
    rng, known, less = np.random.default_rng(0), np.linspace(-1.5, 1.5, 8), []
    weights = np.concatenate([np.full(8, 5.0), np.ones(40)])
    each = calibration_by(np.ones(48, dtype=bool), weights, None, counted=weights)
    rows = calibration_of(np.ones(80))
    for _ in range(DRAWS):
        scores = np.concatenate([known, rng.normal(size=40)])
        plane = each.quantile(scores, 0.1)
        met = 0.5 * (known >= plane).mean() + 0.5 * (1.0 - ndtr(plane))
        expected, error = each.expected_recall((scores - plane)[None] + OUTWARDS)
        less.append(met - expected)
        # Counts are rows.
        repeated = np.concatenate([np.repeat(known, 5), scores[8:]])
        assert rows.quantile(repeated, 0.1) == pytest.approx(plane, abs=1e-12)
        assert rows.expected_recall((repeated - plane)[None] + OUTWARDS) == pytest.approx((expected, error), abs=1e-12)
    assert_as_foretold(less, 0.002)


@pytest.mark.slow
@pytest.mark.parametrize(("n_groups", "size", "alike"), [(30, 1, 0.0), (10, 5, 0.5), (10, 5, 0.95), (20, 20, 0.9)])
def test_rows_of_new_groups_are_accepted_as_foretold(n_groups, size, alike):
    rng = np.random.default_rng(0)
    names = np.repeat(np.arange(n_groups), size)
    calibration, less, errors = calibration_of(np.ones(len(names)), names), [], []
    for _ in range(DRAWS):
        centres = np.sqrt(alike) * rng.normal(size=(n_groups, 1))
        scores = (centres + np.sqrt(1.0 - alike) * rng.normal(size=(n_groups, size))).ravel()
        plane = calibration.quantile(scores, 0.1)
        expected, error = calibration.expected_recall((scores - plane)[None] + OUTWARDS)
        less.append(1.0 - ndtr(plane) - expected)
        errors.append(error)
    assert_as_foretold(less, 0.05 / (n_groups + 1))
    assert np.mean(errors) == pytest.approx(np.std(less), rel=0.5)


def test_weights_that_are_nearly_one_foretell_nearly_what_none_do():
    rng, n = np.random.default_rng(0), 20
    for _ in range(200):
        scores = rng.normal(size=n)
        plain = calibration_of(np.ones(n))
        plane = plain.quantile(scores, 0.1)
        within = (scores - plane)[None] + OUTWARDS
        for noise in (1e-9, 1e-7, 1e-5):
            weighed = calibration_of(1.0 + noise * rng.normal(size=n))
            np.testing.assert_allclose(weighed.expected_recall(within), plain.expected_recall(within), atol=100 * noise)
            # The plane is between the same two scores, and where exactly one score is between them on either.
            other = weighed.quantile(scores, 0.1)
            assert np.sort(scores)[1] <= other <= np.sort(scores)[2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:20 .*samples .*are few:slabsvm.FitWarning")
@pytest.mark.parametrize("make", [OneClassSVM, OneClassSlabSVM], ids=lambda make: make.__name__)
def test_fits_by_weights_that_are_nearly_one_find_what_they_expect(make):
    found = {}
    for noise in (None, 1e-7, 0.1):
        pairs = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            X, new = rng.normal(size=(20, 3)), rng.normal(size=(2000, 3))
            weights = None if noise is None else 1 + noise * rng.uniform(-1.0, 1.0, 20)
            model = make().fit(X, sample_weight=weights)
            pairs.append((model.expected_recall_, (model.predict(new) == 1).mean()))
        found[noise] = np.mean(pairs, axis=0)
        expected, met = np.transpose(pairs)
        assert abs((met - expected).mean()) < 3 * met.std() / np.sqrt(len(pairs)) + 0.005
    for noise in (1e-7, 0.1):
        np.testing.assert_allclose(found[noise], found[None], atol=0.02)


def test_of_planes_beyond_all_samples_one_more_row_may_be_stranger():
    nine = calibration_of(np.ones(9))
    assert nine.expected_recall(np.ones((1, 9)))[0] == pytest.approx(0.9)
    assert nine.expected_recall(np.ones((2, 9)))[0] == pytest.approx(0.8)
    assert nine.expected_recall(-np.ones((1, 9)))[0] == 0.0


def test_planes_that_accept_all_leave_an_error_that_is_no_nan():
    for m in range(2, 100):
        # Shares of 1 / m may add up to more than 1 by rounding.
        expected, error = calibration_of(np.ones(m)).expected_recall(np.linspace(0.0, 1.0, m)[None])
        assert 0.0 <= expected <= 1.0
        assert 0.0 <= error < 1.0


def test_at_least_is_expected_what_as_many_rows_say_of_a_quantile():
    for n in (9, 40, 99):
        expected, error = least_recall(0.9, n)
        scores = np.arange(n, dtype=float)
        calibration = calibration_of(np.ones(n))
        known, same = calibration.expected_recall((scores - calibration.quantile(scores, 0.1))[None] + OUTWARDS)
        assert expected <= known + 1e-12 <= expected + 1 / (n + 1)
        assert same <= error < 1.4 * same


def test_p_values_of_rows_in_random_order_are_uniform_at_most():
    rng, calibration = np.random.default_rng(0), calibration_of(np.ones(19))
    values = np.array([calibration.p_values(rng.normal(size=19), rng.normal(size=1))[0] for _ in range(DRAWS)])
    for level in (0.05, 0.1, 0.5):
        assert (values <= level + 1e-12).mean() == pytest.approx(level, abs=4 * np.sqrt(level / DRAWS))
    # Ties are no less normal than the new row.
    np.testing.assert_allclose(calibration.p_values(np.zeros(19), np.array([-1.0, 0.0, 1.0])), [0.05, 1.0, 1.0])
    assert Calibration(np.arange(3), np.full(3, 1 / 3), 3.0).p_values(np.zeros(3), np.zeros(1))[0] == 1.0


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
def test_where_all_rows_hold_a_plane_the_bound_of_the_recall_is_zero():
    X = np.array([[1.1]] * 7 + [[0.5]])
    model = OneClassSlabSVM(gamma=1.0, nu_lower=0.2, nu_upper=0.1, epsilon=0.0, calibration="training")
    model.fit(X, sample_weight=[2.0, 0.0, 0.001, 2.0, 0.0, 0.001, 2.0, 0.0])
    assert model.training_recall_bound_ == model.expected_recall_ == 0.0


@pytest.mark.filterwarnings("ignore::slabsvm.FitWarning")
def test_a_nu_of_one_and_a_rounding_leaves_rows_out():
    # A third of each weight, three times, is one and a rounding.
    X = np.array([[0.0], [0.0], [0.0], [0.0], [1.0], [2.0]])
    for model in (OneClassSVM(nu=1.0, gamma=1.0), KernelDensityDetector(nu=1.0)):
        assert np.isfinite(model.fit(X).calibration_decisions_).all()
