"""A run on disk between two chunks of rounds: written whole or not at all."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import jax
import numpy as np

from peerwise.core import Tree
from peerwise.errors import BadFile
from peerwise.files import read_tensors, write_tensors

NODES, LINKS = "nodes", "links"  # under which a part of a run keeps the numbers of its own
WHOLE, BY_LINK = -1, -2  # instead of an axis of nodes: none, or a first axis of links


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


class Piece(NamedTuple):
    """What some nodes hold of a run."""

    nodes: np.ndarray  # [m] their numbers
    links: np.ndarray  # [l] the numbers of the links by which they hear
    rows: Tree  # arrays with an axis of m or l, or of the whole network
    axes: Tree  # the axis of the nodes in each, `BY_LINK` or `WHOLE`


def _at(axis: int, nodes: np.ndarray, links: np.ndarray) -> Any:
    """Where an array of the whole network has what a piece holds."""
    if axis == WHOLE:
        return ...
    return (links,) if axis == BY_LINK else (slice(None),) * axis + (nodes,)


def joined(like: Tree, pieces: Iterable[Piece]) -> Tree:
    """The arrays of all nodes, of the shapes that `like` has; the pieces hold every node once."""
    want, structure = jax.tree.flatten(like)
    whole = [np.zeros(a.shape, a.dtype) for a in want]
    for piece in pieces:
        rows, axes = jax.tree.leaves(piece.rows), jax.tree.leaves(piece.axes)
        for to, a, axis in zip(whole, rows, axes, strict=True):
            to[_at(axis, piece.nodes, piece.links)] = a
    return jax.tree.unflatten(structure, whole)


def _piece_file(path: Path, rounds: int, part: int) -> Path:
    return path.with_name(f"{path.name}.{rounds}-{part}")


def save_piece(path: str | Path, part: int, piece: Piece, rounds: int, mark: str) -> None:
    """Keep one part of a run, beside `path`; it counts once `save_index` has been called."""
    arrays = named_leaves(piece.rows)
    axes = {name: int(a) for name, a in named_leaves(piece.axes).items()}
    header = {"rounds": str(rounds), "run": mark, "axes": json.dumps(axes)}
    arrays |= {NODES: piece.nodes, LINKS: piece.links}
    write_tensors(_piece_file(Path(path), rounds, part), arrays, header)


def save_index(path: str | Path, parts: int, rounds: int, mark: str) -> None:
    """Keep that all parts of a run are there, and remove those of earlier rounds."""
    path = Path(path)
    write_tensors(path, {}, {"rounds": str(rounds), "run": mark, "parts": str(parts)})
    for old in pieces_of(path):
        if not old.name.startswith(f"{path.name}.{rounds}-"):
            old.unlink(missing_ok=True)


def pieces_of(path: Path) -> list[Path]:
    """The files of parts that lie beside a saved run."""
    name = re.compile(re.escape(path.name) + r"\.\d+-\d+(\.part)?")
    folder = path.parent
    return [p for p in folder.iterdir() if name.fullmatch(p.name)] if folder.is_dir() else []


def _from_pieces(path: Path, header: dict[str, str], like: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of all nodes, from the files of the parts."""
    whole = {name: np.zeros(*want) for name, want in like.items()}
    for q in range(int(header["parts"])):
        file = _piece_file(path, int(header["rounds"]), q)
        if not file.exists():
            raise BadFile(f"{path} was saved in {header['parts']} parts and {file} is not there; "
                          "put it back, or delete the others")  # fmt: skip
        about, tensors, _ = read_tensors(file, "part of a saved run", "delete it")
        nodes, links = (tensors.pop(name, np.zeros(0, np.int32)) for name in (NODES, LINKS))
        try:
            axes = json.loads(about["axes"])
            if about["run"] != header["run"] or tensors.keys() != whole.keys():
                raise ValueError
            for name, a in tensors.items():
                whole[name][_at(axes[name], nodes, links)] = a
        except (LookupError, ValueError, TypeError):
            raise BadFile(f"{file} was saved by another run; delete it") from None
    return whole


def load(path: str | Path, like: Tree, mark: str) -> tuple[Tree, int]:
    """The arrays and the rounds of a saved run; `like` has the shapes and dtypes they must have."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    header, tensors, _ = read_tensors(path, "saved run", "delete it")
    if not header.get("rounds", "").isdecimal() or "run" not in header:
        raise BadFile(f"{path} is not a saved run; delete it or give another name")
    rounds = int(header["rounds"])
    want = {jax.tree_util.keystr(p): (leaf.shape, np.dtype(leaf.dtype)) for p, leaf in leaves}
    have = {name: (a.shape, a.dtype) for name, a in tensors.items()}
    in_parts = header.get("parts", "").isdecimal()
    if want != have and not in_parts:
        odd = sorted(n for n in want.keys() | have.keys() if want.get(n) != have.get(n))[0]
        raise BadFile(
            f"{path} was saved by another run: {odd} is {have.get(odd)} there and "
            f"{want.get(odd)} here; delete it or give another name"
        )
    if header["run"] != mark:
        raise BadFile(
            f"{path} was saved by another run: its method, data, graph, channel, seed or recorded "
            "rounds are not those given; delete it or give another name"
        )
    if in_parts:
        tensors = _from_pieces(Path(path), header, want)
    order = [tensors[jax.tree_util.keystr(p)] for p, _ in leaves]
    return jax.tree_util.tree_unflatten(structure, order), rounds
