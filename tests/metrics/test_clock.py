"""The simulated wall clock: by hand, event by event, and in a run's table and figure."""

import heapq
import math

import numpy as np
import pytest

from helpers import command
from peerwise import topology
from peerwise.errors import BadSetting
from peerwise.learner import cell, run
from peerwise.metrics.clock import Clock, finished
from peerwise.topology.links import edges_of

EVEN = Clock(0.5, None, 0.0, 0.0, 0.0, 0.0)


def test_a_chain_of_three_by_hand():
    # 0 - 1 takes a second, 1 - 2 three; everybody computes for one second
    src, dst = np.array([1, 0, 2, 1]), np.array([0, 1, 1, 2])
    cost = np.array([1.0, 1.0, 3.0, 3.0])
    seen = finished(3, lambda t: (src, dst, cost), np.ones(3), [1, 2, 3])
    # round 1: node 0 hears 1 at 1; node 1 hears 0 at 1 and 2 at 3; node 2 hears 1 at 3
    assert seen[0].tolist() == [2, 4, 4]
    # round 2: node 1 sent at 4, so 0 hears it at 5; node 1 hears 2 at 4 + 3; node 2 hears 1 at 7
    assert seen[1].tolist() == [6, 8, 8]
    # round 3: node 0 hears 1 at 9; nodes 1 and 2 hear each other at 11
    assert seen[2].tolist() == [10, 12, 12]


def by_events(n, edges, cost, compute, rounds):
    """The same by a queue of messages: a node goes on when the last of its round has come."""
    heard = np.zeros((rounds, n), int)
    degree = np.bincount([j for _, j in edges], minlength=n)
    end, queue = np.zeros((rounds + 1, n)), []
    done = np.zeros(n, int)

    def go(i, now):
        """Node i sends its message of the round that it begins at `now`."""
        if done[i] < rounds:
            for e, (a, b) in enumerate(edges):
                if a == i:
                    heapq.heappush(queue, (now + cost[e], b, done[i]))
            heapq.heappush(queue, (now, i, done[i]))  # its own

    for i in range(n):
        go(i, 0.0)
    while queue:
        now, i, t = heapq.heappop(queue)
        heard[t, i] += 1
        while done[i] < rounds and heard[done[i], i] == degree[i] + 1:
            t = done[i]
            end[t + 1, i] = max(now, end[t, i]) + compute[i]
            done[i] += 1
            go(i, end[t + 1, i])
    return end[1:]


@pytest.mark.parametrize("seed", range(3))
def test_rounds_end_as_messages_come_in(seed):
    links = topology.tree_plus(9, seed=seed, extra=3)
    clock = Clock(0.2, 1000.0, 0.3, 0.8, 0.5, 1.0)
    src, dst, _ = edges_of(links)
    cost, compute = clock.links(9, (src, dst), 64.0, seed), clock.nodes(9, seed)
    ours = clock.seconds(9, lambda t: (src, dst), range(1, 8), 64.0, seed=seed)
    pairs = list(zip(src.tolist(), dst.tolist(), strict=True))
    np.testing.assert_allclose(ours, by_events(9, pairs, cost, compute, 7), rtol=1e-12)


def test_a_message_takes_latency_and_size_over_bandwidth_both_ways():
    clock = Clock(0.5, 100.0, 0.0, 0.7, 0.0, 0.0)
    edges = np.array([0, 3]), np.array([3, 0])
    there, back = clock.links(4, edges, 50.0, 1)
    assert there == back
    even = Clock(0.5, 100.0, 0.0, 0.0, 0.0, 0.0)
    assert even.links(4, edges, 50.0, 1).tolist() == [1.0, 1.0]


def test_spread_links_have_the_median_and_the_deviation_that_are_stated():
    clock = Clock(0.05, None, 0.0, 0.5, 0.0, 0.0)
    edges = np.zeros(20_000, int), np.arange(1, 20_001)
    drawn = np.log(clock.links(20_001, edges, 0.0, 3))
    assert abs(np.median(drawn) - math.log(0.05)) < 0.02
    assert abs(drawn.std() - 0.5) < 0.01
    other = np.log(clock.links(20_001, edges, 0.0, 4))
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.03
    again = clock.links(20_001, tuple(end[::-1] for end in edges), 0.0, 3)[::-1]
    np.testing.assert_allclose(np.log(again), drawn, rtol=1e-12)  # by pair, whatever else there is


def test_a_server_answers_when_the_last_message_has_come():
    compute = np.array([1.0, 2.0])
    links = np.arange(2), np.full(2, 2), np.array([1.0, 5.0])
    seen = finished(2, lambda t: links, compute, [1, 2], server=True)
    assert seen[0].tolist() == [5 + 1 + 1, 5 + 5 + 2]  # up, down again, compute
    assert seen[1].tolist() == [12 + 5 + 1 + 1, 12 + 5 + 5 + 2]


def test_nodes_without_links_only_compute():
    none = np.zeros(0, int)
    seen = EVEN._replace(compute=2.0).seconds(3, lambda t: (none, none), [4], 8.0)
    assert seen.tolist() == [[8.0, 8.0, 8.0]]


SMALL = {
    "data": "wine",
    "split": {"nodes": 3, "rows": 20, "test_rows": 50},
    "network": "chain",
    "run": {"rounds": 2, "repetitions": 2, "record": "all",
            "metrics": [{"name": "clock", "latency": 1.0, "compute": 2.0}]},
}  # fmt: skip


def test_a_run_records_when_each_node_finished_each_round():
    outcome = run(cell(SMALL))
    np.testing.assert_allclose(outcome.values["seconds"], np.broadcast_to(
        np.array([3.0, 6.0])[None, :, None], (2, 2, 3)))  # fmt: skip


def test_a_channel_that_loses_messages_is_refused():
    with pytest.raises(BadSetting, match="clock needs messages that all arrive"):
        run(cell({**SMALL, "network": {"topology": "chain", "channel": "erasure"}}))


@pytest.mark.full
def test_the_table_has_seconds_and_a_figure_shows_error_against_them(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'data = "wine"\nmethod = ["crc", "rc"]\nnetwork = "chain"\n'
        "split = {nodes = 3, rows = 20, test_rows = 50}\n"
        'run = {rounds = 2, repetitions = 2, record = "all", '
        'metrics = [{name = "clock", latency = 1.0, compute = 2.0}]}\n'
    )
    code, out, said = command(monkeypatch, capsys)("run", "mine.toml", "--workers", 1)
    assert code == 0, said
    assert "seconds" in out
    assert (tmp_path / "runs/mine/seconds.png").read_bytes().startswith(b"\x89PNG")
