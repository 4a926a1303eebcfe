"""The charter: one file that says what a federation learns, how, between whom, within which limits.

Every node has a copy. Its hash goes with the first message, so that nodes with different charters
do not learn together, and `difference` says in words where they part.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import networkx as nx
import numpy as np
import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from peerwise import data, topology
from peerwise.checkpoint import write_whole
from peerwise.errors import BadFile, BadSetting, PeerwiseError, UnknownName
from peerwise.experiments.setting import NEURAL, Setting, setting_from
from peerwise.models.registry import PLAIN
from peerwise.peer import agreed
from peerwise.peer.own_rows import own_rows
from peerwise.peer.terms import FeatureTerms, LimitTerms, NodeTerms, PrivacyTerms, RoundTerms

__all__ = [
    "Charter", "FeatureTerms", "LimitTerms", "NodeTerms", "PrivacyTerms", "RoundTerms", "draft"
]  # fmt: skip


class Charter(BaseModel):
    """What the nodes of a federation agree on; make one with `load`, `parse` or `draft`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    target: str = Field(min_length=1, description="the column to predict")
    classes: tuple[str, ...] = Field(min_length=2)
    missing: Annotated[bool, Field(strict=True)] = Field(
        False, description="whether cells may be empty"
    )
    units: Literal["given", "agree"] = Field(
        "given", description="center and scale as given, or found by exact sums between neighbours"
    )
    features: tuple[FeatureTerms, ...] = Field(min_length=1)
    method: dict[str, Any] = Field(description="keys of a setting: what is learnt and how")
    rounds: RoundTerms = RoundTerms.model_validate({})
    privacy: PrivacyTerms | None = None
    limits: LimitTerms = LimitTerms.model_validate({})
    nodes: dict[str, NodeTerms]

    @field_validator("method")
    @classmethod
    def _typed(cls, method: dict[str, Any]) -> dict[str, Any]:
        return agreed.typed(method)

    @field_validator("nodes")
    @classmethod
    def _network(cls, nodes: dict[str, NodeTerms]) -> dict[str, NodeTerms]:
        agreed.check_nodes(nodes)
        return agreed.ordered(nodes)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        agreed.distinct(self.classes, "the class")
        agreed.distinct([f.name for f in self.features], "the feature")
        if self.target in {f.name for f in self.features}:
            raise BadSetting(
                f"the target '{self.target}' is among the features; a node would be told what it is"
                " to predict: remove the feature"
            )
        agreed.check_method(self.setting(), self.limits, self.privacy, self.units, self.missing)
        return self

    @classmethod
    def load(cls, path: str | Path) -> "Charter":
        """The charter in a file; the error names the file and the line or key that is wrong."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"cannot read the charter {path}: {error}") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, where: str = "the charter") -> "Charter":
        """The charter that a TOML text is."""
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadFile(f"{where} is not TOML: {error}") from None
        return _made(raw, where)

    def text(self) -> str:
        """The charter as TOML, from which `parse` makes an equal one."""
        raw = self.model_dump(mode="json", exclude_none=True)
        raw["features"] = [f.model_dump(mode="json", exclude_defaults=True) for f in self.features]
        raw["method"] = dict(self.method)  # as it is: JSON has no infinity
        return tomli_w.dumps(raw)

    def save(self, path: str | Path) -> None:
        """Write the text to a file, whole or not at all."""
        write_whole(path, self.text().encode())

    @property
    def hash(self) -> str:
        """sha256 of what the charter says, whatever the order of its keys and what it leaves out.

        The order of the nodes, features and classes counts: nodes go by their number.
        """
        # defaults are left out, so that a new key with a default does not part old and new nodes
        raw = self.model_dump(mode="json", exclude_defaults=True)
        chosen = self.setting().model_dump(mode="json", exclude_defaults=True)
        raw["method"] = {key: chosen[key] for key in agreed.METHOD_KEYS if key in chosen}
        raw["nodes"] = list(raw["nodes"].items())
        text = json.dumps(raw, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def difference(self, other: "Charter") -> str | None:
        """The first difference in words, None when both say the same."""
        for key in ("name", "target", "classes", "missing", "units"):
            if found := _differs(key, getattr(self, key), getattr(other, key)):
                return found
        mine, theirs = ({f.name: f for f in c.features} for c in (self, other))
        if found := _parts("feature", mine, theirs):
            return found
        mine_too, theirs_too = self.setting(), other.setting()
        for key in agreed.METHOD_KEYS:
            values = getattr(mine_too, key), getattr(theirs_too, key)
            if found := _differs(f"method.{key}", *values):
                return found
        for key in ("rounds", "privacy", "limits"):
            if found := _fields(key, getattr(self, key), getattr(other, key)):
                return found
        return _parts("node", self.nodes, other.nodes)

    def schema(self) -> data.Schema:  # type: ignore[override]
        """What the columns mean; with units = "agree" before center and scale are found."""
        features = tuple(
            data.Feature(f.name, f.kind, f.categories, f.center, f.scale) for f in self.features
        )
        return data.Schema(features, self.classes, self.target, self.missing)

    def setting(self) -> Setting:
        """The setting of which `experiments.job` makes the method."""
        n = len(self.nodes)
        of_network = {"nodes": n, "rows": max(1, (self.limits.rows or n) // n)}
        of_rounds = {"rounds": self.rounds.count, "seed": self.rounds.seed}
        return setting_from({**self.method, **of_network, **of_rounds}, agreed.SECTION)

    def graph(self) -> nx.Graph:
        """Who talks to whom, by name."""
        return agreed.graph_of(self.nodes)

    def topology(self) -> topology.Topology:
        """The same as arrays: node i is the i-th name."""
        numbered = nx.relabel_nodes(self.graph(), {name: i for i, name in enumerate(self.names)})
        made = topology.from_graph(numbered)
        return topology.metropolis(made) if self.setting().metropolis else made

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes in order."""
        return tuple(self.nodes)

    def index(self, node: str) -> int:
        """The number of a node."""
        if node not in self.nodes:
            raise UnknownName("node", node, self.nodes)
        return self.names.index(node)

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Whom a node talks to, in the order of the nodes."""
        self.index(node)
        return self.nodes[node].neighbours

    def rows(self, table: data.Table, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """A node's own rows as numbers x [m, d] and classes y [m]; BadData if not as agreed.

        `exact`: in double precision, whatever the method computes in.
        """
        wide = exact or self.setting().precision == "float64"
        dtype: type[np.floating] = np.float64 if wide else np.float32
        return own_rows(table, self.schema(), self.features, self.limits, dtype)


def draft(
    table: data.Table,
    graph: nx.Graph,
    *,
    name: str,
    method: Mapping[str, Any],
    addresses: Mapping[str, str] | None = None,
    units: str = "given",
    typing: str | Mapping[str, str] = "distinct",
    missing: bool | None = None,
    rounds: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    privacy: Mapping[str, Any] | None = None,
) -> Charter:
    """A charter for data like a sample, between the nodes of a graph of names.

    What the columns mean is learnt from the sample, center and scale too unless the nodes agree on
    them or the model is about plain numbers: nodes without secrets should make the sample. Cells
    may be empty if a number of the sample is missing, or as `missing` says. limits.rows is the
    number of rows of the sample unless given. With a privacy budget numbers get the bounds of the
    sample, which then are public.
    """
    encoded = data.encode(table, typing=typing)
    schema = encoded.schema
    plain = method.get("model") in PLAIN and method.get("method") not in NEURAL
    if units == "given" and not plain:
        _, schema = data.standardise(encoded.x, schema)
    bounds: dict[str, dict[str, Any]] = {
        f.name: {"low": float(np.nanmin(column)), "high": float(np.nanmax(column))}
        for f, column in zip(schema.features, encoded.x.T, strict=True)
        if f.kind == "numeric"
    }
    told = addresses or {}
    for node in told:
        if node not in graph:
            raise UnknownName("node with an address:", node, map(str, graph))
    raw = {
        "name": name,
        "target": schema.target,
        "classes": schema.classes,
        "missing": schema.missing if missing is None else missing,
        "units": units,
        "features": [
            {"name": f.name, "kind": f.kind, "categories": f.categories}
            | ({"center": f.center, "scale": f.scale} if f.kind == "numeric" else {})
            | (bounds.get(f.name, {}) if privacy is not None else {})
            for f in schema.features
        ],
        "method": dict(method),
        "rounds": dict(rounds or {}),
        "privacy": None if privacy is None else dict(privacy),
        "limits": {"rows": len(encoded.y), **(limits or {})},
        "nodes": {
            node: {"address": told.get(node), "neighbours": list(graph[node])} for node in graph
        },
    }
    return _made(raw, "the charter")


def _made(raw: Mapping[str, Any], where: str) -> Charter:
    """A charter from plain values; says which key is wrong and why."""
    try:
        return Charter(**raw)
    except ValidationError as error:
        first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, PeerwiseError):
        cause.args = (f"{where}: {cause}",)
        raise cause
    if first["type"] == "missing":
        raise BadSetting(f"{where}: {key} is missing; add it")
    if first["type"] == "extra_forbidden":
        raise UnknownName(f"key in {where}:", key, _keys(first["loc"]))
    raise BadSetting(f"{where}: {key} = {first['input']!r}: {first['msg']}")


_SECTIONS: dict[str, type[BaseModel]] = {
    "features": FeatureTerms,
    "rounds": RoundTerms,
    "privacy": PrivacyTerms,
    "limits": LimitTerms,
    "nodes": NodeTerms,
}


def _keys(place: tuple[int | str, ...]) -> list[str]:
    """The keys that are known where an unknown one was found, with the path to them."""
    section = Charter if len(place) == 1 else _SECTIONS[str(place[0])]
    return [".".join(map(str, (*place[:-1], key))) for key in section.model_fields]


def _differs(key: str, mine: object, theirs: object) -> str | None:
    if mine == theirs:
        return None
    here, there = ("absent" if v is None else _shown(v) for v in (mine, theirs))
    return f"{key} is {here} here and {there} there"


def _shown(value: object) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def _fields(key: str, mine: BaseModel | None, theirs: BaseModel | None) -> str | None:
    """The first difference between two sections, either of which may be absent."""
    present = mine or theirs
    for field in type(present).model_fields if present else ():
        values = getattr(mine, field, None), getattr(theirs, field, None)
        if found := _differs(f"{key}.{field}", *values):
            return found
    return None


def _parts(kind: str, mine: Mapping[str, BaseModel], theirs: Mapping[str, BaseModel]) -> str | None:
    """The first difference between named sections: who is missing, their order, what they say."""
    for name in [*mine, *theirs]:
        if name not in mine or name not in theirs:
            return f"{kind} '{name}' is missing {'here' if name in theirs else 'there'}"
    for i, (a, b) in enumerate(zip_longest(mine, theirs)):
        if a != b:
            return f"{kind} {i} is '{a}' here and '{b}' there"
    for name in mine:
        if found := _fields(f"{kind}s.{name}", mine[name], theirs[name]):
            return found
    return None
