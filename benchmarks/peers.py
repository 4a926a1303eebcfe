"""One peer with 64 neighbours: rounds a second, memory, and what a bare gRPC echo would take.

The peer is a process of its own; this one plays its neighbours, each with a certificate and a
connection. In a round every neighbour pushes a letter and pulls one of the same size. The rival is
a server that keeps what is pushed in memory and hands it back to who pulls, over the same mutual
TLS: the same calls and bytes, but nothing is checked, written to the disk or computed.
"""

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pandas as pd

from benchmarks.tools import show
from peerwise.combine import equal
from peerwise.core import Message, Method, State
from peerwise.data.loaders import Table
from peerwise.node import Letter
from peerwise.peer.charter import Charter
from peerwise.peer.daemon import Daemon, Options
from peerwise.peer.drafting import draft
from peerwise.peer.greeting import greeting
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.memory import give_back_memory, keep_objects
from peerwise.peer.plan import Plan
from peerwise.peer.signing import Signer
from peerwise.peer.store import Store
from peerwise.peer.transport import Link, Server
from peerwise.peer.wire import Envelope, Format

NEIGHBOURS = 64
WARM = 1  # rounds that are not timed: the first compiles
CASES = {"10 KB": (2_500, 60), "10 MB": (2_500_000, 2)}  # numbers in a letter, rounds
HUB = "hub"
VECTOR = "benchmarks.peers:vector"  # the method below
LEAVES = [f"leaf{i}" for i in range(NEIGHBOURS)]
MOST = 64 * 2**20
SHORT = 1000  # bytes: an answer that is no letter has fewer


def vector(model: Any, *, size: int) -> Method:
    """A method whose message has so many numbers, and which averages what it hears."""

    def init(key: Any, shard: Any) -> State:
        return State(jnp.arange(size, dtype=jnp.float32), None)

    def message(key: Any, state: State) -> Message:
        return Message(state.value, {})

    def adapt(key: Any, state: State, shard: Any) -> State:
        return state

    def predict(key: Any, value: Any, x: Any) -> Any:
        return jnp.zeros((len(x), model.classes))

    return Method(init, message, equal(), adapt, predict)


def table() -> Table:
    rows = pd.DataFrame({"f": np.arange(40.0)})
    return Table("rows", rows, np.array(["no", "yes"] * 20, object), "class")


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def prepare(folder: Path, size: int, rounds: int, leaves: list[str] = LEAVES) -> Charter:
    """Certificates and a charter: a star, of which only the hub can be dialled."""
    description = {"method": {"name": VECTOR, "size": size}, "run": {"rounds": rounds}}
    charter = draft(
        table(), nx.star_graph([HUB, *leaves]), description, name="load", typing="manifest",
        addresses={HUB: f"127.0.0.1:{port()}"},
    )  # fmt: skip
    charter.save(folder / "charter.toml")
    if not (folder / "keys").exists():
        make_authority(folder / "keys")
        for name in (HUB, *leaves):
            make_certificate(folder / "keys", name)
    return charter


def hub(folder: str) -> None:
    """The process that is measured: a peer until its rounds are done."""
    give_back_memory()  # as `peerwise peer run` does
    home = Path(folder)
    charter = Charter.load(home / "charter.toml", [VECTOR])
    store = Store.open(
        home / charter.hash, node=HUB, charter=charter.hash, charter_text=charter.text(), data="-"
    )
    plan = Plan(charter, HUB, table())
    daemon = Daemon(plan, store, load_identity(home / "keys", HUB), Options(linger=1.0))
    keep_objects()
    asyncio.run(daemon.run())


def echo(folder: str, address: str) -> None:
    """The rival: what comes goes back, until the process is ended."""

    last: dict[str, Any] = {}

    async def back(call: Any) -> Any:
        if call.method == "Push":
            last[call.caller] = call.body
            return b"{}"
        return last.get(call.caller, b"{}")

    async def serve() -> None:
        server = Server(load_identity(Path(folder) / "keys", HUB), address, back, MOST)
        await server.start()
        await asyncio.Event().wait()

    asyncio.run(serve())


@contextmanager
def process(call: str, module: str = "peers") -> Any:
    code = f"from benchmarks import {module}; {module}.{call}"
    made = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield made
    finally:
        made.kill()
        made.wait()


def links(folder: Path, address: str, charter: str, leaves: list[str] = LEAVES) -> list[Link]:
    keys = folder / "keys"
    return [Link(load_identity(keys, name), HUB, address, charter, MOST) for name in leaves]


async def ready(link: Link) -> None:
    """Wait until somebody answers."""
    while True:
        try:
            await link.call("Hello", greeting({}, {}), 10.0)
            return
        except Exception:
            await asyncio.sleep(0.1)


class Leaf:
    """One neighbour: it writes a letter, and reads what the hub said."""

    def __init__(self, link: Link, form: Format, size: int, signer: Signer, name: str):
        self.name, self.link, self._form, self._signer = name, link, form, signer
        self._said = Letter(Message(np.arange(size, dtype=np.float32), {}))
        self._body = b""

    def write(self, t: int) -> None:
        """Have the letter of a round ready."""
        envelope = Envelope(self.name, 0, t)
        self._body = self._signer.sealed(self._form.encode(self._said, envelope), envelope)

    def forget(self) -> None:
        """Let the letter go."""
        self._body = b""

    async def round(self, t: int) -> None:
        """Push the letter of a round, and pull the hub's of the next once there is one."""
        await self.link.call("Push", self._body, 120.0)
        asked = json.dumps({"phase": 0, "round": t, "wait": 15.0}).encode()
        while len(await self.link.call("Pull", asked, 120.0)) < SHORT:
            pass

    async def echo(self, t: int) -> None:
        await self.link.call("Push", self._body, 120.0)
        await self.link.call("Pull", b"{}", 120.0)


def neighbours(folder: Path, ways: list[Link], charter: str, size: int) -> list[Leaf]:
    """Those at the other ends of some links."""
    form = Format(Letter(Message(np.zeros(size, np.float32), {})), charter, MOST)
    names = LEAVES[: len(ways)]
    signers = [Signer(load_identity(folder / "keys", name), charter) for name in names]
    return [Leaf(way, form, size, *who) for way, *who in zip(ways, signers, names, strict=True)]


class Took(NamedTuple):
    """Seconds of a round: by the clock, and of the server's processor."""

    wall: float
    cpu: float


class Rival:
    """One of the two servers, with its neighbours."""

    def __init__(self, folder: Path, address: str, charter: str, what: str, size: int, pid: int):
        self._ways = links(folder, address, charter)
        self._leaves = neighbours(folder, self._ways, charter, size)
        self._what, self._pid, self._took = what, pid, list[Took]()

    async def ready(self) -> None:
        await ready(self._ways[0])

    async def round(self, t: int) -> None:
        """Time a round; that letters are written and signed does not count."""
        for leaf in self._leaves:
            leaf.write(t)
        begun, used = time.perf_counter(), processor(self._pid)
        await asyncio.gather(*(getattr(leaf, self._what)(t) for leaf in self._leaves))
        self._took.append(Took(time.perf_counter() - begun, processor(self._pid) - used))
        for leaf in self._leaves:
            leaf.forget()

    async def close(self) -> None:
        for way in self._ways:
            await way.close()

    @property
    def took(self) -> Took:
        """A round, after those that warm up: the median by the clock, the mean of the processor."""
        wall, cpu = zip(*self._took[WARM:], strict=True)
        return Took(statistics.median(wall), statistics.mean(cpu))


async def in_turns(rivals: list[Rival], rounds: int) -> list[Took]:
    """Round by round with each, so that what else goes on here slows down both."""
    for rival in rivals:
        await rival.ready()
    for t in range(rounds):
        for rival in rivals:
            await rival.round(t)
    for rival in rivals:
        await rival.close()
    return [rival.took for rival in rivals]


def measured(folder: Path, size: int, rounds: int) -> tuple[Took, Took, dict[str, float]]:
    """A round with the peer and with the echo; their memory in GiB."""
    # the hub has one round more than is played, so that it always has a next letter to hand over
    charter = prepare(folder, size, rounds + WARM + 1)
    address, other = str(charter.nodes[HUB].address), f"127.0.0.1:{port()}"
    calls = process(f"hub({str(folder)!r})"), process(f"echo({str(folder)!r}, {other!r})")
    with calls[0] as peer, calls[1] as bare:

        async def play() -> list[Took]:
            ours = Rival(folder, address, charter.hash, "round", size, peer.pid)
            theirs = Rival(folder, other, charter.hash, "echo", size, bare.pid)
            return await in_turns([ours, theirs], rounds + WARM)

        ours, theirs = asyncio.run(play())
        return ours, theirs, {"peak": high(peer.pid), "echo": high(bare.pid)}


def high(pid: int) -> float:
    """Most resident memory of a process so far, GiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if "VmHWM" in x) / 2**20


def processor(pid: int) -> float:
    """Seconds of processor that a process has used so far."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (size, rounds) in CASES.items():
            ours, theirs, memory = measured(Path(folder), size, rounds)
            both = 2 * NEIGHBOURS * size * 4 / 1e6
            rows.append(
                (
                    name, f"{1 / ours.wall:.2f}", f"{both / ours.wall:.0f}",
                    f"{1 / theirs.wall:.2f}", f"{both / theirs.wall:.0f}",
                    f"{ours.wall / theirs.wall:.2f}", f"{ours.cpu:.3f}", f"{theirs.cpu:.3f}",
                    f"{memory['peak']:.2f}", f"{memory['echo']:.2f}",
                )
            )  # fmt: skip
    show(
        f"A peer with {NEIGHBOURS} neighbours, each of whom pushes and pulls a letter a round",
        (
            "letter", "rounds/s", "MB/s", "echo: rounds/s", "MB/s", "x echo", "CPU s a round",
            "echo: CPU s", "peak, GiB", "echo, GiB",
        ),
        rows,
        "Both ways together. A round of the peer also checks 64 letters, has them on the disk "
        "before it acknowledges them, averages, and writes its own.",
    )  # fmt: skip


if __name__ == "__main__":
    main()
