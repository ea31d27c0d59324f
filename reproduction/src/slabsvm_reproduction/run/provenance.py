"""Which code made a record: the version and, between releases, a fingerprint of the sources that measure."""

from __future__ import annotations

import hashlib
from pathlib import Path

import slabsvm

# What shows records has no part in what they say: a change of these folders and files leaves records valid.
PRESENTATION = frozenset(
    {
        "command",
        "display",
        "paper",
        "report",
        "demo/page.py",
        "letter/plots.py",
        "letter/report.py",
        "openset/plots.py",
        "openset/report.py",
        "run/claim.py",
        "run/terminal.py",
        "toy/report.py",
        "tuned/comparison.py",
        "tuned/plots.py",
        "tuned/report.py",
        "voc/findings.py",
        "voc/medians.py",
        "voc/plots.py",
        "voc/reading.py",
        "voc/report.py",
        "voc/stages.py",
    }
)


def fingerprint(*packages: Path) -> str:
    """Hash the names and texts of the Python sources below the packages that take part in measuring."""
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            name = path.relative_to(package).as_posix()
            if name not in PRESENTATION and name.split("/")[0].removesuffix(".py") not in PRESENTATION:
                digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def code_version(version: str, *packages: Path) -> str:
    """Return a release's version as it is, and a development version with the fingerprint of its sources."""
    return f"{version}+{fingerprint(*packages)}" if "dev" in version else version


# Part of every cell, so that a record made by other code is not taken for this code's.
VERSION = code_version(slabsvm.__version__, Path(slabsvm.__file__).parent, Path(__file__).parents[1])
