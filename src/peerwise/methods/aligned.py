"""Sums over all nodes of the same round: exact, over known members, the same bits at every node.

`relaying` gives every node the newest of each other. Here each member makes one term a round, from
the total of the round before, and a total is of one round. Terms are integers modulo 2^64
(`words`).

**Sums.** A node sends a neighbour on the agreed tree the sum of its own term and of what lies
behind its other neighbours, one bit for each node in it, and how many terms it has. Bits are added,
too. A node has the total once its own term and its neighbours' sums have the bits of all members
and as many terms as there are members: k powers of two add up to k different bits only if none is
there twice. Nothing is believed about trees: while one is rebuilt sums are late, not wrong. No node
is the root through which all must pass; a round takes as many messages as the tree is wide.

**Loss** only delays: a sum is sent until the neighbour has the total, and a total to any neighbour
that is behind. Nobody is more than a round ahead, since the next total needs everybody's next term.

**Epochs.** Members are all nodes of the charter, and a round waits for them. Where `least` allows
fewer, the root of the agreed tree, and nobody else, starts an epoch after `patience` rounds without
progress. Its record has a number, the root and the members: those whose terms of this round have
reached it. Records spread, and the highest (number, root) counts. A node that hears of one stops:
it takes no total and makes no term until it knows that all members have stopped, and the highest
total and term of any of them. The next round is the one after that term: a round under way is
void, and no term is ever summed under other members. A void round uses up one of the `rounds`, and
so what it costs. `least` is more than half, so that two epochs have a member in common and no two
parts of a network go on by themselves; it also bounds whom a root can shut out.

**Joining.** Nobody is taken back. Who was taken out relays sums, hears totals and may be the root
of the tree. Once it missed a total it is `lost`, as is a member whose state was set back, and
learns no more.

**Lies.** Nobody can check a term. A total that a neighbour tells must be of a round that there is,
and no number in it may be beyond what rows and noise can come to; the same holds of a sum that the
node completes itself. If that does not hold, masks did not cancel: somebody lies, or told some
nodes another total before. The node takes no such total; after a sum of its own it is `lost`, and
learns no more. Where masks did not cancel, each number passes with a chance of 1/2.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.core import Array, Inbox, Message, Range, Tree
from peerwise.methods import relaying, words

Sums = dict[str, Any]  # the state of a node
MISSED, SPOILT = 1, 2  # why a node is lost: it lacks a total, or a sum is none that rows can make
EPOCH = ("epoch", "chief", "members", "known", "high_done", "high_made")  # what all of one know
RANGES = (
    Range("part.news", 0),
    Range("part.clock", 0),
    Range("part.steps", 0, relaying.FAR),
    *(Range(f"part.{name}", 0) for name in ("epoch", "high_done", "high_made", "done", "round")),
    Range("part.count", 0),
    Range("part.fact", 0, 1),
)


class Aligned(NamedTuple):
    """Sums of `size` integers over `nodes` nodes, for so many rounds."""

    nodes: int
    size: int
    rounds: int
    least: int  # members that a sum must have
    patience: int = 256  # rounds without progress after which members that are missing are left out

    def begin(self, number: Array) -> Sums:
        """The state of the node of a number, from 0, before it has heard or made anything."""
        zero, everybody = jnp.zeros((), jnp.int32), jnp.asarray(words.everybody(self.nodes))
        nothing = jnp.zeros((self.size, 2), jnp.uint32)
        return {
            **relaying.alone(number.astype(jnp.uint32)),
            "epoch": zero,
            "chief": zero.astype(jnp.uint32),  # who started the epoch
            "members": everybody,
            "known": everybody,  # who is known to have stopped for this epoch
            "high_done": zero,  # the last round that a member had when it stopped
            "high_made": zero,  # and the last for which one had made a term
            "done": zero,  # the round of the last total
            "before": zero - 1,  # and of the total before it
            "total": nothing,
            "lost": zero,  # `MISSED` or `SPOILT`
            "made": zero,  # the round of the last term
            "term": nothing,
            "at": zero + 1,  # the round of the sum of what neighbours said
            "got": self._none(),
            "waited": zero,
        }

    def due(self, s: Sums) -> tuple[Array, Array]:
        """Whether the node is to make a term now, and of which round."""
        at = self.stage(s)
        ready = self.member(s) & self.together(s) & _caught(s) & (s["lost"] == 0)
        return ready & (s["made"] < at) & (at <= self.rounds), at

    def making(self, s: Sums, term: Array) -> Sums:
        """The state with a term of this round, if one is due; [size, 2] words."""
        due, at = self.due(s)
        return {
            **s,
            "term": jnp.where(due, term, s["term"]),
            "made": jnp.where(due, at, s["made"]),
        }

    def stage(self, s: Sums) -> Array:
        """The round that is summed next."""
        return jnp.maximum(s["high_made"], s["done"]) + 1

    def member(self, s: Sums) -> Array:
        """Whether the node is a member of its epoch."""
        return (self._bit(s) & s["members"]).any()

    def together(self, s: Sums) -> Array:
        """Whether all members are known to be in this epoch."""
        return ((s["known"] & s["members"]) == s["members"]).all()

    def said(self, s: Sums, part: Tree) -> Tree:
        """The reply to the neighbour whose last reply was `part` (None or blank: none yet)."""
        about = {k: s[k] for k in (*relaying.PLACE, *EPOCH, "done", "before")}
        if part is None:
            none = {**self._none(), "fact": jnp.zeros_like(s["done"]), "round": s["done"]}
            return {**about, **none}
        near = relaying.adjacent(s, part, s["clock"] - 1)  # as when the part was heard
        same = _same(s, part)
        fact = same & (part["done"] < s["done"]) & _caught(s)
        own = self._own(s, s["at"])
        counted = near & same & (part["fact"] == 0) & (part["round"] == s["at"])
        its = {k: jnp.where(counted, part[k], 0) for k in own}
        rest = jax.tree.map(lambda a: jnp.where(near, a, 0), _less(_more(s["got"], own), its))
        return {
            **about,
            "fact": fact.astype(jnp.int32),
            "round": jnp.where(fact, s["done"], s["at"]),
            "sum": jnp.where(fact, s["total"], rest["sum"]),
            "who": jnp.where(fact, 0, rest["who"]),
            "count": jnp.where(fact, 0, rest["count"]),
        }

    def listened(self, s: Sums, inbox: Inbox) -> Sums:
        """The state after a round: place in the tree, epoch, and the total once it is there."""
        parts = inbox.part
        s = relaying.in_time(s, parts)
        now = s["clock"]
        s = {**s, **relaying.placed(s, parts)}
        start = s
        if self.least < self.nodes:  # otherwise a sum has all members, and there are no epochs
            s = self._adopted(s, parts)
            s = _stopped(s, parts)
        s = self._told(s, parts)
        s = self._added(s, parts, now)
        s = self._waited(s, start)
        return {**s, "clock": now + 1}

    def _adopted(self, s: Sums, parts: Tree) -> Sums:
        """The highest epoch that was heard of; who takes it up stops."""
        valid = (parts["clock"] > 0) & (words.size_of(parts["members"]) >= self.least)
        valid = valid & ((parts["members"] & ~words.everybody(self.nodes)[None]) == 0).all(-1)
        epoch = jnp.where(valid, parts["epoch"], -1).max(initial=s["epoch"])
        among = valid & (parts["epoch"] == epoch)
        chief = jnp.where(among, parts["chief"], 0).max(initial=0)
        newer = among.any() & ((epoch > s["epoch"]) | (chief > s["chief"]))
        first = (among & (parts["chief"] == chief)).argmax()
        record = {"epoch": epoch, "chief": chief, "members": parts["members"][first]}
        return _choose(newer, self._stopping({**s, **record}), s)

    def _stopping(self, s: Sums) -> Sums:
        """The state at the start of an epoch whose record it has."""
        member = self.member(s)
        s = {
            **s,
            "known": jnp.where(member, self._bit(s), 0),
            "high_done": jnp.where(member, s["done"], 0),
            "high_made": jnp.where(member, s["made"], 0),
            "got": self._none(),
            "waited": jnp.zeros_like(s["waited"]),
        }
        return {**s, "at": self.stage(s)}  # past any term that was made

    def _told(self, s: Sums, parts: Tree) -> Sums:
        """The next total, if a neighbour has told it.

        It must be of this epoch, or the one at which all members have stopped: a node that was
        taken out may have another, of a round that is void for the members. A node that is lost
        takes it though it lacks the one before, so that it hands totals on, or starts an epoch as
        the root.
        """
        at = parts["round"]
        chain = (at == s["high_done"]) | (at > s["high_made"])
        next_ = (parts["before"] == s["done"]) | ~self.member(s) | (s["lost"] == MISSED)
        valid = _same(s, parts) & (parts["fact"] == 1) & chain & (at > s["done"]) & next_
        valid = valid & (at <= self.rounds) & words.is_sum(parts["sum"]).all(-1)
        valid &= s["lost"] != SPOILT
        first = valid.argmax()
        updated = self._with_total(s, at[first], parts["before"][first], parts["sum"][first])
        return _choose(valid.any() & self.together(s), updated, s)

    def _with_total(self, s: Sums, at: Array, before: Array, total: Array) -> Sums:
        missed = MISSED * (before != s["done"]).astype(jnp.int32)
        lost = jnp.maximum(s["lost"], missed)
        return {**s, "done": at, "before": before, "total": total, "lost": lost}

    def _added(self, s: Sums, parts: Tree, now: Array) -> Sums:
        """The sum of this round of what neighbours said; the total, if it is of all members."""
        at = self.stage(s)
        near = jax.vmap(lambda part: relaying.adjacent(s, part, now))(parts)
        counted = near & _same(s, parts) & (parts["fact"] == 0) & (parts["round"] == at)
        kept = {k: _where(counted, parts[k]) for k in ("sum", "who", "count")}
        got = {
            "sum": words.summed(kept["sum"]),
            "who": kept["who"].sum(0, dtype=jnp.uint32),
            "count": kept["count"].sum(0, dtype=jnp.int32),
        }
        whole = _more(got, self._own(s, at))
        every = (whole["who"] == s["members"]).all()
        every = every & (whole["count"] == words.size_of(s["members"]))
        every = every & self.together(s) & _caught(s)
        over = self._with_total(s, at, s["done"], whole["sum"])
        fits = words.is_sum(whole["sum"]).all()
        spoilt = jnp.where(every & ~fits, SPOILT, s["lost"])
        return _choose(
            every & fits,
            {**over, "at": at + 1, "got": self._none()},
            {**s, "at": at, "got": got, "lost": spoilt},
        )

    def _waited(self, s: Sums, start: Sums) -> Sums:
        """How long nothing has gone on; a root that has waited for too long starts an epoch."""
        kept = [s[k] == start[k] for k in ("epoch", "chief", "done")]
        still = kept[0] & kept[1] & kept[2] & (self.together(s) == self.together(start))
        waited = jnp.where(still & (self.stage(s) <= self.rounds), s["waited"] + 1, 0)
        s = {**s, "waited": waited}
        if self.least >= self.nodes:
            return s
        together = self.together(s)
        here = _more(s["got"], self._own(s, s["at"]))
        who = jnp.where(together, here["who"], s["known"] & s["members"])
        enough = words.size_of(who) >= self.least
        enough = enough & (~together | (words.size_of(who) == here["count"]))
        enough = enough & (who != s["members"]).any()  # itself may be missing, too
        record = {"epoch": s["epoch"] + 1, "chief": s["name"], "members": who}
        starts = (s["root"] == s["name"]) & (waited > self.patience) & enough
        return _choose(starts, self._stopping({**s, **record}), s)

    def _own(self, s: Sums, at: Array) -> Tree:
        """The node's own term of a round, if it has one."""
        counted = self.member(s) & (s["made"] == at)
        return {
            "sum": jnp.where(counted, s["term"], 0),
            "who": jnp.where(counted, self._bit(s), 0),
            "count": counted.astype(jnp.int32),
        }

    def _none(self) -> Tree:
        return {
            "sum": jnp.zeros((self.size, 2), jnp.uint32),
            "who": jnp.zeros(words.everybody(self.nodes).shape, jnp.uint32),
            "count": jnp.zeros((), jnp.int32),
        }

    def _bit(self, s: Sums) -> Array:
        return words.bit(s["name"], len(words.everybody(self.nodes)))


def silent(key: Array, state: Any) -> Message:
    """An empty message: what is summed goes to each neighbour in a reply of its own."""
    return Message(jnp.zeros(()), {})


def _stopped(s: Sums, parts: Tree) -> Sums:
    """Who is known to have stopped for this epoch, and what they had: all that anybody told."""
    same = _same(s, parts)

    def high(name: str) -> Array:
        return jnp.where(same, parts[name], 0).max(initial=s[name])

    known = s["known"] | words.union(_where(same, parts["known"]))
    return {**s, "known": known, "high_done": high("high_done"), "high_made": high("high_made")}


def _same(s: Sums, part: Tree) -> Array:
    """Whether a part was sent in this epoch; a blank part has no clock."""
    epoch = (part["epoch"] == s["epoch"]) & (part["chief"] == s["chief"])
    return epoch & (part["clock"] > 0)


def _caught(s: Sums) -> Array:
    """Whether a node has the last total of its epoch's members, or one of the epoch itself."""
    return (s["done"] == s["high_done"]) | (s["done"] > s["high_made"])


def _choose(yes: Array, a: Sums, b: Sums) -> Sums:
    return jax.tree.map(lambda p, q: jnp.where(yes, p, q), a, b)


def _where(keep: Array, values: Array) -> Array:
    return jnp.where(keep.reshape(-1, *[1] * (values.ndim - 1)), values, 0)


def _more(a: Tree, b: Tree) -> Tree:
    total = words.plus(a["sum"], b["sum"])
    return {"sum": total, "who": a["who"] + b["who"], "count": a["count"] + b["count"]}


def _less(a: Tree, b: Tree) -> Tree:
    total = words.minus(a["sum"], b["sum"])
    return {"sum": total, "who": a["who"] - b["who"], "count": a["count"] - b["count"]}
