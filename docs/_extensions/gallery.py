"""The gallery's order and its style."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# From what the model is to what it is used for; further examples follow.
ORDER = (
    "plot_how_it_works.py",
    "plot_two_planes.py",
    "plot_thresholds.py",
    "plot_scores.py",
    "plot_calibration.py",
    "plot_monitor.py",
    "plot_reasons.py",
    "plot_open_set.py",
    "plot_table.py",
    "plot_histograms.py",
    "plot_many_rows.py",
)


class Order:
    """A place for each example's file."""

    def __init__(self, folder: str) -> None:
        del folder

    def __call__(self, name: str | Path) -> tuple[int, str]:
        """Return what to sort by."""
        file = Path(name).name
        return (ORDER.index(file) if file in ORDER else len(ORDER), file)


def house_style(gallery_conf: dict[str, Any], example: str | Path) -> None:
    """Draw an example's figures as the library draws its own, at a width that fits the page."""
    del gallery_conf, example
    from matplotlib import rcParams

    from slabsvm.display.figures import STYLE

    rcParams.update({**STYLE, "figure.dpi": 100, "savefig.bbox": "standard"})
