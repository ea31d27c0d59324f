"""A slab to play with: a page in a browser, with a solver of its own in JavaScript.

`page/` holds the page's files, which the site shows as they are; here they become one HTML file, with a table's columns
of numbers inside, of which two are chosen on the page. Scripts are classic ones, not modules, since a browser loads no
module from a file; each adds to `globalThis.slabsvm`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from slabsvm.files.tables import Reading, whole
from slabsvm.tables.columns import Numbers, TableError, cells_of, places_of
from slabsvm.tables.plan import Rules, taken

FOLDER = Path(__file__).parent / "page"
MOST_COLUMNS = 100
# As many as the page fits while one of them is dragged.
MOST_POINTS = 500
ICON = '<link rel="icon" href="icon.svg">\n'
STYLE = '<link rel="stylesheet" href="style.css">'
SCRIPT = re.compile(r'<script defer src="([\w-]+\.js)"></script>\n')
# The page runs this one script, and loads nothing.
POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{}'; "
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
)


def columns_of(path: Path, how: Reading) -> dict[str, Any]:
    """Return a table's name, its number of rows, and the values of its columns of numbers; null where a cell is empty.

    Of more rows than the page takes, as many are chosen, evenly spread over the table. Raises TableError.
    """
    table = whole(path, how)
    names = places_of(table)
    n_rows = len(table)
    chosen = np.unique(np.linspace(0, n_rows - 1, min(n_rows, MOST_POINTS)).astype(np.intp))
    columns: list[dict[str, Any]] = []
    for name in names:
        try:
            column = taken(cells_of(table, names, name), Rules())
        except TableError:
            continue
        if not isinstance(column, Numbers):
            # Texts and times are no coordinates.
            continue
        values = column.read(cells_of(table, names, name)).values
        columns.append({"name": name, "values": [None if np.isnan(one) else float(one) for one in values[chosen]]})
    if len(columns) < 2:
        found = f"of its {len(names)} columns {'one holds' if columns else 'none hold'} numbers alone"
        raise TableError(f"two columns of numbers are needed, and {found}")
    return {"name": path.name, "rows": n_rows, "columns": columns[:MOST_COLUMNS]}


def page(table: dict[str, Any] | None) -> str:
    """Return the page as a file that needs no other; a table is what `columns_of` gives."""
    text = _read("index.html")
    script = "".join(map(_read, SCRIPT.findall(text)))
    sealed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    # Whatever a table's names are, nothing of them ends the element that holds them.
    data = json.dumps(table, allow_nan=False).replace("<", "\\u003c")
    held = f'<script type="application/json" id="table">{data}</script>\n<script>{script}</script>\n</body>'
    text = SCRIPT.sub("", text).replace(ICON, "").replace("</body>", held)
    return text.replace(STYLE, f"{POLICY.format(sealed)}\n<style>\n{_read('style.css')}</style>")


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
