"""Neural networks between neighbours: beside a loop over nodes, and on a GPU by number of nodes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.tools import console, per_round, race, rows_of, run, show, verdict
from peerwise import topology
from peerwise.core import Method
from peerwise.methods.neural import decavg
from peerwise.nets import Net, mlp, network_of
from peerwise.shards import Shards, pack
from peerwise.topology.links import edges_of

ROWS, BATCH, FEATURES, CLASSES = 200, 32, 784, 10
TARGET = 8
TRAINING: dict[str, Any] = {"epochs": 1, "batch": BATCH, "lr": 0.01, "momentum": 0.5}


def _job(n: int, hidden: tuple[int, ...]) -> tuple[Net, Method, Shards, topology.Topology]:
    """n nodes of 200 rows that average with 6 neighbours and train for an epoch a round."""
    x, y = rows_of(n * ROWS, FEATURES, CLASSES)
    net = network_of(mlp(FEATURES, CLASSES, hidden), FEATURES, CLASSES)
    shards = pack(x, y, list(np.arange(n * ROWS).reshape(n, ROWS)))
    return net, decavg(net, **TRAINING), shards, topology.regular(n, k=6)


def _loop(net: Net, shards: Shards, graph: topology.Topology, rounds: int) -> Any:
    """The same in the way of a PyTorch script: node by node, batch by batch, a compiled step."""
    n, shard = shards.n, shards.groups[0].shard
    optimiser = optax.sgd(TRAINING["lr"], TRAINING["momentum"])
    rng = np.random.default_rng(0)
    src, dst, _ = edges_of(graph)
    neighbours = [[v, *src[dst == v].tolist()] for v in range(n)]

    def train(weights: Any, v: int) -> Any:
        state = optimiser.init(weights)
        order = rng.permutation(ROWS)
        for begin in range(0, ROWS, BATCH):
            rows = order[begin : begin + BATCH]
            weights, state = _step(net, optimiser, weights, state, x[v][rows], y[v][rows])
        return weights

    x, y = np.asarray(shard.x), np.asarray(shard.y)
    models = [train(net.init(jax.random.key(v)), v) for v in range(n)]
    for _ in range(rounds):
        mixed = [
            jax.tree.map(lambda *w: sum(w) / len(w), *(models[u] for u in neighbours[v]))
            for v in range(n)
        ]
        models = [train(weights, v) for v, weights in enumerate(mixed)]
    return models


@partial(jax.jit, static_argnums=(0, 1))
def _step(net: Net, optimiser: Any, weights: Any, state: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(net.logits(w, x), y).mean()

    move, state = optimiser.update(jax.grad(loss)(weights), state, weights)
    return optax.apply_updates(weights, move), state


def _beside_a_loop() -> None:
    n = 50
    net, method, shards, graph = _job(n, (64,))
    found = per_round(
        {
            "all nodes at once": (partial(run, method, shards, graph), 2, 8),
            "loop over nodes": (partial(_loop, net, shards, graph), 1, 3),
        },
        least=3,
    )
    ratio = found["loop over nodes"] / found["all nodes at once"]
    flop = n * ROWS * (4 * net.size + 2 * (net.size - FEATURES * 64))
    big = jnp.ones((2048, 2048))
    peak = 2 * 2048**3 / race({"product": lambda: big @ big}, budget=1)["product"]
    rows = [
        [name, f"{t * 1e3:.1f}", f"{flop / t / 1e9:.0f}", f"{flop / t / peak:.0%}"]
        for name, t in found.items()
    ]
    show(
        f"{n} nodes, 6-regular, MLP 784-64-10, {ROWS} rows a node, batch {BATCH}, an epoch a round",
        ["", "ms a round", "GFLOP/s", "of one large product"],
        rows,
        f"{ratio:.1f} times the loop; aim {TARGET}: {verdict(ratio >= TARGET)}. "
        f"At the speed of a large product ({peak / 1e9:.0f} GFLOP/s) a round would take "
        f"{flop / peak * 1e3:.0f} ms.",
    )


def _on_a_gpu() -> None:
    big = jnp.ones((8192, 8192))
    product = jax.jit(lambda a: a @ a)
    peak = 2 * 8192**3 / race({"product": lambda: product(big)}, budget=1)["product"]
    rows = []
    for n in (50, 500, 5000):
        net, method, shards, graph = _job(n, (512, 256, 128))
        f = partial(run, method, shards, graph)
        seconds = per_round({n: (f, 2, 10 if n < 5000 else 6)}, least=2, budget=1)[n]
        flop = n * ROWS * (4 * net.size + 2 * (net.size - FEATURES * 512))
        used = jax.devices()[0].memory_stats()["peak_bytes_in_use"]
        rows.append(
            [
                f"{n:,}",
                f"{1 / seconds:.1f}",
                f"{seconds / -(-ROWS // BATCH) * 1e6:,.0f}",
                f"{flop / seconds / 1e12:.1f}",
                f"{flop / seconds / peak:.1%}",
                f"{used / 1e9:.1f}",
            ]
        )
        console.print(f"{n} nodes done")
    show(
        f"MLP 784-512-256-128-10, {ROWS} rows a node, batch {BATCH}, an epoch a round, 6-regular",
        ["nodes", "rounds a second", "µs a step", "TFLOP/s", "of one large product", "GB at most"],
        rows,
        f"{jax.devices()[0].device_kind}; one large product in float32 as jax does it: "
        f"{peak / 1e12:.0f} TFLOP/s. A step reads and writes every weight several times for 32 "
        "rows, so that memory and not arithmetic bounds it.",
    )


def main() -> None:
    """The common job on a CPU; three sizes of network on a GPU."""
    if jax.default_backend() == "cpu":
        _beside_a_loop()
    else:
        _on_a_gpu()
