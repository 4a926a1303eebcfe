"""The split of BA-BFL: every class spread over the nodes by a Dirichlet draw, with a size cap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise import partition
from peerwise.errors import BadSetting


def rng(seed=0):
    return np.random.default_rng(seed)


def dealt(y, nodes, seed=0, rows=None, **options):
    """Counts of each class at each node."""
    sizes = partition.equal_sizes(nodes, rows or y.size)
    owned = partition.dirichlet_by_class(rng(seed), np.zeros((y.size, 1)), y, sizes, **options)
    used = np.concatenate(owned)
    assert used.size == np.unique(used).size == (rows or y.size)
    return partition.allocation(y, owned, int(y.max()) + 1)


@pytest.mark.parametrize("seed", range(3))
def test_10_nodes_of_fashion_mnist_are_dealt_as_in_the_paper(seed):
    """Every row once, 10 a node or more, and classes that nodes lack or hold most of (Figure 2)."""
    counts = dealt(rng().permutation(np.repeat(np.arange(10), 6000)), 10, seed)
    assert (counts.sum(0) == 6000).all()
    assert counts.sum(1).min() >= 10
    assert (counts < 60).any()
    assert (counts > 2000).any()


def by_the_book(y, nodes, alpha, least, draw):
    """The public code, rule by rule: shares of all nodes, zeros for the full ones, scaled again."""
    fewest = -1
    while fewest < least:
        held = [[] for _ in range(nodes)]
        for c in np.unique(y):
            share = draw.dirichlet(np.full(nodes, alpha))
            share = np.array(
                [p * (len(h) < y.size / nodes) for p, h in zip(share, held, strict=True)]
            )
            at = (np.cumsum(share / share.sum()) * np.sum(y == c)).astype(int)[:-1]
            parts = np.split(np.flatnonzero(y == c), at)
            held = [h + part.tolist() for h, part in zip(held, parts, strict=True)]
        fewest = min(map(len, held))
    return partition.allocation(y, [np.array(h, int) for h in held], int(y.max()) + 1)


def test_counts_have_the_law_of_the_public_code():
    """The spread of each class and of the totals, over 400 draws, within sampling noise."""
    y, draw = np.repeat([0, 1, 2, 3], [400, 300, 200, 100]), rng(1)
    ours = np.array([dealt(y, 5, seed) for seed in range(400)])
    theirs = np.array([by_the_book(y, 5, 0.5, 10, draw) for _ in range(400)])
    np.testing.assert_allclose(ours.std((0, 1)), theirs.std((0, 1)), rtol=0.08)
    np.testing.assert_allclose(ours.sum(2).std(), theirs.sum(2).std(), rtol=0.08)
    np.testing.assert_allclose(
        np.mean(ours**2, (0, 1)) / ours.mean((0, 1)) ** 2,
        np.mean(theirs**2, (0, 1)) / theirs.mean((0, 1)) ** 2,
        rtol=0.08,
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_full_node_gets_nothing_more(seed):
    """Whoever holds its even part before a class has none of that class."""
    counts = dealt(np.repeat(np.arange(6), 200), 8, seed, alpha=0.3)
    before = np.cumsum(counts, axis=1) - counts
    full = before >= 1200 / 8
    assert full.any()
    assert (counts[full] == 0).all()


def test_a_large_alpha_is_even_and_a_small_one_gives_a_class_to_one_node():
    y = np.repeat(np.arange(4), 300)
    np.testing.assert_allclose(dealt(y, 4, alpha=1e6), 75, atol=3)
    assert dealt(y, 4, alpha=1e-6).max(0).tolist() == [300] * 4


def test_of_sizes_only_the_sum_and_the_number_count():
    y, x = rng().integers(0, 3, 300), np.zeros((300, 1))
    rows = [partition.dirichlet_by_class(rng(1), x, y, s) for s in ([50, 50, 50], [0, 149, 1])]
    for a, b in zip(*rows, strict=True):
        np.testing.assert_array_equal(a, b)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(alpha=st.floats(1e-300, 1e9), seed=st.integers(0, 1000), nodes=st.integers(1, 9))
def test_any_positive_alpha_deals_all_rows(alpha, seed, nodes):
    counts = dealt(rng(seed).integers(0, 4, 60), nodes, seed, alpha=alpha, least=0)
    assert counts.sum() == 60


def test_what_cannot_be_met_is_refused():
    y = np.repeat([0, 1], 100)
    with pytest.raises(BadSetting, match="30 nodes of 10 rows or more need 300 rows, got 200"):
        dealt(y, 30)
    with pytest.raises(
        BadSetting, match=r"none of 1000 draws .* 20 nodes 10 .* at best one had \d"
    ):
        dealt(y, 20)
    with pytest.raises(BadSetting, match=r"least must be a whole number, got 1\.5"):
        dealt(y, 2, least=1.5)
    with pytest.raises(BadSetting, match="alpha must be greater than 0"):
        dealt(y, 2, alpha=0)
