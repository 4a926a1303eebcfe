"""Noise: seeded draws for simulation, OpenDP's for real releases, and a tape that replays.

The draws in JAX are floating-point draws from a seed: right for studying accuracy, wrong for real
releases (Mironov, "On significance of the least significant bits for differential privacy", 2012).
Real releases go through `vetted`, whose randomness is OpenDP's own and is never seeded.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.errors import BadSetting, UnknownName, extra
from peerwise.privacy.budget import check_delta, check_epsilon

MECHANISMS = ("laplace", "gaussian")  # the kinds of noise
NOISES = (*MECHANISMS, "discrete")  # and Gaussian noise of whole numbers


class Noise(Protocol):
    """A source of noise in place of `vetted`: values with noise of a kind and a scale."""

    def __call__(
        self, kind: str, values: np.ndarray, scale: np.ndarray | float, *, off: bool = False
    ) -> np.ndarray:
        """Noisy values; as they are where noise is `off`."""
        ...


def check_noise(noise: Any) -> None:
    """Refuse what draws no noise, before anything is paid for."""
    if not callable(noise):
        raise BadSetting(
            f"noise must be a function that draws it, such as privacy.vetted, got {noise!r}; "
            "leave it out"
        )


def laplace(key: Array, scale: Array, dtype: Any = None) -> Array:
    """Independent Laplace draws of the shape of `scale`, for simulation only.

    Drawn in float32, or float64 where JAX runs in 64 bits, unless a `dtype` is named.
    """
    return _drawn(jax.random.laplace, key, scale, dtype)


def gaussian(key: Array, scale: Array, dtype: Any = None) -> Array:
    """Independent Gaussian draws with standard deviation `scale`, for simulation only."""
    return _drawn(jax.random.normal, key, scale, dtype)


def summed_laplace(key: Array, nodes: Array | int, scale: Array, dtype: Any = None) -> Array:
    """The sum of the Laplace draws of `nodes` nodes in one draw, exactly in law.

    A Laplace draw is the difference of two exponential ones, and n exponential draws sum to
    Gamma(n): the noise in a total over any number of nodes costs two draws.
    """
    if isinstance(nodes, int) and nodes < 1:
        raise BadSetting(f"nodes must be 1 or more, got {nodes}")

    def draw(key: Array, shape: Sequence[int], dtype: Any) -> Array:
        one, two = jax.random.split(key)
        many = jnp.asarray(nodes, dtype)
        return jax.random.gamma(one, many, shape, dtype) - jax.random.gamma(two, many, shape, dtype)

    return _drawn(draw, key, scale, dtype)


def _drawn(draw: Callable[..., Array], key: Array, scale: Array, dtype: Any) -> Array:
    scale = jnp.asarray(scale)
    dtype = jnp.result_type(float) if dtype is None else jnp.dtype(dtype)
    return scale.astype(dtype) * draw(key, scale.shape, dtype)


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """The smallest standard deviation of Gaussian noise that is (epsilon, delta)-private.

    The analytic Gaussian mechanism (Balle and Wang, 2018); `sensitivity` is in the L2 norm.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta, "gaussian")
    if not 0 < sensitivity < np.inf:
        raise BadSetting(f"sensitivity must be finite and greater than 0, got {sensitivity}")
    return float(sensitivity * _multiplier(epsilon, delta))


@lru_cache(maxsize=64)  # a search, which takes milliseconds
def _multiplier(epsilon: float, delta: float) -> float:
    return float(extra("dp_accounting").get_sigma_gaussian(epsilon, delta))


def vetted(
    kind: str, values: np.ndarray, scale: np.ndarray | float, *, off: bool = False
) -> np.ndarray:
    """Values with "laplace" or "gaussian" noise of OpenDP, safe against floating-point attacks.

    "discrete" is Gaussian noise of whole numbers, for values that are whole numbers.
    `scale` is b of the Laplace law or the standard deviation, one for all values or one for each.
    The randomness is the operating system's: no seed repeats it. `off` gives values back as they
    are; without it, a scale of 0 is refused.
    """
    values, scale = _checked(kind, values, scale, off)
    if off:
        return values.copy()
    noisy = np.empty_like(values)
    for one in np.unique(scale):
        here = scale == one
        exact = values[here].astype(np.int64) if kind == "discrete" else values[here]
        noisy[here] = _mechanism(kind, float(one))(exact.tolist())
    return noisy


@lru_cache(maxsize=64)  # a mechanism has no state, and takes longer to make than to use
def _mechanism(kind: str, scale: float) -> Any:
    """OpenDP's noise of a scale, to be added to a list of numbers."""
    dp = extra("opendp.prelude")  # takes seconds to import, and simulations do without it
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if kind == "discrete":
        whole = dp.vector_domain(dp.atom_domain(T="i64"))
        return dp.m.make_gaussian(whole, dp.l2_distance(T=float), scale=scale)
    if kind == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)


class Tape:
    """Noise that was recorded before, replayed in order, in the place of `vetted`.

    For tests and for comparing runtimes. `left` says how many arrays have not been used.
    """

    def __init__(self, noise: Sequence[Array]):
        self._noise = [np.asarray(a, float) for a in noise]
        self._used = 0

    @property
    def left(self) -> int:
        """How many recorded arrays have not been used."""
        return len(self._noise) - self._used

    def __call__(
        self, kind: str, values: np.ndarray, scale: np.ndarray | float, *, off: bool = False
    ) -> np.ndarray:
        """Values with the next recorded noise; its kind and scale were settled when recorded."""
        values, _ = _checked(kind, values, scale, off)
        if off:
            return values.copy()
        if not self.left:
            raise BadSetting(f"all {len(self._noise)} arrays of recorded noise are used up")
        noise = self._noise[self._used]
        if noise.shape != values.shape:
            raise BadSetting(
                f"recorded noise {self._used} has shape {noise.shape}, values {values.shape}"
            )
        self._used += 1
        return values + noise


def _checked(kind: str, values: Any, scale: Any, off: bool) -> tuple[np.ndarray, np.ndarray]:
    if kind not in NOISES:
        raise UnknownName("kind of noise", kind, NOISES)
    values = np.asarray(values, float)
    scale = np.broadcast_to(np.asarray(scale, float), values.shape)
    if not np.isfinite(values).all():
        raise BadSetting("only finite values can be released; some are NaN or infinite")
    if not off and not ((scale > 0) & np.isfinite(scale)).all():
        bad = scale[~((scale > 0) & np.isfinite(scale))][0]
        raise BadSetting(
            f"the scale of noise must be finite and greater than 0, got {bad}; "
            "say off=True where no noise is wanted"
        )
    return values, scale
