"""Collaborative risk-based calibration (CRC) and the references it is measured against.

"Decentralized Federated Learning of Probabilistic Generative Classifiers" (Pérez, Echegoyen,
Santafé): nodes average the statistics of their neighbours (Algorithm 2) and calibrate them on
their own rows (Algorithm 3). With a complete graph that includes the node itself this is exactly
the centralised calibration RC (Theorem 1).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.combine import weigh as weighing
from peerwise.core import Array, Mean, Message, Method, Shard, State, Tree
from peerwise.errors import BadSetting, UnknownName
from peerwise.models.family import Model, log_posterior, statistics
from peerwise.update.calibrate import calibrate, soft_error

__all__ = ["crc", "isolated", "ml", "rc"]


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise BadSetting(f"{name} must be greater than 0, got {value}")


def _method(model: Model, start: Callable[[Shard], Tree], iterations: int, rule: Any) -> Method:
    """Calibration of statistics between neighbours, from `start(shard)`."""
    if iterations < 1:
        raise BadSetting(f"iterations must be 1 or more, got {iterations}")
    update = calibrate(model, iterations)
    # a pass over the rows more, so that only a rule that reads losses is told them
    told = ("size", "loss") if getattr(rule, "note", None) == "loss" else ("size",)

    def seen(value: Tree, shard: Shard) -> dict[str, Array]:
        return {"loss": soft_error(model, value, shard)} if "loss" in told else {}

    def init(key: Array, shard: Shard) -> State:
        memory = {"size": shard.weight.sum(), "guards": jnp.zeros((), jnp.int32)}
        value = start(shard)
        return State(value, {**memory, **seen(value, shard)})

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {name: state.memory[name] for name in told})

    def adapt(key: Array, state: State, shard: Shard) -> State:
        value, guards = update(state.value, shard)
        memory = {**state.memory, "guards": state.memory["guards"] + guards}
        return State(value, {**memory, **seen(value, shard)})

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_posterior(model, value, x)

    return Method(init, message, Mean(rule), adapt, predict)


@cache
def crc(
    model: Model,
    *,
    m0: float | None = None,
    lr: float | None = None,
    rows: int | None = None,
    nodes: int | None = None,
    iterations: int = 1,
    include_self: bool = False,
    weigh: str | weighing.Weigh = "equal",
    alpha: float = 0.3,
) -> Method:
    """CRC: average what the neighbours say, then calibrate on one's own rows.

    `m0` is the equivalent sample size of the statistics, their inertia: a node of m_v rows moves
    them by m_v / m0. Give it, or `lr` with the network's `rows` and `nodes`: then
    m0 = rows / (lr nodes).
    `weigh`: "equal" (the paper's), "metropolis" (needs `topology.metropolis`), "data_size", "worst"
    (only the share `alpha` of the largest soft errors, the node's own among them, as CVaR-CVaR
    selects), or a weigh rule. `include_self` is what Theorem 1 needs; the paper's Algorithm 2
    leaves it out.
    The same arguments give the same object, so the simulator does not compile twice.
    """
    if (m0 is None) == (lr is None):
        raise BadSetting("give either m0 or lr, not both and not neither")
    if lr is not None:
        if rows is None or nodes is None:
            raise BadSetting("lr needs the network's rows and nodes: m0 = rows / (lr nodes)")
        _positive(lr=lr, rows=rows, nodes=nodes)
        m0 = rows / (lr * nodes)
    assert m0 is not None
    _positive(m0=m0)

    def start(shard: Shard) -> Tree:
        return model.uniform(m0, shard.x.dtype)

    return _method(model, start, iterations, _weigh_rule(weigh, include_self, alpha))


def _weigh_rule(weigh: str | weighing.Weigh, include_self: bool, alpha: float) -> weighing.Weigh:
    if callable(weigh):
        return weigh
    rules: dict[str, Callable[[], weighing.Weigh]] = {
        "equal": lambda: weighing.equal(include_self),
        "data_size": lambda: weighing.data_size(include_self),
        "metropolis": weighing.metropolis,
        "worst": lambda: weighing.worst(alpha),
    }
    if weigh not in rules:
        raise UnknownName("weigh rule", weigh, rules)
    return rules[weigh]()


def _own_start(model: Model, lr: float, start: str) -> Callable[[Shard], Tree]:
    """Statistics worth m_v / lr rows: adding the shard's own then moves them by lr, as RC does."""
    _positive(lr=lr)
    if start not in ("uniform", "ml"):
        raise UnknownName("start", start, ["uniform", "ml"])

    def make(shard: Shard) -> Tree:
        if start == "ml":
            return jax.tree.map(lambda sums: sums / lr, statistics(model, *shard))
        rows = jnp.maximum(shard.weight.sum(), 1)  # a node without rows starts somewhere too
        return model.uniform(rows / lr, shard.x.dtype)

    return make


@cache
def isolated(
    model: Model, *, lr: float = 0.05, iterations: int = 1, start: str = "uniform"
) -> Method:
    """Every node calibrates alone, whatever the network: what joining it should improve upon."""
    return _method(model, _own_start(model, lr, start), iterations, weighing.alone())


@cache
def rc(model: Model, *, lr: float = 0.05, start: str = "uniform", iterate: str = "last") -> Method:
    """RC (Algorithm 1): calibration of one node, meant for all rows pooled on it.

    `start`: "uniform" (what Theorem 1 compares with) or "ml" (as Algorithm 1 is printed).
    `iterate`: "last", or "best", the one with the lowest soft error on the rows so far.
    """
    last = isolated(model, lr=lr, start=start)
    if iterate == "last":
        return last
    if iterate != "best":
        raise UnknownName("iterate", iterate, ["last", "best"])

    def init(key: Array, shard: Shard) -> State:
        state = last.init(key, shard)
        soft = soft_error(model, state.value, shard)
        return State({"now": state.value, "best": state.value}, {**state.memory, "soft": soft})

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {"size": state.memory["size"]})

    def adapt(key: Array, state: State, shard: Shard) -> State:
        old = state.memory["soft"]
        moved = last.adapt(key, State(state.value["now"], state.memory), shard)
        new = soft_error(model, moved.value, shard)
        better = partial(jnp.where, new < old)
        best = jax.tree.map(better, moved.value, state.value["best"])
        memory = {**moved.memory, "soft": jnp.minimum(new, old)}
        return State({"now": moved.value, "best": best}, memory)

    def predict(key: Array, value: dict[str, Tree], x: Array) -> Array:
        return log_posterior(model, value["best"], x)

    return Method(init, message, last.combine, adapt, predict)


@cache
def ml(model: Model) -> Method:
    """Maximum likelihood of each node's own rows: one pass, nothing to calibrate."""
    base = isolated(model)

    def init(key: Array, shard: Shard) -> State:
        return base.init(key, shard)._replace(value=statistics(model, *shard))

    def adapt(key: Array, state: State, shard: Shard) -> State:
        return state

    return base._replace(init=init, adapt=adapt)
