"""Bytes between two peers over gRPC with mutual TLS: push, long-poll pull, and a first hello.

A caller is who its certificate says. Whom to listen to is for the daemon to decide; here everybody
whom the federation's own authority has signed gets through to it, and nobody else does.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import grpc
import grpc.aio

from peerwise.errors import BadSetting
from peerwise.peer.identity import Identity

SERVICE = "peerwise.Peer"
METHODS = ("Hello", "Push", "Pull")
CHARTER = "peerwise-charter"  # the header that names the charter of a caller
MARGIN = 1 << 16  # bytes of a call beside its letter
IN_FLIGHT = 4  # calls of one peer at a time
STREAMS = 8  # of one connection; their letters are in memory before anybody looks at them
REASON = 2000  # bytes of a reason: more than 8 KiB of headers would not arrive

Code = grpc.StatusCode
Handler = Callable[["Call"], Awaitable[bytes]]


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
    body: bytes


def told(answer: bytes) -> dict[str, Any]:
    """A short answer of a peer; nothing where it is not one."""
    try:
        found = json.loads(answer[:MARGIN])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _options(most: int) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", most + MARGIN),
        ("grpc.max_send_message_length", most + MARGIN),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]


def _sayable(why: str) -> str:
    """A reason that may quote what a caller wrote, short and in whole characters."""
    return why.encode(errors="backslashreplace")[:REASON].decode(errors="ignore")


def _caller(context: Any) -> str:
    """The name in the certificate of a caller, which must be among its alternative names."""
    known = context.auth_context()
    common = [name.decode() for name in known.get("x509_common_name", [])]
    also = [name.decode() for name in known.get("x509_subject_alternative_name", [])]
    return common[0] if common and common[0] in also else ""


class Server(grpc.GenericRpcHandler):
    """What listens for neighbours."""

    def __init__(self, identity: Identity, address: str, answer: Handler, most: int):
        self._answer = answer
        self._busy: dict[str, int] = {}
        self.address = address
        options = [
            *_options(most),
            ("grpc.max_concurrent_streams", STREAMS),
            ("grpc.server_handshake_timeout_ms", 20_000),
        ]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((self,))
        credentials = grpc.ssl_server_credentials(
            [(identity.key, identity.certificate)], identity.authority, require_client_auth=True
        )
        try:
            self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise BadSetting(
                f"cannot listen at {address}: the port is taken or the address is not this "
                "machine's; stop the other program, or give another with --listen"
            )

    def service(self, details: Any) -> Any:
        """The handler of a method, None for one that there is not."""
        service, _, method = details.method.strip("/").partition("/")
        if service != SERVICE or method not in METHODS:
            return None

        async def handle(body: bytes, context: Any) -> bytes:
            headers = dict(context.invocation_metadata() or ())
            caller = _caller(context)
            call = Call(method, caller, str(headers.get(CHARTER, "")), body)
            busy = self._busy.get(caller, 0)
            if busy >= IN_FLIGHT:
                await context.abort(Code.RESOURCE_EXHAUSTED, "too many calls at once")
            self._busy[caller] = busy + 1
            try:
                return await self._answer(call)
            except Refused as error:
                await context.abort(error.code, _sayable(error.why))
            finally:
                self._busy[caller] -= 1
                if not self._busy[caller]:
                    del self._busy[caller]
            raise AssertionError("an aborted call does not come back")

        return grpc.unary_unary_rpc_method_handler(handle)

    async def start(self) -> None:
        """Begin to listen."""
        await self._server.start()

    async def stop(self, grace: float = 1.0) -> None:
        """Let calls in flight end, then stop."""
        await self._server.stop(grace)


class Link:
    """The way to one neighbour that can be dialled."""

    def __init__(self, identity: Identity, name: str, address: str, charter: str, most: int):
        self.name, self._charter = name, charter
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
        self._calls = {
            method: self._channel.unary_unary(f"/{SERVICE}/{method}") for method in METHODS
        }

    async def call(self, method: str, body: bytes, timeout: float) -> bytes:
        """The answer to a call; grpc.aio.AioRpcError where there is none."""
        headers = ((CHARTER, self._charter),)
        answer: bytes = await self._calls[method](body, timeout=timeout, metadata=headers)
        return answer

    async def close(self) -> None:
        """Hang up."""
        await asyncio.shield(self._channel.close())
