"""Neural networks between neighbours: train on one's own rows, combine with the neighbours'.

"Coordination-free decentralised federated learning on complex networks: overcoming heterogeneity"
(Valerio, Boldrini, Passarella, Kertesz, Karsai, Iniguez): DecDiff with a virtual teacher, and the
methods that it is compared with. A round is: tell the neighbours one's weights, combine, train.
A node trains once before the first round.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.combine import weigh as weighing
from peerwise.combine.step import toward
from peerwise.core import Array, Inbox, Mean, Message, Method, Shard, State, Tree
from peerwise.errors import BadSetting, UnknownName
from peerwise.nets.net import Net, log_probabilities
from peerwise.update.losses import Loss, cross_entropy
from peerwise.update.objective import gradient
from peerwise.update.sgd import trainer
from peerwise.update.training import Trained, Training, training_of

__all__ = ["cfa", "cfa_ge", "decavg", "decdiff", "fedavg", "isolated_net", "pooled_net"]

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
    """Every node trains its net alone."""
    return _neural(net, loss, Mean(weighing.alone()), start, **training)


def pooled_net(net: Net, *, loss: Loss | None = None, **training: Any) -> Method:
    """One net trained on all rows at one place: the centralised reference."""
    return isolated_net(net, loss=loss, **training)


def cfa_ge(
    net: Net,
    *,
    epsilon: float | None = None,
    step: float = 0.025,
    smoothing: float | None = None,
    rows: int | None = None,
    loss: Loss | None = None,
    start: str = "own",
    **training: Any,
) -> Method:
    """CFA with gradient exchange: neighbours return gradients of one's model on their rows.

    Savazzi, Nicoli and Rampa (2020), in two stages: what a node hears in a round are gradients of
    the model that it told the round before. Their sum by trust, times `step`, is taken off after
    the mix of CFA; with `smoothing` its moving average (MEWMA; the authors' is .99 on the newest).
    `rows`: a neighbour uses at most so many of its rows, evenly spaced, others in every round.
    A reply is as large as a message, so that twice the bytes are sent.
    """
    if not step > 0 or (smoothing is not None and not 0 < smoothing <= 1):
        raise BadSetting(f"step must be above 0 and smoothing in (0, 1], got {step}, {smoothing}")
    if rows is not None and rows < 1:
        raise BadSetting(f"rows must be 1 or more, got {rows}")
    method = _neural(net, loss, Mean(weighing.cfa(epsilon)), start, **training)
    return _with_gradients(method, net, loss or cross_entropy(), step, smoothing, rows)


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


def _neural(net: Net, loss: Loss | None, rule: Mean, start: str, **options: Any) -> Method:
    if start not in STARTS:
        raise UnknownName("start", start, STARTS)
    chosen = cross_entropy() if loss is None else loss
    return trained(net, chosen, rule, start, training_of(options))


@cache
def trained(
    net: Net,
    loss: Loss,
    rule: Mean,
    start: str,
    training: Training,
    first: bool = True,
    **objective: Any,
) -> Method:
    """A node that trains a net on its rows and combines by a rule.

    `first`: it trains once before the first round. `objective`: a risk or a penalty, as `trainer`
    takes them; with a risk, values are {"net": weights, "t": threshold}. A message carries the
    node's data size and its last loss.
    """
    risky = objective.get("risk") is not None
    local = trainer(net, loss, training, **objective)

    def weights_of(value: Tree) -> Tree:
        return value["net"] if risky else value

    def begin(key: Array, shard: Shard) -> Trained:
        first_key, second, third = jax.random.split(key, 3)
        weights = net.init(jax.random.key(0) if start == "common" else first_key)
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
            # the first training whose loss was no number; -1: none
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
    return Method(init, message, rule, adapt, predict)
