"""The pieces of work behind the relay experiments; each gives plain arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import metrics
from peerwise.core import Inbox, Method, Shard, State, Tree
from peerwise.experiments.job import make_model, make_topology, run, split
from peerwise.experiments.setting import Setting
from peerwise.methods.relay import relay
from peerwise.shards import pack
from peerwise.simulate import simulate

__all__ = ["learn", "lied_to", "lying"]

Arrays = dict[str, np.ndarray]


def learn(
    data: str, method: str, partition: str, *, rounds: int = 256, every: int = 16, **more: Any
) -> Arrays:
    """Test error, a mean over nodes, and its spread over them: [repetitions, recorded rounds]."""
    told: dict[str, Any] = {"data": data, "method": method, "partition": partition, **more}
    done = run(Setting(**told, rounds=rounds, record=every))
    error = done.values["test_error"]
    return {
        "rounds": done.rounds,
        "error": error.mean(-1),
        "spread": error.std(-1),
        "message_bytes": np.array(done.bytes_per_link),
    }


def lying(method: Method, name: int, push: float) -> Method:
    """Relay with one liar: in every round it says that more was summed by `push`, in norm."""
    honest: Any = method.reply

    def reply(state: State, shard: Shard, heard: Inbox) -> Tree:
        told = honest(state, shard, heard)
        steps = told["sum"]["steps"]
        way = jax.random.normal(jax.random.key(0), steps.shape, steps.dtype)
        far = push * told["clock"].astype(steps.dtype)
        lies = told["name"] == jnp.uint32(name)
        more = jnp.where(lies, far, 0) * way / jnp.linalg.norm(way)
        return {**told, "sum": {**told["sum"], "steps": steps + more}}

    return method._replace(reply=reply)


def lied_to(
    data: str,
    partition: str,
    push: float,
    clip: float | None,
    *,
    nodes: int = 50,
    rows: int = 50,
    rounds: int = 256,
    every: int = 16,
    test_rows: int = 2000,
    repetitions: int = 2,
    seed: int = 0,
) -> Arrays:
    """Test error of the honest nodes [repetitions, recorded rounds] beside a liar, a leaf."""
    told: dict[str, Any] = {"data": data, "partition": partition, "nodes": nodes, "rows": rows}
    s = Setting(**told, method="relay", test_rows=test_rows, seed=seed)
    at = list(range(every, rounds + 1, every))
    found = []
    for r in range(repetitions):
        part, graph = split(s, r), make_topology(s, r)
        method = relay(make_model(s, part), lr=s.lr, clip=clip, warm=0.0)
        shards = pack(part.x, part.y, part.owned)
        names = simulate(method, shards, graph, 1, seed=r).state.value["relay"]["name"]
        liar = _leaf(graph)
        probe = metrics.errors("test", part.x_test, part.y_test)
        false = lying(method, int(names[liar]), push) if push else method
        done = simulate(false, shards, graph, rounds, seed=r, at=at, probe=probe)
        error = np.asarray(done.history["adapt"]["test_error"])
        found.append(np.delete(error, liar, axis=1).mean(1))
    return {"rounds": np.array(at), "error": np.stack(found)}


def _leaf(graph: Any) -> int:
    """The first node with one neighbour."""
    src = np.asarray(graph(jax.random.key(0), 0).src)
    return int(np.bincount(src).argmin())
