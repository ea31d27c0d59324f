"""What the theme and docutils leave to do for readers who do not see the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# docutils marks citations by two roles, of which one has been withdrawn, so that the other has no items. The theme's
# button that unfolds a part of the navigation has no name.
MENDED = {
    'role="list" class="citation-list"': 'class="citation-list"',
    ' role="doc-biblioentry"': "",
    '<summary><span class="toctree-toggle"': '<summary aria-label="Pages below"><span class="toctree-toggle"',
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Mend the pages when all are written."""
    app.connect("build-finished", _mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _mend(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        for page in Path(app.outdir).rglob("*.html"):
            written = mended = page.read_text(encoding="utf-8")
            for wrong, right in MENDED.items():
                mended = mended.replace(wrong, right)
            if mended != written:
                page.write_text(mended, encoding="utf-8")
