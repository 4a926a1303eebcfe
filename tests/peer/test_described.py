"""One description: peers under a charter learn what a run file with the same sections learns."""

import sys
from pathlib import Path

import jax
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import tomli_w

from federation import assert_same, federation, run_all, simulated
from helpers import command, in_words
from peerwise import learner
from peerwise.data.loaders import Table
from peerwise.errors import BadSetting
from peerwise.peer.charter import Charter
from peerwise.peer.model_file import load_model, save_model
from peerwise.peer.plan import Plan
from peerwise.peer.views import learnt, status
from peerwise.topology import graph_of
from peerwise.walk import walk

PAIR = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
SPLIT = {"nodes": 4, "rows": 30}
DESCRIPTIONS = {
    "crc": {"method": "crc"},
    "metropolis": {"method": {"name": "crc", "lr": 0.1, "rule": "metropolis"}, "model": "qda"},
    "relay": {"method": "relay"},
    "gossip": {"method": {"name": "gossip_nb", "counter": "cumulative"}, "privacy": {"bound": 2.0}},
    "private, no noise": {"method": "private_crc", "privacy": {"epsilon": float("inf")}},
    "net": {"method": {"name": "decdiff", "batch": 10}, "net": {"name": "mlp_64"}},
    "alone": {"method": "isolated"},
    "tan": {"method": "crc", "model": "tan"},
}


def charter_of(description, world, links):
    """The charter of a network that was drawn for a run, in the units of its rows."""
    graph = graph_of(links)
    names = [f"n{i}" for i in graph]
    raw = {
        "name": "drawn",
        "target": "class",
        "classes": list(world.schema.classes),
        "features": [
            {"name": f.name, "kind": f.kind, "categories": list(f.categories)}
            for f in world.schema.features
        ],
        **description,
        "limits": {"rows": world.rows},
        "nodes": {
            names[i]: {"address": f"h:{i + 1}", "neighbours": [names[j] for j in graph[i]]}
            for i in graph
        },
    }  # fmt: skip
    return Charter.parse(tomli_w.dumps(raw))


def table_of(world, i):
    """The rows of one node as its file would have them."""
    x, y = world.x[world.owned[i]], world.y[world.owned[i]]
    columns = {
        f.name: np.array(f.categories, object)[column.astype(int)] if f.categories else column
        for f, column in zip(world.schema.features, x.T, strict=True)
    }
    labels = np.array(world.schema.classes, object)[y]
    return Table(f"node {i}", pd.DataFrame(columns), labels, "class")


def by_hand(plans):
    """What nodes hold in the end if every letter arrives; what their first phase agreed on."""
    agreed = None
    for phase in range(plans[0].phases):
        nodes = [plan.begin(phase, agreed)[0] for plan in plans]
        memories = [node.begin() for node in nodes]
        for t in range(plans[0].rounds(phase)):
            letters = [n.letters(m, t) for n, m in zip(nodes, memories, strict=True)]
            memories = [
                n.step(m, t, {j: (letters[j][i], t) for j in n.neighbours})
                for i, (n, m) in enumerate(zip(nodes, memories, strict=True))
            ]
        if not plans[0].learns(phase):
            found = [p.agreed(phase, m, agreed) for p, m in zip(plans, memories, strict=True)]
            assert all(one == found[0] for one in found)
            agreed = found[0]
    return memories


@pytest.mark.some("metropolis", "relay", "private", "tan")
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_charter_and_a_run_file_with_the_same_sections_learn_the_same_to_the_bit(name):
    description = {**DESCRIPTIONS[name], "run": {"rounds": 5, "seed": 3}}
    cell = learner.cell({**description, "data": "wine", "split": SPLIT})
    parts = learner.assemble(cell, learner.drawn(cell, 0))
    run = walk(
        parts.method, parts.shards, parts.links, cell["run"]["rounds"], seed=cell["run"]["seed"],
        channel=parts.channel,
    )  # fmt: skip
    before = cell.changed(method="crc", model="naive_bayes")  # rows as they are dealt
    world = learner.drawn(before, 0)
    links = learner.assemble(before, world).links
    charter = charter_of(description, world, links)
    plans = [Plan(charter, n, table_of(world, i)) for i, n in enumerate(charter.names)]
    assert plans[0].phases == (2 if name == "tan" else 1)
    for i, memory in enumerate(by_hand(plans)):
        ours, theirs = memory.state, jax.tree.map(lambda a, i=i: a[i], run.state)
        assert jax.tree.structure(ours) == jax.tree.structure(theirs)
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


OWN = '''
from peerwise.combine import equal
from peerwise.methods import crc

with open("imported", "a") as log:
    log.write("x")


def method(model, rows: int, nodes: int, *, lr: float = 0.1):
    """CRC that hears itself."""
    return crc(model, rows, nodes, lr=lr, rule=equal(include_self=True))


def rule():
    """The mean with oneself."""
    return equal(include_self=True)
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of somebody's own in an empty folder; its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "somebodys.py").write_text(OWN)
    yield "somebodys"
    sys.modules.pop("somebodys", None)


@pytest.mark.parametrize("kind", ["method", "rule"])
def test_peers_learn_with_code_that_their_sites_allow_and_do_not_import_any_other(
    own, kind, tmp_path, monkeypatch, capsys
):
    name = f"{own}:{kind}"
    method = {"name": name} if kind == "method" else {"name": "crc", "lr": 0.1, "rule": name}
    fed = federation(tmp_path, PAIR, method, rounds=4)
    fed.charter.save("charter.toml")
    table = fed.tables["a"]
    table.frame.assign(**{"class": table.labels}).to_csv("a.csv", index=False)
    monkeypatch.setenv("COLUMNS", "160")
    peer = in_words(command(monkeypatch, capsys, "peer"))
    files = ["--charter", "charter.toml", "--node", "a", "--data", "a.csv", "--state", "s"]
    files += ["--keys", fed.keys, "--dry-run"]

    def forgotten():
        sys.modules.pop(own, None)
        Path("imported").unlink(missing_ok=True)

    forgotten()
    for allow in ([], ["--allow", f"{own}:other"]):
        code, said = peer("run", *files, *allow)
        assert code == 2
        assert f"the charter would run code of its author here: {name}" in said
        assert f"give --allow {name}" in said
        assert not Path("imported").exists()
    code, said = peer("run", *files, "--allow", name)
    assert code == 0, said
    assert Path("imported").read_text() == "x"

    allowed = fed._replace(charter=Charter.load("charter.toml", [name]))
    daemons = [allowed.daemon(node) for node in ("a", "b")]
    assert run_all(*daemons) == [True, True]
    assert_same(simulated(allowed, daemons, 4), daemons)
    plain = federation(tmp_path / "plain", PAIR, {"name": "crc", "lr": 0.1, "include_self": True},
                       rounds=4)  # fmt: skip
    assert_same(simulated(plain, [plain.daemon(n) for n in ("a", "b")], 4), daemons)

    forgotten()
    assert status(tmp_path / "a").done  # a look at the state needs no code
    with pytest.raises(BadSetting, match=f"give --allow {name}"):
        learnt(tmp_path / "a")
    assert not Path("imported").exists()
    save_model("model", *learnt(tmp_path / "a", [name]))
    forgotten()
    with pytest.raises(BadSetting, match=f"give --allow {name}"):
        load_model("model")
    assert not Path("imported").exists()
    assert load_model("model", [name]).charter.hash == fed.charter.hash
