"""How the encoder of tables is kept: what it learned of each column."""

from __future__ import annotations

from typing import Any

from slabsvm.files.models.estimators import Entry, Values
from slabsvm.files.models.kinds import Either, Flag, Many, Number, Record, Text, Whole
from slabsvm.tables.columns import Categories, Numbers

NUMBERS = {"name": Text(), "n_missing": Whole(), "median": Number(), "constant": Flag(), "boolean": Flag()}
CATEGORIES = {
    "name": Text(),
    "n_missing": Whole(),
    "levels": Many(Text(), least=1),
    "usual": Whole(),
    "singles": Whole(),
}


def _categories(**parts: Any) -> Categories:
    levels = tuple(parts.pop("levels"))
    if list(levels) != sorted(set(levels)) or parts["usual"] >= len(levels):
        raise ValueError("its levels are not in order, or the usual one is none of them")
    return Categories(levels=levels, **parts)


def _give(model: Any, parts: Values) -> None:
    model.columns_, model.n_rows_ = tuple(parts["columns"]), parts["n_rows"]


def _doubt(model: Any) -> str:
    if not hasattr(model, "columns_"):
        return ""
    names = [column.name for column in model.columns_]
    known = set(getattr(model, "feature_names_in_", ()))
    return "" if len(set(names)) == len(names) and set(names) <= known else "has columns that its table has not"


ENCODERS = (
    Entry(
        "slabsvm.TableEncoder",
        {
            "n_rows": Whole(2),
            "columns": Many(
                Either(
                    {
                        "numbers": Record(Numbers, NUMBERS),
                        "categories": Record(_categories, CATEGORIES),
                    },
                    which=lambda column: type(column).__name__.lower(),
                ),
                least=1,
            ),
        },
        give=_give,
        doubt=_doubt,
    ),
)
