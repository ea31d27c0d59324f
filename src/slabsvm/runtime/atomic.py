"""All or nothing: what a method changes of its object is there in full, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def atomic(method: Method) -> Method:
    """Return a method that changes its object once, when it has succeeded.

    The method works on another object of the same class that begins with the same attributes, and its attributes are
    taken over by one assignment: an exception at any moment, KeyboardInterrupt among them, leaves the object as it was,
    and a thread that uses the object meanwhile sees what it was. Attributes are replaced, never changed in place.
    A method that returns its object returns the one that it was called on.
    """

    @wraps(method)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        successor = object.__new__(type(self))
        successor.__dict__.update(self.__dict__)
        answer = method(successor, *args, **kwargs)
        self.__dict__ = dict(successor.__dict__)
        return self if answer is successor else answer

    return cast(Method, whole)
