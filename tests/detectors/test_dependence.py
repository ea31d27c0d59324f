"""Residuals of each feature on the others, which are those of refits without the row."""

import numpy as np
import pytest

from slabsvm import DependenceDetector
from slabsvm.ensemble import dependence
from slabsvm.ensemble.dependence import MULTIPLE, RIDGE

# Few groups and rows are enough for what is exact.
pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore:.* are few to set a threshold")]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return np.column_stack([x, x**2 + 0.1 * rng.normal(size=n), rng.normal(size=n)]) * [1.0, 100.0, 1e-3]


def refit(Z, counts, new, target, gamma):
    """Return the prediction of a target at standardised rows, by a plain solve of weighted kernel ridge regression."""
    others = np.delete(np.arange(Z.shape[1]), target)

    def kernel(left, right):
        squares = ((left[:, None, others] - right[None, :, others]) ** 2).sum(axis=2)
        return np.exp(-gamma * squares) + gamma * left[:, others] @ right[:, others].T + 1.0

    K = kernel(Z, Z) + RIDGE * np.diag(1.0 / counts)
    return kernel(new, Z) @ np.linalg.solve(K, Z[:, target])


def fitted_parts(X, monkeypatch, **fit):
    """Return a fitted detector, and the residuals that its surprises were made of."""
    kept = []
    surprise_of = dependence.Surprise.of.__func__

    def noted(cls, scores, *rest, **unit):
        kept.append(-scores)
        return surprise_of(cls, scores, *rest, **unit)

    with monkeypatch.context() as patch:
        patch.setattr(dependence.Surprise, "of", classmethod(noted))
        model = DependenceDetector().fit(X, **fit)
    return model, np.array(kept).T


def test_left_out_residuals_are_those_of_refits_without_one_copy(monkeypatch):
    X = rows(40)
    times = np.r_[3, 2, 2, np.ones(37, dtype=int)]
    model, residuals = fitted_parts(np.repeat(X, times, axis=0), monkeypatch)
    regressions = model.model_.regressions
    Z = regressions.standardised(X)
    assert regressions.gammas == pytest.approx(MULTIPLE / 2)
    expected = np.empty((40, 3))
    for i in range(40):
        counts = times.astype(float)
        counts[i] -= 1
        kept = counts > 0
        for target in range(3):
            at = refit(Z[kept], counts[kept], Z[[i]], target, MULTIPLE / 2)[0]
            expected[i, target] = abs(Z[i, target] - at)
    # The detector's order of samples is a hash.
    np.testing.assert_allclose(np.sort(residuals, axis=0), np.sort(expected, axis=0), rtol=1e-8, atol=1e-10)


def test_left_out_groups_are_those_of_refits(monkeypatch):
    X, groups = rows(40), np.arange(40) // 4
    model, residuals = fitted_parts(X, monkeypatch, groups=groups)
    Z = model.model_.regressions.standardised(X)
    expected = []
    for i in range(40):
        others = groups != groups[i]
        expected.append([abs(Z[i, t] - refit(Z[others], np.ones(36), Z[[i]], t, MULTIPLE / 2)[0]) for t in range(3)])
    np.testing.assert_allclose(np.sort(residuals, axis=0), np.sort(expected, axis=0), rtol=1e-8, atol=1e-10)


def test_it_sees_what_is_usual_alone_and_unusual_together_and_says_what_was_expected():
    X, new = rows(300), rows(200, 1)
    model = DependenceDetector().fit(X)
    assert (model.predict(new) == 1).mean() == pytest.approx(0.9, abs=0.06)  # two deviations of a share of 300 and 200
    odd = np.array([[1.5, 0.0, 0.0], [0.0, 400.0, 0.0]])
    assert model.predict(odd).tolist() == [-1, -1]
    assert model.expected([[1.5, 0.0, 0.0]])[0, 1] == pytest.approx(225.0, abs=40.0)
    shares = model.explain(odd)
    np.testing.assert_allclose(shares.sum(axis=1), model.decision_function(odd), rtol=1e-9)
    assert shares[0, 2] > shares[0, 1]


def test_units_do_not_matter_and_constants_are_no_targets():
    X = rows(100)
    new = rows(50, 1)
    model = DependenceDetector().fit(X)
    scaled = DependenceDetector().fit(X * [1e6, 1.0, 1e3] + [5.0, 0.0, 0.0])
    np.testing.assert_allclose(
        scaled.decision_function(new * [1e6, 1.0, 1e3] + [5.0, 0.0, 0.0]), model.decision_function(new), atol=0.05
    )
    beside = DependenceDetector().fit(np.column_stack([X, np.full(100, 3.0)]))
    assert beside.targets_.tolist() == [0, 1, 2]
    assert np.isnan(beside.expected(np.ones((1, 4)))[0, 3])


def test_many_features_and_rows_are_sampled():
    X = np.random.default_rng(0).normal(size=(700, 30))
    model = DependenceDetector().fit(X)
    assert len(model.targets_) == 10
    assert len(model.model_.regressions.samples) == model.max_samples
    assert (model.predict(np.random.default_rng(1).normal(size=(500, 30))) == 1).mean() == pytest.approx(0.9, abs=0.04)
    assert not np.array_equal(DependenceDetector(random_state=1).fit(X).targets_, model.targets_)


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.arange(10.0)[:, None], "needs at least 2 features"),
        (np.ones((10, 3)), "of which 0 vary"),
        (np.array([[1e200, 1.0], [-1e200, 2.0], [0.0, 3.0]]), "overflow float64"),
    ],
)
def test_what_has_no_dependence_is_refused(X, text):
    with pytest.raises(ValueError, match=text):
        DependenceDetector().fit(X)


def test_rows_at_any_distance_are_rejected():
    model = DependenceDetector().fit(rows(100))
    far = np.array([[1e9, 0.0, 0.0], [1.7e308, -1.7e308, 0.0]])
    assert (model.predict(far) == -1).all()
    assert np.isfinite(model.score_samples(far)).all()
