"""What must be agreed on first, each by one sealed sum: exact, paid for, the same at all nodes."""

from dataclasses import replace
from typing import NamedTuple

import jax
import networkx as nx
import numpy as np
import pytest

from helpers import assert_equal_runs, in64
from peerwise import topology as topologies
from peerwise.agreement import sum_rounds
from peerwise.core import Shard
from peerwise.errors import BadData, BadSetting
from peerwise.learner import cell
from peerwise.learner.assemble import assemble, facts_of
from peerwise.learner.firsts import as_if_nothing, budget_of, decided, firsts, settled, sum_of
from peerwise.learner.run import assembled
from peerwise.learner.world import World, drawn
from peerwise.methods.sealed import TRUST
from peerwise.methods.sealed_total import deviation, sealed_total, shape_of, total_of
from peerwise.models.registry import agreed
from peerwise.models.tan import structure
from peerwise.privacy import public_schema
from peerwise.privacy.budget import Budget
from peerwise.privacy.design import design_of, noising
from peerwise.privacy.sums import MOST
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

N, EACH = 3, 40
SCHEMA = public_schema(dict.fromkeys("abc", ("p", "q")), ("no", "yes"))
PHASE = structure((2, 2, 2), 2)
CHAIN = topologies.chain(N)


def rows():
    """The third feature is mostly the second, the second mostly the first."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=N * EACH)
    first = rng.integers(2, size=len(y))
    second = np.where(rng.random(len(y)) < 0.9, first, 1 - first)
    third = np.where(rng.random(len(y)) < 0.9, second, 1 - second)
    return np.column_stack([first, second, third]).astype(float), y.astype(np.int32)


X, Y = rows()
WORLD = World(X, Y, np.arange(len(Y)).reshape(N, EACH), SCHEMA, N, len(Y))


def described(epsilon=50.0, **method):
    return cell(
        {
            "model": method.pop("model", "tan"),
            "method": {"name": "sealed_nb", **method},
            "privacy": {"epsilon": epsilon, "delta": 1e-5},
        }
    )


TAN = described()


class Case(NamedTuple):
    """A first sum of a small network."""

    cell: object
    world: World
    name: str


def _mixed(gaps=False):
    """Two numbers within their bounds, which are -1 and 1, and a category; maybe with gaps."""
    rng = np.random.default_rng(1)
    numbers = np.clip(rng.normal([0.3, -0.5], [0.1, 0.4], (len(Y), 2)), -1, 1)
    numbers[0] = -1.0, 1.0
    if gaps:
        numbers[rng.random(numbers.shape) < 0.2] = np.nan
    bounds = ([-1.0, -1.0], [1.0, 1.0])
    columns = {"a": (0.0, 10.0), "b": (-4.0, 4.0), "c": ("p", "q")}
    schema = public_schema(columns, ("no", "yes"))
    schema = replace(schema, missing=gaps)
    return World(
        np.column_stack([numbers, X[:, 0]]), Y, WORLD.owned, schema, N, len(Y), bounds=bounds
    )


MIXED, GAPS = _mixed(), _mixed(True)
UNITS = described(model="naive_bayes", units="sealed")
BEST = described(model="naive_bayes", select=2)
CASES = {
    "structure": Case(TAN, WORLD, "structure"),
    "features": Case(BEST, MIXED, "features"),
    "features, with gaps": Case(BEST, GAPS, "features"),
    "units": Case(UNITS, MIXED, "units"),
    "units, with gaps": Case(UNITS, GAPS, "units"),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def shards(world):
    return pack(world.x, world.y, world.owned)


def test_the_structure_is_that_of_all_rows_where_there_is_little_noise():
    found = PHASE.options(settled(TAN, WORLD, CHAIN).sums)
    assert found == agreed(SCHEMA, "tan", X, Y)
    assert found["parents"] == (-1, 0, 1)


def test_what_noise_alone_could_count_is_nothing():
    total = np.array([[30.0, 0, 1, 30] * 3] * 2)
    noise = 0.9
    world = firsts(TAN, WORLD)["structure"].decided(WORLD, total, noise)
    np.testing.assert_array_equal(world.sums, np.where(total > 2 * noise, total, 0))


def test_without_noise_the_structure_is_exactly_that_of_all_rows():
    sums = settled(described(float("inf")), WORLD, CHAIN).sums
    np.testing.assert_array_equal(sums, in64(PHASE.count, Shard(X, Y, np.ones(len(Y)))))


@cases
def test_a_row_moves_a_real_count_by_the_reach_at_most(case):
    world, first = case.world, firsts(case.cell, case.world)[case.name]
    sealed = sum_of(case.cell, world, case.name).adapt
    full = sealed.exact(None, world.x, world.y)
    whole = in64(first.count, Shard(world.x, world.y, np.ones(len(world.y))))
    flat = np.concatenate([np.ravel(a) for a in jax.tree.leaves(whole)])
    np.testing.assert_allclose(
        full * sealed.grid.step, flat, atol=len(world.y) * sealed.grid.step[0]
    )
    most = 0.0
    for gone in range(len(world.y)):
        kept = np.arange(len(world.y)) != gone
        less = sealed.exact(None, world.x[kept], world.y[kept])
        most = max(most, float(np.sqrt((((full - less) * sealed.grid.step) ** 2).sum())))
    assert 0.8 * first.reach < most <= first.reach * (1 + 1e-6)


@pytest.mark.bits
@cases
def test_runtimes_agree_to_the_bit(case):
    method = sum_of(case.cell, case.world, case.name)
    options = {"seed": 5, "precision": "float64"}
    rounds = sum_rounds(topologies.graph_of(CHAIN))
    walked = walk(method, shards(case.world), CHAIN, rounds, **options)
    run = simulate(method, shards(case.world), CHAIN, rounds, exact=True, **options)
    assert_equal_runs(run, walked)
    nodes = [jax.tree.map(lambda a, i=i: a[i], run.state.value) for i in range(N)]
    totals = [total_of(method, value) for value in nodes]
    assert all((total == totals[0]).all() for total in totals)
    # and so is what is decided
    both = [decided(case.cell, case.world, case.name, total) for total in totals]
    np.testing.assert_array_equal(both[0].x, both[-1].x)


@pytest.mark.parametrize(("method", "sums"), [({}, 1), ({"units": "sealed", "select": 2}, 3)])
def test_all_parts_of_the_budget_together_are_the_budget(method, sums):
    """1 / noise^2 of all sums, each in units of what a row can do, add up to that of the budget."""
    one, world = described(1.0, **method), WORLD._replace(bounds=((), ()))
    whole = deviation(Budget(1.0, 1e-5), 1.0)
    every = firsts(one, world)
    assert len(every) == sums
    parts = [deviation(budget_of(one, world), 1.0)]
    for name, first in every.items():
        grid = sum_of(one, world, name).adapt.grid
        parts.append(np.sqrt(grid.honest) * (grid.std * grid.step)[0] / first.reach)
    assert sum(1 / p**2 for p in parts) == pytest.approx(1 / whole**2, rel=1e-5)
    # and what is left is for learning, once all of them are past
    after = as_if_nothing(one, world._replace(links=CHAIN))
    assert tuple(firsts(one, after)) == tuple(every)
    learning = assemble(one, after).method.adapt.grid
    model = facts_of(one, after, None, CHAIN)["model"]
    design = design_of(model, (), ())
    scale = noising(design, 1.0, 1e-5, "gaussian").scale / np.sqrt(0.8)
    noise = np.sqrt(learning.honest) * learning.std * learning.step
    np.testing.assert_allclose(noise, np.tile(scale, 2))
    assert after.x.shape[1] == method.get("select", 3)


@pytest.mark.parametrize("world", [MIXED, GAPS], ids=["whole", "gaps"])
def test_without_noise_units_are_the_mean_and_deviation_of_all_rows(world):
    found = settled(described(float("inf"), model="naive_bayes", units="sealed"), world, CHAIN)
    raw = world.x[:, :2] * [5.0, 4.0] + [5.0, 0.0]
    for j, f in enumerate(found.schema.features[:2]):
        assert f.center == pytest.approx(np.nanmean(raw[:, j]), abs=1e-5)
        assert f.scale == pytest.approx(np.nanstd(raw[:, j]), abs=1e-5)
        # the same rows and bounds, in other units
        np.testing.assert_allclose(found.x[:, j] * f.scale + f.center, raw[:, j], atol=1e-12)
        edges = [bound[j] * f.scale + f.center for bound in found.bounds]
        np.testing.assert_allclose(edges, [[0, 10], [-4, 4]][j], atol=1e-9)
    np.testing.assert_array_equal(found.x[:, 2], world.x[:, 2])
    assert found.schema.features[2] == world.schema.features[2]


def test_units_worked_by_hand_and_where_noise_says_nothing():
    """Numbers u from -1 to 1: rows, sum of u, sum of u^2 - 1/2."""
    first = firsts(UNITS, MIXED)["units"]

    def of(rows, sums, squares, noise):
        total = {"count": np.array([rows]), "sum": np.array(sums), "square": np.array(squares)}
        found = first.decided(MIXED, total, noise).schema.features[:2]
        return [(f.center, f.scale) for f in found]

    # of 100 rows: mean .5 and variance .25; mean -.2 and, less than noise can tell, .04 - .04
    by_hand = of(100.0, [50.0, -20.0], [0.0, -46.0], 2.0)
    expected = [(5 + 5 * 0.5, 5 * 0.5), (-0.8, 4 * np.sqrt(2 * 2.0 / 100))]
    np.testing.assert_allclose(by_hand, expected)
    # a mean beyond the bounds is not, nor is a variance that no such numbers have
    np.testing.assert_allclose(of(10.0, [30.0, 0.0], [0.0, 99.0], 1.0)[0][0], 10.0)
    assert of(10.0, [30.0, 0.0], [0.0, 99.0], 1.0)[1] == (0.0, 4.0)
    # so few rows that they may be noise: the units of the bounds
    assert of(3.0, [1.0, 1.0], [-1.0, -1.0], 2.0) == [(5.0, 5.0), (0.0, 4.0)]
    # a number that is the same everywhere keeps the unit of its bounds
    assert of(100.0, [0.0, 20.0], [-50.0, -46.0], 0.0)[0] == (5.0, 5.0)


def test_units_need_public_bounds_and_numbers_that_have_units():
    with pytest.raises(BadSetting, match="public bounds"):
        settled(UNITS, MIXED._replace(bounds=None), CHAIN)
    counts = described(1.0, model="multinomial", units="sealed")
    with pytest.raises(BadSetting, match="numbers as they are"):
        settled(counts, MIXED, CHAIN)


def _informative():
    """The second number and the category say what the class is, the first number does not."""
    x = MIXED.x.copy()
    x[:, 1] = np.where(Y > 0, 0.6, -0.7)
    x[:, 2] = Y
    return MIXED._replace(x=x, x_test=x[:5], y_test=Y[:5])


def test_the_features_that_tell_most_are_kept_with_their_bounds_and_test_rows():
    world = _informative()._replace(bounds=([-1.0, -2.0], [1.0, 2.0]))
    found = settled(BEST, world, CHAIN)
    assert [f.name for f in found.schema.features] == ["b", "c"]
    assert found.schema.features == world.schema.features[1:]
    np.testing.assert_array_equal(found.x, world.x[:, 1:])
    np.testing.assert_array_equal(found.x_test, world.x_test[:, 1:])
    assert found.bounds == ([-2.0], [2.0])
    one = settled(described(model="naive_bayes", select=1), world, CHAIN)
    assert one.x.shape == (len(Y), 1)


def test_what_is_agreed_later_is_about_the_features_that_are_kept():
    """Features first, then units of those; noise for fewer numbers."""
    both = described(float("inf"), model="naive_bayes", select=2, units="sealed")
    world = _informative()
    assert list(firsts(both, world)) == ["features", "units"]
    found = settled(both, world, CHAIN)
    raw = world.x[:, 1] * 4.0
    assert found.schema.features[0].center == pytest.approx(raw.mean(), abs=1e-5)
    assert found.schema.features[0].scale == pytest.approx(raw.std(), abs=1e-5)
    assert [f.name for f in found.schema.features] == ["b", "c"]
    assert len(found.bounds[0]) == 1


def test_no_more_features_than_there_are_can_be_kept():
    with pytest.raises(BadSetting, match="there are 3 features"):
        settled(described(1.0, select=4), WORLD, CHAIN)


def test_in_a_run_bounds_are_public_and_units_are_not():
    base = {"data": "wine", "split": {"nodes": 3}, "privacy": {"epsilon": float("inf")}}
    one = cell({**base, "method": {"name": "sealed_nb", "units": "sealed"}})
    given = cell({**base, "method": "sealed_nb"})
    worlds, parts = assembled(one.changed(run={"repetitions": 1}))
    (plain,), _ = assembled(given.changed(run={"repetitions": 1}))
    before = drawn(one, 0)
    assert np.abs(np.concatenate([before.x, before.x_test])).max() == 1.0
    (world,) = worlds
    for f, g in zip(world.schema.features, plain.schema.features, strict=True):
        assert f.center == pytest.approx(g.center, rel=1e-4)
        assert f.scale == pytest.approx(g.scale, rel=1e-3)
    np.testing.assert_allclose(world.x, plain.x, atol=2e-3)
    np.testing.assert_allclose(world.x_test, plain.x_test, atol=2e-3)
    assert parts[0].method.adapt.sums.rounds == 1
    with pytest.raises(BadSetting, match="take one"):
        drawn(one.changed(data={"source": "digits", "scale": "unit"}), 0)


def test_nothing_is_agreed_first_where_nothing_must_be():
    plain = described(1.0, model="naive_bayes")
    assert firsts(plain, WORLD) == {}
    assert budget_of(plain, WORLD).share == 1
    given = described(1.0, model={"name": "tan", "parents": [-1, 0, 1]})
    assert firsts(given, WORLD) == {}


def test_a_sum_of_which_nobody_knows_how_far_a_row_moves_it_is_refused():
    with pytest.raises(BadSetting, match="is not known"):
        settled(described(1.0, model="multinomial"), WORLD._replace(schema=_numbers()), CHAIN)


def _numbers():
    return public_schema(dict.fromkeys("abc", (0.0, 9.0)), ("no", "yes"))


def test_a_graph_in_pieces_cannot_agree():
    links = topologies.alone(N)
    with pytest.raises(BadSetting, match="connected"):
        settled(TAN, WORLD, links)


def test_an_empty_sum():
    """One category has no pairs."""
    two = Budget(1.0, 1e-5)
    one = structure((2,), 2)
    method = sealed_total(one.count, shape_of(one.count, 1), two, one.reach, N, TRUST)
    run = simulate(method, pack(X[:, :1], Y, WORLD.owned), CHAIN, 12, precision="float64")
    assert np.asarray(run.state.value["sums"]["done"]).tolist() == [1] * N


def test_noise_is_made_for_a_row_and_the_rounding_of_all_its_numbers():
    size, budget = 10_000, Budget(1.0, 1e-5)
    like = jax.tree.structure(0), ((size,),)
    grid = sealed_total(lambda shard: shard.x, like, budget, 1.0, N, TRUST).adapt.grid
    wide = (grid.std * grid.step)[0] * np.sqrt(grid.honest) / deviation(budget, 1.0)
    # every number is moved by half a step at most
    assert wide >= (1 + np.sqrt(size) / 2 * grid.step[0]) * (1 - 1e-14)


def test_more_rows_than_can_be_summed_exactly():
    method = sum_of(TAN, WORLD, "structure")
    many = np.broadcast_to(np.int32(0), MOST + 1)
    with pytest.raises(BadData, match="rows can be summed exactly"):
        method.adapt.exact(None, X, many)


def test_a_first_sum_is_over_all_members_however_short_their_patience():
    """Nobody is left out of it, for its rounds have no time for another sum: here a long tail."""
    nodes = 20
    graph = nx.star_graph(11)
    nx.add_path(graph, [0, *range(12, nodes)])
    world = World(X, Y, np.arange(len(Y)).reshape(nodes, -1), SCHEMA, nodes, len(Y))
    cell = described(epsilon=1e3, name="sealed_crc", least=0.6, honest=0.9, patience=1)
    grid = sum_of(cell, world, "structure").adapt.grid
    assert grid.honest == 18  # all honest ones are in it
    assert settled(cell, world, topologies.from_graph(graph)).settled
