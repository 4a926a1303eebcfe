"""What a peer has learnt as a file of its own, that says the classes of new rows."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open

from peerwise import runtime
from peerwise.checkpoint import named_leaves
from peerwise.core import Tree
from peerwise.data.encode import Unknown, read_rows
from peerwise.errors import BadFile, PeerwiseError
from peerwise.files import BROKEN, one_line, read_tensors, warn_unhashed, write_tensors
from peerwise.peer.charter import Charter
from peerwise.peer.learning import Learning
from peerwise.peer.own_rows import moved_within

KIND = "peerwise-model"
VERSION = "2"


class Learnt(NamedTuple):
    """A model and the charter under which it was learnt."""

    charter: Charter
    agreed: dict[str, Any] | None
    value: Tree

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes in the order of the probabilities."""
        return self.charter.classes

    def log_proba(self, frame: pd.DataFrame) -> np.ndarray:
        """log p(y | x) [m, c] of rows in the units of the data; columns go by name."""
        return self.of_rows(self.read(frame)[0])

    def read(
        self, frame: pd.DataFrame, words: Collection[str] = (), name: str = "the rows"
    ) -> tuple[np.ndarray, tuple[Unknown, ...]]:
        """Rows in the charter's units, and columns with categories that the charter lacks.

        `words` mean missing, besides the charter's; `name` is what errors call the rows. Under a
        budget cells count as they did when the model was learnt: none is refused.
        """
        schema, words = self.charter.schema(), [*words, *self.charter.missing_words]
        if self.charter.budget is None:
            return read_rows(frame, schema, words, name)
        plain = tuple(replace(f, center=0.0, scale=1.0) for f in schema.features)
        x, unknown = read_rows(frame, replace(schema, features=plain, missing=True), words, name)
        return moved_within(x, schema, self.charter.features), unknown

    def of_rows(self, x: np.ndarray) -> np.ndarray:
        """The same of rows in the charter's units."""
        learning = Learning(self.charter)
        method = learning.blank(self.agreed).method
        with runtime.precision_of(self.charter.precision) as dtype:
            rows = jnp.asarray(learning.encoded(x, self.agreed), dtype)
            value = runtime.cast(self.value, dtype)
            return np.asarray(jax.jit(method.predict)(jax.random.key(0), value, rows))


def save_model(
    path: str | Path, charter: Charter, agreed: Mapping[str, Any] | None, value: Tree
) -> None:
    """Write a model whole or not at all, with the hash of the file."""
    header = {KIND: VERSION, "charter": charter.text(), "agreed": json.dumps(agreed)}
    write_tensors(path, named_leaves(value), header)


def is_model(path: str | Path) -> bool:
    """Whether a file is one that `save_model` wrote."""
    try:
        with safe_open(path, framework="numpy") as file:
            return KIND in (file.metadata() or {})
    except (OSError, SafetensorError, AttributeError):
        return False


def load_model(path: str | Path, allowed: Collection[str] = ()) -> Learnt:
    """The model in a file; `allowed`: the code of its charter's author that may be imported.

    A file of a version before 0.9 has no hash and is read with a warning.
    """
    header, arrays, hashed = read_tensors(path, "model file", "export it again", needed=False)
    if header.get(KIND) != VERSION:
        raise BadFile(f"{path} is not a model file of this version of Peerwise")
    if not all(np.isfinite(a).all() for a in arrays.values()):
        raise BadFile(f"{path} holds numbers that are not finite; export it again")
    try:
        charter = Charter.parse(header["charter"], str(path), allowed)
        agreed = json.loads(header["agreed"])
        like = blank_value(charter, agreed)
    except PeerwiseError:
        raise
    except BROKEN as error:
        raise BadFile(f"{path} contradicts itself: {one_line(error)}; export it again") from None
    want = {name: (a.shape, a.dtype) for name, a in named_leaves(like).items()}
    if want != {name: (a.shape, a.dtype) for name, a in arrays.items()}:
        raise BadFile(f"{path} does not hold the model that its charter describes")
    if not hashed:
        warn_unhashed(path)
    leaves = [arrays[name] for name in named_leaves(like)]
    return Learnt(charter, agreed, jax.tree.unflatten(jax.tree.structure(like), leaves))


def blank_value(charter: Charter, agreed: dict[str, Any] | None) -> Tree:
    """A value of the right shape: what a node with one row of nothing would begin with."""
    method, shards = Learning(charter).blank(agreed)[:2]
    with runtime.precision_of(charter.precision) as dtype:
        rows = runtime.cast(shards.of(0), dtype)
        key = runtime.init_key(jax.random.key(0), 0, method.common, method.numbered)
        shape = jax.eval_shape(method.init, key, rows).value
        return jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shape)
