"""The questions that the page of `slabsvm explore` sends, and whole requests to its server."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PARAMETERS = {
    "kernel": "rbf",
    "gamma": "scale",
    "nu_lower": 0.1,
    "nu_upper": 0.01,
    "epsilon": 0.6,
    "offsets": "leave-one-out",
}
POINTS = [[0.0, 0.1], [1.0, 0.2], [0.4, 1.1], [1.2, 1.0], [0.5, 0.5], [0.6, 0.4]]
WORDS = (
    *(b'"points"', b'"strangers"', b'"parameters"', b'"grid"', b'"kernel"', b'"gamma"', b"chi2", b"hellinger"),
    *(b"intersection", b"linear", b"NaN", b"Infinity", b"1e999", b"1e100", b"-1", b"true", b"null", b"[[", b"9" * 30),
)
PORT = 8123
REQUEST_WORDS = (
    *(b"POST", b"GET", b"HEAD", b"OPTIONS", b"/answer", b"/table", b"/..%2f", b"/../", b"host:", b"origin:", b"%00"),
    *(b"content-type: application/json", b"content-length:", b"127.0.0.1:8123", b"localhost:8123", b"range: bytes=0-1"),
    *(b"if-none-match: *", b"if-modified-since:", b"index.html", b"\n\n"),
)


def question(**parameters: Any) -> bytes:
    """Return a question that has an answer."""
    return json.dumps(
        {
            "points": POINTS,
            "strangers": [[3.0, -2.0]],
            "parameters": PARAMETERS | parameters,
            "grid": {"x": [-1, 2, 5], "y": [-1.0, 2.0, 4]},
        }
    ).encode()


def seeds(folder: Path) -> list[bytes]:
    """Return good questions."""
    del folder
    return [question(), question(kernel="chi2", gamma=0.5), question(kernel="linear", offsets="training")]


def questions(folder: Path) -> tuple[Callable[[bytes], object], tuple[type[BaseException], ...]]:
    """Prepare the reader of questions."""
    from slabsvm.explore.question import QuestionError, asked

    del folder
    return asked, (QuestionError,)


def request_seeds(folder: Path) -> list[bytes]:
    """Return good requests."""
    host = b"host: 127.0.0.1:8123\n"
    posted = b"POST /answer\n" + host + b"origin: http://127.0.0.1:8123\ncontent-type: application/json\n\n"
    return [b"GET %s\n%s\n" % (path, host) for path in (b"/", b"/table", b"/style.css", b"/none")] + [
        posted + body for body in seeds(folder)
    ]


def requests(folder: Path) -> tuple[Callable[[bytes], object], tuple[type[BaseException], ...]]:
    """Prepare the server's application, to which a request comes as a server passes it on."""
    from slabsvm.explore.answer import Answerer
    from slabsvm.explore.scripts import FOLDER
    from slabsvm.explore.server import application

    del folder
    app = application(PORT, {"name": "t.csv", "rows": 2, "columns": []}, Answerer())
    public = {file.read_bytes() for file in FOLDER.rglob("*") if file.is_file()}
    loop = asyncio.new_event_loop()

    async def answered(scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
        parts: Sequence[bytes] = [body[: len(body) // 2], body[len(body) // 2 :]]
        waiting = [
            {"type": "http.request", "body": part, "more_body": more} for part, more in zip(parts, (1, 0), strict=True)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])

    def read(content: bytes) -> None:
        head, _, body = content.partition(b"\n\n")
        first, *lines = head.split(b"\n")
        method, _, path = first.partition(b" ")
        pairs = [line.partition(b":") for line in lines]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method.decode("latin-1").upper(),
            "scheme": "http",
            "path": path.decode("utf-8", "replace"),
            "raw_path": path,
            "query_string": b"",
            "headers": [(name.strip().lower(), value.strip()) for name, _, value in pairs],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", PORT),
        }
        status, answer = loop.run_until_complete(answered(scope, body))
        assert status < 500, f"status {status}"
        if status >= 400 and answer[:1] == b"{":
            text = json.loads(answer)["error"]
            assert text.isprintable(), repr(text)
            assert len(text) < 2000
            assert "JSON compliant" not in text, text
        elif status == 200 and answer[:1] != b"{" and b"<html" not in answer[:200]:
            assert answer in public or not answer, "a file that is not the page's"

    # Who has the reader has the loop; its sockets are closed with it.
    weakref.finalize(read, loop.close)
    return read, ()
