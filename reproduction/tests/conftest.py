"""What a test of a command leaves as it was."""

import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slabsvm_reproduction.toy import experiment as toy
from slabsvm_reproduction.toy import report as toy_report


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Answer Ctrl-C during a test, and have its children do so, where the run itself ignores it (nohup ./check &).

    Give the process its own answer back, too, which a command that is interrupted leaves to the system.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def small_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two draws of one covariance, of few points, and no reading but the printed one."""
    points = toy.toy_points
    monkeypatch.setattr(toy, "toy_points", lambda cell: points(replace(cell, n_points=150)))
    monkeypatch.setattr(toy, "DRAWS", range(2))
    monkeypatch.setattr(toy, "SHAPES", {"round": toy.SHAPES["round"]})
    for module in (toy, toy_report):
        monkeypatch.setattr(module, "READINGS", toy.READINGS[:1])
