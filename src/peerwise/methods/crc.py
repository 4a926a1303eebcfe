"""Collaborative risk-based calibration (CRC) and the references it is measured against.

"Decentralized Federated Learning of Probabilistic Generative Classifiers" (Pérez, Echegoyen,
Santafé): nodes average the statistics of their neighbours (Algorithm 2) and calibrate them on
their own rows (Algorithm 3). With a complete graph that includes the node itself this is exactly
the centralised calibration RC (Theorem 1).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le

from peerwise.combine.weigh import Rule, alone
from peerwise.core import Array, Message, Method, Range, Shard, State, Tree
from peerwise.declare import declares, gives
from peerwise.errors import BadSetting
from peerwise.models.family import Model, log_posterior, statistics
from peerwise.update.calibrate import calibrate, soft_error

gives("method", Method)

# Bounds far beyond any use, within which the sums of statistics stay finite in float32
Rate: TypeAlias = Annotated[
    float, Ge(1e-9), Le(1000), "learning rate; m0 is then rows / (lr nodes)"
]
SampleSize: TypeAlias = Annotated[
    float | None, Gt(0), Le(1e12), "equivalent sample size of the statistics, instead of lr"
]
Iterations: TypeAlias = Annotated[int, Ge(1), "local calibrations a round"]
Start: TypeAlias = Annotated[Literal["uniform", "ml"], "where calibration starts"]


def sample_size(m0: float | None, lr: float, rows: int | None, nodes: int | None) -> float:
    """m0 if given, else the one with which a mean node moves its statistics by lr a round."""
    if m0 is not None:
        return m0
    if rows is None or nodes is None or min(rows, nodes) < 1:
        raise BadSetting(
            f"lr needs how many rows and nodes the network has, got {rows} and {nodes}; give them, "
            "or m0"
        )
    return rows / (lr * nodes)


def _method(model: Model, start: Callable[[Shard], Tree], iterations: int, rule: Any) -> Method:
    """Calibration of statistics between neighbours, from `start(shard)`."""
    update = calibrate(model, iterations)
    # the loss costs a pass over the rows, so that it is sent only if the rule reads it
    notes = ("size", "loss") if getattr(rule.weigh, "note", None) == "loss" else ("size",)

    def seen(value: Tree, shard: Shard) -> dict[str, Array]:
        return {"loss": soft_error(model, value, shard)} if "loss" in notes else {}

    def init(key: Array, shard: Shard) -> State:
        memory = {"size": shard.weight.sum(), "guards": jnp.zeros((), jnp.int32)}
        value = start(shard)
        return State(value, {**memory, **seen(value, shard)})

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {name: state.memory[name] for name in notes})

    def adapt(key: Array, state: State, shard: Shard) -> State:
        value, guards = update(state.value, shard)
        memory = {**state.memory, "guards": state.memory["guards"] + guards}
        return State(value, {**memory, **seen(value, shard)})

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_posterior(model, value, x)

    return Method(init, message, rule, adapt, predict, ranges=(Range("note.size", 0),))


@declares("method")
@cache
def crc(
    model: Model,
    rows: int | None = None,
    nodes: int | None = None,
    *,
    lr: Rate = 0.05,
    m0: SampleSize = None,
    iterations: Iterations = 1,
    rule: Rule = "equal",
) -> Method:
    """CRC: average the neighbours' statistics, then calibrate them on the node's own rows.

    `m0` is the equivalent sample size of the statistics, their inertia: a node of m_v rows moves
    them by m_v / m0. Without it `lr` and the network's `rows` and `nodes` give it.
    `rule`: "equal" is the paper's; with `include_self` it is what Theorem 1 needs (Algorithm 2
    leaves the node itself out); "worst" keeps only the share `alpha` of the largest soft errors, as
    CVaR-CVaR selects. The same arguments give the same object, so that nothing is compiled twice.
    """
    size = sample_size(m0, lr, rows, nodes)

    def start(shard: Shard) -> Tree:
        return model.uniform(size, shard.x.dtype)

    return _method(model, start, iterations, rule)


def _own_start(model: Model, lr: float, start: str) -> Callable[[Shard], Tree]:
    """Statistics worth m_v / lr rows: adding the shard's own then moves them by lr, as RC does."""

    def make(shard: Shard) -> Tree:
        if start == "ml":
            return jax.tree.map(lambda sums: sums / lr, statistics(model, *shard))
        rows = jnp.maximum(shard.weight.sum(), 1)  # a node without rows needs a start too
        return model.uniform(rows / lr, shard.x.dtype)

    return make


@declares("method", place="alone")
@cache
def isolated(
    model: Model, *, lr: Rate = 0.05, iterations: Iterations = 1, start: Start = "uniform"
) -> Method:
    """Every node calibrates alone, whatever the network: the baseline that joining should beat."""
    return _method(model, _own_start(model, lr, start), iterations, alone())


@declares("method", place="pooled", reference=True)
@cache
def rc(
    model: Model,
    *,
    lr: Rate = 0.05,
    start: Start = "uniform",
    iterate: Annotated[Literal["last", "best"], "which iterate counts"] = "last",
) -> Method:
    """RC (Algorithm 1): calibration of one node, meant for all rows pooled on it.

    `start`: "uniform" (what Theorem 1 compares with) or "ml" (as Algorithm 1 is printed).
    `iterate`: "last", or "best", the one with the lowest soft error on the rows so far.
    """
    last = isolated(model, lr=lr, start=start)
    if iterate == "last":
        return last

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


@declares("method", place="alone", rounds=0)
@cache
def isolated_ml(model: Model) -> Method:
    """Maximum likelihood of each node's own rows: one pass, nothing to calibrate."""
    base = isolated(model)

    def init(key: Array, shard: Shard) -> State:
        return base.init(key, shard)._replace(value=statistics(model, *shard))

    def adapt(key: Array, state: State, shard: Shard) -> State:
        return state

    return base._replace(init=init, adapt=adapt)


@declares("method", place="pooled", rounds=0)
def ml(model: Model) -> Method:
    """Maximum likelihood of all rows pooled: one pass, nothing to calibrate."""
    return isolated_ml(model)
