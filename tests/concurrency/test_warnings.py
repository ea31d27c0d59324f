"""No warning of NumPy, SciPy, scikit-learn or Python itself leaves a public call: only the package's own do."""

import warnings

import numpy as np
import pytest

import many
from slabsvm import DriftMonitor


@pytest.mark.slow
@pytest.mark.parametrize("name", many.MODELS)
def test_no_call_of_a_model_lets_a_warning_of_a_dependency_escape(name):
    n_answered, found = many.escaped(name, many.ODD)
    assert found == []
    assert n_answered >= 4


def test_no_call_of_a_monitor_or_a_metric_lets_a_warning_of_a_dependency_escape():
    X = many.rows(0)
    model = many.fitted(many.MODELS["calibrated"](), X)
    with warnings.catch_warnings(action="error"):
        monitor = DriftMonitor(model).fit()
        for rows in (X, X[:1], 1e100 * X, np.zeros((5, 4))):
            monitor.update(rows)
            monitor.rate()
            monitor.summary()
        model.novelties(X)
