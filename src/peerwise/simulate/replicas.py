"""Replicas of a run: lists of seeds, shards, topologies or probes as arrays with one more axis."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from peerwise import runtime
from peerwise import topology as topologies
from peerwise.errors import BadSetting
from peerwise.runtime import Run


def first_of(given: Any) -> Any:
    """The argument of the first replica."""
    return given[0] if isinstance(given, list) else given


def count_replicas(**given: Any) -> int | None:
    """The number of replicas, the length of the lists among the arguments; None without a list."""
    replicas = None
    for name, argument in given.items():
        if not isinstance(argument, list):
            continue
        if not argument or (replicas is not None and len(argument) != replicas):
            raise BadSetting(
                f"lists of replicas must have one length: {name} has {len(argument)}, "
                f"another {replicas}"
            )
        replicas = len(argument)
    return replicas


def inputs_of(
    seed: Any, shards: Any, topology: Any, probe: Any, dtype: np.dtype
) -> tuple[tuple[Any, ...], tuple[int | None, ...] | None]:
    """What a run reads, on the device, and the axis of replicas in each; None without replicas."""
    keys = [runtime.as_key(s) for s in seed] if isinstance(seed, list) else runtime.as_key(seed)
    inputs = (
        jnp.stack(keys) if isinstance(keys, list) else keys,
        runtime.cast(_stacked("shards", shards), dtype),
        topologies.stack(topology) if isinstance(topology, list) else topology,
        runtime.as_probe(_stacked("probe", probe), dtype),
    )
    listed = [isinstance(given, list) for given in (seed, shards, topology, probe)]
    return inputs, tuple(0 if many else None for many in listed) if any(listed) else None


def _stacked(name: str, given: Any) -> Any:
    """Trees of like shapes as one, with a first axis; in NumPy, which compiles nothing."""
    if not isinstance(given, list):
        return given
    trees = [
        Partial(one) if callable(one) and not isinstance(one, Partial) else one for one in given
    ]
    shapes = [[np.shape(a) for a in jax.tree.leaves(tree)] for tree in trees]
    if any(s != shapes[0] for s in shapes):
        raise BadSetting(
            f"replicas must have equal shapes, and those of {name} differ: run them one by one"
        )
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def host_inputs(
    seed: Any, shards: Any, topology: Any, probe: Any, dtype: np.dtype
) -> tuple[Any, ...]:
    """What a run without replicas reads, in NumPy: no device has to hold all of it."""
    eye = probe if probe is None or isinstance(probe, Partial) else Partial(probe)
    return runtime.as_key(seed), host_cast(shards, dtype), topology, host_cast(eye, dtype)


def host_cast(tree: Any, dtype: np.dtype) -> Any:
    """As `runtime.cast`, in NumPy."""

    def one(a: Any) -> np.ndarray:
        kind = jax.dtypes.canonicalize_dtype(a.dtype)
        return np.asarray(a, dtype if np.issubdtype(kind, np.floating) else kind)

    return jax.tree.map(one, tree)


def in_turn(
    go: Callable[..., Run],
    replicas: int,
    given: dict[str, Any],
    resume: Run | None,
    checkpoint: str | Path | None,
    progress: Callable[[int], None] | None,
) -> Run:
    """Replicas one after the other, as one run: a network over many devices needs all of them."""
    runs: list[Run] = []
    for r in range(replicas):
        one = {name: g[r] if isinstance(g, list) else g for name, g in given.items()}
        before, file = None, None
        if resume is not None:
            before = resume._replace(carry=jax.tree.map(lambda a, r=r: a[r], resume.carry))
        if checkpoint is not None:
            file = Path(checkpoint)
            file = file.with_name(f"{file.name}.replica-{r}")
        report = partial(_told, progress, r, replicas) if progress is not None else None
        runs.append(go(**one, resume=before, checkpoint=file, progress=report))

    def stacked(*trees: Any) -> Any:
        return jax.tree.map(lambda *a: np.stack(a), *trees)

    carry, history = (
        stacked(*parts) for parts in zip(*((r.carry, r.history) for r in runs), strict=True)
    )
    messages = np.array([r.messages for r in runs])
    return runs[0]._replace(state=carry.state, carry=carry, history=history, messages=messages)


def _told(progress: Callable[[int], None], r: int, replicas: int, done: int) -> None:
    """Rounds done on the average."""
    progress((r * done + done) // replicas)
