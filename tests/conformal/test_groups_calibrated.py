"""p-values for rows of new groups: whole groups calibrate, and each counts as one."""

import numpy as np
import pytest
import sklearn
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from positives import grouped
from slabsvm import ConformalDetector, OneClassSVM

# Few groups and rows are enough for what is exact.
pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore:.* are few to set a threshold")]


@pytest.mark.slow
def test_rows_of_new_groups_are_rejected_at_the_rate_asked_for():
    rates, by_rows = [], []
    for seed in range(8):
        X, groups = grouped(60, 6, seed=seed)
        new, _ = grouped(400, 1, seed=100 + seed)
        model = ConformalDetector(OneClassSVM(), alpha=0.1)
        rates.append((model.fit(X, groups=groups).predict(new) == -1).mean())
        assert model.n_calibration_ == 30
        if seed < 3:
            by_rows.append((model.fit(X).predict(new) == -1).mean())
    # The rate of one calibration by n groups has a deviation of about sqrt(.09 / n), of eight .02 at most.
    assert 0.05 < np.mean(rates) < 0.1 + 2 * 0.02
    assert np.mean(by_rows) > 0.3


def test_each_group_counts_as_one_however_many_rows_it_has():
    X, groups = grouped(7, [1, 2, 3, 10, 50, 4, 5])
    model = ConformalDetector(FrozenEstimator(OneClassSVM(gamma=1.0).fit(X)), alpha=0.3).fit(X, groups=groups)
    assert model.n_calibration_ == 7
    scores = model.estimator_.decision_function(X)
    new, _ = grouped(50, 1, seed=5)
    below = scores[None] <= model.estimator_.decision_function(new)[:, None]
    shares = np.stack([below[:, groups == name].mean(axis=1) for name in np.unique(groups)]).sum(axis=0)
    np.testing.assert_allclose(model.p_values(new), (1 + np.ceil(shares - 1e-9)) / 8)


def test_detectors_of_any_library_and_pipelines_have_groups():
    X, groups = grouped(40, 3)
    for detector in (IsolationForest(random_state=0), make_pipeline(StandardScaler(), OneClassSVM())):
        model = ConformalDetector(detector, alpha=0.1).fit(X, groups=groups)
        held_out = np.unique(groups[model.held_out_])
        assert len(held_out) == model.n_calibration_ == 20
        assert np.isin(groups, held_out).sum() == len(model.held_out_)
    steps = model.estimator_
    learned = np.setdiff1d(np.arange(len(X)), model.held_out_)
    alone = OneClassSVM().fit(steps[0].transform(X[learned]), groups=groups[learned])
    assert steps[-1].offset_ == alone.offset_


def test_under_metadata_routing_pipelines_get_groups_and_weights():
    X, groups = grouped(20, 4)
    weights = np.random.default_rng(0).integers(1, 3, len(X))
    given = {"groups": groups, "sample_weight": weights}
    plain = make_pipeline(StandardScaler(), OneClassSVM())
    with sklearn.config_context(enable_metadata_routing=True):
        asking = OneClassSVM().set_fit_request(groups=True, sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), asking)
        routed = ConformalDetector(pipeline, alpha=0.2).fit(X, **given)
    unrouted = ConformalDetector(plain, alpha=0.2).fit(X, **given)
    np.testing.assert_array_equal(routed.p_values(X), unrouted.p_values(X))
    assert routed.estimator_[-1].offset_ == unrouted.estimator_[-1].offset_
