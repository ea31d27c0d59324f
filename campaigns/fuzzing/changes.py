"""Changes that keep what a blind one would break at once: check sums, lengths, words."""

from __future__ import annotations

import random
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "tests"))
import damage

KEEPING = (damage.header, damage.values, damage.values, *(damage.schema,) * 4)
LEAST_FOOTER = 12


def blind(content: bytes, most: int) -> bytes:
    """Return another input, as libFuzzer changes it."""
    import atheris

    return bytes(atheris.Mutate(content, most))


def model(content: bytes, most: int, seed: int) -> bytes:
    """Change a model file: bytes, the text of its schema, or its parts with the check sums put right."""
    rng = random.Random(seed)
    chance = rng.random()
    if chance < 0.1:
        return blind(content, most)
    changed = b""
    # What is no archive, or one without such parts, is changed blindly; zipfile warns of doubled names.
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if chance < 0.3:
            members = damage.read(content)
            members[damage.SCHEMA] = blind(members[damage.SCHEMA], most // 2)
            changed = damage.written(members)
        else:
            changed = rng.choice(KEEPING)(content, np.random.default_rng(seed))
    return changed if 0 < len(changed) <= most else blind(content, most)


def parquet(content: bytes, most: int, seed: int) -> bytes:
    """Change a Parquet file: its footer, with the length put right, or any byte."""
    if len(content) < LEAST_FOOTER or seed % 3 == 0:
        return blind(content, most)
    length = int.from_bytes(content[-8:-4], "little")
    if length > len(content) - 8:
        return blind(content, most)
    before, footer = content[: -8 - length], content[-8 - length : -8]
    footer = blind(footer, max(1, most - len(before) - 8))
    return before + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def words(known: tuple[bytes, ...]) -> Any:
    """Return a change of lines of words: one is added, removed, moved, exchanged for a known one or changed itself."""

    def change(content: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        line = content.split(b"\n") if content else []
        for _ in range(rng.randint(1, 3)):
            place = rng.randint(0, len(line))
            kind = rng.randrange(8)
            if kind < 3 or place == len(line):
                line.insert(place, rng.choice(known))
            elif kind < 5:
                line[place] = rng.choice(known)
            elif kind == 5:
                del line[place]
            elif kind == 6:
                line.insert(rng.randrange(len(line)), line.pop(place))
            else:
                line[place] = blind(line[place], 40).replace(b"\n", b"")
        return b"\n".join(line)[:most]

    return change
