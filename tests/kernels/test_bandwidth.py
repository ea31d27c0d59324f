"""Bandwidth rules are what their sources say."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from positives import correlated_rows
from slabsvm import OneClassSlabSVM
from slabsvm.kernels import bandwidth


def test_rules_are_their_formulas():
    X = correlated_rows()
    pairs = pdist(X, "sqeuclidean")
    n, d = X.shape
    assert bandwidth.scale(X) == pytest.approx(OneClassSlabSVM(gamma="scale").fit(X).gamma_)
    to_the_fifth = np.sort(squareform(pairs), axis=1)[:, 5]
    assert bandwidth.neighbours(X) == pytest.approx(min(16 * bandwidth.scale(X), 2 / np.median(to_the_fifth)))
    assert bandwidth.neighbours(X) == pytest.approx(OneClassSlabSVM().fit(X).gamma_)
    assert bandwidth.neighbours(np.concatenate([X, X, X])) == pytest.approx(bandwidth.neighbours(X))
    assert bandwidth.median_heuristic(X) == pytest.approx(1 / (2 * np.median(pairs)))
    mean_squared = np.log((n - 1) / 2e-12) / (2 * pairs.mean())
    assert bandwidth.mean_criterion(X) == pytest.approx(mean_squared)
    phi = 1 / np.log(n - 1)
    delta = -0.14818008 * phi**4 + 0.284623624 * phi**3 - 0.252853808 * phi**2 + 0.159059498 * phi - 0.001381145
    assert bandwidth.modified_mean_criterion(X) == pytest.approx(np.log((n - 1) / delta**2) / (2 * pairs.mean()))
    variance = X.var(axis=0).mean()
    assert bandwidth.scott(X) == pytest.approx(1 / (2 * n ** (-2 / (d + 4)) * variance))
    assert bandwidth.silverman(X) == pytest.approx(1 / (2 * (n * (d + 2) / 4) ** (-2 / (d + 4)) * variance))
