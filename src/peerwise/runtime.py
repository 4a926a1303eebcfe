"""What the runtimes share: checked arguments, precision, keys of the stages, counted bytes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from peerwise.core import Array, Method, Slots, State, Tree, node_key, on_device
from peerwise.errors import BadSetting, Diverged, UnknownName
from peerwise.topology import Topology

# A probe reads the whole network: method, state [n, ...] -> arrays, often one number per node.
Probe = Callable[[Method, State], Tree]

STAGES = ("combine", "adapt")  # when a probe can look: after hearing, after learning
INIT, MESSAGE, ADAPT, LINKS, CHANNEL, START = range(
    6
)  # every use of randomness has a key of its own


class Run(NamedTuple):
    """What a run ends with, everything in the order of the nodes."""

    state: State  # [n, ...]; [replicas, n, ...] with replicas
    rounds: int  # how many are done
    recorded: tuple[int, ...]  # after which rounds the probe looked
    history: dict[str, Tree]  # stage -> what the probe saw [recorded, ...]; replicas come first
    message_bytes: int  # of one message, its notes and its part
    messages: Any  # sent in all, an integer; [replicas] with replicas
    carry: Any = None  # what a resumed run goes on from


@contextmanager
def precision_of(name: str) -> Iterator[np.dtype]:
    """The floating-point type of a run; JAX's 64-bit mode is on for float64 only."""
    if name not in ("float32", "float64"):
        raise UnknownName("precision", name, ["float32", "float64"])
    with jax.enable_x64(name == "float64"):
        yield np.dtype(name)


def stage_key(key: Array, stage: int, t: Array | int, i: Array | int) -> Array:
    """The key with which node i does one thing in round t."""
    return node_key(jax.random.fold_in(key, stage), t, i)


def init_key(key: Array, i: Array | int, common: bool, numbered: bool = False) -> Array:
    """The key with which node i begins.

    Two if `common`, the second the same at all nodes, or if `numbered`, the second being i.
    """
    own = stage_key(key, INIT, 0, i)
    if numbered:
        data = jnp.zeros_like(jax.random.key_data(own)).at[-1].set(jnp.asarray(i, jnp.uint32))
        return jnp.stack([own, jax.random.wrap_key_data(data, impl=jax.random.key_impl(own))])
    return jnp.stack([own, stage_key(key, START, 0, 0)]) if common else own


def as_key(seed: int | Array) -> Array:
    """A JAX key from a seed or a key."""
    return jax.random.key(seed) if isinstance(seed, int | np.integer) else seed


def cast(tree: Tree, dtype: np.dtype) -> Tree:
    """The arrays of a tree on the device, real numbers in `dtype`."""
    return jax.tree.map(
        lambda a: on_device(a, dtype if jnp.issubdtype(a.dtype, jnp.floating) else None), tree
    )


def as_probe(probe: Probe | None, dtype: np.dtype) -> Probe | None:
    """A probe with its data in `dtype`; a plain function has none."""
    if probe is None:
        return None
    return cast(probe if isinstance(probe, Partial) else Partial(probe), dtype)


def float_of(tree: Tree) -> Any:
    """The floating-point type of the first real array of a tree."""
    floats = [a.dtype for a in jax.tree.leaves(tree) if jnp.issubdtype(a.dtype, jnp.floating)]
    return floats[0] if floats else jnp.float32


def check(
    method: Method,
    n: int,
    topology: Topology,
    lag: int,
    rounds: int,
    at: Sequence[int],
    stages: Any,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Rounds to record and stages, sorted; refuses what cannot run, before anything is compiled."""
    if rounds < 0:
        raise BadSetting(f"rounds must be 0 or more, got {rounds}")
    if topology.n != n:
        raise BadSetting(
            f"the topology has {topology.n} nodes and the data {n} shards; make them the same"
        )
    needed = getattr(method.combine.weigh, "links", None)
    if needed is not None and topology.weights != needed:
        raise BadSetting(
            f"this rule needs links with {needed} weights, and these are {topology.weights}: in "
            f"Python give topology.{needed}(...) of this graph"
        )
    if isinstance(method.combine, Slots) and method.combine.weigh is None and topology.server:
        raise BadSetting(
            "a rule over slots would count a node twice on a server, which sends its own message "
            'back to it: take topology = "complete"'
        )
    if getattr(method.combine.weigh, "own_share", False) and topology.server:
        raise BadSetting(
            "this rule gives every node a share of its own, and a server sends one mean to all: "
            'take topology = "complete"'
        )
    if method.reply is not None:
        if lag:
            raise BadSetting("a method with replies needs a channel without delay")
        if topology.server or len(topology.table) > 1 or topology.table[0][1].shape[-3] > 1:
            raise BadSetting(
                "a method with replies needs a fixed graph of comparable degrees: "
                "no server, no redrawn graph, no hub with far more neighbours than the rest"
            )
        src, dst, weight = (np.asarray(a).reshape(-1) for a in topology.links[:3])
        u, v = src[weight > 0].astype(np.int64), dst[weight > 0].astype(np.int64)
        if not np.array_equal(np.sort(u * n + v), np.sort(v * n + u)):
            raise BadSetting("a method with replies needs links in both directions")
    if isinstance(stages, str):
        stages = (stages,)
    for stage in stages:
        if stage not in STAGES:
            raise UnknownName("stage", stage, STAGES)
    wrong = [r for r in at if not 1 <= r <= rounds]
    if wrong:
        raise BadSetting(f"rounds to record must lie in 1..{rounds}, got {wrong[0]}")
    return tuple(sorted({int(r) for r in at})), tuple(s for s in STAGES if s in stages)


def check_losses(state: State) -> None:
    """Raise `Diverged` if the loss of a node that trains is infinite or NaN.

    A method that trains keeps in its memory which training broke first (`broke`, -1 for none;
    training 0 comes before the first round).
    """
    if not isinstance(state.memory, dict) or "broke" not in state.memory:
        return
    broke = np.asarray(state.memory["broke"])
    if (broke < 0).all():
        return
    *replica, node = np.argwhere(broke == broke[broke >= 0].min())[0].tolist()
    first = int(broke[broke >= 0].min())
    when = f"round {first}, while adapting" if first else "the training before round 1 (init)"
    raise Diverged(
        f"the loss of node {node}{f' of replica {replica[0]}' if replica else ''} became infinite "
        f"or NaN in {when}; {int((broke >= 0).sum())} of {broke.size} nodes broke down. "
        "Take a smaller lr, momentum or step"
    )


def size_of(tree: Tree) -> int:
    """Bytes of the arrays in a tree (or of their shapes)."""
    return sum(int(np.prod(a.shape)) * np.dtype(a.dtype).itemsize for a in jax.tree.leaves(tree))


def count_messages(topology: Topology, start: int, stop: int) -> int:
    """How many messages the links of rounds start..stop-1 carry."""
    graphs = np.asarray(topology.links.weight).reshape(-1, topology.links.weight.shape[-1])
    per_graph = (graphs > 0).sum(1) if not topology.server else np.full(len(graphs), 2 * topology.n)
    which = np.minimum(np.arange(start, stop) // int(topology.every), len(per_graph) - 1)
    return int(per_graph[which].sum())
