"""Figures. matplotlib, the optional extra `slabsvm[plots]`, is imported in this folder alone, and only to draw.

All raise slabsvm.ExtraMissingError where it is not installed. What draws takes axes or a figure of yours, or makes a
new one of pyplot's, current from then on, and returns the figure.
"""

from slabsvm.display.explanation import draw_explanation, draw_explanations, draw_functions
from slabsvm.display.figures import colour_map, figure, require_matplotlib
from slabsvm.display.plots import CalibrationDisplay, OSCRDisplay, SlabBoundaryDisplay, draw_monitor, draw_scores

__all__ = [
    "CalibrationDisplay",
    "OSCRDisplay",
    "SlabBoundaryDisplay",
    "colour_map",
    "draw_explanation",
    "draw_explanations",
    "draw_functions",
    "draw_monitor",
    "draw_scores",
    "figure",
    "require_matplotlib",
]
