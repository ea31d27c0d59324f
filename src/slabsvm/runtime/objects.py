"""Objects: methods that change all or nothing, seeds, and properties that are computed once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import get_config, set_config
from sklearn.utils import check_random_state

Method = TypeVar("Method", bound=Callable[..., Any])
Value_co = TypeVar("Value_co", covariant=True)


def atomic(method: Method) -> Method:
    """Return a method that changes its object once, when it has succeeded.

    The method works on a copy, whose attributes are taken over by one assignment: an exception at any moment leaves the
    object unchanged, and a thread that uses it meanwhile sees the old attributes. scikit-learn's configuration is as
    before, too: interrupted inside of its `config_context`, it would go on without validation of parameters in this
    thread.
    """

    @functools.wraps(method)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        successor = object.__new__(type(self))
        successor.__dict__.update(self.__dict__)
        configuration = get_config()
        try:
            answer = method(successor, *args, **kwargs)
        except BaseException:
            set_config(**configuration)
            raise
        self.__dict__ = dict(successor.__dict__)
        return self if answer is successor else answer

    return cast(Method, whole)


def seed_of(random_state: Any) -> int:
    """Return a seed drawn from a random_state of scikit-learn's: an int, a RandomState or None."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


class cached_property(functools.cached_property[Value_co]):  # noqa: N801 - as that of functools
    """`functools.cached_property` as it is from Python 3.12 on, without a lock, on which threads and forked processes
    wait.
    """

    def __init__(self, compute: Callable[[Any], Value_co]) -> None:
        super().__init__(compute)
        self.lock = nullcontext()
