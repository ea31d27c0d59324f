"""Positives, and rows to ask about: away from the origin, as nearer clouds have w = 0 with a linear kernel."""

import numpy as np
import pytest


@pytest.fixture(scope="session", name="X")
def positives() -> np.ndarray:
    return np.random.default_rng(0).gamma(64.0, 1 / 16, (120, 4))


@pytest.fixture(scope="session", name="new")
def positives_and_novelties() -> np.ndarray:
    return np.random.default_rng(1).gamma(32.0, 1 / 8, (60, 4))
