"""Every channel on every topology: whom a message reaches, when, how often, how old it is."""

from functools import partial

import pandas as pd
import pytest

from peerwise import topology
from peerwise.channel import record
from peerwise.declare import build, canonical, find
from peerwise.names import entries
from peerwise.topology.links import edges_of

N, ROUNDS = 6, 8
OPTIONS = {  # of those that mean nothing without, or whose defaults are too large or too mild
    "small_world": {"k": 2, "p": 0.5},
    "regular": {"k": 3},
    "tree_plus": {"extra": 2},
    "erdos_renyi": {"p": 0.5},
    "bursty": {"good": 3, "bad": 2},
    "churn": {"up": 4, "down": 2},
    "delay": {"rounds": 2},
    "erasure": {"q": 0.6},
    "random_delay": {"q": 0.5, "longest": 3},
    "both": {"channels": ({"name": "erasure", "q": 0.8}, {"name": "random_delay", "longest": 3})},
}
LATEST = {"delay": 2, "random_delay": 3, "both": 3}  # how many rounds late at most


def made(kind, name, **more):
    table = canonical(kind, {"name": name, **OPTIONS.get(name, {}), **more}, sweeps=False)
    return build(kind, table, {"n": N, "nodes": N, "seed": 3})


def graphs():
    for name in entries("topology"):
        yield name, made("topology", name)
        if "seed" in find("topology", name).facts:
            draw = partial(find("topology", name).make, N, **OPTIONS.get(name, {}))
            yield f"{name}, redrawn", topology.redrawn(draw, every=2, rounds=ROUNDS, seed=1)
        if name not in ("alone", "server"):
            yield f"{name}, pushed", topology.pushes(made("topology", name), rounds=ROUNDS, seed=1)


GRAPHS = dict(graphs())
TRACE = pd.DataFrame(
    [(t + 1, i, j) for t in range(ROUNDS) for i in range(N) for j in range(N) if (i + j + t) % 3],
    columns=["round", "src", "dst"],
)
HELD = "random_delay, held"


def channel_of(name):
    if name == "trace":
        return find("channel", name).make(source=TRACE)
    if name == HELD:
        return made("channel", "random_delay", hold=True)
    return made("channel", name)


CHANNELS = {name: channel_of(name) for name in [*entries("channel"), HELD]}
QUICK = {"random_tree, redrawn"}


def posted(graph):
    """Who told whom in each round: a set of (round, src, dst)."""
    return {
        (s + 1, int(i), int(j))
        for s in range(ROUNDS)
        for i, j, w in zip(*edges_of(graph, s), strict=True)
        if w > 0 and i != j
    }


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize(
    "graph", [pytest.param(g, marks=[] if g in QUICK else pytest.mark.full) for g in GRAPHS]
)
def test_what_arrives_was_sent_to_whom_it_reaches(graph, channel):
    sent = posted(GRAPHS[graph])
    came = record(CHANNELS[channel], GRAPHS[graph], ROUNDS, seed=4)
    came = came[came["arrived"] == 1] if "arrived" in came else came
    came = came[came["src"] != came["dst"]]  # how a round without links is written down
    age = came["age"] if "age" in came else 0 * came["round"]
    letters = list(zip(came["round"] - age, came["src"], came["dst"], strict=True))
    if graph == "server":  # the ends of its links are the server's, whose number is n
        assert all(0 <= i <= N and 0 <= j <= N for _, i, j in letters)
    else:
        assert set(letters) <= sent  # nobody to whom it was not addressed, on no other day
    if channel != HELD:
        assert len(set(letters)) == len(letters)  # once
    assert age.between(0, LATEST.get(channel.partition(",")[0], 0)).all()
    assert (came["round"] - age >= 1).all()
    if channel == "perfect" and graph != "server":
        assert set(letters) == sent
    if channel == "delay" and graph != "server":
        assert (age == 2).all()
        assert set(letters) == {letter for letter in sent if letter[0] <= ROUNDS - 2}
    if channel == "trace" and graph != "server":
        listed = set(TRACE.itertuples(index=False, name=None))
        assert set(letters) == sent & listed
