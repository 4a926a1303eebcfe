"""Bayesian layers: dense layers whose weights are Gaussians instead of numbers.

Any net becomes one whose last layers are Bayesian (`bayesian`); the others stay as they are
("hybrid Bayesian deep learning"). Noise is drawn for a layer's outputs and not for its weights
(local reparameterisation, Kingma, Salimans and Welling 2015): every row has its own, and gradients
are less noisy.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from peerwise.core import Array, Gaussian, Tree
from peerwise.errors import BadSetting

BEGIN = -6.0  # log-variance with which weights begin: small beside them, large enough to learn
PAPER_BEGIN, PAPER_SPREAD, CLAMP = -9.0, 0.001, 8.0  # what BA-BFL's code has
TINY = 1e-16  # under a root, so that its slope is finite where a layer's inputs are all 0


class BayesianLinear(eqx.Module):
    """A dense layer of independent Gaussian weights and plain biases."""

    weight: Gaussian  # [out, in]
    bias: Array  # [out]
    clamped: bool = eqx.field(static=True, default=False)
    noise: Array | None = None  # a key to draw outputs with; None: their means

    def log_variance(self) -> Array:
        """Log-variance of weights; clamped to +-8 it has no slope outside (the paper's code)."""
        spread = self.weight.log_variance
        return jnp.clip(spread, -CLAMP, CLAMP) if self.clamped else spread

    def __call__(self, x: Array) -> Array:
        """The output for a row: its mean, or a draw where the layer has noise."""
        mean = self.weight.mean @ x + self.bias
        if self.noise is None:
            return mean
        variance = jnp.exp(self.log_variance()) @ (x * x)
        # drawn in float32 whatever the precision, so that it does not change the draws
        draw = jax.random.normal(self.noise, mean.shape, jnp.float32).astype(mean.dtype)
        return mean + jnp.sqrt(variance + TINY) * draw


class _Bayesian(eqx.Module):
    """A net with Bayesian layers, each with a key of its own for every row."""

    net: Any
    keyed: bool = eqx.field(static=True)  # whether the net itself takes a key, for dropout

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        if key is None:
            return self.net(x, key=None) if self.keyed else self.net(x)
        own, *keys = jax.random.split(key, 1 + len(_layers(self.net)))
        drawn = eqx.tree_at(
            lambda net: [layer.noise for layer in _layers(net)],
            self.net,
            keys,
            is_leaf=lambda part: part is None,
        )
        return drawn(x, key=own) if self.keyed else drawn(x)


def _of(module: Any, kind: type) -> list[Any]:
    parts = jax.tree.leaves(module, is_leaf=lambda part: isinstance(part, kind))
    return [part for part in parts if isinstance(part, kind)]


def _layers(module: Any) -> list[BayesianLinear]:
    return _of(module, BayesianLinear)


@cache
def bayesian(
    make: Callable[[Array], Any], layers: int = 1, paper_init: bool = False
) -> Callable[[Array], Any]:
    """A function from a key to the net of `make` whose last `layers` dense layers are Bayesian.

    Means begin as the layers' weights do, variances at exp(-6). `paper_init` is the start of the
    paper's code, log-variances of -9 clamped to -8: they have no slope there, and do not learn
    until weight decay has brought them back. No layers: the net itself.
    """
    if layers < 0:
        raise BadSetting(f"the number of Bayesian layers must be 0 or more, got {layers}")
    if layers == 0:
        return make

    def build(key: Array) -> Any:
        net = make(key)
        dense = _of(net, eqx.nn.Linear)
        if len(dense) < layers:
            raise BadSetting(
                f"the net has {len(dense)} dense layers (equinox.nn.Linear), fewer than the "
                f"{layers} that are to be Bayesian"
            )
        keys = jax.random.split(jax.random.fold_in(key, 1), layers)
        new = [_made(layer, k, paper_init) for layer, k in zip(dense[-layers:], keys, strict=True)]
        net = eqx.tree_at(lambda one: _of(one, eqx.nn.Linear)[-layers:], net, new)
        return _Bayesian(net, "key" in inspect.signature(net).parameters)

    return build


def _made(layer: eqx.nn.Linear, key: Array, paper_init: bool) -> BayesianLinear:
    shape = layer.weight.shape
    spread = jnp.full(shape, BEGIN, jnp.float32)
    if paper_init:
        spread = PAPER_BEGIN + PAPER_SPREAD * jax.random.normal(key, shape, jnp.float32)
    bias = jnp.zeros(shape[:1], jnp.float32) if layer.bias is None else layer.bias
    return BayesianLinear(Gaussian(layer.weight, spread), bias, paper_init)


def divergence(net: Tree, prior: Tree | None = None) -> Array:
    """KL of the posterior of a net's Bayesian layers from a prior: another net, or N(0, 1) each.

    >>> layer = BayesianLinear(Gaussian(jnp.ones((2, 3)), jnp.zeros((2, 3))), jnp.zeros(2))
    >>> float(divergence(layer))  # half a square for each weight
    3.0
    """
    layers = _layers(net)
    others: list[Any] = [None] * len(layers) if prior is None else _layers(prior)
    total = jnp.zeros(())
    for layer, other in zip(layers, others, strict=True):
        mean, spread = layer.weight.mean, layer.log_variance()
        center = jnp.zeros_like(mean) if other is None else other.weight.mean
        width = jnp.zeros_like(mean) if other is None else other.log_variance()
        apart = (mean - center) ** 2 * jnp.exp(-width)
        total += (jnp.exp(spread - width) + apart - 1 + width - spread).sum().astype(
            total.dtype
        ) / 2
    return total
