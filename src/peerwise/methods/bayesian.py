"""Bayesian neural networks between neighbours: posteriors are told, and merged by barycenters.

"BA-BFL: Barycentric Aggregation for Bayesian Federated Learning" (Jamoussi, Serra, Stavrou,
Kountouris): nodes learn Gaussian posteriors of their last layers by variational inference. On
`topology.server` this is the paper's; on any other graph every node merges its neighbourhood.
"""

import math
from functools import cache
from typing import Any

from peerwise.combine.barycenter import barycenter
from peerwise.combine.weigh import cfa
from peerwise.core import Array, Method, Tree
from peerwise.errors import BadSetting, UnknownName
from peerwise.methods.neural import STARTS, trained
from peerwise.nets.bayes import divergence
from peerwise.nets.net import Net
from peerwise.update.losses import Loss, cross_entropy
from peerwise.update.objective import Penalty
from peerwise.update.training import training_of

__all__ = ["ba_bfl"]

PRIORS = ("standard", "neighbours")


def ba_bfl(
    net: Net,
    *,
    rule: Any = "rkl",
    own_share: float | None = None,
    prior: str = "standard",
    temperature: float = 1.0,
    loss: Loss | None = None,
    start: str = "common",
    keep: bool = False,
    **training: Any,
) -> Method:
    """Posteriors learnt on one's own rows and merged by a barycenter, by data size and trust.

    `net`: one with Bayesian layers (`nets.network(..., bayesian_layers=2)`); without any, this is
    FedAvg on a server and DecAvg on a graph. `rule`: "rkl", "w2", "kl", "eaa", "gaa",
    "gaa_normalised" or "aalv" (see `combine.barycenter`), or a rule of one's own.
    What is made small is the mean cross-entropy plus KL(posterior, prior) / rows of the node.
    `prior`: "standard" (N(0, 1) for every weight, the paper's) or "neighbours" (what was merged:
    a node learns what its rows add). `own_share`: a personal model, to which the node's own
    posterior counts so much and the neighbours' together the rest. `temperature` multiplies the
    divergence: below 1 the rows count more than Bayes' rule says, which nets of many weights and
    few rows need ("cold posteriors", Wenzel et al. 2020).
    """
    if prior not in PRIORS:
        raise UnknownName("prior", prior, PRIORS)
    if start not in STARTS:
        raise UnknownName("start", start, STARTS)
    if own_share is not None and not 0 <= own_share < 1:
        raise BadSetting(f"own_share must be 0 or more and below 1, got {own_share}")
    if not 0 <= temperature < math.inf:
        raise BadSetting(f"temperature must be 0 or more, got {temperature}")
    weigh = None if own_share is None else cfa(1 - own_share)
    merge = barycenter(rule, weigh) if isinstance(rule, str) else rule
    options = training_of({"keep": keep, **training})
    penalty, anchored = _tempered(float(temperature)), prior == "neighbours"
    return trained(
        net, loss or cross_entropy(), merge, start, options, penalty=penalty, anchored=anchored
    )


@cache
def _tempered(temperature: float) -> Penalty:
    def penalty(weights: Tree, anchor: Tree | None) -> Array:
        return temperature * divergence(weights, anchor)

    return penalty
