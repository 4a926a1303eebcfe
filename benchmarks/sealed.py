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
from types import SimpleNamespace
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
from peerwise.node import Memory
from peerwise.peer.charter import Charter
from peerwise.peer.computing import Computing
from peerwise.peer.daemon import Daemon, Options
from peerwise.peer.drafting import draft
from peerwise.peer.identity import Identity, load_identity, make_authority, make_certificate
from peerwise.peer.letters import Letters
from peerwise.peer.local import free_ports
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import Compute, Place
from peerwise.peer.roster import KeyNode
from peerwise.peer.site import Head
from peerwise.peer.store import Store
from peerwise.privacy.sealing import Masks, fresh_secret, partners_wanted, public_key
from peerwise.privacy.sealing import Place as Sum
from peerwise.privacy.shares import shared_noise
from peerwise.runtime import size_of

NODES, NUMBERS = (10, 100, 1000), (230, 1000, 10_000)
COLLUDERS = 1 / 3
STAR = nx.star_graph(["a", "b", "c", "d"])
SUMS, TICKS, TURNS = 10, 32, 4
DEGREE, FEATURES, ROWS, TIMED = 6, 20, 40, 8
SPENDS = {"epsilon": 1.0, "delta": 1e-6}
VECTOR = "benchmarks.sealed:vector"


def main() -> None:
    masks()
    phases()
    rounds()


def masks() -> None:
    rows = []
    for n in NODES:
        secrets = {f"n{i:04}": fresh_secret() for i in range(n)}
        keys = {name: public_key(secret) for name, secret in secrets.items()}
        colluders = int(n * COLLUDERS)
        one = Masks("n0000", secrets["n0000"], keys, "charter", colluders)
        begin = time.process_time()
        one.mask(Sum("0", "sums", 0), keys, 1)  # the graph, and an exchange with each partner
        once = 1e3 * (time.process_time() - begin)
        for q in NUMBERS:
            t = _cpu(lambda t, one=one, q=q, keys=keys: one.mask(Sum("0", "sums", t), keys, q))
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


def phases() -> None:
    rows = []
    for n in NODES:
        with tempfile.TemporaryDirectory() as folder:
            charter, identities = _network(Path(folder), n)
            secrets = {name: fresh_secret() for name in charter.names}
            keys = {name: public_key(secret).hex() for name, secret in secrets.items()}
            for phase, agreed in ((0, None), (1, {"keys": keys})):
                run = partial(_phase, charter, identities, secrets, phase, agreed)
                run()  # compiles
                rows.append((str(n), *run()))
    show(
        f"What comes before learning, a node of a {DEGREE}-regular network: keys, and one sum of "
        f"{FEATURES} features",
        ("nodes", "phase", "rounds", "bytes a letter", "MB sent", "ms once", "ms a round", "ms"),
        rows,
        "CPU time of one node: letters are made, signed, opened, verified; no TLS, no disk. Once: "
        "verifies what all members have signed; for a sum the mask graph, X25519 and noise",
    )


def _network(folder: Path, n: int) -> tuple[Charter, dict[str, Identity]]:
    names = [f"n{i:04}" for i in range(n)]
    graph = nx.random_regular_graph(DEGREE, n, seed=0)
    graph = nx.relabel_nodes(graph, dict(enumerate(names)))
    x = np.random.default_rng(0).uniform(size=(ROWS, FEATURES))
    frame = pd.DataFrame(x, columns=[f"f{j}" for j in range(FEATURES)])
    table = Table("rows", frame, np.array(["no", "yes"] * (ROWS // 2), object), "class")
    charter = draft(
        table, graph, {"method": {"name": "sealed_nb", "select": 5}, "run": {"rounds": 64},
                       "privacy": SPENDS},
        name="phases", typing="manifest", public=True, budget=SPENDS, limits={"rows": n * ROWS},
        addresses={name: f"127.0.0.1:{10_000 + i}" for i, name in enumerate(names)},
    )  # fmt: skip
    make_authority(folder)
    for name in names:
        make_certificate(folder, name)
    return charter, {name: load_identity(folder, name) for name in names}


def _phase(
    charter: Charter, identities: Any, secrets: Any, phase: int, agreed: Any
) -> tuple[str, ...]:  # fmt: skip
    """Of the first node, which its neighbours tell all they know: name, rounds, bytes and times."""
    me = charter.names[0]
    x = np.random.default_rng(1).uniform(size=(ROWS, FEATURES))
    frame = pd.DataFrame(x, columns=[f"f{j}" for j in range(FEATURES)])
    table = Table("rows", frame, np.array(["no", "yes"] * (ROWS // 2), object), "class")
    peers = {}
    for name in (me, *charter.neighbours(me)):
        plan = Plan(charter, name, table)
        plan.seal_with(identities[name], secrets[name])
        letters = Letters(charter, identities[name])
        letters.book = SimpleNamespace(head=lambda: Head(0, "0" * 64))  # type: ignore[assignment]
        peers[name] = Computing(plan, letters)
        node = plan.node(phase, agreed)
        memory = node.begin()
        if phase == 0 and name != me:
            memory = _all_known(charter, identities, secrets, memory)
        form = letters.form(node, memory, agreed)
        letters.use(phase, form)
        peers[name].node, peers[name].memory, peers[name].agreed = node, memory, agreed
    one, rounds = peers.pop(me), peers[charter.neighbours(me)[0]].plan.rounds(phase)
    times = []
    for t in range(min(TIMED, rounds - 1)):
        place = Place(phase, t)
        bodies = {}
        for name, peer in peers.items():
            form = peer.letters.of(phase)
            bodies[name] = peer.letters.made(peer.node, peer.memory, form, place)[me]
        begin = time.process_time()
        heard = {}
        for name, body in bodies.items():
            one.letters.written(body)
            heard[name] = {t: (place, one.letters.opened(body, phase))}
        done = one.computed(Compute(place, Place(phase, t + 1), heard))
        one.adopt(done.result, Place(phase, t + 1))
        times.append(1e3 * (time.process_time() - begin))
    each = float(np.median(times[2:]))
    size = len(done.bodies[charter.neighbours(me)[0]])
    once = max(times[0] - each, 0.0)
    return (
        one.plan.kinds[phase], str(rounds), f"{size:,}", f"{size * DEGREE * rounds / 1e6:.2f}",
        f"{once:.0f}", f"{each:.1f}", f"{once + each * rounds:.0f}",
    )  # fmt: skip


def _all_known(charter: Charter, identities: Any, secrets: Any, memory: Memory) -> Memory:
    """What a node knows at last: what each member has signed, and its key."""
    table = {column: a.copy() for column, a in memory.state.value.items()}
    for i, name in enumerate(charter.names):
        own = KeyNode(charter, name, identities[name], secrets[name]).begin().state.value
        for column in table:
            table[column][i] = own[column][i]
        table["key"][i] = np.frombuffer(public_key(secrets[name]), np.uint8)
    return Memory(State(table, {}), None)


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
