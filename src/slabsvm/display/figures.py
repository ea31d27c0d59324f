"""Figures of one style, drawn with matplotlib, which is the optional extra `slabsvm[plots]`."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slabsvm.data.files import write_whole
from slabsvm.display.palette import CURVES, INK, PAPER, SEQUENCE, SOFT
from slabsvm.runtime.caller import require

STYLE: Any = {
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), SOFT),
    **dict.fromkeys(("axes.labelcolor", "text.color"), INK),
    **dict.fromkeys(("axes.spines.right", "axes.spines.top", "legend.frameon"), False),
    **{"font.size": 10, "axes.titlesize": 11, "axes.titlelocation": "left", "figure.dpi": 160, "savefig.bbox": "tight"},
}


def require_matplotlib() -> None:
    """Raise slabsvm.ExtraMissingError, which names what to install, when figures cannot be drawn."""
    require("A figure", "matplotlib", "slabsvm[plots]")


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Any]:
    """A figure of `width` by `height` inches in one style, saved to `path`, a PNG file, at the end."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        drawing = Figure(figsize=(width, height))
        yield drawing
        content = io.BytesIO()
        drawing.savefig(content, format="png")
    write_whole(path, content.getvalue())


def hidden_figure(width: float, height: float) -> Any:
    """Return a new figure that pyplot does not know, for a page."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def svg(figure: Any, salt: str) -> str:
    """Return a figure as an SVG element; salts tell the names in a page's figures apart, and make equal ones equal."""
    from matplotlib import rc_context

    content = io.StringIO()
    with rc_context({"svg.hashsalt": salt}):
        figure.savefig(content, format="svg", metadata={"Date": None})
    # What stands before the element is for files.
    return content.getvalue()[content.getvalue().index("<svg") :]


def shown_figure(width: float, height: float, layout: Any = None) -> Any:
    """Return a new figure of pyplot, as scikit-learn's displays do: plt.show and plt.savefig take it."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    class Shown(Figure):
        """A figure that is shown once where a notebook's cell ends in it."""

        def _ipython_display_(self) -> None:
            # At a cell's end a notebook shows what the cell ends in, and then all that pyplot still has.
            if "inline" in plt.get_backend():
                plt.close(self)
            # By this IPython shows the figure as it would have without being asked here.
            raise NotImplementedError

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", bbox_inches="tight")
            return buffer.getvalue()

    return plt.figure(FigureClass=Shown, figsize=(width, height), layout=layout)


def axes_of(ax: Any, width: float, height: float) -> Any:
    """Return axes to draw into, in a new figure of this size if there are none."""
    require_matplotlib()
    return shown_figure(width, height, layout="constrained").add_subplot() if ax is None else ax


def next_colour(ax: Any) -> str:
    """Return the colour of the next named curve in axes."""
    n_named = sum(not line.get_label().startswith("_") for line in ax.lines)
    return CURVES[n_named % len(CURVES)]


def lighten(axes: Any, labelsize: float = 10, *, x: str = "", y: str = "") -> None:
    """Draw the frame, the ticks and the names of axes in one style, whatever figure they are in."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(colors=SOFT, labelsize=labelsize)
    for name, put in ((x, axes.set_xlabel), (y, axes.set_ylabel)):
        if name:
            put(name, color=SOFT)


def legend(axes: Any, size: float = 9, **place: Any) -> None:
    """Draw the names of what is in axes."""
    axes.legend(frameon=False, labelcolor=INK, fontsize=size, **place)


def note(axes: Any, text: str, at: Any, shift: tuple[float, float], size: float = 9, **how: Any) -> None:
    """Write a text near a place, shifted by points."""
    axes.annotate(text, at, shift, textcoords="offset points", fontsize=size, **how)


def colour_map(colours: Sequence[str] = (PAPER, *SEQUENCE)) -> Any:
    """Return a colour map for values from low to high: from paper to ink, or through other colours."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("slabsvm", colours)
