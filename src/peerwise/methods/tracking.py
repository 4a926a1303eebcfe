"""Gradient tracking of calibration: neighbours average statistics and estimated mean steps.

As in NEXT and DIGing (Di Lorenzo and Scutari 2016; Nedić, Olshevsky and Shi 2017), with calibration
steps for gradients. Where CRC moves a node by its own step, here it moves by an estimate of the
mean step of all nodes, which neighbours average too: nodes that differ then reach RC's solution.
Where messages are lost the mean is not preserved. A message is twice as long as CRC's.
"""

from functools import cache
from typing import Annotated

import jax.numpy as jnp
from annotated_types import Ge, Le

from peerwise.combine.weigh import metropolis
from peerwise.core import Array, Message, Method, Shard, State, Tree
from peerwise.declare import declares
from peerwise.methods.crc import sample_size
from peerwise.models.family import Model, log_posterior, moved
from peerwise.update.calibrate import correction


@declares("method", needs=("metropolis",))
@cache
def gradient_tracking(
    model: Model,
    rows: int,
    nodes: int,
    *,
    lr: Annotated[float, Ge(1e-9), Le(1000), "learning rate"] = 0.05,
) -> Method:
    """s <- W(s + y), y <- W y + g(s) - g(s before): y follows the mean of all nodes' steps g.

    W are Metropolis weights (needs `topology.metropolis`). Statistics are worth
    rows / (lr nodes) rows, as CRC's are.
    """
    size = sample_size(None, lr, rows, nodes)
    step = correction(model)

    def init(key: Array, shard: Shard) -> State:
        start = model.uniform(size, shard.x.dtype)
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

    return Method(init, message, metropolis(), adapt, predict)
