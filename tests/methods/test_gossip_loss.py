"""Gossip naive Bayes on a tree whose links lose 30 % of all messages: which counters are exact."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.methods.gossip_nb import gossip_nb
from peerwise.models import naive_bayes, statistics
from peerwise.shards import pack
from peerwise.simulate import simulate

N, EACH = 12, 20
MODEL = naive_bayes((0, 3, 0), 2)
TREE = topologies.random_tree(N, seed=4)
LOSSY = erasure(0.7)
run64 = partial(simulate, precision="float64", channel=LOSSY)


def rows():
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(2, size=N * EACH))  # one class a node, nearly: the mean is nobody's
    x = [rng.normal(y, 1), (y + rng.integers(3, size=y.size)) % 3, rng.normal(-y, 2)]
    return np.column_stack(x), y


X, Y = rows()
SHARDS = pack(X, Y, np.split(np.arange(len(Y)), N))


def pooled():
    with jax.enable_x64(True):
        return np.asarray(statistics(MODEL, jnp.asarray(X), jnp.asarray(Y), jnp.ones(len(Y))))


def far(run, masses=True):
    """The largest difference of N times a node's mean from the pooled sums, in shares of them.

    With `masses` an estimate is a sum to be divided by its count; else it is a mean already.
    """
    value = jax.tree.map(np.asarray, run.state.value)
    mean = value["estimate"] / value["count"][:, None, None] if masses else value["estimate"]
    return np.abs(N * mean - pooled()).max() / np.abs(pooled()).max()


def test_cumulative_counters_reach_the_exact_pooled_statistics():
    """A lost message only delays: to 1e-6 in double precision, and ever nearer on the way."""
    method = gossip_nb(MODEL, counter="cumulative", degree=TREE.slots)
    apart = [far(run64(method, SHARDS, TREE, rounds)) for rounds in (100, 400, 1600)]
    print("cumulative after 100, 400, 1600 rounds:", *(f"{a:.1e}" for a in apart))
    assert apart[0] > apart[1] > apart[2]
    assert apart[2] < 1e-6


def test_relayed_sums_are_the_pooled_statistics_in_far_fewer_rounds():
    """To rounding after 60 rounds, 30 % of whose messages are lost; and not at once."""
    method = gossip_nb(MODEL, counter="relay")
    early, late = (far(run64(method, SHARDS, TREE, rounds)) for rounds in (4, 60))
    print(f"relayed after 4 and 60 rounds: {early:.1e} {late:.1e}")
    assert early > 1e-2
    assert late < 1e-12


def test_plain_push_sum_loses_its_mass_and_the_mean_with_it():
    """Half of what a node has is lost with a message: .85 of all mass is left a round.

    The nodes still agree, on something else than the mean: where mass was lost, rows do not count.
    """
    rounds = 400
    method = gossip_nb(MODEL, counter="push_sum")
    graph = topologies.pushes(TREE, rounds=rounds)
    whole = run64(method, SHARDS, graph, rounds, channel=erasure(1.0))
    np.testing.assert_allclose(np.asarray(whole.state.value["count"]).sum(), N, rtol=1e-12)
    assert far(whole) < 1e-4
    lossy = [run64(method, SHARDS, graph, rounds, seed=seed) for seed in range(8)]
    left = [np.asarray(run.state.value["count"]).sum() / N for run in lossy]
    rate, apart = np.exp(np.log(left).mean() / rounds), [far(run) for run in lossy]
    print(
        f"push_sum: {far(whole):.1e} from pooled without loss; with loss mass x {rate:.3f}", end=" "
    )
    print(f"a round and {min(apart):.2f} to {max(apart):.2f} from pooled")
    assert 0.82 < rate < 0.88
    assert min(apart) > 0.01


@pytest.mark.parametrize("counter", ["printed", "total"])
def test_means_of_estimates_lose_nothing_and_stay_as_near_as_they_are(counter):
    """Estimates are means, which no lost message makes smaller: near the pooled ones, not exact."""
    rounds = 200
    graph = topologies.pushes(TREE, rounds=rounds)
    method = gossip_nb(MODEL, counter=counter)
    lossy = far(run64(method, SHARDS, graph, rounds), False)
    whole = far(run64(method, SHARDS, graph, rounds, channel=erasure(1.0)), False)
    print(f"{counter}: {whole:.3f} without loss, {lossy:.3f} with")
    assert 1e-3 < lossy < 3 * whole
