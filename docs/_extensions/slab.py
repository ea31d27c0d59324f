"""The page to play with a slab on, copied into the site as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slabsvm.explore import FOLDER

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PLACE = "slab"


def copied(app: Sphinx, error: Exception | None) -> None:
    """Copy the page's files once the site is built."""
    if error is None and app.builder.format == "html":
        shutil.copytree(FOLDER, Path(app.outdir) / PLACE, dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx do so."""
    app.connect("build-finished", copied)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
