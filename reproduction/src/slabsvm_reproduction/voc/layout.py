"""The folders and lists of a data set in VOC's layout."""

from __future__ import annotations

import os
import re
from pathlib import Path

from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.run.reading import read_regular

LARGEST_LIST = 64_000_000  # bytes: the names of some millions of images
VOC_PAGE = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/"


def find_layout(directory: Path, year: int | None = None) -> Path:
    """The folder that holds Annotations and JPEGImages: `directory`, or else the only one below it (two levels).

    Raises
    ------
    DataError
        There is none, or there are several and `year` does not tell which.
    """
    if not directory.is_dir():
        raise DataError(
            f"{directory} is no folder. Give the folder that holds Annotations and JPEGImages, such as "
            f"VOCdevkit/VOC2012; it comes from {VOC_PAGE}"
        )
    places = [directory, *directory.glob("*/"), *directory.glob("VOCdevkit/*/")]
    found = sorted({place for place in places if _is_layout(place)})
    wanted = [place for place in found if year is None or _name(place) == f"VOC{year}"]
    # A data set may have another one in it: the folder that was named is the one that is meant.
    if directory in wanted:
        return directory
    if len(wanted) == 1:
        return wanted[0]
    if wanted:
        names = ", ".join(str(place) for place in wanted)
        raise DataError(f"{directory} holds several data sets: {names}. Name one of these folders.")
    if found:
        raise DataError(f"{directory} holds {', '.join(map(_name, found))}, but no VOC{year}.")
    raise DataError(
        f"There is no VOC layout in {directory}: no folder there has both Annotations (XML files) and JPEGImages. "
        f"Pascal VOC comes from {VOC_PAGE}"
    )


def _name(place: Path) -> str:
    # "." has no name of its own; a link keeps its own, not its target's.
    return Path(os.path.abspath(place)).name


def _is_layout(place: Path) -> bool:
    try:
        return all((place / part).is_dir() for part in ("Annotations", "JPEGImages"))
    except OSError:
        # A folder that cannot be entered, such as the lost+found of a disk.
        return False


def annotation_paths(root: Path, image_set: str | None) -> tuple[list[Path], list[Path]]:
    """The annotation files of an image set; without one those of any list, by name, and then those of none."""
    lists = root / "ImageSets" / "Main"
    if image_set is None:
        paths = sorted((root / "Annotations").glob("*.xml"))
        if not paths:
            raise DataError(f"{root / 'Annotations'} holds no XML file.")
        listed = {name for file in lists.glob("*.txt") for name in listed_names(file)} or {path.stem for path in paths}
        if not listed & {path.stem for path in paths}:
            raise DataError(
                f"The lists in {lists} name none of the annotations in {root / 'Annotations'}. Mend or remove them."
            )
        return [path for path in paths if path.stem in listed], [path for path in paths if path.stem not in listed]
    file = lists / f"{image_set}.txt"
    if not file.is_file():
        there = ", ".join(sorted(path.stem for path in lists.glob("*.txt"))) or "none"
        raise DataError(f"There is no image set {image_set!r} in {lists}. There is: {there}.")
    names = listed_names(file)
    if not names:
        raise DataError(f"{file} names no image. Choose another image set.")
    return [root / "Annotations" / f"{name}.xml" for name in names], []


def listed_names(file: Path) -> list[str]:
    """The names of images in a list, each once.

    Raises
    ------
    DataError
        The file cannot be read, or is not text in UTF-8.
    """
    try:
        # Some editors begin a file with a mark of its encoding, which is no part of the first name.
        text = read_regular(file, LARGEST_LIST).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not in UTF-8. Save it as UTF-8.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error}).") from error
    # The list of one class has a second column: whether the class is in the image. Names may have spaces.
    names = (re.sub(r"\s+(-1|0|1)$", "", line.strip()) for line in text.splitlines())
    return list(dict.fromkeys(name for name in names if name))
