"""Figures. matplotlib, the optional extra `slabsvm[plots]`, is imported in this folder alone, and only to draw."""

from slabsvm.display.boundary import SlabBoundaryDisplay
from slabsvm.display.curves import CalibrationDisplay, OSCRDisplay
from slabsvm.display.explanation import draw_explanation, draw_explanations, draw_functions
from slabsvm.display.figures import PlotsMissingError, colour_map, figure, require_matplotlib
from slabsvm.display.monitor import draw_monitor
from slabsvm.display.scores import ScoresDisplay, draw_scores
from slabsvm.display.selection import draw_search

__all__ = [
    "CalibrationDisplay",
    "OSCRDisplay",
    "PlotsMissingError",
    "ScoresDisplay",
    "SlabBoundaryDisplay",
    "colour_map",
    "draw_explanation",
    "draw_explanations",
    "draw_functions",
    "draw_monitor",
    "draw_scores",
    "draw_search",
    "figure",
    "require_matplotlib",
]
