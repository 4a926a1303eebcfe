"""Shares of noise: what honest members make together is what is charged for."""

import math

import numpy as np
import pytest

from peerwise.errors import BadSetting
from peerwise.privacy import vetted
from peerwise.privacy.mechanism import gaussian_sigma
from peerwise.privacy.shares import (
    FINEST,
    ROOM,
    bits_for,
    honest_members,
    least_members,
    most_rows,
    shared_noise,
)


@pytest.mark.parametrize(
    ("nodes", "honest", "least", "members"),
    [(50, 2 / 3, 50, 33), (3, 2 / 3, 3, 2), (10, 1.0, 10, 9), (50, 2 / 3, 45, 28), (6, 0.5, 6, 3)],
)
def test_honest_members_are_rounded_down_and_less_those_that_can_be_left_out(
    nodes, honest, least, members
):
    assert honest_members(nodes, honest, least) == members
    assert least_members(nodes, least / nodes) == least


@pytest.mark.parametrize(
    ("nodes", "honest", "least", "says"),
    [
        (10, 0.0, 10, "honest must be above 0"),
        (10, 0.7, 5, "more than half"),
        (10, 0.3, 7, "a sum may leave out"),
        (10, 0.05, 10, "a sum may leave out"),
    ],
)
def test_what_nobody_could_rely_on_is_refused(nodes, honest, least, says):
    with pytest.raises(BadSetting, match=says):
        honest_members(nodes, honest, least)


@pytest.mark.parametrize("sums", [1, 2, 64, 1000])
@pytest.mark.parametrize("nodes", [2, 50, 1000, 10_000])
def test_no_sum_of_any_rows_can_overflow(nodes, sums):
    """Every node has as many rows as can be summed at all, and all move a number one way."""
    bits, most = bits_for(nodes, sums), sums * most_rows(sums)
    assert 8 <= bits <= FINEST
    assert nodes * most * 2**bits <= 2**ROOM
    grid = shared_noise(np.array([0.3, 5.0]), np.array([1e3, 1e4]), nodes, 1, sums)
    # rows and noise together, with a sign
    assert nodes * most * 2**bits + sums * nodes * 40 * grid.std.max() < 2**63
    assert (np.array([0.3, 5.0]) / grid.step <= 2**bits).all()


def test_noise_that_could_overflow_or_is_too_small_for_the_grid_is_refused():
    with pytest.raises(BadSetting, match="overflow"):
        shared_noise(np.ones(1), np.array([1e12]), 1000, 600)
    with pytest.raises(BadSetting, match="below the grid"):
        shared_noise(np.ones(1), np.array([1e-9]), 50, 33)
    with pytest.raises(BadSetting, match="take fewer nodes"):
        bits_for(10**8)
    with pytest.raises(BadSetting, match="take fewer nodes or releases"):
        bits_for(10**4, 10**5)


def test_whoever_reads_a_sum_takes_off_its_own_noise():
    """So of two nodes one makes all the noise, even if both are honest."""
    assert honest_members(2, 1.0, 2) == 1
    assert honest_members(8, 1.0, 8) == 7


def test_noise_that_double_precision_would_round_is_refused():
    """Rounded to even numbers it would leave the last bit of every sum without noise."""
    rounded = vetted("discrete", np.zeros(200), 2.0**57)
    assert (rounded[np.abs(rounded) > 2.0**53] % 2 == 0).all()  # what a sum must never have
    step = 2.0 ** (1 - bits_for(3))
    shared_noise(np.ones(1), np.array([step * 2.0**47]), 3, 1)
    with pytest.raises(BadSetting, match="overflow"):
        shared_noise(np.ones(1), np.array([step * 2.0**49]), 3, 1)


def test_the_honest_shares_have_the_whole_noise():
    sigma = gaussian_sigma(1.0, 1.0, 1e-6)
    grid = shared_noise(np.array([1.0]), np.array([sigma]), 50, 33)
    shares = vetted("discrete", np.zeros((33, 300)), float(grid.std[0])) * grid.step
    whole = shares.sum(0)
    assert (shares / grid.step == np.rint(shares / grid.step)).all()
    assert whole.std() == pytest.approx(sigma, rel=5 / math.sqrt(2 * 300))
    assert grid.share[0] * 33 == pytest.approx(sigma**2)


def test_a_sum_of_shares_costs_what_one_gaussian_does():
    """Exactly, by their laws: 33 discrete shares of deviation 3 beside one of their variance."""
    share, honest = 3.0, 33
    z = np.arange(-60, 61)
    one = np.exp(-(z**2) / (2 * share**2))
    one /= one.sum()
    law = np.array([1.0])
    for _ in range(honest):
        law = np.convolve(law, one)
    sigma = share * math.sqrt(honest)
    epsilon = 1.0 / sigma  # a step in a value whose noise has this deviation
    moved = np.concatenate([[0.0], law[:-1]])
    delta = np.maximum(law - math.exp(epsilon) * moved, 0).sum()
    from scipy.stats import norm

    a, b = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
    gaussian = norm.cdf(a) - math.exp(epsilon) * norm.cdf(b)
    assert delta == pytest.approx(gaussian, rel=1e-2)
