"""What every way to deal rows that the package exports must do."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise import partition
from peerwise.declare import declared
from peerwise.errors import BadData, BadSetting
from peerwise.names import entries

# Nodes of one class each, or one of a class alone: its rows need not fit the nodes that hold it.
ONE_CLASS = {"label_drift", "label_feature_drift", "sole_holder"}
# A handful of nodes and rows is neither as unequal as the paper's 50 nodes nor enough for a row of
# each class, or 10 rows, at each node; test_zipf.py and test_dirichlet_by_class.py have the
# defaults, at their size.
OPTIONS = {"zipf": {"gini": None, "least": 0}, "dirichlet_by_class": {"least": 0}}

PARTITIONS, SIZES = entries("partition"), declared("sizes")
OWN_SIZES = {"dirichlet_by_class", "zipf"}  # the draw says how many rows each node gets

several = settings(derandomize=True, deadline=None, max_examples=10)
seeds = st.integers(0, 2**32 - 1)


def case(seed, spare):
    """A table with `spare` rows for each that is asked for, and sizes that add up to the rest."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(1, 12))
    sizes = rng.integers(0, 9, nodes)
    sizes[0] += 1
    m = int(sizes.sum() * spare)
    x = rng.normal(size=(m, 3))
    x[rng.random(x.shape) < 0.1] = np.nan
    return x, rng.integers(0, 3, m), sizes


def way(name):
    return partial(getattr(partition, name), **OPTIONS.get(name, {}))


def test_what_is_listed_is_exported():
    named = set(PARTITIONS) | {f"{name}_sizes" for name in SIZES}
    shifts = {"unshifted" if name == "none" else name for name in entries("shift")}
    rest = {"first_component"}
    measures = {"allocation", "gini", "gini_by_class", "gini_of_totals"}
    assert named | shifts | rest | measures == set(partition.__all__)
    assert set(PARTITIONS) >= OWN_SIZES
    by_name = {name: getattr(partition, name).declared for name in PARTITIONS}
    by_name |= {name: getattr(partition, name).declared for name in shifts - {"unshifted"}}
    assert all(known.name == name for name, known in by_name.items())


@pytest.mark.parametrize("name", PARTITIONS)
@several
@given(seed=seeds, spare=st.sampled_from([1, 2, 20]))
def test_sizes_are_as_asked_and_no_row_is_dealt_twice(name, seed, spare):
    x, y, sizes = case(seed, spare)
    deal = way(name)
    if name in ONE_CLASS:  # each class alone has the rows of all nodes
        x, y = np.repeat(x, 12, axis=0), np.repeat(np.arange(y.size) % 3, 12)
    rows = deal(np.random.default_rng(seed), x, y, sizes)
    if name in OWN_SIZES:  # the draw says how many each node gets: only the sum is asked
        assert (len(rows), sum(r.size for r in rows)) == (sizes.size, sizes.sum())
    else:
        assert [r.size for r in rows] == sizes.tolist()
    assert all(r.dtype.kind == "i" for r in rows)
    used = np.concatenate(rows)
    assert np.unique(used).size == used.size
    assert used.min() >= 0
    assert used.max() < y.size


@pytest.mark.parametrize("name", sorted(set(PARTITIONS) - ONE_CLASS))
@several
@given(seed=seeds)
def test_every_row_is_used_once_when_the_sizes_cover_the_table(name, seed):
    x, y, sizes = case(seed, 1)
    rows = way(name)(np.random.default_rng(seed), x, y, sizes)
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(y.size))


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_same_seed_deals_the_same_and_another_otherwise(name):
    rng = np.random.default_rng(0)
    x, y, sizes = rng.normal(size=(400, 3)), rng.integers(0, 3, 400), np.full(10, 7)
    deal = way(name)
    dealt = [
        np.concatenate(deal(np.random.default_rng(seed), x, y, sizes)).tolist()
        for seed in (1, 1, 2)
    ]
    assert dealt[0] == dealt[1] != dealt[2]


@pytest.mark.long("clusters")
@pytest.mark.parametrize("name", sorted(set(PARTITIONS) - ONE_CLASS))
def test_the_rows_used_are_a_random_draw_of_the_table(name):
    """Every row is as likely to be used, whatever its class and features.

    Where classes are thinned in proportion, as by zipf, but for rounding: 2 of 5 rows, not 5 / 3.
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), np.repeat([0, 1, 2], [40, 15, 5])
    count, seeds = np.zeros(60), 100 if name == "clusters" else 300  # which are slow to find
    for seed in range(seeds):
        rows = way(name)(np.random.default_rng(seed), x, y, np.full(5, 4))
        count[np.concatenate(rows)] += 1
    std = np.sqrt(seeds * (1 / 3) * (2 / 3))
    assert np.abs(count - seeds / 3).max() < 4 * std


@pytest.mark.parametrize("name", PARTITIONS)
def test_tables_and_sizes_that_make_no_sense_are_refused(name):
    deal, rng = getattr(partition, name), np.random.default_rng(0)
    x, y = np.zeros((6, 2)), np.array([0, 0, 0, 1, 1, 1])
    with pytest.raises(BadSetting, match="ask for 7 rows and there are 6"):
        deal(rng, x, y, np.array([4, 3]))
    for sizes in ([], [-1, 2], [1.5], [[1, 2]]):
        with pytest.raises(BadSetting, match="sizes must be one whole number"):
            deal(rng, x, y, np.array(sizes))
    with pytest.raises(BadData, match=r"x must be \[m, d\] and y \[m\], got \(6, 2\) and \(5,\)"):
        deal(rng, x, y[:5], np.array([2]))
    with pytest.raises(BadData, match="no rows"):
        deal(rng, x[:0], y[:0], np.array([0]))


@pytest.mark.parametrize("name", SIZES)
@several
@given(seed=seeds, nodes=st.integers(1, 60), minimum=st.integers(0, 5), data=st.data())
def test_sizes_add_up_and_keep_the_minimum(name, seed, nodes, minimum, data):
    rows = data.draw(st.integers(max(nodes * max(minimum, 1), 1), 2000))
    sizes = SIZES[name].make(np.random.default_rng(seed), nodes, rows, minimum)
    assert sizes.shape == (nodes,)
    assert sizes.dtype.kind == "i"
    assert sizes.sum() == rows
    assert sizes.min() >= minimum
    again = SIZES[name].make(np.random.default_rng(seed), nodes, rows, minimum)
    np.testing.assert_array_equal(sizes, again)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_make_no_sense_are_refused(name):
    sizes, rng = SIZES[name].make, np.random.default_rng(0)
    with pytest.raises(BadSetting, match="6 nodes of 2 rows or more need 12 rows, got 11"):
        sizes(rng, 6, 11)
    with pytest.raises(BadSetting, match=r"nodes must be .* 1 or more, got 0"):
        sizes(rng, 0, 11)
    with pytest.raises(BadSetting, match=r"minimum must be .* 0 or more, got -1"):
        sizes(rng, 2, 11, -1)
    with pytest.raises(BadSetting, match=r"rows must be .* got 11\.5"):
        sizes(rng, 2, 11.5)
