"""Consecutive pieces of rows, of a bounded number of bytes: how everything that is large is gone through."""

from __future__ import annotations


def pieces(n_rows: int, bytes_per_row: int, budget: int) -> list[slice]:
    """Return consecutive slices over n_rows, each of at most about budget bytes, and of one row at least."""
    height = max(1, budget // max(1, bytes_per_row))
    return [slice(first, min(first + height, n_rows)) for first in range(0, n_rows, height)]
