"""A run on disk between two chunks of rounds: written whole or not at all."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from peerwise.core import Tree
from peerwise.errors import BadFile

__all__ = ["load", "save", "write_whole"]


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    with open(draft, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _named(tree: Tree) -> dict[str, np.ndarray]:
    return {
        jax.tree_util.keystr(path): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def save(path: str | Path, carry: Tree, rounds: int) -> None:
    """Keep the arrays of a run that has done `rounds` rounds."""
    write_whole(path, to_bytes(_named(carry), metadata={"rounds": str(rounds)}))


def load(path: str | Path, like: Tree) -> tuple[Tree, int]:
    """The arrays and the rounds of a saved run; `like` says what they must look like."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    try:
        with safe_open(path, framework="numpy") as file:
            rounds = int(file.metadata()["rounds"])
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is not a saved run or is damaged ({error}); delete it") from None
    want = {jax.tree_util.keystr(p): (leaf.shape, np.dtype(leaf.dtype)) for p, leaf in leaves}
    have = {name: (a.shape, a.dtype) for name, a in found.items()}
    if want != have:
        odd = sorted(n for n in want.keys() | have.keys() if want.get(n) != have.get(n))[0]
        raise BadFile(
            f"{path} was saved by another run: {odd} is {have.get(odd)} there and "
            f"{want.get(odd)} here; delete it or give another name"
        )
    order = [jnp.asarray(found[jax.tree_util.keystr(p)]) for p, _ in leaves]
    return jax.tree_util.tree_unflatten(structure, order), rounds
