"""Predictions of the nodes of a simulated network, whatever their method keeps as its value."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from peerwise.core import Method, Tree, on_device
from peerwise.declare import build
from peerwise.errors import BadData
from peerwise.learner import Cell, World
from peerwise.learner.assemble import facts_of
from peerwise.learner.world import as_read
from peerwise.models.classifier import check_finite
from peerwise.runtime import cast, precision_of
from peerwise.shards import roomy
from peerwise.topology import Topology

Array = npt.NDArray[Any]


@partial(jax.jit, static_argnums=0)
def _mean_log_prob(predict: Any, values: Tree, x: Any) -> Any:
    """The logarithm of the mean of all nodes' probabilities."""
    key = jax.random.key(0)  # prediction that samples draws the same samples every time
    log_prob = jax.lax.map(lambda value: predict(key, value, x), values)
    return jax.nn.logsumexp(log_prob, 0) - math.log(log_prob.shape[0])


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """One node's model, or that of several nodes, whose probabilities are averaged.

    It holds a description and arrays only, and builds its method from them when it is asked, so
    that it can be pickled.
    """

    cell: Cell
    world: World  # without rows
    links: Topology
    values: Tree  # [nodes, ...] what each node's method predicts from

    def _method(self) -> Method:
        facts = facts_of(self.cell, self.world, None, self.links)
        method: Method = build("method", self.cell["method"], facts)
        return method

    def _checked(self, x: Any) -> Array:
        x, schema = np.asarray(x, float), self.world.schema
        if x.ndim != 2 or x.shape[1] != len(schema.features):
            raise BadData(
                f"rows must have {len(schema.features)} features, got an array of shape {x.shape}"
            )
        if np.isnan(x).any() and not (self.cell.method.learns == "model" and schema.missing):
            row, column = np.argwhere(np.isnan(x))[0].tolist()
            raise BadData(
                f"column '{schema.features[column].name}' has no value in row {row}, and what "
                f"{self.cell.method.name} learnt here needs one; fill it in"
            )
        return as_read(self.cell, self.world._replace(x=x)).x

    def log_proba(self, x: Any) -> Array:
        """log p(y | x) [m, c] of encoded rows."""
        x = self._checked(x)
        rows = np.concatenate([x, np.zeros((roomy(len(x)) - len(x), x.shape[1]))])
        too_large = np.errstate(over="ignore")  # for float32; they are named below
        with precision_of(self.cell["run"]["precision"]) as dtype, too_large:
            values, rows = cast((self.values, rows), dtype)
            log_prob = _mean_log_prob(self._method().predict, values, on_device(rows))
            log_probs = np.asarray(log_prob, float)[: len(x)]
        if np.isnan(log_probs).any():  # a net may be sure: log 0 is no mistake
            check_finite(log_probs)
        return log_probs
