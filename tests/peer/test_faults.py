"""Peers as real processes that are killed, stopped and cut off."""

import os
import random
import signal
import time

import jax
import numpy as np
import pytest
from sklearn.datasets import load_digits

from federation import columns
from helpers import command
from peerwise.data.loaders import Table
from peerwise.peer import views
from peerwise.peer.charter import Charter
from peerwise.peer.local import CHARTER, Peers, set_up, simulated
from peerwise.peer.local import peer_errors as errors_of
from peerwise.peer.store import Store

LIMIT = 600.0  # seconds, which only a fault takes


def small(folder, *, nodes=3, rounds=24, mode="wait", features=12, **terms):
    digits = load_digits()
    keep = np.argsort(-digits.data.std(0))[:features]
    table = Table(
        "digits", columns(digits.data[:, keep]), digits.target.astype(str).astype(object), "class"
    )
    description = {"method": {"name": "crc", "lr": 0.05}, "run": {"rounds": rounds}}
    table = table._replace(categorical=())
    return set_up(
        folder, table, nodes=nodes, rows=60, description=description, typing="manifest",
        pace={"mode": mode, **terms.pop("timing", {})}, **terms,
    )  # fmt: skip


def until(peers, name, t, seconds=LIMIT):
    """Wait until a peer has done so many rounds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = peers.look()[name]
        if found is not None and found.round >= t:
            return
        assert not peers.failed()
        time.sleep(0.1)
    raise AssertionError(f"{name} did not get to round {t}")


def kill_in_turn(peers, kills, rounds, rng):
    """kill -9 of one peer after the other at random moments, each started again."""
    for k in range(kills):
        name = peers.names[k % len(peers.names)]
        until(peers, name, (k + 1) * rounds // (kills + 2))
        time.sleep(rng.random() * 0.2)
        peers.signal(name, signal.SIGKILL)
        peers.processes[name].wait()
        peers.start(name)


def assert_as_simulated(fed, channel=None):
    run = simulated(fed, channel=channel)
    for i, name in enumerate(fed.charter.names):
        mine = jax.tree.leaves(views.learnt(fed.state(name)).value)
        theirs = jax.tree.leaves(jax.tree.map(lambda a, i=i: a[i], run.state.value))
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def assert_nothing_lost(fed):
    """Whatever a neighbour acknowledged it has used: every round of everybody heard everybody."""
    for name in fed.charter.names:
        store = Store.look(fed.state(name))
        rounds = store.rows("SELECT round, heard, missed FROM rounds ORDER BY round")
        store.close()
        assert [r[0] for r in rounds] == list(range(fed.charter.rounds))
        for _, heard, missed in rounds:
            assert sorted(heard.split()) == sorted(fed.charter.neighbours(name))
            assert not missed


@pytest.mark.full
def test_peers_that_are_killed_many_times_end_with_the_same_models(tmp_path):
    fed = small(tmp_path / "net", nodes=4, rounds=200)
    with Peers(fed) as peers:
        kill_in_turn(peers, 20, 200, random.Random(20))
        assert peers.wait(LIMIT), peers.failed()
    assert_nothing_lost(fed)
    assert_as_simulated(fed)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two peers that are not yet started."""
    return small(tmp_path_factory.mktemp("two") / "net", nodes=2)


def test_a_peer_that_is_killed_and_started_again_ends_with_the_same_model(two):
    with Peers(two) as peers:
        until(peers, peers.names[0], 6)
        peers.signal(peers.names[0], signal.SIGKILL)
        peers.processes[peers.names[0]].wait()
        peers.start(peers.names[0])
        assert peers.wait(LIMIT), peers.failed()
    assert_nothing_lost(two)
    assert_as_simulated(two)


@pytest.mark.full
def test_peers_that_are_stopped_and_killed_and_started_again_end_with_the_same_models(tmp_path):
    fed = small(tmp_path / "net")
    first, last = (n for n in fed.charter.names if len(fed.charter.neighbours(n)) == 1)
    (hub,) = fed.charter.neighbours(first)
    peers = Peers(fed)
    try:
        peers.start(first)
        peers.start(hub)
        until(peers, first, 1)  # and no further: the hub waits for the last
        peers.signal(first, signal.SIGTERM)
        assert peers.processes[first].wait(LIMIT) == 0
        assert b"the same command resumes" in (fed.state(first) / "output.txt").read_bytes()
        peers.start(first)
        peers.start(last)
        until(peers, hub, 6)
        peers.signal(hub, signal.SIGKILL)
        peers.processes[hub].wait()
        peers.start(hub)
        assert peers.wait(LIMIT), peers.failed()
    finally:
        peers.stop()
    assert_nothing_lost(fed)
    assert_as_simulated(fed)


@pytest.mark.full  # it waits for deadlines; the protocol's worlds have them without a clock
def test_peers_with_deadlines_go_on_without_one_that_is_stopped_or_killed_until_it_joins(tmp_path):
    """Events tell when to go on, and there are more rounds than peers come to meanwhile."""
    fed = small(tmp_path / "net", rounds=5000, mode="deadline", timing={"deadline": 2.0})
    with Peers(fed) as peers:
        killed, stopped, _ = peers.names
        for name in peers.names:
            until(peers, name, 3)
        peers.signal(stopped, signal.SIGSTOP)
        at = peers.look()[stopped].round
        for name in peers.names:
            if name != stopped:
                until(peers, name, at + 4)  # goes on without it
        peers.signal(stopped, signal.SIGCONT)
        peers.signal(killed, signal.SIGKILL)
        peers.processes[killed].wait()
        peers.start(killed)
        until(peers, killed, peers.look()[killed].round + 1)  # it is back
        together = max(status.round for status in peers.look().values()) + 40
        for name in peers.names:
            until(peers, name, together)
    for name in peers.names:
        store = Store.look(fed.state(name))
        rounds = store.rows("SELECT round, heard FROM rounds ORDER BY round")
        store.close()
        assert any(heard for _, heard in rounds[-20:])  # it is with the others again
        if name == stopped:
            assert len(rounds) < rounds[-1][0] + 1  # it jumped over rounds that it slept through
    text = fed.charter.text().replace("rounds = 5000", "rounds = 40")
    whole = simulated(fed._replace(charter=Charter.parse(text)), probe=True)
    predicted = np.asarray(whole.history["adapt"]["test_error"])[-1]
    errors = np.array(list(errors_of(fed).values()))
    assert errors.mean() <= predicted.mean() + 0.01


def ended(fed):
    with Peers(fed) as peers:
        assert peers.wait(LIMIT), peers.failed()


def test_the_wrong_state_data_port_or_charter_is_one_line(tmp_path, two, said_by):
    fed = two
    if not all(
        fed.state(name).exists() for name in fed.charter.names
    ):  # the test above did not run
        ended(fed)
    # another node's state
    os.rename(fed.state("node0"), tmp_path / "other")
    os.rename(fed.state("node1"), fed.state("node0"))
    assert "is the state of node 'node1'" in said_by(fed, "node0")
    os.rename(fed.state("node0"), fed.state("node1"))
    os.rename(tmp_path / "other", fed.state("node0"))
    # rows that changed
    import pandas as pd

    rows = pd.read_parquet(fed.rows("node0"))
    rows.iloc[:-1].to_parquet(fed.rows("node0"), index=False)
    assert "the data are not those" in said_by(fed, "node0")
    rows.to_parquet(fed.rows("node0"), index=False)
    # a column less
    rows.drop(columns=["f0"]).to_parquet(fed.rows("node0"), index=False)
    assert "f0" in said_by(fed, "node0")


@pytest.fixture
def said_by(monkeypatch, capsys):
    """What the command of a peer says that ends with an error."""
    call = command(monkeypatch, capsys)

    def say(fed, name):
        files = {"charter": fed.folder / CHARTER, "data": fed.rows(name), "state": fed.state(name)}
        options = [a for k, v in files.items() for a in (f"--{k}", v)]
        code, out, err = call(
            "peer", "run", "--quiet", "--node", name, "--keys", fed.folder / "keys", *options
        )
        assert code == 2
        assert "Traceback" not in out + err
        return " ".join((out + err).split())

    return say
