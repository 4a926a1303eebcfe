"""Federated and Gossip naive Bayes with differential privacy.

"Towards a Realistic Decentralized Naive Bayes with Differential Privacy" (Giaretta, Marchioro,
Markatos, Girdzijauskas). A node adds noise to its statistics once (Algorithm 2); a server adds up
what the nodes release (Algorithm 3), or the nodes pass estimates on to random peers and merge what
they hear (Algorithms 4 and 5). Whatever is done with a release costs no further privacy.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt

from peerwise.core import Array, Inbox, Mean, Message, Method, Range, Shard, Slots, State, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting, UnknownName
from peerwise.methods import relaying
from peerwise.models.family import Model, log_posterior, statistics
from peerwise.privacy.budget import Queries, check_epsilon, scales, split
from peerwise.privacy.mechanism import laplace
from peerwise.privacy.sensitivity import bounded, clip, local, warn_local

CLAMP = 1e-6  # the least count that a node sends, with `clamp_at_node`
COUNTED = (Range("count", 0),)  # how much an estimate has seen
Release = Callable[[Array, Shard], tuple[Array, dict[str, Array]]]


@cache
def release(
    model: Model,
    *,
    epsilon: float | tuple[float, float] = math.inf,
    sensitivity: str = "local",
    bounds: tuple[Any, Any] | None = None,
    budget: str = "even",
    clamp_at_node: bool = False,
) -> Release:
    """key, shard -> noisy statistics, and scalars about them (Algorithm 2), for simulation.

    `epsilon`: the node's budget, or (low, high) for one that each node draws log-uniformly;
    infinity is no noise. `sensitivity`: "local" (the paper's, which is not differential privacy)
    or "bounded" with public `bounds` (low, high), to which numbers are clipped. `budget`: how it
    is split, "even" (equation 16) or "optimal". Every class is noised, also one that the node
    lacks. `clamp_at_node` makes counts positive before they are sent, as the authors' code does;
    otherwise sums stay unbiased, and only the model built from them is made valid.
    """
    if model.name != "naive_bayes" or not model.cardinalities:
        raise BadSetting(f"noise is for the statistics of naive_bayes, not of {model.name}")
    spread = epsilon if isinstance(epsilon, tuple) else (epsilon, epsilon)
    low_e, high_e = (check_epsilon(e, noise_off=True) for e in spread)
    off = math.isinf(low_e)
    queries = Queries(model.cardinalities, model.classes)
    if queries.size != model.size:
        raise BadSetting("noise for statistics with missing values is not offered: fill them in")
    if sensitivity not in ("local", "bounded"):
        raise UnknownName("sensitivity", sensitivity, ["local", "bounded"])
    public = None
    if sensitivity == "bounded":
        if bounds is None:
            raise BadSetting(
                "sensitivity 'bounded' needs public bounds (low, high) of the numbers; give them, "
                "or find them privately with privacy.private_bounds"
            )
        public = bounded(queries, *bounds)
        share = split(1.0, queries, public, budget)
    else:
        if budget != "even":
            raise BadSetting("an optimal split needs public sensitivities: take 'bounded'")
        if not off:
            warn_local()
        share = split(1.0, queries, [1.0] * queries.size)

    def draw(key: Array, shard: Shard) -> tuple[Array, dict[str, Array]]:
        x, _ = (shard.x, 0) if public is None else clip(shard.x, model.cardinalities, *bounds)  # type: ignore[misc]
        exact = statistics(model, x, shard.y, shard.weight)
        size = shard.weight.sum()
        if off:
            zero = jnp.zeros((), exact.dtype)
            return exact, {"size": size, "noise": zero, "epsilon": zero + jnp.inf}
        which, noise = jax.random.split(key)
        u = jax.random.uniform(which, (), jnp.float32).astype(exact.dtype)
        drawn = low_e * (high_e / low_e) ** u
        if public is None:
            reach = never_silent(
                local(x, shard.y, shard.weight, model.cardinalities, model.classes)
            )
        else:
            reach = jnp.broadcast_to(jnp.asarray(public, exact.dtype)[None], exact.shape)
        scale = scales(reach.astype(exact.dtype), jnp.asarray(share, exact.dtype), queries) / drawn
        noisy = exact + laplace(noise, scale, jnp.float32).astype(exact.dtype)
        if clamp_at_node:
            noisy = clamped(noisy, queries)
        apart = jnp.where(exact != 0, jnp.abs(noisy - exact) / jnp.abs(exact), 0)
        return noisy, {"size": size, "noise": apart.sum(), "epsilon": drawn}

    return draw


def never_silent(reach: Array) -> Array:
    """Local sensitivities [..., c, q]; a class that the node lacks gets those of its other classes.

    Otherwise the sums of such a class would be sent as exact zeros and reveal that it is absent.
    """
    others = reach.max(-2, keepdims=True)
    return jnp.where(reach > 0, reach, jnp.where(others > 0, others, 1))


def clamped(s: Array, queries: Queries) -> Array:
    """Counts [..., q] at least 1e-6 and sums of squares at least 0, as the authors' code sends."""
    least = jnp.full(queries.size, CLAMP, s.dtype)
    least = least.at[queries.first].set(-jnp.inf).at[queries.second].set(0)
    return jnp.maximum(s, least.reshape(*[1] * (s.ndim - 1), -1))


@declares("method", place="server", rounds=1, releases="once")
def federated_nb(
    model: Model,
    draw: Release | None = None,
    *,
    most_noise: Annotated[
        float | None, Gt(0), "nodes of a higher relative error are left out; needs an oracle"
    ] = None,
) -> Method:
    """Federated naive Bayes: the server adds up the nodes' releases (Algorithm 3), in one round.

    For `topology.server`. `draw` is a `release`, by default one without noise. `most_noise` leaves
    out nodes whose relative error (equation 28, which only an oracle knows) is higher. Adding a
    node later (equations 22 to 24) is adding its statistics.
    """
    return _federated(model, draw or release(model), most_noise)


@cache
def _federated(model: Model, draw: Release, most_noise: float | None) -> Method:
    def init(key: Array, shard: Shard) -> State:
        return State(*draw(key, shard))

    def message(key: Array, state: State) -> Message:
        # what an oracle knows is not to be sent, unless the experiment is about it
        note = {} if most_noise is None else {"noise": state.memory["noise"]}
        return Message(state.value, note)

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        heard = (inbox.weight > 0).astype(inbox.weight.dtype)
        if most_noise is not None:
            heard = jnp.where(inbox.note["noise"] <= most_noise, heard, 0)
        return jnp.zeros((), inbox.weight.dtype), heard

    return Method(init, message, Mean(weigh, total=True), _stay, _predict(model))


Counter = Literal["printed", "total", "walk", "unnormalised", "push_sum", "cumulative", "relay"]


@declares("method", releases="once")
def gossip_nb(
    model: Model,
    draw: Release | None = None,
    degree: int | None = None,
    *,
    counter: Annotated[Counter, "how a node counts what an estimate has seen"] = "printed",
) -> Method:
    """Gossip naive Bayes: nodes merge the last two estimates they heard with their own release.

    `draw` is a `release`, by default one without noise.
    `counter`: "printed" (Algorithm 4: t = t_recv + 1), "total" (t = t_prev + t_recv + 1, what the
    average has seen), "walk" (without the previous estimate: O(n) rounds), "unnormalised"
    (equation 25: numbers grow until they overflow); "push_sum" (Kempe, Dobra and Gehrke 2003:
    half of sum and weight goes to the peer; exact without loss, for `topology.pushes`);
    "cumulative" (push-sum on a fixed graph of at most `degree` neighbours whose messages carry
    all that was given so far: a lost one only delays); "relay" (the sum itself along a tree that
    neighbours agree upon: exact after a few diameters, `relaying`; not the paper's).
    """
    draw = draw or release(model)
    if counter == "push_sum":
        return _push_sum(model, draw)
    if counter == "cumulative":
        if degree is None:
            raise BadSetting("counter 'cumulative' needs degree, the most neighbours of a node")
        return _cumulative(model, draw, int(degree))
    if counter == "relay":
        return _relayed(model, draw)
    return _gossip(model, draw, counter)


@cache
def _gossip(model: Model, draw: Release, counter: str) -> Method:
    def init(key: Array, shard: Shard) -> State:
        own, about = draw(key, shard)
        one, none = jnp.ones((), own.dtype), jnp.zeros((), own.dtype)
        nothing = {"estimate": jnp.zeros_like(own), "count": none}
        value = {"estimate": own, "count": one, "heard": nothing, "before": nothing}
        return State(value, {**about, "own": own})

    def message(key: Array, state: State) -> Message:
        return Message({k: state.value[k] for k in ("estimate", "count")}, {})

    def rule(value: dict[str, Tree], inbox: Inbox) -> dict[str, Tree]:
        """Keep the last two that arrived; slots are in order of arrival."""

        def arrive(pair: Any, slot: Any) -> Any:
            came, letter = slot
            push = jax.tree.map(lambda a, b: jnp.where(came, a, b), (letter, pair[0]), pair)
            return push, None

        came = inbox.weight > 0
        pair, _ = jax.lax.scan(arrive, (value["heard"], value["before"]), (came, inbox.value))
        return {**value, "heard": pair[0], "before": pair[1]}

    def adapt(key: Array, state: State, shard: Shard) -> State:
        value, own = state.value, state.memory["own"]
        heard, before = value["heard"], value["before"]
        if counter == "walk":
            before = jax.tree.map(jnp.zeros_like, before)
        if counter == "unnormalised":
            estimate = before["estimate"] + heard["estimate"] + own
            return state._replace(value={**value, "estimate": estimate})
        seen = before["count"] + heard["count"] + 1
        merged = (
            before["count"] / seen * before["estimate"]
            + heard["count"] / seen * heard["estimate"]
            + own / seen
        )
        count = heard["count"] + 1 if counter == "printed" else seen
        return state._replace(value={**value, "estimate": merged, "count": count})

    return Method(init, message, Slots(rule), adapt, _predict(model), ranges=COUNTED)


@cache
def _push_sum(model: Model, draw: Release) -> Method:
    def init(key: Array, shard: Shard) -> State:
        own, about = draw(key, shard)
        return State({"estimate": own, "count": jnp.ones((), own.dtype)}, about)

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {})

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        half = jnp.full((), 0.5, inbox.weight.dtype)
        return half, jnp.where(inbox.weight > 0, half, 0)

    return Method(init, message, Mean(weigh, total=True), _stay, _predict(model), ranges=COUNTED)


@cache
def _cumulative(model: Model, draw: Release, degree: int) -> Method:
    if degree < 1:
        raise BadSetting(f"degree must be 1 or more, got {degree}")
    share = 1 / (degree + 1)

    def init(key: Array, shard: Shard) -> State:
        own, about = draw(key, shard)
        mass = {"estimate": own, "count": jnp.ones((), own.dtype)}
        zero = jax.tree.map(jnp.zeros_like, mass)
        value = {**mass, "given": zero, "got": zero, "neighbours": jnp.zeros((), own.dtype)}
        return State(value, about)

    def message(key: Array, state: State) -> Message:
        return Message(jnp.zeros((), state.value["count"].dtype), {})

    def reply(state: State, shard: Shard, heard: Inbox) -> Tree:
        return state.value["given"]

    def rule(value: dict[str, Tree], inbox: Inbox) -> dict[str, Tree]:
        ever = inbox.age >= 0
        got = jax.tree.map(
            lambda a: jnp.where(ever.reshape(-1, *[1] * (a.ndim - 1)), a, 0).sum(0), inbox.part
        )
        new = jax.tree.map(jnp.subtract, got, value["got"])
        mass = {k: value[k] + new[k] for k in ("estimate", "count")}
        neighbours = (inbox.link > 0).sum().astype(value["count"].dtype)
        return {**value, **mass, "got": got, "neighbours": neighbours}

    def adapt(key: Array, state: State, shard: Shard) -> State:
        """Give every neighbour its share of this node's mass."""
        value = state.value
        gift = {k: relaying.rounded(share * value[k]) for k in ("estimate", "count")}
        given = jax.tree.map(jnp.add, value["given"], gift)
        left = {k: value[k] - relaying.rounded(value["neighbours"] * gift[k]) for k in gift}
        return state._replace(value={**value, **left, "given": given})

    return Method(init, message, Slots(rule), adapt, _predict(model), reply, ranges=COUNTED)


@cache
def _relayed(model: Model, draw: Release) -> Method:
    def init(key: Array, shard: Shard) -> State:
        own, about = draw(key, shard)
        relay = relaying.begin(jax.random.fold_in(key, 1), own)
        return State({"estimate": own, "count": relay["nodes"], "relay": relay}, about)

    def rule(value: dict[str, Tree], inbox: Inbox) -> dict[str, Tree]:
        relay = relaying.listened(value["relay"], inbox)
        return {"estimate": relaying.total(relay), "count": relay["nodes"], "relay": relay}

    return Method(
        init, relaying.silent, Slots(rule), _stay, _predict(model), relaying.reply,
        ranges=relaying.RANGES,
    )  # fmt: skip


def _stay(key: Array, state: State, shard: Shard) -> State:
    return state


@cache
def _predict(model: Model) -> Callable[[Array, Tree, Array], Array]:
    def predict(key: Array, value: Tree, x: Array) -> Array:
        estimate = value["estimate"] if isinstance(value, dict) else value
        return log_posterior(model, estimate, x)

    return predict
