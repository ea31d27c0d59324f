"""An image with its annotation: both checked, and by name all that is wrong with them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Literal

from slabsvm import ExtraMissingError
from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.run.reading import read_regular
from slabsvm_reproduction.voc.annotation import Box, LabelledBox, parse_annotation

Kind = Literal[
    "annotation",  # a file that cannot be read, or names no image of its own
    "missing",  # an annotation or an image that is not there
    "damaged",  # an image that cannot be decoded to its end
    "object",  # an object that has no usable box or label
    "outside",  # a box that reaches out of its image
    "size",  # an image of another size than its annotation says: its boxes may be of another image, or turned
    "grey",  # an image without colours
    "empty",  # an image without objects
    "folder",  # a <folder> unlike the other files'
    "unannotated",  # images without an annotation
    "unlisted",  # annotations in none of the lists of images
]
# The most bytes that are read of an image: as many pixels as Pillow lets pass hardly ever take more.
LARGEST_IMAGE = 256_000_000
# The formats that are read. Pillow knows others, of which EPS has another program run what is in the file.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "JPEG2000", "PPM")
# Problems that a sound data set may have: such images are used, and reported.
ACCEPTED: frozenset[Kind] = frozenset({"outside", "grey", "empty", "folder", "unannotated"})


@dataclass(frozen=True)
class Problem:
    """Something about a file that a user may want to mend.

    Attributes
    ----------
    path : Path
        The file or folder.
    kind : str, one of Kind
    text : str
        One sentence part: what it is.
    used : bool
        Whether the image or object is used nonetheless.
    """

    path: Path
    kind: Kind
    text: str
    used: bool = False

    def __str__(self) -> str:
        """Path, sentence and outcome, in a line; what cannot be printed in one as its escape."""
        line = f"{self.path}: {self.text} ({'used' if self.used else 'left out'})"
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


@dataclass(frozen=True)
class Annotated:
    """An image that can be decoded, and its objects.

    Attributes
    ----------
    image : Path
    size : tuple (width, height)
        In pixels, of the image itself.
    objects : tuple of LabelledBox
        Each box lies within the image.
    sha256 : str
        Checksum of the image's file.
    barred : tuple of Box
        Places within the image where something is that is not among the objects, so that they are no background.
    """

    image: Path
    size: tuple[int, int]
    objects: tuple[LabelledBox, ...]
    sha256: str
    barred: tuple[Box, ...] = ()

    @property
    def taken(self) -> tuple[Box, ...]:
        """Every place that is not background."""
        return (*(item.box for item in self.objects), *self.barred)

    def without_background(self) -> Annotated:
        """The same with nothing that could be background."""
        width, height = self.size
        return replace(self, barred=(Box(0, 0, width, height),))


@dataclass(frozen=True)
class Reading:
    """What came of one annotation file: the image, None where it cannot be read, and the problems.

    Attributes
    ----------
    path : Path
        The annotation file.
    annotated : Annotated or None
    problems : tuple of Problem
    folder : str or None
        The folder that the file names.
    used : bool
        Whether no problem has the image left out.
    """

    path: Path
    annotated: Annotated | None = None
    problems: tuple[Problem, ...] = ()
    folder: str | None = None
    used: bool = True

    def with_problem(self, kind: Kind, text: str, accept: Collection[Kind], path: Path | None = None) -> Reading:
        """The same with a problem of the image as a whole, which is left out unless the problem is accepted."""
        used = kind in accept
        problem = Problem(path or self.path, kind, text, used)
        return replace(self, problems=(*self.problems, problem), used=self.used and used)


def read_annotated(path: Path, images: Path, accept: Collection[Kind]) -> Reading:
    """Read an annotation file and its image in the folder `images`, decoded to its end; never raises for bad data."""
    nothing = Reading(path)
    try:
        annotation = parse_annotation(path)
    except FileNotFoundError:
        text = "there is no such annotation"
        if Path(path.stem).suffix.lower() in (".jpg", ".jpeg", ".png"):
            text += "; lists name images without their extension"
        return nothing.with_problem("missing", text, ())
    except DataError as error:
        return nothing.with_problem("annotation", str(error), ())
    image = images / annotation.filename
    try:
        size, grey, sha256 = inspect_image(image)
    except FileNotFoundError:
        text = f"there is no such image; {path.name} names it"
        if not image.suffix:
            text += " without an extension, such as .jpg"
        return nothing.with_problem("missing", text, (), image)
    except DataError as error:
        return nothing.with_problem("damaged", str(error), (), image)
    objects, left_out, problems = _within(annotation.objects, size, path, accept)
    problems = [*(Problem(path, "object", text) for text in annotation.rejected), *problems]
    clipped = (box.inside(size) for box in (*annotation.barred, *left_out))
    # What is wholly outside has no part in the image, and may be farther away than numbers go.
    barred = tuple(box for box in clipped if min(box.width, box.height) > 0)
    reading = Reading(path, Annotated(image, size, objects, sha256, barred), tuple(problems), annotation.folder)
    if annotation.size and annotation.size != size:
        text = "it says {} x {} pixels, but the image has {} x {}".format(*annotation.size, *size)
        if annotation.size == size[::-1]:
            text += ": turned by an EXIF orientation? Store the pixels as they are to be seen"
        reading = reading.with_problem("size", text, accept)
    if grey:
        reading = reading.with_problem("grey", "the image is grey", accept, image)
    if not objects:
        reading = reading.with_problem("empty", "it has no object that can be used", accept)
    return reading


def inspect_image(path: Path) -> tuple[tuple[int, int], bool, str]:
    """Decode an image to its end; return (width, height), whether it is grey, and the checksum of its file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    DataError
        The file is not regular or larger than LARGEST_IMAGE, is no image, is cut short, has more pixels than Pillow
        lets pass (179 million), or more than 8 bits a channel in Pillow's reading.
        (Of 16 bits in each of three colours Pillow reads the upper 8.)
    """
    content = _content(path)
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            image.load()
            size, mode = image.size, image.mode
    except Image.DecompressionBombError as error:
        raise DataError(f"it has too many pixels: reduce it ({error})") from error
    # For bytes that are not the picture they claim to be Pillow's decoders raise whatever they stumble over.
    except Exception as error:
        raise DataError(f"it cannot be decoded ({error})") from error
    if mode.startswith(("I", "F")):
        raise DataError(f"its pixels are not of 8 bits a channel (Pillow's mode {mode}): convert it")
    return size, mode in ("1", "L", "LA"), hashlib.sha256(content).hexdigest()


def require(purpose: str, library: str, module: str) -> None:
    """Raise slabsvm.ExtraMissingError, which says what to install, when a library of images cannot be imported."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise ExtraMissingError.of(purpose, library, "./reproduction[voc]") from error
    except ImportError as error:
        raise ExtraMissingError.of(purpose, library, "./reproduction[voc]", str(error)) from error


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST_IMAGE)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(f"it cannot be read ({error.strerror or error})") from error


def _within(
    objects: Collection[LabelledBox], size: tuple[int, int], path: Path, accept: Collection[Kind]
) -> tuple[tuple[LabelledBox, ...], list[Box], list[Problem]]:
    """The objects with the parts of their boxes that are in the image, the boxes of others, and who reaches out."""
    kept, left_out, problems = [], [], []
    for item in objects:
        box = item.box.inside(size)
        if box != item.box:
            # Less than two pixels leave no gradient: such an object is as good as degenerate.
            kind: Kind = "outside" if min(box.width, box.height) > 1 else "object"
            problems.append(Problem(path, kind, _reaching_out(item, size), used="outside" == kind in accept))
            if not problems[-1].used:
                left_out.append(box)
                continue
        kept.append(replace(item, box=box))
    return tuple(kept), left_out, problems


def _reaching_out(item: LabelledBox, size: tuple[int, int]) -> str:
    box = item.box
    return (
        f"a {item.label}'s box, columns {box.left + 1} to {box.right} and rows {box.top + 1} to {box.bottom}, "
        f"reaches out of the image of {size[0]} x {size[1]} pixels"
    )
