"""The UCI Letter data set: found on this machine, or downloaded, and proved to be the original file.

The paper's split is by row number, so the order of the rows is part of the data set: every way to the file
ends in one checksum. (The copies in ARFF format, OpenML's among them, keep the samples in another order and
cannot stand in.)
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, build_opener

import numpy as np
from numpy.typing import NDArray

from slabsvm.data.files import write_whole
from slabsvm_reproduction.run.reading import read_regular

LETTER_NAME = "letter-recognition.data"
LETTER_SHA256 = "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2"
LETTER_SOURCES = (
    "https://archive.ics.uci.edu/static/public/59/letter+recognition.zip",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/letter-recognition/letter-recognition.data",
)
LETTER_PAGE = "https://archive.ics.uci.edu/dataset/59/letter+recognition"
N_ROWS, N_FEATURES = 20_000, 16
# Longer ones are no features; Python refuses to read some thousand digits.
LONGEST_NUMBER = 9
# The most that is read of a file or an archive; the Letter file has 0.7 MB.
LARGEST = 16_000_000


class DataError(Exception):
    """A data set that is missing or is not what it should be; the text says what to do about it."""


@dataclass(frozen=True)
class Letters:
    """UCI Letter: 20,000 capital letters in 20 fonts, distorted at random, in the file's order.

    Attributes
    ----------
    X : ndarray of shape (20000, 16)
        Features, whole numbers 0 to 15.
    y : ndarray of shape (20000,)
        The letters, "A" to "Z".
    sha256 : str
        Checksum of the original file.
    """

    X: NDArray[np.float64]
    y: NDArray[np.str_]
    sha256: str


def load_letters(path: Path | None = None) -> Letters:
    """Read the Letter data set from `path`, or from wherever :func:`find_letters` finds it.

    Raises
    ------
    DataError
        No file and no network, or a file that is not the original one.
    """
    path = find_letters() if path is None else letters_at(path)
    try:
        content = read_regular(path, LARGEST)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
    return parse_letters(content, origin=str(path))


def find_letters(sources: Sequence[str] | None = None) -> Path:
    """Path of the Letter file: in $SLABSVM_DATA, else in the user's cache, else freshly downloaded."""
    folder = os.environ.get("SLABSVM_DATA")
    if folder:
        # A folder that is named is meant: falling back to a download would hide a typing error.
        return letters_at(named_folder(folder))
    cached = cache_folder() / "letter" / LETTER_NAME
    return cached if cached.is_file() else download_letters(cached, LETTER_SOURCES if sources is None else sources)


def named_folder(folder: str) -> Path:
    """The folder that $SLABSVM_DATA names.

    Raises
    ------
    DataError
        It begins with the home of somebody who has none.
    """
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:
        raise DataError(f"SLABSVM_DATA is {folder!r}, but there is no such home. Name the folder in full.") from error


def is_at_hand() -> bool:
    """Whether :func:`find_letters` answers without the network."""
    return bool(os.environ.get("SLABSVM_DATA")) or (cache_folder() / "letter" / LETTER_NAME).is_file()


def letters_at(path: Path) -> Path:
    """The Letter file that `path` means: itself, or the file in that folder or in its subfolder `letter`."""
    places = [path, path / LETTER_NAME, path / "letter" / LETTER_NAME]
    for place in places:
        if place.is_file():
            return place
    if path.is_dir():
        raise DataError(
            f"There is no {LETTER_NAME} in {path} or in {path / 'letter'}. Put it there; it comes from {LETTER_PAGE}."
        )
    if path.exists():
        raise DataError(f"{path} is no regular file. Give the path of {LETTER_NAME}, or of the folder that holds it.")
    raise DataError(f"{path} does not exist. Give the path of {LETTER_NAME}, or of the folder that holds it.")


def cache_folder() -> Path:
    """Where downloads are kept: $XDG_CACHE_HOME/slabsvm, or the system's own place for caches."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "slabsvm"
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "slabsvm"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise DataError(
            f"You have no home folder to keep downloads in. Pass {LETTER_NAME} with --data FILE, or set XDG_CACHE_HOME "
            "to a folder that can be written."
        ) from error
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "slabsvm"
    return home / ".cache" / "slabsvm"


def download_letters(target: Path, sources: Sequence[str], timeout: float = 30.0) -> Path:
    """Fetch the Letter file from the first of `sources` that delivers the original, and keep it at `target`.

    Raises
    ------
    DataError
        No source delivered the original file (the text names each failure), or `target` cannot be written.
    """
    # Not by pooch: it bounds neither what it downloads nor what it unpacks, keeps what only the user can read, and
    # leaves a failure in the words of its HTTP library. What would have to stay here is as long as this is.
    failures = []
    for url in sources:
        try:
            content = original_bytes(_fetch(url, timeout))
            parse_letters(content, origin=url)
        except (URLError, HTTPException, OSError, zipfile.BadZipFile, DataError) as error:
            failures.append(f"  {url}\n    {_failure(error)}")
            continue
        _keep(target, content)
        return target
    raise DataError(
        "The Letter data set is not on this machine and could not be downloaded:\n"
        + "\n".join(failures)
        + f"\nFetch {LETTER_NAME} from {LETTER_PAGE} on a machine with a network. Then pass it with"
        + f"\n--data FILE, or set SLABSVM_DATA to a folder that holds it as letter/{LETTER_NAME}."
    )


def original_bytes(download: bytes) -> bytes:
    """Take the Letter file out of a download, which is either the file itself or a zip archive with it."""
    if not zipfile.is_zipfile(io.BytesIO(download)):
        return download
    # Encrypted, compressed in a way that is not known here, or damaged in one of the ways that zipfile does not expect.
    try:
        with zipfile.ZipFile(io.BytesIO(download)) as archive:
            for member in archive.namelist():
                if Path(member).name == LETTER_NAME:
                    return _bounded(_member(archive, member))
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"the archive cannot be unpacked ({error})") from error
    raise DataError(f"the archive holds no {LETTER_NAME}")


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The beginning of a file in an archive, no more than LARGEST and a byte of it."""
    with archive.open(name) as file:
        return file.read(LARGEST + 1)


def parse_letters(content: bytes, origin: str) -> Letters:
    """Turn the bytes of the Letter file into arrays.

    Raises
    ------
    DataError
        `content` is not the original file; the text says in what it differs.
    """
    # A copy that went through Windows differs in its line ends alone.
    content = content.replace(b"\r\n", b"\n")
    digest = hashlib.sha256(content).hexdigest()
    if digest != LETTER_SHA256:
        raise DataError(
            f"{origin} is not the original Letter file: {_difference(content)}.\n"
            f"Get {LETTER_NAME} again from {LETTER_PAGE}, "
            "or delete the bad copy and let slabsvm download it."
        )
    rows = [line.split(",") for line in content.decode("ascii").splitlines()]
    return Letters(
        X=np.array([row[1:] for row in rows], dtype=np.float64),
        y=np.array([row[0] for row in rows]),
        sha256=digest,
    )


def _difference(content: bytes) -> str:
    """Say in what `content` differs from the original Letter file, as far as can be seen."""
    if not content:
        return "it is empty"
    lines = content.decode("latin-1").splitlines()
    for number, line in enumerate(lines, start=1):
        if not _is_sample(line.split(",")):
            shown = line if len(line) <= 60 else line[:60] + "..."
            return f"line {number} should be a letter and {N_FEATURES} numbers from 0 to 15, but is {shown!r}"
    if len(lines) < N_ROWS:
        return f"it has {len(lines):,} of {N_ROWS:,} rows, so it is cut short"
    if len(lines) > N_ROWS:
        return f"it has {len(lines):,} rows where the original has {N_ROWS:,}"
    return "the rows are well formed, but changed or in another order (its SHA-256 differs)"


def _is_sample(fields: list[str]) -> bool:
    letter, numbers = fields[0], fields[1:]
    return (
        len(letter) == 1
        and "A" <= letter <= "Z"
        and len(numbers) == N_FEATURES
        and all(number.isdecimal() and len(number) <= LONGEST_NUMBER and int(number) <= 15 for number in numbers)
    )


def _fetch(url: str, timeout: float) -> bytes:
    # Some servers turn away a request that does not say who asks.
    request = Request(url, headers={"User-Agent": "slabsvm"})
    # Not urlopen: it keeps for good the proxies that were set when it was first called.
    with build_opener().open(request, timeout=timeout) as response:
        content: Any = response.read(LARGEST + 1)
    return _bounded(bytes(content))


def _bounded(content: bytes) -> bytes:
    """Return a download, or refuse one that is too large to be the Letter file."""
    if len(content) > LARGEST:
        raise DataError(f"it has more than {LARGEST / 1e6:.0f} MB, where {LETTER_NAME} has 0.7")
    return content


def _failure(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"the server answers {error.code} {error.reason}"
    return str(getattr(error, "reason", error))


def _keep(target: Path, content: bytes) -> None:
    """Write the download, and say what to do where that cannot be."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)
    except OSError as error:
        raise DataError(
            f"The download cannot be kept at {target}: {error.strerror or error}. "
            "Set XDG_CACHE_HOME to a folder that can be written, or pass the file with --data FILE."
        ) from error
