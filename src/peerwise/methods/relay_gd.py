"""Relay for neural networks: gradient descent on all rows, with delay and without a server.

Every node adds up how far its own training moved the weights, and the sums of all nodes reach all
nodes exactly (`relaying`), each late by its distance. With one step a round on all of a node's rows
this is gradient descent on the rows of all nodes with late gradients; with more steps it is FedAvg
without a server, late too. This method is the project's own and in no paper.
"""

from dataclasses import replace
from functools import cache
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le

from peerwise.combine.weigh import alone
from peerwise.core import Array, Inbox, Method, Range, Shard, Slots, State, Tree
from peerwise.declare import declares
from peerwise.methods import leading, relaying
from peerwise.methods.neural import trained
from peerwise.nets.net import Net
from peerwise.update.losses import Loss, LossOption
from peerwise.update.training import Trained, Training

NAME = 1 << 20  # folded into the key of a node's name; training never folds it in
SUMS = (Range("part.sum.rows", -1e-3), Range("part.sum.age", -1e-3))  # with room for rounding


@declares("method", needs=("replies",))
def relay_gd(
    net: Net,
    *,
    lead: Annotated[
        float, Ge(0), Le(1), "share of its delay by which a sum is carried forward"
    ] = 1.0,
    damping: Annotated[float, Ge(0), "divides a training's move by 1 + damping x delay"] = 0.0,
    loss: LossOption = "cross_entropy",
    training: Training = Training(),
) -> Method:
    """Relay of weights: w = w0 + (sum over all nodes of rows x move) / (all rows).

    Each round a node trains from w on its own rows (as `decavg` and the others do) and adds how
    far w moved, times its rows, to its own sum; w0 is the same at all nodes. With `epochs=1` and a
    `batch` of all rows it is gradient descent on all rows, late by the distances; `steps` draws
    rows with replacement. Feedback that is d rounds late oscillates when steps are large:
    `damping` divides a training's move by 1 + damping d, where d is the mean age of what nodes
    know, averaged over all nodes. Every node relays the average rate of its sum, too, and sums are
    carried forward by it (`lead`; 0: not, and messages are half as long). `keep`: momentum goes on
    from round to round.
    """
    return _relayed(net, loss, float(lead), float(damping), training)


@cache
def _relayed(net: Net, loss: Loss, lead: float, damping: float, training: Training) -> Method:
    local = trained(net, loss, alone(), "common", training)
    first: Any = local.init
    later: Any = local.adapt

    def learnt(start: Tree, relayed: Tree) -> Tree:
        """The weights that follow from what is known of all nodes' trainings."""
        known = relaying.total(relayed)
        rows = jnp.where(known["rows"] > 0, known["rows"], 1)  # no rows anywhere: no move
        return jax.tree.map(lambda w, a: w + relaying.rounded(a / rows), start, known["moved"])

    def begin(key: Array, shard: Shard) -> Trained:
        now: Trained = first.begin(key, shard)  # the same training as of a node alone
        zero = jnp.zeros((), shard.x.dtype)
        rows = shard.weight.sum().astype(shard.x.dtype)
        nothing = jax.tree.map(jnp.zeros_like, now.weights)
        own = {"age": zero, "moved": nothing, "rows": rows}
        own |= {leading.RATE: leading.still(nothing)} if lead else {}
        relayed = relaying.begin(jax.random.fold_in(key[0], NAME), own)
        return _with(now, {"weights": now.weights, "start": now.weights, "relay": relayed})

    def again(key: Array, state: State, shard: Shard) -> Trained:
        inner = State(state.value["weights"], state.memory)
        return _with(later.begin(key, inner, shard), state.value)

    def end(now: Trained) -> State:
        kept = dict(now.kept)
        before = kept.pop("before")
        after, memory = later.end(now._replace(kept=kept))
        start, relayed = before["start"], before["relay"]
        own = relayed["own"]
        slower = 1 + damping * relaying.total(relayed)["age"] / relayed["nodes"]
        share = own["rows"] / slower

        def added(so_far: Array, new: Array, old: Array) -> Array:
            # initial weights may be unrounded products, too
            way = relaying.rounded(new) - relaying.rounded(old)
            return so_far + relaying.rounded(share * way)

        moved = jax.tree.map(added, own["moved"], after, before["weights"])
        rate = (
            {leading.RATE: leading.growing(own[leading.RATE], own["moved"], moved)} if lead else {}
        )
        own = {"age": relaying.delay(relayed), "moved": moved, "rows": own["rows"], **rate}
        relayed = relaying.renewed(relayed, own)
        value = {"weights": learnt(start, relayed), "start": start, "relay": relayed}
        return State(value, memory)

    def rule(value: Tree, inbox: Inbox) -> Tree:
        relayed = leading.listened(value["relay"], inbox, "moved", lead)
        return {
            "weights": learnt(value["start"], relayed),
            "start": value["start"],
            "relay": relayed,
        }

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return local.predict(key, value["weights"], x)

    init = replace(first, begin=begin, end=end)
    adapt = replace(later, begin=again, end=end)
    reply = leading.reply("moved", lead)
    return Method(
        init, relaying.silent, Slots(rule), adapt, predict, reply, common=True,
        ranges=(*relaying.RANGES, *SUMS),
    )  # fmt: skip


def _with(now: Trained, before: Tree) -> Trained:
    """A training that carries along the value from before it."""
    return now._replace(kept={**now.kept, "before": before})
