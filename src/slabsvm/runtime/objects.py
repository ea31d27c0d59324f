"""How objects behave here: methods that change all or nothing, and properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, Self, TypeVar, cast, overload

from sklearn import get_config, set_config

Method = TypeVar("Method", bound=Callable[..., Any])


def atomic(method: Method) -> Method:
    """Return a method that changes its object once, when it has succeeded.

    The method works on a copy: another object of the same class, with the same attributes. Its attributes are taken
    over by one assignment. An exception at any moment, KeyboardInterrupt among them, leaves the object unchanged, and a
    thread that uses the object meanwhile sees the old attributes. Attributes are replaced, never changed in place. A
    method that returns its object returns the one that it was called on.

    scikit-learn's configuration is as before, too: interrupted between two lines of its own `config_context`, it would
    go on without validation of parameters in this thread.
    """

    @wraps(method)
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
