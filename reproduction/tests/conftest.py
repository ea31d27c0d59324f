"""What a test of a command leaves as it was."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Give the tests' process back its answer to Ctrl-C, which a command that is interrupted leaves to the system."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
