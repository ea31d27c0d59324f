"""The server of the page: on the loopback address alone, for the page alone.

A browser lets any site send requests to 127.0.0.1. So the server answers only where the Host header names it, which a
name of another site that resolves to 127.0.0.1 does not; takes questions only from its own page's Origin, and only as
JSON, which no form can send; reads no more of a body than a question may have, and waits for no request longer than
it may take; and lets no other site read, frame or load what it sends.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from slabsvm.explore.answer import Answerer, EndedError
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
LAST_SECONDS = 2.0
# The head of a request has so many seconds to come, and then the body of a question as many.
REQUEST_SECONDS = 10.0


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


def serve(listening: socket.socket, table: dict[str, Any] | None, request_seconds: float = REQUEST_SECONDS) -> None:
    """Serve the page until SIGINT or SIGTERM ends it; a table is what `columns_of` gives."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    answerer = Answerer()

    class Connection(H11Protocol):
        """Ends where no request has come in time since it began, or since its last answer."""

        late: asyncio.TimerHandle

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(cast(asyncio.Transport, transport))
            self.wait()

        def on_response_complete(self) -> None:
            self.late.cancel()
            self.wait()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self.late.cancel()
            super().connection_lost(exc)

        def wait(self) -> None:
            # What is being answered then is answered first.
            self.late = asyncio.get_running_loop().call_later(request_seconds, self.shutdown)

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            answerer.end()
            # uvicorn has a limit, too, but logs an error of each question that it cuts off.
            asyncio.get_running_loop().call_later(LAST_SECONDS, self.cut_off)
            await super().shutdown(sockets)

        def cut_off(self) -> None:
            for task in self.server_state.tasks:
                task.cancel()

    config = uvicorn.Config(
        application(listening.getsockname()[1], table, answerer, request_seconds),
        http=Connection,
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=64,
    )
    # uvicorn answers the interruption, ends in order, and then raises it again: it is how this command ends.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        Server(config).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGINT, before)
        listening.close()


def application(
    port: int, table: dict[str, Any] | None, answerer: Answerer, body_seconds: float = REQUEST_SECONDS
) -> Starlette:
    """Return the server's ASGI application, for requests to that port, whose bodies have so long to come."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.responses import HTMLResponse, JSONResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    page = (FOLDER / "index.html").read_text(encoding="utf-8").replace(BY_BROWSER, BY_SERVER)

    async def index(request: Request) -> Response:
        del request
        return HTMLResponse(page)

    async def columns(request: Request) -> Response:
        del request
        return JSONResponse(table)

    async def answer(request: Request) -> Response:
        try:
            question = asked(await _body(request, body_seconds))
            return JSONResponse(await run_in_threadpool(answerer.answer, question))
        except _RefusedError as refused:
            return _refusal(refused.status, str(refused), Connection="close")
        except QuestionError as error:
            return _refusal(400, str(error))
        except ValueError as error:
            return _refusal(422, str(error))
        # The server has ended while the question waited, or was being answered.
        except (EndedError, asyncio.CancelledError):
            return _refusal(503, "The server has ended.", Connection="close")

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


def _refusal(status: int, text: str, **headers: str) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": text}, status_code=status, headers=headers)


class _RefusedError(Exception):
    """A question whose body is not taken, and of which something may be on the way still."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def _body(request: Request, seconds: float) -> bytes:
    """Return a question's body, or raise _RefusedError."""
    from starlette.requests import ClientDisconnect

    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _RefusedError(415, "A question must be sent as application/json.")
    try:
        return await asyncio.wait_for(_limited(request), seconds)
    except ClientDisconnect as error:
        raise _RefusedError(400, "The question was cut off.") from error
    except TimeoutError as error:
        raise _RefusedError(408, f"The question did not come within {seconds:g} seconds.") from error


async def _limited(request: Request) -> bytes:
    """Return a request's body; where it is too large, no more is read of it than shows that."""
    too_large = _RefusedError(413, f"The question is larger than {MOST_BYTES:,} bytes. Leave points out.")
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > MOST_BYTES:
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise too_large
    return bytes(body)


def address(listening: socket.socket) -> str:
    """Return the page's address."""
    return f"http://{LOOPBACK}:{listening.getsockname()[1]}/"
