"""Checks of a user's tables and weights before anything is computed from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

# Underflow of squares or kernel values may exceed eps times their largest where that is below this.
SMALLEST_SQUARE = 2.0**10 * float(np.finfo(np.float64).tiny)

# Up to here float64 holds every whole number.
MOST_WHOLE = 2**53


@contextmanager
def reading(values: Any, name: str = "X") -> Iterator[None]:
    """Refuse values that are no table or weights, and numbers that float64 cannot hold while the body converts them.

    Raises TypeError for a mapping of columns; ValueError for masked entries, a corrupt sparse matrix, integers beyond
    float64, and for texts and gaps in a table, with the first one and what takes them.
    """
    if sp.issparse(values):
        _refuse_corrupt(values, name)
    elif isinstance(values, Mapping):
        raise TypeError(
            f"{name} is a mapping ({type(values).__name__}), not a table of rows. Give pandas.DataFrame({name}), or of "
            f"columns np.column_stack(list({name}.values()))."
        )
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with masked entries, which stand for values that are missing. Fill them in, for "
            f"example {name}.filled(value), or leave their rows out."
        )
    try:
        # A long double beyond float64 becomes infinity, which is refused; sums may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except ValueError as error:
        # How scikit-learn begins its errors of what a table of numbers may not hold.
        if name != "X" or not str(error).startswith(("could not convert string", "Input X contains NaN")):
            raise
        raise ValueError(
            f"{_odd_cell(values)} A detector takes numbers. slabsvm.TableEncoder makes numbers of categories and gaps: "
            "put it before the detector, as in make_pipeline(TableEncoder(), AutoDetector()). Or leave such columns "
            "out, or fill the gaps in."
        ) from error
    except OverflowError as error:
        raise ValueError(
            f"{name} holds a whole number beyond the largest number of float64, 1.8e308 ({error}). Scale {name}, or "
            "take logarithms."
        ) from error


def framed(rows: Any, like: Any, names: Any = None, *, indexed: bool = False) -> Any:
    """Return rows as a frame of the kind of `like`, pandas' or polars'; as they are if `like` is no frame.

    Without names the columns have those of `like`. indexed says that they are its rows, and have its index.
    """
    if not hasattr(like, "iloc") and not hasattr(like, "with_columns"):
        return rows
    names = like.columns if names is None else names
    if hasattr(like, "iloc"):
        return type(like)(rows, columns=names, index=like.index if indexed else None)
    # Polars takes columns by name, and has no index.
    return type(like)(dict(zip(names, rows.T, strict=True)))


def refuse_lost_digits(X: Any) -> None:
    """Raise ValueError where whole numbers of a column differ, and do not in float64.

    Those of identifiers may: beyond 2^53 it does not hold every whole number.
    """
    for name, column in _whole_columns(X):
        large = column[(column > MOST_WHOLE) | (column < -MOST_WHOLE)]
        if not len(large):
            continue
        before, after = len(np.unique(column)), len(np.unique(column.astype(np.float64)))
        if after < before:
            raise ValueError(
                f"Column {name} holds whole numbers as large as {np.abs(large.astype(np.float64)).max():.3g}, of which "
                f"float64 keeps 16 digits: {before} different values become {after}. If they are identifiers, leave "
                "the column out. Else subtract its least value first."
            )


def _whole_columns(X: Any) -> Iterator[tuple[str, Any]]:
    """Give the names and values of a table's columns of whole numbers of 64 bits or more."""
    if hasattr(X, "columns") and not sp.issparse(X):
        names = [repr(name) for name in X.columns]
        columns = [X.iloc[:, place] for place in range(len(names))] if hasattr(X, "iloc") else [X[n] for n in X.columns]
    else:
        table: Any = X if sp.issparse(X) else np.asarray(X)
        if table.ndim != 2 or table.dtype.kind not in "iuO":
            return
        if sp.issparse(table) and (not table.nnz or -MOST_WHOLE <= table.data.min() <= table.data.max() <= MOST_WHOLE):
            return
        table = table.tocsc() if sp.issparse(table) else table
        names = [f"x{place}" for place in range(table.shape[1])]
        columns = [table[:, [place]].data if sp.issparse(X) else table[:, place] for place in range(table.shape[1])]
    for name, column in zip(names, columns, strict=True):
        values = column if isinstance(column, np.ndarray) else np.asarray(column)
        whole = values.dtype.kind in "iu" and values.dtype.itemsize == 8
        if whole or (values.dtype.kind == "O" and all(isinstance(value, int) for value in values)):
            yield name, values


def is_plain(X: Any) -> bool:
    """Return whether X is what it must become: a C-contiguous table of finite float64 or float32, of no subclass."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype not in (np.float64, np.float32):
        return False
    if not X.flags.c_contiguous or X.size == 0:
        return False
    # A sum that overflows says nothing, and is left to a closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(X.sum())


def canonical(X: Any) -> Any:
    """Return a CSR matrix with sorted indices and one entry for each place that is not 0: X itself, if it is one."""
    if not (X.has_canonical_format and X.data.all()):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def without_unit(weights: Any) -> tuple[Any, float]:
    """Return weights over a power of two, with the largest in [1, 2) and finite sums, and that power, 1 for zeros."""
    largest = float(weights.max(initial=0.0))
    unit = float(np.ldexp(1.0, int(np.frexp(largest)[1]) - 1)) if largest > 0 else 1.0
    with np.errstate(under="ignore"):
        return weights / unit, unit


def _refuse_corrupt(X: Any, name: str) -> None:
    """Refuse a sparse matrix whose indices would make compiled code read beyond its arrays."""
    if X.format in ("csr", "csc"):
        n_major, n_minor = X.shape if X.format == "csr" else X.shape[::-1]
        starts, stored = X.indptr, min(len(X.indices), len(X.data))
        sound = len(starts) == n_major + 1 and starts[0] == 0 and starts[-1] <= stored
        sound = sound and not (np.diff(starts) < 0).any() and _within(X.indices[: starts[-1]], n_minor)
    elif X.format == "coo" and X.ndim == 2:
        sound = len(X.row) == len(X.col) == len(X.data)
        sound = sound and _within(X.row, X.shape[0]) and _within(X.col, X.shape[1])
    else:
        return
    if not sound:
        raise ValueError(
            f"{name} is a corrupt sparse matrix: its indices name rows or columns beyond its shape {X.shape}, or its "
            f"arrays do not fit together. {name}.check_format(full_check=True) says more; make it anew."
        )


def _odd_cell(X: Any) -> str:
    """Return what a table holds that is no number, and in which column first, as far as that can be seen."""
    if not sp.issparse(X):
        table = np.asarray(X, dtype=object)
        columns = table.T if table.ndim == 2 else [table.ravel()]
        names = [repr(name) for name in getattr(X, "columns", ())] or [f"x{place}" for place in range(len(columns))]
        for name, cells in zip(names, columns, strict=True):
            for cell in cells.tolist():
                if isinstance(cell, str) and not _is_number(cell):
                    return f"X holds texts, such as {cell[:40]!r} in column {name}."
                is_nan = isinstance(cell, float) and math.isnan(cell)
                if is_nan or cell is None or type(cell).__name__ == "NAType":
                    return f"Input X contains NaN, gaps in column {name}."
    return "Input X contains NaN, gaps."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _within(indices: Any, count: int) -> bool:
    return len(indices) == 0 or bool(indices.min() >= 0 and indices.max() < count)
