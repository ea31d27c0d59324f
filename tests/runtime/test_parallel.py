"""Calls that are divided, and made anew where Dask has cancelled them."""

from concurrent.futures import CancelledError

import pytest
from sklearn.utils.parallel import delayed

from slabsvm.runtime.blas import parallel


@pytest.fixture(name="cancelled")
def calls_of_which_some_are_cancelled():
    """A function that is cancelled so many times; it returns its argument, and how often it was called."""
    made = []

    def call(times, value):
        made.append(value)
        if len(made) <= times:
            raise CancelledError("lost dependencies")
        return value, len(made)

    return call


def test_cancelled_calls_are_made_anew(cancelled):
    calls = (delayed(cancelled)(2, value) for value in "abc")
    assert parallel(calls, 1) == [("a", 3), ("b", 4), ("c", 5)]


def test_other_errors_are_not_tried_again():
    made = []

    def call():
        made.append(1)
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        parallel([delayed(call)()], 1)
    assert len(made) == 1


def test_calls_that_are_cancelled_at_every_try_end(cancelled):
    with pytest.raises(CancelledError, match="lost dependencies"):
        parallel([delayed(cancelled)(3, "a")], 1)
