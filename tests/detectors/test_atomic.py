"""A fit that fails or is interrupted leaves the object as it was: all of the new model, or all of the old one."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from sklearn import config_context, get_config, set_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

import many
import problems
from slabsvm import AutoDetector, ConformalDetector, FitWarning, NormalScores, OneClassSlabSVM, OpenSetClassifier
from slabsvm.runtime.estimators import atomic

X = np.random.default_rng(0).gamma(16.0, 1 / 16, (60, 3))
OTHER = np.random.default_rng(1).gamma(16.0, 1 / 16, (50, 3))
FITTED: dict[str, Any] = {name: make() for name, make in problems.FAMILY.items()}
FITTED |= {"conformal": ConformalDetector(alpha=0.1), "open set": OpenSetClassifier(alpha=0.1)}
FITTED |= {"auto": AutoDetector(recall=0.8), "ranks": NormalScores()}
by_name = pytest.mark.parametrize("name", FITTED)


class Interrupt(KeyboardInterrupt):
    """What Ctrl-C raises."""


# Where an interrupt would leave a setting of the whole process behind, for the tests that follow.
SPARED = "slabsvm.runtime.blas"


@contextmanager
def interrupted_at(call: int) -> Iterator[list[int]]:
    """Interrupt at the call of this number among those of functions of the package; yield the calls that were made."""
    made = [0]

    def count(frame: Any, event: str, argument: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("slabsvm") and module != SPARED:
            made[0] += 1
            if made[0] == call:
                raise Interrupt

    sys.setprofile(count)
    try:
        yield made
    finally:
        sys.setprofile(None)


def assert_the_same(now: dict[str, Any], before: dict[str, Any]) -> None:
    assert now.keys() == before.keys()
    assert [name for name, value in now.items() if value is not before[name]] == []


@by_name
def test_a_refused_fit_leaves_what_was(name):
    wrong = np.c_[OTHER, OTHER, np.full(len(OTHER), np.nan)]
    model = clone(FITTED[name])
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        many.fitted(model, wrong)
    assert_the_same(vars(model), before)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    before = dict(vars(many.fitted(model, X)))
    with pytest.raises(ValueError, match="NaN"):
        many.fitted(model, wrong)
    assert_the_same(vars(model), before)
    assert model.n_features_in_ == 3


@pytest.mark.slow
@by_name
def test_an_interrupt_at_any_moment_leaves_what_was(name):
    prototype = FITTED[name]
    model = many.fitted(clone(prototype), X)
    # The first of equal fits also makes what is remembered.
    for _ in range(2):
        counted = clone(prototype)
        with interrupted_at(0) as made:
            many.fitted(counted, OTHER)
    # It calls tens of thousands of functions, which counting them slows down.
    moments = 3 if name == "auto" else 12
    for call in np.unique(np.linspace(1, made[0], moments, dtype=int)):
        unfitted = clone(prototype)
        parameters, before = dict(vars(unfitted)), dict(vars(model))
        for changed, state in ((unfitted, parameters), (model, before)):
            with pytest.raises(Interrupt), interrupted_at(call):
                many.fitted(changed, OTHER)
            assert_the_same(vars(changed), state)
    expected = many.fitted(clone(prototype), X)
    method = "transform" if hasattr(model, "transform") else "decision_function"
    np.testing.assert_array_equal(getattr(model, method)(X), getattr(expected, method)(X))


def test_a_warning_that_the_user_made_an_error_is_a_failed_fit():
    model = OneClassSlabSVM(gamma="scale").fit(X)
    before = dict(vars(model))
    with warnings.catch_warnings(action="error", category=ConvergenceWarning):
        with pytest.raises(ConvergenceWarning):
            model.set_params(tol=1e-12, max_iter=1).fit(OTHER)
        warnings.simplefilter("error", FitWarning)
        with pytest.raises(FitWarning):
            model.set_params(tol=1e-3, max_iter=-1, gamma=1e4, calibration="training").fit(OTHER)
    model.set_params(**{name: before[name] for name in ("tol", "max_iter", "gamma", "calibration")})
    assert_the_same(vars(model), before)


def test_an_interruption_inside_scikit_learns_own_change_of_its_configuration_leaves_it_as_it_was():
    class Interrupted:
        @atomic
        def fit(self):
            # As config_context, before its try.
            set_config(skip_parameter_validation=True)
            raise Interrupt

    with config_context(assume_finite=True):
        before = get_config()
        with pytest.raises(Interrupt):
            Interrupted().fit()
        assert get_config() == before
