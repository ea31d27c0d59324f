"""A small data set in VOC's layout, made for a test: images with edges in them, and their annotations."""

from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from PIL import Image

from slabsvm_reproduction.letter.data import DataError
from slabsvm_reproduction.voc.data import VOCData, read_voc

SIZE = (120, 90)
SQUARE = "<name>square</name><bndbox><xmin>11</xmin><ymin>11</ymin><xmax>50</xmax><ymax>50</ymax></bndbox>"


def described(name: str, *objects: str, size=SIZE, folder="VOC2012", extension="jpg") -> str:
    """The text of an annotation; `objects` are what stands between <object> and </object>."""
    inside = "".join(f"<object>{text}</object>" for text in objects)
    return (
        f"<annotation><folder>{folder}</folder><filename>{name}.{extension}</filename>"
        f"<size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>{inside}</annotation>"
    )


def boxed(label: str, *corners: object, flags: str = "") -> str:
    """An object with VOC's corners xmin, ymin, xmax, ymax."""
    names = ("xmin", "ymin", "xmax", "ymax")
    box = "".join(f"<{name}>{value}</{name}>" for name, value in zip(names, corners, strict=True))
    return f"<name>{label}</name>{flags}<bndbox>{box}</bndbox>"


def pattern(seed: int = 0, size=SIZE, mode="RGB") -> Image.Image:
    """An image of coarse random patches: gradients everywhere."""
    rng = np.random.default_rng(seed)
    patches = rng.integers(0, 256, size=(12, 12, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize(size, Image.Resampling.BILINEAR).convert(mode)


def refused(match: str, place: Path, **how: object) -> str:
    """Assert that a folder is not read, in words that match; return these."""
    with pytest.raises(DataError, match=match) as error:
        read_voc(place, **how)
    return str(error.value)


def stems(data: VOCData) -> list[str]:
    """The names of the images that were read."""
    return [image.image.stem for image in data.images]


class Layout:
    """The folders of a data set, to which a test adds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.annotations, self.images = root / "Annotations", root / "JPEGImages"
        self.annotations.mkdir(parents=True)
        self.images.mkdir()

    def add(self, name: str, *objects: str, image: Image.Image | None = None, **described_as) -> Path:
        """Add an image with objects; gives the annotation's path."""
        extension = described_as.get("extension", "jpg")
        (image or pattern(seed=crc32(name.encode()))).save(self.images / f"{name}.{extension}")
        return self.annotate(name, described(name, *objects, **described_as))

    def annotate(self, name: str, text: str) -> Path:
        """Write an annotation alone."""
        path = self.annotations / f"{name}.xml"
        path.write_text(text, encoding="utf-8")
        return path

    def list(self, name: str, text: str, encoding: str = "utf-8") -> None:
        """Write an image set."""
        path = self.root / "ImageSets" / "Main" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding=encoding)
