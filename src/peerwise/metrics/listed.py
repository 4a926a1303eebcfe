"""Metrics by name: what a run can record of its nodes.

A metric that asks for `log_prob` is given one node's predictions for the test rows and gives a
number. Any other gives a probe, which reads the whole network.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from annotated_types import Ge

from peerwise.core import Array
from peerwise.declare import declares
from peerwise.metrics import probes


@declares("metric")
def errors(x_test: Array, y_test: Array) -> Any:
    """0-1 and soft error and log-loss of every node on the test rows; always recorded."""
    return probes.errors("test", x_test, y_test)


@declares("metric")
def class_errors(x_test: Array, y_test: Array, classes: int) -> Any:
    """0-1 error of every node on the test rows of each class."""
    return probes.errors("test", x_test, y_test, classes=classes)


@declares("metric")
def calibration(
    x_test: Array, y_test: Array, *, bins: Annotated[int, Ge(1), "bins of the confidence"] = 15
) -> Any:
    """Calibration error (ECE), Brier score, negative log-likelihood and entropy of every node."""
    return probes.calibration("test", x_test, y_test, bins=bins)


@declares("metric")
def consensus() -> Any:
    """How far apart the nodes' models are, relative to their mean; 0 when they agree."""
    return probes.consensus()


@declares("metric")
def guards() -> Any:
    """How often each node's parameters had to be made valid so far."""
    return probes.guards()


@declares("metric")
def auroc(log_prob: Array, y_test: Array) -> Array:
    """Area under the ROC curve of each class against the others, mean of the classes present."""
    hot = jax.nn.one_hot(y_test, log_prob.shape[1], dtype=log_prob.dtype)  # [m, c]

    def ranks(score: Array) -> Array:  # equal scores share their mean rank
        ordered = jnp.sort(score)
        below, upto = (jnp.searchsorted(ordered, score, side=s) for s in ("left", "right"))
        return (below + upto + 1).astype(score.dtype) / 2

    count = hot.sum(0)
    above = (jax.vmap(ranks, 1, 1)(log_prob) * hot).sum(0) - count * (count + 1) / 2
    pairs = count * (hot.shape[0] - count)
    area = above / jnp.maximum(pairs, 1)
    return jnp.where(pairs > 0, area, 0).sum() / jnp.maximum((pairs > 0).sum(), 1)


@declares("metric")
def balanced_accuracy(log_prob: Array, y_test: Array) -> Array:
    """Share of rows of a class that a node gets right, mean of the classes present."""
    hot = jax.nn.one_hot(y_test, log_prob.shape[1], dtype=log_prob.dtype)
    right = (log_prob.argmax(1) == y_test).astype(log_prob.dtype)
    count = hot.sum(0)
    recall = (hot * right[:, None]).sum(0) / jnp.maximum(count, 1)
    return recall.sum() / jnp.maximum((count > 0).sum(), 1)
