"""Histograms of oriented gradients (Dalal and Triggs, CVPR 2005) of a class's objects and backgrounds, kept on disk.

scikit-image computes them: cells of 8 x 8 pixels, 9 unsigned orientations, blocks of 2 x 2 cells one cell apart, each
brought to norm 1, cut at .2 and brought to norm 1 again (L2-Hys); gradients are of the square root of the colours, at
each pixel of the channel whose gradient is largest. These are the choices of that paper but for two that scikit-image
does not have: here a pixel votes for one orientation and one cell, not for its neighbours in part, and it counts as
much at the edge of a block as in its middle, without their Gaussian window. All values lie in [0, 1]. A block without
any gradient is zero.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.run.reading import read_regular
from slabsvm_reproduction.voc.annotated import FORMATS, LARGEST_IMAGE, require
from slabsvm_reproduction.voc.annotation import Box
from slabsvm_reproduction.voc.data import VOCData, require_jobs
from slabsvm_reproduction.voc.feature_store import FeatureStore, write_rows
from slabsvm_reproduction.voc.regions import (
    BLOCK,
    CELL,
    MAX_OVERLAP,
    ORIENTATIONS,
    USUAL,
    Choice,
    Region,
    Window,
    background_regions,
    class_objects,
    class_window,
)

if TYPE_CHECKING:
    from PIL.Image import Image

BATCH = 32  # rows that are computed before they are written: what a kill costs, and a process holds
# Raised whenever the same region gives other values.
VERSION = 1
HOG: dict[str, Any] = {
    "orientations": ORIENTATIONS,
    "pixels_per_cell": (CELL, CELL),
    "cells_per_block": (BLOCK, BLOCK),
    "block_norm": "L2-Hys",
    "transform_sqrt": True,
}


@dataclass(frozen=True)
class ClassFeatures:
    """The features of a class's objects and of its backgrounds.

    Attributes
    ----------
    label : str
    window : Window
    objects, backgrounds : tuple of Region
    X : memory map of float32, shape (objects and then backgrounds, window.dimension)
        Read-only. No copy of it is in memory.
    n_computed : int
        Rows that were not in the cache.
    seconds : float
        Spent on computing those; 0 where there are none.
    notes : tuple of str
        Objects that do not count, shapes that found no place; a sentence each.
    key : str
        Checksum of all that X depends on.
    """

    label: str
    window: Window
    objects: tuple[Region, ...]
    backgrounds: tuple[Region, ...]
    X: np.memmap[tuple[int, int], np.dtype[np.float32]]
    n_computed: int
    seconds: float
    notes: tuple[str, ...]
    key: str


def class_features(
    data: VOCData,
    label: str,
    *,
    n_backgrounds: int = 1_000,
    seed: int = 0,
    cache: Path,
    choice: Choice = USUAL,
    max_overlap: float = MAX_OVERLAP,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> ClassFeatures:
    """The features of a class's objects and of background regions, from the cache as far as they are there.

    Parameters
    ----------
    data : VOCData
    label : str
        The class.
    n_backgrounds, seed, max_overlap
        See :func:`~slabsvm_reproduction.voc.regions.background_regions`.
    cache : Path
        Folder with a folder for each class and setting, of 4 bytes for each value.
    choice : Choice
        Which objects count.
    n_jobs : int, default=None
        Processes, in joblib's way of counting; images are shared out among them.
    progress : function of (rows done, rows in all)
        Called at the beginning, and whenever rows were written.

    Raises
    ------
    DataError
        Nothing to learn from, no place for backgrounds, no room on the disk, or an image that changed since `data` was
        read.
    slabsvm.ExtraMissingError
        Without scikit-image.
    """
    require_jobs(n_jobs)
    require("HOG", "scikit-image", "skimage")
    objects, objections = class_objects(data, label, choice)
    window = class_window(objects)
    backgrounds, n_lost = background_regions(data, objects, n_backgrounds, seed=seed, max_overlap=max_overlap)
    notes = [f"{label}: {count} objects left out, being {why}" for why, count in objections.items()]
    if n_lost:
        notes.append(f"{label}: {n_lost} shapes found no place for a background, and others were drawn for them")
    regions = (*objects, *backgrounds)
    checksums = {image.image: image.sha256 for image in data.images}
    key = _key(regions, window, checksums)
    folder = Path(cache) / f"{re.sub(r'[^A-Za-z0-9-]', '_', label)}-{key[:16]}"
    store = FeatureStore(folder, (len(regions), window.dimension))
    begin = perf_counter()
    store.prepare()
    missing = store.missing()
    done = len(regions) - len(missing)
    progress(done, len(regions))

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        progress(done, len(regions))

    _fill(store, window, _batches(regions, missing, checksums), n_jobs, advance)
    if missing and (lost := store.missing()):
        raise DataError(
            f"{len(lost)} rows of {store.file} are not what was written: another program changes this file, or the "
            "disk fails. Start again, or name another cache."
        )
    seconds = perf_counter() - begin if missing else 0.0
    return ClassFeatures(label, window, objects, backgrounds, store.matrix(), len(missing), seconds, tuple(notes), key)


def region_pixels(region: Region, window: Window) -> NDArray[np.uint8]:
    """Cut a region out of its image and bring it to the window's size: an array (height, width, 3), RGB."""
    return _resized(_rgb(read_regular(region.image, LARGEST_IMAGE)), region.box, window)


def describe(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The HOG of a window's pixels, an array (height, width, 3): float32, rows of blocks after one another."""
    from skimage.feature import hog

    # Computed in float64: in float32 a pixel's orientation on the edge between two bins can fall into the other one.
    values: NDArray[np.float32] = hog(pixels, channel_axis=-1, **HOG).astype(np.float32)
    return values


def hog_picture(region: Region, window: Window) -> NDArray[np.uint8]:
    """Draw a region's HOG: a grey array (height, width) with a stroke for each cell and orientation of its edges."""
    from skimage.feature import hog

    _, picture = hog(region_pixels(region, window), channel_axis=-1, visualize=True, **HOG)
    # A few strong edges would leave all others in the dark: those of the strongest twentieth are equally bright.
    bright = np.quantile(picture[picture > 0], 0.95) if picture.any() else 1.0
    return np.asarray(np.round(255 * np.minimum(picture / bright, 1.0)), dtype=np.uint8)


@dataclass(frozen=True)
class _Batch:
    """Regions of one image, and the rows that their features go to."""

    image: Path
    sha256: str
    boxes: tuple[Box, ...]
    rows: tuple[int, ...]


def _batches(regions: Sequence[Region], rows: Sequence[int], checksums: dict[Path, str]) -> list[_Batch]:
    """The rows, image by image, so that each is decoded once for at most BATCH of its rows."""
    by_image: dict[Path, list[int]] = {}
    for row in rows:
        by_image.setdefault(regions[row].image, []).append(row)
    return [
        _Batch(image, checksums[image], tuple(regions[row].box for row in its), its)
        for image, of_image in by_image.items()
        for its in (tuple(of_image[part]) for part in gen_batches(len(of_image), BATCH))
    ]


def _fill(
    store: FeatureStore, window: Window, batches: Sequence[_Batch], n_jobs: int | None, advance: Callable[[int], object]
) -> None:
    """Compute the rows of the batches; each is noted, with its checksum, when it is in the file."""
    tasks = (delayed(_compute)(batch, window, store.file) for batch in batches)
    with _deaf_to_interruptions():
        results = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    for batch, written in zip(batches, results, strict=True):
        store.note(batch.rows, written)
        advance(len(batch.rows))


@contextmanager
def _deaf_to_interruptions() -> Iterator[None]:
    """Have the processes that are started inside not hear an interruption: it is for this one, which then ends them.

    One that did would say so with a traceback. A process inherits what is ignored where it is started; in these
    milliseconds this one does not hear either.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may, and it alone is interrupted.
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _compute(batch: _Batch, window: Window, file: Path) -> list[int]:
    image = _rgb(_unchanged(batch.image, batch.sha256))
    return write_rows(file, batch.rows, np.array([describe(_resized(image, box, window)) for box in batch.boxes]))


def _unchanged(path: Path, sha256: str) -> bytes:
    """The image's bytes, which were decoded when the data set was read: if they are the same, they can be."""
    try:
        content = read_regular(path, LARGEST_IMAGE) if path.is_file() else b""
    except OSError as error:
        raise DataError(f"{path} cannot be read any more ({error.strerror or error}).") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"{path} has changed since the data set was read. Start again.")
    return content


def _rgb(content: bytes) -> Image:
    from PIL import Image

    # A grey image has the same gradient in all three channels, so its HOG is that of its only one.
    with Image.open(io.BytesIO(content), formats=FORMATS) as image:
        return image.convert("RGB")


def _resized(image: Image, box: Box, window: Window) -> NDArray[np.uint8]:
    from PIL.Image import Resampling

    cut = image.crop((box.left, box.top, box.right, box.bottom))
    # Pillow's bilinear filter widens with the reduction, so that fine patterns do not alias into false edges.
    return np.asarray(cut.resize((window.width, window.height), Resampling.BILINEAR))


def _key(regions: Sequence[Region], window: Window, checksums: dict[Path, str]) -> str:
    """Checksum of all that the features depend on, the versions of the libraries that compute them included."""
    boxes = [(checksums[r.image], r.box.left, r.box.top, r.box.right, r.box.bottom) for r in regions]
    versions = (VERSION, *(version(name) for name in ("scikit-image", "pillow")))
    return hashlib.sha256(json.dumps([versions, HOG, window.rows, window.columns, boxes]).encode()).hexdigest()
