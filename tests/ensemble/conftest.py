"""The positives that these tests learn."""

from positives import correlated

__all__ = ["correlated"]
