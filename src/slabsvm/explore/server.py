"""The server of the page: on the loopback address alone, for the page alone.

A browser lets any site send requests to 127.0.0.1. So the server answers only where the Host header names it, which a
name of another site that resolves to 127.0.0.1 does not; takes questions only from its own page's Origin, and only as
JSON, which no form can send; reads no more of a body than a question may have; and lets no other site read, frame or
load what it sends.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from slabsvm.explore.answer import Answerer
from slabsvm.explore.question import MOST_BYTES, QuestionError, asked
from slabsvm.explore.scripts import FOLDER
from slabsvm.runtime.extras import load

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    Endpoint = Callable[[Request], Awaitable[Response]]

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")
# What the page reads to know who solves, as it is in the file and as the server sends it.
BY_BROWSER = '<meta name="solver" content="browser">'
BY_SERVER = '<meta name="solver" content="server">'
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# What is still being answered when the server ends has so many seconds.
LAST_SECONDS = 2


class PortTakenError(ValueError):
    """Another program listens on the port."""


def require_server() -> None:
    """Raise ExtraMissingError, whose text says what to install, where the page cannot be served."""
    for library in ("starlette", "uvicorn"):
        load("The page", library, "slabsvm[explore]")


def bound(port: int) -> socket.socket:
    """Return a socket that listens on a port of the loopback address; 0 is any that is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port whose last connections are still closing may be taken again.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise PortTakenError(
            f"Port {port} of {LOOPBACK} cannot be had ({error.strerror}). Choose another, or 0 for any that is free."
        ) from error
    listening.listen()
    return listening


def serve(listening: socket.socket, table: dict[str, Any] | None) -> None:
    """Serve the page until SIGINT or SIGTERM ends it; a table is what `columns_of` gives."""
    import uvicorn

    config = uvicorn.Config(
        application(listening.getsockname()[1], table),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=64,
        timeout_graceful_shutdown=LAST_SECONDS,
    )
    # uvicorn answers the interruption, ends in order, and then raises it again: it is how this command ends.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGINT, before)
        listening.close()


def application(port: int, table: dict[str, Any] | None) -> Starlette:
    """Return the server's ASGI application, for requests to that port."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect
    from starlette.responses import HTMLResponse, JSONResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    answerer = Answerer()
    page = (FOLDER / "index.html").read_text(encoding="utf-8").replace(BY_BROWSER, BY_SERVER)

    async def index(request: Request) -> Response:
        del request
        return HTMLResponse(page)

    async def columns(request: Request) -> Response:
        del request
        return JSONResponse(table)

    async def answer(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _refusal(415, "A question must be sent as application/json.")
        try:
            body = await _limited(request)
        except ClientDisconnect:
            return _refusal(400, "The question was cut off.")
        if body is None:
            return _refusal(413, f"The question is larger than {MOST_BYTES:,} bytes. Leave points out.")
        try:
            return JSONResponse(await run_in_threadpool(answerer.answer, asked(body)))
        except QuestionError as error:
            return _refusal(400, str(error))
        except ValueError as error:
            return _refusal(422, str(error))

    return Starlette(
        routes=[
            Route("/", index, methods=["GET"]),
            Route("/table", columns, methods=["GET"]),
            Route("/answer", answer, methods=["POST"]),
            Mount("/", StaticFiles(directory=FOLDER)),
        ],
        middleware=[Middleware(_ForThePageAlone, port=port)],
    )


class _ForThePageAlone:
    """Refuses requests that name another host, or come from another site's page, and adds HEADERS to all answers."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        from starlette.datastructures import Headers, MutableHeaders

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        answering = self.app
        if headers.getlist("host") == [] or any(one.lower() not in self.hosts for one in headers.getlist("host")):
            answering = _refusal(421, f"This server answers as {' or '.join(sorted(self.hosts))} alone.")
        elif any(one.lower() not in self._origins for one in headers.getlist("origin")):
            answering = _refusal(403, "This server answers its own page alone.")
        await answering(scope, receive, send_with_headers)

    @property
    def _origins(self) -> set[str]:
        return {f"http://{host}" for host in self.hosts}


def _refusal(status: int, text: str) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": text}, status_code=status)


async def _limited(request: Request) -> bytes | None:
    """Return a request's body; None where it is too large, of which no more is read than shows it."""
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > MOST_BYTES:
        return None
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)


def address(listening: socket.socket) -> str:
    """Return the page's address."""
    return f"http://{LOOPBACK}:{listening.getsockname()[1]}/"
