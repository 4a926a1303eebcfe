"""Bayesian neural networks: neighbours exchange posteriors and merge them by barycenters.

"BA-BFL: Barycentric Aggregation for Bayesian Federated Learning" (Jamoussi, Serra, Stavrou,
Kountouris): nodes learn Gaussian posteriors of their last layers by variational inference. On
`topology.server` this is the paper's method; on other graphs every node merges its neighbourhood.
"""

import math
from functools import cache
from typing import Annotated, Literal

from annotated_types import Ge

from peerwise.combine.weigh import Rule
from peerwise.core import Array, Method, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting
from peerwise.methods.neural import Start, trained
from peerwise.nets.bayes import divergence
from peerwise.nets.net import Net
from peerwise.update.losses import LossOption
from peerwise.update.objective import Penalty
from peerwise.update.training import Training


@declares("method")
def ba_bfl(
    net: Net,
    *,
    rule: Rule = "barycenter",
    prior: Annotated[Literal["standard", "neighbours"], "the prior in the divergence"] = "standard",
    temperature: Annotated[float, Ge(0), "multiplies the divergence from the prior"] = 1.0,
    start: Start = "common",
    loss: LossOption = "cross_entropy",
    training: Training = Training(),
) -> Method:
    """Posteriors learnt on each node's own rows and merged by a barycenter, by data size and trust.

    `net`: one with Bayesian layers (`nets.network(..., bayesian_layers=2)`); without any, this is
    FedAvg on a server and DecAvg on a graph. `rule`: "barycenter" with its `divergence`,
    "alpha_barycenter", "full_barycenter", or your own rule.
    Training minimises the mean cross-entropy plus KL(posterior, prior) / rows of the node.
    `prior`: "standard" (N(0, 1) for every weight, the paper's) or "neighbours" (the merged
    one: a node learns what its rows add). With `weigh = "cfa"` in the rule, a node gives its own
    posterior the share 1 - epsilon: a personal model. `temperature` multiplies the divergence:
    below 1 the rows count more than Bayes' rule says, which nets of many weights and few rows need
    ("cold posteriors", Wenzel et al. 2020).
    """
    if math.isinf(temperature):
        raise BadSetting(f"temperature must be 0 or more, got {temperature}")
    penalty, anchored = _tempered(float(temperature)), prior == "neighbours"
    return trained(net, loss, rule, start, training, penalty=penalty, anchored=anchored)


@cache
def _tempered(temperature: float) -> Penalty:
    def penalty(weights: Tree, anchor: Tree | None) -> Array:
        return temperature * divergence(weights, anchor)

    return penalty
