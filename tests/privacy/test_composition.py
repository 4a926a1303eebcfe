"""Composition agrees with dp-accounting."""

import math

import pytest
from dp_accounting import (
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    RandomizedResponseDpEvent,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from peerwise.errors import BadSetting, UnknownName
from peerwise.privacy.composition import Charge, basic, check_charge, loss, renyi
from peerwise.privacy.ledger import Ledger, Overspent
from peerwise.privacy.mechanism import gaussian_sigma

DELTA = 1e-5


def gaussian_charge(epsilon, delta=DELTA, **where):
    return Charge(epsilon, delta, gaussian_sigma(1.0, epsilon, delta), **where)


@pytest.mark.parametrize("times", [8, 100])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_gaussian_releases_cost_what_dp_accounting_says(times, epsilon):
    charge = gaussian_charge(epsilon, DELTA / 10)
    theirs = RdpAccountant().compose(GaussianDpEvent(charge.multiplier), times)
    ours = renyi([charge] * times, DELTA)
    plain = basic([charge] * times)
    expected = min(theirs.get_epsilon(DELTA), plain.epsilon if times <= 10 else math.inf)
    assert ours.epsilon == pytest.approx(expected, rel=1e-12)
    exact = PLDAccountant().compose(GaussianDpEvent(charge.multiplier), times)
    assert exact.get_epsilon(DELTA) <= ours.epsilon * 1.001


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_pure_releases_cost_what_the_worst_of_them_costs(epsilon):
    times = 200
    ours = renyi([Charge(epsilon)] * times, DELTA)
    worst = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    worst.compose(RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2), times)
    plain = basic([Charge(epsilon)] * times)
    assert ours.epsilon == pytest.approx(min(worst.get_epsilon(DELTA), plain.epsilon), rel=1e-6)
    laplace = RdpAccountant().compose(LaplaceDpEvent(1 / epsilon), times)
    assert laplace.get_epsilon(DELTA) <= ours.epsilon * (1 + 1e-9)
    assert ours.epsilon <= plain.epsilon == pytest.approx(times * epsilon)


def test_kinds_mix():
    charges = [gaussian_charge(0.2)] * 20 + [Charge(0.1)] * 20
    theirs = RdpAccountant()
    theirs.compose(GaussianDpEvent(charges[0].multiplier), 20).compose(LaplaceDpEvent(10.0), 20)
    ours = renyi(charges, DELTA).epsilon
    assert theirs.get_epsilon(DELTA) <= ours <= theirs.get_epsilon(DELTA) * 1.1
    with_other = renyi([*charges, Charge(0.3, DELTA / 2)], DELTA)
    at_half = RdpAccountant()
    at_half.compose(GaussianDpEvent(charges[0].multiplier), 20).compose(LaplaceDpEvent(10.0), 20)
    assert with_other.epsilon >= at_half.get_epsilon(DELTA / 2) + 0.3


def test_parts_cost_as_much_as_the_dearest_by_both_accounts():
    def many(times, part):
        return [gaussian_charge(0.1, DELTA / 10, group="classes", part=part)] * times

    for count in (basic, lambda charges: renyi(charges, DELTA)):
        assert count(many(40, "a") + many(30, "b")) == count(many(40, "a"))
        assert count(many(40, "a") + many(41, "b")).epsilon > count(many(40, "a")).epsilon


def test_nothing_costs_nothing():
    assert basic([]) == (0.0, 0.0)
    assert renyi([], DELTA).epsilon == 0.0
    assert renyi([Charge(0.5)], DELTA) == (0.5, 0.0)  # where the plain sum is less, it counts


def test_noise_whose_cost_cannot_be_computed_is_refused_in_words():
    check_charge(Charge(1.0, 1e-6, 1e300))  # so much that it costs nothing
    with pytest.raises(BadSetting, match="cannot be computed"):
        check_charge(Charge(1.0, 1e-6, 1e-300))


def paid(ledger, charge):
    """How often a ledger affords the same charge."""
    told = {"data": "rows", "multiplier": charge.multiplier}
    for times in range(300):
        try:
            ledger.charge("gaussian", {}, charge.epsilon, charge.delta, **told)
        except Overspent:
            return times
    raise AssertionError("it never ends")


def test_the_ledgers_own_accountant_sets_the_limit(tmp_path):
    charge = gaussian_charge(0.3, DELTA / 100)
    afforded = {}
    for accountant in ("basic", "rdp"):
        path = tmp_path / accountant
        with Ledger.open(path, node="a", epsilon=3, delta=DELTA, accountant=accountant) as ledger:
            afforded[accountant] = paid(ledger, charge)
            assert ledger.total().epsilon <= 3 * (1 + 1e-9)
            assert ledger.spent("rdp").epsilon <= ledger.spent("basic").epsilon
            assert ledger.left().epsilon < 0.3
    assert afforded["basic"] == 10
    theirs = RdpAccountant().compose(GaussianDpEvent(charge.multiplier), afforded["rdp"])
    assert theirs.get_epsilon(DELTA) <= 3
    assert theirs.compose(GaussianDpEvent(charge.multiplier)).get_epsilon(DELTA) > 3


def test_rdp_needs_a_delta(tmp_path):
    with Ledger.open(tmp_path / "l", node="a", epsilon=1) as ledger:
        with pytest.raises(BadSetting, match="delta"):
            ledger.spent("rdp")
        with pytest.raises(UnknownName, match="accountant"):
            ledger.spent("zcdp")


def test_privacy_losses_are_never_looser_than_the_other_accountants():
    pure = [Charge(0.1)] * 50
    assert loss(pure, 1e-6).epsilon < renyi(pure, 1e-6).epsilon < basic(pure).epsilon
    assert loss(pure, 1e-6).epsilon == pytest.approx(3.17, abs=0.01)
    multiplier = gaussian_sigma(1.0, 1.0, 1e-6)
    rounds = [Charge(1.0, 1e-6, multiplier * 8**0.5)] * 8  # together exactly epsilon 1
    assert loss(rounds, 1e-6).epsilon == pytest.approx(1.0, abs=1e-3)
    assert renyi(rounds, 1e-6).epsilon > 1.05
    mixed = [*rounds, Charge(0.2), Charge(0.1, 1e-8), Charge(0.5, group="g", part="a"),
             Charge(0.3, group="g", part="b")]  # fmt: skip
    assert loss(mixed, 1e-6).epsilon <= renyi(mixed, 1e-6).epsilon
    one = [c for c in mixed if c.part != "b"]
    assert loss(mixed, 1e-6).epsilon == pytest.approx(loss(one, 1e-6).epsilon, abs=1e-6)
    assert loss([Charge(2.0)], 1e-6).epsilon <= 2.0
    assert loss([], 1e-6).epsilon == 0


@pytest.mark.parametrize("epsilon", [501.0, 1000.0])
def test_an_epsilon_whose_exponential_overflows_is_added_up_otherwise(epsilon):
    """Before, dp-accounting ended with an OverflowError above 709."""
    for charges in ([Charge(epsilon)] * 2, [Charge(epsilon), gaussian_charge(1.0)]):
        assert loss(charges, DELTA) == renyi(charges, DELTA)
    assert loss([Charge(epsilon)] * 2, DELTA).epsilon <= 2 * epsilon
    assert loss([Charge(499.0)], DELTA).epsilon <= 499  # still composed
