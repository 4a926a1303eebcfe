"""Arrivals written down and replayed."""

import jax
import numpy as np
import pandas as pd
import pytest

from peerwise import runtime, topology
from peerwise.channel import both, bursty, churn, delay, erasure, random_delay, record, tape, trace
from peerwise.errors import BadFile, BadSetting

KEY = jax.random.key(5)
RING = topology.ring(6)
ROUNDS = 7
SMALL = pd.DataFrame({"round": [1, 1, 2, 3], "src": [0, 1, 2, 0], "dst": [1, 0, 1, 1]})
CHANNELS = {
    "lost": erasure(0.5),
    "in bursts": bursty(3, 2),
    "late": delay(2),
    "late by chance": random_delay(0.4, longest=3),
    "churn and late": both(churn(4, 3), random_delay(0.4, longest=3, hold=True)),
}


def run_key(seed, stage):
    return jax.random.fold_in(jax.random.key(seed), stage)


def heard(channel, graph, t, key=KEY):
    """Who was heard by whom, and how late."""
    links = channel(key, t, graph(key, t))
    came = zip(*(np.asarray(a).tolist() for a in links), strict=True)
    return {(src, dst, age) for src, dst, weight, age in came if weight > 0}


@pytest.mark.some("churn and late")
@pytest.mark.parametrize(
    ("name", "graph"),
    [(name, RING) for name in CHANNELS]
    + [("lost", topology.pushes(6, rounds=ROUNDS)), ("late by chance", topology.server(6))],
)
def test_a_recorded_channel_replays_the_same_links(name, graph):
    channel = CHANNELS[name]
    table = record(channel, graph, ROUNDS, seed=4)
    assert list(table) == ["round", "src", "dst", "arrived", "age"]
    assert table["round"].unique().tolist() == list(range(1, ROUNDS + 1))
    again = trace(table.sample(frac=1, random_state=0))
    assert (again.lag <= channel.lag, again.rounds) == (True, ROUNDS)
    again.check(graph, ROUNDS)
    for t in range(ROUNDS):
        there = graph(run_key(4, runtime.LINKS), t)
        first = channel(run_key(4, runtime.CHANNEL), t, there)
        second = again(KEY, t, there)
        real = np.asarray(there.weight) > 0
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(np.asarray(a)[real], np.asarray(b)[real])
            assert a.dtype == b.dtype


def test_the_stages_of_randomness_are_those_of_the_runtimes():
    assert (tape.LINKS, tape.CHANNEL) == (runtime.LINKS, runtime.CHANNEL)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_say_what_the_frame_says(tmp_path, suffix):
    table = record(CHANNELS["late by chance"], RING, ROUNDS)
    path = tmp_path / f"trace.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    for source in (path, str(path)):
        for t in range(ROUNDS):
            assert heard(trace(source), RING, t) == heard(trace(table), RING, t)


def test_pairs_that_are_not_listed_did_not_arrive_and_others_did():
    channel, graph = trace(SMALL), topology.complete(3)
    assert heard(channel, graph, 0) == {(0, 1, 0), (1, 0, 0)}
    assert heard(channel, graph, 1) == {(2, 1, 0)}
    assert heard(channel, graph, 2) == {(0, 1, 0)}
    assert heard(channel, graph, 3) == set()  # beyond its end; a run is refused
    assert (channel.rounds, channel.lag) == (3, 0)


def test_a_topology_may_have_more_nodes_than_a_trace_names():
    channel, graph = trace(SMALL), topology.complete(9)
    channel.check(graph, 3)
    assert heard(channel, graph, 0) == {(0, 1, 0), (1, 0, 0)}
    assert heard(channel, graph, 1) == {(2, 1, 0)}


def test_a_column_says_what_arrived():
    for arrived in ([1, 0, 1, 0], [True, False, True, False]):
        channel, graph = trace(SMALL.assign(arrived=arrived)), topology.complete(3)
        assert heard(channel, graph, 0) == {(0, 1, 0)}
        assert heard(channel, graph, 2) == set()


def test_a_column_says_with_which_probability():
    n = 40
    src, dst = (a.ravel() for a in np.indices((n, n)))
    q = np.where(src < 20, 0.3, 0.8)
    table = pd.DataFrame({"round": 1, "src": src, "dst": dst, "q": q})
    came = heard(trace(table), topology.complete(n), 0)
    for low, high, p in ((0, 20, 0.3), (20, 40, 0.8)):
        count, total = sum(low <= u < high for u, _, _ in came), 20 * 39
        assert abs(count - p * total) < 5 * np.sqrt(total * p * (1 - p))
    assert came != heard(trace(table), topology.complete(n), 0, jax.random.key(6))


def test_a_column_says_how_late():
    channel = trace(SMALL.assign(age=[0, 0, 1, 2]))
    assert channel.lag == 2
    assert heard(channel, topology.complete(3), 2) == {(0, 1, 2)}


@pytest.mark.full
def test_a_late_trace_behind_losses_needs_what_was_sent():
    lossy = erasure(0.5)
    graph = topology.complete(6)
    table = record(random_delay(0.4, longest=3), graph, 9)
    channel = both(lossy, trace(table))
    took = [heard(lossy, graph, t, jax.random.fold_in(KEY, 0)) for t in range(9)]
    for t in range(9):
        expected = {
            (u, v, age) for u, v, age in heard(trace(table), graph, t) if (u, v, 0) in took[t - age]
        }
        assert heard(channel, graph, t) == expected
    assert channel.rounds == 9


def test_rounds_without_links_are_recorded_too():
    silent = topology.alone(3)
    table = record(erasure(0.5), silent, 2)
    assert table.values.tolist() == [[1, 0, 0, 1, 0], [2, 0, 0, 1, 0]]
    assert heard(trace(table), silent, 1) == set()


# --- what is refused


def test_a_run_longer_than_the_trace_is_refused():
    says = "the trace stops after round 3; the run asks for 4"
    for channel in (trace(SMALL), both(churn(), trace(SMALL))):
        channel.check(topology.complete(3), 3)
        with pytest.raises(BadSetting, match=says):
            channel.check(topology.complete(3), 4)
        with pytest.raises(BadSetting, match=says):
            record(channel, topology.complete(3), 4)


def test_nodes_that_do_not_exist_are_refused():
    with pytest.raises(BadSetting, match="names node 2, and there are 2 nodes, numbered from 0 to"):
        trace(SMALL, nodes=2)
    channel = trace(SMALL, nodes=3)
    with pytest.raises(BadSetting, match="lets node 2 send and the topology has nodes 0 to 1"):
        channel.check(topology.complete(2), 3)
    up = trace(record(erasure(0.5), topology.server(4), 3))
    up.check(topology.server(4), 3)
    with pytest.raises(BadSetting, match="lets node 4 receive and the topology has nodes 0 to 3"):
        up.check(topology.complete(4), 3)
    with pytest.raises(BadSetting, match="room for 46340 nodes"):
        trace(SMALL.assign(src=46340))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (SMALL[SMALL["round"] != 2], "no round 2, though it goes on to round 3"),
        (SMALL[SMALL["round"] != 1], "no round 1, though it goes on to round 3"),
        (SMALL.assign(round=[1, 1, 2, 2_000_000_000]), "no round 3, though"),
        (SMALL.assign(round=[0, 1, 2, 3]), "round must be a whole number, 1 or more, got 0 in row"),
        (SMALL.assign(src=[0, -1, 1, 2]), "src must be a whole number, 0 or more, got -1 in row 2"),
        (SMALL.assign(dst=[0.5, 1, 1, 2]), "dst must be a whole number, 0 or more, got 0.5"),
        (SMALL.assign(dst=[np.nan, 1, 1, 2]), "dst must be a whole number, 0 or more, got nan"),
        (SMALL.assign(dst=["a", 1, 1, 2]), "dst must be a whole number, 0 or more, got a in row 1"),
        (SMALL.assign(arrived=[0, 1, 2, 1]), "arrived must be 0 or 1, got 2 in row 3"),
        (SMALL.assign(arrived=["no"] * 4), "arrived must be 0 or 1, got no in row 1"),
        (SMALL.assign(q=[0.5, 1, 1.5, 1]), "q must be between 0 and 1, got 1.5 in row 3"),
        (SMALL.assign(q=[0.5, 1, np.nan, 1]), "q must be between 0 and 1, got nan in row 3"),
        (SMALL.assign(q=1, arrived=1), "has both columns, arrived and q; drop one"),
        (SMALL.assign(age=-1), "age must be a whole number, 0 or more, got -1 in row 1"),
        (SMALL.assign(age=[0, 1, 0, 0]), "arrives in round 1 cannot be 1 rounds late"),
        (SMALL.drop(columns="dst"), "no column dst; it needs round, src and dst"),
        (SMALL[:0], "is empty; record at least one round"),
        (pd.concat([SMALL, SMALL[2:3]]), "lists 2 to 1 twice in round 2"),
    ],
)
def test_tables_that_make_no_sense_are_refused(table, says, tmp_path):
    with pytest.raises(BadSetting, match=says):
        trace(table)
    path = tmp_path / "trace.csv"
    table.to_csv(path, index=False)
    with pytest.raises(BadSetting, match=r"trace\.csv"):
        trace(path)


def test_files_that_are_no_tables_are_refused(tmp_path):
    with pytest.raises(BadFile, match="there is no trace"):
        trace(tmp_path / "none.csv")
    with pytest.raises(BadFile, match=r"\.csv or \.parquet, got"):
        trace(tmp_path / "trace.txt")
    for name in ("bad.parquet", "bad.csv"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00bad")
        with pytest.raises(BadFile, match="not a table or is damaged"):
            trace(tmp_path / name)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(BadFile, match="not a table or is damaged"):
        trace(tmp_path / "empty.csv")


def test_a_number_of_rounds_and_of_nodes_is_whole():
    with pytest.raises(BadSetting, match="rounds must be a whole number, 1 or more"):
        record(erasure(0.5), RING, 0)
    with pytest.raises(BadSetting, match="nodes must be 1 or more"):
        trace(SMALL, nodes=0)
