"""What a network agrees on by sealed sums before it learns, one after the other.

Each is one function of `FIRSTS`: from a description and a world to what nodes count, how far a row
moves it, and the world once the sum is known; None where nothing is to be agreed. Everything is
decided by the noised totals alone, in double precision, so that it costs no more than the sum and
is the same at every node.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from peerwise.agreement import sealed_sum
from peerwise.core import Method, Shard, Tree
from peerwise.data import Schema
from peerwise.data.scaling import under
from peerwise.errors import BadSetting
from peerwise.learner.sections import Cell
from peerwise.learner.world import World, finds_units, is_plain
from peerwise.methods.sealed import Trust
from peerwise.methods.sealed_total import noise_of, nothing, sealed_total, shape_of, unflat
from peerwise.models.family import Phase
from peerwise.models.registry import first_phase
from peerwise.privacy.budget import Budget
from peerwise.privacy.design import default_delta
from peerwise.privacy.selection import chosen, class_counts, scored
from peerwise.shards import pack
from peerwise.topology import Topology

STILL = 1e-8  # the variance of a number between -1 and 1 that does not vary


class First(NamedTuple):
    """What is agreed on by one sum."""

    about: str  # what is counted and what follows from it, in a sentence's words
    count: Callable[[Shard], Tree]  # the same one whenever it is made of the same
    reach: float  # how far one row moves all sums together, in the L2 norm
    # the world once the sum is known: its total, and the deviation of the noise in each number
    decided: Callable[[World, Tree, float], World]


def structure(cell: Cell, world: World) -> First | None:
    """What a model must agree on, such as TAN's tree; few counts, and no noise alone, are none."""
    phase = first_phase(dict(cell["model"]), world.schema)
    if phase is None:
        return None
    if phase.reach is None:
        if not _noisy(cell):
            return None  # a number that is known to all, or an exact sum
        raise BadSetting(
            f"{cell['model']['name']} cannot be learnt with noise: how far one row can change what "
            "its nodes first agree on is not known; use another model, such as naive_bayes"
        )

    def decided(world: World, total: Tree, noise: float) -> World:
        return world._replace(sums=np.where(total < 2 * noise, 0.0, total))

    about = f"counts, from which all derive how {cell['model']['name']} is made"
    return First(about, phase.count, phase.reach, decided)


def features(cell: Cell, world: World) -> First | None:
    """Which features are kept: those of the largest mutual information with the class.

    A row is counted once for each feature; numbers in equal parts of their public bounds.
    """
    k, schema = cell["method"].get("select"), world.schema
    if k is None:
        return None
    if k > len(schema.features):
        raise BadSetting(f"select = {k}: there are {len(schema.features)} features to keep some of")
    cardinalities = tuple(map(int, schema.cardinalities))
    counts = class_counts(cardinalities, len(schema.classes), *bounds_of(cell, world))

    def decided(world: World, total: Tree, noise: float) -> World:
        kept = chosen(scored(total, cardinalities, noise), k).tolist()
        fewer = replace(schema, features=tuple(schema.features[j] for j in kept))
        bounds = world.bounds
        if bounds is not None:
            numbers = [i for i, j in enumerate(_numbers(schema)) if j in kept]
            bounds = [bounds[0][i] for i in numbers], [bounds[1][i] for i in numbers]
        return _under(world, fewer, bounds)

    about = f"values by class, by which the {k} features that tell most of the class are kept"
    return First(about, _of_shard(counts), math.sqrt(len(cardinalities)), decided)


@cache
def _of_shard(count: Callable[..., Tree]) -> Callable[[Shard], Tree]:
    return lambda shard: count(*shard)


def bounds_of(cell: Cell, world: World) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The least and greatest values of numbers, as tuples; public, or as [privacy] bound says."""
    numbers, bound = len(_numbers(world.schema)), cell["privacy"]["bound"]
    low, high = world.bounds or ([-bound] * numbers, [bound] * numbers)
    return tuple(map(float, low)), tuple(map(float, high))


def units(cell: Cell, world: World) -> First | None:
    """Center and scale of numbers, from sums of values and squares within public bounds.

    Numbers u are from -1 to 1 between their bounds; counted are u and u^2 - 1/2, and how many rows
    there are, for each number where cells may be empty. A scale is no smaller than the noise.
    """
    if not finds_units(cell):
        return None
    if is_plain(cell):
        raise BadSetting(
            f"{cell['model']['name']} uses numbers as they are, without center and scale; set "
            '[method] units = "given"'
        )
    numbers = _numbers(world.schema)
    if numbers and world.bounds is None:
        raise BadSetting(
            '[method] units = "sealed" needs public bounds: give low and high of each number'
        )
    low, high = world.bounds or ((), ())
    gaps = world.schema.missing
    count = _moments(numbers, tuple(low), tuple(high), gaps)
    # of (1, u, u^2 - 1/2) the square is 1 + 5/4 at most
    reach = math.sqrt(9 / 4 * max(len(numbers), 1) if gaps else 1 + 5 / 4 * len(numbers))

    def decided(world: World, total: Tree, noise: float) -> World:
        rows, first, second = (total[name] for name in ("count", "sum", "square"))
        rows = np.broadcast_to(rows, first.shape)
        known = rows > 2 * noise
        n = np.where(known, rows, 1.0)
        center = np.where(known, np.clip(first / n, -1, 1), 0.0)
        var = np.maximum(second / n + 0.5 - center**2, 2 * noise / n)
        # what does not vary keeps the unit of its bounds
        scale = np.sqrt(np.where(known & (var > STILL), np.minimum(var, 1.0), 1.0))
        below, above = np.array(low), np.array(high)
        middle, half = (below + above) / 2, (above - below) / 2
        features = list(world.schema.features)
        for j, c, s in zip(numbers, middle + half * center, half * scale, strict=True):
            f = features[j]
            features[j] = replace(f, center=f.center + f.scale * float(c), scale=f.scale * float(s))
        bounds = ((-1 - center) / scale).tolist(), ((1 - center) / scale).tolist()
        return _under(world, replace(world.schema, features=tuple(features)), bounds)

    return First("values and squares, from which center and scale follow", count, reach, decided)


@cache
def _moments(
    numbers: tuple[int, ...], low: tuple[float, ...], high: tuple[float, ...], gaps: bool
) -> Callable[[Shard], Tree]:
    columns = np.array(numbers, np.int32)
    middle, half = (np.array(high) + np.array(low)) / 2, (np.array(high) - np.array(low)) / 2

    def count(shard: Shard) -> Tree:
        kind = shard.x.dtype
        u = (shard.x[:, columns] - jnp.asarray(middle, kind)[None]) / jnp.asarray(half, kind)[None]
        weight = shard.weight.astype(kind)[:, None]
        known = ~jnp.isnan(u)
        u = jnp.clip(jnp.where(known, u, 0), -1, 1)
        own = known.astype(kind) * weight
        return {
            "count": own.sum(0) if gaps else weight.sum(0),
            "sum": (u * own).sum(0),
            "square": ((u * u - 0.5) * own).sum(0),
        }

    return count


def _numbers(schema: Schema) -> tuple[int, ...]:
    return tuple(j for j, r in enumerate(schema.cardinalities) if not r)


def _under(world: World, schema: Schema, bounds: Any) -> World:
    """The world with its rows under another schema of some of their features."""
    x = under(world.x, world.schema, schema)
    x_test = None if world.x_test is None else under(world.x_test, world.schema, schema)
    return world._replace(x=x, x_test=x_test, schema=schema, bounds=bounds)


FIRSTS = {make.__name__: make for make in (features, units, structure)}


def firsts(cell: Cell, world: World) -> dict[str, First]:
    """By name, in their order: what is agreed by sealed sums; the same before and after."""
    if cell.method.traits.releases != "sealed":
        return {}
    made = {name: make(cell, world) for name, make in FIRSTS.items()}
    return {name: first for name, first in made.items() if first is not None}


def budget_of(cell: Cell, world: World) -> Budget:
    """What a node spends on learning: all, but for the share of what is agreed first."""
    budget: Budget
    if world.budget is not None:
        budget = world.budget
    else:
        if cell["privacy"]["person"] is not None and _noisy(cell):
            raise BadSetting(
                "[privacy] person is only for peers, whose files name a row's person; remove it "
                "here"
            )
        epsilon, delta = cell["privacy"]["epsilon"], cell["privacy"]["delta"]
        delta = default_delta(world.rows) if delta is None else delta
        budget = Budget(math.inf if epsilon is None else epsilon, delta)
    return budget._replace(share=1 - cell["method"]["first"]) if firsts(cell, world) else budget


def trust_of(cell: Cell) -> Trust:
    """On whom sealed sums rely."""
    return Trust(**{key: cell["method"][key] for key in Trust._fields})


def sum_of(cell: Cell, world: World, name: str) -> Method:
    """The method whose total is that of the sum of a name; all of them get equal shares."""
    every = firsts(cell, world)
    share = cell["method"]["first"] / len(every)
    budget = budget_of(cell, world)._replace(share=share)
    count, reach = every[name].count, every[name].reach
    like = shape_of(count, world.x.shape[1])
    return sealed_total(count, like, budget, reach, world.nodes, trust_of(cell))


def decided(cell: Cell, world: World, name: str, total: np.ndarray) -> World:
    """The world once the total of a name, flat, is known."""
    first = firsts(cell, world)[name]
    like = shape_of(first.count, world.x.shape[1])
    noise = noise_of(sum_of(cell, world, name))
    return first.decided(world, unflat(like, total), noise)


def settled(cell: Cell, world: World, links: Topology) -> World:
    """The world with everything agreed, by sums that are simulated."""
    for i, name in enumerate(() if world.settled else firsts(cell, world)):
        shards = pack(world.x, world.y, world.owned)
        entropy = [cell["run"]["seed"], world.seed, 5, i]  # noise apart from that of learning
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        total = sealed_sum(sum_of(cell, world, name), shards, links, seed)
        world = decided(cell, world, name, total)
    return world._replace(settled=True)


def as_if_nothing(cell: Cell, world: World) -> World:
    """The world as if all sums were 0: shapes, and the size of all noise, are as they will be."""
    for name in () if world.settled else firsts(cell, world):
        world = decided(cell, world, name, nothing(sum_of(cell, world, name)))
    return world._replace(settled=True)


def check_exact(cell: Cell, phase: Phase) -> None:
    """Refuse an exact sum over rows where nodes spend a budget."""
    if "privacy" in cell and _noisy(cell) and not phase.public:
        raise BadSetting(
            f"nodes that learn {cell['model']['name']} first agree on an exact sum over rows, "
            "which no budget allows; use sealed_nb or sealed_crc, which add noise to it"
        )


def _noisy(cell: Cell) -> bool:
    epsilon: Any = cell["privacy"]["epsilon"]
    return epsilon is not None and math.isfinite(epsilon)
