"""A description of a learner in sections, and the cells that a description with lists stands for.

Sections are `data`, `split`, `model` or `net`, `method`, `network`, `privacy` and `run`. Each has a
short form (`network = "ring"`), every option a default. A list where one value is expected is a
sweep: one cell for each value.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Gt, Lt

from peerwise.data.kinds import WORDS
from peerwise.declare import (
    Declared,
    Named,
    Option,
    Varies,
    canonical,
    declared,
    filled,
    find,
    section,
)
from peerwise.errors import BadSetting, UnknownName


class Data(NamedTuple):
    """Which rows there are and how they are read."""

    source: Annotated[str, "a name of `peerwise data list`, or a CSV or Parquet file"] = "digits"
    target: Annotated[str | None, "the column to predict, if source is a file"] = None
    typing: Annotated[
        Literal["distinct", "manifest"],
        "how to find categories: at most `distinct` values, or as the source declares",
    ] = "distinct"
    distinct: Annotated[int, Ge(1), "the most values that a category may have"] = 10
    columns: Annotated[
        dict[str, Literal["number", "category", "drop"]], "the kinds of single columns, by name"
    ] = {}  # noqa: RUF012 (never changed)
    missing: Annotated[Literal["category", "missing", "error"], "how to treat missing values"] = (
        "category"
    )
    missing_words: Annotated[tuple[str, ...], "words that mean missing"] = WORDS
    drop: Annotated[tuple[str, ...], "columns to leave out"] = ()
    public: Annotated[
        bool | None,
        "learn kinds, categories and classes from all rows; none: only for published sets",
    ] = None
    scale: Annotated[
        Literal["each", "all", "unit"],
        "scale numbers to mean 0, variance 1: each feature, or all alike; unit: from 0 to 1",
    ] = "each"


class Split(NamedTuple):
    """Who holds which rows."""

    partition: Annotated[str, Named("partition"), "who gets which rows"] = "iid"
    nodes: Annotated[int, Ge(1), "size of the network"] = 50
    rows: Annotated[
        Annotated[int, Ge(1)] | Literal["all"] | None,
        "mean rows per node; none: 50, or fewer to leave test rows",
    ] = None
    sizes: Annotated[str, Named("sizes"), "how many rows each node gets"] = "equal"
    shift: Annotated[str, Named("shift"), "how nodes see or label rows differently"] = "none"
    test: Annotated[Literal["drawn", "own"], "draw test rows, or use the set's own split"] = "drawn"
    test_rows: Annotated[int, Ge(1), "the most test rows"] = 10_000
    train_rows: Annotated[int | None, Ge(1), "the most rows that all nodes get together"] = None


class Network(NamedTuple):
    """Who hears whom, and which messages arrive."""

    topology: Annotated[str, Named("topology"), "the graph"] = "random_tree"
    channel: Annotated[str, Named("channel"), "which messages arrive, and when"] = "perfect"
    redraw: Annotated[int | None, Ge(1), "draw a new graph after this many rounds"] = None
    push: Annotated[bool, "a node sends to one random neighbour per round, not to all"] = False
    fixed: Annotated[bool, "all repetitions share one graph"] = False


class Privacy(NamedTuple):
    """What a node may spend on its releases."""

    epsilon: Annotated[float | None, Gt(0), "a node's budget; none or inf: no noise"] = None
    delta: Annotated[
        float | None, Gt(0), Lt(1), "delta of Gaussian noise; none: at most a tenth of 1 / rows"
    ] = None
    mechanism: Annotated[
        Literal["best", "laplace", "gaussian"], "noise of releases; best: of smaller variance"
    ] = "best"
    split: Annotated[
        Literal["even", "optimal"], "budget per question: equal shares, or least total variance"
    ] = "even"
    aware: Annotated[bool, "models account for the noise in their statistics"] = True
    sensitivity: Annotated[
        Literal["local", "bounded"], "for naive Bayes; local is the paper's and not private"
    ] = "bounded"
    bound: Annotated[float, Gt(0), "clip standardised numbers to +- this"] = 3.0
    person: Annotated[
        str | None, "the column that names a row's person: protect persons, not rows (peers)"
    ] = None
    person_rows: Annotated[int, Ge(1), "how many rows of one person count, the first in a file"] = 1


class Run(NamedTuple):
    """How long and how often a description runs, and what it records."""

    rounds: Annotated[int, Ge(0), "communication rounds"] = 64
    repetitions: Annotated[int, Ge(1), "independent splits, graphs and seeds"] = 5
    seed: Annotated[int, Ge(0), "seed of everything random"] = 0
    record: Annotated[
        Literal["last", "all"] | Annotated[int, Ge(1)],
        "rounds in which to measure nodes: last, all, or every n-th",
    ] = "last"
    early: Annotated[bool, "also measure in ten of the first 28 rounds"] = False
    stages: Annotated[
        tuple[Literal["combine", "adapt"], ...], "measure after combining, adapting, or both"
    ] = ("adapt",)
    metrics: Annotated[tuple[Any, ...], Named("metric"), "what to record besides the errors"] = ()
    by: Annotated[tuple[str, ...], "columns: also measure each of their values separately"] = ()
    precision: Annotated[Literal["float32", "float64"], "precision of the arithmetic"] = "float32"


NAMED = {"model": "naive_bayes", "net": "mlp_64", "method": "crc"}  # sections of one named thing
SECTIONS: dict[str, dict[str, Option]] = {
    group.__name__.lower(): section(group) for group in (Data, Split, Network, Privacy, Run)
}
_ORDER = ("data", "split", "model", "net", "method", "network", "privacy", "run")

# keys of 0.6 that have another name now
_RENAMED = {
    "arrival": '[network] channel = "erasure" with q',
    "channel_options": "[network]",
    "topology_options": "[network]",
    "partition_options": "[split]",
    "shift_options": "[split]",
    "model_options": "[model]",
    "method_options": "[method]",
    "net_init": "[net] init",
    "weigh": "[method] rule",
    "include_self": "[method] include_self, an option of the rule equal",
    "common_start": '[method] start = "common"',
    "alpha": "[split] alpha, an option of the dirichlet partitions",
}


@dataclass(frozen=True)
class Cell:
    """One description with every default, without the keys that its method does not use.

    Equal cells are equal runs. `raw` is what it was made from, `varied` where it stands in a sweep.
    """

    sections: dict[str, Any]
    raw: dict[str, Any]
    varied: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, section: str) -> Any:
        return self.sections[section]

    def __contains__(self, section: str) -> bool:
        return section in self.sections

    @property
    def method(self) -> Declared:
        """The declaration of its method."""
        return find("method", self["method"]["name"])

    @property
    def label(self) -> str:
        """The method's label in a comparison."""
        return dict(self.varied).get("method") or str(self["method"]["name"])

    @property
    def key(self) -> str:
        """A name that changes when anything about the description does."""
        text = json.dumps(self.sections, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def changed(self, **sections: Any) -> "Cell":
        """A copy with other values in some sections: a name, or a table of changes."""
        raw = dict(self.raw)
        for name, value in sections.items():
            old = raw.get(name, {})
            merge = isinstance(value, Mapping) and "name" not in value
            raw[name] = {**_table(name, old), **value} if merge else value
        return cell(raw)

    def reference(self) -> "Cell":
        """The cell of the pooled reference: the same rows in one place, with shared options."""
        learns = self.method.learns if self.method.learns == "net" else "model"
        central = next(
            d for d in declared("method").values() if d.traits.reference and d.learns == learns
        )
        kept = {k: v for k, v in self["method"].items() if k in central.options}
        run = {**_table("run", self.raw.get("run", {})), "metrics": (), "by": ()}
        raw = {**self.raw, "method": {**kept, "name": central.name}, "run": run}
        return cell(raw)


def _table(name: str, given: Any) -> dict[str, Any]:
    """A section as a table, also where it was written in its short form."""
    if isinstance(given, Mapping):
        return dict(given)
    return {"name" if name in NAMED else next(iter(SECTIONS[name])): given}


def _filled(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    if name in NAMED:
        given = raw.get(name, NAMED[name])
        if isinstance(given, Mapping):
            given = {k: v for k, v in given.items() if k != "label"}
        full = canonical(name, given, (name,))
        if not isinstance(full, dict):
            raise BadSetting(f"[{name}] must be a name or a table, got {given!r}")
        return full
    given = raw.get(name, {})
    if isinstance(given, list):
        raise Varies((name,), given)
    return filled(SECTIONS[name], _table(name, given), name)


def cell(raw: Mapping[str, Any], varied: tuple[tuple[str, str], ...] = ()) -> Cell:
    """The cell of a description without lists."""
    for key in raw:
        if key not in _ORDER:
            raise _misplaced(key)
    full = {name: _filled(name, raw) for name in _ORDER}
    known = find("method", full["method"]["name"])
    for name in _unread(known):
        full.pop(name)
    if known.traits.place == "server":
        full["network"] |= {"topology": None, "redraw": None, "push": False, "fixed": False}
    if full["run"]["rounds"] >= 2**31:  # rounds are counted in 32 bits
        raise BadSetting(f"[run] rounds must be below 2147483648, got {full['run']['rounds']}")
    if known.traits.rounds is not None:
        full["run"] |= {"rounds": known.traits.rounds}
        full["run"] |= {"record": "last"} if known.traits.rounds < 2 else {}
    if "rounds" in known.facts and not full["run"]["rounds"]:
        raise BadSetting(f"[run] rounds must be 1 or more for {known.name}, got 0")
    return Cell(full, dict(raw), varied)


def _unread(known: Declared) -> set[str]:
    """The sections that a method does not read."""
    names = {"model", "net"} - set(known.facts)
    if "draw" in known.facts:
        names -= {"model"}
    if not {"draw", "budget"} & set(known.facts):
        names.add("privacy")
    if known.traits.place in ("pooled", "alone"):
        names.add("network")
    return names


def _misplaced(key: str) -> Exception:
    """The error for a key that is no section; a flat key of 0.6 is told where it lives now."""
    if key in _RENAMED:
        return BadSetting(f"'{key}' is no section; it is {_RENAMED[key]} now")
    for name, options in SECTIONS.items():
        if key in options:
            return BadSetting(
                f"'{key}' is no section; it stands in [{name}] now: write {name} = {{{key} = ...}}"
            )
    for kind in ("method", "net", "model"):
        owners = [n for n, d in declared(kind).items() if key in d.options]
        if owners:
            return BadSetting(
                f"'{key}' is no section; it is an option of {owners[0]}: write it in [{kind}]"
            )
    return UnknownName("section", key, _ORDER)


def expand(raw: Mapping[str, Any]) -> list[Cell]:
    """Every cell of a description, lists taken value by value.

    Equal cells come once: a method that does not read what varies has one cell for all its values.
    """
    alike: dict[str, list[Cell]] = {}
    for one in _expanded(dict(raw), ()):
        alike.setdefault(one.key, []).append(one)
    cells = [replace(group[0], varied=_shared(group)) for group in alike.values()]
    _check_read(raw, cells)
    return cells


def _shared(cells: list[Cell]) -> tuple[tuple[str, str], ...]:
    """What of the varied things cells have in common."""
    return tuple(v for v in cells[0].varied if all(v in c.varied for c in cells))


def _expanded(raw: dict[str, Any], varied: tuple[tuple[str, str], ...]) -> Iterator[Cell]:
    try:
        yield cell(raw, varied)
        return
    except Varies as found:
        path, values = found.path, found.values
    if not values:
        raise BadSetting(f"{'.'.join(path)} is an empty list; give at least one value")
    labels = _labels(path, values)
    name = ".".join(p for p in path if p != "name")
    for label, value in zip(labels, values, strict=True):
        yield from _expanded(_put(raw, path, value), (*varied, (name, label)))


def _labels(path: tuple[str, ...], values: list[Any]) -> list[str]:
    """What the values of a sweep are called: their names, made different where they are alike."""
    labels = [
        str(v.get("label") or v.get("name", v)) if isinstance(v, Mapping) else str(v)
        for v in values
    ]
    twice = {label for label in labels if labels.count(label) > 1}
    for i, value in enumerate(values):
        if isinstance(value, Mapping) and labels[i] in twice and "label" not in value:
            rest = ", ".join(f"{k} = {v}" for k, v in value.items() if k != "name")
            labels[i] += f" ({rest})" if rest else ""
    if len(set(labels)) < len(labels):
        raise BadSetting(f"two values of {'.'.join(path)} have the same name: give each a label")
    return labels


def _put(raw: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The description with a value at a path, also where it was written flat or in short form."""
    head, *rest = path
    if not rest:
        return {**raw, head: value}
    below = raw.get(head)
    if isinstance(below, Mapping):
        return {**raw, head: _put(dict(below), tuple(rest), value)}
    if rest == ["name"] or (head in SECTIONS and rest[0] == next(iter(SECTIONS[head]))):
        return {**raw, head: value}
    if head in raw:  # a short form above a nested option that was written flat beside it
        return {**raw, rest[-1]: value}
    return _put(raw, tuple(rest), value)


def _check_read(raw: Mapping[str, Any], cells: list[Cell]) -> None:
    """Refuse a section that none of the methods reads."""
    methods = ", ".join(dict.fromkeys(c.method.name for c in cells))
    for name in raw:
        if any(name in c for c in cells):
            continue
        others = [n for n, d in declared("method").items() if name not in _unread(d)]
        raise BadSetting(
            f"[{name}] is not used by {methods}: remove it, or choose a method that uses it, such "
            f"as {', '.join(others[:3])}"
        )
    given = _table("network", raw.get("network", {}))
    if "topology" in given and all(
        c.method.traits.place == "server" for c in cells if "network" in c
    ):
        raise BadSetting(
            f"[network] topology is not used by {methods}, which use a server: remove it"
        )
