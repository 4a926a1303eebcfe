"""Gradient tracking of calibration: neighbours average statistics and the mean step of all.

As in NEXT and DIGing (Di Lorenzo and Scutari 2016; Nedić, Olshevsky and Shi 2017), with calibration
steps for gradients. Where CRC moves a node by its own step, here it moves by an estimate of the
mean step of all nodes, which neighbours average too: nodes that differ then meet where RC stands.
Where messages are lost the mean is no longer kept. A message is twice as long as CRC's.
"""

from functools import cache

import jax.numpy as jnp

from peerwise.combine import weigh as weighing
from peerwise.core import Array, Mean, Message, Method, Shard, State, Tree
from peerwise.errors import BadSetting
from peerwise.models.family import Model, log_posterior, moved
from peerwise.update.calibrate import correction

__all__ = ["gradient_tracking"]


@cache
def gradient_tracking(model: Model, *, lr: float = 0.05, rows: int, nodes: int) -> Method:
    """s <- W(s + y), y <- W y + g(s) - g(s before): y follows the mean of all nodes' steps g.

    W are Metropolis weights (needs `topology.metropolis`). Statistics are worth
    rows / (lr nodes), as CRC's are.
    """
    for name, given in (("lr", lr), ("rows", rows), ("nodes", nodes)):
        if not given > 0:
            raise BadSetting(f"{name} must be greater than 0, got {given}")
    step = correction(model)

    def init(key: Array, shard: Shard) -> State:
        start = model.uniform(rows / (lr * nodes), shard.x.dtype)
        change, _, guards = step(start, shard)
        memory = {"step": change, "guards": guards.astype(jnp.int32)}
        return State({"statistics": start, "mean_step": change}, memory)

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {})

    def adapt(key: Array, state: State, shard: Shard) -> State:
        mean_step = state.value["mean_step"]
        s = moved(state.value["statistics"], mean_step)
        change, _, guards = step(s, shard)
        value = {"statistics": s, "mean_step": mean_step + change - state.memory["step"]}
        return State(value, {"step": change, "guards": state.memory["guards"] + guards})

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_posterior(model, value["statistics"], x)

    return Method(init, message, Mean(weighing.metropolis()), adapt, predict)
