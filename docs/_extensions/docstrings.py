"""What becomes of docstrings on their way to the reference."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Leave out what a class has from elsewhere, and make links of the pages that docstrings name."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", _of_others)
    app.connect("autodoc-process-docstring", _with_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _of_others(*event: Any) -> bool | None:
    _, _, _, member, _, _ = event
    home = getattr(member, "__module__", None) or "slabsvm"
    return None if home.startswith("slabsvm") else True


def _with_links(*event: Any) -> None:
    lines = event[-1]
    lines[:] = [re.sub(r"docs/([\w/-]+)\.md", r":doc:`/\1`", line) for line in lines]
