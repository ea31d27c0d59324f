"""What becomes of docstrings on their way to the reference, and a line for each of its names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

LIST = re.compile(r"^```\{eval-rst\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def setup(app: Sphinx) -> dict[str, Any]:
    """Leave out what a class has from elsewhere, and make links of the pages that docstrings name."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("names-of", NamesOf)
    app.connect("autodoc-skip-member", _of_others)
    app.connect("autodoc-process-docstring", _with_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class NamesOf(SphinxDirective):
    """The lists of other pages beside this one, each below its page's title: `.. names-of:: detectors files`."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the lists."""
        lines: list[str] = []
        for name in self.arguments[0].split():
            page = Path(self.env.doc2path(self.env.docname)).with_name(f"{name}.md")
            self.env.note_dependency(str(page))
            lines += [f".. rubric:: :doc:`{name}`", "   :heading-level: 2", ""]
            for block in LIST.findall(page.read_text(encoding="utf-8")):
                # The pages themselves say where each name's page is.
                lines += [*block.replace("   :toctree: generated\n", "").splitlines(), ""]
        return self.parse_text_to_nodes("\n".join(lines))


def _of_others(*event: Any) -> bool | None:
    _, _, _, member, _, _ = event
    home = getattr(member, "__module__", None) or "slabsvm"
    return None if home.startswith("slabsvm") else True


def _with_links(*event: Any) -> None:
    lines = event[-1]
    lines[:] = [re.sub(r"docs/([\w/-]+)\.md", r":doc:`/\1`", line) for line in lines]
