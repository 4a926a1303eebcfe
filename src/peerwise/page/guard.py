"""Who may ask a page for what: callers of this machine, or those that know the token.

A page of this machine is read by anybody on it; what changes something needs the token. A page that
other machines reach is for those that know the token alone, over TLS.
"""

import hmac
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from peerwise.errors import BadFile, BadSetting
from peerwise.page.document import SERVED_POLICY

LOCAL = "127.0.0.1"
COOKIE = "peerwise"
LEAST = 16  # characters of a token
WRONG, WINDOW = 10, 60.0  # tokens that may be wrong within so many seconds
LONGEST = 4096  # bytes of what a caller may send

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

HEADERS = {
    "content-security-policy": SERVED_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Access(NamedTuple):
    """Where a page is, and what is needed to see it."""

    host: str = LOCAL
    port: int = 0  # 0: one that is free
    token: str | None = None
    tls: Path | None = None  # a PEM file with a certificate and its key

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the page."""
        return is_local(self.host)

    def checked(self) -> "Access":
        """The same, if it is safe."""
        if not 0 <= self.port <= 65535:
            raise BadSetting(f"the page's port must be between 1 and 65535, got {self.port}")
        if self.token is not None and len(self.token) < LEAST:
            raise BadSetting(f"the page's token must have {LEAST} characters or more")
        if not self.local and (self.token is None or self.tls is None):
            lacking = [
                name
                for name, there in (("--page-token-file", self.token), ("--page-tls", self.tls))
                if there is None
            ]
            raise BadSetting(
                f"a page at {self.host} is reached by other machines, so that it needs TLS and a "
                f"token: give {' and '.join(lacking)}, or leave --page-host out"
            )
        if self.tls is not None:
            self.context()
        return self

    def context(self) -> ssl.SSLContext:
        """The certificate to show."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(str(self.tls))
        except FileNotFoundError:
            raise BadFile(f"there is no {self.tls}") from None
        except (OSError, ssl.SSLError) as error:
            raise BadFile(
                f"{self.tls} must be a PEM file with a certificate and its key: {error}"
            ) from None
        return context


def is_local(host: str) -> bool:
    """Whether a host is this machine, as only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None) -> str | None:
    """The token that a file holds, its only line."""
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read the page's token from {path}: {error}") from None
    if len(lines) != 1:
        raise BadFile(f"{path} must hold the page's token and nothing else")
    return lines[0]


class Guard:
    """Refuses what other sites' pages ask for, and what needs a token without one."""

    def __init__(self, app: App, access: Access, clock: Callable[[], float] = time.monotonic):
        self._app, self._access, self._clock = app, access, clock
        self._sessions: set[str] = set()
        self._wrong: list[float] = []

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a call, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        scope["peerwise.known"] = self._is_known(headers)
        scope["peerwise.guard"] = self

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {k.lower() for k, _ in message.get("headers", [])}
                more = [(k.encode(), v.encode()) for k, v in HEADERS.items()
                        if k.encode() not in own]  # fmt: skip
                message = {**message, "headers": [*message.get("headers", []), *more]}
            await send(message)

        refused = self._refusal(scope, headers)
        if refused is not None:
            status, why = refused
            body = why.encode()
            head = [(b"content-type", b"text/plain; charset=utf-8"),
                    (b"content-length", str(len(body)).encode())]  # fmt: skip
            await guarded({"type": "http.response.start", "status": status, "headers": head})
            await guarded({"type": "http.response.body", "body": body})
            return
        await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self._access.local and not is_local(name.strip("[]")):
            return 421, "this page is asked for by another name than this machine's"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "this page answers no requests of other sites"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, "this page answers no requests of other sites"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "this page takes GET and POST"
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0] != "application/json":
                return 415, "this page takes JSON"
            if not headers.get("content-length", "0").isdecimal() or int(
                headers.get("content-length", "0")
            ) > LONGEST:  # fmt: skip
                return 413, "this is too long"
        needs = not self._access.local or scope["method"] == "POST"
        open_ = scope["path"] == "/login" or scope["path"].startswith("/static/")
        if needs and not open_ and not scope["peerwise.known"]:
            if scope["method"] == "GET" and scope["path"] == "/":
                return None  # the page itself asks for the token
            return 401, "this needs the page's token"
        return None

    def _is_known(self, headers: dict[str, str]) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and cookie.value in self._sessions

    @property
    def has_token(self) -> bool:
        """Whether there is a token that lets callers act."""
        return self._access.token is not None

    def log_in(self, given: Any) -> tuple[int, str]:
        """The status and, where the token is right, the cookie that remembers it."""
        now = self._clock()
        self._wrong = [moment for moment in self._wrong if now - moment < WINDOW]
        if self._access.token is None:
            return 403, ""
        if len(self._wrong) >= WRONG:
            return 429, ""
        if not isinstance(given, str) or not hmac.compare_digest(
            given.encode(), self._access.token.encode()
        ):
            self._wrong.append(now)
            return 403, ""
        session = secrets.token_urlsafe(32)
        self._sessions.add(session)
        secure = "; Secure" if self._access.tls is not None else ""
        return 200, f"{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/{secure}"
