"""The commands of one peer, on the states that a small federation has left."""

import json
import shutil
import socket
import urllib.request
from contextlib import closing

import networkx as nx
import pandas as pd
import pytest

from federation import federation, run_all
from helpers import command, in_words
from peerwise.peer import serve as serving
from peerwise.peer.local import free_ports
from peerwise.peer.meters import Meters
from peerwise.peer.own_site import load_rows
from peerwise.peer.store import Store
from peerwise.privacy import Ledger

PAIR = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """What two peers with a budget have left."""
    folder = tmp_path_factory.mktemp("peers")
    method = {"name": "gossip_nb", "counter": "total"}
    fed = federation(
        folder, PAIR, method, rounds=20, privacy={"epsilon": 2000.0}, budget={"epsilon": 5000.0}
    )
    daemons = [fed.daemon(name) for name in fed.charter.names]
    assert all(run_all(*daemons))
    for daemon in daemons:
        daemon.store.close()
    fed.charter.save(folder / "charter.toml")
    for name, table in fed.tables.items():
        table.frame.assign(**{"class": table.labels}).to_csv(folder / f"{name}.csv", index=False)
    return fed


@pytest.fixture
def peerwise(monkeypatch, capsys):
    """Run a command; returns exit code and all that was said."""
    monkeypatch.setenv("COLUMNS", "160")
    return in_words(command(monkeypatch, capsys))


def test_status_says_how_a_peer_stands(left, peerwise):
    code, said = peerwise("peer", "status", left.folder / "a")
    assert code == 0
    assert "20 of 20, done" in said
    assert "epsilon 2000 of 5000 spent" in said


def test_status_says_which_rows_the_error_is_of(left, peerwise, tmp_path):
    """Before, it said that held-out rows were the peer's own, as those that it learns from."""
    said = peerwise("peer", "status", left.folder / "a")[1]
    assert "error on own rows" in said
    shutil.copytree(left.folder / "a", tmp_path / "a")
    with closing(Store.look(tmp_path / "a", write=True)) as store, store.transaction():
        store.set(held_out="7")
    assert "error on 7 held-out rows" in peerwise("peer", "status", tmp_path / "a")[1]


def test_the_outbox_lists_letters_and_shows_one(left, peerwise, tmp_path):
    code, said = peerwise("peer", "outbox", left.folder / "a", "--last", 3)
    assert code == 0
    assert said.count(" b ") >= 3
    code, said = peerwise("peer", "outbox", left.folder / "a", "--show", "0:19:b",
                          "--out", tmp_path / "letter")  # fmt: skip
    assert code == 0
    assert "estimate" in said
    assert (tmp_path / "letter").stat().st_size > 500
    code, said = peerwise("peer", "outbox", left.folder / "a", "--show", "0:1:b")
    assert code == 2  # older letters are known by size and hash alone
    assert "is kept" in said
    assert peerwise("peer", "outbox", left.folder / "a", "--show", "x")[0] == 2


def test_the_audit_accounts_for_letters_and_budget(left, peerwise):
    code, said = peerwise("peer", "audit", left.folder / "a")
    assert code == 0
    assert "laplace" in said
    assert "for one row: epsilon 2000, left 3000" in said
    code, said = peerwise("peer", "audit", left.folder / "a", "--json")
    told = json.loads(said)
    assert told["letters"][0]["letters"] == 20
    assert told["letters"][0]["acknowledged"] == 20
    assert len(told["releases"]) == 1


def test_no_account_has_a_hash_of_the_rows(left, peerwise):
    """Before, who knew all rows but one could try which row fits."""
    with closing(Store.look(left.folder / "a")) as store:
        mark, secret = store.about()["data"], store.about()["apart"]
    ledger = left.folder / "a.ledger"
    for args in ("peer", "audit", left.folder / "a", "--json"), ("ledger", ledger, "--details"):
        code, said = peerwise(*args)
        assert code == 0, said
        assert f'"{mark}"' not in said
        assert f":{mark}" not in said
        assert secret[:8] not in said


def test_an_exported_model_predicts(left, peerwise, tmp_path):
    code, said = peerwise("peer", "export", left.folder / "b", tmp_path / "m.safetensors")
    assert code == 0, said
    left.test.frame.to_csv(tmp_path / "new.csv", index=False)
    code, said = peerwise("predict", tmp_path / "m.safetensors", tmp_path / "new.csv",
                          "--out", tmp_path / "p.csv")  # fmt: skip
    assert code == 0, said
    told = pd.read_csv(tmp_path / "p.csv")
    right = told["predicted"].astype(str).to_numpy() == left.test.labels
    assert len(told) == len(left.test.labels)
    assert right.mean() > 0.3  # ten classes, six features, noise


def test_a_private_model_predicts_rows_like_those_of_its_training(left, peerwise, tmp_path):
    """Before, it refused empty cells, which in training had counted as the middle of the bounds."""
    model = tmp_path / "m.safetensors"
    peerwise("peer", "export", left.folder / "b", model)
    name = str(left.test.frame.columns[0])
    terms = left.charter.features[0]
    low, high = terms.bounds()
    for value, same in ((None, low + (high - low) / 2), (high + 1e6, high)):
        told = []
        for cell in (value, same):
            left.test.frame.assign(**{name: cell}).to_csv(tmp_path / "new.csv", index=False)
            code, said = peerwise("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p")
            assert code == 0, said
            told.append((tmp_path / "p").read_text())
        assert told[0] == told[1]


def test_a_dry_run_says_whether_the_ledger_has_room(left, peerwise, tmp_path):
    args = ["peer", "run", "--charter", left.folder / "charter.toml", "--node", "a",
            "--data", left.folder / "a.csv", "--state", tmp_path / "state",
            "--keys", left.keys, "--dry-run"]  # fmt: skip
    code, said = peerwise(*args)
    assert code == 0, said
    assert "without --ledger the peer will not start" in said
    Ledger.open(tmp_path / "small", node="a", epsilon=0.01).close()
    code, said = peerwise(*args, "--ledger", tmp_path / "small")
    assert code != 0
    assert "cannot afford" in said
    Ledger.open(tmp_path / "large", node="a", epsilon=9000.0).close()
    code, said = peerwise(*args, "--ledger", tmp_path / "large")
    assert code == 0, said
    assert "large has room for it: epsilon 9000 and delta 0 are left now" in said
    for name in "small", "large":
        with Ledger.open(tmp_path / name, node=None) as ledger:
            assert ledger.receipts() == 0
    assert not (tmp_path / "state").exists()


def test_a_dry_run_shows_what_would_be_sent_and_keeps_nothing(left, peerwise, tmp_path):
    args = ["peer", "run", "--charter", left.folder / "charter.toml", "--node", "a",
            "--data", left.folder / "a.csv", "--state", tmp_path / "state",
            "--keys", left.keys, "--ledger", left.folder / "a.ledger"]  # fmt: skip
    code, said = peerwise(*args, "--dry-run")
    assert code == 0, said
    assert "30 rows stay here" in said
    assert "carry noise" in said
    assert not (tmp_path / "state").exists()
    assert "warning" not in said
    rows, name = pd.read_csv(left.folder / "a.csv"), left.charter.features[0].name
    rows.assign(**{name: rows[name].where(rows.index > 2)}).to_csv(tmp_path / "gaps.csv")
    gaps = [tmp_path / "gaps.csv" if a == left.folder / "a.csv" else a for a in args]
    said = peerwise(*gaps, "--dry-run")[1]
    assert f"warning: column '{name}': 3 cells are empty or no number and count as 8" in said
    code, said = peerwise(*[a if a != "a" else "z" for a in args], "--dry-run")
    assert code == 2
    assert "'z'" in said
    for channel, why in {
        "erasures q=0.7": "did you mean 'erasure'",
        "erasure Q=0.7": "unknown key in [channel]: 'Q'; known: by, q",
        "erasure 0.7": "write KEY=VALUE",
    }.items():
        code, said = peerwise(*args, "--channel", channel, "--dry-run")
        assert code == 2
        assert why in said
    for channel in ("erasure q=0.7", "quiet_node", '{name = "both", channels = ["erasure"]}'):
        assert peerwise(*args, "--channel", channel, "--dry-run")[0] == 0


def test_a_port_that_is_taken_is_one_line(left, peerwise, tmp_path):
    host, port = left.charter.nodes["a"].address.split(":")
    with socket.socket() as other:
        # connections of the peer that was there before may linger
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        other.listen()
        code, said = peerwise(
            "peer", "run", "--charter", left.folder / "charter.toml", "--node", "a", "--quiet",
            "--data", left.folder / "a.csv", "--state", tmp_path / "state", "--keys", left.keys,
            "--ledger", left.folder / "a.ledger",
        )  # fmt: skip
    assert code == 2
    assert "cannot listen" in said


def test_two_processes_do_not_share_a_state(left, peerwise, tmp_path):
    with serving.only_one(tmp_path / "state"):
        code, said = peerwise(
            "peer", "run", "--charter", left.folder / "charter.toml", "--node", "a", "--quiet",
            "--data", left.folder / "a.csv", "--state", tmp_path / "state", "--keys", left.keys,
            "--ledger", left.folder / "a.ledger",
        )  # fmt: skip
    assert code == 2
    assert "another process" in said


def test_a_folder_without_a_state_is_one_line(peerwise, tmp_path):
    for what in ("status", "outbox", "audit"):
        code, said = peerwise("peer", what, tmp_path)
        assert code == 2
        assert "no peer's state" in said


def test_meters_answer_at_a_port_of_this_machine():
    meters = Meters("person ('who', at most 3 rows of each)")
    (port,) = free_ports(1)
    meters.serve(port)
    meters.round(0, 7, 3, 1, 0.2, 0.25)
    meters.refused("stranger")
    meters.spent(1.5)
    told = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert "peerwise_round 7.0" in told
    assert "peerwise_missed_total 1.0" in told
    assert 'peerwise_refused_total{why="stranger"} 1.0' in told
    assert "peerwise_epsilon_spent 1.5" in told
    assert "epsilon for one person ('who', at most 3 rows of each)" in told


def test_rows_are_read_with_the_charters_target(left):
    assert load_rows(left.folder / "a.csv", "class").target == "class"
