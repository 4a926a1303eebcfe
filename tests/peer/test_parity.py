"""Real peers over mutual TLS end with the models of the simulator, to the bit."""

import asyncio

import jax
import networkx as nx
import numpy as np
import pytest

from federation import assert_same, federation, run_all, signed, simulated
from peerwise.channel import delay, erasure
from peerwise.peer.plan import Plan
from peerwise.peer.wire import Envelope

pytestmark = pytest.mark.bits


def tree(n, seed=0):
    drawn = nx.random_labeled_tree(n, seed=seed)
    return nx.relabel_nodes(drawn, {i: f"n{i}" for i in range(n)})


@pytest.mark.parametrize("rounds", [12, pytest.param(64, marks=pytest.mark.full)])
def test_eight_peers_with_crc_end_with_the_simulators_models(tmp_path, rounds):
    fed = federation(tmp_path, tree(8), {"name": "crc", "lr": 0.05}, rounds=rounds)
    daemons = [fed.daemon(name) for name in fed.charter.names]
    assert run_all(*daemons) == [True] * 8
    assert_same(simulated(fed, daemons, rounds), daemons)


NET = {"lr": 0.05, "batch": 10}


EXACT = [
    {"method": "crc", "model": "qda", "run": {"precision": "float64"}},
    {"method": {"name": "gossip_nb", "counter": "cumulative"}},
    {"method": "relay"},
    {"method": "isolated"},
]
MORE_EXACT = [
    {"method": {"name": "crc", "rule": "metropolis"}},
    {"method": "gossip_nb"},
]
NETS = [
    {"method": {"name": "cfa_ge", **NET}},  # which also replies
    {"method": {"name": "decdiff", **NET}},
    {"method": {"name": "ba_bfl", **NET}, "net": {"name": "mlp_64", "bayesian_layers": 1}},
    {"method": {"name": "cvar_cvar", **NET}},
    {"method": {"name": "relay_gd", **NET}},
]


def named(sections):
    return str(sections["method"])[:30]


def and_in_full(some, more):
    """The others take long to compile; tests/learner has them without a network between."""
    return [*some, *(pytest.param(one, marks=pytest.mark.full) for one in more)]


def between_peers_as_in_one_program(folder, sections, tolerance):
    fed = federation(folder, tree(3), **sections, rounds=6)
    daemons = [fed.daemon(name) for name in fed.charter.names]
    assert all(run_all(*daemons))
    assert_same(simulated(fed, daemons, 6), daemons, tolerance)


@pytest.mark.some("crc", "gossip_nb")
@pytest.mark.parametrize("sections", and_in_full(EXACT, MORE_EXACT), ids=named)
def test_every_kind_of_method_learns_between_peers_what_it_learns_in_one_program(
    tmp_path, sections
):
    between_peers_as_in_one_program(tmp_path, sections, 0.0)


@pytest.mark.full  # `make test`: CFA-GE between peers, test_large.py
@pytest.mark.optimised(False)  # to rounding
@pytest.mark.parametrize("sections", NETS, ids=named)
def test_nets_learn_between_peers_what_they_learn_in_one_program(tmp_path, sections):
    between_peers_as_in_one_program(tmp_path, sections, 1e-5)


def test_links_that_lose_on_purpose_lose_what_the_simulators_lose(tmp_path):
    fed = federation(tmp_path, tree(5, 1), {"name": "crc", "lr": 0.05}, rounds=20)
    daemons = [fed.daemon(name, channel=erasure(0.7)) for name in fed.charter.names]
    assert all(run_all(*daemons))
    run = simulated(fed, daemons, 20, channel=erasure(0.7))
    assert_same(run, daemons)
    lossless = simulated(fed, daemons, 20)
    assert not np.array_equal(
        jax.tree.leaves(run.state.value)[0], jax.tree.leaves(lossless.state.value)[0]
    )


@pytest.mark.full
def test_late_letters_are_as_late_as_the_simulators(tmp_path):
    fed = federation(tmp_path, tree(4, 2), {"name": "crc", "lr": 0.05}, rounds=12)
    daemons = [fed.daemon(name, channel=delay(2)) for name in fed.charter.names]
    assert all(run_all(*daemons))
    assert_same(simulated(fed, daemons, 12, channel=delay(2)), daemons)


@pytest.mark.long("naive_bayes")
@pytest.mark.some("naive_bayes", "tan")
@pytest.mark.parametrize("model", ["naive_bayes", "multinomial", "tan"])
def test_units_and_structure_are_agreed_by_neighbours_first(tmp_path, model):
    fed = federation(
        tmp_path, nx.relabel_nodes(nx.path_graph(3), {0: "a", 1: "b", 2: "c"}),
        {"name": "crc", "lr": 0.05}, model=model, rounds=6,
        units="given" if model == "multinomial" else "agree",
        categories=4 if model == "tan" else 0,
    )  # fmt: skip
    daemons = [fed.daemon(name) for name in fed.charter.names]
    assert all(run_all(*daemons))
    assert daemons[0].agreed == daemons[1].agreed == daemons[2].agreed
    everything = np.concatenate([d.plan.x for d in daemons])
    units = daemons[0].agreed.get("units")
    assert (units is None) == (model == "multinomial")
    if units is not None:
        assert units["count"] == [90.0] * 6
        np.testing.assert_allclose(units["sum"], everything.sum(0), rtol=1e-6)
    if model == "naive_bayes":
        seen = np.concatenate([d.plan.encoded(d.plan.x, d.agreed) for d in daemons])
        np.testing.assert_allclose(seen.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(seen.std(0), 1, rtol=1e-5)
    assert_same(simulated(fed, daemons, 6), daemons)


@pytest.mark.full  # `make test`: protocol/test_worlds.py
def test_a_peer_that_only_dials_hears_and_is_heard(tmp_path):
    graph = nx.relabel_nodes(nx.path_graph(4), {0: "a", 1: "b", 2: "c", 3: "d"})
    fed = federation(tmp_path, graph, {"name": "crc", "lr": 0.05}, rounds=3, only_dial=("a", "c"))
    daemons = [fed.daemon(name) for name in fed.charter.names]
    assert all(run_all(*daemons))
    assert_same(simulated(fed, daemons, 3), daemons)


def test_letters_of_the_phase_before_are_taken_as_known(tmp_path):
    """As a sends them that was killed before it learnt that b has them."""
    graph = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
    fed = federation(tmp_path, graph, {"name": "crc", "lr": 0.05}, rounds=6, units="agree")
    a, b = (fed.daemon(name) for name in fed.charter.names)
    assert all(run_all(a, b))
    node = a.plan.node(0)
    memory = node.begin()
    letter = node.letters(memory, 0)[1]
    old = a.letters.form(node, memory, None).encode(letter, Envelope("a", 0, 0))
    old = signed(a, old, "a", (0, 0))
    assert b.place.phase == 1
    asyncio.run(b.accept("a", old))  # not refused, and not kept
    assert not b.store.inbox.letters()


def test_peers_of_a_charter_start_alike_and_with_another_seed_otherwise(tmp_path):
    """The charter's seed is all that they share before the first letter."""
    starts = []
    for seed in (0, 1):
        method, run = {"name": "cta", "steps": 1, "lr": 1e-9}, {"seed": seed}
        fed = federation(tmp_path / str(seed), tree(2), method, rows=10, features=2, run=run)
        plans = [Plan(fed.charter, name, fed.tables[name]) for name in fed.charter.names]
        begun = [plan.begin(plan.phases - 1)[1].state.value for plan in plans]
        starts.append([np.asarray(jax.tree.leaves(value)[0]) for value in begun])
    np.testing.assert_array_equal(*starts[0])
    np.testing.assert_array_equal(*starts[1])
    assert np.abs(starts[0][0] - starts[1][0]).max() > 0.01
