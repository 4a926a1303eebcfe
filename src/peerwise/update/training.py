"""The options of local training, and the state of a node's training."""

from typing import Annotated, Any, Literal, NamedTuple

import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt

from peerwise.core import Array, Tree
from peerwise.errors import BadSetting


class Training(NamedTuple):
    """The options of local training.

    A range of epochs (low, high) lets every node draw its own number once and for all. Steps are
    batches drawn with replacement. The last batch of an epoch may be smaller, and counts as one; so
    does a shard smaller than a batch. Weight decay is added to the gradient before the momentum, as
    in PyTorch. A node that validates stops after `patience` epochs without a lower loss on those
    rows (evenly spaced ones, never trained on) and keeps the best weights of the round, with the
    optimiser's state of that epoch.
    """

    lr: Annotated[float, Gt(0), Le(1000), "learning rate"] = 0.05
    epochs: Annotated[
        int | tuple[int, int],
        "local epochs a round, or a range from which every node draws its own number",
    ] = 1
    steps: Annotated[int | None, Ge(0), "local steps a round, instead of epochs; 0: epochs"] = None
    batch: Annotated[int, Ge(1), "rows of a mini-batch"] = 32
    optimiser: Annotated[Literal["sgd", "adam"], "what turns gradients into steps"] = "sgd"
    momentum: Annotated[float, Ge(0), Lt(1), "momentum of sgd"] = 0.5
    weight_decay: Annotated[float, Ge(0), "share of the weights added to their gradient"] = 0.0
    validation: Annotated[float, Ge(0), Lt(1), "share of rows kept to stop early"] = 0.0
    patience: Annotated[int, Ge(1), "epochs without a lower loss on them before it stops"] = 1
    keep: Annotated[
        bool, "the optimiser's state survives from round to round instead of starting anew"
    ] = False


class Best(NamedTuple):
    """The best weights of a round so far, by the loss on a node's validation rows."""

    weights: Tree
    loss: Array
    waited: Array  # epochs since
    optimiser: Tree  # as it was with them; None where it starts anew every round


class Trained(NamedTuple):
    """The state of a node's training, and the result in the end."""

    weights: Tree
    optimiser: Tree
    key: Array  # raw data of the key
    total: Array  # loss of the rows trained on so far, before each step
    rows: Array  # how many
    steps: Array  # how many changed anything
    epochs: Array  # how many this node does
    stopping: Any  # None, or the `Best` so far
    prior: Tree  # what the objective needs from the beginning of the round
    kept: Tree  # what the caller carries along

    @property
    def loss(self) -> Array:
        """The mean over the rows trained on, before each step."""
        return self.total / jnp.maximum(self.rows, 1e-30)


def epochs_range(training: Training) -> tuple[int, int]:
    """The least and the most epochs that a node may do a round; refused beside steps."""
    epochs = training.epochs
    low, high = (epochs, epochs) if isinstance(epochs, int) else epochs
    if not 1 <= low <= high:
        raise BadSetting(f"epochs must be 1 or more, or a range (low, high), got {epochs}")
    if training.steps is not None and (training.validation or epochs != 1):
        raise BadSetting("give steps, or epochs (and early stopping after each), not both")
    return low, high
