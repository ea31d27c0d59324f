"""A property that is computed once, without a lock that threads or forks could wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):  # noqa: N801 - as that of functools
    """`functools.cached_property` as it is from Python 3.12 on.

    Before, each property had one lock for the objects of all threads: fits in threads waited for each other there, and
    a process that was forked while another thread held it waited for ever. Two threads that ask one object at once may
    both compute the value: either is as good.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the name under which objects hold the value."""
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        """Return the value, which the object then holds under the property's name."""
        if instance is None:
            return self
        value = self.compute(instance)
        instance.__dict__[self.name] = value
        return value
