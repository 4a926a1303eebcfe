"""The sections of a charter that are of peers alone, each checked by itself, and their network."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

import networkx as nx
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from peerwise.errors import BadSetting, UnknownName
from peerwise.peer.names import check_node

# "5" is no number and 1 is no truth: what peers must agree on is not guessed
Whole = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Value = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1e100, le=1e100)]
WEEK = 7 * 24 * 3600.0
MOST_UNITS = 1e15  # of a bound from the center, if rows are released with noise
ROWS = 10**12
ROUNDS = 10**6  # more would take years; what a private method spends is found round by round
MOST_NODES = 10_000  # and features, and classes: far more than any network has
# what a site may change by itself while a federation runs: it is no part of a charter's hash
AMENDABLE: Any = {"amendable": True}
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")


class Terms(BaseModel):
    """What nodes agree on: it does not change, and has no keys but those that are known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def amendable(cls) -> frozenset[str]:
        """The keys that a site may change by itself while a federation runs."""
        fields = cls.model_fields.items()
        return frozenset(key for key, field in fields if field.json_schema_extra == AMENDABLE)


class FeatureTerms(Terms):
    """One column: a number in units of (value - center) / scale, or one of `categories`.

    A numeric feature with categories is a nominal column whose codes are used as numbers.
    """

    name: str = Field(min_length=1)
    kind: Literal["numeric", "categorical"]
    categories: tuple[str, ...] = ()
    center: Value = 0.0
    scale: Number = Field(1.0, gt=0, le=1e100)
    low: Value | None = Field(None, description="the least value that is taken")
    high: Value | None = Field(None, description="the greatest value that is taken")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        what = f"feature '{self.name}'"
        if len(set(self.categories)) < len(self.categories):
            raise BadSetting(f"{what} has a category twice; remove one")
        if len(self.categories) < 2 and (self.categories or self.kind == "categorical"):
            raise BadSetting(
                f"{what} is {self.kind} with {len(self.categories)} categories; give at least 2 or "
                "leave the feature out"
            )
        if self.kind == "categorical":
            for key in ("center", "scale", "low", "high"):
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise BadSetting(f"{what}: {key} is only for numeric features; remove it")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise BadSetting(
                f"{what}: low must be less than high, got low = {self.low:g} and high = "
                f"{self.high:g}"
            )
        return self

    def bounds(self) -> tuple[float, float]:
        """The public bounds that a private release needs; refused where one is missing."""
        if self.low is None or self.high is None:
            raise BadSetting(
                f"a private release needs public bounds: give low and high of '{self.name}' in the "
                "charter"
            )
        low, high = ((bound - self.center) / self.scale for bound in (self.low, self.high))
        # sums of larger squares could overflow, which would tell how many rows there are
        if not -MOST_UNITS <= low < high <= MOST_UNITS:
            raise BadSetting(
                f"feature '{self.name}': a private release needs bounds that differ and lie within "
                f"{MOST_UNITS:g} units of the center, but in units of center and scale they are "
                f"{low:g} and {high:g}; mend center and scale"
            )
        return self.low, self.high


class PaceTerms(Terms):
    """How long a node waits for its neighbours in a round."""

    mode: Literal["wait", "deadline", "async"] = Field(
        "wait",
        description="wait for every neighbour, for those in time, or take the newest of each",
    )
    deadline: Number = Field(
        30.0,
        gt=0,
        le=WEEK,
        description="seconds that a round may last",
        json_schema_extra=AMENDABLE,
    )
    start: Number = Field(
        120.0,
        gt=0,
        le=WEEK,
        description="seconds for which the first round waits for all neighbours",
        json_schema_extra=AMENDABLE,
    )
    adaptive: bool = Field(
        False,
        description="a deadline as long as letters usually take, and no longer than that",
        json_schema_extra=AMENDABLE,
    )
    staleness: Whole = Field(
        8, ge=1, le=ROUNDS, description="rounds after which a message has no say"
    )


class BudgetTerms(Terms):
    """The most that a node may spend; every node keeps a ledger of it."""

    epsilon: Number = Field(gt=0, le=1e6)
    delta: Number = Field(0.0, ge=0, lt=1)
    accountant: Literal["basic", "rdp", "pld"] = "basic"


class LimitTerms(Terms):
    """What a node must bring to take part, and what it takes from others."""

    rows: Whole | None = Field(
        None, ge=1, le=ROWS, description="rows in the whole network, as agreed"
    )
    least_rows: Whole = Field(1, ge=1, le=ROWS, description="rows that a node must have")
    least_count: Whole = Field(0, ge=0, le=ROWS, description="rows that a class must have, or none")
    message_bytes: Whole = Field(
        64 * 2**20,
        ge=1024,
        lt=2**31,
        description="the largest message taken",
        json_schema_extra=AMENDABLE,
    )
    ahead: Whole = Field(
        2,
        ge=1,
        le=64,
        description="rounds that a message may be in the future",
        json_schema_extra=AMENDABLE,
    )


class NodeTerms(Terms):
    """Where a node can be reached, if it can, and whom it talks to."""

    address: str | None = Field(
        None,
        description="host:port; none for a peer that only dials",
        json_schema_extra=AMENDABLE,
    )
    neighbours: tuple[str, ...]

    @field_validator("address")
    @classmethod
    def _host_and_port(cls, address: str | None) -> str | None:
        if address is None:
            return None
        parts = _ADDRESS.fullmatch(address)
        if parts is None or not 1 <= int(parts[2]) <= 65535:
            raise BadSetting(
                f"{address!r} is not an address; write host:port with a port from 1 to 65535, as "
                "in 'a.example.org:7400' or '[::1]:7400'"
            )
        return address


def distinct(values: Iterable[str], what: str) -> None:
    """Refuse a text that comes twice."""
    met: set[str] = set()
    for value in values:
        if value in met:
            raise BadSetting(f"{what} '{value}' comes twice; remove one")
        met.add(value)


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
    if not 2 <= len(nodes) <= MOST_NODES:
        raise BadSetting(
            f"a network needs from 2 to {MOST_NODES} nodes, got {len(nodes)}; add or remove "
            "[nodes.NAME]"
        )
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
            f"the network is not connected: it has {len(parts)} parts, the smallest with {least}; "
            "add neighbours that join them"
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
            f"nodes '{name}' and '{other}' cannot dial each other, because neither has an address; "
            "give one of them an address"
        )
