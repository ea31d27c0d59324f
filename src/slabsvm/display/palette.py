"""The colours of every figure and page, chosen to stay apart for colour-blind readers and in print."""

INK, SOFT, LINE, PAPER = "#1d2530", "#5d6876", "#e2e0da", "#f7f6f2"
KNOWN, NOVEL = "#2f6db3", "#d9772b"
GREEN, VIOLET, SAND = "#3f8f6b", "#7d5ba6", "#b59a5b"

# From light to dark, for an ordered parameter or a value.
SEQUENCE = ("#a9cbe8", "#6fa3d6", "#3f7fbf", "#275a96", "#12315c")

# Curves in one picture, in this order.
CURVES = (KNOWN, NOVEL, GREEN, VIOLET, SAND)

__all__ = ["CURVES", "GREEN", "INK", "KNOWN", "LINE", "NOVEL", "PAPER", "SAND", "SEQUENCE", "SOFT", "VIOLET"]
