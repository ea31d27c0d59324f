"""What is computed does not depend on how many threads compute it, of Python or of BLAS."""

import linecache
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

import problems
from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, NeighboursDetector, OneClassSlabSVM
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.svm.gram import TILE, TILE_COLUMNS, Computed

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("kernel", tuple(problems.FORMULAS))
def test_tiles_are_the_block(kernel, n_threads):
    formula, instance = problems.FORMULAS[kernel]
    X = np.random.default_rng(0).gamma(4.0, 1 / 4, (TILE_COLUMNS + 3, 2))
    rows, columns = np.arange(TILE + 1), np.arange(TILE_COLUMNS + 2)
    expected = formula(X[rows], X[columns])
    # A value is a sum of a few terms of its own size, but for an RBF exponent, which is one of terms of |x|^2.
    allowed = 32 * np.finfo(float).eps * (1.0 + (X**2).sum(axis=1).max())
    found = Computed(instance, X, n_threads).block(rows, columns)
    np.testing.assert_allclose(found, expected, rtol=allowed, atol=allowed)


@pytest.mark.slow
@pytest.mark.warns("Rows that exceed the training rows", cases=["intersection"])
@pytest.mark.parametrize("kernel", tuple(problems.FORMULAS))
def test_the_number_of_threads_does_not_matter_to_the_last_bit(kernel):
    X = np.random.default_rng(3).gamma(64.0, 1 / 16, (1100, 6))
    expected = None
    for n_jobs, n_blas_threads in ((1, 1), (2, 1), (3, 2), (1, 2)):
        with joblib.parallel_config(n_jobs=n_jobs), threadpool_limits(n_blas_threads, "blas"):
            model = OneClassSlabSVM(kernel=kernel).fit(X)
            found = (model.decision_function(X), model.calibration_scores_, model.dual_coef_)
        expected = expected or found
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


MODELS = [OneClassSlabSVM(kernel="precomputed"), OneClassSlabSVM(gamma=3.0), SVDD(), KernelPCADetector()]
MODELS += [KernelPCADetector(n_components=2, calibration="training"), KernelDensityDetector(), NeighboursDetector()]


@pytest.mark.warns("of the training rows, and of rows that repeat them", cases=["OneClassSlabSVM(gamma=3.0)"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_number_of_threads_of_blas_does_not_matter_to_the_last_bit(model):
    # At gamma 3 all 1100 samples are free: a face that is factored in float32. All components of kernel PCA take m^3
    # operations, in which BLAS's threads would show at any size.
    n_samples = 1100 if hasattr(model, "cache_size") else 300
    X = np.random.default_rng(4).normal(3.0, 1.0, (n_samples, 7))
    if getattr(model, "kernel", None) == "precomputed":
        X = (1.0 + np.abs(X[:, None] - X[None]).sum(axis=2)) ** -1.0
    found = []
    for n_blas_threads in (1, 2):
        with threadpool_limits(n_blas_threads, "blas"):
            found.append(clone(model).fit(X).decision_function(X))
    np.testing.assert_array_equal(*found)


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def inside() -> set[int]:
    with ONE_BLAS_THREAD:
        return blas_threads()


# threadpoolctl 3.8 obeys only the thread that first set a number, as long as it lives.
def test_blas_has_one_thread_inside_whichever_threads_set_its_number_before():
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        limits = first.submit(threadpool_limits, 2, "blas").result()
        others = [lambda task, thread=thread: thread.submit(task).result() for thread in (second, first)]
        for run in (lambda task: task(), *others):
            assert run(blas_threads) == {2}
            assert run(inside) == {1}
            assert run(blas_threads) == {2}
        first.submit(limits.restore_original_limits).result()


def test_the_last_thread_to_leave_restores_what_the_first_to_enter_found():
    entered, leave = [Event(), Event()], [Event(), Event()]

    def stay(which):
        with ONE_BLAS_THREAD:
            entered[which].set()
            leave[which].wait()

    with threadpool_limits(2, "blas"), ThreadPoolExecutor(2) as others:
        stays = [others.submit(stay, which) for which in range(2)]
        for event in entered:
            event.wait()
        leave[0].set()
        stays[0].result()
        assert blas_threads() == {1}
        leave[1].set()
        stays[1].result()
        assert blas_threads() == {2}
        with threadpool_limits(1, "blas"):  # by this thread, which is obeyed again
            assert blas_threads() == {1}


def interrupted(action, moment) -> bool:
    """Return whether an action was interrupted, as Ctrl-C does, where it begins this call or line of blas.py."""
    left = moment

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.endswith("blas.py"):
            return None
        # Python leaves no room for an interrupt between the body of `with lock` and the lock's release.
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        left -= event in ("call", "line") and "with self._lock" not in line
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.slow
def test_an_interrupt_at_any_moment_leaves_the_threads_of_blas_as_they_were():
    def nested():
        with ONE_BLAS_THREAD:
            inside()

    kept, moment = [], 0
    with threadpool_limits(2, "blas"), np.errstate(under="raise"):
        inside()
        while interrupted(nested, moment):
            kept.append((blas_threads(), np.geterr()["under"]))
            assert inside() == {1}
            assert (blas_threads(), np.geterr()["under"]) == ({2}, "raise")
            moment += 1
    assert moment > 50
    # At once, but for an interrupt before the first line of the last __exit__.
    assert kept.count(({2}, "raise")) >= moment - 2


def test_neighbours_leave_the_number_of_openmps_threads_as_it_was():
    X = np.random.default_rng(0).normal(size=(100, 12))
    with threadpool_limits(3, user_api="openmp"):
        NeighboursDetector().fit(X).predict(X)
        found = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "openmp"}
    assert found == {3}
