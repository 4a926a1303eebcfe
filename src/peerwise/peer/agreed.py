"""What of a charter must fit together: its graph, and its method with what the nodes may tell."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import networkx as nx

from peerwise.errors import BadSetting, UnknownName
from peerwise.methods.baselines import BASELINES
from peerwise.experiments.job import POOLED, SERVER
from peerwise.experiments.names import find
from peerwise.experiments.setting import NEURAL, OF_NETS, PRIVATE, Setting, setting_from
from peerwise.methods.private_crc import noise_multiplier
from peerwise.models.registry import PLAIN
from peerwise.peer.names import check_node
from peerwise.peer.terms import LimitTerms, NodeTerms, PrivacyTerms
from peerwise.privacy.composition import Charge, renyi

__all__ = [
    "METHOD_KEYS", "check_method", "check_nodes", "distinct", "graph_of", "ordered", "typed"
]  # fmt: skip

# keys of a setting that say what is learnt and how; the others are of simulations
METHOD_KEYS = (
    "model", "model_options", "method", "lr", "m0", "iterations", "include_self", "weigh",
    "epsilon", "delta", "clip", "sensitivity", "bound", "counter", *OF_NETS, "method_options",
    "precision",
)  # fmt: skip
WEIGHTS = ("equal", "metropolis", "data_size", "worst")
SECTION = "[method]"


def distinct(values: Iterable[str], what: str) -> None:
    """Refuse a text that comes twice."""
    met: set[str] = set()
    for value in values:
        if value in met:
            raise BadSetting(f"{what} '{value}' comes twice; remove one")
        met.add(value)


def typed(method: Mapping[str, Any]) -> dict[str, Any]:
    """The method section with every value of its key's type, so that 1 and 1.0 are alike."""
    given = {key: value for key, value in method.items() if value is not None}
    for key in given:
        if key not in METHOD_KEYS and key in Setting.model_fields:
            raise BadSetting(
                f"'{key}' in {SECTION} is of simulations; remove it (rounds, seed, nodes and limits"
                " have sections of their own)"
            )
        if key not in METHOD_KEYS:
            raise UnknownName(f"key in {SECTION}:", key, METHOD_KEYS)
    made = setting_from(given, SECTION)
    return {key: getattr(made, key) for key in given}


def check_method(
    setting: Setting, limits: LimitTerms, privacy: PrivacyTerms | None, units: str, missing: bool
) -> None:
    """Refuse a method that these nodes cannot run, or that tells more than they allow."""
    s = setting
    if s.method in (*POOLED, *SERVER, *BASELINES):
        needs = "a server" if s.method in SERVER else "all rows at one place"
        raise BadSetting(
            f"method.method = '{s.method}' needs {needs}, which a network of peers has not; take "
            "another, such as crc or decdiff"
        )
    neural = s.method in NEURAL
    # a user's own is imported when a node starts and not when somebody's charter is read
    for kind, name in (("methods", s.method), ("nets", s.net) if neural else ("models", s.model)):
        if ":" not in name:
            find(kind, name)
    if s.weigh not in WEIGHTS:
        raise UnknownName("weigh rule", s.weigh, WEIGHTS)
    if neural and missing:
        raise BadSetting(
            f"{s.method} trains neural networks, which cannot use missing values; set missing = "
            "false"
        )
    if s.method in ("crc", "private_crc") and s.m0 is None and limits.rows is None:
        raise BadSetting(
            f"{s.method} needs limits.rows, the rows in the whole network as agreed, to find m0 "
            "from lr; or give method.m0"
        )
    if units == "agree" and privacy is not None:
        raise BadSetting(
            'units = "agree" finds center and scale by exact sums, which tell more than [privacy] '
            'allows; set units = "given" and give center and scale'
        )
    if units == "agree" and s.model in PLAIN and not neural:
        raise BadSetting(
            f'{s.model} is about numbers as they are; set units = "given" and leave center and '
            "scale out"
        )
    if s.method in PRIVATE and s.epsilon is not None and math.isfinite(s.epsilon):
        _check_budget(s, s.epsilon, privacy)
        if s.model != "naive_bayes":
            raise BadSetting(
                f"{s.method} with noise is for statistics of naive_bayes, not of {s.model}"
            )
    elif privacy is not None:
        private = ", ".join(m for m in PRIVATE if m not in SERVER)
        raise BadSetting(
            f"{s.method} as given adds no noise, so that a budget would promise what it does not "
            f"keep; leave [privacy] out, or take one of {private} with epsilon"
        )


def _check_budget(s: Setting, epsilon: float, privacy: PrivacyTerms | None) -> None:
    if privacy is None:
        raise BadSetting(
            f"{s.method} spends method.epsilon = {epsilon:g}; give a budget, as in [privacy] "
            f"epsilon = {epsilon:g}"
        )
    if privacy.epsilon < epsilon:
        raise BadSetting(
            f"method.epsilon = {epsilon:g} is more than the budget privacy.epsilon = "
            f"{privacy.epsilon:g}; lower the one or raise the other"
        )
    if s.method == "private_crc" and privacy.accountant == "rdp" and privacy.delta >= s.delta:
        each = noise_multiplier(epsilon, s.delta, s.rounds)
        total = renyi([Charge(epsilon, s.delta, each)] * s.rounds, privacy.delta).epsilon
        if total > privacy.epsilon:
            raise BadSetting(
                f"{s.rounds} rounds cost epsilon {total:.4g} by the accountant rdp, more than the "
                f'budget privacy.epsilon = {privacy.epsilon:g}; raise it, or take "basic", which '
                "pays for all rounds at once"
            )
    if s.method == "private_crc" and privacy.delta < s.delta:
        raise BadSetting(
            f"method.delta = {s.delta:g} is more than the budget privacy.delta = "
            f"{privacy.delta:g}; lower the one or raise the other"
        )


def graph_of(nodes: Mapping[str, NodeTerms]) -> nx.Graph:
    """Who talks to whom, with the nodes in their order."""
    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((name, other) for name, node in nodes.items() for other in node.neighbours)
    return graph


def ordered(nodes: Mapping[str, NodeTerms]) -> dict[str, NodeTerms]:
    """The same nodes with their neighbours in the order of the nodes."""
    place = {name: i for i, name in enumerate(nodes)}
    return {
        name: node.model_copy(
            update={"neighbours": tuple(sorted(node.neighbours, key=lambda j: place[j]))}
        )
        for name, node in nodes.items()
    }


def check_nodes(nodes: Mapping[str, NodeTerms]) -> None:
    """Refuse nodes that do not make one network in which every link can be dialled."""
    if len(nodes) < 2:
        raise BadSetting(f"a network needs at least 2 nodes, got {len(nodes)}; add [nodes.NAME]")
    # case does not count in the names of certificates, nor of files on some machines
    distinct([check_node(name).lower() for name in nodes], "the node name, whatever its case,")
    distinct([node.address for node in nodes.values() if node.address], "the address")
    for name, node in nodes.items():
        distinct(node.neighbours, f"node '{name}': the neighbour")
        for other in node.neighbours:
            _check_link(nodes, name, other)
    parts = sorted(nx.connected_components(graph_of(nodes)), key=len)
    if len(parts) > 1:
        least = ", ".join(name for name in nodes if name in parts[0])
        raise BadSetting(
            f"the network falls into {len(parts)} parts, the smallest with {least}; add neighbours "
            "that join them"
        )


def _check_link(nodes: Mapping[str, NodeTerms], name: str, other: str) -> None:
    if other == name:
        raise BadSetting(f"node '{name}' lists itself among its neighbours; remove it")
    if other not in nodes:
        raise UnknownName(f"neighbour of node '{name}':", other, nodes)
    if name not in nodes[other].neighbours:
        raise BadSetting(
            f"node '{name}' lists '{other}' as a neighbour and '{other}' does not list '{name}'; "
            f"add '{name}' to nodes.{other}.neighbours"
        )
    if nodes[name].address is None and nodes[other].address is None:
        raise BadSetting(
            f"neither '{name}' nor '{other}' has an address, so that their link cannot be dialled; "
            "give one of them an address"
        )
