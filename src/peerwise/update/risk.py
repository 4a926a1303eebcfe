"""Risk-aware training: the mean of the worst losses instead of the mean of all.

"CVaR-CTA" minimises t + (f - t)+ / alpha over weights and a threshold t that nodes mix as they mix
weights: nodes whose loss f is above the threshold pull harder (equations 3 to 5).
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import jax

from peerwise.core import Array

Risk: TypeAlias = Callable[[Array, Array], Array]  # t, loss -> what is minimised


@cache
def tail(alpha: float = 0.3, smooth: bool = True, gamma: float = 0.0) -> Risk:
    """(1 - gamma) (t + plus(loss - t) / alpha) + gamma loss.

    `smooth`: plus is softplus (equation 5) instead of the positive part. Its slope is below one, so
    that alpha = 1 is not the mean of all; methods take the plain mean then, as the paper means it.
    """
    plus = jax.nn.softplus if smooth else jax.nn.relu

    def risk(t: Array, loss: Array) -> Array:
        return (1 - gamma) * (t + plus(loss - t) / alpha) + gamma * loss

    return risk
