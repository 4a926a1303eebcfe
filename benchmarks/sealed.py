"""Sealed sums: what masks cost a node and round, and a sealed round beside an open one.

A letter of a sealed sum has the very bytes of an open one: a mask is added to numbers that are sent
anyway. What it costs is computing: a stream of ChaCha20 for every partner, once a sum, and once an
X25519 exchange with each. Rounds over the wire are of four real peers (TLS, signatures, disk) in
one process, sealed and open in turns; open ones leave the masks out and nothing else.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pandas as pd

from benchmarks.tools import show, verdict
from peerwise.core import Shard, State
from peerwise.data.loaders import Table
from peerwise.declare import declares
from peerwise.methods.aligned import Aligned
from peerwise.methods.sealed import Sealed, Trust
from peerwise.peer.daemon import Daemon, Options
from peerwise.peer.drafting import draft
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.local import free_ports
from peerwise.peer.plan import Plan
from peerwise.peer.store import Store
from peerwise.privacy.sealing import Masks, Place, fresh_secret, partners_wanted, public_key
from peerwise.privacy.shares import shared_noise
from peerwise.runtime import size_of

NODES, NUMBERS = (10, 100, 1000), (230, 1000, 10_000)
COLLUDERS = 1 / 3
STAR = nx.star_graph(["a", "b", "c", "d"])
SUMS, TICKS, TURNS = 10, 32, 4
VECTOR = "benchmarks.sealed:vector"


def main() -> None:
    masks()
    rounds()


def masks() -> None:
    rows = []
    for n in NODES:
        secrets = {f"n{i:04}": fresh_secret() for i in range(n)}
        keys = {name: public_key(secret) for name, secret in secrets.items()}
        colluders = int(n * COLLUDERS)
        one = Masks("n0000", secrets["n0000"], keys, "charter", colluders)
        begin = time.process_time()
        one.mask(Place("0", "sums", 0), keys, 1)  # the graph, and an exchange with each partner
        once = 1e3 * (time.process_time() - begin)
        for q in NUMBERS:
            t = _cpu(lambda t, one=one, q=q, keys=keys: one.mask(Place("0", "sums", t), keys, q))
            rows.append((str(n), str(partners_wanted(n, colluders)), str(q), f"{once:.1f}",
                         f"{1e3 * t:.2f}", f"{_letter(n, q):,}", "0"))  # fmt: skip
    show(
        "Masks: CPU time and bytes of a node, one third of the members colluding",
        ("nodes", "partners", "numbers", "ms once", "ms a sum", "bytes a letter", "bytes of masks"),
        rows,
        "ms once: the mask graph and X25519 with every partner, when an epoch begins",
    )


def _cpu(f: Callable[[int], Any], least: float = 0.2) -> float:
    """CPU seconds of a call."""
    begin, calls = time.process_time(), 0
    while time.process_time() - begin < least:
        f(calls)
        calls += 1
    return (time.process_time() - begin) / calls


def _letter(n: int, q: int) -> int:
    """Bytes of the numbers in a letter of a sum, sealed or not."""
    sums = Aligned(n, q, 1, n)
    state = jax.eval_shape(sums.begin, jax.ShapeDtypeStruct((), jnp.uint32))
    return size_of(jax.eval_shape(lambda s: sums.said(s, None), state))


@declares("method", needs=("replies",), releases="sealed")
def vector(model: Any, nodes: int, *, size: int, trust: Trust = Trust()) -> Any:
    """Sums of so many numbers, one after the other."""
    return _vector(model.classes, nodes, size)


@cache  # or every network compiles its own
def _vector(classes: int, nodes: int, size: int) -> Any:
    grid = shared_noise(np.ones(size), np.zeros(size), nodes, nodes)
    sums = Aligned(nodes, size, SUMS, nodes)

    def steps(state: State, shard: Shard) -> Any:
        return jnp.arange(size, dtype=jnp.float32)

    def start(shard: Shard) -> tuple[Any, Any]:
        return {"nothing": jnp.zeros(())}, {}

    def predict(key: Any, value: Any, x: Any) -> Any:
        return jnp.zeros((len(x), classes))

    return Sealed(sums, grid, lambda state: state, steps, lambda *_: None).method(start, predict)


class Timed(Daemon):
    """A peer that notes when its rounds were on the disk."""

    def _stored(self, advance: Any) -> None:
        super()._stored(advance)
        self.clock = getattr(self, "clock", {}) | {
            tuple(advance.place): (time.process_time(), time.perf_counter())
        }


@contextmanager
def open_sums() -> Any:
    """Masks of nothing: what is left is an open round."""
    real, Masks.mask = Masks.mask, lambda self, place, members, q: np.zeros(q, np.uint64)
    try:
        yield
    finally:
        Masks.mask = real


def network(folder: Path, size: int) -> Callable[[str], Daemon]:
    frame = pd.DataFrame({"f": np.arange(40.0)})
    table = Table("rows", frame, np.array(["no", "yes"] * 20, object), "class")
    ports = free_ports(len(STAR))
    charter = draft(
        table, STAR, {"method": {"name": VECTOR, "size": size}, "run": {"rounds": TICKS}},
        name="sealed", typing="manifest", public=True,
        addresses={n: f"127.0.0.1:{p}" for n, p in zip(STAR, ports, strict=True)},
    )  # fmt: skip
    keys = folder / "keys"
    make_authority(keys)
    for name in STAR:
        make_certificate(keys, name)

    def daemon(name: str) -> Daemon:
        about = {"charter": charter.hash, "charter_text": charter.text(), "data": "-"}
        store = Store.open(folder / name, node=name, **about)
        plan = Plan(charter, name, table)
        return Timed(plan, store, load_identity(keys, name), Options(linger=1.0))

    return daemon


def lived(size: int) -> tuple[float, float]:
    """CPU and wall seconds of a round, of four peers together."""
    with tempfile.TemporaryDirectory() as folder:
        make = network(Path(folder), size)
        daemons = [make(name) for name in STAR]

        async def together() -> None:
            await asyncio.gather(*(d.run() for d in daemons))

        asyncio.run(together())
        for d in daemons:
            d.store.close()
        first, last = (daemons[0].clock[1, t] for t in (4, TICKS))
    return tuple((b - a) / (TICKS - 4) for a, b in zip(first, last, strict=True))


def sealed_round(size: int) -> tuple[float, float]:
    return lived(size)


def open_round(size: int) -> tuple[float, float]:
    with open_sums():
        return lived(size)


def rounds() -> None:
    rows = []
    for size in NUMBERS:
        runs = {"sealed": partial(sealed_round, size), "open": partial(open_round, size)}
        runs["open"]()  # compiles
        seen: dict[str, list[tuple[float, float]]] = {"sealed": [], "open": []}
        for _ in range(TURNS):
            for name, run in runs.items():
                seen[name].append(run())
        best = {name: np.min(times, axis=0) * 1e3 for name, times in seen.items()}
        cpu, wall = best["sealed"] / best["open"]
        rows.append((str(size), *(f"{best[n][i]:.1f}" for i in (0, 1) for n in best),
                     f"{cpu:.2f}", f"{wall:.2f}", verdict(max(cpu, wall) <= 1.5)))  # fmt: skip
    show(
        f"Rounds of four peers over the wire, {SUMS} sums in {TICKS} rounds",
        ("numbers", "CPU ms sealed", "open", "wall ms sealed", "open", "CPU ratio", "wall ratio",
         "at most 1.5"),
        rows,
        "of all four together, in one process; the shortest of several runs in turns",
    )  # fmt: skip
