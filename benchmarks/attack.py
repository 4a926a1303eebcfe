"""What strangers cost a peer: rounds of honest neighbours while others do their worst.

The peer is a process of its own with four honest neighbours, which are played here. The attackers
are another process: 1,000 silent connections that are opened again when they are cut, 16 callers
with a certificate that begin messages of 20 MB and do not end them, four that say Hello without a
pause, and four that shake hands with a certificate of another authority. They run on the same
cores, once as hungry as the peer, once with what the peer leaves (nice 19): the difference is what
attackers on machines of their own would not take.
"""

import asyncio
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from benchmarks import peers
from benchmarks.tools import show
from peerwise.peer import journal, serve
from peerwise.peer.charter import Charter
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.transport import CHARTER, SERVICE

HONEST = 4
SIZE = 2_500  # numbers in a letter: 10 KB
ROUNDS = 150  # of each of the three parts
SILENT, HUGE, FLOOD, FORGED = 1000, 16, 4, 4
STRANGER = "stranger"


def victim(folder: str) -> None:
    """The process that is measured: a peer as `peerwise peer run` starts it, with its logs."""
    serve._many_files()
    journal.log_to(Path(folder) / "log", peers.HUB, quiet=True)
    peers.hub(folder)


def attack(folder: str, address: str, niceness: int) -> None:
    """The attackers, until the process is ended."""
    os.nice(niceness)
    serve._many_files()
    host, port = address.split(":")
    where = (host, int(port))
    home = Path(folder)
    for work in (
        [lambda: silent(where)]
        + [lambda: unfinished(home, address)] * HUGE
        + [lambda: hellos(home, address)] * FLOOD
        + [lambda: forged(home, where)] * FORGED
    ):
        threading.Thread(target=work, daemon=True).start()
    print("on", flush=True)
    threading.Event().wait()


def silent(where: tuple[str, int]) -> None:
    """Connections that say nothing; each is opened again once it is cut."""
    held: list[socket.socket] = []
    while True:
        for one in held[:]:
            try:
                if not one.recv(1, socket.MSG_DONTWAIT):
                    raise ConnectionError
            except BlockingIOError:
                continue
            except OSError:
                one.close()
                held.remove(one)
        while len(held) < SILENT:
            try:
                held.append(socket.create_connection(where, timeout=5))
            except OSError:
                break
        time.sleep(0.2)


def channel(home: Path, address: str) -> grpc.Channel:
    own = load_identity(home / "keys", STRANGER)
    credentials = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
    options = [
        ("grpc.ssl_target_name_override", peers.HUB),
        ("grpc.max_send_message_length", 1 << 28),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return grpc.secure_channel(address, credentials, options)


def unfinished(home: Path, address: str) -> None:
    """Messages of 20 MB, each hung up on before it has gone."""
    huge = bytes(20 << 20)
    call = channel(home, address).unary_unary(f"/{SERVICE}/Push")
    while True:
        try:
            call(huge, timeout=1.0, metadata=[(CHARTER, "x")])
        except grpc.RpcError:
            time.sleep(0.05)


def hellos(home: Path, address: str) -> None:
    call = channel(home, address).unary_unary(f"/{SERVICE}/Hello")
    while True:
        with suppress(grpc.RpcError):
            call(bytes(1000), timeout=5.0)


def forged(home: Path, where: tuple[str, int]) -> None:
    """Handshakes with a certificate that another authority has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(home / "other" / "x.pem", home / "other" / "x.key")
    while True:
        try:
            with context.wrap_socket(socket.create_connection(where, timeout=5)) as one:
                one.recv(1)
        except OSError:
            pass
        time.sleep(0.02)


async def rounds(leaves: list[peers.Leaf], begin: int, count: int) -> list[float]:
    """Seconds of each round."""
    times = []
    for t in range(begin, begin + count):
        for leaf in leaves:
            leaf.write(t)
        start = time.perf_counter()
        await asyncio.gather(*(leaf.round(t) for leaf in leaves))
        times.append(time.perf_counter() - start)
    return times


def resident(pid: int) -> float:
    """MiB of memory that a process has now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if "VmRSS" in x) / 1024


def logged(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


async def play(folder: Path, charter: Charter, pid: int) -> dict[str, tuple[float, float, int]]:
    """By part: the median seconds of a round, the peer's memory, and bytes of its log."""
    address = str(charter.nodes[peers.HUB].address)
    ways = peers.links(folder, address, charter.hash, peers.LEAVES[:HONEST])
    await peers.ready(ways[0])
    leaves = peers.neighbours(folder, ways, charter.hash, SIZE)
    await rounds(leaves, 0, 10)
    out: dict[str, tuple[float, float, int]] = {}
    begin = 10
    for name, niceness in (("quiet", None), ("nice", 19), ("hungry", 0)):
        attackers = None if niceness is None else started(folder, address, niceness)
        if attackers is not None:
            await asyncio.sleep(3.0)
        times = await rounds(leaves, begin, ROUNDS)
        begin += ROUNDS
        out[name] = statistics.median(times), resident(pid), logged(folder / "log")
        if attackers is not None:
            attackers.kill()
            attackers.wait()
            await asyncio.sleep(1.0)
    for way in ways:
        await way.close()
    return out


def started(folder: Path, address: str, niceness: int) -> Any:
    code = f"from benchmarks import attack; attack.attack({str(folder)!r}, {address!r}, {niceness})"
    made = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert made.stdout is not None
    made.stdout.readline()
    return made


def measured() -> dict[str, tuple[float, float, int]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "log").mkdir()
        charter = peers.prepare(folder, SIZE, 3 * ROUNDS + 20, peers.LEAVES[:HONEST])
        make_certificate(folder / "keys", STRANGER)
        make_authority(folder / "other")
        make_certificate(folder / "other", "x")
        with peers.process(f"victim({name!r})", "attack") as peer:
            return asyncio.run(play(folder, charter, peer.pid))


def main() -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    serve._many_files()
    out = measured()
    quiet, before, log = out["quiet"]
    rows = [
        (name, f"{1000 * seconds:.1f}", f"{seconds / quiet:.2f}", f"{memory - before:+.0f}",
         f"{(size - log) / 1000:.1f}")
        for name, (seconds, memory, size) in out.items()
    ]  # fmt: skip
    show(
        f"Rounds of {HONEST} honest neighbours, 10 KB letters, while strangers attack",
        ("attackers", "ms a round", "x quiet", "MiB more", "KB of log more"),
        rows,
        f"{SILENT} silent connections, {HUGE} unfinished messages of 20 MB, {FLOOD} floods of "
        f"Hellos, {FORGED} of handshakes of another authority.",
    )
    print(json.dumps(out))


if __name__ == "__main__":
    main()
