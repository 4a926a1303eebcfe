"""A run on disk between two chunks of rounds: written whole or not at all."""

import hashlib
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import numpy as np

from peerwise.core import Tree, on_device
from peerwise.errors import BadFile
from peerwise.files import read_tensors, write_tensors


def _contents(thing: Any, met: set[int]) -> Iterator[bytes]:
    """The bytes that identify a thing: arrays, numbers, texts, functions and their closures."""
    if isinstance(thing, partial):
        thing = thing.func, thing.args, thing.keywords
    elif isinstance(thing, dict):
        thing = list(thing.items())
    elif isinstance(thing, FunctionType):
        if id(thing) in met:
            return
        met.add(id(thing))
        yield f"{thing.__module__}.{thing.__qualname__}".encode()
        thing = [cell.cell_contents for cell in thing.__closure__ or ()]
    elif is_dataclass(thing) or type(thing).__module__.startswith("peerwise."):
        yield type(thing).__qualname__.encode()
        thing = thing if isinstance(thing, tuple) else list(vars(thing).items())
    if isinstance(thing, tuple | list):
        yield str(len(thing)).encode()
        for part in thing:
            yield from _contents(part, met)
    elif hasattr(thing, "dtype"):
        array = np.asarray(thing)
        yield f"{array.dtype}{array.shape}".encode()
        yield array.tobytes()
    elif isinstance(thing, bool | int | float | str | None):
        yield repr(thing).encode()
    else:
        yield type(thing).__qualname__.encode()


def fingerprint(*things: Any) -> str:
    """A hash that tells one run from another: its method, data, graph, seed, what it records."""
    mark = hashlib.sha256()
    for part in _contents(things, set()):
        mark.update(part)
    return mark.hexdigest()


def named_leaves(tree: Tree) -> dict[str, np.ndarray]:
    """The arrays of a tree by their place in it, row by row: safetensors writes memory as it is."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path) or ".": np.asarray(leaf, order="C") for path, leaf in leaves}


def save(path: str | Path, carry: Tree, rounds: int, mark: str) -> None:
    """Keep the arrays of a run that has done `rounds` rounds."""
    write_tensors(path, named_leaves(carry), {"rounds": str(rounds), "run": mark})


def load(path: str | Path, like: Tree, mark: str) -> tuple[Tree, int]:
    """The arrays and the rounds of a saved run; `like` has the shapes and dtypes they must have."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    header, tensors, _ = read_tensors(path, "saved run", "delete it")
    if not header.get("rounds", "").isdecimal() or "run" not in header:
        raise BadFile(f"{path} is not a saved run; delete it or give another name")
    rounds, saved = int(header["rounds"]), header["run"]
    want = {jax.tree_util.keystr(p): (leaf.shape, np.dtype(leaf.dtype)) for p, leaf in leaves}
    have = {name: (a.shape, a.dtype) for name, a in tensors.items()}
    if want != have:
        odd = sorted(n for n in want.keys() | have.keys() if want.get(n) != have.get(n))[0]
        raise BadFile(
            f"{path} was saved by another run: {odd} is {have.get(odd)} there and "
            f"{want.get(odd)} here; delete it or give another name"
        )
    if saved != mark:
        raise BadFile(
            f"{path} was saved by another run: its method, data, graph, channel, seed or recorded "
            "rounds are not those given; delete it or give another name"
        )
    order = [on_device(tensors[jax.tree_util.keystr(p)]) for p, _ in leaves]
    return jax.tree_util.tree_unflatten(structure, order), rounds
