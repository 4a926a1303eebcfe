"""Every runtime runs the models of blocks alike: side by side, node after node, in plain Python."""

from typing import NamedTuple

import jax
import numpy as np
import pytest

from helpers import assert_equal_runs
from peerwise import topology as topologies
from peerwise.core import Method
from peerwise.methods import crc
from peerwise.models import lda, qda, tan
from peerwise.shards import Shards, pack
from peerwise.simulate import simulate
from peerwise.walk import walk

pytestmark = pytest.mark.bits

N = 4
ROUNDS = 3
CLASSES = 3
CARDINALITIES = (0, 3, 0, 2)
PRECISIONS = {"float64": 1e-12, "float32": 1e-5}  # what DESIGN.md states, of the largest entry
RAGGED = [6, 5, 6, 5]  # padded to one length


def rows(sizes, share_missing=0.0):
    """Standardised numbers that hang together and codes, which say something about the class."""
    rng = np.random.default_rng(7)
    m = sum(sizes)
    y = rng.integers(CLASSES, size=m)
    shared = rng.normal(size=m)
    codes = (y + rng.integers(3, size=m) // 2) % 3
    x = np.column_stack(
        [0.4 * (y - 1) + shared, codes, 0.5 * shared + 0.8 * rng.normal(size=m), (codes + y) % 2]
    )
    x = np.where(rng.random(x.shape) < share_missing, np.nan, x)
    return x, y, np.split(np.arange(m), np.cumsum(sizes)[:-1])


class Case(NamedTuple):
    method: Method
    shards: Shards


uneven, holes = pack(*rows(RAGGED)), pack(*rows(RAGGED, share_missing=0.2))
TREE = topologies.random_tree(N, seed=3)
PARENTS = (-1, -1, -1, 1)

CASES = {
    "qda": Case(crc(qda(CARDINALITIES, CLASSES), m0=80.0), uneven),
    "lda and self": Case(
        crc(lda(CARDINALITIES, CLASSES, shrinkage=0.2), m0=80.0, include_self=True), uneven
    ),
    "tan": Case(crc(tan(CARDINALITIES, CLASSES, parents=PARENTS), m0=80.0), uneven),
    "tan, holes": Case(
        crc(tan(CARDINALITIES, CLASSES, missing=True, parents=PARENTS), m0=80.0), holes
    ),
}


# one precision for each, by turns; the other one with all that takes long
QUICK = [
    ("qda", "float64"), ("lda and self", "float32"), ("tan", "float32"), ("tan, holes", "float64"),
]  # fmt: skip


def look(method, state):
    return state.value


@pytest.mark.some("holes")
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(n, p, marks=() if (n, p) in QUICK else pytest.mark.full)
        for n in CASES
        for p in PRECISIONS
    ],
)
def test_all_runtimes_agree(name, precision):
    """To rounding when nodes run side by side, to the last bit when they run one by one."""
    case = CASES[name]
    args = case.method, case.shards, TREE, ROUNDS
    options = {"precision": precision, "seed": 5, "probe": look, "at": [1, 3]}
    oracle, together, exact = (
        run(*args, **options, **more)
        for run, more in ((walk, {}), (simulate, {}), (simulate, {"exact": True}))
    )
    value = oracle.state.value
    assert isinstance(value, dict) == name.startswith("lda")
    assert jax.tree.leaves(value)[0].dtype == precision
    assert_equal_runs(together, oracle, PRECISIONS[precision])
    assert_equal_runs(exact, oracle)


def test_what_the_classes_share_counts_in_the_bytes_of_a_message():
    """Three classes of 1 + 2 + 5 sums, 3 sums for all of them, and the sender's rows."""
    run = simulate(*CASES["lda and self"], TREE, 1)
    assert run.message_bytes == 4 * (3 * 8 + 3 + 1)
