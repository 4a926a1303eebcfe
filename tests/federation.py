"""A small federation on this machine, for tests: real certificates, ports and files."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import networkx as nx
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from peerwise.data.loaders import Table
from peerwise.peer.charter import Charter
from peerwise.peer.daemon import Daemon, Options
from peerwise.peer.drafting import draft
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.keeping import looked
from peerwise.peer.local import free_ports
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import Place
from peerwise.peer.signing import Signer
from peerwise.peer.store import Store
from peerwise.peer.wire import Envelope, named_leaves
from peerwise.privacy import Ledger
from peerwise.simulate import simulate

PATH = nx.relabel_nodes(nx.path_graph(3), dict(enumerate("abc")))


class Federation(NamedTuple):
    """Everything that a local network of peers needs."""

    charter: Charter
    keys: Path
    tables: dict[str, Table]
    folder: Path
    test: Table

    def ledger(self, name: str) -> Ledger:
        """The privacy ledger of a node's site."""
        path = self.folder / f"{name}.ledger"
        return Ledger.open(path, node=name, epsilon=1e6, delta=0.01, accountant="basic")

    def daemon(self, name: str, **more: Any) -> Daemon:
        """The daemon of one node, with its own file."""
        plan_options = {k: more.pop(k) for k in ("channel", "noise", "mask") if k in more}
        options = {"linger": 20.0, **more}
        plan = Plan(self.charter, name, self.tables[name], **plan_options)
        budget = self.charter.budget
        store = Store.open(
            self.folder / name,
            node=name,
            charter=self.charter.hash,
            charter_text=self.charter.text(),
            data="rows",
            budget=None if budget is None else budget.model_dump(),
            schema=self.charter.schema().to_json(),
            site=None if budget is None else self.ledger(name),
        )
        daemon = Daemon(plan, store, load_identity(self.keys, name), Options(**options))
        daemon.keys = self.keys  # for letters in the name of a neighbour
        return daemon


def columns(x: np.ndarray) -> pd.DataFrame:
    """Rows with named columns."""
    return pd.DataFrame(x, columns=[f"f{i}" for i in range(x.shape[1])])


def table_of(name: str, x: np.ndarray, y: np.ndarray) -> Table:
    """A table as a file would give it."""
    return Table(name, columns(x), np.asarray(y).astype(str).astype(object), "class")


def federation(
    folder: Path,
    graph: nx.Graph,
    method: Any,
    *,
    rounds: int = 64,
    rows: int = 30,
    features: int = 6,
    only_dial: tuple[str, ...] = (),
    run: dict[str, Any] | None = None,
    categories: int = 0,
    **terms: Any,
) -> Federation:
    """Digits dealt to the nodes of a graph, `rows` each.

    `method` is that section of a charter; `terms` are other sections.
    """
    description = {k: terms.pop(k) for k in ("model", "net", "privacy") if k in terms}
    description |= {"method": method, "run": {"rounds": rounds, **(run or {})}}
    names = [str(n) for n in graph]
    digits = load_digits()
    x, labels = digits.data, digits.target
    keep = np.argsort(-x.std(0))[:features]
    order = np.random.default_rng(5).permutation(len(x))
    x, y = x[order][:, keep], labels[order]
    if categories:  # so many values each
        x = np.floor(x / 17 * categories)
    m = rows * len(names)
    ports = free_ports(len(names))
    whole = table_of("digits", x[:m], y[:m])
    charter = draft(
        whole,
        graph,
        description,
        name="test",
        typing="distinct" if categories else "manifest",
        addresses={
            n: f"127.0.0.1:{p}" for n, p in zip(names, ports, strict=True) if n not in only_dial
        },
        public=True,  # a published data set
        **terms,
    )
    keys = folder / "keys"
    if not keys.exists():
        make_authority(keys)
        for name in names:
            make_certificate(keys, name)
    tables = {
        n: table_of(n, x[i * rows : (i + 1) * rows], y[i * rows : (i + 1) * rows])
        for i, n in enumerate(names)
    }
    return Federation(charter, keys, tables, folder, table_of("test", x[m:], y[m:]))


class Alone:
    """A peer in a loop of its own that calls nobody, for tests that play its neighbours."""

    def __init__(self, daemon: Daemon):
        self.daemon, self._loop = daemon, asyncio.new_event_loop()
        self.run(daemon.resume())

    def run(self, work: Any, seconds: float = 60.0) -> Any:
        """What some work gives, while the peer goes on."""
        return self._loop.run_until_complete(asyncio.wait_for(work, seconds))

    def accept(self, sender: str, body: bytes) -> None:
        """Have the peer take a letter."""
        self.run(self.daemon.accept(sender, body))

    def until(self, there: Any) -> None:
        """Let the peer go on until something is so."""

        async def wait() -> None:
            while not there():
                await asyncio.sleep(0.001)

        self.run(wait())

    def look(self) -> None:
        """Have the peer take up what is in its file."""
        self.bring(looked(self.daemon.store))

    def bring(self, event: Any) -> None:
        """Bring an event to its core."""

        async def feed() -> None:
            self.daemon._feed(event)

        self.run(feed())

    def close(self) -> None:
        """End the peer and let its file go."""
        self.run(self.daemon.close())
        self.daemon.store.close()
        self._loop.close()


def run_all(*daemons: Daemon, seconds: float = 600.0) -> list[bool]:
    """All of them at once, until all have ended."""

    async def together() -> list[bool]:
        return await asyncio.wait_for(asyncio.gather(*(d.run() for d in daemons)), seconds)

    return asyncio.run(together())


class Network:
    """Peers in one loop, of which one is stopped and started again, maybe from a backup."""

    def __init__(self, fed, **options):
        self.fed, self.options, self.daemons, self.tasks = fed, options, {}, {}

    def start(self, *names):
        for name in names:
            self.daemons[name] = self.fed.daemon(name, **self.options)
            self.tasks[name] = asyncio.create_task(self.daemons[name].run())

    async def stop(self, name):
        self.daemons[name].stop()
        await self.tasks.pop(name)
        self.daemons[name].store.close()

    async def until(self, name, place):
        while self.daemons[name].place < place:
            assert not self.tasks[name].done(), self.tasks[name].exception()
            await asyncio.sleep(0.002)

    async def told_term(self, name, at):
        """Until a neighbour has the first letter with a term of a sum."""
        daemon = self.daemons[name]
        await self.until(name, Place(1, 1))
        while int(daemon.memory.state.value["sums"]["made"]) < at:
            await asyncio.sleep(0)
        place = daemon.place
        while not daemon.place > place and any(n.lacks for n in daemon.core.neighbours.values()):
            await asyncio.sleep(0)

    async def end(self):
        assert all(await asyncio.wait_for(asyncio.gather(*self.tasks.values()), 120.0))


def simulated(fed, daemons, rounds, channel=None):
    """The same network in one program."""
    plans, agreed = [d.plan for d in daemons], daemons[0].agreed
    x, y = np.concatenate([p.x for p in plans]), np.concatenate([p.y for p in plans])
    owned = np.split(np.arange(len(y)), np.cumsum([len(p.y) for p in plans])[:-1])
    learning = plans[0].learning
    parts = learning.assembled(learning.world(x, y, agreed)._replace(owned=owned))
    return simulate(
        parts.method, parts.shards, parts.links, rounds, seed=fed.charter.seed, channel=channel,
        exact=True, precision=fed.charter.precision,
    )  # fmt: skip


def assert_same(run, daemons, tolerance=0.0):
    """Every peer ends with the model of its node, to the bit or within a tolerance."""
    for i, daemon in enumerate(daemons):
        ours = jax.tree.leaves(daemon.memory.state.value)
        theirs = jax.tree.leaves(jax.tree.map(lambda a, i=i: a[i], run.state.value))
        for a, b in zip(ours, theirs, strict=True):
            if tolerance:
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(a, b)


def signed(daemon, content, sender, place):
    """A letter with the seal of its sender, to a peer of the same federation."""
    signer = Signer(load_identity(daemon.keys, sender), daemon.charter.hash)
    return signer.sealed(content, Envelope(sender, *place))


def written(daemon, sender, letter):
    """A letter as bytes, whatever it holds: no check of its writer's stops it."""
    form = daemon.format
    more = {} if daemon.charter.budget is None else {"ledger": f"0:{'0' * 64}"}
    zeros = jax.tree.map(np.zeros_like, letter)
    good = form.encode(zeros, Envelope(sender, *daemon.place), more)
    leaves = named_leaves(letter)
    length = 8 + int.from_bytes(good[:8], "little")
    header, body = json.loads(good[8:length]), bytearray(good)
    for name, array in leaves.items():
        begin, end = header[name]["data_offsets"]
        body[length + begin : length + end] = np.ascontiguousarray(array).tobytes()
    return signed(daemon, bytes(body), sender, daemon.place)
