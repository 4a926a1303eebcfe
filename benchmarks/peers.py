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
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pandas as pd

from benchmarks.tools import show
from peerwise.combine import equal
from peerwise.core import Message, Method, State
from peerwise.data.loaders import Table
from peerwise.node import Letter
from peerwise.peer.charter import Charter, draft
from peerwise.peer.daemon import Daemon, Options
from peerwise.peer.greeting import greeting
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.plan import Plan
from peerwise.peer.serve import give_back_memory
from peerwise.peer.store import Store
from peerwise.peer.transport import Link, Server
from peerwise.peer.wire import Envelope, Format

NEIGHBOURS = 64
WARM = 1  # rounds that are not timed: the first compiles
CASES = {"10 KB": (2_500, 20), "10 MB": (2_500_000, 2)}  # numbers in a letter, rounds
HUB = "hub"
VECTOR = "benchmarks.peers:vector"  # the method below
LEAVES = [f"leaf{i}" for i in range(NEIGHBOURS)]
MOST = 64 * 2**20


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
    asyncio.run(daemon.run())


def echo(folder: str, address: str) -> None:
    """The rival: what comes goes back, until the process is ended."""

    last: dict[str, bytes] = {}

    async def back(call: Any) -> bytes:
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

    def __init__(self, name: str, link: Link, form: Format, size: int):
        self.name, self.link, self._form = name, link, form
        self._said = Letter(Message(np.arange(size, dtype=np.float32), {}))

    def body(self, t: int) -> bytes:
        return self._form.encode(self._said, Envelope(self.name, 0, t))

    async def round(self, t: int) -> None:
        """Push the letter of a round, and pull the hub's of the next once there is one."""
        await self.link.call("Push", self.body(t), 120.0)
        asked = json.dumps({"phase": 0, "round": t, "wait": 15.0}).encode()
        while (await self.link.call("Pull", asked, 120.0)).startswith(b"{"):
            pass

    async def echo(self, t: int) -> None:
        await self.link.call("Push", self.body(t), 120.0)
        await self.link.call("Pull", b"{}", 120.0)


async def timed(leaves: list[Leaf], what: str, rounds: int) -> float:
    """Seconds of a round, after those that warm up."""
    start = 0.0
    for t in range(rounds):
        if t == WARM:
            start = time.perf_counter()
        await asyncio.gather(*(getattr(leaf, what)(t) for leaf in leaves))
    return (time.perf_counter() - start) / (rounds - WARM)


async def against(folder: Path, address: str, charter: str, what: str, size: int, n: int) -> float:
    ways = links(folder, address, charter)
    form = Format(Letter(Message(np.zeros(size, np.float32), {})), charter, MOST)
    await ready(ways[0])
    leaves = [Leaf(name, way, form, size) for name, way in zip(LEAVES, ways, strict=True)]
    took = await timed(leaves, what, n)
    for way in ways:
        await way.close()
    return took


def measured(folder: Path, size: int, rounds: int) -> tuple[float, float, dict[str, float]]:
    """Seconds of a round with the peer and with the echo; the peer's memory in GiB."""
    # the hub has one round more than is played, so that it always has a next letter to hand over
    charter = prepare(folder, size, rounds + WARM + 1)
    address = str(charter.nodes[HUB].address)
    with process(f"hub({str(folder)!r})") as peer:
        play = against(folder, address, charter.hash, "round", size, rounds + WARM)
        ours = asyncio.run(play)
        memory = {"peak": high(peer.pid)}
    rival = f"127.0.0.1:{port()}"
    with process(f"echo({str(folder)!r}, {rival!r})") as bare:
        play = against(folder, rival, charter.hash, "echo", size, rounds + WARM)
        theirs = asyncio.run(play)
        memory["echo"] = high(bare.pid)
    return ours, theirs, memory


def high(pid: int) -> float:
    """Most resident memory of a process so far, GiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if "VmHWM" in x) / 2**20


def main() -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (size, rounds) in CASES.items():
            ours, theirs, memory = measured(Path(folder), size, rounds)
            both = 2 * NEIGHBOURS * size * 4 / 1e6
            rows.append(
                (
                    name, f"{1 / ours:.2f}", f"{both / ours:.0f}", f"{1 / theirs:.2f}",
                    f"{both / theirs:.0f}", f"{ours / theirs:.1f}", f"{memory['peak']:.2f}",
                    f"{memory['echo']:.2f}",
                )
            )  # fmt: skip
    show(
        f"A peer with {NEIGHBOURS} neighbours, each of whom pushes and pulls a letter a round",
        (
            "letter", "rounds/s", "MB/s", "echo: rounds/s", "MB/s", "x echo", "peak, GiB",
            "echo, GiB",
        ),
        rows,
        "Both ways together. A round of the peer also checks 64 letters, has them on the disk "
        "before it acknowledges them, averages, and writes its own.",
    )  # fmt: skip


if __name__ == "__main__":
    main()
