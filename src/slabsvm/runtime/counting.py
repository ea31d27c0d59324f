"""Numbers with their nouns: 1 class, 2 classes."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, "1 row" or "2,000 rows"; the plural is noun + s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
