"""What a network agrees on by sealed sums before it learns, one after the other.

Each is one function of `FIRSTS`: from a description and a world to what nodes count, how far a row
moves it, and the world once the sum is known; None where nothing is to be agreed. Everything is
decided by the noised totals alone, in double precision, so that it costs no more than the sum and
is the same at every node.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from peerwise.agreement import sealed_sum
from peerwise.core import Method, Shard, Tree
from peerwise.errors import BadSetting
from peerwise.learner.sections import Cell
from peerwise.learner.world import World
from peerwise.methods.sealed import Trust
from peerwise.methods.sealed_total import noise_of, nothing, sealed_total, shape_of, unflat
from peerwise.models.registry import first_phase
from peerwise.privacy.budget import Budget
from peerwise.privacy.design import default_delta
from peerwise.shards import pack
from peerwise.topology import Topology


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
            f"nobody knows how far a row moves what {cell['model']['name']} must agree on first"
        )

    def decided(world: World, total: Tree, noise: float) -> World:
        return world._replace(sums=np.where(total < 2 * noise, 0.0, total))

    about = f"counts, from which all derive how {cell['model']['name']} is made"
    return First(about, phase.count, phase.reach, decided)


FIRSTS = {make.__name__: make for make in (structure,)}


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


def _noisy(cell: Cell) -> bool:
    epsilon: Any = cell["privacy"]["epsilon"]
    return epsilon is not None and math.isfinite(epsilon)
