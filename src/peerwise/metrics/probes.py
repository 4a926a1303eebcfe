"""Probes that read a running network, and what is computed from what they saw.

A probe is a function of (method, state of all nodes). Its data are leaves of a pytree, not
constants of the compiled program: another data set of the same shape does not compile again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from peerwise.core import Array, Method, State, Tree
from peerwise.errors import BadData, UnknownName

__all__ = [
    "bytes_per_link",
    "consensus",
    "errors",
    "federated_weights",
    "gap",
    "guards",
    "node_std",
    "rounds_to_gap",
    "together",
]

LEAST = 1e-15  # a probability counts as at least this in the log-loss
BLOCK = 1024  # rows scored at a time: bounds memory at nodes x BLOCK x classes


def _errors(
    name: str,
    classes: int,
    x: Array,
    y: Array,
    weight: Array,
    method: Method,
    state: State,
) -> Tree:
    key = jax.random.key(0)  # prediction that samples draws the same samples every time

    def block(rows: tuple[Array, Array, Array]) -> tuple[Array, ...]:
        xs, ys, ws = rows
        log_prob = jax.vmap(lambda value: method.predict(key, value, xs))(state.value)  # [n, b, c]
        right = log_prob.argmax(-1) == ys[None]
        prob = jnp.exp(jnp.take_along_axis(log_prob, ys[None, :, None], -1))[..., 0]
        # a model that has broken down (NaN) is wrong about everything
        fine = jnp.isfinite(log_prob).any(-1) & ~jnp.isnan(log_prob).any(-1)
        wrong = jnp.where(fine & right, 0, ws[None])
        soft = jnp.where(fine, (1 - prob) * ws[None], ws[None])
        surprise = -jnp.log(jnp.maximum(jnp.where(fine, prob, 0), LEAST)) * ws[None]
        by_class = wrong @ jax.nn.one_hot(ys, classes, dtype=wrong.dtype)  # [n, classes]
        return wrong.sum(1), soft.sum(1), surprise.sum(1), by_class

    wrong, soft, surprise, by_class = (s.sum(0) for s in jax.lax.map(block, (x, y, weight)))
    found = {
        f"{name}_error": wrong,
        f"{name}_soft_error": soft,
        f"{name}_log_loss": surprise,
    }
    if classes:
        share = weight.reshape(-1) @ jax.nn.one_hot(y.reshape(-1), classes, dtype=weight.dtype)
        found[f"{name}_class_error"] = by_class / jnp.where(share > 0, share, jnp.nan)[None]
    return found


def errors(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None = None,
    block: int = BLOCK,
    classes: int = 0,
) -> Partial:
    """A probe of every node's model on the given rows: 0-1 and soft error, log-loss.

    It records `{name}_error`, `{name}_soft_error` (the mean of 1 - p(y|x)) and `{name}_log_loss`
    (of -log p(y|x)). Rows count equally, or by `weight`. `block` rows are scored at a time by all
    nodes: fewer need less memory. With the number of `classes` it also records
    `{name}_class_error` [nodes, classes], the 0-1 error on the rows of each class (NaN: no rows).
    """
    rows = len(y)
    if not rows:
        raise BadData(f"there are no {name} rows to measure errors on")
    weight = np.ones(rows) if weight is None else np.asarray(weight, float)
    size = min(block, rows)
    blocks = -(-rows // size)
    pad = blocks * size - rows

    def cut(a: np.ndarray) -> np.ndarray:
        wide = np.concatenate([a, np.zeros((pad, *a.shape[1:]), a.dtype)])
        return wide.reshape(blocks, size, *a.shape[1:])

    share = (weight / max(weight.sum(), 1e-300)).astype(
        np.float32 if x.dtype != np.float64 else float
    )
    return Partial(_Errors(name, classes), cut(x), cut(y.astype(np.int32)), cut(share))


class _Errors(NamedTuple):  # functions of the same name and classes are equal: one program
    name: str
    classes: int

    def __call__(self, *args: Any) -> Tree:
        return _errors(self.name, self.classes, *args)


def _consensus(method: Method, state: State) -> Tree:
    """Root mean square distance of the nodes' values from their mean, relative to the mean."""
    leaves = [a.reshape(a.shape[0], -1) for a in jax.tree.leaves(state.value)]
    values = jnp.concatenate(leaves, 1)
    mean = values.mean(0, keepdims=True)
    apart = jnp.sqrt(((values - mean) ** 2).sum(1).mean())
    return {"consensus_distance": apart / jnp.maximum(jnp.linalg.norm(mean), 1e-30)}


def consensus() -> Partial:
    """A probe of how far apart the nodes are: `consensus_distance`, 0 when they agree."""
    return Partial(_consensus)


def _guards(method: Method, state: State) -> Tree:
    return {"guards": state.memory["guards"]}


def guards() -> Partial:
    """A probe of how often each node's parameters had to be kept possible so far: `guards`."""
    return Partial(_guards)


def _together(probes: tuple[Callable[..., Tree], ...], method: Method, state: State) -> Tree:
    return {name: value for probe in probes for name, value in probe(method, state).items()}


def together(*probes: Callable[..., Tree]) -> Partial:
    """One probe that records what several do."""
    return Partial(_together, tuple(p if isinstance(p, Partial) else Partial(p) for p in probes))


def federated_weights(owner: np.ndarray, kind: str = "rows") -> np.ndarray:
    """Row weights of the federated error (equation 4): w_v = m_v/m ("rows") or 1/n ("nodes")."""
    if kind not in ("rows", "nodes"):
        raise UnknownName("kind of weights", kind, ["rows", "nodes"])
    if kind == "rows":
        return np.ones(len(owner))
    _, code, counts = np.unique(owner, return_inverse=True, return_counts=True)
    return 1 / counts[code]


def gap(error: np.ndarray, reference: Any) -> np.ndarray:
    """Mean error over nodes (last axis) above the reference."""
    return np.asarray(error).mean(-1) - np.asarray(reference)


def node_std(error: np.ndarray) -> np.ndarray:
    """Standard deviation of an error over the nodes (last axis)."""
    return np.asarray(error).std(-1)


def rounds_to_gap(
    error: np.ndarray, reference: float, rounds: Any, threshold: float = 0.01
) -> int | None:
    """The first recorded round whose mean error is within `threshold` of the reference.

    `error` is [rounds, nodes]; None if it never is.
    """
    close = np.flatnonzero(gap(error, reference) < threshold)
    return int(np.asarray(rounds)[close[0]]) if close.size else None


def bytes_per_link(run: Any) -> int:
    """Bytes that one directed link carries in one round of a run."""
    return int(run.message_bytes)
