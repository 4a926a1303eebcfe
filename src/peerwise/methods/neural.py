"""Neural networks between neighbours: train on one's own rows, combine with the neighbours'.

"Coordination-free decentralised federated learning on complex networks: overcoming heterogeneity"
(Valerio, Boldrini, Passarella, Kertesz, Karsai, Iniguez): DecDiff with a virtual teacher, and the
methods that it is compared with. A round is: tell the neighbours one's weights, combine, train.
A node trains once before the first round.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.combine import weigh as weighing
from peerwise.combine.step import toward
from peerwise.core import Array, Mean, Message, Method, Shard, State, Tree
from peerwise.errors import UnknownName
from peerwise.nets.net import Net
from peerwise.update.losses import Loss, cross_entropy
from peerwise.update.sgd import trainer

__all__ = ["cfa", "decavg", "decdiff", "fedavg", "isolated_net"]

STARTS = ("own", "common")  # whether nodes begin with weights of their own


def decavg(net: Net, *, loss: Loss | None = None, start: str = "own", **training: Any) -> Method:
    """The mean of the neighbours and the node itself, by data size and trust (equation 4).

    With weights of their own to start from (start="own") the paper calls it DecHetero. Equation 4
    divides twice; this is the weighted mean that is meant. On a complete graph it is FedAvg.
    """
    return _neural(net, loss, Mean(weighing.data_size(True)), start, **training)


def fedavg(net: Net, *, loss: Loss | None = None, **training: Any) -> Method:
    """Federated averaging on `topology.server`: a common start, the mean by data size."""
    return _neural(net, loss, Mean(weighing.data_size(True)), "common", **training)


def decdiff(
    net: Net,
    *,
    s: float = 1.0,
    norm: str = "tensor",
    loss: Loss | None = None,
    start: str = "own",
    **training: Any,
) -> Method:
    """DecDiff: a bounded step towards the neighbours' mean, by data size and trust (equation 5).

    With `loss=update.losses.virtual_teacher(classes)` it is the paper's DecDiff+VT.
    """
    rule = Mean(weighing.data_size(False), step=toward(s, norm))
    return _neural(net, loss, rule, start, **training)


def cfa(
    net: Net,
    *,
    epsilon: float | None = None,
    loss: Loss | None = None,
    start: str = "own",
    **training: Any,
) -> Method:
    """Consensus-based federated averaging: a share epsilon of the way to the neighbours' mean."""
    return _neural(net, loss, Mean(weighing.cfa(epsilon)), start, **training)


def isolated_net(
    net: Net, *, loss: Loss | None = None, start: str = "own", **training: Any
) -> Method:
    """Every node trains alone; with all rows on one node this is the centralised reference."""
    return _neural(net, loss, Mean(weighing.alone()), start, **training)


def _neural(
    net: Net, loss: Loss | None, rule: Mean, start: str, *, keep: bool = False, **training: Any
) -> Method:
    if start not in STARTS:
        raise UnknownName("start", start, STARTS)
    chosen = cross_entropy() if loss is None else loss
    return _built(net, chosen, rule, start, keep, tuple(sorted(training.items())))


@cache
def _built(
    net: Net, loss: Loss, rule: Mean, start: str, keep: bool, training: tuple[tuple[str, Any], ...]
) -> Method:
    """`keep`: the optimiser's state survives from round to round instead of starting anew."""
    local = trainer(net, loss, **dict(training))

    def learn(key: Array, weights: Tree, memory: dict[str, Any], shard: Shard) -> State:
        begin = memory["optimiser"] if keep else local.begin(weights)
        found = local.train(key, weights, begin, shard)
        told = {"loss": found.loss, "steps": memory["steps"] + found.steps}
        kept = {"optimiser": found.optimiser} if keep else {}
        return State(found.weights, {**memory, **told, **kept})

    def init(key: Array, shard: Shard) -> State:
        first, second = jax.random.split(key)
        weights = net.init(jax.random.key(0) if start == "common" else first)
        weights = jax.tree.map(lambda a: a.astype(shard.x.dtype), weights)
        memory: dict[str, Any] = {
            "size": shard.weight.sum(),
            "steps": jnp.zeros((), jnp.int32),
            **({"optimiser": local.begin(weights)} if keep else {}),
        }
        return learn(second, weights, memory, shard)

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {"size": state.memory["size"]})

    def adapt(key: Array, state: State, shard: Shard) -> State:
        return learn(key, state.value, state.memory, shard)

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return jax.nn.log_softmax(net.logits(value, x))

    return Method(init, message, rule, adapt, predict)
