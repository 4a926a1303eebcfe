"""Probes that read a running network, and measures computed from their records.

A probe is a function of (method, state of all nodes). Its data are leaves of a pytree, not
constants of the compiled program: another data set of the same shape does not compile again.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from peerwise.core import Array, Method, State, Tree, near
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.metrics.checks import positive_number, same_length

LEAST = 1e-15  # a probability counts as at least this in the log-loss
BLOCK = 1024  # rows scored at a time: bounds memory at nodes x BLOCK x classes


class Fixed(NamedTuple):
    """A function with its first arguments; two with the same are equal, and one program."""

    function: Callable[..., Tree]
    given: tuple[Any, ...]

    @property
    def each_node(self) -> dict[int, int] | None:
        """That of the function (see `each_node`)."""
        return getattr(self.function, "each_node", None)

    def __call__(self, *args: Any) -> Tree:
        """What the function gives for its first arguments and these."""
        return self.function(*self.given, *args)


def each_node(**axes: int) -> Callable[[Any], Any]:
    """Mark a probe that records of a node what its own state gives, and nothing of the others.

    It can then look at a part of the network at a time. `axes`: a{i}=axis of the nodes in the
    probe's i-th array, where it has something for each of them.
    """

    def mark(function: Any) -> Any:
        function.each_node = {int(name[1:]): axis for name, axis in axes.items()}
        return function

    return mark


def split_probe(probe: Any) -> tuple[tuple[Partial, ...], Partial | None]:
    """A probe's parts that look at each node by itself, and one that does what the others do."""
    if probe is None:
        return (), None
    every = list(_listed(probe))
    each = tuple(p for p in every if getattr(p.func, "each_node", None) is not None)
    rest = [p for p in every if getattr(p.func, "each_node", None) is None]
    if not rest:
        return each, None
    return each, rest[0] if len(rest) == 1 else together(*rest)


def axes_of(probe: Partial) -> dict[int, int]:
    """Of a probe that looks at each node by itself: the axis of nodes in its arrays."""
    axes: dict[int, int] = getattr(probe.func, "each_node", {})
    return axes


def _listed(probe: Partial) -> Iterator[Partial]:
    if probe.func is _together:
        for one in probe.args[0]:
            yield from _listed(one)
    else:
        yield probe


def fine_rows(log_prob: Array) -> Array:
    """Which rows [.., c] have a prediction: a model that has broken down (NaN) has none."""
    return jnp.isfinite(log_prob).any(-1) & ~jnp.isnan(log_prob).any(-1)


def judged(log_prob: Array, y: Array) -> tuple[Array, Array, Array]:
    """Of every row [n, b, c]: whether it is wrong (0 or 1), 1 - p(y|x), -log p(y|x).

    A model that has broken down is wrong about everything. `y` is [n, b], or [1, b] for all.
    """
    right = log_prob.argmax(-1) == y
    # a class that no training row has is beyond the last: its probability is 0
    of_class = jnp.take_along_axis(log_prob, y[..., None], -1, mode="fill", fill_value=-jnp.inf)
    prob = jnp.exp(of_class)[..., 0]
    fine = fine_rows(log_prob)
    wrong = jnp.where(fine & right, 0.0, 1.0)
    surprise = -jnp.log(jnp.maximum(jnp.where(fine, prob, 0), LEAST))
    return wrong, jnp.where(fine, 1 - prob, 1), surprise


@each_node()
def _errors(
    name: str,
    classes: int,
    x: Array,
    y: Array,
    weight: Array,
    method: Method,
    state: State,
) -> Tree:
    key = jax.random.key(0)  # a prediction by sampling draws the same samples every time

    def block(rows: tuple[Array, Array, Array]) -> tuple[Array, ...]:
        xs, ys, ws = near(rows)  # which may lie in the host's memory
        log_prob = jax.vmap(lambda value: method.predict(key, value, xs))(state.value)  # [n, b, c]
        wrong, soft, surprise = (row * ws[None] for row in judged(log_prob, ys[None]))
        which = jax.nn.one_hot(ys, classes, dtype=wrong.dtype)
        by_class = jnp.matmul(wrong, which, precision="highest")  # [n, classes]
        return wrong.sum(1), soft.sum(1), surprise.sum(1), by_class

    wrong, soft, surprise, by_class = (s.sum(0) for s in jax.lax.map(block, (x, y, weight)))
    records = {
        f"{name}_error": wrong,
        f"{name}_soft_error": soft,
        f"{name}_log_loss": surprise,
    }
    if classes:
        y, weight = near((y, weight))
        which = jax.nn.one_hot(y.reshape(-1), classes, dtype=by_class.dtype)
        every = weight.reshape(-1).astype(by_class.dtype)
        share = jnp.matmul(every, which, precision="highest")
        records[f"{name}_class_error"] = by_class / jnp.where(share > 0, share, jnp.nan)[None]
    return records


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
    data = _in_blocks(name, "errors", x, y, weight, block)
    return Partial(Fixed(_errors, (name, classes)), *data)


def _in_blocks(
    name: str, what: str, x: Array, y: Array, weight: Array | None, block: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes and shares of the weight, [blocks, block, ...]; padding has no weight."""
    rows = len(y)
    if not rows:
        raise BadData(f"there are no {name} rows to measure {what} on")
    same_length(len(x), rows, "x")
    weight = np.ones(rows) if weight is None else np.asarray(weight, float)
    size = min(positive_number(block, "block"), rows)
    blocks = -(-rows // size)
    pad = blocks * size - rows

    def cut(a: np.ndarray) -> np.ndarray:
        wide = np.concatenate([a, np.zeros((pad, *a.shape[1:]), a.dtype)])
        return wide.reshape(blocks, size, *a.shape[1:])

    share = (weight / max(weight.sum(), 1e-300)).astype(
        np.float32 if x.dtype != np.float64 else float
    )
    return cut(x), cut(y.astype(np.int32)), cut(share)


@each_node()
def _calibration(
    name: str, bins: int, kept: bool, x: Array, y: Array, weight: Array, method: Method,
    state: State,
) -> Tree:  # fmt: skip
    key = jax.random.key(0)  # as in errors

    def predicted(xs: Array) -> Array:
        return jax.vmap(lambda value: method.predict(key, value, xs))(state.value)  # [n, b, c]

    seen = jax.eval_shape(predicted, x[0])
    nodes = jnp.arange(seen.shape[0])[:, None]
    edges = np.linspace(0, 1, bins + 1)[1:-1].astype(seen.dtype)

    def block(sums: tuple[Array, Array, Array], rows: tuple[Array, Array, Array]) -> Any:
        xs, ys, ws = rows
        log_prob = predicted(xs)
        truth = jax.nn.one_hot(ys, seen.shape[-1], dtype=seen.dtype)[None]
        # a model that has broken down is sure of a class that is wrong
        prob = jnp.where(
            fine_rows(log_prob)[..., None], jnp.exp(log_prob), jnp.roll(truth, 1, axis=-1)
        )
        sure, right = prob.max(-1), prob.argmax(-1) == ys[None]
        # what a bin adds to the error is |sum of (right - sure)|: no need for its count
        place = nodes, jnp.searchsorted(edges, sure)
        apart = sums[0].at[place].add((right - sure) * ws[None])
        surprise = -jnp.log(jnp.maximum((prob * truth).sum(-1), LEAST))
        unsure = jax.scipy.special.entr(prob).sum(-1)
        scores = jnp.stack([((prob - truth) ** 2).sum(-1), surprise, unsure])
        # not @, which a GPU may compute in less than single precision
        scored, held = sums[1] + (scores * ws[None, None]).sum(-1), sums[2]
        if kept:
            parts = jnp.stack([jnp.ones_like(sure), sure, right.astype(sure.dtype)], -1)
            held = held.at[place].add(parts * ws[None, :, None])
        return (apart, scored, held), None

    kind = jnp.result_type(seen.dtype, weight.dtype)
    # sums are carried from block to block: one for each would need more memory than a block
    n = seen.shape[0]
    held = jnp.zeros((n, bins if kept else 0, 3), kind)
    begun = jnp.zeros((n, bins), kind), jnp.zeros((3, n), kind), held
    (apart, scores, held), _ = jax.lax.scan(block, begun, (x, y, weight))
    return {
        **({f"{name}_bins": held} if kept else {}),
        f"{name}_ece": abs(apart).sum(1),
        f"{name}_brier": scores[0],
        f"{name}_nll": scores[1],
        f"{name}_entropy": scores[2],
    }


def calibration(
    name: str, x: np.ndarray, y: np.ndarray, bins: int = 15, block: int = BLOCK, kept: bool = False
) -> Partial:
    """A probe of the calibration of every node's probabilities, on the given rows.

    It records `{name}_ece` (bins of equal width), `{name}_brier`, `{name}_nll` and
    `{name}_entropy` (mean of the rows): what the functions `ece`, `brier`, `nll` and `entropy`
    give. A model that has broken down counts as sure of a wrong class. `block` rows are scored at
    a time by all nodes. `kept`: also `{name}_bins` [nodes, bins, 3], what a reliability diagram
    shows: the share of all rows that a bin holds, and its part of the mean confidence and accuracy.
    """
    data = _in_blocks(name, "calibration", x, y, None, block)
    return Partial(Fixed(_calibration, (name, positive_number(bins, "bins"), kept)), *data)


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


@each_node()
def _guards(method: Method, state: State) -> Tree:
    if not isinstance(state.memory, dict) or "guards" not in state.memory:
        raise BadSetting("the method counts no guards: leave the metric guards out")
    return {"guards": state.memory["guards"]}


def guards() -> Partial:
    """A probe of how often each node's parameters had to be made valid so far: `guards`."""
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
