"""Letters as bytes: safetensors under an exact schema, so that nothing else gets in.

Size and header are checked before anything is parsed, then names, types and shapes, then that every
number is one: safetensors itself takes NaN, a shape of [0, 2^60] and 100,000 empty tensors.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors
from safetensors.numpy import save

from peerwise.checkpoint import named_leaves
from peerwise.core import Range, Tree
from peerwise.peer.names import LONGEST
from peerwise.peer.protocol.messages import BadLetter, BadNumbers, Envelope
from peerwise.peer.signing import MOST as SEAL

VERSION = "4"  # raised, too, when nodes of two versions would compute other numbers
HEADER = 4096  # bytes of a header, and as many for every few tensors
PER_TENSOR = 512
FEWEST = 32  # tensors for which there is room, for letters of another phase
TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32,
    "U32": np.uint32, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
# larger numbers overflow once squared and summed, and would end the node that hears them
LARGEST = {"F64": 1e100, "F32": 1e15}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}


class Head(NamedTuple):
    """The header of a letter as it stands, and where its numbers are."""

    written: Any
    tensors: dict[str, Any]
    start: int  # of the numbers
    data: int  # bytes of them


class Format:
    """How letters of one phase look: made from a letter of the right shape.

    `ranges` are those of the method; `agreed` is the hash of what an earlier phase found.
    """

    def __init__(
        self,
        like: Tree,
        charter: str,
        most: int,
        ranges: Sequence[Range] = (),
        agreed: str | None = None,
    ):
        self._structure = jax.tree.structure(like)
        self._want = {
            name: (NAMES[a.dtype], list(a.shape)) for name, a in sorted(named_leaves(like).items())
        }
        self._order = list(named_leaves(like))
        self._charter, self._most, self._agreed = charter, most, agreed
        self._ranges = _ranges_of(like, ranges)
        self._sizes = {
            name: np.dtype(TYPES[kind]).itemsize * math.prod(shape)
            for name, (kind, shape) in self._want.items()
        }
        self.bytes = sum(self._sizes.values())
        self._header_most = HEADER + PER_TENSOR * max(len(self._want), FEWEST)
        self.largest = 8 + self._header_most + self.bytes + SEAL  # no letter has more bytes

    def encode(
        self,
        letter: Tree,
        envelope: Envelope,
        more: Mapping[str, str] | None = None,
        noisy: bool = False,
    ) -> bytes:
        """The letter as bytes, the same for the same letter; `more` is written on it.

        A `noisy` letter is one whose numbers have noise: those that it cannot hold are clipped. If
        noise made a letter fail, it would be drawn again, and neighbours would see which draws did
        not fail.
        """
        written = {
            "peerwise": VERSION, "charter": self._charter, "from": envelope.sender,
            "phase": str(envelope.phase), "round": str(envelope.round),
            **({} if self._agreed is None else {"agreed": self._agreed}), **(more or {}),
        }  # fmt: skip
        arrays = named_leaves(letter)
        if noisy:
            arrays = {name: _within(a, self._ranges.get(name)) for name, a in arrays.items()}
        for name, array in arrays.items():
            _check_numbers(name, array, self._ranges.get(name))
        body = _with(save(arrays), written)
        if len(body) > self._most:
            raise BadLetter(
                f"a letter has {len(body)} bytes, more than the charter's limits.message_bytes "
                f"({self._most}); raise it for all, or take a smaller model"
            )
        return body

    def written(self, body: bytes | memoryview, head: Head | None = None) -> Envelope:
        """What is written on a letter, which may be of another phase and look otherwise.

        `head` is the letter's, here and below, where it is known already.
        """
        written = (head or self.head(body)).written
        if not isinstance(written, dict) or written.get("peerwise") != VERSION:
            raise BadLetter("not a letter of this version of Peerwise")
        if written.get("charter") != self._charter:
            raise BadLetter("written under another charter")
        sender = written.get("from")
        if not isinstance(sender, str) or not 0 < len(sender) <= LONGEST or not sender.isascii():
            raise BadLetter("'from' is no name")
        return Envelope(sender, _count(written, "phase"), _count(written, "round"))

    def envelope(self, body: bytes | memoryview, head: Head | None = None) -> Envelope:
        """What is written on a letter, after everything but its numbers was checked."""
        head = head or self.head(body)
        envelope = self.written(body, head)
        self._check(head)
        return envelope

    def check_agreed(self, body: bytes | memoryview, head: Head | None = None) -> None:
        """Refuse a letter of a node that found something else in an earlier phase."""
        if ((head or self.head(body)).written or {}).get("agreed") != self._agreed:
            raise BadNumbers("its sender agreed on something else in the first phase")

    def decode(
        self, body: bytes | memoryview, checked: bool = True, head: Head | None = None
    ) -> Tree:
        """The letter in bytes, as views of them; BadNumbers where a number is out of range."""
        head = head or self.head(body)
        self._check(head)
        arrays = []
        for name, begin in zip(self._order, self._begins(head), strict=True):
            kind, shape = self._want[name]
            numbers = np.frombuffer(body, np.uint8, self._sizes[name], begin)
            if kind == "BOOL" and (numbers > 1).any():
                raise BadLetter(f"'{name}' holds what is neither true nor false")
            if begin % 8:  # of a writer that has not filled up its header
                numbers = numbers.copy()
            arrays.append(numbers.view(TYPES[kind]).reshape(shape))
        for name, array in zip(self._order, arrays, strict=True) if checked else ():
            _check_numbers(name, array, self._ranges.get(name))
        return jax.tree.unflatten(self._structure, arrays)

    def _begins(self, head: Head) -> list[int]:
        """Where the numbers of each tensor begin; all together they fill the letter, once."""
        spans = {name: _span(name, head.tensors[name]) for name in self._order}
        end = 0
        for name, (begin, after) in sorted(spans.items(), key=lambda one: one[1]):
            if begin != end or after - begin != self._sizes[name]:
                why = f"'{name}' is at {begin} to {after}, and its place is from {end} on"
                raise BadLetter(f"no safetensors: {why}")
            end = after
        return [head.start + spans[name][0] for name in self._order]

    def head(self, body: bytes | memoryview) -> Head:
        """The header as it stands."""
        if len(body) > self._most:
            raise BadLetter(f"{len(body)} bytes, more than {self._most}")
        if len(body) < 8:
            raise BadLetter("too short")
        length = int.from_bytes(body[:8], "little")
        if length > self._header_most or 8 + length > len(body):
            raise BadLetter(f"a header of {length} bytes")
        try:
            header = json.loads(bytes(body[8 : 8 + length]))
        except (ValueError, RecursionError):
            raise BadLetter("a header that is not JSON") from None
        if not isinstance(header, dict):
            raise BadLetter("a header that is no table")
        written = header.pop("__metadata__", None)
        return Head(written, header, 8 + length, len(body) - 8 - length)

    def _check(self, head: Head) -> None:
        """Names, types, shapes and sizes are exactly those expected."""
        header = head.tensors
        if head.start > 8 + self._header_most:
            raise BadLetter(f"a header of {head.start - 8} bytes")
        if head.data != self.bytes:
            raise BadLetter(f"{head.data} bytes of numbers instead of {self.bytes}")
        if len(header) != len(self._want):
            raise BadLetter(f"{len(header)} tensors instead of {len(self._want)}")
        for name, (kind, shape) in self._want.items():
            entry = header.get(name)
            if not isinstance(entry, dict):
                raise BadLetter(f"'{name}' is missing")
            # 2.0 and True are whole numbers for Python, and not for others
            if entry.get("dtype") != kind or repr(entry.get("shape")) != repr(shape):
                raise BadLetter(
                    f"'{name}' is {entry.get('dtype')!s:.20} {entry.get('shape')!s:.60} instead of "
                    f"{kind} {shape}"
                )


def _ranges_of(like: Tree, ranges: Sequence[Range]) -> dict[str, Range]:
    """By the name of a tensor: the range that the method declares for it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(like)
    dotted = {jax.tree_util.keystr(path): _dotted(path) for path, _ in leaves}
    return {
        name: one
        for one in ranges
        for name, path in dotted.items()
        if path.endswith(f".{one.name}")
    }


def _dotted(path: tuple[Any, ...]) -> str:
    """The path to a leaf, with a dot before each of its steps."""
    steps = (getattr(step, kind, None) for step in path for kind in ("key", "name", "idx"))
    return "".join(f".{step}" for step in steps if step is not None)


def _check_numbers(name: str, array: np.ndarray, allowed: Range | None) -> None:
    """Refuse what no honest node tells."""
    if not array.size or array.dtype.kind not in "fiu":
        return
    # NaN is the least and the greatest of all that hold one
    least, most = float(array.min()), float(array.max())
    if not (math.isfinite(least) and math.isfinite(most)):
        raise BadNumbers(f"'{name}' holds NaN or infinity")
    if (beyond := max(-least, most)) > LARGEST.get(NAMES[array.dtype], np.inf):
        raise BadNumbers(
            f"'{name}' holds {beyond:g}, a number beyond {LARGEST[NAMES[array.dtype]]:g}"
        )
    if allowed is not None and not (allowed.least <= least and most <= allowed.most):
        raise BadNumbers(
            f"'{name}' holds numbers from {least:g} to {most:g}, and the method takes those from "
            f"{allowed.least:g} to {allowed.most:g}"
        )


def _within(array: np.ndarray, allowed: Range | None) -> np.ndarray:
    """The numbers, as far as a letter can hold them; NaN is 0."""
    if array.dtype.kind != "f":
        return array
    most = LARGEST.get(NAMES[array.dtype], float(np.finfo(array.dtype).max))
    allowed = allowed or Range("")
    known = np.where(np.isnan(array), 0, array)
    within = np.clip(known, max(-most, allowed.least), min(most, allowed.most))
    return np.asarray(within, array.dtype)


def _with(body: bytes, written: dict[str, str]) -> bytes:
    """The bytes with something written on them, in this order; `save` takes any that it likes."""
    start = 8 + int.from_bytes(body[:8], "little")
    header = json.dumps({"__metadata__": written, **json.loads(body[8:start])}).encode()
    header += b" " * (-len(header) % 8)
    return b"".join((len(header).to_bytes(8, "little"), header, memoryview(body)[start:]))


def _span(name: str, tensor: dict[str, Any]) -> tuple[int, int]:
    """From where to where the numbers of a tensor are."""
    match tensor.get("data_offsets"):
        case [int(begin), int(end)] if not isinstance(begin, bool) | isinstance(end, bool):
            return begin, end
    raise BadLetter(f"no safetensors: '{name}' has no place")


def _count(written: dict[str, Any], key: str) -> int:
    text = written.get(key)
    if not isinstance(text, str) or not text.isdecimal() or not text.isascii() or len(text) > 12:
        raise BadLetter(f"'{key}' is no number")
    return int(text)


def pack_tree(tree: Tree) -> bytes:
    """Any tree of arrays as bytes, for a node's own file."""
    return save(named_leaves(tree))


def unpack_tree(body: bytes, like: Tree) -> Tree:
    """The tree that `pack_tree` wrote; `like` says how its leaves hang together."""
    try:
        arrays = dict(safetensors.deserialize(body))
    except Exception as error:
        raise BadLetter(f"what was kept is damaged: {str(error)[:200]}") from None
    leaves = []
    for name, leaf in named_leaves(like).items():
        if name not in arrays:
            raise BadLetter(f"'{name}' was not kept")
        kind, shape = arrays[name]["dtype"], arrays[name]["shape"]
        if shape != list(leaf.shape) or kind != NAMES[leaf.dtype]:
            raise BadLetter(f"'{name}' was kept as {kind} {shape}, not {leaf.dtype} {leaf.shape}")
        leaves.append(np.frombuffer(arrays[name]["data"], TYPES[kind]).reshape(shape))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
