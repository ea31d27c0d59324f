"""Where real data are, which a test is skipped without; links and pipes, where they can be made."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("SLABSVM_DATA") or "/nowhere")
LETTERS = DATA / "letter" / "letter-recognition.data"
needs_letters = pytest.mark.skipif(
    not LETTERS.is_file(), reason="SLABSVM_DATA names no folder with letter/letter-recognition.data"
)


def real(name: str) -> Path:
    """The folder of this name among the real data, without which a test is skipped."""
    if not (DATA / name).is_dir():
        pytest.skip(f"SLABSVM_DATA names no folder with {name}")
    return DATA / name


def linked(link: Path, target: Path | str) -> Path:
    """Make a link."""
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("links cannot be made here")
    return link


def piped(path: Path) -> Path:
    """Make a pipe."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    os.mkfifo(path)
    return path
