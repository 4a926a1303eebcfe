"""The pieces of work behind the CVaR-CTA experiments; each gives plain arrays.

Pixels are scaled to [0, 1]. Replicas have seeds of their own for batches and links, trained side by
side; all begin with the same weights, and rows sorted by class are cut in the same places.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from peerwise import channel, metrics, partition, topology
from peerwise.core import Method
from peerwise.errors import UnknownName
from peerwise.experiments import job
from peerwise.papers.images import Images, images, recorded, rows_at_once
from peerwise.experiments.setting import setting_from
from peerwise.methods import diffusion, neural
from peerwise.methods.crc import crc
from peerwise.models.naive_bayes import naive_bayes
from peerwise.nets import network
from peerwise.shards import pack_alike
from peerwise.simulate import simulate
from peerwise.update.losses import virtual_teacher

__all__ = ["GRAPHS", "METHODS", "calibrate", "learn", "rare_statistics"]

Arrays = dict[str, np.ndarray]
GRAPH_SEED = 0
COMPONENTS = 50  # of pixels, for naive Bayes

# Graphs by name, of so many nodes. The paper does not say how dense its random graph is.
GRAPHS: dict[str, Any] = {
    "line": topology.chain,
    "ring": topology.ring,
    "erdos_renyi": lambda n: topology.erdos_renyi(n, min(5 / n, 0.5), seed=GRAPH_SEED),
    "tree": lambda n: topology.random_tree(n, seed=GRAPH_SEED),
}


def _decdiff(net: Any, **training: Any) -> Method:
    loss = virtual_teacher(net.classes, 0.95)
    return neural.decdiff(net, loss=loss, start="common", **training)


# Methods by name. Those of other papers begin alike here, as CTA does.
METHODS: dict[str, Any] = {
    "cta": diffusion.cta,
    "average-cvar": diffusion.average_cvar,
    "cvar-cvar": diffusion.cvar_cvar,
    "decdiff+vt": _decdiff,
    "isolation": partial(neural.isolated_net, start="common"),
}


def _links(nodes: int, q: float, quiet: float | None) -> channel.Channel:
    """Every link delivers with probability q; `quiet`: those from node 0 with another."""
    if quiet is None:
        return channel.erasure(q)
    by_sender = np.full(nodes, q)
    by_sender[0] = quiet
    return channel.erasure(by_sender, by="sender")


def _deals(task: Images, way: str, nodes: int, replicas: int, seed: int) -> list[list[np.ndarray]]:
    deal, sizes = partition.PARTITIONS[way], partition.equal_sizes(nodes, len(task.y))
    if way == "sole_holder":  # as many rows as the other classes have, with some to spare
        sizes = np.full(nodes, int((task.y != 0).sum()) // nodes)
    return [deal(np.random.default_rng([seed, r]), task.x, task.y, sizes) for r in range(replicas)]


def learn(
    data: str,
    method: str,
    *,
    graph: str,
    nodes: int,
    q: float,
    lr: float,
    net: str = "mlp_200",
    rounds: int = 900,
    steps: int = 10,
    batch: int = 100,
    replicas: int = 10,
    every: int = 30,
    way: str = "mixed",
    quiet: float | None = None,
    rows: int | None = None,
    test_rows: int | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    **options: Any,
) -> Arrays:
    """Accuracy of every node [replicas, recorded rounds, nodes], before and after it trains.

    `accuracy` is measured after local steps, `combined_accuracy` when the node has combined and not
    trained yet. With them accuracy by class [replicas, recorded rounds, classes], mean of the
    nodes, and how far apart the nodes' models are.
    """
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    if graph not in GRAPHS:
        raise UnknownName("graph", graph, GRAPHS)
    if way not in partition.PARTITIONS:
        raise UnknownName("partition", way, partition.PARTITIONS)
    task = images(data, rows, test_rows, scale="unit")
    made = network(net, task.shape, task.classes)
    run_by = METHODS[method](made, steps=steps, batch=batch, lr=lr, momentum=0.0, **options)
    shards = pack_alike(task.x, task.y, _deals(task, way, nodes, replicas, seed))
    look = metrics.errors(
        "test", task.x_test, task.y_test, block=rows_at_once(net), classes=task.classes
    )
    clock = time.perf_counter()
    done = simulate(
        run_by, shards, GRAPHS[graph](nodes), rounds,
        seed=[seed * 1000 + r for r in range(replicas)],
        channel=_links(nodes, q, quiet),
        probe=metrics.together(look, metrics.consensus()),
        at=recorded(rounds, every), stages=("combine", "adapt"), checkpoint=checkpoint,
    )  # fmt: skip
    jax.block_until_ready(done.state)
    found = {
        "rounds": np.array(done.recorded),
        "message_bytes": np.array(done.message_bytes),
        "seconds": np.array(time.perf_counter() - clock),
        "device": np.array(jax.devices()[0].device_kind),
    }
    for stage, name in (("adapt", ""), ("combine", "combined_")):
        seen = jax.tree.map(np.asarray, done.history[stage])
        found[f"{name}accuracy"] = 1 - seen["test_error"]
        found[f"{name}class_accuracy"] = 1 - seen["test_class_error"].mean(2)
        found[f"{name}consensus"] = seen["consensus_distance"]
    # of the others: node 0 knows what it alone holds
    found["class_accuracy_of_others"] = 1 - np.asarray(done.history["adapt"]["test_class_error"])[
        :, :, 1:
    ].mean(2)
    return found


def calibrate(
    data: str, *, graph: str, q: float, rounds: int, repetitions: int, weigh: str = "equal",
    nodes: int = 50, rows: int = 50, test_rows: int = 10_000,
) -> Arrays:  # fmt: skip
    """How far CRC is above RC on the test rows, [repetitions, nodes], after so many rounds."""
    given = {
        "data": data,
        "method": "crc",
        "topology": {"tree": "random_tree"}.get(graph, graph),
        "topology_options": {"p": 5 / nodes} if graph == "erdos_renyi" else {},
        "nodes": nodes,
        "rows": rows,
        "test_rows": test_rows,
        "arrival": q,
        "rounds": rounds,
        "repetitions": repetitions,
        "weigh": weigh,
    }
    setting = setting_from(given)
    mine, central = job.run(setting), job.run(setting.reference())
    reference = central.values["test_error"][:, -1]
    return {
        "error": mine.values["test_error"][:, -1],
        "reference": reference,
        "gap": mine.values["test_error"][:, -1] - reference,
    }


def rare_statistics(
    data: str, *, graph: str, nodes: int, weigh: str, quiet: float, rounds: int, replicas: int,
    lr: float = 0.05, rows: int | None = None, test_rows: int | None = None, seed: int = 0,
) -> Arrays:  # fmt: skip
    """The case of the seldom heard node for CRC, with naive Bayes of principal components."""
    task = images(data, rows, test_rows, scale="unit")
    center = task.x.mean(0)
    _, axes = np.linalg.eigh(np.cov((task.x - center).T))
    components = axes[:, -COMPONENTS:].astype(np.float32)
    x, x_test = ((a - center) @ components for a in (task.x, task.x_test))
    scale = x.std(0)
    task = task._replace(x=x / scale, x_test=x_test / scale)
    deals = _deals(task, "sole_holder", nodes, replicas, seed)
    used = sum(map(len, deals[0]))
    method = crc(naive_bayes([0] * COMPONENTS, task.classes), lr=lr, rows=used, nodes=nodes,
                     include_self=True, weigh=weigh)  # fmt: skip
    look = metrics.errors("test", task.x_test, task.y_test, classes=task.classes)
    done = simulate(
        method, pack_alike(task.x, task.y, deals), GRAPHS[graph](nodes), rounds,
        seed=[seed * 1000 + r for r in range(replicas)], channel=_links(nodes, 1.0, quiet),
        probe=look, at=recorded(rounds, max(1, rounds // 10)),
    )  # fmt: skip
    seen = jax.tree.map(np.asarray, done.history["adapt"])
    return {
        "rounds": np.array(done.recorded),
        "accuracy": 1 - seen["test_error"],
        "class_accuracy_of_others": 1 - seen["test_class_error"][:, :, 1:].mean(2),
    }
