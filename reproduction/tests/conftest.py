"""What a test of a command leaves as it was."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Answer Ctrl-C during a test, and have its children do so, where the run itself ignores it (nohup ./check &).

    Give the process its own answer back, too, which a command that is interrupted leaves to the system.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
