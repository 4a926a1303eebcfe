"""Combination rules applied to one node, and to a whole network at once.

`one_node` is the definition. `network` does the same for every node of an array, slot by slot,
so that nothing of size [nodes, slots, parameters] is ever held.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.combine.packed import Packed
from peerwise.core import Array, Chart, Inbox, Mean, Method, Slots, State, Tree

TOGETHER = 64  # nodes whose slots a CPU gathers at the same time
GATHERED = 1 << 28  # bytes of slots that a GPU gathers at the same time
UNROLLED = 16  # up to so many slots are added without a loop, in one pass over the values


def all_finite(tree: Tree) -> Array:
    """For each entry along axis 0: whether everything it holds is finite."""

    def fine(leaf: Array) -> Array:
        flat = leaf.reshape(leaf.shape[0], -1)
        if jax.default_backend() == "cpu":  # there a matrix product is faster than a sum
            return jnp.matmul(flat, jnp.zeros(flat.shape[1], flat.dtype)) == 0
        return (flat * 0).sum(1) == 0  # a sum is faster than `all`

    leaves = jax.tree.leaves(tree)
    flags = [fine(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack(flags).all(0) if flags else jnp.ones(leaves[0].shape[0], bool)


def _weights(
    rule: Mean, note: Tree, inbox: Inbox, hears_itself: bool
) -> tuple[Array, Array, Array]:
    """Own and slot weights (0 if empty), and their sum; a node that hears nobody keeps its own."""
    own, heard = _on_server(rule, note, inbox) if hears_itself else rule.weigh(note, inbox)
    heard = jnp.where(inbox.weight > 0, heard, 0)
    total = own + heard.sum()
    if rule.total:
        return own, heard, total
    keeps = heard.sum() <= 0  # then own value * 1 / 1: unchanged to the bit
    return jnp.where(keeps, 1, own), heard, jnp.where(keeps, 1, total)


def _on_server(rule: Mean, note: Tree, inbox: Inbox) -> tuple[Array, Array]:
    """Weights on a server, where a node's own message is in a slot: no rule may read its note."""
    of_all = getattr(rule.weigh, "on_server", None)
    if of_all is None:
        own, heard = rule.weigh(jax.tree.map(jnp.zeros_like, note), inbox)
        return jnp.zeros_like(own), heard
    return jnp.zeros((), inbox.weight.dtype), of_all(inbox)


def _powers(rule: Mean, charted: Tree) -> Tree:
    power = rule.chart.power
    if callable(power):
        return power(charted)
    return jax.tree.map(lambda _: power, charted) if isinstance(power, int | float) else power


def _raise(weight: Array, power: float) -> Array:
    return weight if power == 1 else weight**power


def _add(total: Array, weight: Array, value: Array) -> Array:
    """total + weight * value, where a weight of 0 silences even NaN and infinity."""
    weight = weight.astype(value.dtype).reshape(weight.shape + (1,) * (value.ndim - weight.ndim))
    # The inner `where` changes no value. It keeps the compiler from fusing product and sum (FMA),
    # which rounds once instead of twice, in some programs and not in others.
    product = jnp.where(value == value, weight * value, value)
    return total + jnp.where(weight > 0, product, 0)


def _back(rule: Mean, own: Tree, mean: Tree, nobody: Array) -> Tree:
    """The mean mapped back; a node that hears nobody keeps its own value, skipping `chart.back`."""
    value = rule.chart.back(mean)
    if rule.total or rule.chart.back is Chart().back:
        return value
    return jax.tree.map(lambda before, merged: jnp.where(nobody, before, merged), own, value)


def _slot_by_slot(slots: int, add: Any, total: Array) -> Array:
    if slots <= UNROLLED:
        for k in range(slots):
            total = add(k, total)
        return total
    return jax.lax.fori_loop(0, slots, add, total)


def one_node(
    rule: Mean | Slots, own: Tree, note: Tree, inbox: Inbox, hears_itself: bool = False
) -> Tree:
    """One node's new value. `hears_itself`: its own message is among the slots (a server's answer).

    Slots are added in order, the node itself last, and the sum is divided by the sum of weights
    at the very end. All runtimes use this order, so that they agree to the bit.
    """
    if isinstance(rule, Slots):
        return _over_slots(rule, own, note, inbox, hears_itself)
    w_own, w, w_sum = _weights(rule, note, inbox, hears_itself)
    charted = rule.chart.to(own)

    def leaf(x: Array, heard: Array, power: float) -> Array:
        weights = _raise(w, power)
        total = _slot_by_slot(
            heard.shape[0], lambda k, s: _add(s, weights[k], heard[k]), jnp.zeros_like(x)
        )
        total = _add(total, _raise(w_own, power), x)
        return total if rule.total else total / _raise(w_sum, power).astype(x.dtype)

    mean = jax.tree.map(leaf, charted, jax.vmap(rule.chart.to)(inbox.value), _powers(rule, charted))
    return rule.step(own, _back(rule, own, mean, (w <= 0).all()))


def _over_slots(rule: Slots, own: Tree, note: Tree, inbox: Inbox, hears_itself: bool) -> Tree:
    if rule.weigh is None:
        return rule.rule(own, inbox)
    w_own, w, w_sum = _weights(Mean(rule.weigh), note, inbox, hears_itself)
    new = rule.rule(own, inbox, jnp.append(w, w_own) / w_sum)
    nobody = (w <= 0).all()
    return jax.tree.map(lambda before, merged: jnp.where(nobody, before, merged), own, new)


def take_parts(method: Method, state: State, part: Tree, weight: Array) -> State:
    """The node's state after `Method.take` of its neighbours' replies, summed slot by slot."""

    def leaf(parts: Array) -> Array:
        start = jnp.zeros(parts.shape[1:], parts.dtype)
        return _slot_by_slot(parts.shape[0], lambda k, s: _add(s, weight[k], parts[k]), start)

    return method.take(state, jax.tree.map(leaf, part))  # type: ignore[misc]


class Heard(NamedTuple):
    """The slots of some nodes of the network: who is in them and how they arrived."""

    nodes: Array | None  # [b] which nodes these are; None: all of them, in order
    src: Array  # [b, k]
    weight: Array  # [b, k]
    age: Array  # [b, k]
    page: Array | None  # [b, k] which of the kept rounds of messages; None: only this round is kept
    link: Array | None = None  # [b, k] link weight whether or not it arrived
    slot: Array | None = None  # [b, k] which of the links' parts; -1 = none

    def of(self, tree: Tree) -> Tree:
        """Entries of `tree` that belong to these nodes."""
        return tree if self.nodes is None else jax.tree.map(lambda a: a[self.nodes], tree)

    def pick(self, sent: Tree, k: Any) -> Tree:
        """What was sent by the neighbours in slot(s) k: [b, ...], or [b, k, ...] for all slots."""
        if self.page is None:
            return jax.tree.map(lambda a: a[self.src[:, k]], sent)
        page = self.page
        return jax.tree.map(lambda a: a[page[:, k], self.src[:, k]], sent)


def in_slots(parts: Packed | None, slot: Any) -> Tree:
    """Of the links' parts those in some slots; zeros where nobody is."""

    def at(a: Array) -> Array:
        there = (slot >= 0).reshape(slot.shape + (1,) * (a.ndim - 1))
        return jnp.where(there, a[slot], 0)

    return None if parts is None else jax.tree.map(at, parts).tree


def _mean(rule: Mean, own: Tree, note: Tree, sent: Tree, notes: Tree, heard: Heard) -> Tree:
    inbox = Inbox(None, heard.pick(notes, slice(None)), heard.weight, heard.age, None, heard.link)
    w_own, w, w_sum = jax.vmap(lambda a, b: _weights(rule, a, b, False))(note, inbox)
    charted = jax.vmap(rule.chart.to)(own)

    def leaf(x: Array, messages: Array, power: float) -> Array:
        weights = _raise(w, power)
        total = _slot_by_slot(
            w.shape[1],
            lambda k, s: _add(s, weights[:, k], heard.pick(messages, k)),
            jnp.zeros_like(x),
        )
        total = _add(total, _raise(w_own, power), x)
        if rule.total:
            return total
        share = _raise(w_sum, power).astype(x.dtype)
        return total / share.reshape(share.shape + (1,) * (x.ndim - 1))

    mean = jax.tree.map(leaf, charted, sent, _powers(rule, charted))
    nobody = (w <= 0).all(1)
    return jax.vmap(lambda o, m, none: rule.step(o, _back(rule, o, m, none)))(own, mean, nobody)


def _server_weights(rule: Mean, note: Tree, notes: Tree, heard: Heard) -> tuple[Array, Array]:
    """The weights of all messages and their sum, which all nodes share."""
    everyone = jax.tree.map(lambda a: a[0], heard.pick(notes, slice(None)))
    link = None if heard.link is None else heard.link[0]
    inbox = Inbox(None, everyone, heard.weight[0], heard.age[0], None, link)
    _, w, w_sum = _weights(rule, jax.tree.map(lambda a: a[0], note), inbox, True)
    return w, w_sum


def _server_mean(rule: Mean, own: Tree, note: Tree, sent: Tree, notes: Tree, heard: Heard) -> Tree:
    """New values of all nodes from one weighted mean."""
    w, w_sum = _server_weights(rule, note, notes, heard)
    nobody = (w <= 0).all()

    def leaf(x: Array, messages: Array, power: float) -> Array:
        heard_by_all = heard.pick(messages, slice(None))[0]
        weight = _raise(w, power).astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1))
        total = jnp.where(weight > 0, weight * heard_by_all, 0).sum(0)
        mean = total if rule.total else total / _raise(w_sum, power).astype(x.dtype)
        return jnp.where(nobody & (not rule.total), x, mean[None])

    charted = jax.vmap(rule.chart.to)(own)
    mean = jax.tree.map(leaf, charted, sent, _powers(rule, charted))
    return jax.vmap(lambda o, m: rule.step(o, _back(rule, o, m, nobody)))(own, mean)


def _chart_sent(rule: Mean, sent: Tree, pages: bool) -> Tree:
    to = jax.vmap(rule.chart.to)
    return jax.vmap(to)(sent) if pages else to(sent)


def _slotwise(
    rule: Any, own: Tree, note: Tree, sent: Tree, notes: Tree, heard: Heard, batch: int | None,
    parts: Packed | None = None,
) -> Tree:  # fmt: skip
    """New values, node after node, each gathering its slots: memory is slots x parameters."""

    def node(args: Any) -> Tree:
        value, own_note, src, weight, age, page, slot, link = args
        get = (lambda a: a[src]) if page is None else (lambda a: a[page, src])
        said, noted = jax.tree.map(get, (sent, notes))
        inbox = Inbox(said, noted, weight, age, in_slots(parts, slot), link)
        return rule(value, own_note, inbox)

    rows = (own, note, heard.src, heard.weight, heard.age, heard.page, heard.slot, heard.link)
    return jax.lax.map(node, rows, batch_size=batch)


def _together(sent: Tree, parts: Packed | None, heard: Heard) -> int:
    """How many nodes gather their slots at once."""
    if jax.default_backend() == "cpu":
        return TOGETHER
    nodes, slots = heard.src.shape
    values = [a[0] if heard.page is None else a[0, 0] for a in jax.tree.leaves(sent)]
    values += [a[0] for a in jax.tree.leaves(parts)]
    return min(nodes, max(TOGETHER, GATHERED // (slots * sum(a.nbytes for a in values))))


def _server_slots(
    rule: Slots, own: Tree, note: Tree, sent: Tree, notes: Tree, heard: Heard
) -> Tree:
    """New values of all nodes: one answer, computed at the first node without its own weight."""
    w, _ = _server_weights(Mean(rule.weigh), note, notes, heard)  # type: ignore[arg-type]
    nobody = (w <= 0).all()
    first, its_note = jax.tree.map(lambda a: a[:1], (own, note))
    new = _slotwise(_at_one(rule, True), first, its_note, sent, notes, heard, None)
    return jax.tree.map(lambda before, merged: jnp.where(nobody, before, merged), own, new)


def _at_one(rule: Slots, hears_itself: bool) -> Any:
    return lambda own, note, inbox: one_node(rule, own, note, inbox, hears_itself)


def _at_once(f: Callable[..., Tree], *rows: Any) -> Tree:
    return f(*rows)


def network(
    rule: Mean | Slots,
    own: Tree,
    note: Tree,
    sent: Tree,
    notes: Tree,
    heard: tuple[Heard, ...],
    one: Any = None,
    server: bool = False,
    by: Sequence[Callable[..., Tree]] = (),
    parts: Packed | None = None,
) -> Tree:
    """New values of all nodes. `sent` and `notes` hold a page per kept round where `page` is given.

    `parts` are the newest replies, by link.

    `one`: a stand-in for `one_node`, applied node after node (exact mode). `server`: `heard` is one
    row of slots that all nodes share. `by`, for each of `heard`: calls a function with rows of
    nodes, block after block; none: with all at once.
    """
    pages = heard[0].page is not None
    if server and isinstance(rule, Mean) and one is None:
        return _server_mean(rule, own, note, _chart_sent(rule, sent, pages), notes, heard[0])
    if server and isinstance(rule, Slots) and rule.weigh is not None and one is None:
        return _server_slots(rule, own, note, sent, notes, heard[0])
    if server:
        n = jax.tree.leaves(own)[0].shape[0]
        heard = (jax.tree.map(lambda a: jnp.broadcast_to(a, (n, *a.shape[1:])), heard[0]),)
    if one is not None:
        new = [_slotwise(one, h.of(own), h.of(note), sent, notes, h, None, parts) for h in heard]
    else:
        by = by or (_at_once,) * len(heard)
        some: Callable[..., Tree]
        if isinstance(rule, Slots):
            node = _at_one(rule, server)
            some = lambda value, noted, h: _slotwise(  # noqa: E731
                node, value, noted, sent, notes, h, _together(sent, parts, h), parts
            )
        else:
            charted = _chart_sent(rule, sent, pages)
            some = lambda value, noted, h: _mean(rule, value, noted, charted, notes, h)  # noqa: E731
        pairs = zip(by, heard, strict=True)
        new = [call(some, h.of(own), h.of(note), h) for call, h in pairs]
    if heard[0].nodes is None:
        return new[0]
    nodes: list[Array] = [h.nodes for h in heard]
    order = jnp.concatenate(nodes)
    place = jnp.zeros_like(order).at[order].set(jnp.arange(order.size, dtype=order.dtype))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[place], *new)
