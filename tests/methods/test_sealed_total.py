"""What a model must agree on first, by one sealed sum: TAN's structure under a budget."""

import numpy as np
import pytest

from helpers import in64
from peerwise import topology as topologies
from peerwise.agreement import sealed_options
from peerwise.core import Shard
from peerwise.errors import BadSetting
from peerwise.learner import cell
from peerwise.learner.assemble import _budget
from peerwise.learner.world import World
from peerwise.methods.sealed import TRUST
from peerwise.methods.sealed_total import deviation, sealed_total, shape_of
from peerwise.models.registry import agreed
from peerwise.models.tan import structure
from peerwise.privacy import public_schema
from peerwise.privacy.budget import Budget
from peerwise.shards import pack

N, EACH = 3, 40
SCHEMA = public_schema(dict.fromkeys("abc", ("p", "q")), ("no", "yes"))
PHASE = structure((2, 2, 2), 2)
BUDGET = Budget(50.0, 1e-5)


def rows():
    """The third feature is mostly the second, the second mostly the first."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=N * EACH)
    first = rng.integers(2, size=len(y))
    second = np.where(rng.random(len(y)) < 0.9, first, 1 - first)
    third = np.where(rng.random(len(y)) < 0.9, second, 1 - second)
    return np.column_stack([first, second, third]).astype(float), y


X, Y = rows()


def test_the_structure_is_that_of_all_rows_where_there_is_little_noise():
    shards = pack(X, Y, np.arange(len(Y)).reshape(N, EACH))
    found = sealed_options(PHASE, shards, topologies.chain(N), BUDGET, TRUST)
    assert found == agreed(SCHEMA, "tan", X, Y)
    assert found["parents"] == (-1, 0, 1)


def test_a_row_moves_a_real_count_by_the_reach():
    like = shape_of(PHASE.count, 3)
    sealed = sealed_total(PHASE.count, like, BUDGET, PHASE.reach, N, TRUST).adapt
    full = sealed.exact(None, X, Y.astype(np.int32)) * sealed.grid.step
    less = sealed.exact(None, X[1:], Y[1:].astype(np.int32)) * sealed.grid.step
    np.testing.assert_array_equal(full, in64(PHASE.count, Shard(X, Y, np.ones(len(Y)))).ravel())
    assert np.sqrt(((full - less) ** 2).sum()) == pytest.approx(PHASE.reach)
    assert PHASE.reach == pytest.approx(np.sqrt(3))  # pairs


def test_the_two_parts_of_the_budget_cost_all_of_it():
    """1 / multiplier^2 of both add up to that of the budget."""
    wanted = {"model": "tan", "method": "sealed_nb", "privacy": {"epsilon": 1.0, "delta": 1e-5}}
    world = World(X, Y, [np.arange(len(Y))], SCHEMA, N, len(Y))
    left = _budget(cell(wanted), world)
    assert left.share == pytest.approx(0.8)
    whole = deviation(Budget(1.0, 1e-5), 1.0, 1.0)
    first, rest = deviation(left, 1.0, TRUST.first), whole / np.sqrt(left.share)
    assert 1 / first**2 + 1 / rest**2 == pytest.approx(1 / whole**2)


def test_a_sum_of_which_nobody_knows_how_far_a_row_moves_it_is_refused():
    shards = pack(X, Y, np.arange(len(Y)).reshape(N, EACH))
    unknown = PHASE._replace(reach=None)
    with pytest.raises(BadSetting, match="nobody knows"):
        sealed_options(unknown, shards, topologies.chain(N), BUDGET, TRUST)
