"""The pieces of work behind the relay experiments; each gives plain arrays."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import learner
from peerwise.core import Array, Inbox, Method, Shard, State, Tree
from peerwise.learner.run import assembled, recorded
from peerwise.methods.crc import Rate, crc
from peerwise.methods.relay import warmth
from peerwise.models.family import Model, statistics
from peerwise.papers import learning
from peerwise.papers.items import Arrays, Description
from peerwise.simulate import simulate


def learn(description: Description, checkpoint: Path | None = None) -> Arrays:
    """Test error, a mean over nodes, and its spread over them: [repetitions, recorded rounds]."""
    learnt = learning.learn(description, checkpoint)
    error = learnt.outcome.values["test_error"]
    return {**learnt.about, "error": error.mean(-1), "spread": error.std(-1)}


def warm_crc(
    model: Model, rows: int, nodes: int, x: Array, y: Array, owned: Sequence[np.ndarray], *,
    lr: Rate = 0.05,
) -> Method:  # fmt: skip
    """CRC from relay's start: a method for comparison alone, since its nodes are told the start.

    Every node begins with relay's mix of uniform statistics and the maximum likelihood of all rows,
    which relay has only when its sums have arrived.
    """
    usual, share, held = crc(model, rows, nodes, lr=lr), warmth(model), np.concatenate(list(owned))
    sums = statistics(model, jnp.asarray(x)[held], jnp.asarray(y)[held], jnp.ones(len(held)))

    def init(key: Array, shard: Shard) -> State:
        state = usual.init(key, shard)
        value = jax.tree.map(
            lambda uniform, of_all: (1 - share) * uniform + share / (lr * nodes) * of_all,
            state.value,
            sums,
        )
        return state._replace(value=value)

    return usual._replace(init=init)


def lying(method: Method, name: int, push: float) -> Method:
    """Relay with one liar: in every round it says that more was summed by `push`, in norm."""
    honest: Any = method.reply

    def reply(state: State, shard: Shard, heard: Inbox) -> Tree:
        part = honest(state, shard, heard)
        steps = part["sum"]["steps"]
        way = jax.random.normal(jax.random.key(0), steps.shape, steps.dtype)
        far = push * part["clock"].astype(steps.dtype)
        lies = part["name"] == jnp.uint32(name)
        more = jnp.where(lies, far, 0) * way / jnp.linalg.norm(way)
        return {**part, "sum": {**part["sum"], "steps": steps + more}}

    return method._replace(reply=reply)


def lied_to(description: Description, push: float) -> Arrays:
    """Test error of the honest nodes [repetitions, recorded rounds] beside a liar, a leaf."""
    cell = learner.cell(description)
    at, errors = recorded(cell), []
    for seed, part in enumerate(assembled(cell)[1]):
        begun = simulate(part.method, part.shards, part.links, 1, seed=seed)
        names, liar = begun.state.value["relay"]["name"], _leaf(part.links)
        method = lying(part.method, int(names[liar]), push) if push else part.method
        done = simulate(
            method, part.shards, part.links, cell["run"]["rounds"], seed=seed, at=at,
            probe=part.probe,
        )  # fmt: skip
        error = np.asarray(done.history["adapt"]["test_error"])
        errors.append(np.delete(error, liar, axis=1).mean(1))
    return {"rounds": np.array(at), "error": np.stack(errors)}


def _leaf(graph: Any) -> int:
    """The first node with one neighbour."""
    src = np.asarray(graph(jax.random.key(0), 0).src)
    return int(np.bincount(src).argmin())
