"""Bytes between two peers over gRPC with mutual TLS: push, long-poll pull, and a first hello.

The certificate says who a caller is. This module lets through every caller whose certificate the
federation's authority has signed, and no other; the daemon decides whom it listens to.
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
BYE = "peerwise-bye"  # the header with the caller's bye, all that is read of an ejected caller
MARGIN = 1 << 16  # bytes of a call besides its letter
IN_FLIGHT = 4  # calls that one peer may have open at a time
STREAMS = 8  # calls that one connection may have open at a time
WINDOW = 1 << 18  # bytes of a message that a caller may send before this peer reads it
HANDSHAKE = 5.0  # seconds within which a caller must show its certificate
ROOM = 1 << 26  # bytes of all large messages that are transferred at the same time
FEWEST = 4  # large messages that may be transferred at the same time, however large they are
TURN = 20.0  # seconds after which a slow message lets another one begin
PENALTY = 2.0  # seconds by which the refusal of a caller is delayed that was refused often
BODY = 60.0  # seconds within which a letter, or each piece of a large one, must arrive
SLOWEST = 1 << 17  # bytes a second at which a large letter must arrive at least
HOUR = 3_600_000  # milliseconds after which a caller must show its certificate again
CONNECTIONS = 4096  # connections that may be open at a time
REASON = 2000  # bytes of a reason; it travels in headers, of which gRPC takes 8 KiB

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
    expired: bool = False  # whether its certificate has expired since the connection was opened
    bye: str = ""


def told(answer: bytes) -> dict[str, Any]:
    """A peer's short answer as a table; an empty one if the bytes are not JSON."""
    try:
        details = json.loads(answer[:MARGIN])
    except (ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


def _options(most: int) -> list[tuple[str, Any]]:
    most = min(most, LARGE) + MARGIN  # larger letters are sent in pieces
    return [
        ("grpc.max_receive_message_length", most),
        ("grpc.max_send_message_length", most),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]


def _sayable(why: str) -> str:
    """A reason cut to `REASON` bytes, at the end of a character; it may quote the caller."""
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
    except (OSError, UnicodeError):  # no address of ours: gRPC says so
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
    """The one message of a call; refused if there is none."""
    async for body in bodies:
        return bytes(body)
    raise Refused(Code.CANCELLED, "the caller hung up before its message had come", "silent")


class Turns:
    """Limits how many large messages are transferred, and so are in memory, at the same time.

    Others wait for their turn. A message that takes longer than `TURN` goes on, but no longer
    counts, so that a slow caller cannot keep the others out.
    """

    def __init__(self, largest: int):
        self._turns = asyncio.Semaphore(max(FEWEST, ROOM // max(largest, 1)))

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Run the block when a turn is free."""
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
    """The server that neighbours call.

    `admit` sees a call before any of its body is read, so that a caller it refuses uses no more
    memory than the window of its connection.
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
            ("grpc.so_reuseport", 0),  # fail if another program listens at the port
            ("grpc.max_concurrent_streams", STREAMS),
            ("grpc.http2.bdp_probe", 0),  # keep the window small: any caller may fill it
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
        """The new certificate to show, or None if it is the same; called by a thread of gRPC."""
        if self._shown is self._identity:
            return None
        self._shown = self._identity
        return _shows(self._shown)

    def service(self, details: Any) -> Any:
        """The handler of a method; None if unknown."""
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

        # a stream in both directions: a message can be refused before all of it has arrived, and
        # the server knows when its answer has been sent
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
        """The letter that a caller sends in pieces."""
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
        """Refuse a caller that `admit` refuses, with a delay if it was refused often.

        A refusal costs as much as an answer: without the delay, a caller that repeats its call
        would take all the time of this peer.
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
    """The connection to a neighbour that has an address."""

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
        """The answer to a call; if it comes in pieces, what the sink makes of them.

        Raises grpc.aio.AioRpcError if there is no answer, BadPieces if its pieces are wrong.
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
        """A letter that the neighbour sends, whole or in pieces; each piece may take `BODY`."""
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
