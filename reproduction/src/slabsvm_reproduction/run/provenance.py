"""Which code made a record: the version and, between releases, a fingerprint of the sources that measure."""

from __future__ import annotations

import hashlib
from pathlib import Path

import slabsvm

# What shows records has no part in what they say: a change of these leaves records valid.
PRESENTATION = frozenset(
    {
        "cli",
        "comparison",
        "page",
        "palette",
        "plots",
        "report",
        "selection_plot",
        "tables",
        "terminal",
        "voc_findings",
        "voc_medians",
        "voc_reading",
        "voc_stages",
    }
) | {f"{experiment}_{kind}" for experiment in ("letter", "fair", "openset", "voc") for kind in ("plots", "report")}


def fingerprint(package: Path) -> str:
    """Hash the names and texts of the Python sources below `package` that take part in measuring."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.removesuffix(".py") not in PRESENTATION:
            digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def code_version(version: str, package: Path) -> str:
    """Return a release's version as it is, and a development version with the fingerprint of its sources."""
    return f"{version}+{fingerprint(package)}" if "dev" in version else version


# Part of every cell, so that a record made by other code is not taken for this code's.
VERSION = code_version(slabsvm.__version__, Path(slabsvm.__file__).parent)
