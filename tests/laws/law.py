"""What a law is: a sentence, problems of which it is true, and how many of them `./check` tries.

`campaigns/laws.py` tries the same laws on as many as fit a stated time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any
from warnings import catch_warnings, simplefilter

from hypothesis import HealthCheck, example, given, settings
from hypothesis.strategies import SearchStrategy
from sklearn.exceptions import ConvergenceWarning

from slabsvm import FitWarning

UNSAID = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
# The same examples on every run; what a failure prints repeats it.
CHECK = settings(derandomize=True, database=None, deadline=None, print_blob=True, suppress_health_check=UNSAID)


@dataclass(frozen=True)
class Law:
    """A function that raises where the law is broken, what its arguments are drawn from, and what once broke it."""

    state: Callable[..., None]
    drawn: tuple[SearchStrategy[Any], ...]
    broken_by: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """The sentence."""
        return self.state.__name__.removeprefix("test_").replace("_", " ")

    def tried(self, how: settings, each: Callable[[], None] = lambda: None) -> Callable[[], None]:
        """Return what tries it, with these settings, and calls `each` with every example."""

        @wraps(self.state)
        def counted(**drawn: Any) -> None:
            each()
            self.state(**drawn)

        test = how(given(*self.drawn)(counted))
        for arguments in self.broken_by:
            test = example(**arguments)(test)
        return test


# Every law, in the order of definition.
LAWS: list[Law] = []


def law(
    *drawn: SearchStrategy[Any], examples: int, broken_by: Sequence[dict[str, Any]] = ()
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make a test of a function, of as many examples in `./check`, and a law of the campaign.

    broken_by are arguments at which the law did not hold once, which are always tried.
    """

    def test_of(state: Callable[..., None]) -> Callable[[], None]:
        LAWS.append(Law(state, drawn, tuple(broken_by)))
        return LAWS[-1].tried(settings(CHECK, max_examples=examples))

    return test_of


@contextmanager
def only_our_warnings() -> Iterator[None]:
    """Let a fit say what is odd about it, and take any other warning for an error."""
    with catch_warnings(action="error"):
        for ours in (FitWarning, ConvergenceWarning):
            simplefilter("ignore", ours)
        yield


def attempted(fit: Callable[[], Any]) -> Any:
    """Return the model that a fit makes, or the words in which it refuses rows whose differences rounding hides."""
    with only_our_warnings():
        try:
            return fit()
        except ValueError as error:
            if "rounding hides" not in str(error):
                raise
            return str(error)
