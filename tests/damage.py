"""Model files that accident or malice has changed, by a seed.

*Accidents* change bytes: what still can be read must decide as before. *Malice* writes an archive anew, with valid
check sums everywhere.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Members = dict[str, bytes]
SCHEMA = "schema.json"
# Numbers and values that nobody expects.
EXTREME = (-1, 0, 1, 2**31, 2**62, -(2**63), 1e308, -1e-308, float("nan"), float("inf"))
STRANGE: tuple[Any, ...] = (
    *(value for value in EXTREME if np.isfinite(value)),
    "",
    "x" * 1000,
    "os",
    "null",
    None,
    True,
    [],
    {},
    {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"},
    {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": '"what"', "is_json": True},
)


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """Turn one to eight bits over."""
    changed = bytearray(content)
    for place in rng.integers(0, 8 * len(content), rng.integers(1, 9)):
        changed[place // 8] ^= 1 << (place % 8)
    return bytes(changed)


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut the end off, or the beginning."""
    place = int(rng.integers(0, len(content)))
    return content[:place] if rng.random() < 0.8 else content[place:]


def spliced(content: bytes, rng: np.random.Generator) -> bytes:
    """Remove, repeat, exchange or blank a stretch."""
    first, last = sorted(rng.integers(0, len(content), 2).tolist())
    stretch = content[first:last]
    there = (b"", stretch + stretch, stretch[::-1], bytes(len(stretch)), rng.bytes(len(stretch)))
    return content[:first] + there[rng.integers(5)] + content[last:]


def claimed(content: bytes, rng: np.random.Generator) -> bytes:
    """Put another number where the archive states sizes, places, methods and flags."""
    changed = bytearray(content)
    marks = [match.start() for match in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06)", content)]
    for _ in range(int(rng.integers(1, 4))):
        place = marks[rng.integers(len(marks))] + int(rng.integers(4, 46))
        form, most = (("<I", 2**32), ("<H", 2**16))[rng.integers(2)]
        number = int(rng.choice([0, 1, 8, 99, most // 2, most - 1]))
        changed[place : place + struct.calcsize(form)] = struct.pack(form, number)
    return bytes(changed[: len(content)])


def header(content: bytes, rng: np.random.Generator) -> bytes:
    """Let an array claim another shape, dtype or order."""
    members = read(content)
    name = _array(members, rng)
    start, values = _split(members[name])
    shape = rng.choice(["(9999999999999,)", "(2, 4611686018427387904)", "(0,)", "(-1,)", "()", "(1,)", "(3, 4)", "9"])
    descr = str(rng.choice(["'<f8'", "'|O'", "'<i8'", "'|V8'", "'<U9'", "[('a', '<f8')]", "'<f4'", "'<m8[s]'"]))
    text = start.decode("latin1")
    if rng.random() < 0.6:
        text = re.sub(r"'shape': \([^)]*\)", f"'shape': {shape}", text)
    if rng.random() < 0.4:
        text = re.sub(r"'descr': '[^']*'", f"'descr': {descr}", text)
    if rng.random() < 0.2:
        text = text.replace("False", str(rng.choice(["True", "__import__('os').system('true')", "None"])))
    text = text.rstrip() + "\n"
    members[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1") + values
    return written(members)


def values(content: bytes, rng: np.random.Generator) -> bytes:
    """Put strange numbers into an array."""
    members = read(content)
    name = _array(members, rng)
    start, data = _split(members[name])
    dtype = np.dtype(re.findall(r"'descr': '([^']*)'", start.decode("latin1"))[0])
    numbers = np.frombuffer(data, dtype=dtype).copy()
    if len(numbers) and dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            some = np.array([EXTREME[rng.integers(len(EXTREME))] for _ in range(3)], dtype=np.float64)
            if dtype.kind in "iu":
                some = np.nan_to_num(some, nan=7, posinf=2**60, neginf=0)
            numbers[rng.integers(0, len(numbers), 3)] = some.astype(dtype)
    members[name] = members[name][: len(members[name]) - len(data)] + numbers.tobytes()
    return written(members)


def schema(content: bytes, rng: np.random.Generator) -> bytes:
    """Put a strange value, or one from elsewhere, into the schema; remove one, or add one."""
    members = read(content)
    found = json.loads(members[SCHEMA])
    places = list(places_in(found))
    for _ in range(int(rng.integers(1, 3))):
        parent, key = places[rng.integers(len(places))]
        other, other_key = places[rng.integers(len(places))]
        kind = int(rng.integers(7))
        if key not in (parent if isinstance(parent, dict) else range(len(parent))):
            continue
        if kind == 0 and isinstance(parent, dict):
            del parent[key]
        elif kind == 1 and isinstance(parent, dict):
            parent["more"] = STRANGE[rng.integers(len(STRANGE))]
        elif kind >= 5 and "__loader__" in parent and isinstance(other, dict):
            # Another object's number, or its loader or class.
            key = str(rng.choice(["__id__", "__loader__", "__class__", "__module__"]))
            parent[key] = other.get(key, parent.get(key))
        elif kind == 2 and other_key in (other if isinstance(other, dict) else range(len(other))):
            parent[key] = json.loads(json.dumps(other[other_key]))
        else:
            parent[key] = STRANGE[rng.integers(len(STRANGE))]
    return written({**members, SCHEMA: json.dumps(found).encode()})


def deep(content: bytes, rng: np.random.Generator) -> bytes:
    """Write a schema that is no JSON, or has no bottom, or is very long."""
    members = read(content)
    text = members[SCHEMA]
    n = int(rng.integers(10, 10**5))
    texts = (b"[" * n, b"[" * n + b"]" * n, text[: int(rng.integers(len(text)))], b"[" + b"[]," * 10**5 + b"[]]")
    texts += (text.replace(b'"null"', b'{"a": [' * 300 + b"]}" * 300, 1), text.replace(b"1", b"9" * 5000, 1))
    texts += (text.replace(b'"protocol": ', b'"protocol": -'),)
    return written({**members, SCHEMA: texts[rng.integers(len(texts))]})


Damage = Callable[[bytes, np.random.Generator], bytes]

ACCIDENTS: dict[str, Damage] = {"bits flipped": flipped, "cut short": cut}
ACCIDENTS |= {"stretches lost, doubled or overwritten": spliced, "other sizes and places in the archive": claimed}
MALICE: dict[str, Damage] = {"other headers of arrays": header, "strange numbers in arrays": values}
MALICE |= {"strange values in the schema": schema, "schemas without bottom or end": deep}


def read(content: bytes) -> Members:
    """Return the members of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(members: Members, *, compressed: bool = False) -> bytes:
    """Return an archive of members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def edited(members: Members, change: Callable[[Any], Any]) -> bytes:
    """Return the archive of these members with a schema that was changed."""
    found = json.loads(members[SCHEMA])
    change(found)
    return written({**members, SCHEMA: json.dumps(found).encode()})


def places_in(node: Any) -> Any:
    """Yield each container of a schema with each of its keys."""
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        yield node, key
        if isinstance(value, dict | list):
            yield from places_in(value)


def _array(members: Members, rng: np.random.Generator) -> str:
    return str(rng.choice([name for name in members if name.endswith(".npy")]))


def _split(member: bytes) -> tuple[bytes, bytes]:
    """Return an array's header and values."""
    end = 10 + struct.unpack("<H", member[8:10])[0]
    return member[10:end], member[end:]
