"""What runs otherwise on a GPU computes the same: here it is told that it runs on one."""

import importlib

import jax
import numpy as np
import pytest

from peerwise import topology
from peerwise.methods import crc, relay, robust_nb
from peerwise.models import naive_bayes
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.topology.links import by_degree, edges_of

NODES, ROUNDS = 12, 3
RNG = np.random.default_rng(4)
X, Y = RNG.standard_normal((60, 3)), RNG.integers(0, 2, 60)
SHARDS = pack(X, Y, np.array_split(np.arange(60), NODES))
MODEL = naive_bayes((0, 0, 0), 2)
TREE = topology.random_tree(NODES, seed=1)


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Branches as on a GPU, with networks that count as large and blocks that are small."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for module, name, value in (
        ("simulate.run", "LARGE", 2),
        ("simulate.nodes", "LARGE_BLOCK", 5),
        ("combine.apply", "TOGETHER", 4),
        ("combine.apply", "GATHERED", 1000),
    ):
        monkeypatch.setattr(importlib.import_module(f"peerwise.{module}"), name, value)
    jax.clear_caches()
    yield
    jax.clear_caches()


METHODS = {"crc": crc(MODEL, m0=100.0), "relay": relay(MODEL), "robust": robust_nb(MODEL)}


def learnt(name):
    return simulate(METHODS[name], SHARDS, TREE, ROUNDS, precision="float64").state.value


@pytest.fixture
def here(name):
    return learnt(name)


@pytest.mark.some("crc")
@pytest.mark.parametrize("name", METHODS)
def test_a_gpu_computes_what_a_cpu_does(name, here, on_a_gpu):
    pairs = zip(jax.tree.leaves(learnt(name)), jax.tree.leaves(here), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_buckets_by_degree_hold_every_link_once():
    sorted_in = by_degree(topology.barabasi_albert(40, m=2, seed=3))
    assert len(sorted_in.table) > 2
    links = []
    for nodes, table in sorted_in.table:
        nodes, slots = np.asarray(nodes), np.asarray(table)[0]
        degree = (slots >= 0).sum(1)
        assert (2 * degree > slots.shape[1]).all()  # none has half of its slots empty
        assert (np.asarray(sorted_in.links.dst)[0, slots[slots >= 0]] == nodes.repeat(degree)).all()
        links.extend(slots[slots >= 0])
    assert sorted(links) == list(range(edges_of(sorted_in)[0].size))
