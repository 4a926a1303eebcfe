"""Files with something wrong in them: each is read as it was, or refused in one line.

Every kind of file that the package writes is damaged (bits turned, words zeroed, parts cut out, put
in, swapped, doubled) and given to its public reader.
"""

import json
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import networkx as nx
import numpy as np
import pandas as pd

from fuzz.findings import Findings, complaint, place_of
from fuzz.values import pick
from peerwise import checkpoint
from peerwise.data.loaders import Table
from peerwise.data.schema import Feature, Schema
from peerwise.errors import PeerwiseError
from peerwise.learner import Outcome
from peerwise.models.algebra import Statistics
from peerwise.peer import drafting
from peerwise.peer.charter import Charter
from peerwise.peer.model_file import blank_value, load_model, save_model
from peerwise.peer.protocol.messages import Place
from peerwise.peer.store import Store as PeerStore
from peerwise.study.results import Claim, Record, history_of, read_folder, read_values, write_folder
from peerwise.study.store import Row, Store


class Kind(NamedTuple):
    """A file that the package writes, and how it is read again."""

    name: str
    write: Callable[[Path], None]  # into a folder
    file: str  # the one that is damaged
    read: Callable[[Path], Any]  # from a folder
    hashed: bool = True  # False: people edit it, and what matters is that its hash changes


RNG = np.random.default_rng(3)
SCHEMA = Schema(
    (Feature("age", "numeric", center=40.0, scale=9.0), Feature("job", "categorical", ("a", "b"))),
    ("no", "yes"),
)


def plain(tree: Any) -> Any:
    """A value that can be compared: arrays as their type, shape and bytes."""
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    if isinstance(tree, list | tuple):
        return [plain(v) for v in tree]
    if hasattr(tree, "dtype"):
        array = np.asarray(tree)
        return str(array.dtype), array.shape, array.tobytes()
    return tree


# --- statistics and models


def _rows() -> tuple[np.ndarray, np.ndarray]:
    y = RNG.integers(2, size=30)
    return np.column_stack([RNG.normal(size=30), (y + RNG.integers(2, size=30)) % 2]), y


def write_statistics(folder: Path) -> None:
    """Statistics of some rows."""
    Statistics.of(*_rows(), SCHEMA).save(folder / "s.pw")


def read_statistics(folder: Path) -> Any:
    """All that a file of statistics says."""
    s = Statistics.load(folder / "s.pw")
    return plain([s.schema.to_json(), s.model, dict(s.options), s.values])


def _charter() -> Charter:
    x, y = _rows()
    frame = pd.DataFrame({"age": x[:, 0], "job": np.where(x[:, 1] > 0, "a", "b")})
    table = Table("wards", frame, np.where(y, "yes", "no").astype(object), "ill")
    addresses = {
        name: f"127.0.0.1:{port}" for name, port in zip("abc", (5001, 5002, 5003), strict=True)
    }
    return drafting.draft(
        table, nx.path_graph(["a", "b", "c"]), {"method": "crc"}, name="wards",
        addresses=addresses, limits={"rows": 30},
    )  # fmt: skip


def write_charter(folder: Path) -> None:
    """A charter of three nodes."""
    _charter().save(folder / "charter.toml")


def read_charter(folder: Path) -> Any:
    """The hash by which peers compare charters."""
    return Charter.load(folder / "charter.toml").hash


def write_model(folder: Path) -> None:
    """A model that was learnt under a charter."""
    charter = _charter()
    blank = blank_value(charter, None)
    value = jax.tree.map(lambda a: a + np.arange(a.size, dtype=a.dtype).reshape(a.shape) + 1, blank)
    save_model(folder / "m.pw", charter, None, value)


def read_model(folder: Path) -> Any:
    """All that a model file says."""
    learnt = load_model(folder / "m.pw")
    return plain([learnt.charter.hash, learnt.agreed, jax.tree.leaves(learnt.value)])


# --- run folders


def _outcome() -> Outcome:
    values = {"test_error": RNG.random((2, 3, 4)), "test_log_loss": RNG.random((2, 3, 4))}
    return Outcome(np.array([1, 2, 4]), values, 100, 12)


def write_cell(folder: Path) -> None:
    """What one cell gave, while its run goes on."""
    Store(folder).put("abc", _outcome().values, {"asked": {"x": 1}, "made": "here", "depends": []})


def read_cell(folder: Path) -> Any:
    """All that was kept of a cell."""
    kept = Store(folder).get("abc")
    return plain([kept.arrays, kept.about]) if kept is not None else None


def write_run(folder: Path) -> None:
    """A run folder with everything in it."""
    write_cell(folder)
    outcome = _outcome()
    rows = [
        Row("abc", {"dataset": "d", "method": "crc", "seed": "0"}, name, a.mean((1, 2)), a)
        for name, a in outcome.values.items()
    ]
    record = Record(
        paper=None, item="run", dataset="d", setting={"method": "crc"}, metric="test_error",
        value=0.25, std=0.5, reps=2, values=[0.125, 0.375],
    )  # fmt: skip
    claim = Claim(name="c", claim="x", rule="r", ours="1", paper="2", verdict="held", reason="z")
    history = history_of(outcome, dataset="d", method="crc")
    write_folder(
        folder, config={"data": "d"}, records=[record] * 4, claims=[claim] * 3, history=history,
        rows=rows,
    )  # fmt: skip


def read_results(folder: Path) -> Any:
    """Every cell and number of a results.parquet."""
    store = Store(folder)
    kept = store.get("abc")
    values = read_values(folder)
    about = plain([kept.arrays, kept.about]) if kept is not None else None
    return [about, store.asked(), values.to_csv()]


def read_records(folder: Path) -> Any:
    """Records, claims and history of a run folder."""
    records, claims, history = read_folder(folder)
    return [
        [r.model_dump_json() for r in records],
        [c.model_dump_json() for c in claims],
        None if history is None else history.to_csv(),
    ]


# --- checkpoints, a peer's state, a ledger

CARRY = {"state": RNG.normal(size=(3, 4)).astype("f"), "round": np.arange(3)}


def write_checkpoint(folder: Path) -> None:
    """A run between two chunks of rounds."""
    checkpoint.save(folder / "run.pw", CARRY, 7, "mark")


def read_checkpoint(folder: Path) -> Any:
    """All that a checkpoint says."""
    return plain(list(checkpoint.load(folder / "run.pw", CARRY, "mark")))


PEER = {"node": "a", "charter": "c" * 64, "charter_text": "name = 1", "data": "d"}


def write_peer(folder: Path) -> None:
    """The state of a peer after two rounds, with letters that came and letters to send."""
    store = PeerStore.open(folder, **PEER)
    letters = {"b": RNG.bytes(200), "c": RNG.bytes(200)}
    store.inbox.put("b", Place(0, 1), RNG.bytes(300))
    with store.transaction():
        done = Place(0, 0), ["b"], ["c"], 0.5, 0.25
        store.advance(Place(0, 1), RNG.bytes(500), letters, done)
    store.close()


def read_peer(folder: Path) -> Any:
    """All that a peer goes on from."""
    store = PeerStore.open(folder, **PEER)
    try:
        return [
            store.progress(), sorted(store.inbox.letters().items()),
            store.outbox.unsent("b"), store.outbox.unsent("c"), sorted(store.about().items()),
        ]  # fmt: skip
    finally:
        store.close()


KINDS = (
    Kind("statistics", write_statistics, "s.pw", read_statistics),
    Kind("model", write_model, "m.pw", read_model),
    Kind("cell", write_cell, "cells/abc.npz", read_cell),
    Kind("results.parquet", write_run, "results.parquet", read_results),
    Kind("results.json", write_run, "results.json", read_records),
    Kind("claims.json", write_run, "claims.json", read_records),
    Kind("history.parquet", write_run, "history.parquet", read_records),
    Kind("checkpoint", write_checkpoint, "run.pw", read_checkpoint),
    Kind("charter", write_charter, "charter.toml", read_charter, hashed=False),
    Kind("peer", write_peer, "peer.db", read_peer),
)


# --- damage


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """The bytes of a file with something wrong."""
    b = bytearray(content)
    n = len(b)
    i, j = sorted(int(k) for k in rng.integers(0, n, 2))
    size = int(pick(rng, (1, 4, 8, 64)))
    ways: list[Callable[[], bytes]] = [
        lambda: bytes(b[:i]) + bytes([b[i] ^ (1 << int(rng.integers(8)))]) + bytes(b[i + 1 :]),
        lambda: bytes(b[:i]) + rng.bytes(size) + bytes(b[i + size :]),
        lambda: bytes(b[:i]) + bytes(size) + bytes(b[i + size :]),
        lambda: bytes(b[:i]),
        lambda: bytes(b[:i]) + rng.bytes(size) + bytes(b[i:]),
        lambda: bytes(b[:i]) + bytes(b[i + size :]),
        lambda: bytes(b[:i] + b[j : j + size] + b[i + size : j] + b[i : i + size] + b[j + size :]),
        lambda: bytes(b) + rng.bytes(size),
        lambda: bytes(b[:j]) + bytes(b[i:]),
    ]
    return pick(rng, ways)()


class FileFuzzer:
    """Damages files, reads them again and notes what must not be."""

    def __init__(self, seed: int, folder: Path | None = None):
        self.folder, self.seed = (folder or Path.cwd()), seed
        self.counts: Counter[str] = Counter()
        self.findings = Findings()
        self.originals: dict[str, tuple[dict[str, bytes], Any]] = {}
        for kind in KINDS:
            self.originals[kind.name] = self._original(kind)

    def _original(self, kind: Kind) -> tuple[dict[str, bytes], Any]:
        home = self.folder / "whole" / kind.name
        home.mkdir(parents=True)
        kind.write(home)
        content = kind.read(home)
        files = [p for p in sorted(home.rglob("*")) if p.is_file()]
        return {str(p.relative_to(home)): p.read_bytes() for p in files}, content

    def try_all(self, count: int, seconds: float = math.inf) -> None:
        """Damage so many files, of all kinds by turns."""
        begun = time.perf_counter()
        for number in range(count):
            self.try_one(number)
            if number % 1000 == 999:
                spent = time.perf_counter() - begun
                print(f"{number + 1} files in {spent:.0f} s: {self.shown()}", flush=True)
            if time.perf_counter() - begun > seconds:
                break

    def shown(self) -> str:
        """How many came to what end."""
        return ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))

    def try_one(self, number: int) -> None:
        """Damage one file, as the seed and its number say, and read it."""
        rng = np.random.default_rng([self.seed, number])
        kind = KINDS[number % len(KINDS)]
        files, whole = self.originals[kind.name]
        content = files[kind.file]
        while (broken := damaged(rng, content)) == content:
            pass
        home = self.folder / f"{number}"
        for name, original in files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(broken if name == kind.file else original)
        self.counts["files"] += 1
        self._judge(kind, home, whole, f"seed {self.seed}, file {number} ({kind.name})")
        _remove(home)

    def _judge(self, kind: Kind, home: Path, whole: Any, case: str) -> None:
        try:
            with warnings.catch_warnings():  # a file whose hash is gone counts as an old one
                warnings.simplefilter("ignore")
                seen = kind.read(home)
        except PeerwiseError as error:
            what, where = complaint(error), f"{kind.name}: {place_of(error)}"
            self.counts["refused in one line"] += 1
        except Exception as error:
            what, where = complaint(error), f"{kind.name}: {place_of(error)}"
        else:
            what, where = "", f"{kind.name}: other content"
            if json.dumps(seen, default=repr) == json.dumps(whole, default=repr):
                self.counts["read as it was"] += 1
            elif not kind.hashed:
                self.counts["read as another, by its hash"] += 1
            else:
                what = f"{_difference(whole, seen)}"
        if what:
            self.findings.add("file", where, what, case)


def _difference(whole: Any, seen: Any) -> str:
    a, b = json.dumps(whole, default=repr), json.dumps(seen, default=repr)
    i = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"{a[max(i - 60, 0) : i + 60]!r} is read as {b[max(i - 60, 0) : i + 60]!r}"


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()


__all__ = ["KINDS", "FileFuzzer", "damaged"]
