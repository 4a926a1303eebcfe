"""The pieces of work behind the tables and figures of the DecDiff paper; each gives plain arrays.

Replicas are deals of
the rows and seeds of their own, trained side by side on one graph.
"""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from peerwise import metrics, partition, topology
from peerwise.core import Method
from peerwise.errors import UnknownName
from peerwise.papers.images import Images, images, recorded, rows_at_once
from peerwise.methods import neural
from peerwise.nets import Net, network
from peerwise.shards import pack_alike, pooled
from peerwise.simulate import simulate
from peerwise.topology.links import edges_of
from peerwise.update.losses import LOSSES

__all__ = ["METHODS", "allocation", "graph", "learn"]

Arrays = dict[str, np.ndarray]
GRAPH_SEED = 0  # one graph in all runs of the paper

# Methods by the paper's names: how each is made of a net and what training is given.
METHODS: dict[str, Any] = {
    "centralised": neural.pooled_net,
    "isolation": neural.isolated_net,
    "fedavg": neural.fedavg,
    "dechetero": neural.decavg,
    "decavg": lambda net, **options: neural.decavg(net, start="common", **options),
    "cfa": neural.cfa,
    "cfa-1": lambda net, **options: neural.cfa(net, epsilon=1.0, **options),
    "cfa-ge": neural.cfa_ge,
    "decdiff": neural.decdiff,
}


def _deals(task: Images, way: str, nodes: int, replicas: int, seed: int) -> list[list[np.ndarray]]:
    """Who holds which rows, for every replica."""
    deal = partition.PARTITIONS[way]
    sizes = partition.equal_sizes(nodes, len(task.y))
    return [deal(np.random.default_rng([seed, r]), task.x, task.y, sizes) for r in range(replicas)]


def _topology(kind: str, nodes: int) -> topology.Topology:
    if kind == "barabasi_albert":
        return topology.barabasi_albert(nodes, 2, seed=GRAPH_SEED)
    # as well connected when there are fewer nodes: about ten neighbours
    return topology.erdos_renyi(nodes, min(0.2 * 50 / nodes, 0.5), seed=GRAPH_SEED)


def method_of(name: str, net: Net, loss: str, beta: float, **options: Any) -> Method:
    """The method of that name, minimising that loss."""
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    if loss not in LOSSES:
        raise UnknownName("loss", loss, LOSSES)
    made: Method = METHODS[name](net, loss=LOSSES[loss](net.classes, beta), **options)
    return made


def learn(
    data: str,
    method: str,
    *,
    net: str = "mlp",
    rounds: int = 1000,
    epochs: int = 5,
    replicas: int = 2,
    nodes: int = 50,
    loss: str = "cross_entropy",
    beta: float = 0.99,
    batch: int = 32,
    lr: float = 0.001,
    momentum: float = 0.5,
    way: str = "zipf",
    kind: str = "erdos_renyi",
    every: int = 10,
    aggregated: bool = True,
    rows: int | None = None,
    test_rows: int | None = None,
    rows_asked: int | None = None,
    init: str = "he_uniform",
    begun: bool = False,
    seed: int = 0,
    checkpoint: Path | None = None,
    **options: Any,
) -> Arrays:
    """Accuracy and loss of every node on the test rows, [replicas, recorded rounds, nodes].

    `aggregated`: also measured after the node has combined and before it trains again. `begun`:
    also before the first round, when it has trained alone once. The centralised reference has all
    rows on one node.
    """
    task = images(data, rows, test_rows)
    made = network(net, task.shape, task.classes, init)
    training = {"epochs": epochs, "batch": batch, "lr": lr, "momentum": momentum, **options}
    if rows_asked is not None:
        training["rows"] = rows_asked  # of a gradient that CFA-GE asks for
    run_by = method_of(method, made, loss, beta, **training)
    deals = _deals(task, way, nodes, replicas, seed)
    stages: tuple[str, ...]
    if method == "centralised":
        shards: Any = pooled(task.x, task.y, deals[0])
        graph_, stages = topology.alone(1), ("adapt",)
    else:
        shards = pack_alike(task.x, task.y, deals)
        graph_ = topology.server(nodes) if method == "fedavg" else _topology(kind, nodes)
        stages = ("combine", "adapt") if aggregated else ("adapt",)
    look = metrics.errors("test", task.x_test, task.y_test, block=rows_at_once(net))
    clock = time.perf_counter()
    seeds = [seed * 1000 + r for r in range(replicas)]
    done = simulate(
        run_by, shards, graph_, rounds,
        seed=seeds,
        probe=metrics.together(look, metrics.consensus()),
        at=recorded(rounds, every), stages=stages, checkpoint=checkpoint,
    )  # fmt: skip
    jax.block_until_ready(done.state)
    counts = np.stack([partition.allocation(task.y, d, task.classes) for d in deals])
    found = {
        "rounds": np.array(done.recorded),
        "message_bytes": np.array(
            0 if method in ("centralised", "isolation") else done.message_bytes
        ),
        "messages": np.array(graph_.links_per_round(0)),
        "gini": np.stack([partition.gini_by_class(c) for c in counts]).mean(1),
        "gini_of_totals": np.stack([partition.gini_of_totals(c) for c in counts]),
        "sizes": counts.sum(2),
        "seconds": np.array(time.perf_counter() - clock),
        "steps": np.asarray(done.state.memory["steps"]),
        "device": np.array(jax.devices()[0].device_kind),
    }
    names = {"adapt": "", "combine": "aggregated_"}
    for stage in stages:
        seen = jax.tree.map(np.asarray, done.history[stage])
        found[f"{names[stage]}accuracy"] = 1 - seen["test_error"]
        found[f"{names[stage]}loss"] = seen["test_log_loss"]
        found[f"{names[stage]}consensus"] = seen["consensus_distance"]
    if begun:
        first = simulate(run_by, shards, graph_, 0, seed=seeds)
        seen = jax.jit(jax.vmap(lambda state: look(run_by, state)))(first.state)
        found["begun_accuracy"] = 1 - np.asarray(seen["test_error"])
    return found


def graph(nodes: int = 50) -> Arrays:
    """Figure 3: the links of the graph that all runs share."""
    src, dst, _ = edges_of(_topology("erdos_renyi", nodes))
    return {"src": src, "dst": dst, "nodes": np.array(nodes)}


def allocation(data: str, nodes: int = 50, rows: int | None = None, seed: int = 0) -> Arrays:
    """Figure 4: how many rows of each class every node holds, with Gini indices."""
    task = images(data, rows)
    counts = partition.allocation(task.y, _deals(task, "zipf", nodes, 1, seed)[0], task.classes)
    return {
        "counts": counts,
        "gini": partition.gini_by_class(counts),
        "gini_of_totals": np.array(partition.gini_of_totals(counts)),
    }
