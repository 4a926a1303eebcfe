"""Metrics by name: what a run can record of its nodes.

A metric that asks for `log_prob` is given one node's predictions for the test rows and gives a
number. Any other gives a probe, which reads the whole network.
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le
from jax.tree_util import Partial

from peerwise.core import Array, Method, State, Tree
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
    """How often guards had to correct each node's parameters so far."""
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


@declares("metric")
def auprc(log_prob: Array, y_test: Array) -> Array:
    """Area under the precision-recall curve of each class (average precision), mean of classes."""
    hot = jax.nn.one_hot(y_test, log_prob.shape[1], dtype=log_prob.dtype)  # [m, c]

    def average_precision(score: Array, label: Array) -> Array:
        order = jnp.argsort(-score)
        score, label = score[order], label[order]
        # rows of one score pass the threshold together: all count as its last
        last = jnp.searchsorted(-score, -score, side="right") - 1
        precision = jnp.cumsum(label) / jnp.arange(1, len(label) + 1, dtype=label.dtype)
        return (precision[last] * label).sum() / jnp.maximum(label.sum(), 1)

    area, present = jax.vmap(average_precision, 1)(log_prob, hot), hot.sum(0) > 0
    return jnp.where(present, area, 0).sum() / jnp.maximum(present.sum(), 1)


@declares("metric")
def brier(log_prob: Array, y_test: Array) -> Array:
    """Brier score: squared distance of the probabilities from the true class, mean of the rows."""
    hot = jax.nn.one_hot(y_test, log_prob.shape[1], dtype=log_prob.dtype)
    return jnp.square(jnp.exp(log_prob) - hot).sum(1).mean()


@declares("metric")
def nll(log_prob: Array, y_test: Array) -> Array:
    """Negative log-likelihood of the true class, mean of rows; no p counts as less than 1e-15."""
    # a class that no training row has is beyond the last: its probability is 0
    chosen = jnp.take_along_axis(log_prob, y_test[:, None], 1, mode="fill", fill_value=-jnp.inf)
    return -jnp.maximum(chosen, jnp.log(jnp.asarray(probes.LEAST, log_prob.dtype))).mean()


@declares("metric")
def ece(
    log_prob: Array, y_test: Array, *, bins: Annotated[int, Ge(1), "bins of the confidence"] = 15
) -> Array:
    """Expected calibration error: how far confidence is from accuracy, over bins of equal width."""
    confidence = jnp.exp(log_prob.max(1))
    off = (log_prob.argmax(1) == y_test).astype(log_prob.dtype) - confidence
    place = jnp.clip(jnp.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    return jnp.abs(jnp.zeros(bins, off.dtype).at[place].add(off)).sum() / len(off)


class _Spread(NamedTuple):
    """A summary of the nodes' test errors; of the same options they are equal: one program."""

    share: float

    def __call__(self, errors: Any, method: Method, state: State) -> Tree:
        error = errors(method, state)["test_error"]  # [nodes]
        few = max(1, int(self.share * len(error) + 1e-9))
        return {
            "worst_node": jnp.sort(error)[-few:].mean(),
            "node_span": error.max() - error.min(),
        }


@declares("metric")
def fairness(
    x_test: Array,
    y_test: Array,
    *,
    share: Annotated[float, Gt(0), Le(1), "of the nodes, which count as the worst"] = 0.1,
) -> Any:
    """Test error of the worst nodes, and the difference between the worst and the best node."""
    return Partial(_Spread(share), probes.errors("test", x_test, y_test))
