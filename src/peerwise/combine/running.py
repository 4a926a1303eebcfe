"""A weighted mean of large messages, one after the other, instead of all of them side by side.

`one_node` is the definition. The same sums in the same order give the same bits here, and no more
than one message at a time is copied.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.combine.apply import _add, _back, _weights
from peerwise.core import Chart, Inbox, Mean, Slots, Tree

LARGE = 1 << 26  # bytes of all slots together from which on it is worth it

_more = jax.jit(
    lambda total, weight, value: jax.tree.map(lambda t, x: _add(t, weight, x), total, value),
    donate_argnums=0,
)


class Running:
    """A rule of the plain mean, for inboxes without values."""

    def __init__(self, rule: Mean, hears_itself: bool):
        self._rule = rule
        self._weights = jax.jit(partial(_weights, rule, hears_itself=hears_itself))
        self._end = jax.jit(self._ended)

    def __call__(self, own: Tree, note: Tree, inbox: Inbox, values: Iterable[Tree]) -> Tree:
        """One node's new value; `values` are those of the slots in order, any where weight is 0."""
        w_own, w, w_sum = self._weights(note, inbox)
        total = jax.tree.map(jnp.zeros_like, own)
        for weight, value in zip(np.asarray(w), values, strict=True):
            if weight > 0:  # another adds 0, which changes no bit
                # or copies of all messages would wait in line
                total = jax.block_until_ready(_more(total, weight, value))
        return self._end(own, total, w_own, w_sum, (np.asarray(w) <= 0).all())

    def _ended(self, own: Tree, total: Tree, w_own: Any, w_sum: Any, nobody: Any) -> Tree:
        rule = self._rule

        def leaf(x: Any, added: Any) -> Any:
            added = _add(added, w_own, x)
            return added if rule.total else added / w_sum.astype(x.dtype)

        return rule.step(own, _back(rule, own, jax.tree.map(leaf, own, total), nobody))


def running(
    rule: Mean | Slots, own: Tree, note: Tree, inbox: Inbox, hears_itself: bool
) -> Running | None:
    """What adds up messages one by one; None for a rule that needs them all, or is no plain mean.

    `inbox` is any of the shapes to come, its values given as shapes alone.
    """
    if isinstance(rule, Slots) or any(a is not b for a, b in zip(rule.chart, Chart(), strict=True)):
        return None
    if _reads_values(rule, note, inbox, hears_itself):
        return None
    return Running(rule, hears_itself)


def _reads_values(rule: Mean, note: Tree, inbox: Inbox, hears_itself: bool) -> bool:
    """Whether the weights depend on what was said, and not only on by whom."""

    def weights(value: Tree) -> Any:
        return _weights(rule, note, inbox._replace(value=value), hears_itself)

    traced = jax.make_jaxpr(weights)(inbox.value).jaxpr
    given = set(map(id, traced.invars))
    used = [v for step in traced.eqns for v in step.invars] + list(traced.outvars)
    return any(id(v) in given for v in used)
