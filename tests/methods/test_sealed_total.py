"""What must be agreed on first, each by one sealed sum: exact, paid for, the same at all nodes."""

from typing import NamedTuple

import jax
import numpy as np
import pytest

from helpers import assert_equal_runs, in64
from peerwise import topology as topologies
from peerwise.agreement import sum_rounds
from peerwise.core import Shard
from peerwise.errors import BadSetting
from peerwise.learner import cell
from peerwise.learner.assemble import assemble
from peerwise.learner.firsts import budget_of, decided, firsts, settled, sum_of
from peerwise.learner.world import World
from peerwise.methods.sealed import TRUST
from peerwise.methods.sealed_total import deviation, sealed_total, shape_of, total_of
from peerwise.models.registry import agreed
from peerwise.models.tan import structure
from peerwise.privacy import public_schema
from peerwise.privacy.budget import Budget
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


CASES = {"structure": Case(TAN, WORLD, "structure")}
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


@pytest.mark.parametrize(("method", "sums"), [({}, 1)])
def test_all_parts_of_the_budget_together_are_the_budget(method, sums):
    """1 / noise^2 of all sums, each in units of what a row can do, add up to that of the budget."""
    one = described(1.0, **method)
    whole = deviation(Budget(1.0, 1e-5), 1.0)
    every = firsts(one, WORLD)
    assert len(every) == sums
    parts = [deviation(budget_of(one, WORLD), 1.0)]
    for name, first in every.items():
        grid = sum_of(one, WORLD, name).adapt.grid
        parts.append(np.sqrt(grid.honest) * (grid.std * grid.step)[0] / first.reach)
    assert sum(1 / p**2 for p in parts) == pytest.approx(1 / whole**2, rel=1e-5)
    assert assemble(one, WORLD._replace(links=CHAIN)).method.adapt.sums.rounds == 1


def test_nothing_is_agreed_first_where_nothing_must_be():
    plain = described(1.0, model="naive_bayes")
    assert firsts(plain, WORLD) == {}
    assert budget_of(plain, WORLD).share == 1
    given = described(1.0, model={"name": "tan", "parents": [-1, 0, 1]})
    assert firsts(given, WORLD) == {}


def test_a_sum_of_which_nobody_knows_how_far_a_row_moves_it_is_refused():
    with pytest.raises(BadSetting, match="nobody knows"):
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
