"""Whether the texts of a column all differ, by hashes or one by one, is what a set of them says."""

import numpy as np
import pandas as pd
import pytest

from slabsvm.tables import texts as distinct
from slabsvm.tables.texts import all_differ

N = 5000
DRAW = np.random.default_rng(0)
ORDER = DRAW.permutation(N).tolist()

TEXTS = {
    "one length": [f"ID-{n:07d}" for n in ORDER],
    "fewer than eight letters": [f"{n:04d}" for n in ORDER],
    "lengths from 1": [str(n) for n in ORDER],
    "lengths beyond eight": ["serial " * (n % 5) + str(n) for n in ORDER],
    "as many zero bytes as differ": ["a" + "\0" * n for n in reversed(range(50))],
    "long beginnings": ["https://example.org/" * 20 + str(n) for n in ORDER],
    "of two bytes": [f"Prüfstück {n}" for n in ORDER],
    "with gaps": [None if n % 7 == 0 else f"P{n}" for n in ORDER],
    "ascending": [f"{n:05d}" for n in range(N)],
    "none": [None, None],
    "an empty one": ["", "b", "a"],
}


def as_column(texts, storage):
    dtype = pd.StringDtype(storage, na_value=np.nan)
    parts = [pd.Series(part, dtype=dtype) for part in (texts[: len(texts) // 3], texts[len(texts) // 3 :])]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("storage", ["python", "pyarrow"])
@pytest.mark.parametrize("what", TEXTS)
def test_texts_that_differ_do_and_one_that_is_there_twice_is_found_wherever_it_is(what, storage):
    if storage == "pyarrow":
        pytest.importorskip(storage)
    texts = TEXTS[what]
    assert all_differ(as_column(texts, storage))
    present = [place for place, text in enumerate(texts) if text is not None]
    for source, target in zip(present[:: len(present) // 9 + 1], present[1 :: len(present) // 9 + 1], strict=False):
        again = list(texts)
        again[target] = again[source]
        assert not all_differ(as_column(again, storage))
        assert all_differ(as_column(again, storage)[np.arange(len(texts)) != target])


def test_texts_of_one_hash_are_compared(monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(distinct, "_hashes", lambda texts: np.zeros(len(texts), dtype=np.uint64))
    texts = TEXTS["one length"]
    assert all_differ(as_column(texts, "pyarrow"))
    assert not all_differ(as_column([*texts, texts[7]], "pyarrow"))


@pytest.mark.parametrize("what", TEXTS)
def test_hashes_are_as_many_as_texts(what, monkeypatch):
    """So that no column is as slow as one whose hashes are the same."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(distinct, "MOST_BYTES", 10_000)
    held = as_column(TEXTS[what], "pyarrow").dropna().array.__arrow_array__()
    hashes = [distinct._hashes(chunk) for chunk in held.chunks if len(chunk)]
    texts = [text for text in TEXTS[what] if text is not None]
    assert len(np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]))) == len(texts)
