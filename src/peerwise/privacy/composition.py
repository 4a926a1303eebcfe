"""What several releases cost together.

Releases about the same rows add up. Releases about disjoint parts of the rows cost as much as the
most expensive part, because a row is in one part only.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from peerwise.errors import BadSetting, extra
from peerwise.privacy.budget import check_epsilon

MOST_ROWS = 64  # ways in which a row may be in parts; with more `renyi` is taken
STEP = 1e-4  # of the grid of privacy losses
LARGEST = 500.0  # epsilon whose losses are composed: dp-accounting computes exp(epsilon)
SLACK = 1e-9  # share of a budget: three charges of 0.1 fit into 0.3 in spite of rounding


class Charge(NamedTuple):
    """What one release costs; the multiplier is Gaussian noise's deviation over sensitivity."""

    epsilon: float
    delta: float = 0.0
    multiplier: float | None = None
    group: str | None = None  # a way to part the rows, and the part that the release is about
    part: str | None = None


class Spent(NamedTuple):
    """A privacy budget, or as much of one as is spent or left."""

    epsilon: float
    delta: float


def check_charge(charge: Charge) -> None:
    """Refuse an invalid charge, or one whose epsilon is less than its Gaussian noise costs."""
    check_epsilon(charge.epsilon)
    if not 0 <= charge.delta < 1:
        raise BadSetting(f"delta must be 0 or more and below 1, got {charge.delta}")
    if (charge.group is None) != (charge.part is None):
        raise BadSetting("group and part come together: the group says what the part is a part of")
    if charge.multiplier is None:
        return
    get_epsilon_gaussian = extra("dp_accounting").get_epsilon_gaussian
    if not 0 < charge.multiplier < math.inf:
        raise BadSetting(f"a noise multiplier must be greater than 0, got {charge.multiplier}")
    try:
        with np.errstate(all="ignore"):
            true = get_epsilon_gaussian(charge.multiplier, charge.delta)
    except (OverflowError, RuntimeError):
        raise BadSetting(
            f"what Gaussian noise with multiplier {charge.multiplier:g} costs cannot be computed"
        ) from None
    if not true <= charge.epsilon * (1 + 1e-6):
        raise BadSetting(
            f"Gaussian noise with multiplier {charge.multiplier:g} costs epsilon {true:g} at delta "
            f"{charge.delta:g}, not {charge.epsilon:g}"
        )


def basic(charges: Sequence[Charge]) -> Spent:
    """The sum of epsilons and of deltas, over the most expensive part of every group."""
    epsilon, delta = _composed(charges, 2, lambda c: np.array([c.epsilon, c.delta]))
    return Spent(float(epsilon), float(delta))


def composed(charges: Sequence[Charge], delta: float, how: str) -> Spent:
    """What charges cost together, by an accountant; all but "basic" state epsilon at `delta`."""
    if how == "basic":
        return basic(charges)
    return renyi(charges, delta) if how == "rdp" else loss(charges, delta)


def loss(charges: Sequence[Charge], delta: float) -> Spent:
    """The epsilon of all charges at one `delta`, by privacy loss distributions where it helps.

    As `renyi`, with the distribution of the privacy loss itself in place of its moments (Koskela,
    Jälkö and Honkela 2020; dp-accounting's, whose discretisation is pessimistic). Never more than
    `renyi` or `basic` gives. A row is in one part of every group: the worst such row counts.
    """
    least = renyi(charges, delta)
    rows = _of_one_row(charges)
    if not charges or len(rows) > MOST_ROWS:
        return least
    spent = Spent(max(_of_losses(own, delta) for own in rows), delta)
    return spent if spent.epsilon < least.epsilon else least


def _of_losses(charges: Sequence[Charge], delta: float) -> float:
    if any(c.epsilon > LARGEST for c in charges):
        return math.inf
    rest = [c for c in charges if c.multiplier is None and c.delta > 0]
    other, more = sum(c.delta for c in rest), sum(c.epsilon for c in rest)
    if not other < delta:
        return math.inf
    pld = extra("dp_accounting.pld.privacy_loss_distribution")
    common = extra("dp_accounting.pld.common")
    whole = None
    for one, times in Counter(c._replace(group=None, part=None) for c in charges).items():
        if one.multiplier is not None:
            loss = pld.from_gaussian_mechanism(one.multiplier, value_discretization_interval=STEP)
        elif one.delta == 0:  # the worst that has its epsilon: randomised response
            loss = pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(one.epsilon, 0.0),
                value_discretization_interval=STEP,
            )
        else:
            continue
        loss = loss.self_compose(times) if times > 1 else loss
        whole = loss if whole is None else whole.compose(loss)
    epsilon = 0.0 if whole is None else float(whole.get_epsilon_for_delta(delta - other))
    return epsilon + more


def _of_one_row(charges: Sequence[Charge]) -> list[list[Charge]]:
    """Which charges may be about one row: those without a group, and a part of every group."""
    groups: dict[str, dict[str | None, list[Charge]]] = {}
    always = [c for c in charges if c.group is None]
    for c in charges:
        if c.group is not None:
            groups.setdefault(c.group, {}).setdefault(c.part, []).append(c)
    chosen = itertools.product(*(parts.values() for parts in groups.values()))
    return [
        [*always, *itertools.chain(*parts)] for parts in itertools.islice(chosen, MOST_ROWS + 1)
    ]


def renyi(charges: Sequence[Charge], delta: float) -> Spent:
    """The epsilon of all charges at one `delta`, by Rényi differential privacy where it helps.

    Gaussian noise is accounted by its multiplier. A release with delta 0 is taken as the worst
    that has its epsilon, randomised response. One with a delta and no multiplier adds both to
    the result. Never more than `basic` gives within that delta. Mironov, "Rényi differential
    privacy" (2017); the conversion to epsilon is dp-accounting's.
    """
    compute_epsilon = extra("dp_accounting.rdp").compute_epsilon
    orders = extra("dp_accounting.rdp.rdp_privacy_accountant").DEFAULT_RDP_ORDERS
    order = np.array(orders, float)

    def cost(c: Charge) -> np.ndarray:
        if c.multiplier is not None:
            return np.array([*order / (2 * c.multiplier**2), 0.0, 0.0])
        if c.delta > 0:
            return np.array([*np.zeros_like(order), c.epsilon, c.delta])
        return np.array([*_worst(c.epsilon, order), 0.0, 0.0])

    *curve, epsilon, other = _composed(charges, len(order) + 2, cost).tolist()
    plain = basic(charges)
    spent = Spent(math.inf, delta)
    if other < delta:
        spent = Spent(float(compute_epsilon(order.tolist(), curve, delta - other)[0]), delta)
        spent = spent._replace(epsilon=spent.epsilon + epsilon)
    fits = plain.delta <= delta * (1 + SLACK)
    return plain if fits and plain.epsilon <= spent.epsilon else spent


def _worst(epsilon: float, order: np.ndarray) -> np.ndarray:
    """The Rényi divergence of randomised response: no release with this epsilon has more."""
    true = -math.log1p(math.exp(-epsilon))  # log of the probability of the true answer
    total = true + np.logaddexp((order - 1) * epsilon, -order * epsilon)
    return np.maximum(total / (order - 1), 0)


def _composed(
    charges: Sequence[Charge], size: int, cost: Callable[[Charge], np.ndarray]
) -> np.ndarray:
    """The sum of costs, where a group counts as the largest of its parts' sums."""
    total = np.zeros(size)
    groups: dict[str, dict[str | None, np.ndarray]] = {}
    known: dict[Charge, np.ndarray] = {}  # a run repeats the same charge many times
    for c in charges:
        alike = c._replace(group=None, part=None)
        if alike not in known:
            known[alike] = cost(c)
        if c.group is None:
            total = total + known[alike]
        else:
            parts = groups.setdefault(c.group, {})
            parts[c.part] = parts.get(c.part, 0) + known[alike]
    for parts in groups.values():
        total = total + np.max(list(parts.values()), axis=0)
    return total
