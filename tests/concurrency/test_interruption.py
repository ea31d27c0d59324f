"""Ctrl-C at any moment: the state before or the state after, whole; and a long call does not keep it waiting."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn import get_config
from sklearn.base import clone

import many
from slabsvm import DriftMonitor
from slabsvm.runtime.blas import in_own_thread

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore")]

# tests/detectors/test_atomic.py interrupts the slower one, average, at calls that it counts.
NAMES = [name for name in many.MODELS if name != "average"]
# In all; each model has its share.
N_MOMENTS = 76


@pytest.mark.parametrize("name", NAMES)
def test_a_signal_at_random_moments_leaves_the_state_before_or_the_one_after_whole(name):
    model = many.fitted(clone(many.MODELS[name]()), many.rows(0))
    begin = time.perf_counter()
    after = many.answered(many.fitted(clone(model), many.rows(5)), 9)
    lasting = time.perf_counter() - begin
    before, state, n_interrupted = many.answered(model, 9), dict(vars(model)), 0
    configuration = get_config()
    generator, moments = np.random.default_rng(0), N_MOMENTS // len(NAMES)
    # The fit that was timed may have been the slow one: then the next signals come sooner.
    while not n_interrupted and lasting > 1e-4:
        for moment in generator.uniform(1e-4, 1.2 * lasting, moments):
            try:
                with many.interrupted_after(float(moment)):
                    many.fit(model, many.rows(5))
            except KeyboardInterrupt:
                n_interrupted += 1
            same = [value is state.get(name) for name, value in vars(model).items()]
            assert many.answered(model, 9) == (before if all(same) else after)
            if all(same):
                assert vars(model).keys() == state.keys()
            vars(model).update(state)
            assert get_config() == configuration
        lasting /= 2
    assert n_interrupted


def test_a_signal_at_random_moments_of_an_update_counts_all_of_its_rows_or_none():
    model = many.fitted(clone(many.MODELS["calibrated"]()), many.rows(0))
    monitor, piece = DriftMonitor(model).fit(), many.rows(3, 2000)
    counts = set()
    for moment in np.random.default_rng(0).uniform(1e-4, 5e-3, 20):
        before = monitor.n_rows_
        try:
            with many.interrupted_after(float(moment)):
                monitor.update(piece)
        except KeyboardInterrupt:
            pass
        counts.add(monitor.n_rows_ - before)
    assert counts <= {0, len(piece)}


def test_a_call_apart_is_answered_while_it_lasts_and_its_result_is_dropped():
    main, end = threading.get_ident(), threading.Event()

    def call() -> int:
        if not end.is_set():
            signal.pthread_kill(main, signal.SIGALRM)
        assert end.wait(60)
        return 1

    with pytest.raises(KeyboardInterrupt), many.interrupted_after(3600):
        in_own_thread(call)
    end.set()
    assert in_own_thread(call) == 1
    assert in_own_thread(np.add, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        in_own_thread(divmod, 1, 0)
    with ThreadPoolExecutor(1) as other:
        # Elsewhere there is nobody to interrupt.
        assert other.submit(in_own_thread, threading.get_ident).result() != threading.get_ident()
