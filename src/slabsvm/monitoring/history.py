"""The course of a monitor, at no more than some hundred rows, however long the stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slabsvm.runtime.arrays import FloatArray

# Points kept: when there are so many, every second stays, and new ones come half as often.
MOST_POINTS = 1024


@dataclass(frozen=True)
class History:
    """Values at every `stride`-th row.

    Attributes
    ----------
    stride : int
    points : (n, n_values) array of float64
    """

    stride: int
    points: FloatArray

    @classmethod
    def begun(cls, n_values: int) -> History:
        """Return the history before the first row."""
        return cls(1, np.empty((0, n_values)))

    def after(self, row: int, values: tuple[float, ...]) -> History:
        """Return the history after a row, counted from 1."""
        if row % self.stride:
            return self
        points = np.concatenate([self.points, [values]])
        if len(points) < MOST_POINTS:
            return History(self.stride, points)
        return History(2 * self.stride, points[1::2])
