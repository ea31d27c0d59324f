"""One annotation file of the VOC layout: what it says of an image and of the objects in it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.run.reading import read_regular


@dataclass(frozen=True)
class Box:
    """A rectangle of pixels, counted from 0, half-open: columns left..right - 1, rows top..bottom - 1.

    VOC's own corners are counted from 1, and the last ones belong to the box.
    """

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return self.bottom - self.top

    def inside(self, size: tuple[int, int]) -> Box:
        """The part of the box that is in an image of this width and height."""
        width, height = size
        return Box(max(self.left, 0), max(self.top, 0), min(self.right, width), min(self.bottom, height))


FARTHEST = 1e9  # pixels
# Bytes; ten thousand objects take three million. The parsed file takes up to thirty times as much memory.
LARGEST_ANNOTATION = 4_000_000
LONGEST_NAME = 100
JOINERS = {0x200C: None, 0x200D: None}
# The place of an object that may be anywhere; cut to an image it is the whole image.
ANYWHERE = Box(-sys.maxsize, -sys.maxsize, sys.maxsize, sys.maxsize)


@dataclass(frozen=True)
class LabelledBox:
    """An object: its class and place; whether it is difficult or truncated, None where the file does not say."""

    label: str
    box: Box
    difficult: bool | None = None
    truncated: bool | None = None


@dataclass(frozen=True)
class Annotation:
    """What one file says, before anything was checked against the image.

    Attributes
    ----------
    filename : str
        The image's name, with no folder.
    folder : str or None
        The folder that the file names; it is often wrong, and images are not looked for there.
    size : tuple (width, height) or None
        In pixels, as the file says; None where it does not, or says 0 x 0.
    objects : tuple of LabelledBox
    rejected : tuple of str
        A sentence for each object that cannot be used.
    barred : tuple of Box
        Where these objects are: what cannot be used is no background either. ANYWHERE if the file does not tell.
    """

    filename: str
    folder: str | None
    size: tuple[int, int] | None
    objects: tuple[LabelledBox, ...]
    rejected: tuple[str, ...]
    barred: tuple[Box, ...]


def parse_annotation(path: Path) -> Annotation:
    """Read an annotation file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    DataError
        The file is not XML, not an annotation, or names no image.
    """
    try:
        root = ElementTree.fromstring(read_regular(path, LARGEST_ANNOTATION))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(f"it cannot be read ({error.strerror or error})") from error
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise DataError(f"it cannot be read as XML ({error})") from error
    if root.tag != "annotation":
        raise DataError(f"it is not an annotation: its outermost element is <{root.tag}>, not <annotation>")
    filename = _text(root, "filename")
    # A name with a folder in it could reach any file of the machine.
    if not filename or Path(filename).name != filename:
        raise DataError(f"<filename> should be the name of an image in JPEGImages, but is {filename!r}")
    objects, rejected, barred = [], [], []
    for number, element in enumerate(root.findall("object"), start=1):
        try:
            objects.append(_labelled_box(element))
        except DataError as error:
            rejected.append(f"object {number} ({(_text(element, 'name') or 'no name')[:LONGEST_NAME]}): {error}")
            barred.append(_place(element))
    return Annotation(filename, _text(root, "folder"), _size(root), tuple(objects), tuple(rejected), tuple(barred))


def _labelled_box(element: ElementTree.Element) -> LabelledBox:
    label = _text(element, "name")
    if not label:
        raise DataError("it has no <name>")
    # Names stand in lines of tables and of terminals. The two joiners are letters of some scripts.
    if len(label) > LONGEST_NAME or not label.translate(JOINERS).isprintable():
        raise DataError(f"its <name> should be at most {LONGEST_NAME} characters that can be printed in one line")
    left, top, right, bottom = _corners(element)
    if right <= left or bottom <= top:
        raise DataError(
            f"its box is degenerate: xmin={left} ymin={top} xmax={right} ymax={bottom}, "
            "where xmax should be above xmin and ymax above ymin" + (": swap them" if _swapped(element) else "")
        )
    box = Box(left - 1, top - 1, right, bottom)
    return LabelledBox(label, box, _flag(element, "difficult"), _flag(element, "truncated"))


def _swapped(element: ElementTree.Element) -> bool:
    """Whether the corners are those of a box in another order."""
    left, top, right, bottom = _corners(element)
    return left != right and top != bottom


def _place(element: ElementTree.Element) -> Box:
    """Where an object is that cannot be used, as well as its corners tell."""
    try:
        left, top, right, bottom = _corners(element)
    except DataError:
        return ANYWHERE
    return Box(min(left, right) - 1, min(top, bottom) - 1, max(left, right), max(top, bottom))


def _corners(element: ElementTree.Element) -> tuple[int, int, int, int]:
    # Parts of an object (head, hand, foot) have boxes of their own, further in: only the object's own is read.
    corners = element.find("bndbox")
    if corners is None:
        raise DataError("it has no <bndbox>")
    left, top, right, bottom = (_coordinate(corners, name) for name in ("xmin", "ymin", "xmax", "ymax"))
    return left, top, right, bottom


def _coordinate(corners: ElementTree.Element, name: str) -> int:
    """The nearest whole pixel: some files of VOC itself have fractions."""
    text = _text(corners, name)
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    # No image is so large, and a message would be all digits.
    if not abs(value) < FARTHEST:
        raise DataError(f"<{name}> should be a number of pixels, but is {text!r}")
    return math.floor(value + 0.5)


def _flag(element: ElementTree.Element, name: str) -> bool | None:
    text = _text(element, name)
    if text is None:
        return None
    if text not in ("0", "1"):
        raise DataError(f"<{name}> should be 0 or 1, but is {text!r}")
    return text == "1"


def _size(root: ElementTree.Element) -> tuple[int, int] | None:
    size = root.find("size")
    if size is None:
        return None
    try:
        width, height = _coordinate(size, "width"), _coordinate(size, "height")
    except DataError:
        return None
    # Some tools write 0 x 0 for a size that they do not know.
    return (width, height) if width or height else None


def _text(element: ElementTree.Element, name: str) -> str | None:
    """The text of a child, None where there is no such child or it is blank."""
    return (element.findtext(name) or "").strip() or None
