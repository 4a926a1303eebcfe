"""Who holds which rows: drawn for a simulation, given to an estimator, or a peer's own."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise import data
from peerwise.chunks import Chunks, joined, lengths
from peerwise.data.scaling import rescaled
from peerwise.declare import build, find
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.learner.sections import Cell
from peerwise.methods.baselines import one_hot

ROWS = 50  # rows of a node by default


class World(NamedTuple):
    """The rows of one repetition, and the facts about its network."""

    x: np.ndarray  # [m, d] training rows, encoded and standardised
    y: np.ndarray
    owned: Sequence[np.ndarray]  # the rows of x of each node
    schema: data.Schema
    nodes: int
    rows: int | None  # rows in the whole network; None if unknown
    seed: int = 0  # the seed of the graph
    x_test: np.ndarray | None = None
    y_test: np.ndarray | None = None
    shape: tuple[int, ...] | None = None  # the shape of a row; for images (height, width, ...)
    links: Any = None  # the topology; None: draw it
    sums: Any = None  # the sums of the first phase; None before it
    draw: Any = None  # the noised release of this node, if it was drawn before
    bounds: Any = None  # public (low, high) of the numeric features; None if there are none
    budget: Any = None  # what a node spends; None if that is not decided
    settled: bool = False  # whether the sealed sums before learning are done
    unseen: tuple[data.Unknown, ...] = ()  # categories that no training row has
    groups: dict[str, np.ndarray] = {}  # column -> its texts in the test rows  # noqa: RUF012


def is_plain(cell: Cell) -> bool:
    """Whether the model uses numbers as they are, without standardising them."""
    return "model" in cell and find("model", cell["model"]["name"]).traits.plain


def finds_units(cell: Cell) -> bool:
    """Whether nodes compute center and scale by a sealed sum, so that only bounds are public."""
    return bool(cell["method"].get("units") == "sealed")


def _version(source: str) -> tuple[Any, ...]:
    """What changes when a name means other rows: the folder of data sets, or the file itself."""
    folder = os.environ.get("PEERWISE_DATA")
    file = Path(source).absolute()
    return folder, (file, file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else None


@lru_cache(maxsize=4)
def _raw(version: Any, source: str, target: str | None) -> data.Raw:
    return data.Raw(data.load(source, target=target))


def reading(cell: Cell) -> dict[str, Any]:
    """How the cell's rows are read, as arguments of `data.encode`."""
    d = cell["data"]
    same = {name: d[name] for name in ("typing", "missing", "distinct", "columns")}
    return {**same, "drop": d["drop"], "words": d["missing_words"]}


def raw_rows(cell: Cell) -> data.Raw:
    """The rows of the cell's source, not yet encoded."""
    source, target = cell["data"]["source"], cell["data"]["target"]
    return _raw(_version(source), source, target)


def is_public(cell: Cell, table: data.Table) -> bool:
    """Whether kinds, categories and classes are known beforehand, as those of all rows."""
    public = cell["data"]["public"]
    if public is None:  # an array has no categories, and keeps all its pixels
        return table.public or not isinstance(table.frame, pd.DataFrame)
    return bool(public)


@lru_cache(maxsize=4)
def _encoded(raw: data.Raw, how: str, whole: bool) -> data.Encoded:
    """All rows under the schema of all; `whole` images keep constant pixels."""
    encoded = data.encode(raw, **json.loads(how))
    shape = np.shape(raw.table.frame)[1:]
    if whole and encoded.dropped and len(shape) > 1:
        pixels = tuple(data.Feature(f"f{j}", "numeric") for j in range(math.prod(shape)))
        schema = replace(encoded.schema, features=pixels)
        encoded = data.encode(raw, missing=json.loads(how)["missing"], schema=schema)
    return encoded


def described(cell: Cell) -> data.Reading:
    """How the columns of the cell's source are read, all rows taken together."""
    raw = raw_rows(cell)
    encoded = _learnt(cell, raw, None)
    return data.describe(raw, encoded, words=cell["data"]["missing_words"])


def _learnt(cell: Cell, raw: data.Raw, rows: np.ndarray | None) -> data.Encoded:
    """All rows under the schema that `rows` alone teach, or that is public."""
    how = reading(cell)
    if is_public(cell, raw.table):
        return _encoded(raw, json.dumps(how), cell["data"]["scale"] != "each")
    return data.encode(raw, rows=rows, **how)


def drawn(cell: Cell, repetition: int) -> World:
    """The rows of one repetition: test rows first, then the network's rows among the others.

    The test rows of cells that differ only in size are nested, and methods and topologies are
    compared on the very same rows. A shift changes the training rows of nodes and never the test
    rows, before the rows are standardised: the units that a network agrees on are those of the rows
    that its nodes hold. It moves numbers by parts of their standard deviation, so that the units
    before do not matter.

    Unless they are public, kinds, categories and classes are those of the nodes' rows as well.
    """
    s, seed = cell["split"], cell["run"]["seed"]
    raw = raw_rows(cell)
    pool, test, wanted = _test_rows(cell, raw.table, repetition)
    encoded = _learnt(cell, raw, pool)
    rng = np.random.default_rng([seed, repetition, 1])
    least = min(2, wanted // s["nodes"])
    facts: dict[str, Any] = {"rng": rng, "nodes": s["nodes"], "rows": wanted, "minimum": least}
    facts["sizes"] = build("sizes", s["sizes"], facts)
    facts |= {"x": encoded.x[pool], "y": encoded.y[pool]}
    dealt = _checked_deal(build("partition", s["partition"], facts), cell, len(pool))
    train = pool[joined(dealt)]
    if len(train) < len(pool):
        encoded = _learnt(cell, raw, train)
    kept = np.concatenate([train, test])
    x, y, schema = encoded.x[kept], encoded.y[kept], encoded.schema
    m = len(train)
    owned = Chunks(np.arange(m), lengths(dealt))
    x[:m], y[:m] = _shifted(cell, repetition, x[:m], y[:m], owned, schema)
    x, schema = _with_unseen(cell, x, schema, m)
    x, schema = _varying(cell, *_scaled(cell, x, schema, m), m)
    x = (
        x.astype(cell["run"]["precision"], copy=False)
        if cell["run"]["precision"] == "float32"
        else x
    )
    graph = int(np.random.SeedSequence([seed, repetition, 2]).generate_state(1)[0])
    shape = np.shape(raw.table.frame)[1:]
    world = World(
        x[:m], y[:m], owned, schema, s["nodes"], wanted, graph, x[m:], y[m:], shape,
        unseen=encoded.unknown, groups=_groups(cell, raw.table, test),
        bounds=_ones(schema) if finds_units(cell) else None,
    )  # fmt: skip
    return as_read(cell, world)


MOST_GROUPS = 20  # values of a column that are measured apart


def _groups(cell: Cell, table: data.Table, test: np.ndarray) -> dict[str, np.ndarray]:
    """What the test rows have in the columns by which they are measured apart."""
    groups = {}
    for name in cell["run"]["by"]:
        known = [str(c) for c in getattr(table.frame, "columns", ())]
        if not known:
            raise BadSetting(
                f"[run] by: {cell['data']['source']} is an array, whose columns have no names to "
                f"measure by; remove '{name}'"
            )
        if name not in known:
            raise UnknownName("column in [run] by:", name, known)
        texts = np.array(["missing" if pd.isna(v) else str(v) for v in table.frame[name]])
        if (many := len(np.unique(texts))) > MOST_GROUPS:
            raise BadSetting(
                f"[run] by: '{name}' has {many} values; name columns of at most {MOST_GROUPS}"
            )
        groups[name] = texts[test]
    return groups


def _with_unseen(
    cell: Cell, x: np.ndarray, schema: data.Schema, m: int
) -> tuple[np.ndarray, data.Schema]:
    """Test rows with what no training row has in a form that models can read.

    A category of its own adds nothing to a prediction as NaN. A name that is used as a number is
    given the mean of the training rows, which is as little as can be said of it.
    """
    if schema.missing or not np.isnan(x[m:]).any():
        return x, schema
    if is_plain(cell):  # its categories are numbers
        return x, replace(schema, missing=True)
    for j, f in enumerate(schema.features):
        if f.kind == "numeric":
            x[m:, j] = np.where(np.isnan(x[m:, j]), x[:m, j].mean(), x[m:, j])
    return x, schema


def _test_rows(cell: Cell, table: data.Table, repetition: int) -> tuple[Any, Any, int]:
    """Which rows can be dealt, which are for testing, and how many the nodes have together."""
    s, source = cell["split"], cell["data"]["source"]
    rng = np.random.default_rng([cell["run"]["seed"], repetition, 0])
    total = len(table.labels)
    if s["test"] == "own":
        if table.split is None:
            raise BadSetting(f'{source} has no test rows of its own; take [split] test = "drawn"')
        parts = (rng.permutation(np.flatnonzero(table.split == p)) for p in ("train", "test"))
        pool, test = next(parts), next(parts)[: s["test_rows"]]
        wanted = _rows_each(cell, len(pool), len(pool)) * s["nodes"]
    else:
        wanted = _rows_each(cell, total - 1, total * 7 // 10) * s["nodes"]
        order = rng.permutation(total)
        test = order[max(wanted, total - s["test_rows"]) :]
        pool = order[: total - len(test)]
    pool = pool[: s["train_rows"]]
    if len(pool) < max(wanted, s["nodes"]) or not len(test):
        rows = f"nodes of {wanted // s['nodes']} rows" if wanted else "nodes"
        raise BadData(
            f"{source} has {total} rows: too few for {s['nodes']} {rows} and a test set; ask for "
            "fewer nodes, rows or test rows"
        )
    return pool, test, wanted or len(pool)


def _rows_each(cell: Cell, most: int, usual: int) -> int:
    """Rows a node; 0 for all there are. By default 50, or its share of the `usual` number."""
    s = cell["split"]
    if s["rows"] is not None:
        return 0 if s["rows"] == "all" else int(s["rows"])
    if s["train_rows"] is not None:
        most, usual = min(most, s["train_rows"]), min(usual, s["train_rows"])
    return ROWS if s["nodes"] * ROWS <= most else max(usual // s["nodes"], 1)


def _checked_deal(dealt: Any, cell: Cell, total: int) -> Sequence[np.ndarray]:
    """What a partition gave, if it is rows of the table for every node and none twice."""
    name, nodes = cell["split"]["partition"]["name"], cell["split"]["nodes"]
    try:
        rows = dealt
        if not isinstance(dealt, Chunks):
            rows = [np.asarray(r).astype(np.int64, casting="same_kind") for r in dealt]
        every = joined(rows)
    except (TypeError, ValueError) as error:
        raise BadSetting(
            f"partition '{name}' must return a list of row numbers for each node: {error}"
        ) from None
    if len(rows) != nodes:
        raise BadSetting(
            f"partition '{name}' dealt rows to {len(rows)} nodes, and there are {nodes}"
        )
    if every.size and (every.min() < 0 or every.max() >= total or _twice(every, total)):
        raise BadSetting(
            f"partition '{name}' must deal rows 0 to {total - 1}, each to one node at most"
        )
    return rows


def _twice(rows: np.ndarray, total: int) -> bool:
    """Whether a row below `total` is there more than once."""
    seen = np.zeros(total, bool)
    seen[rows] = True
    return bool(np.count_nonzero(seen) < rows.size)


def _shifted(
    cell: Cell, repetition: int, x: Any, y: Any, owned: Sequence[np.ndarray], schema: data.Schema
) -> tuple[np.ndarray, np.ndarray]:
    """The training rows as the nodes see and label them."""
    # draws of its own: the same rows go to the same nodes, shifted or not
    rng = np.random.default_rng([cell["run"]["seed"], repetition, 4])
    facts = {"rng": rng, "x": x, "y": y, "owned": owned, "cardinalities": schema.cardinalities}
    shift = cell["split"]["shift"]
    seen, labels = build("shift", shift, facts)
    if is_plain(cell) and not np.array_equal(x, seen, equal_nan=True):
        raise BadSetting(
            f"{shift['name']} changes numbers, but {cell['model']['name']} uses numbers as they "
            "are; take concept_shift, or another model"
        )
    return seen, labels


def _scaled(cell: Cell, x: Any, schema: data.Schema, m: int) -> tuple[np.ndarray, data.Schema]:
    """Rows in the units of the first m of them, which are the training rows."""
    scale = cell["data"]["scale"]
    if is_plain(cell):
        return x, schema
    if finds_units(cell) and scale == "each":
        return _bounded(x, schema)
    if finds_units(cell):
        raise BadSetting(
            f'[data] scale = "{scale}" and [method] units = "sealed" are two ways to find center '
            "and scale: take one"
        )
    if scale == "each":
        return data.standardise(x, schema, np.arange(m))
    if any(schema.cardinalities) or np.isnan(x).any():
        raise BadSetting(f'[data] scale = "{scale}" is for images; take "each"')
    seen = x[:m]
    center, spread = (seen.mean(), seen.std()) if scale == "all" else (0.0, seen.max())
    units = np.full(x.shape[1], center), np.full(x.shape[1], spread or 1.0)
    unit = float(center), float(spread or 1.0)
    features = tuple(replace(f, center=unit[0], scale=unit[1]) for f in schema.features)
    return rescaled(x, *units), replace(schema, features=features)


def _bounded(x: Any, schema: data.Schema) -> tuple[np.ndarray, data.Schema]:
    """Rows whose numbers are from -1 to 1 between the least and greatest, test rows included.

    That stands for bounds which are public beforehand.
    """
    low, high = np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)
    number = np.array([not r for r in schema.cardinalities]) & np.isfinite(low)
    middle = np.where(number, low + (high - low) / 2, 0.0)
    half = np.where(number & (high > low), (high - low) / 2, 1.0)
    features = tuple(
        replace(f, center=f.center + f.scale * float(c), scale=f.scale * float(s))
        for f, c, s in zip(schema.features, middle, half, strict=True)
    )
    return rescaled(x, middle, half), replace(schema, features=features)


def _ones(schema: data.Schema) -> tuple[list[float], list[float]]:
    numbers = sum(not r for r in schema.cardinalities)
    return [-1.0] * numbers, [1.0] * numbers


def _varying(cell: Cell, x: Any, schema: data.Schema, m: int) -> tuple[np.ndarray, data.Schema]:
    """Rows in which a number that is the same in all m training rows says nothing of a class.

    Test rows get the training rows' number. Statistics start with a variance for each feature, of
    which classes would get unequal shares: for them it is no feature, unless noise is added, where
    what nodes release must not depend on such a thing.
    """
    low, high = np.fmin.reduce(x[:m], axis=0), np.fmax.reduce(x[:m], axis=0)
    still = np.array([not r for r in schema.cardinalities]) & ~(high > low)
    if is_plain(cell) or not still.any():
        return x, schema
    budget = cell["privacy"]["epsilon"] if "privacy" in cell else None
    noisy = budget is not None and math.isfinite(budget)
    if cell.method.learns == "model" and not noisy and not still.all():
        features = tuple(f for f, gone in zip(schema.features, still, strict=True) if not gone)
        return x[:, ~still], replace(schema, features=features)
    x[m:] = np.where(still & ~np.isnan(x[m:]), np.nan_to_num(low), x[m:])
    return x, schema


def _missing(cell: Cell, world: World) -> BadData:
    """The error for missing values where a net learns: which column, and what can be done."""
    has = np.isnan(world.x).any(0)
    if world.x_test is not None:
        has |= np.isnan(world.x_test).any(0)
    j = int(np.flatnonzero(has)[0])
    name, named = world.schema.features[j].name, bool(world.schema.cardinalities[j])
    ways = ['take missing = "category"'] if named and cell["data"]["missing"] != "category" else []
    ways += [f'leave the column out (drop = ["{name}"])', "fill them in"]
    return BadData(
        f"{cell.method.name} cannot use missing values, and column {name} has some: in [data] "
        f"{', '.join(ways[:-1])}, or {ways[-1]} before"
    )


def as_read(cell: Cell, world: World) -> World:
    """The rows as the method reads them: a net needs categories one-hot and nothing missing."""
    if cell.method.learns == "model":
        return world
    tables = [world.x] if world.x_test is None else [world.x, world.x_test]
    numbers = [j for j, r in enumerate(world.schema.cardinalities) if not r]
    # a category that only test rows have is none of those that the net knows: all zeros
    if np.isnan(world.x).any() or any(np.isnan(x[:, numbers]).any() for x in tables):
        raise _missing(cell, world)
    wide = [one_hot(x, world.schema.cardinalities) for x in tables]
    shape = world.shape
    if shape is None or math.prod(shape) != wide[0].shape[1]:
        shape = wide[0].shape[1:]
    return world._replace(x=wide[0], x_test=wide[1] if len(wide) > 1 else None, shape=shape)
