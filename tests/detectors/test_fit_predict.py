"""fit_predict answers each row as the model without it does: outliers among the rows are found, whatever wraps it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import problems
from slabsvm import AutoDetector, ConformalDetector, FitWarning, OneClassSVM, TrimmedDetector

pytestmark = pytest.mark.numeric

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
