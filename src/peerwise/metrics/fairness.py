"""How well a network serves its nodes: the spread over them, and every model on its own rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from peerwise.core import Array, Method, State
from peerwise.errors import BadData, BadSetting
from peerwise.metrics.checks import positive_number, same_length
from peerwise.metrics.probes import Fixed, each_node, judged

BLOCK = 128  # rows of each node scored at a time: bounds memory at nodes x BLOCK x columns


class Fairness(NamedTuple):
    """A summary of the nodes' accuracies: [...] without the axis of nodes."""

    mean: Any  # by data size (Acc_avg), or of all nodes alike
    worst: Any  # mean of the worst nodes
    std: Any  # standard deviation over the nodes, all alike
    span: Any  # the best node's less the worst's


def fairness(accuracy: Any, weights: Any = None, share: float = 0.1) -> Fairness:
    """Mean and spread of accuracies [..., nodes], and the mean of the worst `share` of the nodes.

    `weights` (data sizes), [nodes] or of accuracy's shape, count in the mean alone. The worst
    nodes are share x nodes, rounded down, and at least one.

    >>> shown = fairness([0.5, 0.9, 0.7], weights=[1, 2, 1])
    >>> [round(float(value), 3) for value in shown]
    [0.75, 0.5, 0.163, 0.4]
    """
    held = np.asarray(accuracy, float)
    if not held.ndim or not held.shape[-1]:
        raise BadData(f"accuracy must have a value for each node, got shape {held.shape}")
    if not np.isfinite(held).all():
        raise BadData("accuracies must be finite; leave out the nodes that have none")
    if not 0 < share <= 1:
        raise BadSetting(f"share must be above 0 and up to 1, got {share}")
    n = held.shape[-1]
    size = np.ones(n) if weights is None else np.asarray(weights, float)
    if size.shape not in ((n,), held.shape):
        raise BadData(f"weights must be one for each of {n} nodes, got shape {size.shape}")
    if not np.isfinite(size).all() or size.min() < 0 or not size.sum(-1).all():
        raise BadData("weights must be 0 or more, and not all 0")
    few = max(1, int(share * n + 1e-9))  # .29 x 100 is a little less than 29
    return Fairness(
        (held * size).sum(-1) / size.sum(-1),
        np.sort(held, -1)[..., :few].mean(-1),
        held.std(-1),
        np.ptp(held, -1),
    )


@each_node(a2=1)
def _own_rows(
    name: str, x: Array, y: Array, place: Array, method: Method, state: State
) -> dict[str, Array]:
    key = jax.random.key(0)  # as in errors

    def block(at: Array) -> Array:
        here, there = jnp.maximum(at, 0), at >= 0  # [n, b]
        log_prob = jax.vmap(lambda value, xs: method.predict(key, value, xs))(state.value, x[here])
        return jnp.where(there, jnp.stack(judged(log_prob, y[here])), 0).sum(-1)  # [3, n]

    total = jax.lax.map(block, place).sum(0)
    count = (place >= 0).sum((0, 2))[None]
    mean = jnp.where(count > 0, total / jnp.maximum(count, 1), jnp.nan)
    return {f"{name}_{what}": mean[i] for i, what in enumerate(("error", "soft_error", "log_loss"))}


def own_rows(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    owned: Sequence[Any],
    block: int = BLOCK,
    longest: int | None = None,
) -> Partial:
    """A probe of every node's model on rows of its own: node v's on `x[owned[v]], y[owned[v]]`.

    It records `{name}_error`, `{name}_soft_error` and `{name}_log_loss` as `errors` does, NaN for
    a node without rows. The table is held once; only row numbers are padded, to the longest list,
    and `block` rows of each node are gathered and scored at a time. The work is that of the
    longest list for every node. Probes of replicas side by side need equal shapes: give all of
    them the same `longest`, the length of the longest list of any.
    """
    same_length(len(x), len(y), "x")
    lists = [np.asarray(rows) for rows in owned]
    sizes = [rows.size for rows in lists]
    if not sum(sizes):
        raise BadData(f"no node has {name} rows of its own to be measured on")
    for v, rows in enumerate(lists):
        whole = not rows.size or rows.dtype.kind in "iu"
        if rows.ndim != 1 or not whole or np.any((rows < 0) | (rows >= len(y))):
            raise BadData(f"the {name} rows of node {v} must be row numbers 0 to {len(y) - 1}")
    length = max(sizes) if longest is None else longest
    if length < max(sizes):
        raise BadSetting(f"longest must be {max(sizes)} or more, the rows of a node, got {longest}")
    size = min(positive_number(block, "block"), length)
    blocks = -(-length // size)
    place = np.full((len(lists), blocks * size), -1, np.int32)  # -1: padding
    for v, rows in enumerate(lists):
        place[v, : rows.size] = rows
    cut = np.ascontiguousarray(place.reshape(len(lists), blocks, size).swapaxes(0, 1))
    return Partial(Fixed(_own_rows, (name,)), x, y.astype(np.int32), cut)
