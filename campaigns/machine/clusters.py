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

from slabsvm import AutoSlabSVM, OneClassSVM, OpenSetClassifier
from slabsvm.data.passes import DaskBlocks

Record = dict[str, Any]
N_WORKERS = 2


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
    """Return the records of a model of drawn rows, whose worker dies in each pass, and of an open set of classes."""
    with TemporaryDirectory(prefix="slabsvm-faults-") as base:
        flag = Path(base) / "die"
        return [*_drawn(flag, seed), *_open_set(flag, seed)]


def _record(what: str, seed: int, flag: Path, same: bool) -> Record:
    faults = [] if same else ["the answer differs"]
    if flag.exists():
        faults.append("no worker was killed")
        flag.unlink()
    return {"section": "workers", "what": what, "seed": seed, "faults": faults}


def _drawn(flag: Path, seed: int) -> Iterator[Record]:
    import dask.array as da

    X = np.random.default_rng(seed).gamma(64.0, 1 / 16, (20_000, 6))
    visit, visits = DaskBlocks.visit, []

    def deadly(source: DaskBlocks, visitor: Any, *, fatal: int | None) -> Any:
        visits.append(visitor)
        if len(visits) == fatal:
            flag.touch()
            visitor = dying(visitor, str(flag))
        return visit(source, visitor)

    def fitted(fatal: int | None) -> AutoSlabSVM:
        visits.clear()
        DaskBlocks.visit = partialmethod(deadly, fatal=fatal)
        try:
            with cluster():
                return AutoSlabSVM(max_fit_samples=200).fit(da.from_array(X, chunks=(2500, -1)).persist())
        finally:
            DaskBlocks.visit = visit

    alone = fitted(None)
    n_passes = len(visits)
    for number in range(1, n_passes + 1):
        model = fitted(number)
        same = model.offset_ == alone.offset_ and (model.loo_scores_ == alone.loo_scores_).all()
        yield _record(f"drawn rows, pass {number} of {n_passes}", seed, flag, bool(same))
    for method in ("predict", "decision_function"):
        with cluster():
            blocks = da.from_array(X, chunks=(2500, -1)).persist()
            flag.touch()
            fatal = blocks.map_blocks(dying(lambda rows: rows, str(flag)), meta=np.empty((0, 0)))
            found = getattr(alone, method)(fatal).compute()
        yield _record(f"drawn rows, {method}", seed, flag, bool((found == getattr(alone, method)(X)).all()))


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
