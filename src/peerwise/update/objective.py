"""What local training minimises: a mean loss, its risk, or the loss with a penalty."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from peerwise.core import Array, Batched, Shard, Tree
from peerwise.nets.net import Net
from peerwise.update.losses import Loss
from peerwise.update.risk import Risk

Penalty: TypeAlias = Callable[[Tree, Tree | None], Array]  # weights, anchor -> what is added
MeanLoss: TypeAlias = Callable[[Tree, Shard, Array | None], Array]  # weights, rows, key -> scalar

ROWS, MOST = 64, 256  # at a time, of all rows and of a limited number of them


class Objective(NamedTuple):
    """What local training minimises; by default the mean loss itself."""

    loss: MeanLoss
    total: Callable[[Array, Tree, Tree], Array] = lambda loss, weights, prior: loss
    # the weights with which a round's training begins, shard -> prior
    prior: Callable[[Tree, Shard], Tree] = lambda weights, shard: None


def mean_loss(net: Net, loss: Loss) -> MeanLoss:
    """weights, rows, key -> the mean loss of a net over the rows; without a key dropout is off."""

    def mean(weights: Tree, rows: Shard, key: Array | None) -> Array:
        w = rows.weight.astype(rows.x.dtype)
        logits = net.logits(weights, rows.x, key) if net.noisy else net.logits(weights, rows.x)
        return (loss(logits, rows.y) * w).sum() / jnp.maximum(w.sum(), 1e-30)

    return mean


def at_risk(mean: MeanLoss, risk: Risk) -> Objective:
    """The risk of the mean loss; weights are {"net": weights, "t": threshold}."""

    def loss(weights: Tree, rows: Shard, key: Array | None) -> Array:
        return mean(weights["net"], rows, key)

    def total(loss: Array, weights: Tree, prior: Tree) -> Array:
        return risk(weights["t"], loss)

    return Objective(loss, total)


def penalised(mean: MeanLoss, penalty: Penalty, anchored: bool) -> Objective:
    """The mean loss plus a penalty of the weights that counts once for all rows trained on.

    `anchored`: the penalty is measured from the weights with which a round's training begins.
    """

    def prior(weights: Tree, shard: Shard) -> Tree:
        rows = jnp.maximum(shard.weight.astype(jnp.float32).sum(), 1)
        return rows, weights if anchored else None

    def total(loss: Array, weights: Tree, prior: Tree) -> Array:
        rows, anchor = prior
        return loss + penalty(weights, anchor) / rows.astype(loss.dtype)

    return Objective(mean, total, prior)


def spread(i: Array, real: Array, many: Array, most: int) -> Array:
    """floor(i x real / many) of places i < many <= real; the product is `most` at the most.

    Where that does not fit into 32 bits, i is taken bit by bit: no number exceeds 3 x real.
    """
    if most < 2**31:
        return i * real // many

    def bit(b: Any, now: tuple[Array, Array]) -> tuple[Array, Array]:
        whole, left = now
        left = 2 * left + jnp.where((i >> (bits - 1 - b)) & 1 > 0, real % many, 0)
        return 2 * whole + left // many, left % many

    bits, zero = i.size.bit_length(), jnp.zeros_like(i)
    whole, _ = jax.lax.fori_loop(0, bits, bit, (zero, zero))
    return i * (real // many) + whole


def gradient(net: Net, loss: Loss, rows: int | None = None) -> Batched:
    """weights, turn, whether, shard -> the gradient of the mean loss over its rows, dropout off.

    `rows`: the most rows used, evenly spaced, different ones in every turn. Zeros if not `whether`.
    """
    mean = mean_loss(net, loss)
    size = ROWS if rows is None else min(MOST, rows)

    def begin(weights: Tree, turn: Array, whether: Array, shard: Shard) -> Any:
        zero = jnp.zeros((), shard.weight.dtype)
        return weights, turn, whether, jax.tree.map(jnp.zeros_like, weights), zero

    def taken(m: int) -> int:
        return m if rows is None else min(rows, m)

    def draw(now: Any, e: Array, shard: Shard) -> Array:
        m = shard.weight.shape[0]
        i, real = jnp.arange(taken(m)), (shard.weight > 0).sum()
        many = jnp.minimum(real, taken(m))
        # real rows come first in a shard
        evenly = spread(i, real, jnp.maximum(many, 1), taken(m) * m)
        place = jnp.where(i < many, (now[1] + evenly) % real, m)
        return jnp.pad(place, (0, -taken(m) % size), constant_values=m).astype(jnp.int32)

    def step(now: Any, batch: Shard) -> Any:
        weights, turn, whether, total, count = now
        slope = jax.grad(mean)(weights, batch, None)
        here = batch.weight.sum()
        total = jax.tree.map(lambda s, g: s + here.astype(g.dtype) * g, total, slope)
        return weights, turn, whether, total, count + here

    def end(now: Any) -> Tree:
        _, _, whether, total, count = now
        share = jnp.where(whether & (count > 0), 1 / jnp.maximum(count, 1e-30), 0)
        return jax.tree.map(lambda s: jnp.where(whether, s * share.astype(s.dtype), 0), total)

    return Batched(begin, draw, step, end, lambda m: -(-taken(m) // size), size)
