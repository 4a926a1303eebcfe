"""The pieces of work behind the BA-BFL experiments; each gives plain arrays.

Pixels are scaled to [0, 1], rows dealt class by class from a Dirichlet distribution. Replicas are
deals of the rows and seeds of their own, trained side by side.
"""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from peerwise import metrics, partition, topology
from peerwise.channel import erasure
from peerwise.core import Method, State, Tree
from peerwise.errors import UnknownName
from peerwise.papers.images import Images, images, recorded, rows_at_once
from peerwise.methods.bayesian import ba_bfl
from peerwise.nets import Net, network
from peerwise.shards import pack, pack_alike
from peerwise.simulate import simulate

__all__ = ["GRAPHS", "allocation", "learn", "pace"]

Arrays = dict[str, np.ndarray]
GRAPH_SEED = 0
FINE = 100  # bins of the paper's calibration error
OWN = 500  # rows of each node on which its model is measured, at most
OUTSIDE = {"fashion_mnist": "mnist", "mnist": "fashion_mnist"}  # whose images are strange to it
TIMED = 3  # rounds that are timed at once, and how often
TIMES = 3
STRANGE = 2000  # images of another set, and of its own, by which strangeness is told

# Networks by name, of so many nodes; "er-P" is a random graph with links of probability P.
GRAPHS: dict[str, Any] = {
    "server": topology.server,
    "ring": topology.ring,
    "tree": lambda n: topology.random_tree(n, seed=GRAPH_SEED),
    "complete": topology.complete,
    **{
        f"er-{p}": lambda n, p=p: topology.erdos_renyi(n, p, seed=GRAPH_SEED)
        for p in (0.2, 0.3, 0.5)
    },
}


def _net(task: Images, net: str, layers: int, moved: bool, **more: Any) -> Net:
    shape = task.shape, task.classes, "pytorch"
    return network(net, *shape, bayesian_layers=layers, moved=moved, **more)


def _deals(task: Images, nodes: int, replicas: int, seed: int) -> list[list[np.ndarray]]:
    sizes = partition.equal_sizes(nodes, len(task.y))
    return [
        partition.dirichlet_by_class(np.random.default_rng([seed, r]), task.x, task.y, sizes)
        for r in range(replicas)
    ]


def _of_first(probe: Any, method: Method, state: State) -> Tree:
    return probe(method, jax.tree.map(lambda a: a[:1], state))


def _strange(task: Images, data: str, test_rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    other = images(OUTSIDE[data], 1, min(STRANGE, test_rows or STRANGE), scale="unit")
    return task.x_test[: len(other.x_test)], other.x_test


def _told_apart(method: Method, state: Tree, inside: np.ndarray, outside: np.ndarray) -> float:
    """How well the first node's entropies tell another set's images from its own."""
    value = jax.tree.map(lambda a: a[0], state.value)
    predict = jax.jit(method.predict)
    prob = [np.exp(np.asarray(predict(jax.random.key(0), value, x))) for x in (inside, outside)]
    return float(metrics.ood_auroc(*(p / p.sum(1, keepdims=True) for p in prob)))


def learn(
    data: str,
    rule: str,
    layers: int,
    *,
    graph: str = "server",
    nodes: int = 10,
    rounds: int = 20,
    epochs: int = 5,
    replicas: int = 3,
    net: str = "lenet",
    batch: int = 64,
    lr: float = 0.01,
    momentum: float = 0.9,
    weight_decay: float = 1e-5,
    samples: int = 10,
    paper_init: bool = False,
    moved: bool = False,
    prior: str = "standard",
    own_share: float | None = None,
    q: float = 1.0,
    every: int = 5,
    rows: int | None = None,
    test_rows: int | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> Arrays:
    """How good and how well calibrated the merged models are, and how fair the local ones.

    [replicas, recorded rounds, nodes]: `accuracy`, `ece` (15 bins), `ece_fine` (100), `nll`,
    `brier`, `entropy` of the merged models, before local training, on the test rows; one node where
    there is a server, whose model all have. `local_accuracy`: after it. `own_accuracy`: of the
    merged models on each node's own rows. `ood`: area under the curve by which the last merged
    model tells strange images, where another set of their shape is at hand.
    """
    if graph not in GRAPHS:
        raise UnknownName("graph", graph, GRAPHS)
    task = images(data, rows, test_rows, scale="unit")
    made = _net(task, net, layers, moved, samples=samples, paper_init=paper_init)
    method = ba_bfl(
        made, rule=rule, prior=prior, own_share=own_share, epochs=epochs, batch=batch, lr=lr,
        momentum=momentum, weight_decay=weight_decay,
    )  # fmt: skip
    deals = _deals(task, nodes, replicas, seed)
    shards, links = pack_alike(task.x, task.y, deals), GRAPHS[graph](nodes)
    block = rows_at_once(net)
    merged: Any = metrics.together(
        metrics.errors("test", task.x_test, task.y_test, block=block),
        metrics.calibration("test", task.x_test, task.y_test, block=block),
        metrics.calibration("fine", task.x_test, task.y_test, bins=FINE, block=block),
    )
    if graph == "server":
        merged = Partial(_of_first, merged)
    owned = [[mine[:OWN] for mine in deal] for deal in deals]
    longest = max(len(mine) for deal in owned for mine in deal)
    own = [metrics.own_rows("own", task.x, task.y, o, block=block, longest=longest) for o in owned]
    local = metrics.errors("test", task.x_test, task.y_test, block=block)
    options: dict[str, Any] = {"seed": [seed * 1000 + r for r in range(replicas)]}
    options |= {"channel": erasure(q), "at": recorded(rounds, every)}
    clock = time.perf_counter()
    done = simulate(
        method, shards, links, rounds, stages=("combine",),
        probe=[metrics.together(merged, o) for o in own], checkpoint=checkpoint, **options,
    )  # fmt: skip
    jax.block_until_ready(done.state)
    seconds = time.perf_counter() - clock
    seen = jax.tree.map(np.asarray, done.history["combine"])
    last = jax.jit(jax.vmap(lambda state: local(method, state)))(done.state)
    found = {
        "rounds": np.array(done.recorded),
        "accuracy": 1 - seen["test_error"],
        "ece": seen["test_ece"],
        "ece_fine": seen["fine_ece"],
        "nll": seen["test_nll"],
        "brier": seen["test_brier"],
        "entropy": seen["test_entropy"],
        "own_accuracy": 1 - seen["own_error"],
        "local_accuracy": 1 - np.asarray(last["test_error"])[:, None],
        "sizes": np.array([[len(mine) for mine in deal] for deal in deals]),
        "message_bytes": np.array(done.message_bytes),
        "seconds": np.array(seconds),
        "device": np.array(jax.devices()[0].device_kind),
    }
    if data in OUTSIDE and task.shape == (28, 28):
        inside, outside = _strange(task, data, test_rows)
        found["ood"] = np.array(
            [
                _told_apart(method, jax.tree.map(lambda a, r=r: a[r], done.state), inside, outside)
                for r in range(replicas)
            ]
        )
    return found


def pace(
    data: str,
    rule: str,
    layers: int,
    *,
    nodes: int = 10,
    epochs: int = 5,
    net: str = "lenet",
    batch: int = 64,
    lr: float = 0.01,
    momentum: float = 0.9,
    weight_decay: float = 1e-5,
    moved: bool = False,
    rows: int | None = None,
    seed: int = 0,
) -> Arrays:
    """Seconds that a round of one replica takes, nothing measured on the way, on a server.

    `seconds_a_round`: the median of `seconds`, each of which is what four rounds take longer than
    one, by three. It tells of rounds only where nothing else runs on the device.
    """
    task = images(data, rows, 1, scale="unit")
    method = ba_bfl(
        _net(task, net, layers, moved), rule=rule, epochs=epochs, batch=batch, lr=lr,
        momentum=momentum, weight_decay=weight_decay,
    )  # fmt: skip
    shards = pack(task.x, task.y, _deals(task, nodes, 1, seed)[0])

    def run(rounds: int) -> float:
        clock = time.perf_counter()
        done = simulate(method, shards, topology.server(nodes), rounds, at=[], seed=seed)
        jax.block_until_ready(done.state)
        return time.perf_counter() - clock

    run(1)  # compiled
    seconds = np.array([(run(1 + TIMED) - run(1)) / TIMED for _ in range(TIMES)])
    return {
        "seconds_a_round": np.median(seconds),
        "seconds": seconds,
        "device": np.array(jax.devices()[0].device_kind),
    }


def allocation(data: str, nodes: int = 10, rows: int | None = None, seed: int = 0) -> Arrays:
    """Figure 2: how many rows of each class every node holds."""
    task = images(data, rows)
    return {"counts": partition.allocation(task.y, _deals(task, nodes, 1, seed)[0], task.classes)}
