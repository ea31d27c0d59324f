"""Passes over rows that a map takes to features of its own, which are never held for more than a stretch.

A pass needs the scores <w, phi(x)> and the sum of the rows beyond the planes. Both follow from coordinates c(x) with
phi(x) = basis' c(x), so that the basis, which may cost more than all else, is applied to sums and to rows near the
planes alone. These travel as they are: a row has fewer features than its image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from slabsvm.data.passes import Planes, Rows, Source, Surveyed, Sweep, Swept
from slabsvm.data.pieces import product
from slabsvm.runtime.arrays import FloatArray

Result = TypeVar("Result")


class Map(Protocol):
    """A map in two steps, as `slabsvm.kernels.landmarks.Landmarks` is."""

    n_lifted: int
    n_features: int

    def lift(self, rows: Rows) -> FloatArray:
        """Return c(x) of rows (n, d), shape (n, n_lifted)."""

    def lifted(self, w: FloatArray) -> FloatArray:
        """Return basis w."""

    def settled(self, coordinates: FloatArray) -> FloatArray:
        """Return basis' c."""

    def __call__(self, rows: Rows) -> FloatArray:
        """Return phi(x), shape (n, n_features), the same of equal rows."""


@dataclass(frozen=True)
class AlongImage:
    """The function that gives rows the position of their images along w, from `basis w`, shape (n_lifted,).

    check, which may raise, is shown the rows first.
    """

    lift: Callable[[Rows], FloatArray]
    lifted: FloatArray
    check: Callable[[Rows], None]

    def __call__(self, rows: Rows) -> FloatArray:
        """Return <w, phi(x)>."""
        self.check(rows)
        return product(self.lift(rows), self.lifted)


class Mapped(Source):
    """The images of another source's rows.

    Parameters
    ----------
    source : Source
    image : Map
    """

    def __init__(self, source: Source, image: Map) -> None:
        self.source = source
        self.image = image
        self.weights = source.weights
        self.n_samples, self.n_features = source.n_samples, image.n_features
        self.bytes_per_row = 8 * image.n_lifted
        self.stretch_bytes = source.stretch_bytes
        self.n_passes = source.n_passes

    def _visit(self, visitor: Callable[[Rows, FloatArray, int], Result], bytes_per_row: int) -> list[Result]:
        return self.source._visit(visitor, max(bytes_per_row, self.source.bytes_per_row))

    def mapped(self, survey: Surveyed) -> Surveyed:
        """Return a survey of the other source as one of the images; no image is longer than 1, or by chance a little.

        Their mean squared length is that of the sample's.
        """
        rows = self.image(survey.rows)
        squares = np.einsum("ij,ij->i", rows, rows)[survey.weights > 0]
        return replace(
            survey,
            rows=rows,
            sum_of_squares=float(squares.mean() * survey.n_weighted),
            largest_square=max(1.0, float(squares.max())),
        )

    def sweep(self, w: FloatArray, planes: Planes) -> Swept:
        """Return the images near the planes and the sums of those beyond them."""
        swept = self._swept(Sweep(self.image.lifted(w), planes, self.image.lift), self.bytes_per_row)
        return replace(swept, rows=self.image(swept.rows), pull=self.image.settled(swept.pull))
