"""Numbers with their nouns, as a person says them: 1 class, 2 classes."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return "1 row" or "2,000 rows": the number with its noun, of which the plural is noun + s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
