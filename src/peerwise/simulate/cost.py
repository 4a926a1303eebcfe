"""What a round of a network costs, read off the program before it is run: FLOP, bytes, memory."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.core import Method, Tree
from peerwise.shards import Shards
from peerwise.simulate.nodes import Plan
from peerwise.simulate.program import advance_all, begin_all
from peerwise.simulate.replies import part_shape
from peerwise.topology import Topology
from peerwise.topology.links import late_links, two_way

# what only moves numbers
_MOVES = {
    "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "device_put",
    "dynamic_slice", "dynamic_update_slice", "gather", "iota", "optimization_barrier", "pad",
    "reshape", "rev", "scatter", "select_n", "slice", "squeeze", "stop_gradient", "transpose",
}  # fmt: skip


class Cost(NamedTuple):
    """Of one network, one repetition."""

    message: int  # bytes of one message, with its notes and reply
    flop: float  # a round, without measuring
    probe_flop: float  # of measuring all nodes once
    touched: int  # bytes that a round must read or write at least: states thrice, rows once
    rows: int  # bytes of all nodes' rows
    state: int  # bytes of what all nodes keep
    memory: int  # bytes on the device while rounds go on: arguments, results and temporaries


def cost_of(
    method: Method,
    shards: Shards,
    topology: Topology,
    *,
    channel: Channel | None = None,
    probe: Any = None,
    recorded: int = 1,
    stages: tuple[str, ...] = ("adapt",),
    precision: str = "float32",
    compiled: bool = True,
) -> Cost:
    """The cost of a round of `simulate` with these arguments; it is compiled and not run.

    Unless it is `compiled`, which takes seconds, the memory is not known: 0.

    FLOP are counted in the program: two for each product that is added, one for each other result
    of an operation on real numbers. A loop of unknown length counts once.
    """
    channel = perfect() if channel is None else channel
    plan = Plan(method, stages, False, channel.lag + 1 + (method.reply is not None))
    with runtime.precision_of(precision) as dtype:
        eye = None if probe is None else runtime.as_probe(probe, dtype)
        data = jax.tree.map(lambda a: _shape(a, dtype), shards)
        replies = method.reply is not None
        prepared = two_way(topology) if replies else late_links(topology, channel.lag)
        links = jax.tree.map(_shape, prepared)
        key, at = (
            jax.eval_shape(lambda: jax.random.key(0)),
            jax.ShapeDtypeStruct((recorded,), np.int32),
        )
        looks = jax.tree.map(_shape, eye)
        carry = jax.eval_shape(lambda *a: begin_all(plan, None, *a), key, data, links, looks, at)
        t = jax.ShapeDtypeStruct((), np.int32)
        given = key, data, links, jax.tree.map(_shape, channel), looks, at
        blind = key, data, links, jax.tree.map(_shape, channel), None, at
        traced = jax.make_jaxpr(lambda *a: advance_all(plan, None, *a))(carry, t, t, *blind)
        memory = 0
        if compiled:
            lowered = advance_all.lower(plan, None, carry, t, t, *given)
            memory = _memory(lowered.compile().memory_analysis())
        probed = 0.0
        if eye is not None:
            seen = jax.make_jaxpr(lambda p, s: p(method, s))(looks, carry.state)
            probed = flop_of(seen.jaxpr)
    rows, state = _bytes([g.shard for g in data.groups]), _bytes(carry.state)
    first, shard = _of_one(carry.state), _of_one(data.groups[0].shard)
    message = jax.eval_shape(method.message, key, first)
    size = runtime.size_of((message, part_shape(method, first, message, shard, 0)))
    return Cost(size, flop_of(traced.jaxpr), probed, 3 * state + rows, rows, state, memory)


def _memory(known: Any) -> int:
    """Bytes of arguments, results and temporaries."""
    parts = ("argument", "output", "temp")
    return sum(int(getattr(known, f"{part}_size_in_bytes", 0)) for part in parts)


def _of_one(tree: Tree) -> Tree:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), tree)


def _shape(a: Any, dtype: Any = None) -> jax.ShapeDtypeStruct:
    real = dtype is not None and jnp.issubdtype(a.dtype, jnp.floating)
    return jax.ShapeDtypeStruct(np.shape(a), dtype if real else a.dtype)


def _bytes(tree: Tree) -> int:
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in jax.tree.leaves(tree))


def flop_of(jaxpr: Any) -> float:
    """Operations on real numbers in a traced program."""
    total = 0.0
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        inner = list(_inner(eqn.params))
        if inner:
            counts = [flop_of(one) for one in inner]
            times = eqn.params.get("length", 1) if name == "scan" else 1
            # of several branches one is taken; a loop has a body and a condition
            total += max(counts) if name == "cond" else times * sum(counts)
        elif name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            shape = eqn.invars[0].aval.shape
            total += 2 * _real_size(eqn.outvars) * math.prod(shape[i] for i in contracted)
        elif name == "conv_general_dilated":
            kernel = eqn.invars[1].aval.shape
            out = eqn.params["dimension_numbers"].rhs_spec[0]
            total += 2 * _real_size(eqn.outvars) * math.prod(kernel) / max(kernel[out], 1)
        elif name.startswith(("reduce", "arg", "cum", "scatter")) and name not in _MOVES:
            total += _real_size(eqn.invars[-1:] if name.startswith("scatter") else eqn.invars[:1])
        elif name not in _MOVES:
            total += _real_size(eqn.outvars)
    return total


def _inner(params: dict[str, Any]) -> Iterator[Any]:
    """The programs within an operation."""
    for value in params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            program = getattr(one, "jaxpr", one)
            if hasattr(program, "eqns"):
                yield program


def _real_size(variables: Any) -> int:
    avals = [v.aval for v in variables]
    real = [a for a in avals if hasattr(a, "dtype") and jnp.issubdtype(a.dtype, jnp.floating)]
    return sum(math.prod(a.shape) for a in real)
