"""Federated and Gossip naive Bayes with differential privacy.

"Towards a Realistic Decentralized Naive Bayes with Differential Privacy" (Giaretta, Marchioro,
Markatos, Girdzijauskas). A node adds noise to its statistics once (Algorithm 2); a server adds up
what the nodes release (Algorithm 3), or the nodes pass estimates on to random peers and merge what
they hear (Algorithms 4 and 5). Whatever is done with a release costs no further privacy.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from annotated_types import Gt

from peerwise.core import Array, Inbox, Mean, Message, Method, Range, Shard, Slots, State, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting
from peerwise.methods import relaying
from peerwise.methods.releasing import Release, added, release
from peerwise.models.family import Model, by_class, log_posterior
from peerwise.privacy.aware import aware

COUNTED = (Range("count", 0),)  # how much an estimate has seen


@declares("method", place="server", rounds=1, releases="once")
def federated_nb(
    model: Model,
    draw: Release | None = None,
    nodes: int | None = None,
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
    return _federated(model, draw or release(model), nodes, most_noise)


@cache
def _federated(model: Model, draw: Release, nodes: int | None, most_noise: float | None) -> Method:
    # what leaves nodes out is not the sum of all
    believed = aware(model, draw, nodes if most_noise is None else None)

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

    def predict(key: Array, value: Tree, x: Array) -> Array:
        if believed is model:
            return log_posterior(model, value, x)
        return log_posterior(believed, jax.tree.map(lambda a: a / nodes, value), x)

    return Method(init, message, Mean(weigh, total=True), _stay, predict)


Counter = Literal["printed", "total", "walk", "unnormalised", "push_sum", "cumulative", "relay"]


@declares("method", releases="once")
def gossip_nb(
    model: Model,
    draw: Release | None = None,
    degree: int | None = None,
    nodes: int | None = None,
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
        return _push_sum(model, draw, nodes)
    if counter == "cumulative":
        if degree is None:
            raise BadSetting("counter 'cumulative' needs degree, the most neighbours of a node")
        return _cumulative(model, draw, int(degree), nodes)
    if counter == "relay":
        return _relayed(model, draw, nodes)
    return _gossip(model, draw, counter, nodes)


@cache
def _gossip(model: Model, draw: Release, counter: str, nodes: int | None) -> Method:
    def init(key: Array, shard: Shard) -> State:
        own, about = draw(key, shard)
        one, none = jnp.ones((), _kind(own)), jnp.zeros((), _kind(own))
        nothing = {"estimate": jax.tree.map(jnp.zeros_like, own), "count": none}
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
            estimate = added(before["estimate"], heard["estimate"], own)
            return state._replace(value={**value, "estimate": estimate})
        seen = before["count"] + heard["count"] + 1
        merged = jax.tree.map(
            lambda a, b, c: before["count"] / seen * a + heard["count"] / seen * b + c / seen,
            before["estimate"], heard["estimate"], own,
        )  # fmt: skip
        count = heard["count"] + 1 if counter == "printed" else seen
        return state._replace(value={**value, "estimate": merged, "count": count})

    # what grows without end is the mean of nothing
    believed = aware(model, draw, None if counter == "unnormalised" else nodes)
    return Method(init, message, Slots(rule), adapt, _predict(believed, False), ranges=COUNTED)


@cache
def _push_sum(model: Model, draw: Release, nodes: int | None) -> Method:
    def init(key: Array, shard: Shard) -> State:
        own, about = draw(key, shard)
        return State({"estimate": own, "count": jnp.ones((), _kind(own))}, about)

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {})

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        half = jnp.full((), 0.5, inbox.weight.dtype)
        return half, jnp.where(inbox.weight > 0, half, 0)

    predict = _predict(*_shared(model, draw, nodes))
    return Method(init, message, Mean(weigh, total=True), _stay, predict, ranges=COUNTED)


@cache
def _cumulative(model: Model, draw: Release, degree: int, nodes: int | None) -> Method:
    if degree < 1:
        raise BadSetting(f"degree must be 1 or more, got {degree}")
    share = 1 / (degree + 1)

    def init(key: Array, shard: Shard) -> State:
        own, about = draw(key, shard)
        mass = {"estimate": own, "count": jnp.ones((), _kind(own))}
        zero = jax.tree.map(jnp.zeros_like, mass)
        value = {**mass, "given": zero, "got": zero, "neighbours": jnp.zeros((), _kind(own))}
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
        mass = {k: added(value[k], new[k]) for k in ("estimate", "count")}
        neighbours = (inbox.link > 0).sum().astype(value["count"].dtype)
        return {**value, **mass, "got": got, "neighbours": neighbours}

    def adapt(key: Array, state: State, shard: Shard) -> State:
        """Give every neighbour its share of this node's mass."""
        value = state.value
        own = {k: value[k] for k in ("estimate", "count")}
        gift = jax.tree.map(lambda a: relaying.rounded(share * a), own)
        given = jax.tree.map(jnp.add, value["given"], gift)
        left = jax.tree.map(lambda a, b: a - relaying.rounded(value["neighbours"] * b), own, gift)
        return state._replace(value={**value, **left, "given": given})

    predict = _predict(*_shared(model, draw, nodes))
    return Method(init, message, Slots(rule), adapt, predict, reply, ranges=COUNTED)


@cache
def _relayed(model: Model, draw: Release, nodes: int | None) -> Method:
    def init(key: Array, shard: Shard) -> State:
        own, about = draw(key, shard)
        relay = relaying.begin(jax.random.fold_in(key, 1), own)
        return State({"estimate": own, "count": relay["nodes"], "relay": relay}, about)

    def rule(value: dict[str, Tree], inbox: Inbox) -> dict[str, Tree]:
        relay = relaying.listened(value["relay"], inbox)
        return {"estimate": relaying.total(relay), "count": relay["nodes"], "relay": relay}

    return Method(
        init, relaying.silent, Slots(rule), _stay, _predict(*_shared(model, draw, nodes)),
        relaying.reply,
        ranges=relaying.RANGES,
    )  # fmt: skip


def _kind(s: Tree) -> Any:
    return by_class(s).dtype


def _stay(key: Array, state: State, shard: Shard) -> State:
    return state


def _shared(model: Model, draw: Release, nodes: int | None) -> tuple[Model, bool]:
    """The model of an estimate that stands for `count` nodes, and whether it must be divided."""
    believed = aware(model, draw, nodes)
    return believed, believed is not model


@cache
def _predict(model: Model, divided: bool) -> Callable[[Array, Tree, Array], Array]:
    def predict(key: Array, value: Tree, x: Array) -> Array:
        estimate = value["estimate"]
        if divided:
            count = jnp.maximum(value["count"], jnp.finfo(value["count"].dtype).tiny)
            estimate = jax.tree.map(lambda a: a / count, estimate)
        return log_posterior(model, estimate, x)

    return predict
