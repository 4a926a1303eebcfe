"""Monte Carlo of Federated naive Bayes: thousands of nodes and trials in compiled chunks.

A trial deals the rows anew, adds each node's noise and measures the model of the sum. Noise of
equal scale at all nodes is drawn as one sum (exactly in law); noise whose scale differs from node
to node is drawn for each. The same unit noise serves every epsilon, whose only part is its scale.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import data, partition
from peerwise.core import Array
from peerwise.errors import BadData
from peerwise.methods.releasing import CLAMP, clamped, never_silent
from peerwise.models.family import Model, statistics
from peerwise.models.naive_bayes import naive_bayes
from peerwise.privacy.budget import Queries
from peerwise.privacy.mechanism import laplace, summed_laplace

SIZES: dict[str, Callable[..., np.ndarray]] = {  # how many rows each node has
    "uniform": partition.uniform_sizes,
    "exponential": partition.exponential_sizes,
}
MEMORY = 256 * 2**20  # bytes that a chunk of trials may take
SPLIT_SEED = 42  # of the sets that come without a split, as in the paper


class Problem(NamedTuple):
    """A data set as the paper uses it: numbers raw, categories as the source declares them."""

    name: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    schema: data.Schema

    @property
    def model(self) -> Model:
        """Naive Bayes with the paper's floor of 1e-6 for counts and variances."""
        return self.floored(1e-6)

    @property
    def queries(self) -> Queries:
        """What nodes are asked for."""
        return Queries(self.schema.cardinalities, len(self.schema.classes))

    def floored(self, rows: float) -> Model:
        """Naive Bayes in which no category is rarer than so many rows."""
        floors: Any = {"smallest_share": rows / len(self.y), "smallest_variance": 1e-6}
        return naive_bayes(self.schema.cardinalities, len(self.schema.classes), **floors)


@cache
def problem(name: str) -> Problem:
    """The data set with its own split, or with 1 row in 10 to test on."""
    encoded = data.encode(data.load(name), typing="manifest")
    if np.isnan(encoded.x).any():
        raise BadData(f"'{name}' has missing numbers, for which there is no noise; fill them in")
    x, y = encoded.x.astype(float), encoded.y
    if encoded.split is not None:
        train = np.asarray(encoded.split) == "train"
    else:
        order = np.random.default_rng(SPLIT_SEED).permutation(len(y))
        train = np.zeros(len(y), bool)
        train[order[: len(y) * 9 // 10]] = True
    return Problem(name, x[train], y[train], x[~train], y[~train], encoded.schema)


def score(model: Model, s: Array, phi: Array, y: Array) -> Array:
    """Accuracy of the model that statistics make, on rows of some features and classes."""
    return (jnp.matmul(phi, model.theta(s).weight.T).argmax(1) == y).mean()


@cache
def _compiled(model: Model, nodes: int, clamp: bool) -> Callable[..., Any]:
    queries = Queries(model.cardinalities, model.classes)
    numbers = len(queries.numeric)
    cells = queries.size - 2 * numbers

    def noise_of(key: Array, x: Array, y: Array, owner: Array) -> Array:
        """Unit noise of the sum [c, q], or of every node [n, c, q] where nodes clamp."""
        second, third = jax.random.split(key)
        place = owner * model.classes + y
        sizes = jnp.abs(x[:, queries.numeric])
        top = jnp.maximum(jax.ops.segment_max(sizes, place, nodes * model.classes), 0)
        top = top.reshape(nodes, model.classes, numbers)
        reach = never_silent(jnp.concatenate([top, top**2], -1))
        drawn = reach * laplace(second, jnp.ones(reach.shape, x.dtype), x.dtype)
        if not clamp:
            ones = jnp.ones((model.classes, cells), x.dtype)
            counts = summed_laplace(third, nodes, ones, x.dtype)
            return jnp.concatenate([counts[:, :1], drawn.sum(0), counts[:, 1:]], 1)
        counts = laplace(third, jnp.ones((nodes, model.classes, cells), x.dtype), x.dtype)
        return jnp.concatenate([counts[..., :1], drawn, counts[..., 1:]], -1)

    def run(keys: Array, owners: Array, rows: Any, phi: Array, y_test: Array, scale: Array) -> Any:
        x, y, features = rows

        def trial(args: Any) -> Any:
            key, owner = args
            noise = noise_of(key, x, y, owner)
            if clamp:
                place = owner * model.classes + y
                own = jax.ops.segment_sum(features, place, nodes * model.classes)
                own = own.reshape(nodes, model.classes, -1)
                sums = jax.lax.map(lambda b: clamped(own + noise * b, queries).sum(0), scale)
            else:
                exact = jax.ops.segment_sum(features, y, model.classes)
                sums = exact[None] + noise[None] * scale[:, None, None]
            return jax.lax.map(lambda s: score(model, s, phi, y_test), sums)

        return jax.lax.map(trial, (keys, owners))

    return jax.jit(run)


def _owners(rng: np.random.Generator, kind: str, nodes: int, rows: int, trials: int) -> np.ndarray:
    """The node of each row [trials, rows], dealt at random.

    Drawn here: a shuffle of JAX takes forty times as long on a CPU as all else in a trial.
    """
    names = np.arange(nodes, dtype=np.int32)
    equal = (np.arange(rows, dtype=np.int64) * nodes // rows).astype(np.int32)

    def one() -> np.ndarray:
        if kind == "equal":
            return rng.permutation(equal)
        return rng.permutation(np.repeat(names, SIZES[kind](rng, nodes, rows, 2)))

    return np.stack([one() for _ in range(trials)])


def federated(
    task: Problem,
    nodes: int,
    epsilons: Any,
    trials: int,
    *,
    sizes: str = "equal",
    clamp_at_node: bool = False,
    seed: int = 0,
) -> np.ndarray:
    """Accuracy of Federated naive Bayes [epsilons, trials]: local sensitivities, an even budget."""
    if 2 * nodes > len(task.y):
        raise BadData(f"{task.name} has {len(task.y)} rows: too few for {nodes} nodes of two")
    model = task.model
    rng = np.random.default_rng([seed, nodes])
    with jax.enable_x64(True):
        x, y = jnp.asarray(task.x), jnp.asarray(task.y)
        phi, y_test = model.features(jnp.asarray(task.x_test)), jnp.asarray(task.y_test)
        features = model.features(x)
        scale = jnp.asarray(len(task.queries) / np.asarray(epsilons, float))
        run = _compiled(model, nodes, clamp_at_node)
        key = jax.random.key(seed)
        held = x.size * 8 * 2 + nodes * model.classes * model.size * 8 * (4 if clamp_at_node else 1)
        chunk = int(np.clip(MEMORY // max(held, 4 * len(y)), 1, 50))
        scores = []
        for start in range(0, trials, chunk):
            count = min(chunk, trials - start)
            keys = jax.vmap(partial(jax.random.fold_in, key))(start + jnp.arange(count))
            owners = jnp.asarray(_owners(rng, sizes, nodes, len(y), count))
            scores.append(jax.device_get(run(keys, owners, (x, y, features), phi, y_test, scale)))
    return np.concatenate(scores).T


def vanilla(task: Problem) -> float:
    """Accuracy of naive Bayes on all rows without noise."""
    with jax.enable_x64(True):
        model = task.model
        s = statistics(model, jnp.asarray(task.x), jnp.asarray(task.y), jnp.ones(len(task.y)))
        phi = model.features(jnp.asarray(task.x_test))
        return float(score(model, s, phi, jnp.asarray(task.y_test)))


@cache
def _vaidya_compiled(model: Model) -> Callable[..., Any]:
    queries = Queries(model.cardinalities, model.classes)

    def run(
        keys: Array, s: Array, reach: Array, rows: Array, phi: Array, y: Array, b: Array
    ) -> Any:
        n = s[:, :1]
        mean = s[:, queries.first] / n
        var = s[:, queries.second] / n - mean**2

        def one(key: Array, scale: Array) -> Array:
            counts, means, spreads = jax.random.split(key, 3)
            noisy = s + scale * laplace(counts, jnp.ones(s.shape, s.dtype), s.dtype)
            kept = jnp.maximum(noisy, CLAMP)
            mean_ = mean + laplace(means, scale * reach, s.dtype)
            var_ = var + laplace(spreads, scale * jnp.sqrt(rows) * reach, s.dtype)
            var_ = jnp.maximum(var_, 1e-6)
            private = kept.at[:, queries.first].set(kept[:, :1] * mean_)
            private = private.at[:, queries.second].set(kept[:, :1] * (var_ + mean_**2))
            return score(model, private, phi, y)

        return jax.lax.map(lambda key: jax.lax.map(partial(one, key), b), keys)

    return jax.jit(run)


def vaidya(task: Problem, epsilons: Any, trials: int, *, seed: int = 0) -> np.ndarray:
    """The centralised baseline of Vaidya et al. (2013), as the paper's authors have it.

    One learner with all rows adds noise to counts, to means (sensitivity range / (rows + 1)) and
    to variances (the square root of rows times that). Ranges are those of the rows: not private.
    """
    model, queries = task.model, task.queries
    with jax.enable_x64(True):
        x, y = task.x[:, queries.numeric], task.y
        ranges = [
            np.ptp(x[y == c], axis=0) if (y == c).any() else np.zeros(x.shape[1])
            for c in range(model.classes)
        ]
        reach = jnp.asarray(np.stack(ranges) / (len(y) + 1))
        s = statistics(model, jnp.asarray(task.x), jnp.asarray(y), jnp.ones(len(y)))
        keys = jax.random.split(jax.random.key(seed), trials)
        scale = jnp.asarray(len(queries) / np.asarray(epsilons, float))
        phi = model.features(jnp.asarray(task.x_test))
        run = _vaidya_compiled(model)
        rows = jnp.asarray(float(len(y)))
        scores = jax.device_get(run(keys, s, reach, rows, phi, jnp.asarray(task.y_test), scale))
    return np.asarray(scores).T
