"""What holds for all tests: one thread for each linear algebra library, warnings that are asserted, and Ctrl-C.

The processes are as many as the cores. What comes of more threads is tested by test_threads, which sets their number
itself, and by scripts/matrix.
"""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

# Read when NumPy is first imported, which no import above does.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# No test opens a window.
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark scikit-learn's own checks, which stand in modules of numbers and ask for types and words."""
    for item in items:
        if {"estimator", "check"} <= set(getattr(getattr(item, "callspec", None), "params", {})):
            item.add_marker("contract")
            # Their few rows, many of them equal, are what fits warn of; other libraries' warnings are errors here, too.
            item.add_marker(pytest.mark.filterwarnings("ignore::slabsvm.FitWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> Any:
    """Assert the warnings of a test's marks `warns`: of any other one the test fails.

    scripts/matrix runs tests under other kernels, where a fit that is near a warning's threshold may warn or not.
    """
    if os.environ.get("SLABSVM_WARNINGS") == "either way":
        return (yield)
    case = getattr(getattr(pyfuncitem, "callspec", None), "id", "")
    with ExitStack() as stack:
        for mark in pyfuncitem.iter_markers("warns"):
            (text,), cases = mark.args, mark.kwargs.get("cases")
            if cases is None or case in cases or not set(cases).isdisjoint(case.split("-")):
                stack.enter_context(pytest.warns(Warning, match=re.escape(text)))
        return (yield)


@pytest.fixture(autouse=True)
def _figures_closed() -> Iterator[None]:
    """Close what a test has drawn: pyplot keeps each figure, and warns of the twenty-first."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Answer Ctrl-C during a test, and have its children do so, where the run itself ignores it (nohup ./check &).

    A child inherits an interruption that is ignored, and no other answer to it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
