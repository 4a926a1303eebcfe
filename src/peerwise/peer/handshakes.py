"""Callers that do not get as far as a call, for the security log.

gRPC shakes hands in its own threads and tells nobody of a handshake that failed: it writes a reason
without an address to the standard error. The system's table of connections has addresses without a
reason. Both are read here and put together as well as can be: a caller that hangs up at once may
be gone before the table is read, and leaves a line without its address.
"""

import io
import os
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from weakref import WeakSet

from peerwise.peer.journal import Sparing, security

TABLES = (Path("/proc/net/tcp6"), Path("/proc/net/tcp"))  # of Linux; elsewhere there are none
LOOK = 2.5  # seconds between two looks at the table
SELDOM = 0.25  # seconds between two looks for the address of a refused handshake
KNOWN = 8192  # connections that are remembered
SHOWN = 4  # addresses of which one was refused
OPEN, LISTENS = "01", "0A"  # states in the table
REASON = re.compile(rb"Handshake failed with error (.*)")
NOISE = ": Invalid certificate verification context"

Address = tuple[str, int]


class Connection(NamedTuple):
    """One line of the system's table."""

    address: Address
    open: bool  # or being closed


def connections(port: int) -> list[Connection]:
    """Who is connected to a port of this machine, or was a moment ago."""
    connected = []
    # both are read before anything else: a connection may be gone in the next millisecond
    for text in [_text(table) for table in TABLES]:
        for line in text.splitlines()[1:]:
            _, here, there, state, *_ = line.split()
            if int(here.rpartition(":")[2], 16) == port and state != LISTENS:
                connected.append(Connection(_address(there), state == OPEN))
    return connected


def _text(table: Path) -> str:
    try:
        return table.read_text()
    except OSError:
        return ""


def _address(text: str) -> Address:
    """An address as the table writes it: words of four bytes, each in the machine's order."""
    digits, _, port = text.partition(":")
    words = [digits[i : i + 8] for i in range(0, len(digits), 8)]
    packed = b"".join(int(w, 16).to_bytes(4, sys.byteorder) for w in words)
    place = ip_address(packed)
    if isinstance(place, IPv6Address) and place.ipv4_mapped is not None:
        place = place.ipv4_mapped
    return str(place), int(port, 16)


def address_of(peer: str) -> Address | None:
    """An address as gRPC writes it, such as "ipv4:10.1.2.3:4567"; None where it is no such one."""
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    with suppress(ValueError):
        if kind in ("ipv4", "ipv6"):
            return str(ip_address(host.strip("[]").partition("%")[0])), int(port)
    return None


class Watch:
    """Who connects to a port and makes no call; a line of the security log for each, sparingly."""

    def __init__(
        self,
        port: int,
        limit: float,
        look: Callable[[int], list[Connection]] = connections,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._port, self._limit, self._look, self._clock = port, limit, look, clock
        self._known: OrderedDict[Address, None] = OrderedDict()  # called, or written down
        self._since: dict[Address, float] = {}  # of open connections: when first seen
        self._sparing, self._lock = Sparing(clock), threading.Lock()
        self._looked, self._stopped = -SELDOM, threading.Event()

    def start(self) -> None:
        """Look at the table now and then, in a thread of its own."""
        _WATCHES.add(self)
        threading.Thread(target=self._watch, daemon=True, name="handshakes").start()

    def stop(self) -> None:
        """Look no more."""
        _WATCHES.discard(self)
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK):
            self.look()

    def called(self, peer: str) -> None:
        """A call has come from an address, as gRPC writes it: its handshake was a good one."""
        address = address_of(peer)
        if address is not None:
            with self._lock:
                self._remember(address)

    def _remember(self, address: Address) -> None:
        self._known[address] = None
        self._known.move_to_end(address)
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def _unknown(self) -> list[Connection]:
        return [c for c in self._look(self._port) if c.address not in self._known]

    def look(self) -> None:
        """Write down who has been there for too long, or has gone, without a call."""
        with self._lock:
            moment, unknown = self._clock(), self._unknown()
            since = {c.address: self._since.get(c.address, moment) for c in unknown if c.open}
            self._since = since
            for one in unknown:
                late = one.open and moment - since[one.address] >= self._limit
                if late or not one.open:
                    self._remember(one.address)
                    self._write([one.address], "it connected and made no call")

    def failed(self, reason: str) -> None:
        """Write down a refused handshake, of which gRPC has just told the reason."""
        with self._lock:
            moment = self._clock()
            if moment - self._looked < SELDOM:  # many at once: the reason must do
                self._write([], reason)
                return
            self._looked = moment
            unknown = self._unknown()
            ends = [c.address for c in unknown if not c.open] or [c.address for c in unknown]
            for address in ends[:1] if len(ends) == 1 else ():
                self._remember(address)
            self._write(ends[:SHOWN], reason)

    def _write(self, addresses: list[Address], why: str) -> None:
        hosts = {host for host, _ in addresses}
        left = self._sparing.left_out(hosts.pop() if len(hosts) == 1 else "")
        if left is None:
            return
        spelt = [f"{host}:{port}" for host, port in addresses]
        where = {"address": spelt[0]} if len(spelt) == 1 else {"one of": spelt} if spelt else {}
        facts = {**where, "why": why[:200], **({"left out before": left} if left else {})}
        security.warning("refused handshake", extra={"facts": facts})


_WATCHES: WeakSet[Watch] = WeakSet()


def said(line: bytes) -> str | None:
    """The reason in a line of gRPC about a handshake that failed; None in any other line."""
    match = REASON.search(line)
    if match is None:
        return None
    words = match.group(1).decode(errors="replace").strip().removesuffix(NOISE)
    return words.rpartition("OPENSSL_internal:")[2] or words


@contextmanager
def heard() -> Iterator[None]:
    """A block in which what gRPC says of handshakes goes to the security log.

    Libraries in C write to the standard error of the process; a pipe takes its place for them. What
    is not about handshakes is passed on. The pipe never makes a writer wait: what does not fit is
    lost. Python's own `sys.stderr` writes past it.
    """
    real, (end, begin) = os.dup(2), os.pipe()
    os.set_blocking(begin, False)
    os.dup2(begin, 2)
    os.close(begin)
    reader = threading.Thread(target=_read, args=(end, real), daemon=True, name="stderr")
    reader.start()
    try:
        with _python_to(real):
            yield
    finally:
        os.dup2(real, 2)  # the pipe has no writer left, and its reader ends
        reader.join(1.0)
        os.close(real)


@contextmanager
def _python_to(real: int) -> Iterator[None]:
    """A block in which Python's standard error is another file, if it is the process's now."""
    before = sys.stderr
    try:
        before.flush()
        ours = before.fileno() == 2
    except (OSError, ValueError, AttributeError):  # a notebook's, or a test's
        ours = False
    if not ours:
        yield
        return
    with io.TextIOWrapper(
        os.fdopen(os.dup(real), "wb", 0), errors="backslashreplace", write_through=True
    ) as sys.stderr:
        try:
            yield
        finally:
            sys.stderr = before


def _read(end: int, real: int) -> None:
    with os.fdopen(end, "rb") as lines:
        for line in lines:
            reason = said(line)
            if reason is None:
                with suppress(OSError):
                    os.write(real, line)
                continue
            for watch in list(_WATCHES):
                watch.failed(reason)
