"""Positives that tests of several folders learn: correlated features, classes, and rows that come in groups."""

import numpy as np
import pytest


def correlated_rows(n_rows: int = 120) -> np.ndarray:
    """Return rows of four features of variance 1.1 and correlation .9, so that any kind of outlier can be told."""
    generator = np.random.default_rng(0)
    return generator.normal(size=(n_rows, 1)) @ np.ones((1, 4)) + 0.3 * generator.normal(size=(n_rows, 4))


@pytest.fixture(scope="session", name="X")
def correlated() -> np.ndarray:
    return correlated_rows()


def classes(count: int, seed: int, labels: str = "abc", *, apart: float = 8.0) -> tuple[np.ndarray, np.ndarray]:
    """Return so many rows of each class around corners of a square of this side, and their labels."""
    random, corners = np.random.default_rng(seed), {"a": (0.0, 0.0), "b": (apart, 0.0), "c": (0.0, apart)}
    X = np.concatenate([random.normal(size=(count, 2)) + corners[label] for label in labels])
    return X, np.repeat(list(labels), count)


def grouped(
    n_groups: int = 40, size: int | list[int] = 6, *, d: int = 3, spread: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows near the centres of groups of this size, or of these sizes, and the groups' numbers."""
    generator, numbers = np.random.default_rng(seed), np.repeat(np.arange(n_groups), size)
    rows = generator.normal(size=(n_groups, d))[numbers]
    return rows + spread * generator.normal(size=rows.shape), numbers
