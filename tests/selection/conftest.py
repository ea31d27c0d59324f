"""The positives that these tests learn."""

import numpy as np
import pytest

from positives import correlated_rows


@pytest.fixture(scope="session", name="X")
def correlated() -> np.ndarray:
    return correlated_rows()
