"""Workers of a Dask cluster that die while they compute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from slabsvm import LinearOneClassSlabSVM, OneClassSVM, OpenSetClassifier
from slabsvm.data.passes import DaskBlocks
from slabsvm.solvers.streaming import PassTuning

Record = dict[str, Any]
N_WORKERS = 2


class InBands(LinearOneClassSlabSVM):
    """A linear slab that needs passes for more than two thousand rows."""

    _tuning = PassTuning(sample_rows=2000, band_rows=1000, least_rows=500)


def dying(do: Callable[..., Any], flag: str) -> Callable[..., Any]:
    """Return a function that kills the worker which finds the flag, and takes the flag away first."""
    client = os.getpid()

    def act(*arguments: Any) -> Any:
        import os
        import signal
        from contextlib import suppress

        if os.getpid() != client:
            with suppress(FileNotFoundError):
                os.unlink(flag)
                os.kill(os.getpid(), signal.SIGKILL)
        return do(*arguments)

    return act


@contextmanager
def cluster() -> Iterator[None]:
    """Two workers, of which one may die: Dask does not always start another, so each try has a cluster of its own."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(N_WORKERS, threads_per_worker=1, dashboard_address=None, memory_limit=0) as workers,
        Client(workers),
    ):
        yield


def killed_workers(seed: int) -> list[Record]:
    """Return the records of a linear slab, whose worker dies in each of its passes, and of an open set of classes."""
    with TemporaryDirectory(prefix="slabsvm-faults-") as base:
        flag = Path(base) / "die"
        return [*_linear(flag, seed), *_open_set(flag, seed)]


def _record(what: str, seed: int, flag: Path, same: bool) -> Record:
    faults = [] if same else ["the answer differs"]
    if flag.exists():
        faults.append("no worker was killed")
        flag.unlink()
    return {"section": "workers", "what": what, "seed": seed, "faults": faults}


def _linear(flag: Path, seed: int) -> Iterator[Record]:
    import dask.array as da

    X = np.random.default_rng(seed).gamma(64.0, 1 / 16, (20_000, 6))
    visit, visits = DaskBlocks.visit, []

    def deadly(source: DaskBlocks, visitor: Any, bytes_per_row: int, *, fatal: int | None) -> Any:
        visits.append(visitor)
        if len(visits) == fatal:
            flag.touch()
            visitor = dying(visitor, str(flag))
        return visit(source, visitor, bytes_per_row)

    def fitted(fatal: int | None) -> LinearOneClassSlabSVM:
        visits.clear()
        DaskBlocks.visit = partialmethod(deadly, fatal=fatal)
        try:
            with cluster():
                return InBands(nu_upper=0.05, tol=1e-10).fit(da.from_array(X, chunks=(2500, -1)).persist())
        finally:
            DaskBlocks.visit = visit

    alone = fitted(None)
    phases = [type(visitor).__name__ for visitor in visits]
    for number, phase in enumerate(phases, start=1):
        model = fitted(number)
        same = (model.coef_ == alone.coef_).all() and model.rho_lower_ == alone.rho_lower_
        same = same and model.rho_upper_ == alone.rho_upper_ and model.duality_gap_ == alone.duality_gap_
        yield _record(f"linear slab, pass {number} of {len(phases)}: {phase}", seed, flag, bool(same))
    for method in ("predict", "decision_function"):
        with cluster():
            blocks = da.from_array(X, chunks=(2500, -1)).persist()
            flag.touch()
            fatal = blocks.map_blocks(dying(lambda rows: rows, str(flag)), meta=np.empty((0, 0)))
            found = getattr(alone, method)(fatal).compute()
        yield _record(f"linear slab, {method}", seed, flag, bool((found == getattr(alone, method)(X)).all()))


def _open_set(flag: Path, seed: int) -> Iterator[Record]:
    import joblib

    generator = np.random.default_rng(seed)
    y = np.arange(150) % 3
    X = generator.normal(size=(150, 4)) + 4.0 * np.eye(4)[y]

    fatal = dying(_product, str(flag))
    alone = OpenSetClassifier(OneClassSVM(kernel=_product)).fit(X, y)
    expected = alone.decisions(X)
    flag.touch()
    with cluster(), joblib.parallel_config(backend="dask"):
        model = OpenSetClassifier(OneClassSVM(kernel=fatal)).fit(X, y)
    yield _record("open set, fit", seed, flag, bool((model.decisions(X) == expected).all()))
    for method in ("predict", "decisions"):
        flag.touch()
        with cluster(), joblib.parallel_config(backend="dask"):
            found = getattr(model, method)(X)
        yield _record(f"open set, {method}", seed, flag, bool((found == getattr(alone, method)(X)).all()))


def _product(a: Any, b: Any) -> Any:
    return a @ b.T + 1.0
