"""Relay runs alike in every runtime: on trees, on graphs with circles, over links that lose."""

from functools import partial

import jax
import numpy as np
import pytest

from helpers import assert_equal_runs
from peerwise import topology as topologies
from peerwise.channel import erasure, perfect
from peerwise.methods import relay
from peerwise.models import lda, naive_bayes, qda, tan
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

pytestmark = pytest.mark.bits

N, ROUNDS, CLASSES = 5, 7, 3
CARDINALITIES = (0, 3, 0, 2)
RAGGED = [6, 5, 0, 6, 5]
PRECISIONS = {"float64": 1e-12, "float32": 1e-5}


def rows():
    rng = np.random.default_rng(7)
    m = sum(RAGGED)
    y = rng.integers(CLASSES, size=m)
    shared = rng.normal(size=m)
    codes = (y + rng.integers(3, size=m) // 2) % 3
    x = np.column_stack(
        [0.4 * (y - 1) + shared, codes, 0.5 * shared + 0.8 * rng.normal(size=m), (codes + y) % 2]
    )
    return x, y, np.split(np.arange(m), np.cumsum(RAGGED)[:-1])


SHARDS = pack(*rows())
TREE, RING = topologies.random_tree(N, seed=3), topologies.ring(N)
MODELS = {
    "naive_bayes": naive_bayes(CARDINALITIES, CLASSES),
    "lda": lda(CARDINALITIES, CLASSES, shrinkage=0.2),  # classes share something
    "qda": qda(CARDINALITIES, CLASSES),
    "tan": tan(CARDINALITIES, CLASSES, parents=(-1, -1, -1, 1)),
}
METHODS = {
    **{name: relay(model, lr=0.1) for name, model in MODELS.items()},
    "clipped": relay(MODELS["naive_bayes"], lr=0.1, clip=2.0),
}
CASES = {
    "naive Bayes on a tree": ("naive_bayes", TREE, perfect(), "float32"),
    "naive Bayes on a lossy ring": ("naive_bayes", RING, erasure(0.7), "float64"),
    "lda on a lossy tree": ("lda", TREE, erasure(0.7), "float32"),
    "qda on a ring": ("qda", RING, perfect(), "float64"),
    "tan on a tree": ("tan", TREE, perfect(), "float32"),
    "clipped naive Bayes on a lossy tree": ("clipped", TREE, erasure(0.7), "float32"),
}


def look(method, state):
    return state.value["statistics"]


# the one that has circles and links that lose; all take long to compile
QUICK = ("naive Bayes on a lossy ring",)


@pytest.mark.full  # `make test`: learner/test_every_name.py; with loss, methods/test_relaying.py
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.full) for n in CASES]
)
def test_all_runtimes_agree(name):
    """To the last bit one by one; side by side in what is learnt, and in the tree exactly."""
    model, graph, channel, precision = CASES[name]
    options = {"precision": precision, "seed": 5, "probe": look, "at": [1, 4, 7]}
    oracle, together, exact = (
        run(METHODS[model], SHARDS, graph, ROUNDS, channel=channel, **options)
        for run in (walk, simulate, partial(simulate, exact=True))
    )
    assert_equal_runs(exact, oracle)
    assert (together.messages, together.message_bytes) == (oracle.messages, oracle.message_bytes)
    for ours, theirs in zip(
        jax.tree.leaves((together.history, together.state.value["statistics"])),
        jax.tree.leaves((oracle.history, oracle.state.value["statistics"])),
        strict=True,
    ):
        assert ours.dtype == theirs.dtype == precision
        atol = PRECISIONS[precision] * np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)
    for place in ("root", "parent", "steps", "nodes", "ages"):
        np.testing.assert_array_equal(
            together.state.value["relay"][place], oracle.state.value["relay"][place]
        )
