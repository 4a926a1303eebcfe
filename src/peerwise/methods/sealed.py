"""Learning from sums that nobody can open: naive Bayes by one release, calibration by several.

Only the sum over the whole network is ever read, so that each node adds a share of the noise
(`privacy.shares`) and the model is as accurate as one curator's who holds all rows. Sums are
aligned: every node has the very same totals (`aligned`). Between peers each term is masked before
it leaves (`privacy.sealing`); masks of all members add up to 0, so that a simulation leaves them
out. What is simulated is the grid, the noise, the delay and what is lost.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from peerwise.core import Array, Inbox, Method, Shard, Slots, State, Tree, number_of
from peerwise.declare import declares
from peerwise.errors import BadData, BadSetting
from peerwise.methods import aligned, words
from peerwise.methods.aligned import Aligned
from peerwise.methods.private_crc import clipped_update, noise_multiplier
from peerwise.methods.relaying import rounded
from peerwise.models.family import Model, by_class, log_posterior, moved, statistics
from peerwise.privacy.aware import Noise, Noised, aware
from peerwise.privacy.budget import Budget
from peerwise.privacy.design import Design, noising
from peerwise.privacy.release import exact_coordinates
from peerwise.privacy.sensitivity import clip as clipped
from peerwise.privacy.shares import (
    Grid,
    bits_for,
    honest_members,
    least_members,
    most_rows,
    shared_noise,
)
from peerwise.privacy.sums import exact_update

MANY = 10**6  # rounds, and sums: they are counted in 32 bits
RELEASES = 64  # sums of a calibration, where the rounds allow them


class Trust(NamedTuple):
    """Whom a sealed sum relies on, and how long it waits for whom."""

    honest: Annotated[
        float, Gt(0), Le(1), "share of the nodes that is honest: their noise is what protects"
    ] = 2 / 3
    least: Annotated[
        float, Gt(0.5), Le(1), "share of the nodes that a sum must have; 1: it waits for all"
    ] = 1.0
    patience: Annotated[
        int,
        Ge(1),
        Le(MANY),
        "rounds without progress after which missing nodes are left out, if they may",
    ] = 256


class Before(NamedTuple):
    """What nodes agree on before they learn, each by a sealed sum of its own.

    Methods do not read it: what was agreed has changed their rows and their model (`learner`).
    """

    first: Annotated[
        float, Gt(0), Lt(1), "share of the budget for what must be agreed first, if anything must"
    ] = 0.2
    units: Annotated[
        Literal["given", "sealed"],
        "center and scale of numbers: as given, or found by a sealed sum within public bounds",
    ] = "given"
    select: Annotated[
        int | None, Ge(1), "features that are kept: those that tell most by a sealed sum; none: all"
    ] = None


TRUST = Trust()
BEFORE = Before()


@dataclass(frozen=True, eq=False)
class Sealed:
    """What a node does after it has heard: learn from a new total, then make its next term.

    `learn` and `steps` are for simulation and for peers without noise. A peer with noise takes
    `exact` in place of `steps`: whole numbers of steps in double precision, of which one row moves
    no more than the noise is made for.
    """

    sums: Aligned
    grid: Grid
    learn: Callable[[State], State]  # state with a total not seen before -> state
    steps: Callable[[State, Shard], Array]  # a node's term [size], not yet rounded
    exact: Callable[[State, np.ndarray, np.ndarray], np.ndarray]  # state, x, y -> [size]

    def __call__(self, key: Array, state: State, shard: Shard) -> State:
        """The state with a term for the next sum, if one is due; noise is drawn from the key."""
        state = self.learnt(state)
        whole = words.from_real(jnp.rint(self.steps(state, shard)))
        if self.grid.std.any():
            noise = jnp.asarray(self.grid.std, jnp.float32) * jax.random.normal(
                key, whole.shape[:1], jnp.float32
            )
            whole = words.plus(whole, words.from_real(jnp.rint(noise)))
        return self.making(state, whole)

    def learnt(self, state: State) -> State:
        """The state after it has learnt from a total, if there is a new one."""
        sums, memory = state.value["sums"], state.memory
        new = (sums["done"] > memory["seen"]) & (sums["lost"] == 0)
        after = self.learn(state)
        after = jax.tree.map(lambda a, b: jnp.where(new, a, b), after, state)
        return after._replace(memory={**after.memory, "seen": sums["done"]})

    def making(self, state: State, term: Array) -> State:
        """The state with a term [size, 2], if one is due."""
        return state._replace(
            value={**state.value, "sums": self.sums.making(state.value["sums"], term)}
        )

    @cached_property
    def programs(self) -> Any:
        """What a peer calls, compiled; `whole` is a term without noise."""

        def whole(state: State, shard: Shard) -> Array:
            return words.from_real(jnp.rint(self.steps(state, shard)))

        def due(state: State) -> Array:
            return self.sums.due(state.value["sums"])[0]

        parts: dict[str, Any] = {
            "learnt": self.learnt,
            "due": due,
            "whole": whole,
            "making": self.making,
        }
        return SimpleNamespace(**{name: jax.jit(f) for name, f in parts.items()})

    def total(self, state: State, dtype: Any) -> Array:
        """The newest total in the units of the values [size]."""
        step = jnp.asarray(self.grid.step, dtype)
        return words.to_real(state.value["sums"]["total"], dtype) * step

    def method(
        self,
        start: Callable[[Shard], tuple[Tree, Tree]],
        predict: Callable[[Array, Tree, Array], Array],
    ) -> Method:
        """The method; `start` gives value and memory beside those of the sums."""

        def init(key: Array, shard: Shard) -> State:
            value, memory = start(shard)
            value = {**value, "sums": self.sums.begin(number_of(key))}
            return State(value, {**memory, "seen": jnp.zeros((), jnp.int32)})

        def rule(value: Tree, inbox: Inbox) -> Tree:
            return {**value, "sums": self.sums.listened(value["sums"], inbox)}

        def reply(state: State, shard: Shard, heard: Inbox) -> Tree:
            return self.sums.said(state.value["sums"], heard.part)

        return Method(
            init, aligned.silent, Slots(rule), self, predict, reply,
            ranges=aligned.RANGES, numbered=True,
        )  # fmt: skip


def members(nodes: int, trust: Trust, sums: int) -> tuple[int, int]:
    """Members that each of so many sums must have, and honest ones that it then has."""
    least = least_members(nodes, trust.least)
    honest = honest_members(nodes, trust.honest, least)
    if least < nodes and sums == 1:
        raise BadSetting(
            f"least = {trust.least:g} lets a later sum go on without some nodes, and there is none "
            "after the first: this method has one sum, and once a node is missing its round is "
            "void; set least = 1, or use sealed_crc with several releases and rounds for them"
        )
    return least, honest


@declares("method", needs=("replies",), releases="sealed")
def sealed_nb(
    model: Model,
    design: Design,
    budget: Budget,
    nodes: int,
    *,
    trust: Trust = TRUST,
    before: Before = BEFORE,
) -> Method:
    """Naive Bayes from one sealed sum of all nodes' statistics: a curator's without a curator.

    Federated naive Bayes without the server: what a node adds has its share of the noise that one
    release of all rows needs. Models know how much noise there is.
    """
    return _nb(model, design, budget, nodes, trust)


@cache
def _nb(model: Model, design: Design, budget: Budget, nodes: int, trust: Trust) -> Method:
    least, honest = members(nodes, trust, 1)
    q, r, classes = design.lines, design.size - design.lines, model.classes
    noisy = math.isfinite(budget.epsilon)
    scale = np.zeros(design.size)
    if noisy:
        made_by = noising(design, budget.epsilon, budget.delta, "gaussian", rows=budget.rows)
        scale = made_by.scale / math.sqrt(budget.share)

    def flat(values: np.ndarray) -> np.ndarray:  # of each coordinate -> of all that is summed
        return np.concatenate([np.tile(values[:q], classes), values[q:]])

    grid = shared_noise(flat(design.reach), flat(scale), nodes, honest)
    sums = Aligned(nodes, len(grid.step), 1, least, trust.patience)
    noise = Noise(design, _once(grid.share, q, r, classes)) if noisy else None
    believed = aware(model, Noised(None, noise), nodes)

    def steps(state: State, shard: Shard) -> Array:
        low, high = design.bounds
        x, _ = clipped(shard.x, model.cardinalities, low, high)
        lines, more = design.coordinates(statistics(model, x, shard.y, shard.weight))
        parts = [lines.reshape(-1)] if more is None else [lines.reshape(-1), more]
        return jnp.concatenate(parts) / jnp.asarray(grid.step, lines.dtype)

    def exact(state: State, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        lines, more = exact_coordinates(design, x, y, bits_for(nodes))
        return np.concatenate([lines.reshape(-1), more]) / grid.step

    def learn(state: State) -> State:
        total = sealed.total(state, by_class(state.value["statistics"]).dtype)
        lines = total[: classes * q].reshape(classes, q)
        whole = design.raw(lines, total[classes * q :] if r else None)
        mean = jax.tree.map(lambda a: a / nodes, whole)
        return state._replace(value={**state.value, "statistics": mean})

    def start(shard: Shard) -> tuple[Tree, Tree]:
        return {"statistics": model.uniform(1.0, shard.x.dtype)}, {}

    def predict(key: Array, value: Tree, x: Array) -> Array:
        ready = value["sums"]["done"] > 0
        known = log_posterior(believed, value["statistics"], x)
        return jnp.where(ready, known, -math.log(classes))

    sealed = Sealed(sums, grid, learn, steps, exact)
    return sealed.method(start, predict)


def _once(share: np.ndarray, q: int, r: int, classes: int) -> np.ndarray:
    """What holds of each coordinate, from what holds of all that is summed."""
    return np.concatenate([share[:q], share[classes * q :]])


def fitting(rounds: int, width: int) -> int:
    """The sums that fit into the rounds, at most `RELEASES`; each takes about `width` rounds."""
    return min(RELEASES, max(1, rounds // (width + 2) - 2))


@declares("method", needs=("replies",), releases="sealed")
def sealed_crc(
    model: Model,
    budget: Budget,
    rows: int,
    nodes: int,
    rounds: int,
    width: int,
    *,
    releases: Annotated[
        int | None,
        Ge(1),
        Le(MANY),
        "sums that are released; none: as many as fit into the rounds, at most 64",
    ] = None,
    clip: Annotated[float, Ge(1e-9), Le(1e6), "how far one row may move a sum"] = 3.0,
    lr: Annotated[float, Ge(1e-9), Le(1000), "learning rate"] = 0.2,
    trust: Trust = TRUST,
    before: Before = BEFORE,
) -> Method:
    """Calibration of all rows (RC) by sealed sums of the nodes' clipped steps.

    s <- s + sum over all rows of their steps, clipped in the L2 norm, and noise; from uniform
    statistics worth rows / lr. The budget is spent on `releases` sums. What predicts is the mean of
    the second half of the iterates, in which noise averages out. A sum takes about as many rounds
    as the agreed tree is wide. The defaults of clip and lr depend on no rows.
    """
    releases = releases or fitting(rounds, width)
    if rows < 1:
        raise BadSetting(f"rows must be 1 or more, got {rows}")
    return _crc(model, budget, rows, nodes, releases, float(clip), float(lr), trust)


@cache
def _crc(
    model: Model,
    budget: Budget,
    rows: int,
    nodes: int,
    releases: int,
    clip: float,
    lr: float,
    trust: Trust,
) -> Method:
    least, honest = members(nodes, trust, releases)
    size = model.classes * model.size
    std = noise_multiplier(budget.epsilon, budget.delta, releases) * clip * budget.rows
    std /= math.sqrt(budget.share)
    # all totals are added up, too
    grid = shared_noise(np.full(size, clip), np.full(size, std), nodes, honest, releases)
    sums = Aligned(nodes, size, releases, least, trust.patience)
    update = clipped_update(model, clip)
    theta = jax.jit(model.theta)

    def begin(dtype: Any) -> Tree:
        return model.uniform(rows / lr, dtype)

    def steps(state: State, shard: Shard) -> Array:
        change, _ = update(state.value["statistics"], shard)
        return change.reshape(-1) / jnp.asarray(grid.step, change.dtype)

    def features(x: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(model.features(jnp.asarray(x, jnp.float64)))

    def exact(state: State, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if len(y) > most_rows(releases):
            raise BadData(
                f"a node may have {most_rows(releases)} rows where several sums are added up, got "
                f"{len(y)}; split the site into two nodes"
            )
        weight = np.asarray(theta(state.value["statistics"]).weight, float)
        bits = bits_for(nodes, releases)
        return exact_update(features, x, y, weight, clip, bits).reshape(-1) / grid.step

    def learn(state: State) -> State:
        value, memory = state.value, state.memory
        kind = by_class(value["mean"]).dtype
        # whole numbers are added up, so that nothing is rounded twice
        way = words.plus(memory["way"], value["sums"]["total"])
        far = words.to_real(way, kind) * jnp.asarray(grid.step, kind)
        now = moved(begin(kind), rounded(far.reshape(model.classes, model.size)))
        late = 2 * value["sums"]["done"] > releases
        count = jnp.where(late, memory["count"] + 1, 1)
        share = 1 / count.astype(kind)
        mean = jax.tree.map(lambda m, s: m + rounded((s - m) * share), value["mean"], now)
        guards = memory["guards"] + model.theta(now).guards
        memory = {**memory, "way": way, "count": jnp.where(late, count, 0), "guards": guards}
        return State({**value, "statistics": now, "mean": mean}, memory)

    def start(shard: Shard) -> tuple[Tree, Tree]:
        first = begin(shard.x.dtype)
        nothing = jnp.zeros((size, 2), jnp.uint32)
        zero = jnp.zeros((), jnp.int32)
        memory = {"way": nothing, "count": zero, "guards": zero}
        return {"statistics": first, "mean": first}, memory

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_posterior(model, value["mean"], x)

    return Sealed(sums, grid, learn, steps, exact).method(start, predict)
