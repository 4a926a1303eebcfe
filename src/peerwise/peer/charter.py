"""The charter: one file that says what a federation learns, how, between whom, within which limits.

Every node has a copy. Its hash goes with the first message, so that nodes with different charters
do not learn together, and `difference` says in words where they part.
"""

import hashlib
import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import networkx as nx
import numpy as np
import tomli_w
from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)  # fmt: skip

from peerwise import data, topology
from peerwise.declare import Varies
from peerwise.errors import BadFile, BadSetting, PeerwiseError, UnknownName
from peerwise.files import write_whole
from peerwise.learner import Cell, World
from peerwise.peer import described, terms
from peerwise.peer.described import DESCRIPTION
from peerwise.peer.own_rows import apart_by_content, not_as_agreed, own_rows, rows_within
from peerwise.peer.terms import BudgetTerms, FeatureTerms, LimitTerms, NodeTerms, PaceTerms, Terms


class Charter(Terms):
    """What the nodes of a federation agree on; made by `load`, `parse` or `drafting.draft`."""

    name: str = Field(min_length=1)
    edition: Annotated[int, Field(strict=True)] = Field(
        0,
        ge=0,
        le=10**6,
        description="how often it was amended, in what sites may change while it runs",
        json_schema_extra=terms.AMENDABLE,
    )
    target: str = Field(min_length=1, description="the column to predict")
    classes: tuple[str, ...] = Field(min_length=2, max_length=terms.MOST_NODES)
    missing: Annotated[bool, Field(strict=True)] = Field(
        False, description="whether cells may be empty"
    )
    missing_words: tuple[str, ...] = Field((), description="what else means that a cell is empty")
    units: Literal["given", "agree"] = Field(
        "given", description="center and scale as given, or found by exact sums between neighbours"
    )
    features: tuple[FeatureTerms, ...] = Field(min_length=1, max_length=100_000)
    method: Any = Field(
        description="as in a run file, and so the next four: what is learnt and how"
    )
    model: Any = None
    net: Any = None
    privacy: Any = None
    run: Any = None
    pace: PaceTerms = PaceTerms.model_validate({})
    budget: BudgetTerms | None = None
    limits: LimitTerms = LimitTerms.model_validate({})
    nodes: dict[str, NodeTerms]

    _cell: Cell | None = PrivateAttr(None)  # None: it names code that is not allowed here
    _tables: dict[str, dict[str, Any]] = PrivateAttr(default_factory=dict)

    @field_validator("nodes")
    @classmethod
    def _network(cls, nodes: dict[str, NodeTerms]) -> dict[str, NodeTerms]:
        terms.check_nodes(nodes)
        return terms.ordered(nodes)

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> Self:
        terms.distinct(self.classes, "the class")
        terms.distinct([f.name for f in self.features], "the feature")
        if self.target in {f.name for f in self.features}:
            raise BadSetting(
                f"the target '{self.target}' is also listed as a feature, so that the model would "
                "be given the answer; remove that feature"
            )
        description = self.description
        if set(self.own_code) <= set((info.context or {}).get("allowed", ())):
            described.run_of(description.get("run", {}))
            self._cell = described.cell_of(description)
            described.check_cell(self._cell, self.schema(), self.units, self.limits, self.budget)
        if self.budget is not None:
            for feature in self.features:
                if feature.kind == "numeric":
                    feature.bounds()
        if self._cell is not None:
            described.check_sealed(
                self._cell, self.world(), self.pace.mode, self.topology(), self.rounds
            )
        self._tables = described.tables_of(description, self._cell)
        return self

    @classmethod
    def load(cls, path: str | Path, allowed: Collection[str] = ()) -> "Charter":
        """The charter in a file; the error names the file and the line or key that is wrong.

        `allowed`: the `module:function` that may be imported, if the charter names them.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"cannot read the charter {path}: {error}") from None
        return cls.parse(text, str(path), allowed)

    @classmethod
    def parse(
        cls, text: str, where: str = "the charter", allowed: Collection[str] = ()
    ) -> "Charter":
        """The charter that a TOML text is; see `load`."""
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadFile(f"{where} is not TOML: {error}") from None
        return checked(raw, where, allowed)

    def text(self) -> str:
        """The charter as TOML, from which `parse` makes an equal one."""
        raw = self.model_dump(mode="json", exclude_none=True, exclude=set(DESCRIPTION))
        raw["features"] = [f.model_dump(mode="json", exclude_defaults=True) for f in self.features]
        return tomli_w.dumps(raw | self.description)  # as it is: JSON has no infinity

    def save(self, path: str | Path) -> None:
        """Write the text to a file, whole or not at all."""
        write_whole(path, self.text().encode())

    @property
    def hash(self) -> str:
        """sha256 of what the charter says, whatever the order of its keys.

        It is without what may be amended (addresses, deadlines: `Terms.amendable`). Defaults count
        as if they were written: versions with others must not learn together. The
        order of the nodes, features and classes counts: nodes go by their number.
        """
        text = json.dumps(self.values(fixed=True), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def values(self, fixed: bool = False) -> dict[str, Any]:
        """All that the charter says, by dotted key, with every default.

        `fixed`: only what stays as it is for as long as a federation runs.
        """
        raw = self.model_dump(mode="json", exclude=set(DESCRIPTION))
        if fixed:
            _drop_amendable(raw)
        whole = {key: raw.pop(key) for key in ("classes", "features", "missing_words")}
        nodes = list(raw.pop("nodes").items())
        return {**described.flat("", raw | self._tables), **whole, "nodes": nodes}

    def difference(self, other: "Charter") -> str | None:
        """The first difference in words, None when both say the same.

        What stays for as long as a federation runs comes first.
        """
        return next(chain(self._differences(other, False), self._differences(other, True)), None)

    def amendments(self, other: "Charter") -> list[str]:
        """What another edition of the same charter says otherwise; refused where it is no such."""
        if self.hash != other.hash:
            words = next(self._differences(other, False), "they are written differently")
            raise BadSetting(
                f"that is another charter, not an edition of this one: {words}. While a federation "
                "runs, its charter changes only in what `peerwise network amend` can change. For "
                "any other change, all sites start a new charter together, each with a new --state"
            )
        return list(self._differences(other, True))

    def _differences(self, other: "Charter", amendable: bool) -> Iterator[str]:
        """The differences in what may be amended, or in the rest."""
        if amendable and (words := _differs("edition", self.edition, other.edition)):
            yield words
        if not amendable:
            yield from self._terms_differ(other)
        for key in ("pace", "budget", "limits"):
            yield from _fields(key, getattr(self, key), getattr(other, key), amendable)
        yield from _parts("node", self.nodes, other.nodes, amendable)

    def _terms_differ(self, other: "Charter") -> Iterator[str]:
        """The differences in what is learnt from what."""
        for key in ("name", "target", "classes", "missing", "units"):
            if words := _differs(key, getattr(self, key), getattr(other, key)):
                yield words
        here, there = ({f.name: f for f in c.features} for c in (self, other))
        yield from _parts("feature", here, there, False)
        ours, theirs = (described.flat("", c._tables) for c in (self, other))
        for key in {**ours, **theirs}:
            if words := _differs(key, ours.get(key), theirs.get(key)):
                yield words

    @property
    def description(self) -> dict[str, Any]:
        """The sections that a run file has too, as they are written."""
        return {key: v for key in DESCRIPTION if (v := getattr(self, key)) is not None}

    @property
    def own_code(self) -> tuple[str, ...]:
        """The `module:function` of its author that the charter names."""
        return described.own_code(self.description)

    @property
    def cell(self) -> Cell:
        """The description with every default; refused where it names code that is not allowed."""
        if self._cell is None:
            options = " ".join(f"--allow {name}" for name in self.own_code)
            raise BadSetting(
                f"the charter would run code of its author here: {', '.join(self.own_code)}. Read "
                f"that code; to let it run at this site, give {options}"
            )
        return self._cell

    @property
    def method_name(self) -> str:
        """What its method is called."""
        return str(self._tables["method"]["name"])

    @property
    def rounds(self) -> int:
        """How many rounds of learning there are."""
        return int((self._tables if self._cell is None else self._cell)["run"]["rounds"])

    @property
    def seed(self) -> int:
        """What everything random follows from, but for noise that hides."""
        return int(self._tables["run"]["seed"])

    @property
    def precision(self) -> str:
        """Of the arithmetic: float32 or float64."""
        return str(self._tables["run"]["precision"])

    def schema(self) -> data.Schema:  # type: ignore[override]
        """What the columns mean; with units = "agree" before center and scale are found."""
        features = tuple(
            data.Feature(f.name, f.kind, f.categories, f.center, f.scale) for f in self.features
        )
        return data.Schema(features, self.classes, self.target, self.missing)

    def world(self) -> World:
        """What is known of the network without any rows, in the charter's units."""
        about = self.features, len(self.nodes), self.limits, self.budget
        return described.world_of(self.cell, self.schema(), *about)

    def graph(self) -> nx.Graph:
        """Who talks to whom, by name."""
        return terms.graph_of(self.nodes)

    def topology(self) -> topology.Topology:
        """The same as arrays: node i is the i-th name."""
        numbered = nx.relabel_nodes(self.graph(), {name: i for i, name in enumerate(self.names)})
        return topology.from_graph(numbered)

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
        wide = exact or self.precision == "float64"
        dtype: type[np.floating] = np.float64 if wide else np.float32
        if self.budget is not None:
            return rows_within(table, self.schema(), self.features, dtype, *self._within())
        return own_rows(table, self.schema(), self.features, self.limits, dtype, self.missing_words)

    def apart(self, table: data.Table, share: float) -> np.ndarray:
        """Which of a node's rows [m] are held out: evenly spaced ones, if no budget is to hold."""
        if self.budget is not None and share:
            return apart_by_content(table, self.schema(), share, *self._within())
        i = np.arange(len(table.labels))
        return np.floor((i + 1) * share) > np.floor(i * share)

    def odd_rows(self, table: data.Table) -> list[str]:
        """What of a node's rows is not as agreed and is taken all the same, in sentences."""
        lines, rows = [], len(table.labels)
        if self.limits.rows is not None and rows > self.limits.rows:
            lines.append(
                f"this node alone has {rows} rows, and limits.rows says {self.limits.rows} for the "
                "whole network, from which methods take the size of their steps"
            )
        if self.budget is not None:  # otherwise they are refused
            if not rows:
                lines.append("the file holds no rows: what this node sends is noise alone")
            delta = 0.0 if self.own_code else self.noise_spent()[1]
            if rows and delta > 1 / (10 * rows):
                lines.append(
                    f"delta {delta:g} is more than a tenth of 1 / {rows}, the rows of this node: "
                    "noise may let single rows through as they are; agree on a smaller one"
                )
            lines += not_as_agreed(table, self.schema(), self.features, *self._within())
        return lines

    def noise_spent(self) -> tuple[str, float]:
        """The kind of noise under a budget, "laplace" or "gaussian", and the delta it costs."""
        assert self.budget is not None
        about = self.schema(), self.features, self.limits, self.budget
        return described.noise_spent(self.cell, *about)

    def _within(self) -> tuple[Collection[str], tuple[str, int] | None]:
        """By what rows are read under a budget: words for missing, and who a person is."""
        privacy = self.cell["privacy"]
        person = (privacy["person"], privacy["person_rows"]) if privacy["person"] else None
        return self.missing_words, person


def checked(raw: Mapping[str, Any], where: str, allowed: Collection[str]) -> Charter:
    """A charter from plain values; says which key is wrong and why."""
    try:
        described.check_moved(raw)
        context = {"allowed": allowed}
        return Charter.model_validate(described.as_written(raw), context=context)
    except Varies as varied:
        raise BadSetting(f"{where}: {described.one_value(varied)}") from None
    except PeerwiseError as error:
        error.args = (f"{where}: {error}",)
        raise
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
    "pace": PaceTerms,
    "budget": BudgetTerms,
    "limits": LimitTerms,
    "nodes": NodeTerms,
}


def _keys(place: tuple[int | str, ...]) -> list[str]:
    """The keys that are known where an unknown one stands, with the path to them."""
    section = Charter if len(place) == 1 else _SECTIONS[str(place[0])]
    return [".".join(map(str, (*place[:-1], key))) for key in section.model_fields]


def _differs(key: str, ours: object, theirs: object) -> str | None:
    if ours == theirs:
        return None
    shown = (list(v) if isinstance(v, tuple) else v for v in (ours, theirs))
    here, there = ("absent" if v is None else repr(v) for v in shown)
    return f"{key} is {here} here and {there} there"


def _fields(key: str, ours: Terms | None, theirs: Terms | None, amendable: bool) -> Iterator[str]:
    """The differences between two sections, either of which may be absent."""
    present = ours or theirs
    for field in type(present).model_fields if present else ():
        values = getattr(ours, field, None), getattr(theirs, field, None)
        is_own = present is not None and field in present.amendable()
        if is_own == amendable and (words := _differs(f"{key}.{field}", *values)):
            yield words


def _parts(
    kind: str, ours: Mapping[str, Terms], theirs: Mapping[str, Terms], amendable: bool
) -> Iterator[str]:
    """The differences between named sections: who is missing, their order, what they say."""
    if not amendable:
        for name in [*ours, *theirs]:
            if name not in ours or name not in theirs:
                yield f"{kind} '{name}' is missing {'here' if name in theirs else 'there'}"
        for i, (a, b) in enumerate(zip_longest(ours, theirs)):
            if a != b:
                yield f"{kind} {i} is '{a}' here and '{b}' there"
    for name in ours:
        if name in theirs:
            yield from _fields(f"{kind}s.{name}", ours[name], theirs[name], amendable)


def _drop_amendable(raw: dict[str, Any]) -> None:
    """Leave out, of what a charter says, what may be amended."""
    tables: list[tuple[dict[str, Any], type[Terms]]]
    tables = [(raw, Charter), (raw["pace"], PaceTerms), (raw["limits"], LimitTerms)]
    tables += [(node, NodeTerms) for node in raw["nodes"].values()]
    for table, kind in tables:
        for key in kind.amendable():
            del table[key]
