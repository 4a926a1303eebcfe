"""Who holds which rows: drawn for a simulation, given to an estimator, or a peer's own."""

import math
import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peerwise import data
from peerwise.data.scaling import rescaled
from peerwise.declare import build, find
from peerwise.errors import BadData, BadSetting
from peerwise.learner.sections import Cell
from peerwise.methods.baselines import one_hot


class World(NamedTuple):
    """The rows of one repetition, and what is known of the network beside them."""

    x: np.ndarray  # [m, d] training rows, encoded and standardised
    y: np.ndarray
    owned: list[np.ndarray]  # the rows of x of each node
    schema: data.Schema
    nodes: int
    rows: int | None  # of the whole network, as far as it is known
    seed: int = 0  # of the graph
    x_test: np.ndarray | None = None
    y_test: np.ndarray | None = None
    shape: tuple[int, ...] | None = None  # of a row: more than one number for images
    links: Any = None  # the topology, where it is given and not drawn
    sums: Any = None  # what a first phase found, where it is past
    draw: Any = None  # a release that was drawn before


def is_plain(cell: Cell) -> bool:
    """Whether the model is of numbers as they are, which are then not standardised."""
    return "model" in cell and find("model", cell["model"]["name"]).traits.plain


def _version(source: str) -> tuple[Any, ...]:
    """What changes when a name means other rows: the folder of data sets, or the file itself."""
    folder = os.environ.get("PEERWISE_DATA")
    file = Path(source).absolute()
    return folder, (file, file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else None


@lru_cache(maxsize=4)
def _encoded(
    version: Any, source: str, target: str | None, typing: str, missing: str,
    drop: tuple[str, ...], whole: bool,
) -> tuple[data.Encoded, tuple[int, ...]]:  # fmt: skip
    """A table as numbers, and the shape of its rows; `whole` images keep constant pixels."""
    table = data.load(source, target=target)
    encoded = data.encode(table, typing=typing, missing=missing, drop=drop)
    shape = np.shape(table.frame)[1:]
    if whole and encoded.dropped and len(shape) > 1:
        pixels = tuple(data.Feature(f"f{j}", "numeric") for j in range(math.prod(shape)))
        schema = replace(encoded.schema, features=pixels)
        encoded = data.encode(table, missing=missing, schema=schema)
    return encoded, shape


def drawn(cell: Cell, repetition: int) -> World:
    """The rows of one repetition: test rows first, then the network's rows among the others.

    The test rows of cells that differ only in size are nested, and methods and topologies are
    compared on the very same rows. A shift changes the training rows of nodes and never the test
    rows, before the rows are standardised: the units that a network agrees on are those of the rows
    that its nodes hold. It moves numbers by parts of their standard deviation, so that the units
    before do not matter.
    """
    d, s, seed = cell["data"], cell["split"], cell["run"]["seed"]
    reading = d["source"], d["target"], d["typing"], d["missing"], tuple(d["drop"])
    encoded, shape = _encoded(_version(d["source"]), *reading, d["scale"] != "each")
    pool, test = _test_rows(cell, encoded, repetition)
    wanted = len(pool) if s["rows"] == "all" else s["nodes"] * s["rows"]
    rng = np.random.default_rng([seed, repetition, 1])
    least = min(2, wanted // s["nodes"])
    facts: dict[str, Any] = {"rng": rng, "nodes": s["nodes"], "rows": wanted, "minimum": least}
    facts["sizes"] = build("sizes", s["sizes"], facts)
    facts |= {"x": encoded.x[pool], "y": encoded.y[pool]}
    dealt = _checked_deal(build("partition", s["partition"], facts), cell, len(pool))
    train = pool[np.concatenate(dealt)]
    kept = np.concatenate([train, test])
    x, y, schema = encoded.x[kept], encoded.y[kept], encoded.schema
    m = len(train)
    owned = np.split(np.arange(m), np.cumsum([len(rows) for rows in dealt])[:-1])
    x[:m], y[:m] = _shifted(cell, repetition, x[:m], y[:m], owned, schema)
    x, schema = _scaled(cell, x, schema, m)
    x = (
        x.astype(cell["run"]["precision"], copy=False)
        if cell["run"]["precision"] == "float32"
        else x
    )
    graph = int(np.random.SeedSequence([seed, repetition, 2]).generate_state(1)[0])
    world = World(
        x[:m], y[:m], owned, schema, s["nodes"], wanted, graph, x[m:], y[m:], shape
    )  # fmt: skip
    return as_read(cell, world)


def _test_rows(cell: Cell, encoded: data.Encoded, repetition: int) -> tuple[Any, Any]:
    """Which rows can be dealt and which are for testing."""
    s, source = cell["split"], cell["data"]["source"]
    rng = np.random.default_rng([cell["run"]["seed"], repetition, 0])
    total = len(encoded.y)
    wanted = 0 if s["rows"] == "all" else s["nodes"] * s["rows"]
    if s["test"] == "own":
        if encoded.split is None:
            raise BadSetting(f'{source} has no test rows of its own; take [split] test = "drawn"')
        parts = (rng.permutation(np.flatnonzero(encoded.split == p)) for p in ("train", "test"))
        pool, test = next(parts), next(parts)[: s["test_rows"]]
    else:
        order = rng.permutation(total)
        test = order[max(wanted, total - s["test_rows"]) :]
        pool = order[: total - len(test)]
    pool = pool[: s["train_rows"]]
    if len(pool) < max(wanted, s["nodes"]) or not len(test):
        rows = f"nodes of {s['rows']} rows" if wanted else "nodes"
        raise BadData(
            f"{source} has {total} rows: too few for {s['nodes']} {rows} and a test set; ask for "
            "fewer nodes, rows or test rows"
        )
    return pool, test


def _checked_deal(dealt: Any, cell: Cell, total: int) -> list[np.ndarray]:
    """What a partition gave, if it is rows of the table for every node and none twice."""
    name, nodes = cell["split"]["partition"]["name"], cell["split"]["nodes"]
    try:
        rows = [np.asarray(r).astype(np.int64, casting="same_kind") for r in dealt]
        every = np.concatenate(rows)
    except (TypeError, ValueError) as error:
        raise BadSetting(
            f"partition '{name}' must return a list of row numbers for each node: {error}"
        ) from None
    if len(rows) != nodes:
        raise BadSetting(
            f"partition '{name}' dealt rows to {len(rows)} nodes, and there are {nodes}"
        )
    if every.size and (
        every.min() < 0 or every.max() >= total or len(np.unique(every)) < every.size
    ):
        raise BadSetting(
            f"partition '{name}' must deal rows 0 to {total - 1}, each to one node at most"
        )
    return rows


def _shifted(
    cell: Cell, repetition: int, x: Any, y: Any, owned: list[np.ndarray], schema: data.Schema
) -> tuple[np.ndarray, np.ndarray]:
    """The training rows as the nodes see and label them."""
    # draws of its own: the same rows go to the same nodes, shifted or not
    rng = np.random.default_rng([cell["run"]["seed"], repetition, 4])
    facts = {"rng": rng, "x": x, "y": y, "owned": owned, "cardinalities": schema.cardinalities}
    shift = cell["split"]["shift"]
    seen, labels = build("shift", shift, facts)
    if is_plain(cell) and not np.array_equal(x, seen, equal_nan=True):
        raise BadSetting(
            f"{shift['name']} moves numbers, and {cell['model']['name']} is about numbers as they "
            "are; take concept_shift, or another model"
        )
    return seen, labels


def _scaled(cell: Cell, x: Any, schema: data.Schema, m: int) -> tuple[np.ndarray, data.Schema]:
    """Rows in the units of the first m of them, which are the training rows."""
    scale = cell["data"]["scale"]
    if is_plain(cell):
        return x, schema
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


def as_read(cell: Cell, world: World) -> World:
    """The rows as the method reads them: a net needs categories one-hot and nothing missing."""
    if cell.method.learns == "model":
        return world
    tables = [world.x] if world.x_test is None else [world.x, world.x_test]
    if any(np.isnan(x).any() for x in tables):
        raise BadData(
            f"{cell.method.name} cannot use missing values; take "
            '[data] missing = "category" or fill them in'
        )
    wide = [one_hot(x, world.schema.cardinalities) for x in tables]
    shape = world.shape
    if shape is None or math.prod(shape) != wide[0].shape[1]:
        shape = wide[0].shape[1:]
    return world._replace(x=wide[0], x_test=wide[1] if len(wide) > 1 else None, shape=shape)
