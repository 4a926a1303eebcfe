"""What a page shows of a run beside its metrics: graph, who holds what, errors by class, bins.

All of it is of the first repetition: one network that can be drawn.
"""

from functools import partial
from typing import Any

import jax
import numpy as np

from peerwise.core import Method
from peerwise.learner.assemble import Assembled
from peerwise.learner.world import World
from peerwise.runtime import precision_of
from peerwise.topology import graph_of

MOST_EDGES = 20_000  # more cannot be told apart in a picture
MOST_NUMBERS = 10**9  # predicted at the end; more would take as long as many rounds
BINS = 15  # of the confidence
BLOCK = 4_000_000  # numbers predicted at a time


def of_rows(world: World, links: Any) -> dict[str, np.ndarray]:
    """The graph of the first round, and how many rows of each class every node holds."""
    classes = len(world.schema.classes)
    owner = np.repeat(np.arange(len(world.owned)), [len(rows) for rows in world.owned])
    y = world.y[np.concatenate(world.owned)] if len(world.owned) else world.y
    held = np.zeros((len(world.owned), classes), np.int64)
    fine = (y >= 0) & (y < classes)
    np.add.at(held, (owner[fine], y[fine].astype(int)), 1)
    details = {"held": held, "classes": np.array([str(c) for c in world.schema.classes])}
    if links.server or links.n < 2:
        return details
    graph = graph_of(links)
    count = graph.number_of_edges()
    edges = np.array(list(graph.edges), np.int64).reshape(-1, 2)
    return details | {
        "edges": edges if count <= MOST_EDGES else edges[:0],
        "links": np.array(count),
    }


def of_predictions(
    world: World, part: Assembled, state: tuple[Any, int], precision: str
) -> dict[str, np.ndarray]:
    """Errors of every node by class and the bins of a reliability diagram, on the test rows."""
    classes, rows = len(world.schema.classes), len(np.asarray(world.y_test))
    value = jax.tree.map(lambda a: np.asarray(a)[state[1]], state[0].value)
    nodes = int(jax.tree.leaves(value)[0].shape[0])
    if nodes * rows * classes > MOST_NUMBERS:
        return {}
    size = min(rows, max(1, BLOCK // (nodes * classes)))
    wrong, seen = np.zeros((nodes, classes)), np.zeros(classes)
    bins = np.zeros((BINS, 3))  # rows, sum of confidences, rows that are right
    x, y = np.asarray(world.x_test), np.asarray(world.y_test).astype(int)
    with precision_of(precision):
        for begin in range(0, rows, size):
            xs, ys = x[begin : begin + size], y[begin : begin + size]
            padded = np.concatenate([xs, np.zeros((size - len(xs), *xs.shape[1:]), xs.dtype)])
            log_prob = np.asarray(_predicted(part.method, value, padded))[:, : len(xs)]
            _add(log_prob, ys, wrong, seen, bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {"class_error": wrong / np.where(seen > 0, seen, np.nan), "bins": bins}


def _add(
    log_prob: np.ndarray, y: np.ndarray, wrong: np.ndarray, seen: np.ndarray, bins: np.ndarray
) -> None:
    """Count what nodes [n] say of rows [b] whose classes are y."""
    fine = np.isfinite(log_prob).any(-1) & ~np.isnan(log_prob).any(-1)
    best = np.where(np.isnan(log_prob), -np.inf, log_prob)
    right = fine & (best.argmax(-1) == y)
    known = y < len(seen)
    hot = np.eye(len(seen))[y[known]]
    wrong += (~right[:, known]) @ hot
    seen += hot.sum(0)
    # a model that has broken down is sure, and wrong
    sure = np.where(fine, np.exp(best.max(-1)), 1.0).clip(0, 1)
    place = np.clip(np.ceil(sure * BINS).astype(int) - 1, 0, BINS - 1).ravel()
    for column, weight in enumerate((np.ones(sure.size), sure.ravel(), right.ravel())):
        bins[:, column] += np.bincount(place, weight, BINS)


@partial(jax.jit, static_argnums=0)
def _predicted(method: Method, value: Any, x: Any) -> Any:
    key = jax.random.key(0)  # as the errors are measured
    return jax.vmap(lambda one: method.predict(key, one, x))(value)
