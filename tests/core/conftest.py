"""The instruction sets that the core has loops for."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slabsvm import core

INSTRUCTION_SETS = ("baseline", "avx2", "avx512")


@pytest.fixture(params=INSTRUCTION_SETS)
def instructions(request: Any) -> Iterator[str]:
    """Use the loops of each instruction set that this machine has."""
    if request.param not in core.instruction_sets():
        pytest.skip(f"this processor lacks {request.param}")
    before = core.instructions()
    core.use_instructions(request.param)
    yield request.param
    core.use_instructions(before)


@pytest.fixture
def under_each() -> Iterator[Callable[[Callable[[], Any]], list[Any]]]:
    """Give a function that returns what a loop gives under each instruction set that this machine has."""
    before = core.instructions()
    yield lambda loop: [(core.use_instructions(name), loop())[1] for name in core.instruction_sets()]
    core.use_instructions(before)
