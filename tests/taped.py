"""Simulations of sealed sums whose terms are those that real peers made."""

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.methods import words
from peerwise.methods.sealed import Sealed
from peerwise.peer import sealing
from peerwise.simulate import simulate


class Taped(Sealed):
    """What a node does, with terms from a tape [sums, nodes, size, 2] in place of its own."""

    def __call__(self, key, state, shard):
        state = self.learnt(state)
        sums = state.value["sums"]
        _, at = self.sums.due(sums)
        return self.making(state, jnp.asarray(self.steps)[at - 1, sums["name"].astype(int)])


def recorded(monkeypatch, release=sealing.RELEASE):
    """By name and round: the terms of one kind of sum that peers make, before they are masked."""
    terms = {}
    masked = sealing.Sealing.masked

    def watched(self, term, sums):
        if self._release == release:
            at = int(self._sealed.sums.stage(sums))
            terms.setdefault((self._masks.me, at), []).append(term)
        return masked(self, term, sums)

    monkeypatch.setattr(sealing.Sealing, "masked", watched)
    return terms


def simulated(plans, agreed, tape):
    """The network of these plans in one program; `tape` are integers [sums, nodes, size]."""
    charter, learning = plans[0].charter, plans[0].learning
    x, y = np.concatenate([p.x for p in plans]), np.concatenate([p.y for p in plans])
    owned = np.split(np.arange(len(y)), np.cumsum([len(p.y) for p in plans])[:-1])
    parts = learning.assembled(learning.world(x, y, agreed)._replace(owned=owned))
    sealed = parts.method.adapt
    taped = Taped(sealed.sums, sealed.grid, sealed.learn, words.as_words(np.array(tape)), None)
    return simulate(
        parts.method._replace(adapt=taped), parts.shards, parts.links, charter.rounds,
        seed=charter.seed, exact=True, precision=charter.precision,
    )  # fmt: skip


def assert_same_model(run, values):
    """Every peer has the model and the totals of its node, to the bit; only terms are masked."""

    def told(value):
        sums = {k: v for k, v in value["sums"].items() if k not in ("term", "got")}
        return jax.tree.map(np.asarray, {**value, "sums": sums})

    for i, value in enumerate(values):
        ours, theirs = told(value), told(run.state.value)
        jax.tree.map(lambda a, b, i=i: np.testing.assert_array_equal(a, b[i]), ours, theirs)
