"""Data sets in the layout of Pascal VOC: Annotations, JPEGImages, ImageSets; read and checked before any work begins.

Every image is decoded once while reading, so that what is broken is known then, by name, and not after hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from joblib import Parallel, delayed

from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.voc.annotated import (
    ACCEPTED,
    Annotated,
    Kind,
    Problem,
    Reading,
    read_annotated,
    require,
)
from slabsvm_reproduction.voc.annotation import Box, LabelledBox
from slabsvm_reproduction.voc.layout import VOC_PAGE, annotation_paths, find_layout

__all__ = [
    "ACCEPTED",
    "VOC_PAGE",
    "Annotated",
    "Box",
    "Kind",
    "LabelledBox",
    "Problem",
    "VOCData",
    "find_layout",
    "read_voc",
]

SHOWN = 10  # problems that an error's text lists


@dataclass(frozen=True)
class VOCData:
    """A data set in VOC's layout, as far as it is sound.

    Attributes
    ----------
    root : Path
        The folder that holds Annotations and JPEGImages.
    images : tuple of Annotated
        In the order of the image set, or of the annotations' names.
    problems : tuple of Problem
    """

    root: Path
    images: tuple[Annotated, ...]
    problems: tuple[Problem, ...]

    @property
    def labels(self) -> dict[str, int]:
        """How many objects each class has, the most frequent first."""
        return dict(Counter(item.label for image in self.images for item in image.objects).most_common())


def read_voc(
    directory: Path,
    *,
    year: int | None = None,
    image_set: str | None = None,
    on_error: Literal["skip", "raise"] = "skip",
    accept: Collection[Kind] = ACCEPTED,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> VOCData:
    """Read a data set in VOC's layout, decode every image once, and report by name all that is wrong.

    Images are looked for in JPEGImages by their annotation's <filename>, whatever its <folder> says. Boxes refer to
    the pixels as they are stored: an orientation in the image's EXIF data has no effect, as in VOC.

    Parameters
    ----------
    directory : path
        The folder that holds Annotations and JPEGImages, or one above it, such as VOCdevkit.
    year : int, default=None
        Which VOC of a VOCdevkit that holds several.
    image_set : str, default=None
        A list in ImageSets/Main without its ".txt", such as "trainval". None: the annotations that any of these lists
        names, or all where there is no list. VOC has annotations in none of them, of images for its tasks of action
        and layout, in which not every object need be marked.
    on_error : {"skip", "raise"}, default="skip"
        What becomes of a problem whose kind is not accepted: the object or image is left out, or nothing is read.
    accept : collection of Kind
        Problems in spite of which an image or object is used. Default: boxes that reach outside (the part within the
        image counts), grey images, images without objects, wrong folders, images without annotation. Accepting "size"
        has images used whose annotation is of another size, and boxes cut at the image's own; accepting "unlisted" has
        annotations read that no list names. Of the other kinds nothing could be used; accepting one has it left out,
        also with "raise".
    n_jobs : int, default=None
        Threads that decode images, in joblib's way of counting.
    progress : function of (images done, images in all)

    Raises
    ------
    DataError
        No such layout, several of them, no such list, nothing left to use; with "raise", any problem that is not
        accepted.
    slabsvm.ExtraMissingError
        Without Pillow.
    """
    unknown = set(accept) - set(get_args(Kind))
    if unknown:
        raise DataError(f"accept has {sorted(unknown)}, which are none of the kinds {', '.join(get_args(Kind))}.")
    if on_error not in ("skip", "raise"):
        raise DataError(f"on_error should be 'skip' or 'raise', not {on_error!r}.")
    require_jobs(n_jobs)
    require("Reading images", "Pillow", "PIL")
    root = find_layout(Path(directory), year)
    paths, unlisted = annotation_paths(root, image_set)
    if "unlisted" in accept:
        paths = sorted([*paths, *unlisted])
    readings: list[Reading] = []
    tasks = (delayed(read_annotated)(path, root / "JPEGImages", frozenset(accept)) for path in paths)
    for reading in Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(tasks):
        readings.append(reading)
        progress(len(readings), len(paths))
    readings = _without_shared_images(_with_folders_compared(readings, root, accept))
    # What is in an image that is left out is not used, whatever is accepted.
    problems = [replace(problem, used=problem.used and of.used) for of in readings for problem in of.problems]
    if image_set is None:
        problems += [*_unlisted(root, unlisted, accept), *_unannotated(root, unlisted, readings)]
    if on_error == "raise":
        _refuse(problems, accept, f"{root} is refused for what is wrong with it:")
    images = tuple(reading.annotated for reading in readings if reading.annotated and reading.used)
    if not images:
        _refuse(problems, (), f"{root} has no image that can be used:")
    return VOCData(root, images, tuple(problems))


def require_jobs(n_jobs: int | None) -> None:
    """Raise DataError where joblib's way of counting knows no such number."""
    if n_jobs == 0:
        raise DataError("n_jobs should be a number of jobs, -1 for all cores or None for one, not 0.")


def _with_folders_compared(readings: Sequence[Reading], root: Path, accept: Collection[Kind]) -> list[Reading]:
    """Report each <folder> that is neither the data set's, nor JPEGImages, nor what more than half of the files say."""
    name = root.resolve().name
    stated = Counter(reading.folder for reading in readings)
    # A data set whose folder was renamed is not wrong in each of its files.
    of_most = (folder for folder, count in stated.items() if 2 * count > len(readings))
    right = {None, name, "JPEGImages", *of_most}

    def compared(reading: Reading) -> Reading:
        if reading.folder in right:
            return reading
        text = f"its <folder> is {reading.folder!r}, not {name!r}; its image is in JPEGImages"
        return reading.with_problem("folder", text, accept)

    return [compared(reading) for reading in readings]


def _without_shared_images(readings: Sequence[Reading]) -> list[Reading]:
    """Leave out an annotation of an image that an earlier one has: its objects would count twice.

    A copy is the same image: of two, one could be trained on and the other one tested with. Nobody knows whether the
    objects left out are in the image, so none of it can be background.
    """
    first: dict[str, int] = {}
    kept: list[Reading] = []
    for reading in readings:
        kept.append(reading)
        if not reading.annotated:
            continue
        earlier = first.setdefault(reading.annotated.sha256, len(kept) - 1)
        owner = kept[earlier]
        if owner.path == reading.path or not owner.annotated:
            continue
        image, its = reading.annotated.image, owner.annotated.image
        text = f"its image {image.name} belongs to {owner.path.name} already; correct <filename>"
        if image != its:
            text = f"its image {image.name} is a copy of {its.name}, which {owner.path.name} has; remove one of them"
        kept[-1] = reading.with_problem("annotation", text, ())
        kept[earlier] = replace(owner, annotated=owner.annotated.without_background())
    return kept


def _unlisted(root: Path, paths: Sequence[Path], accept: Collection[Kind]) -> list[Problem]:
    if not paths:
        return []
    text = (
        f"no list in ImageSets/Main has {_some([path.stem for path in paths])}; in VOC not every object of such images "
        "need be marked. Name an image set to read its images alone"
    )
    return [Problem(root / "Annotations", "unlisted", text, used="unlisted" in accept)]


def _unannotated(root: Path, unlisted: Sequence[Path], readings: Sequence[Reading]) -> list[Problem]:
    images = root / "JPEGImages"
    # An annotation need not be called as the image is that it names.
    named = {reading.annotated.image.stem for reading in readings if reading.annotated}
    annotated = named | {path.stem for path in (*unlisted, *(reading.path for reading in readings))}
    names = sorted({path.stem for path in images.iterdir()} - annotated)
    if not names:
        return []
    return [Problem(images, "unannotated", f"no annotation for {_some(names)}")]


def _some(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _refuse(problems: Sequence[Problem], accept: Collection[Kind], begin: str) -> None:
    """Raise DataError with the problems that are not accepted, if there are any."""
    refused = [problem for problem in problems if problem.kind not in accept]
    if refused:
        more = f"\n... and {len(refused) - SHOWN} more." if len(refused) > SHOWN else ""
        raise DataError("\n".join([begin, *map(str, refused[:SHOWN])]) + more)
