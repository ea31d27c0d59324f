"""Positives that tests of the search learn: correlated features, so that strangers of any kind can be told apart."""

import numpy as np


def correlated_rows(n_rows: int = 120) -> np.ndarray:
    """Return rows of four features of variance 1.1 and correlation .9."""
    generator = np.random.default_rng(0)
    return generator.normal(size=(n_rows, 1)) @ np.ones((1, 4)) + 0.3 * generator.normal(size=(n_rows, 4))
