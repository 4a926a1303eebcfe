"""Risk-aware training: the mean of the worst losses instead of the mean of all.

"CVaR-CTA" minimises t + (f - t)+ / alpha over weights and a threshold t that nodes mix as they mix
weights: nodes whose loss f is above the threshold pull harder (equations 3 to 5).
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import jax
import numpy as np

from peerwise.core import Array
from peerwise.errors import BadSetting

Risk: TypeAlias = Callable[[Array, Array], Array]  # t, loss -> what is minimised


def check_alpha(alpha: float) -> None:
    """Require 0 < alpha <= 1."""
    if not 0 < alpha <= 1:
        raise BadSetting(
            f"alpha, the share of worst cases, must be above 0 and at most 1, got {alpha}"
        )


@cache
def tail(alpha: float = 0.3, smooth: bool = True, gamma: float = 0.0) -> Risk:
    """(1 - gamma) (t + plus(loss - t) / alpha) + gamma loss.

    `smooth`: plus is softplus (equation 5) instead of the positive part. Its slope is below one, so
    that alpha = 1 is not the mean of all; methods take the plain mean then, as the paper means it.
    """
    check_alpha(alpha)
    if not 0 <= gamma <= 1:
        raise BadSetting(f"gamma, the share of the mean, must be between 0 and 1, got {gamma}")
    plus = jax.nn.softplus if smooth else jax.nn.relu

    def risk(t: Array, loss: Array) -> Array:
        return (1 - gamma) * (t + plus(loss - t) / alpha) + gamma * loss

    return risk


def cvar(losses: np.ndarray, alpha: float) -> float:
    """The mean of the worst share alpha of equally likely losses, by sorting.

    A loss at the border counts in part, so that this is inf over t of t + mean (loss - t)+ / alpha.

    >>> cvar(np.array([1.0, 2.0, 3.0, 4.0]), 0.5)
    3.5
    >>> cvar(np.array([1.0, 2.0, 3.0, 4.0]), 0.375).__round__(4)
    3.6667
    """
    check_alpha(alpha)
    worst = -np.sort(-np.asarray(losses, float))
    share = np.clip(alpha * worst.size - np.arange(worst.size), 0, 1)
    return float((share * worst).sum() / (alpha * worst.size))
