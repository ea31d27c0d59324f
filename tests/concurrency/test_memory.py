"""What a thousand fits leave behind, and what one of them takes."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from sklearn.base import clone

import many
from slabsvm import DriftMonitor
from slabsvm.files import load, save

pytestmark = pytest.mark.filterwarnings("ignore")

WARM_UP, CYCLES = 3, 5


def growth(cycle: Callable[[], object]) -> tuple[int, float]:
    """Return how many containers and bytes more there are after some cycles; bytes are of one cycle.

    Bytes are those of all objects and arrays, arrays being no containers. Some kilobytes are of caches of Python and of
    NumPy that fill up, once.
    """
    for _ in range(WARM_UP):
        cycle()
    tracemalloc.start()
    try:
        cycle()
        found = _grown(cycle)
        if found[0] < CYCLES:
            return found
        # The thread by which pytest-xdist's worker takes orders makes containers, too. What cycles leave, they leave
        # each time: the middle one of three counts.
        return sorted([found, _grown(cycle), _grown(cycle)])[1]
    finally:
        tracemalloc.stop()


def _grown(cycle: Callable[[], object]) -> tuple[int, float]:
    gc.collect()
    before, n_before = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
    for _ in range(CYCLES):
        cycle()
    gc.collect()
    return len(gc.get_objects()) - n_before, (tracemalloc.get_traced_memory()[0] - before) / CYCLES


@pytest.mark.slow
@pytest.mark.parametrize("name", many.FEW)
def test_cycles_of_fits_and_predictions_leave_no_container_and_no_array_of_the_samples_behind(name):
    prototype, X = many.MODELS[name](), many.rows(0, d=40)
    n_containers, n_bytes = growth(lambda: many.fitted(clone(prototype), X).predict(X))
    assert n_containers < CYCLES
    assert n_bytes < X.nbytes


@pytest.mark.slow
def test_loads_predictions_in_chunks_and_updates_of_a_monitor_leave_nothing_behind(tmp_path: Path):
    X, new, path = many.rows(0, d=40), many.rows(1, 400, d=40), tmp_path / "model"
    model = many.fitted(many.MODELS["calibrated"](), X)
    save(model, path)
    n_containers, n_bytes = growth(lambda: load(path).predict(new))
    assert n_containers < CYCLES
    assert n_bytes < X.nbytes
    # The monitor keeps scores, a window of rows and points to draw, all of bounded length.
    monitor = DriftMonitor(model).fit()
    assert growth(lambda: monitor.update(new[:200]))[1] < new[:200].nbytes
