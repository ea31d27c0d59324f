"""Figures of one style, drawn with matplotlib, which is the optional extra `slabsvm[plots]`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slabsvm.data.files import write_whole
from slabsvm.display.palette import CURVES, INK, SEQUENCE, SOFT
from slabsvm.runtime.extras import ExtraMissingError, require

STYLE: Any = {
    "font.size": 10,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "figure.dpi": 160,
    "savefig.bbox": "tight",
}

# Of all extras there is one error; this is its name here.
PlotsMissingError = ExtraMissingError


def require_matplotlib() -> None:
    """Raise slabsvm.ExtraMissingError, which names what to install, when figures cannot be drawn."""
    require("A figure", "matplotlib", "slabsvm[plots]")


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Any]:
    """A figure of `width` by `height` inches in the house's style, saved to `path`, a PNG file, at the end."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        drawing = Figure(figsize=(width, height))
        yield drawing
        content = io.BytesIO()
        drawing.savefig(content, format="png")
    write_whole(path, content.getvalue())


def svg(figure: Any, salt: str) -> str:
    """Return a figure as an SVG element; figures of one page have each a salt of their own.

    Equal figures make equal elements: without a salt matplotlib draws the names inside by lot.
    """
    from matplotlib import rc_context

    content = io.StringIO()
    with rc_context({"svg.hashsalt": salt}):
        figure.savefig(content, format="svg", metadata={"Date": None})
    # What stands before the element is for files.
    return content.getvalue()[content.getvalue().index("<svg") :]


def shown_figure(width: float, height: float, layout: Any = None) -> Any:
    """Return a new figure that a notebook shows, which it otherwise does only once pyplot has been imported."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", bbox_inches="tight")
            return buffer.getvalue()

    return Shown(figsize=(width, height), layout=layout)


class ShownInNotebooks:
    """A display that is shown as its picture where a notebook's cell ends in it.

    With axes of one's own it is not: whoever made these shows them.
    """

    def _repr_png_(self) -> bytes | None:
        picture = getattr(getattr(self, "figure_", None), "_repr_png_", None)
        return None if picture is None else picture()


def axes_of(ax: Any, width: float, height: float) -> Any:
    """Return axes to draw into, in a new figure of this size if there are none."""
    return shown_figure(width, height, layout="constrained").add_subplot() if ax is None else ax


def next_colour(ax: Any) -> str:
    """Return the colour of the next named curve in axes."""
    n_named = sum(not line.get_label().startswith("_") for line in ax.lines)
    return CURVES[n_named % len(CURVES)]


def lighten(axes: Any, labelsize: float = 10) -> None:
    """Draw the frame and the ticks of axes in the house's style, whatever figure they are in."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(colors=SOFT, labelsize=labelsize)


def colour_map() -> Any:
    """The house's colours from paper to ink, for values from low to high."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("slabsvm", ["#f7f6f2", *SEQUENCE])
