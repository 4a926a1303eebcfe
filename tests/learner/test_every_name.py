"""Every listed name runs: through `peerwise run`, and every method through walk and peers, too."""

import json
import os
from itertools import zip_longest
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import tomli_w

from helpers import command
from peerwise.core import NUMERICS
from peerwise.declare import find
from peerwise.learner import World, assemble, cell, drawn, offered
from peerwise.names import KINDS, entries
from peerwise.node import Node
from peerwise.simulate import simulate
from peerwise.walk import walk

ROUNDS = 2
RUN = {"rounds": ROUNDS, "repetitions": 1}
SMALL = {"data": "wine", "split": {"nodes": 4, "rows": 20, "test_rows": 50}, "run": RUN}
NET = {"net": "mlp_64"}  # the smallest: all methods that train have to compile theirs
# rows that a thing can be about, where wine's are not
PIXELS = {"source": "pixels", "scale": "unit"}
DATA = {
    "bernoulli": {"source": "binary.csv", "target": "y"},
    "multinomial": "digits",
    **dict.fromkeys(("cnn", "cnn_dropout", "lenet"), PIXELS),
}
# options without which a thing means nothing
OPTIONS = {
    "trace": {"source": "trace.csv"},
    "both": {"channels": [{"name": "erasure", "q": 0.8}, "delay"]},
    "small_world": {"k": 2},
    "regular": {"k": 2},
    "tree_plus": {"extra": 2},
    "erdos_renyi": {"p": 0.7},
    "zipf": {"gini": [0.0, 1.0], "largest": 10},
    "dirichlet_by_class": {"least": 1, "alpha": 5.0},
    "concept_shift": {"strength": 0.5},
}
# who uses a rule: statistics, or posteriors
RULED_BY = {"alpha_barycenter": "ba_bfl", "barycenter": "ba_bfl", "full_barycenter": "ba_bfl"}


def using(method):
    """Sections of a method, with a small net if it trains one."""
    trains = "net" in find("method", method["name"]).facts
    return {**(NET if trains else {}), "method": method}


def describe(kind, name):
    """A small description in which something of a kind is used."""
    table = {"name": name, **OPTIONS.get(name, {})}
    if kind == "method":
        return {**SMALL, **using(table)}
    if kind == "model":
        return {**SMALL, "data": DATA.get(name, "wine"), kind: table}
    if kind == "net":
        few = {"nodes": 4, "rows": 5, "test_rows": 20}  # nets are large
        alone = {"name": "pooled_net", "epochs": 1}  # to which gaps are measured: no second run
        data = DATA.get(name, "wine")
        return {**SMALL, "data": data, "split": few, kind: table, "method": alone}
    if kind == "rule":
        return {**SMALL, **using({"name": RULED_BY.get(name, "crc"), "rule": table})}
    if kind == "loss":
        return {**SMALL, "method": {"name": "pooled_net", "epochs": 1, "loss": table}}
    if kind in ("topology", "channel"):
        return {**SMALL, "network": {"topology": "ring", kind: table}}
    if kind in ("partition", "sizes", "shift"):
        return {**SMALL, "split": {**SMALL["split"], kind: table}}
    return {**SMALL, "run": {**RUN, "metrics": [table]}}


def merged(descriptions):
    """One description with the sections of several; the rows are those that one of them needs."""
    whole = dict(SMALL)
    for described in descriptions:
        for section, given in described.items():
            both = isinstance(given, dict) and isinstance(whole.get(section), dict)
            if both:
                whole[section] = {**whole[section], **given}
            elif given != SMALL.get(section):
                whole[section] = given
    return whole


# methods for which others stand in `make test` that differ from them only in a weight
ALIKE = {"average_cvar": "cvar_cvar", "cta": "cvar_cvar", "cfa": "decavg", "isolated_net": "decavg"}

# kinds that have nothing to do with each other, so that a run can use a name of each
BESIDE = {
    "net": ["loss"],
    "topology": ["metric", "sizes", "shift"],
    "rule": ["model", "partition", "channel"],
}


def cases():
    """All names; `make test` runs some together, which `make full` runs one by one."""
    for kind in KINDS:
        # those that need another method come last, where no name is beside that does not go with it
        names = sorted(entries(kind), key=lambda name: name in RULED_BY)
        ones = [((kind, name),) for name in names]
        beside = BESIDE.get(kind, [])
        paired = beside or any(kind in more for more in BESIDE.values())
        for case in ones:
            later = paired or case[0][1] in ALIKE
            yield pytest.param(case, marks=pytest.mark.full if later else (), id="-".join(case[0]))
        if beside:
            others = ([((other, name),) for name in entries(other)] for other in beside)
            for several in zip_longest(ones, *others, fillvalue=()):
                case = sum(several, ())
                yield pytest.param(case, id=", ".join(map("-".join, case)))


def idx(array):
    """The bytes of an idx file."""
    sizes = np.array(array.shape, ">i4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that some names need, and with what ran before: references, say."""
    path = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(0)
    binary = pd.DataFrame(rng.integers(0, 2, (150, 3)), columns=list("abc"))
    binary.assign(y=rng.integers(0, 2, 150)).to_csv(path / "binary.csv", index=False)
    rounds, src = np.divmod(np.arange(8), 4)
    trace = pd.DataFrame({"round": rounds + 1, "src": src, "dst": (src + 1) % 4})
    trace.to_csv(path / "trace.csv", index=False)
    images = {
        "train-images-ubyte": rng.integers(256, size=(150, 12, 12), dtype=np.uint8),
        "train-labels-ubyte": rng.integers(2, size=150, dtype=np.uint8),
    }
    for name, array in images.items():
        (path / name).write_bytes(idx(array))
    entry = {"name": "pixels", "kind": "image", "files": [{"file": f} for f in images]}
    (path / "MANIFEST.json").write_text(json.dumps({"datasets": [entry]}))
    return path


NUMBERS = Path(__file__).with_name("numbers.json")
WRITE = "PEERWISE_WRITE_NUMBERS" in os.environ


def check_number(name, value):
    """The log-loss that this version of the numerics gives; cells that are kept rely on it."""
    known = json.loads(NUMBERS.read_text())
    if WRITE:
        known["numerics"] = NUMERICS
        known["log_loss"][name] = round(value, 6)
        known["log_loss"] = dict(sorted(known["log_loss"].items()))
        NUMBERS.write_text(json.dumps(known, indent=1) + "\n")
    assert known["numerics"] == NUMERICS, "run this file with PEERWISE_WRITE_NUMBERS=1"
    assert value == pytest.approx(known["log_loss"][name], rel=1e-3), (
        "the numbers changed: if that is meant, raise peerwise.core.NUMERICS, so that kept cells "
        "are run again, and run this file with PEERWISE_WRITE_NUMBERS=1"
    )


@pytest.mark.parametrize("names", list(cases()))
def test_every_name_runs_from_a_file(names, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PEERWISE_DATA", str(folder))
    (folder / "small.toml").write_text(tomli_w.dumps(merged(describe(*n) for n in reversed(names))))
    code, out, err = command(monkeypatch, capsys)("run", "small.toml", "--workers", 1)
    assert code == 0, out + err
    records = json.loads((folder / "runs" / "small" / "results.json").read_text())["records"]
    errors = [r["value"] for r in records if r["metric"] == "test_error"]
    assert len(errors) == 1
    assert 0 <= errors[0] <= 1
    (loss,) = [r["value"] for r in records if r["metric"] == "test_log_loss"]
    check_number(", ".join(map(" ".join, names)), loss)
    for name in (name for kind, name in names if kind == "metric"):
        plain = {"error", "soft_error", "log_loss", "gap"}
        more = {r["metric"] for r in records} - {
            f"{p}_{m}" for p in ("train", "test") for m in plain
        }
        assert name == "errors" or more - {"node_std", "bytes_per_link"}


def talk(nodes, rounds):
    """Nodes that hand each other letters: what peers do, without a network."""
    memories = [node.begin() for node in nodes]
    for t in range(rounds):
        letters = [node.letters(m, t) for node, m in zip(nodes, memories, strict=True)]
        memories = [
            node.step(memory, t, {j: (letters[j][i], t) for j in node.wanted(t)})
            for i, (node, memory) in enumerate(zip(nodes, memories, strict=True))
        ]
    return memories


# of these bits agree only as users compile them
OPTIMISED = ("ba_bfl", "gossip_nb", "relay_gd")
LONG = ("ba_bfl", "relay_gd")  # to compile so: `make test` compiles them quickly and rounds


def to_the_bit():
    """Every method and how far runtimes may be apart."""
    for name in entries("method"):
        as_users = pytest.mark.optimised if name in OPTIMISED else pytest.mark.bits
        if name in LONG:
            yield pytest.param(name, 1e-5, marks=pytest.mark.optimised(False))
        later = [pytest.mark.full] if name in LONG or name in ALIKE else []
        yield pytest.param(name, 0, marks=[as_users, *later])


@pytest.mark.parametrize(("name", "apart"), list(to_the_bit()))
def test_every_method_is_the_same_in_all_runtimes(name, apart):
    """simulate(exact=True), walk and, where a peer may run it, nodes that know their own rows."""

    def same(ours, theirs):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=apart)

    place = find("method", name).traits.place
    network = {"network": "ring"} if place in ("neighbours",) else {}
    described = cell({**SMALL, **network, **using({"name": name})})
    world = drawn(described, 0)
    parts = assemble(described, world)
    rounds = described["run"]["rounds"]
    arguments = parts.method, parts.shards, parts.links, rounds
    oracle = walk(*arguments, channel=parts.channel)
    ours = simulate(*arguments, channel=parts.channel, exact=True)
    jax.tree.map(same, ours.state, oracle.state)
    if not offered(described.method, "peer") or not rounds:
        return
    nodes = []
    for i, rows in enumerate(world.owned):
        own = np.arange(len(rows))
        alone = assemble(
            described,
            World(world.x[rows], world.y[rows], [own], world.schema, world.nodes, world.rows,
                  shape=world.shape, links=parts.links),
        )  # fmt: skip
        nodes.append(Node(alone.method, parts.links, i, parts.shards.of(i)))
    for i, memory in enumerate(talk(nodes, rounds)):
        jax.tree.map(
            lambda ours, theirs, i=i: same(ours, np.asarray(theirs)[i]),
            memory.state.value,
            oracle.state.value,
        )


@pytest.mark.parametrize("name", entries("method"))
def test_a_method_replies_if_it_says_so(name):
    described = cell({**SMALL, "method": name})
    method = assemble(described, drawn(described, 0)).method
    assert (method.reply is not None) == ("replies" in described.method.traits.needs)
