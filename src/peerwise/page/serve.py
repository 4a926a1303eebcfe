"""Serving pages of this machine: what is shown is asked for when somebody looks."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from peerwise.errors import BadSetting, PeerwiseError, extra
from peerwise.page.document import MODULES, STYLE, served, static
from peerwise.page.guard import Access, Guard

for library in ("starlette", "uvicorn"):
    extra(library)

import uvicorn  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.concurrency import run_in_threadpool  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import (  # noqa: E402
    HTMLResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route  # noqa: E402

BEAT = 10.0  # seconds after which an idle stream says that it is alive
STREAMS = 64  # open at a time
GRACE = 5.0  # seconds in which those who watch may take up the last page

Show = Callable[[str], tuple[str, str, Any] | None]  # path -> kind, title and data of a page
Act = Callable[[str, Any], dict[str, Any]]  # what is asked for, and of what -> what was done


class Feed:
    """What is told to those who watch: looked at when asked for, at most so often."""

    def __init__(self, look: Callable[[], Any], pause: float = 0.5):
        self._look, self.pause = look, pause
        self._lock = threading.Lock()
        self._text, self._taken, self.number = "", float("-inf"), 0

    def now(self, fresh: bool = False) -> tuple[int, str]:
        """The newest state as JSON, and its number, which changes when it does.

        `fresh`: looked at again, however short ago the last time was.
        """
        with self._lock:
            if fresh or time.monotonic() - self._taken >= self.pause:
                try:
                    text = json.dumps(self._look(), allow_nan=False)
                except PeerwiseError as error:
                    text = json.dumps({"wrong": str(error)})
                self._taken = time.monotonic()
                if text != self._text:
                    self._text, self.number = text, self.number + 1
            return self.number, self._text


class Page:
    """A server in a thread of its own, until it is told to stop."""

    def __init__(
        self,
        show: Show,
        access: Access | None = None,
        *,
        feed: Feed | None = None,
        act: Act | None = None,
    ):
        self._show, self._feed, self._act = show, feed, act
        self.access = (access or Access()).checked()
        self.ended = False  # whether streams are to say that there is nothing more
        self._streams = 0
        self._reloaded = threading.Event()
        self._socket = self._bound()
        self.port = int(self._socket.getsockname()[1])
        app = Starlette(
            routes=[
                Route("/events", self._events),
                Route("/login", self._login, methods=["POST"]),
                Route("/act", self._acted, methods=["POST"]),
                Route("/static/{name}", self._static),
                Route("/{path:path}", self._page),
            ]
        )
        secure: Any = {}
        if self.access.tls is not None:
            secure = {"ssl_certfile": str(self.access.tls), "ssl_keyfile": str(self.access.tls)}
        guarded: Any = Guard(app, self.access)
        self._server = uvicorn.Server(
            uvicorn.Config(
                guarded,
                log_level="critical",
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
                ws="none",
                **secure,
            )
        )
        self._thread = threading.Thread(target=self._serve, daemon=True, name="page")

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def _bound(self) -> socket.socket:
        a = self.access
        family = socket.AF_INET6 if ":" in a.host else socket.AF_INET
        one = socket.socket(family)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((a.host, a.port))
            one.listen(64)
        except OSError as error:
            one.close()
            raise BadSetting(
                f"cannot serve the page at {a.host}, port {a.port}: {error.strerror}; give another "
                "port after --page, or none for one that is free"
            ) from None
        return one

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        host = f"[{self.access.host}]" if ":" in self.access.host else self.access.host
        return f"http{'s' * (self.access.tls is not None)}://{host}:{self.port}/"

    def __enter__(self) -> "Page":
        self._thread.start()
        until = time.monotonic() + 10
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        return self

    def finish(self) -> None:
        """Tell those who watch that all is there, and let them take it up before all ends."""
        watching = self._streams
        self.ended = True
        until = time.monotonic() + GRACE
        if watching and self._reloaded.wait(GRACE):
            # style and modules, which the page asks for after itself
            while time.monotonic() < until and self._streams:
                time.sleep(0.05)
            time.sleep(0.5)

    def __exit__(self, *_: object) -> None:
        self.ended = True
        until = time.monotonic() + 2  # for those who watch to be told so
        while self._streams and time.monotonic() < until:
            time.sleep(0.02)
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()

    # -- what is asked for -----------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        if not self.access.local and not request.scope["peerwise.known"]:
            return HTMLResponse(served("login", "Peerwise", None))
        try:
            page = await run_in_threadpool(self._show, request.url.path)
        except PeerwiseError as error:
            wrong = {"wrong": str(error)}
            return HTMLResponse(served("wrong", "Peerwise", wrong), status_code=500)
        if page is None:
            return Response("there is no such page", 404, media_type="text/plain")
        kind, title, data = page
        if self.ended and request.url.path == "/":
            self._reloaded.set()
        return HTMLResponse(served(kind, title, data))

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name == STYLE:
            return Response(static(name), media_type="text/css")
        if any(name in modules for modules in MODULES.values()):
            return Response(static(name), media_type="text/javascript")
        return Response("there is no such file", 404, media_type="text/plain")

    async def _events(self, request: Request) -> Response:
        if self._feed is None:
            return Response("nothing goes on here", 404, media_type="text/plain")
        if self._streams >= STREAMS:
            return Response("too many watch already", 503, media_type="text/plain")
        return StreamingResponse(self._stream(request), media_type="text/event-stream")

    async def _stream(self, request: Request) -> AsyncIterator[str]:
        """The whole state whenever it changes: a browser that comes back lacks nothing."""
        assert self._feed is not None
        last = request.headers.get("last-event-id", "")
        seen = int(last) if last.isdecimal() else -1
        said = time.monotonic()
        self._streams += 1
        try:
            while not self._server.should_exit:
                ending = self.ended
                number, text = await run_in_threadpool(self._feed.now, ending)
                if number != seen:
                    seen, said = number, time.monotonic()
                    yield f"id: {number}\ndata: {text}\n\n"
                elif time.monotonic() - said > BEAT:
                    said = time.monotonic()
                    yield ": still here\n\n"
                if ending:
                    yield "event: end\ndata: {}\n\n"
                    return
                if await request.is_disconnected():
                    return
                await asyncio.sleep(self._feed.pause / 2)
        finally:
            self._streams -= 1

    async def _login(self, request: Request) -> Response:
        given = await _json(request)
        status, cookie = request.scope["peerwise.guard"].log_in(given.get("token"))
        if status != 200:
            await asyncio.sleep(0.3)
        said = {200: "yes", 403: "this is not the token", 429: "too many wrong tokens; wait"}
        response = JSONResponse({"said": said[status]}, status_code=status)
        if cookie:
            response.headers["set-cookie"] = cookie
        return response

    async def _acted(self, request: Request) -> Response:
        if self._act is None:
            return JSONResponse({"said": "this page only shows"}, status_code=403)
        given = await _json(request)
        try:
            done = await run_in_threadpool(self._act, str(given.get("do")), given)
        except PeerwiseError as error:
            return JSONResponse({"said": str(error)}, status_code=400)
        return JSONResponse(done)


async def _json(request: Request) -> Mapping[str, Any]:
    try:
        given = await request.json()
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
