"""A charter from a sample of the data and a graph, to be read and agreed on.

Without a budget the sample says what columns mean. With one, nothing of its rows goes into the
charter: what is public about columns is typed in, or found with noise that is paid for.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd

from peerwise import data
from peerwise.data.kinds import WORDS
from peerwise.errors import BadSetting, UnknownName
from peerwise.learner.world import is_plain
from peerwise.peer import described
from peerwise.peer.charter import Charter, checked


class Known(NamedTuple):
    """What is public about columns: bounds of numbers, categories, and classes."""

    bounds: Mapping[str, tuple[float, float]] = {}
    categories: Mapping[str, Sequence[str]] = {}
    classes: Sequence[str] = ()


def draft(
    table: data.Table,
    graph: nx.Graph,
    description: Mapping[str, Any],
    *,
    name: str,
    addresses: Mapping[str, str] | None = None,
    units: str = "given",
    typing: str | Mapping[str, str] = "distinct",
    columns: Mapping[str, str] | None = None,
    words: Collection[str] = WORDS,
    missing: bool | None = None,
    pace: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    budget: Mapping[str, Any] | None = None,
    known: Known | None = None,
    public: bool = False,
) -> Charter:
    """A charter for data like a sample, between the nodes of a graph of names.

    `description`: sections of a run file (method, model or net, privacy, run); code that it names
    is imported. What the columns mean is learnt from the sample, center and scale too unless the
    nodes agree on them or the model is about plain numbers: nodes without secrets should make the
    sample. `typing`, `columns` and `words` are as in `data.encode`. Cells may be empty if a number
    of the sample is missing, or as `missing` says. limits.rows is the number of rows of the
    sample unless given.

    With a privacy budget nothing but the names of columns is taken from the sample: bounds,
    categories and classes are `known`. Where the sample is `public`, and only there, it gives them,
    with center and scale.
    """
    if budget is not None and not public:
        return _drafted(
            table, graph, description, known or Known(), name=name, addresses=addresses,
            units=units, columns=columns, words=words, missing=missing, pace=pace, limits=limits,
            budget=budget,
        )  # fmt: skip
    encoded = data.encode(table, typing=typing, columns=columns, words=words)
    schema = encoded.schema
    description = described.as_written(description)
    described.check_moved(description)
    if units == "given" and not is_plain(described.cell_of(description)):
        _, schema = data.standardise(encoded.x, schema)
    bounds: dict[str, dict[str, Any]] = {
        f.name: {"low": float(np.nanmin(column)), "high": float(np.nanmax(column))}
        for f, column in zip(schema.features, encoded.x.T, strict=True)
        if f.kind == "numeric"
    }
    raw = {
        "name": name,
        "target": schema.target,
        "classes": schema.classes,
        "missing": schema.missing if missing is None else missing,
        "missing_words": _words_among_numbers(table, schema, words),
        "units": units,
        "features": [
            {"name": f.name, "kind": f.kind, "categories": f.categories}
            | ({"center": f.center, "scale": f.scale} if f.kind == "numeric" else {})
            | (bounds.get(f.name, {}) if budget is not None else {})
            for f in schema.features
        ],
        **description,
        "pace": dict(pace or {}),
        "budget": None if budget is None else dict(budget),
        "limits": {"rows": len(encoded.y), **(limits or {})},
        "nodes": _nodes(graph, addresses or {}),
    }
    return checked(raw, "the charter", described.own_code(description))


def _nodes(graph: nx.Graph, addresses: Mapping[str, str]) -> dict[str, Any]:
    for node in addresses:
        if node not in graph:
            raise UnknownName("node with an address:", node, map(str, graph))
    return {
        node: {"address": addresses.get(node), "neighbours": list(graph[node])} for node in graph
    }


def _drafted(
    table: data.Table, graph: nx.Graph, description: Mapping[str, Any], known: Known, *,
    name: str, addresses: Mapping[str, str] | None, units: str, columns: Mapping[str, str] | None,
    words: Collection[str], missing: bool | None, pace: Mapping[str, Any] | None,
    limits: Mapping[str, Any] | None, budget: Mapping[str, Any],
) -> Charter:  # fmt: skip
    """A charter that holds nothing of the rows of its sample, only what is known of its columns."""
    description = described.as_written(description)
    described.check_moved(description)
    plain = is_plain(described.cell_of(description))
    names = [str(c) for c in table.frame] if isinstance(table.frame, pd.DataFrame) else []
    for column in (*known.bounds, *known.categories):
        if column not in names:
            raise UnknownName("column", column, names)
    if len(known.classes) < 2:
        raise BadSetting(
            f"with a privacy budget the classes of '{table.target}' must be public, because those "
            "of the sample would reveal its rows; give them with --classes A,B"
        )
    features: list[dict[str, Any]] = []
    for column in names:
        if (columns or {}).get(column) == "drop":
            continue
        one: dict[str, Any] = {"name": column, "kind": "numeric"}
        if column in known.categories:
            one |= {"kind": "categorical", "categories": list(known.categories[column])}
        elif column in known.bounds:
            low, high = (float(b) for b in known.bounds[column])
            one |= {"low": low, "high": high}
            if not plain and np.isfinite([low, high]).all() and low < high:
                one |= {"center": low + (high - low) / 2, "scale": (high - low) / 2}
        else:
            raise BadSetting(
                f"with a privacy budget the charter takes nothing about '{column}' from rows; give "
                f"its public bounds (--bound {column}=LOW:HIGH) or categories (--categories "
                f"{column}=A,B), or leave it out (--column {column}=drop)"
            )
        features.append(one)
    raw = {
        "name": name, "target": table.target, "classes": list(known.classes),
        "missing": bool(missing), "missing_words": list(words), "units": units,
        "features": features, **description, "pace": dict(pace or {}), "budget": dict(budget),
        "limits": dict(limits or {}), "nodes": _nodes(graph, addresses or {}),
    }  # fmt: skip
    return checked(raw, "the charter", described.own_code(description))


def _words_among_numbers(
    table: data.Table, schema: data.Schema, words: Collection[str]
) -> tuple[str, ...]:
    """The words that stand for missing numbers in a sample: nodes may write them, too."""
    if not isinstance(table.frame, pd.DataFrame):
        return ()
    plain = {f.name for f in schema.features if not f.categories}
    texts = table.frame[[c for c in table.frame if str(c) in plain]].select_dtypes(exclude="number")
    return tuple(word for word in words if (texts == word).any(axis=None))
