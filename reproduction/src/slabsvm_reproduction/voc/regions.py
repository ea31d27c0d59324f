"""Windows and regions: which boxes of which images a class is learnt from, and which it is tested against.

A class has one window. Its objects, and the background regions, are cut out as they are and brought to that size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.voc.annotation import Box, LabelledBox
from slabsvm_reproduction.voc.data import Annotated, VOCData

CELL = 8  # pixels
BLOCK = 2  # cells
ORIENTATIONS = 9
VALUES = BLOCK**2 * ORIENTATIONS  # of a block
SMALLEST, LARGEST = 2_304, 36_864  # dimensions in the paper

MIN_SIDE = 24  # pixels: three cells
MAX_OVERLAP = 0.2
TRIES = 1_000  # places for one shape
LOST = 50  # shapes in a row without a place


@dataclass(frozen=True)
class Window:
    """The size to which every region of a class is brought, in cells of 8 x 8 pixels.

    Attributes
    ----------
    rows, columns : int
        Cells.
    """

    rows: int
    columns: int

    @property
    def height(self) -> int:
        """Pixels."""
        return self.rows * CELL

    @property
    def width(self) -> int:
        """Pixels."""
        return self.columns * CELL

    @property
    def dimension(self) -> int:
        """Values of a window's HOG: blocks of 2 x 2 cells, one cell apart, of 9 orientations a cell."""
        return (self.rows - BLOCK + 1) * (self.columns - BLOCK + 1) * VALUES


@dataclass(frozen=True)
class Region:
    """A box of an image; `label` is the class of the object in it, None for background."""

    image: Path
    box: Box
    label: str | None = None


@dataclass(frozen=True)
class Choice:
    """Which of a class's objects count.

    A flag that the annotation lacks counts as 0, as in VOC's own code; but to leave out truncated objects of a class
    none of which says whether it is truncated is refused.

    Attributes
    ----------
    difficult : bool, default=False
        Take objects marked difficult; VOC's own measures do not.
    truncated : bool, default=True
        Take objects of which a part is outside the image or hidden.
    min_side : int, default=24
        Pixels that a box must have in width and in height: three cells. Smaller ones would be enlarged threefold and
        more to fill a window.
    most : int or None, default=None
        Take at most so many objects of a class, evenly from all of its images; None for all.
    """

    difficult: bool = False
    truncated: bool = True
    min_side: int = MIN_SIDE
    most: int | None = None

    def objection(self, item: LabelledBox) -> str | None:
        """Why an object does not count, None if it does."""
        if item.difficult and not self.difficult:
            return "difficult"
        if item.truncated and not self.truncated:
            return "truncated"
        if min(item.box.width, item.box.height) < self.min_side:
            return f"smaller than {self.min_side} pixels"
        return None


USUAL = Choice()


def class_objects(data: VOCData, label: str, choice: Choice = USUAL) -> tuple[tuple[Region, ...], Counter[str]]:
    """The objects of a class that count, in the images' order, and how many do not for which reason.

    Raises
    ------
    DataError
        No such class, or none of its objects counts; or `choice` asks for what the annotations do not say, or for at
        most no object.
    """
    if choice.most is not None and choice.most < 1:
        raise DataError(f"most should be 1 or more objects of a class, or None for all, not {choice.most}.")
    places = [(image, item) for image in data.images for item in image.objects if item.label == label]
    if not places:
        raise DataError(f"There is no {label!r} in {data.root}. Its classes are: {', '.join(data.labels) or 'none'}.")
    if not choice.truncated and all(item.truncated is None for _, item in places):
        raise DataError(
            f"No annotation in {data.root} says which {label} is truncated, so truncated ones cannot be left out. "
            "Take them all."
        )
    objections = Counter(text for _, item in places if (text := choice.objection(item)))
    objects = tuple(Region(image.image, item.box, label) for image, item in places if not choice.objection(item))
    if not objects:
        why = ", ".join(f"{count} {text}" for text, count in objections.items())
        raise DataError(f"None of the {len(places)} objects {label!r} in {data.root} counts: {why}. Let more count.")
    if choice.most is not None and len(objects) > choice.most:
        objections[f"beyond the {choice.most:,} asked for"] = len(objects) - choice.most
        objects = tuple(objects[number * len(objects) // choice.most] for number in range(choice.most))
    return objects, objections


def class_window(objects: Sequence[Region]) -> Window:
    """The window of a class: its median object in its own pixels, as far as the paper's range of dimensions goes.

    The paper gives 2,304 to 36,864 dimensions, which are 64 and 1,024 times 36: blocks of 2 x 2 cells by 9
    orientations, as Dalal and Triggs (2005) recommend, in windows of 64 to 1,024 blocks. It does not give its windows.
    Here the window has the median aspect and the median area of the class's boxes at 8 pixels a cell, brought into
    that range: of all shapes of that many blocks the one nearest to both, by the logarithms of aspect and area.
    """
    aspect = math.exp(median(math.log(region.box.width / region.box.height) for region in objects))
    side = math.exp(median(math.log(region.box.width * region.box.height) / 2 for region in objects)) / CELL
    fewest, most = SMALLEST // VALUES, LARGEST // VALUES
    between = max(side / math.sqrt(aspect) - 1, 1) * max(side * math.sqrt(aspect) - 1, 1)
    area = min(max(between, fewest), most)

    def deviation(shape: tuple[int, int]) -> float:
        rows, columns = shape
        wrong_aspect = math.log((columns + 1) / (rows + 1) / aspect)
        return wrong_aspect**2 + math.log(rows * columns / area) ** 2

    shapes = ((rows, columns) for rows in range(1, most + 1) for columns in range(-(-fewest // rows), most // rows + 1))
    rows, columns = min(shapes, key=deviation)
    return Window(rows + BLOCK - 1, columns + BLOCK - 1)


def background_regions(
    data: VOCData, objects: Sequence[Region], n: int, *, seed: int = 0, max_overlap: float = MAX_OVERLAP
) -> tuple[tuple[Region, ...], int]:
    """Draw `n` boxes with the shapes of the class's objects from places where no object is.

    A shape is the width and height of an object drawn at random; its place is uniform in an image drawn at random,
    again until it fits. So backgrounds are as large, as wide and as much resized as the objects: their shape does not
    tell them apart. All objects are in the way, those of other classes, difficult ones and those that cannot be
    used too. Regions may overlap each other; no two are the same. The first regions of a longer draw are those of a
    shorter one.

    Parameters
    ----------
    data, objects
        Where to draw, and whose shapes.
    n : int
        Number of regions, 0 or more.
    seed : int, default=0
        Not negative. The draw depends on the class as well.
    max_overlap : float in [0, 1], default=.2
        Largest share of a region that objects may cover, summed over them. Its intersection over union with any object
        is then at most this too. (The reverse is not so: a piece of a large cat has a small IoU with the cat, and so
        has a flock with each of its sheep.) The share is of the region, not of the object: a region may hold small
        objects whole, also of the class itself; docs/results/pascal-voc.md says how many do. Of many regions from
        few images most overlap another one.

    Returns
    -------
    regions : tuple of Region, n of them
    n_lost : int
        Shapes that found no place in 1,000 tries; others were drawn for them.

    Raises
    ------
    DataError
        Fifty shapes in a row found no place, or a parameter is out of its range.
    """
    if n < 0 or seed < 0 or not 0 <= max_overlap <= 1:
        raise DataError(
            f"Backgrounds need n and seed of 0 or more and max_overlap from 0 to 1, not {n}, {seed} and {max_overlap}."
        )
    label = objects[0].label or ""
    # Another class draws other places, also where its objects have the same shapes.
    rng = np.random.default_rng([seed, crc32(label.encode())])
    taken = [np.array([_corners(box) for box in image.taken], dtype=np.int64).reshape(-1, 4) for image in data.images]
    regions: dict[Region, None] = {}
    lost = in_a_row = 0
    while len(regions) < n:
        shape = objects[int(rng.integers(len(objects)))].box
        places = (_place(shape, data.images, taken, max_overlap, rng) for _ in range(TRIES))
        found = next((region for region in places if region and region not in regions), None)
        if found:
            regions[found] = None
            in_a_row = 0
            continue
        lost, in_a_row = lost + 1, in_a_row + 1
        if in_a_row == LOST:
            raise DataError(
                f"Only {len(regions)} of {n} backgrounds were found for {label}: {LOST} of its shapes in a row found "
                f"no place in {TRIES} tries of which objects cover at most {max_overlap:g}. Ask for fewer, allow "
                "more overlap, or add images with fewer objects."
            )
    return tuple(regions), lost


def _place(
    shape: Box,
    images: Sequence[Annotated],
    taken: Sequence[NDArray[np.int64]],
    max_overlap: float,
    rng: np.random.Generator,
) -> Region | None:
    """Try one place for a shape: None where it does not fit into the image or an object is in the way."""
    number = int(rng.integers(len(images)))
    width, height = images[number].size
    if shape.width > width or shape.height > height:
        return None
    left, top = int(rng.integers(width - shape.width + 1)), int(rng.integers(height - shape.height + 1))
    box = Box(left, top, left + shape.width, top + shape.height)
    if _shared(box, taken[number]) > max_overlap * box.width * box.height:
        return None
    return Region(images[number].image, box)


def _shared(box: Box, others: NDArray[np.int64]) -> int:
    """Pixels that a box shares with the others, rows (left, top, right, bottom), counted for each of these."""
    left, top, right, bottom = others.T
    across = np.minimum(right, box.right) - np.maximum(left, box.left)
    down = np.minimum(bottom, box.bottom) - np.maximum(top, box.top)
    return int(np.sum(np.maximum(across, 0) * np.maximum(down, 0)))


def _corners(box: Box) -> tuple[int, int, int, int]:
    return box.left, box.top, box.right, box.bottom
