"""Neural networks between neighbours: nodes train on their own rows and combine their weights.

"Coordination-free decentralised federated learning on complex networks: overcoming heterogeneity"
(Valerio, Boldrini, Passarella, Kertesz, Karsai, Iniguez): DecDiff with a virtual teacher, and the
methods that it is compared with. In a round a node sends its weights, combines
what it heard, and trains. A node trains once before the first round.
"""

from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le

from peerwise import combine
from peerwise.combine.step import Norm, Softening
from peerwise.combine.weigh import Rule, alone, data_size
from peerwise.core import Array, Inbox, Mean, Message, Method, Range, Shard, Slots, State, Tree
from peerwise.declare import declares
from peerwise.nets.net import Net, log_probabilities
from peerwise.update.losses import Loss, LossOption
from peerwise.update.objective import gradient
from peerwise.update.sgd import trainer
from peerwise.update.training import Trained, Training

Start: TypeAlias = Annotated[
    Literal["own", "common"], "whether nodes start from their own weights or from the same"
]
Epsilon: TypeAlias = Annotated[
    float | None, Gt(0), Le(1), "share of the way to the mean; none: 1 / (neighbours heard)"
]


# sizes are counts; beyond this a variance or its inverse is not a number of 32 bits
RANGES = (Range("note.size", 0), Range("log_variance", -80, 80))


@declares("method")
def decavg(
    net: Net,
    *,
    rule: Rule = "data_size",
    start: Start = "own",
    loss: LossOption = "cross_entropy",
    training: Training = Training(),
) -> Method:
    """The mean of the neighbours and the node itself, by data size and trust (equation 4).

    With weights of their own to start from (start="own") the paper calls it DecHetero. Equation 4
    divides twice; this is the weighted mean that is meant. On a complete graph it is FedAvg. With
    another `rule` ("median", "metropolis") it is any decentralised averaging of nets.
    """
    return trained(net, loss, rule, start, training)


@declares("method", place="server")
def fedavg(
    net: Net, *, loss: LossOption = "cross_entropy", training: Training = Training()
) -> Method:
    """Federated averaging on `topology.server`: a common start, the mean by data size."""
    return trained(net, loss, data_size(), "common", training)


@declares("method")
def decdiff(
    net: Net,
    *,
    s: Softening = 1.0,
    norm: Norm = "tensor",
    start: Start = "own",
    loss: LossOption = "cross_entropy",
    training: Training = Training(),
) -> Method:
    """DecDiff: a bounded step towards the neighbours' mean, by data size and trust (equation 5).

    With `loss="virtual_teacher"` it is the paper's DecDiff+VT.
    """
    return trained(net, loss, combine.decdiff(s=s, norm=norm), start, training)


@declares("method")
def cfa(
    net: Net,
    *,
    epsilon: Epsilon = None,
    start: Start = "own",
    loss: LossOption = "cross_entropy",
    training: Training = Training(),
) -> Method:
    """Consensus-based federated averaging: a share epsilon of the way to the neighbours' mean."""
    return trained(net, loss, combine.cfa(epsilon=epsilon), start, training)


@declares("method", place="alone")
def isolated_net(
    net: Net,
    *,
    start: Start = "own",
    loss: LossOption = "cross_entropy",
    training: Training = Training(),
) -> Method:
    """Every node trains its net alone."""
    return trained(net, loss, alone(), start, training)


@declares("method", place="pooled", reference=True)
def pooled_net(
    net: Net, *, loss: LossOption = "cross_entropy", training: Training = Training()
) -> Method:
    """One net trained on all rows at one place: the centralised reference."""
    return trained(net, loss, alone(), "own", training)


@declares("method", needs=("replies",))
def cfa_ge(
    net: Net,
    *,
    epsilon: Epsilon = None,
    step: Annotated[float, Gt(0), "length of the step along the gradients returned"] = 0.025,
    smoothing: Annotated[
        float | None, Gt(0), Le(1), "share of the newest in their moving average; none: no average"
    ] = None,
    rows: Annotated[int | None, Ge(1), "most rows that a neighbour uses for a gradient"] = None,
    start: Start = "own",
    loss: LossOption = "cross_entropy",
    training: Training = Training(),
) -> Method:
    """CFA with gradient exchange: neighbours return gradients of a node's model on their rows.

    Savazzi, Nicoli and Rampa (2020), in two stages: a node hears gradients of the model that it
    sent the round before. Their sum weighted by trust, times `step`, is subtracted after the mix of
    CFA, or its moving average with `smoothing` (MEWMA; the authors' is .99 on the newest).
    `rows`: the most rows that a neighbour uses, evenly spaced, different ones in every round.
    A reply is as large as a message, so that twice the bytes are sent.
    """
    method = trained(net, loss, combine.cfa(epsilon=epsilon), start, training)
    return _with_gradients(method, net, loss, step, smoothing, rows)


@cache
def _with_gradients(
    method: Method, net: Net, loss: Loss, step: float, smoothing: float | None, rows: int | None
) -> Method:
    slope = gradient(net, loss, rows)

    def ask(state: State, shard: Shard, heard: Inbox) -> Any:
        return slope.begin(heard.value, state.memory["trained"], heard.weight > 0, shard)

    def init(begin: Any) -> Any:
        def wrapped(key: Array, shard: Shard) -> Any:
            now = begin(key, shard)
            pull = jax.tree.map(jnp.zeros_like, now.weights)
            return now._replace(kept={**now.kept, "pull": pull})

        return wrapped

    def take(state: State, total: Tree) -> State:
        memory = state.memory
        if smoothing is not None:
            old = memory["pull"]
            total = jax.tree.map(lambda g, p: smoothing * g + (1 - smoothing) * p, total, old)
            memory = {**memory, "pull": total}
        return State(jax.tree.map(lambda w, g: w - step * g, state.value, total), memory)

    begun = method.init
    if smoothing is not None:
        begun = replace(begun, begin=init(begun.begin))  # type: ignore[type-var, attr-defined]
    return method._replace(init=begun, reply=replace(slope, begin=ask), take=take)


@cache
def trained(
    net: Net,
    loss: Loss,
    rule: Mean | Slots,
    start: str,
    training: Training,
    first: bool = True,
    **objective: Any,
) -> Method:
    """The method of a node that trains a net on its rows and combines by a rule.

    `first`: it trains once before the first round. `objective`: a risk or a penalty, as `trainer`
    takes them; with a risk, values are {"net": weights, "t": threshold}. A message carries the
    node's data size and its last loss.
    """
    if not training.steps:
        training = training._replace(steps=None)
    risky = objective.get("risk") is not None
    local = trainer(net, loss, training, **objective)

    def weights_of(value: Tree) -> Tree:
        return value["net"] if risky else value

    def begin(key: Array, shard: Shard) -> Trained:
        own, shared = (key[0], key[1]) if start == "common" else (key, None)
        first_key, second, third = jax.random.split(own, 3)
        weights = net.init(first_key if shared is None else shared)
        weights = jax.tree.map(lambda a: a.astype(shard.x.dtype), weights)
        value = {"net": weights, "t": jnp.zeros((), shard.x.dtype)} if risky else weights
        zero = jnp.zeros((), jnp.int32)
        memory: dict[str, Any] = {
            "size": shard.weight.sum(),
            "epochs": local.epochs(third),
            "steps": zero,
            "trained": zero,
            "broke": zero - 1,
        }
        optimiser = local.optimiser(value)
        return local.train.begin(second, value, optimiser, memory["epochs"], memory, shard)

    def again(key: Array, state: State, shard: Shard) -> Trained:
        memory = dict(state.memory)
        optimiser = memory.pop("optimiser") if training.keep else local.optimiser(state.value)
        return local.train.begin(key, state.value, optimiser, memory["epochs"], memory, shard)

    def end(now: Trained) -> State:
        done, memory = local.train.end(now), now.kept
        fine = jnp.isfinite(done.loss)
        seen = {
            "loss": done.loss,
            "steps": memory["steps"] + done.steps,
            "trained": memory["trained"] + 1,
            # the first training whose loss was not finite; -1: none
            "broke": jnp.where((memory["broke"] < 0) & ~fine, memory["trained"], memory["broke"]),
            **({"optimiser": done.optimiser} if training.keep else {}),
        }
        return State(done.weights, {**memory, **seen})

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {"size": state.memory["size"], "loss": state.memory["loss"]})

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_probabilities(net, weights_of(value), x, key)

    def untrained(key: Array, shard: Shard) -> State:
        return end(begin(key, shard))

    adapt = replace(local.train, begin=again, end=end)
    init = replace(local.train, begin=begin, end=end) if first else untrained
    common = start == "common"
    return Method(init, message, rule, adapt, predict, common=common, ranges=RANGES)
