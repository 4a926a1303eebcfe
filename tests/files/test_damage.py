"""Whatever happens to a file: it is read as it was written, or refused with one line."""

import sqlite3
import warnings
from contextlib import closing

import jax
import networkx as nx
import numpy as np
import pandas as pd
import pytest

from federation import federation
from peerwise import checkpoint
from peerwise.data.formats import read_frame, read_header, write_frame
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadFile, PeerwiseError
from peerwise.files import BLANK, NoHash, check, write_hashed
from peerwise.models.algebra import Statistics
from peerwise.peer import store as peer_store
from peerwise.peer.model_file import blank_value, load_model, save_model
from peerwise.peer.protocol.messages import Place
from peerwise.peer.store.tables import TABLES
from peerwise.privacy import Ledger
from peerwise.report.reading import read_runs, unlike
from peerwise.study.results import Claim, Record, read_asked, read_folder, write_folder
from peerwise.study.store import Row, Store

SCHEMA = Schema((Feature("age", "numeric"), Feature("job", "categorical", ("a", "b"))), ("n", "y"))
CARRY = {"w": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4), "t": np.arange(3)}
RECORD = Record(
    paper=None, item="run", dataset="iris", setting={"method": "crc"}, metric="test_error",
    value=0.25, std=0.125, reps=2,
)  # fmt: skip
CLAIM = Claim(name="a", claim="b", rule="c", ours="d", paper="e", verdict="held")
TOLD = {"node": "a", "charter": "c1", "charter_text": "name = 'x'", "data": "d1"}


def plain(value):
    """A value that compares by contents."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, pd.DataFrame):
        return value.to_dict("list"), [str(t) for t in value.dtypes]
    if hasattr(value, "dtype"):
        return str(value.dtype), value.shape, value.tobytes() if value.dtype.kind != "O" else value
    return value


def statistics(folder):
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=20), rng.integers(0, 2, 20)])
    Statistics.of(x, rng.integers(0, 2, 20), SCHEMA).save(folder / "file")
    return folder / "file"


def read_statistics(path):
    read = Statistics.load(path)
    return read.schema, read.model, dict(read.options), plain(read.values)


def model(folder):
    charter = federation(folder, nx.Graph([("a", "b")]), "crc", rows=5, features=2).charter
    value = jax.tree.map(lambda a: a + 0.5, blank_value(charter, None))
    save_model(folder / "file", charter, None, value)
    return folder / "file"


def read_model(path):
    read = load_model(path)
    leaves = [plain(a) for a in jax.tree.leaves(read.value)]
    return read.charter.hash, read.agreed, leaves


def saved_run(folder):
    checkpoint.save(folder / "file", CARRY, 7, "mark")
    return folder / "file"


def read_saved_run(path):
    carry, rounds = checkpoint.load(path, CARRY, "mark")
    return rounds, plain({k: np.asarray(v) for k, v in carry.items()})


def cell(folder):
    arrays = {"errors": np.linspace(0, 1, 8).reshape(2, 4), "names": np.array(["x", "yz"])}
    Store(folder).put("key", arrays, {"asked": [1], "depends": {}, "made": {"peerwise": "0"}})
    return Store(folder).path("key")


def read_cell(path):
    kept = Store(path.parents[1]).get("key")
    return kept and (plain(kept.arrays), kept.about)


def run_folder(folder):
    store = Store(folder)
    arrays = {"test_error": np.linspace(0, 1, 4).reshape(2, 2), "names": np.array(["x", "yz"])}
    store.put("key", arrays, {"asked": [1], "depends": {}, "made": {"peerwise": "0"}})
    names = {"dataset": "iris", "method": "crc", "seed": 0}
    repetitions = np.array([0.25, 0.5])
    rows = [
        Row("key", names, "test_error", repetitions, arrays["test_error"]),
        Row("key", names, "names", None, arrays["names"]),
    ]
    history = pd.DataFrame({"method": ["crc"] * 3, "round": [1, 2, 3], "test_error": [0.5, 0.3, 1]})
    config = {"data": "iris", "run": {"seed": 3}, "split": {"nodes": 3}}
    write_folder(
        folder, config=config, records=[RECORD], claims=[CLAIM], history=history, rows=rows
    )


def file_of_run(name):
    def write(folder):
        run_folder(folder)
        return folder / name

    return write


def read_run_folder(path):
    records, claims, history = read_folder(path.parent)
    return records, claims, None if history is None else plain(history)


def read_results(path):
    store, (values,) = Store(path.parent), read_runs({"run": path.parent}).values()
    kept = store.get("key")
    return store.asked(), kept and (plain(kept.arrays), kept.about), plain(values)


def read_config(path):
    return read_asked(path.parent), unlike({"a": path.parent, "b": path.parent})


def ledger(folder):
    with Ledger.open(folder / "file", node="a", epsilon=1.0) as made:
        made.sent(made.charge("laplace", {"b": 1}, 0.1, data="rows"), "b")
        made._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / "file"


def read_ledger(path):
    with Ledger.open(path, node="a") as opened:
        return opened.node, opened.budget, opened.total(), repr(plain(opened.table()))


def peer(folder):
    with closing(peer_store.Store.open(folder, **TOLD)) as made:
        for t in range(3):
            place = Place(0, t)
            done = (Place(0, t - 1), ["b"], ["c"], 1, 0.25) if t else None
            with made.transaction():
                letters = {"b": f"letter {t}".encode(), "c": b"other"}
                made.advance(place, bytes(range(200)), letters, done, keep=3)
            made.inbox.put("b", place, f"from b {t}".encode() * 20)
        made.outbox.acknowledge("b", Place(0, 1))
        made.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / peer_store.FILE


def read_peer(path):
    tables = ("peer", "progress", "inbox", "outbox", "bodies", "rounds")
    with closing(peer_store.Store.open(path.parent, **TOLD)) as read:
        return [sorted(map(repr, read.rows(f"SELECT * FROM {t}"))) for t in tables]


def rows(folder):
    frame = pd.DataFrame({"age": [30.5, 40.0, 51.0], "job": ["a", "b", "a"]})
    write_frame(folder / "file.parquet", frame)
    return folder / "file.parquet"


def read_rows(path):
    return plain(read_frame(path, read_header(path)))


KINDS = {
    "rows": (rows, read_rows),
    "statistics": (statistics, read_statistics),
    "model": (model, read_model),
    "saved run": (saved_run, read_saved_run),
    "cell": (cell, read_cell),
    "results.parquet": (file_of_run("results.parquet"), read_results),
    "results.json": (file_of_run("results.json"), read_run_folder),
    "claims.json": (file_of_run("claims.json"), read_run_folder),
    "history.parquet": (file_of_run("history.parquet"), read_run_folder),
    "config.toml": (file_of_run("config.toml"), read_config),
    "ledger": (ledger, read_ledger),
    "peer": (peer, read_peer),
}


def mutated(content, rng):
    """A flipped bit, a zeroed word, a cut, bytes put in, or bytes twice."""
    at = int(rng.integers(len(content)))
    some = content[at : at + int(rng.integers(1, 64))]
    return [
        lambda: content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :],
        lambda: content[: at - at % 8] + bytes(8) + content[at - at % 8 + 8 :],
        lambda: content[:at],
        lambda: content[:at] + rng.bytes(int(rng.integers(1, 9))) + content[at:],
        lambda: content[:at] + some + content[at:],
    ][int(rng.integers(5))]()


def put_back(path, content):
    """The file with this content, alone: SQLite leaves companions."""
    for other in path.parent.glob(f"{path.name}-*"):
        other.unlink()
    path.write_bytes(content)


def read_or_words(read, path):
    """What is read, or with which words it is refused."""
    try:
        return read(path), None
    except PeerwiseError as error:
        return None, str(error)


def check_mutations(kind, folder, times, seed):
    write, read = KINDS[kind]
    path = write(folder)
    whole, before, rng = path.read_bytes(), read(path), np.random.default_rng(seed)
    refused = 0
    for i in range(times):
        put_back(path, mutated(whole, rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoHash)
            after, words = read_or_words(read, path)
        if words is None:
            assert after == before, (kind, i)
        else:
            assert "\n" not in words, (kind, i)
            assert path.name in words, (kind, i, words)
            refused += 1
    put_back(path, whole)
    assert read(path) == before
    return refused


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutated_file_is_read_as_it_was_or_refused(tmp_path, kind):
    refused = check_mutations(kind, tmp_path, 100, seed=0)
    assert refused > 30  # SQLite has many bytes that mean nothing


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_mutations_of_each_kind(tmp_path, kind):
    check_mutations(kind, tmp_path, 1000, seed=1)


def test_no_byte_of_a_hashed_file_is_left_out(tmp_path):
    path = tmp_path / "file"
    write_hashed(path, f"before {BLANK} after".encode())
    whole = path.read_bytes()
    assert check(path, "mend it")
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(BadFile, match=r"file is damaged.*mend it"):
            check(path, "mend it")


def test_a_model_that_is_not_finite_is_refused(tmp_path):
    charter = federation(tmp_path, nx.Graph([("a", "b")]), "crc", rows=5, features=2).charter
    value = jax.tree.map(lambda a: np.full_like(a, np.nan), blank_value(charter, None))
    save_model(tmp_path / "model", charter, None, value)
    with pytest.raises(BadFile, match="model holds numbers that are not finite"):
        load_model(tmp_path / "model")


def test_a_state_of_an_earlier_version_is_looked_at_and_not_continued(tmp_path):
    db = sqlite3.connect(tmp_path / peer_store.FILE)
    for statement in TABLES.replace(", mark TEXT NOT NULL", "").split(";"):
        db.execute(statement)
    db.execute("INSERT INTO progress VALUES (1, 0, 4, x'00', '')")
    db.commit()
    db.close()
    with pytest.raises(BadFile, match="begun by an earlier version"):
        peer_store.Store.open(tmp_path, **TOLD)
    with closing(peer_store.Store.look(tmp_path)) as looked:
        assert looked.progress() == (Place(0, 4), b"\0")


def test_results_whose_hash_is_gone_are_not_taken_for_old_ones(tmp_path):
    store = Store(tmp_path)
    store.put("a", {"x": np.arange(3.0)}, {})
    path = store.collect([Row("a", {}, "x", None, np.arange(3.0))])
    path.write_bytes(path.read_bytes().replace(b"peerwise-sha256:", b"peerwise-sha257:"))
    with pytest.raises(BadFile, match="it has no hash"):
        Store(tmp_path).get("a")
