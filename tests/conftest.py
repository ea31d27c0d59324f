"""One thread for each linear algebra library in each test process: the processes are as many as the cores.

What comes of more threads is tested by test_threads, which sets their number itself, and by scripts/matrix.
"""

import os
from typing import Any

import pytest

# Read when NumPy is first imported, which no import above does.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark scikit-learn's own checks, which stand in modules of numbers and ask for types and words."""
    for item in items:
        if {"estimator", "check"} <= set(getattr(getattr(item, "callspec", None), "params", {})):
            item.add_marker("contract")
