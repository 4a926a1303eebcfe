"""Bytes between two peers over gRPC with mutual TLS: push, long-poll pull, and a first hello.

A caller is who its certificate says. Whom to listen to is for the daemon to decide; here everybody
whom the federation's own authority has signed gets through to it, and nobody else does.
"""

import asyncio
import errno
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import grpc
import grpc.aio

from peerwise.errors import BadFile, BadSetting
from peerwise.peer.handshakes import Watch
from peerwise.peer.identity import Identity, is_over
from peerwise.peer.journal import Sparing
from peerwise.peer.large import LARGE, Filed, is_large
from peerwise.peer.pieces import (
    BadPieces,
    Sinks,
    announced,
    announcing,
    cut,
    cut_slowly,
    in_memory,
    put_together,
)

SERVICE = "peerwise.Peer"
METHODS = ("Hello", "Push", "Pull", "Heads")
CHARTER = "peerwise-charter"  # the header that names the charter of a caller
LIFE = "peerwise-life"  # the header with the number of the caller's life
BYE = "peerwise-bye"  # and with its bye: of one that is ejected nothing else is looked at
MARGIN = 1 << 16  # bytes of a call beside its letter
IN_FLIGHT = 4  # calls of one peer at a time
STREAMS = 8  # of one connection
WINDOW = 1 << 18  # bytes of a message that come before it is wanted
HANDSHAKE = 5.0  # seconds in which a caller must have shown its certificate
ROOM = 1 << 26  # bytes of large messages that come or go at a time
FEWEST = 4  # of them, however large
TURN = 20.0  # seconds after which a message that still comes makes room for another
PENALTY = 2.0  # seconds that one waits for a refusal after many of them
BODY = 60.0  # seconds in which a letter must have come, or each of its pieces
SLOWEST = 1 << 17  # bytes a second with which a large letter must come
HOUR = 3_600_000  # milliseconds after which a caller must show its certificate again
CONNECTIONS = 4096  # that are open at a time
REASON = 2000  # bytes of a reason: more than 8 KiB of headers would not arrive

Code = grpc.StatusCode
Handler = Callable[["Call"], Awaitable[Any]]  # bytes, or a list of pieces
Admit = Callable[["Call"], None]  # raises Refused


class Refused(Exception):
    """A call that is not answered, with a reason that the caller is told."""

    def __init__(self, code: grpc.StatusCode, why: str, kind: str):
        super().__init__(why)
        self.code, self.why, self.kind = code, why, kind


class Call(NamedTuple):
    """One call of a peer."""

    method: str
    caller: str  # of the certificate
    charter: str
    body: Any  # bytes, or what a sink made of the pieces
    life: int = 0  # what the caller says, 0 if nothing
    address: str = ""
    expired: bool = False  # its certificate, while the connection was open
    bye: str = ""


def told(answer: bytes) -> dict[str, Any]:
    """A short answer of a peer; nothing where it is not one."""
    try:
        details = json.loads(answer[:MARGIN])
    except (ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


def _options(most: int) -> list[tuple[str, Any]]:
    most = min(most, LARGE) + MARGIN  # what is larger comes in pieces
    return [
        ("grpc.max_receive_message_length", most),
        ("grpc.max_send_message_length", most),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]


def _sayable(why: str) -> str:
    """A reason that may quote what a caller wrote, short and in whole characters."""
    return why.encode(errors="backslashreplace")[:REASON].decode(errors="ignore")


def _caller(known: Any) -> str:
    """The name in the certificate of a caller, which must be among its alternative names."""
    common = [name.decode() for name in known.get("x509_common_name", [])]
    also = [name.decode() for name in known.get("x509_subject_alternative_name", [])]
    return common[0] if common and common[0] in also else ""


def _expired(known: Any) -> bool:
    """Whether the certificate has ended since the connection was made."""
    return any(map(is_over, known.get("x509_pem_cert", [])))


def _life(text: Any) -> int:
    """The number of a life in a header; 0 where there is none."""
    fits = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= 15
    return int(text) if fits else 0


def _shows(identity: Identity) -> Any:
    """What a server shows, and whom it trusts."""
    pairs = [(identity.key, identity.certificate)]
    return grpc.ssl_server_certificate_configuration(pairs, identity.authority)


def _is_taken(address: str) -> bool:
    """Whether a program listens at one of the addresses of a name: gRPC is content with another."""
    host, _, port = address.rpartition(":")
    try:
        every = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, where in every:
        with socket.socket(family, kind, protocol) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                one.bind(where)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return True
    return False


def _admit_all(call: Call) -> None:
    """Let every caller through."""


async def _only(bodies: Any) -> bytes:
    """The message of a call, of which there must be one."""
    async for body in bodies:
        return bytes(body)
    raise Refused(Code.CANCELLED, "the caller hung up before its message had come", "silent")


class Turns:
    """A few at a time: whoever comes later waits, but for nobody longer than a while.

    Large messages would otherwise all be in memory at once. One that comes slowly gives its turn
    away and goes on, so that nobody can keep the others out.
    """

    def __init__(self, largest: int):
        self._turns = asyncio.Semaphore(max(FEWEST, ROOM // max(largest, 1)))

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A block that is begun when it is one's turn."""
        await self._turns.acquire()
        turns = [self._turns]

        def over() -> None:
            while turns:
                turns.pop().release()

        timer = asyncio.get_running_loop().call_later(TURN, over)
        try:
            yield
        finally:
            timer.cancel()
            over()


class Server(grpc.GenericRpcHandler):
    """What listens for neighbours.

    `admit` looks at a call before anything of its body is read: what a stranger sends takes no
    more room than a window of its connection.
    """

    def __init__(
        self,
        identity: Identity,
        address: str,
        answer: Handler,
        most: int,
        admit: Admit = _admit_all,
        sinks: Sinks = in_memory,
    ):
        self._answer, self._admit, self._most, self._sinks = answer, admit, most, sinks
        self._busy: dict[str, int] = {}
        self._turns = Turns(most)
        self._refusals = Sparing()
        self.address = address
        options = [
            *_options(most),
            ("grpc.so_reuseport", 0),  # a port that is taken must be noticed
            ("grpc.max_concurrent_streams", STREAMS),
            ("grpc.http2.bdp_probe", 0),  # a window that grows is room for strangers, too
            ("grpc.http2.lookahead_bytes", WINDOW),
            ("grpc.server_handshake_timeout_ms", int(1000 * HANDSHAKE)),
            ("grpc.max_allowed_incoming_connections", CONNECTIONS),
            ("grpc.max_connection_age_ms", HOUR),
            ("grpc.max_connection_age_grace_ms", 60_000),
        ]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((self,))
        self._identity = self._shown = identity
        credentials = grpc.dynamic_ssl_server_credentials(
            _shows(identity), self._renewed, require_client_authentication=True
        )
        try:
            taken = _is_taken(address)
            self.port = 0 if taken else self._server.add_secure_port(address, credentials)
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise BadSetting(
                f"cannot listen at {address}: the port is taken or the address is not this "
                "machine's; stop the other program, or give another with --listen"
            )
        self.watch = Watch(self.port, 2 * HANDSHAKE)

    def renew(self, identity: Identity) -> None:
        """Show another certificate to whoever connects from now on."""
        self._identity = identity

    def _renewed(self) -> Any:
        """The certificate to show, where it is another than before; a thread of gRPC asks."""
        if self._shown is self._identity:
            return None
        self._shown = self._identity
        return _shows(self._shown)

    def service(self, details: Any) -> Any:
        """The handler of a method, None for one that there is not."""
        service, _, method = details.method.strip("/").partition("/")
        if service != SERVICE or method not in METHODS:
            return None

        async def handle(bodies: Any, context: Any) -> None:
            try:
                answer = await self._handled(method, bodies, context)
            except Refused as error:
                await context.abort(error.code, _sayable(error.why))
            if method != "Pull" or not is_large(len(answer)):
                await context.write(answer)
                return
            async with self._turns.one():
                await context.send_initial_metadata(announcing(len(answer)))
                for piece in cut(answer):
                    await context.write(piece)

        # what a caller sends is read as a stream, so that it can be refused before it has come;
        # and what it is told is written as one, so that it is known when it has gone
        return grpc.stream_stream_rpc_method_handler(handle)

    async def _handled(self, method: str, bodies: Any, context: Any) -> bytes:
        headers = dict(context.invocation_metadata() or ())
        life = _life(headers.get(LIFE))
        where = str(context.peer() or "")
        self.watch.called(where)
        charter = str(headers.get(CHARTER, ""))[:64]
        known = context.auth_context()
        bye = str(headers.get(BYE, ""))[:16]
        call = Call(method, _caller(known), charter, b"", life, where, _expired(known), bye)
        await self._let_in(call)
        size = announced(headers) if method == "Push" else 0
        if size > self._most:
            why = f"a letter of {size} bytes; none has more than {self._most}"
            raise Refused(Code.RESOURCE_EXHAUSTED, why, "large")
        busy = self._busy.get(call.caller, 0)
        if busy >= IN_FLIGHT:
            raise Refused(Code.RESOURCE_EXHAUSTED, "too many calls at once", "busy")
        self._busy[call.caller] = busy + 1
        try:
            if method != "Push":
                body = await asyncio.wait_for(_only(bodies), BODY)
                return await self._answer(call._replace(body=body))
            async with self._turns.one():
                if size:
                    body = await self._put_together(context, size)
                else:
                    body = await asyncio.wait_for(_only(bodies), BODY)
                try:
                    return await self._answer(call._replace(body=body))
                except Refused:
                    if isinstance(body, Filed):
                        body.drop()
                    raise
        except TimeoutError:
            why = f"nothing whole came within {BODY:g} seconds"
            raise Refused(Code.DEADLINE_EXCEEDED, why, "slow") from None
        finally:
            self._busy[call.caller] -= 1
            if not self._busy[call.caller]:
                del self._busy[call.caller]

    async def _put_together(self, context: Any, size: int) -> Any:
        """A letter that comes in pieces."""
        try:
            work = put_together(context.read, size, self._sinks(size), BODY)
            return await asyncio.wait_for(work, BODY + size / SLOWEST)
        except BadPieces as error:
            raise Refused(
                Code.INVALID_ARGUMENT, f"a letter in pieces: {error}", "malformed"
            ) from None
        except TimeoutError:  # which is an OSError, too
            raise
        except (OSError, BadFile) as error:
            raise Refused(Code.UNAVAILABLE, str(error), "disk") from None

    async def _let_in(self, call: Call) -> None:
        """Refuse whom `admit` refuses; who asks again and again waits for it.

        A refusal costs as much as an answer. One that asks, is refused and asks again would
        otherwise get as many as the peer can give.
        """
        try:
            self._admit(call)
        except Refused:
            if self._refusals.left_out(call.caller) is None:
                await asyncio.sleep(PENALTY)
            raise

    async def start(self) -> None:
        """Begin to listen."""
        await self._server.start()
        self.watch.start()

    async def stop(self, grace: float = 1.0) -> None:
        """Let calls in flight end, then stop."""
        self.watch.stop()
        await self._server.stop(grace)


class Link:
    """The way to one neighbour that can be dialled."""

    def __init__(
        self,
        identity: Identity,
        name: str,
        address: str,
        charter: str,
        most: int,
        life: int = 0,
        sinks: Sinks = in_memory,
    ):
        self.name, self._most, self._sinks = name, most, sinks
        self._headers = ((CHARTER, charter), (LIFE, str(life)))
        credentials = grpc.ssl_channel_credentials(
            identity.authority, identity.key, identity.certificate
        )
        options = [
            *_options(most),
            ("grpc.ssl_target_name_override", name),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        self._channel = grpc.aio.secure_channel(address, credentials, options)
        paths = {method: f"/{SERVICE}/{method}" for method in METHODS}
        self._calls = {method: self._channel.unary_unary(path) for method, path in paths.items()}
        self._push = self._channel.stream_unary(paths["Push"])
        self._pull = self._channel.unary_stream(paths["Pull"])

    async def call(self, method: str, body: bytes, timeout: float, bye: str = "") -> Any:
        """The answer to a call, as a sink makes it where it comes in pieces.

        grpc.aio.AioRpcError where there is none, BadPieces where it is not what it should be.
        """
        headers = (*self._headers, (BYE, bye)) if bye else self._headers
        if method == "Pull":
            return await self._pulled(body, timeout, headers)
        if method == "Push" and is_large(len(body)):
            timeout += len(body) / SLOWEST
            headers = (*headers, *announcing(len(body)))
            return await self._push(cut_slowly(body), timeout=timeout, metadata=headers)
        return await self._calls[method](body, timeout=timeout, metadata=headers)

    async def _pulled(self, body: bytes, timeout: float, headers: Any) -> Any:
        """A letter, in one or in pieces, each of which may take a while."""
        whole = timeout + self._most / SLOWEST
        call = self._pull(body, timeout=whole, metadata=headers)
        try:
            size = announced(await asyncio.wait_for(call.initial_metadata(), timeout))
            if size > self._most:
                raise BadPieces(f"{size} bytes; none has more than {self._most}")
            if size:
                answer = await put_together(call.read, size, self._sinks(size), BODY)
            else:
                answer = await asyncio.wait_for(call.read(), timeout)
            if answer is grpc.aio.EOF or await call.read() is not grpc.aio.EOF:
                raise BadPieces("no answer, or more than one")
        except BaseException:
            call.cancel()
            raise
        return answer

    async def close(self) -> None:
        """Hang up."""
        await asyncio.shield(self._channel.close())
