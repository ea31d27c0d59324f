"""What is fitted and asked at once, in threads and in processes, is what it is alone, to the last bit."""

import multiprocessing
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from threading import Barrier, Event

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import many
from processes import python
from slabsvm import AutoDetector, DriftMonitor, FitWarning, OneClassSlabSVM, TrimmedDetector
from slabsvm.runtime.blas import ONE_BLAS_THREAD

pytestmark = [pytest.mark.numeric, pytest.mark.filterwarnings("ignore")]

NAMES = list(many.MODELS)
N_THREADS = 8


@pytest.fixture(scope="module", name="alone")
def answers_of_models_alone():
    return many.outcomes(NAMES, 0)


@pytest.mark.slow
def test_models_of_all_kinds_in_eight_threads_are_what_they_are_alone(alone):
    names = [str(name) for name in np.random.default_rng(0).permutation(NAMES)]
    with ThreadPoolExecutor(N_THREADS) as threads:
        found = dict(zip(names, threads.map(many.outcome, names, [0] * len(names)), strict=True))
    assert found == alone


def outcomes_by_two_threads(names: list[str], seed: int) -> dict[str, str]:
    with joblib.parallel_config(backend="threading", n_jobs=2):
        return many.outcomes(names, seed)


# A fork after the parent's fits inherits BLAS and pools, whose threads it has not, and compiled loops.
# That spawned processes agree, which take seconds to begin, test_same_bytes.py holds.
@pytest.mark.slow
def test_models_in_forked_processes_are_what_they_are_alone(alone):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no processes are made by fork here")
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as processes:
        found = list(processes.map(outcomes_by_two_threads, [NAMES] * 2, [0] * 2, timeout=120))
    assert found == [outcomes_by_two_threads(NAMES, 0)] * 2 == [alone] * 2


FORKED = """
import multiprocessing
import numpy as np
from slabsvm import AutoDetector

X = np.random.default_rng(0).normal(size=(600, 4))
model = AutoDetector().fit(X)
with multiprocessing.get_context("fork").Pool(2) as pool:
    asked = pool.map_async(model.decision_function, [X, X])
    print(*((found == model.decision_function(X)).all() for found in asked.get(timeout=60)))
    print(pool.apply_async(AutoDetector().fit, (X,)).get(timeout=60).offset_ == model.offset_)
"""


# The search for the nearest rows is divided by OpenMP, whose threads a forked child has not.
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are made by fork here")
def test_a_forked_child_searches_after_its_parent_has(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    run = python(FORKED)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["True"] * 3


@pytest.mark.slow
def test_a_fork_while_another_thread_fits_neither_waits_nor_differs(alone):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no processes are made by fork here")
    stop = False

    def fit_on() -> None:
        while not stop:
            OneClassSlabSVM().fit(many.rows(3, 150))

    with ThreadPoolExecutor(1) as other:
        going = other.submit(fit_on)
        try:
            for _ in range(10):
                with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as process:
                    assert process.submit(many.outcome, "slab", 0).result(timeout=60) == alone["slab"]
        finally:
            stop = True
        going.result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are made by fork here")
def test_a_fork_waits_while_another_thread_changes_the_threads_of_blas():
    # BLAS has a lock for that, which a child would inherit and wait for: it did.
    changing, changed = Event(), []

    def change() -> None:
        with ONE_BLAS_THREAD._lock:
            changing.set()
            time.sleep(0.1)
            changed.append(True)

    with ThreadPoolExecutor(1) as other:
        going = other.submit(change)
        changing.wait()
        child = os.fork()
        if child == 0:
            os._exit(0 if changed else 1)
        going.result()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("name", many.FEW)
def test_one_fitted_model_answers_eight_threads_as_it_answers_one(name):
    # What a model remembers of predictions is made by whichever thread comes first.
    model, asked = many.fitted(clone(many.MODELS[name]()), many.rows(0)), many.rows(1, 200)
    alone = many.fitted(clone(many.MODELS[name]()), many.rows(0)).decision_function(asked)
    begin = Barrier(N_THREADS)

    def answer(_: int) -> np.ndarray:
        begin.wait()
        return model.decision_function(asked)

    with ThreadPoolExecutor(N_THREADS) as threads:
        for found in threads.map(answer, range(N_THREADS)):
            np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize("name", many.FEW)
def test_a_model_that_two_threads_fit_is_one_of_the_two_whole(name):
    wanted = {many.answered(many.fitted(clone(many.MODELS[name]()), many.rows(seed)), 9) for seed in (0, 5)}
    model = clone(many.MODELS[name]())
    begin = Barrier(2)

    def fit(seed: int) -> None:
        begin.wait()
        many.fit(model, many.rows(seed))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(fit, (0, 5)))
    assert many.answered(model, 9) in wanted


def test_monitors_in_threads_are_what_they_are_alone():
    def watch(seed: int) -> float:
        model = many.fitted(clone(many.MODELS["calibrated"]()), many.rows(seed))
        monitor = DriftMonitor(model).fit()
        for piece in np.split(many.rows(seed + 1, 60), 6):
            monitor.update(piece)
        return monitor.log_evidence_

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(watch, range(4))) == [watch(seed) for seed in range(4)]


@pytest.mark.slow
def test_fits_at_once_leave_the_filters_of_warnings_as_they_were():
    # Filters are the whole process's: a thread that changes them for a while may restore another's changes.
    def fit(turn: int) -> None:
        begin.wait()
        if turn % 2:
            AutoDetector(recall=0.8).fit(many.rows(turn, 30 + 20 * turn))
        else:
            TrimmedDetector().fit(many.rows(turn, 30 + 20 * turn))

    begin, before = Barrier(4), list(warnings.filters)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(fit, range(4)))
    assert list(warnings.filters) == before
    with pytest.warns(FitWarning):
        OneClassSlabSVM(gamma=1e4, calibration="training").fit(many.rows(0))
