"""A small federation on this machine, for tests: real certificates, ports and files."""

import asyncio
import socket
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from peerwise.data.loaders import Table
from peerwise.peer.charter import Charter, draft
from peerwise.peer.daemon import Daemon, Options
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.plan import Plan
from peerwise.peer.store import Store


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Federation(NamedTuple):
    """Everything that a local network of peers needs."""

    charter: Charter
    keys: Path
    tables: dict[str, Table]
    folder: Path
    test: Table

    def daemon(self, name: str, **more: Any) -> Daemon:
        """The daemon of one node, with its own file."""
        plan_options = {k: more.pop(k) for k in ("channel", "noise") if k in more}
        told = {"linger": 20.0, **more}
        plan = Plan(self.charter, name, self.tables[name], **plan_options)
        terms = self.charter.privacy
        store = Store.open(
            self.folder / name,
            node=name,
            charter=self.charter.hash,
            charter_text=self.charter.text(),
            data="rows",
            budget=None if terms is None else terms.model_dump(),
            schema=self.charter.schema().to_json(),
        )
        return Daemon(plan, store, load_identity(self.keys, name), Options(**told))


def columns(x: np.ndarray) -> pd.DataFrame:
    """Rows with named columns."""
    return pd.DataFrame(x, columns=[f"f{i}" for i in range(x.shape[1])])


def table_of(name: str, x: np.ndarray, y: np.ndarray) -> Table:
    """A table as a file would give it."""
    return Table(name, columns(x), np.asarray(y).astype(str).astype(object), "class")


def federation(
    folder: Path,
    graph: nx.Graph,
    method: dict[str, Any],
    *,
    rows: int = 30,
    features: int = 6,
    only_dial: tuple[str, ...] = (),
    rounds: dict[str, Any] | None = None,
    categories: int = 0,
    **terms: Any,
) -> Federation:
    """Digits dealt to the nodes of a graph, `rows` each."""
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
        name="test",
        method=method,
        typing="distinct" if categories else "manifest",
        addresses={
            n: f"127.0.0.1:{p}" for n, p in zip(names, ports, strict=True) if n not in only_dial
        },
        rounds=rounds or {},
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


def run_all(*daemons: Daemon, seconds: float = 120.0) -> list[bool]:
    """All of them at once, until all have ended."""

    async def together() -> list[bool]:
        return await asyncio.wait_for(asyncio.gather(*(d.run() for d in daemons)), seconds)

    return asyncio.run(together())
