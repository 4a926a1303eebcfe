"""What local training makes small: the mean loss of a batch, at risk or with a penalty."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp

from peerwise.core import Array, Shard, Tree
from peerwise.nets.net import Net
from peerwise.update.losses import Loss
from peerwise.update.risk import Risk

__all__ = ["MeanLoss", "Objective", "Penalty", "at_risk", "mean_loss", "penalised"]

Penalty: TypeAlias = Callable[[Tree, Tree | None], Array]  # weights, anchor -> what is added
MeanLoss: TypeAlias = Callable[[Tree, Shard, Array | None], Array]  # weights, rows, key -> scalar


def _nothing(weights: Tree, shard: Shard) -> Tree:
    return None


def _loss_alone(loss: Array, weights: Tree, prior: Tree) -> Array:
    return loss


class Objective(NamedTuple):
    """What local training makes small; by default the mean loss itself."""

    loss: MeanLoss
    prior: Callable[[Tree, Shard], Tree] = _nothing  # first weights of a round, shard -> prior
    total: Callable[[Array, Tree, Tree], Array] = _loss_alone  # loss, weights, prior -> objective

    def value(
        self, weights: Tree, rows: Shard, key: Array | None, prior: Tree
    ) -> tuple[Array, Array]:
        """The objective and the mean loss of some rows."""
        loss = self.loss(weights, rows, key)
        return self.total(loss, weights, prior), loss


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

    return Objective(loss, total=total)


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

    return Objective(mean, prior, total)
