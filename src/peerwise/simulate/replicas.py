"""Replicas of a run: lists of seeds, shards, topologies or probes as arrays with one more axis."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import runtime
from peerwise import topology as topologies
from peerwise.core import Array
from peerwise.errors import BadSetting
from peerwise.runtime import Probe
from peerwise.shards import Shards
from peerwise.topology import Topology

__all__ = ["Inputs", "count_replicas", "first_of", "inputs_of"]


class Inputs(NamedTuple):
    """What a run reads, on the device; what replicas do not share has an axis for them."""

    key: Array
    shards: Shards
    topology: Topology
    probe: Probe | None


def first_of(given: Any) -> Any:
    """The argument of the first replica."""
    return given[0] if isinstance(given, list) else given


def count_replicas(**given: Any) -> int | None:
    """How many replicas the lists among the arguments are of; None if there are none."""
    replicas = None
    for name, argument in given.items():
        if isinstance(argument, list):
            if not argument or (replicas is not None and len(argument) != replicas):
                raise BadSetting(
                    f"lists of replicas must have one length: {name} has {len(argument)}, "
                    f"another {replicas}"
                )
            replicas = len(argument)
    return replicas


def _stacked(name: str, trees: list[Any]) -> Any:
    shapes = [[np.shape(a) for a in jax.tree.leaves(tree)] for tree in trees]
    if any(s != shapes[0] for s in shapes):
        raise BadSetting(
            f"replicas must have equal shapes, and those of {name} differ: run them one by one"
        )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def inputs_of(
    seed: Any, shards: Any, topology: Any, probe: Any, dtype: np.dtype
) -> tuple[Inputs, tuple[int | None, ...] | None]:
    """The inputs of a run and the axis of replicas in each; no axes at all without replicas."""
    given = Inputs(seed, shards, topology, probe)
    listed = [isinstance(argument, list) for argument in given]
    key = jnp.stack([runtime.as_key(s) for s in seed]) if listed[0] else runtime.as_key(seed)
    if listed[1]:
        shards = _stacked("shards", [runtime.cast(s, dtype) for s in shards])
    else:
        shards = runtime.cast(shards, dtype)
    topology = topologies.stack(topology) if listed[2] else topology
    if listed[3]:
        probe = _stacked("probe", [runtime.as_probe(p, dtype) for p in probe])
    else:
        probe = runtime.as_probe(probe, dtype)
    axes = tuple(0 if replicated else None for replicated in listed)
    return Inputs(key, shards, topology, probe), axes if any(listed) else None
