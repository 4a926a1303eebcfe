"""What a peer runs under a charter: the phases, and in each of them one node of the network."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np

from peerwise import data, runtime
from peerwise.channel import Channel
from peerwise.core import Array, Shard, State
from peerwise.errors import BadSetting
from peerwise.experiments.setting import NEURAL
from peerwise.methods.private_crc import clipped_update, noise_multiplier
from peerwise.methods.total import total
from peerwise.models.family import moved
from peerwise.models.registry import check_rows
from peerwise.models.tan import pair_counts
from peerwise.node import Memory, Node
from peerwise.peer.charter import Charter
from peerwise.peer.learning import Learning, constant
from peerwise.privacy import Ledger, Noise, private_statistics, vetted

__all__ = ["Plan"]

RELEASED_ONCE = ("gossip_nb", "robust_nb")


class _Inside:
    """A ledger whose charges are part of the transaction that is open."""

    def __init__(self, ledger: Ledger):
        self._ledger = ledger

    def check_schema(self, schema: str) -> None:
        self._ledger.check_schema(schema)

    def charge(self, *args: Any, **options: Any) -> int:
        return self._ledger.charge(*args, **options, inside=True)


class Plan:
    """The phases of one node: first what must be agreed, if anything, then learning.

    `table` holds the node's own rows; nothing of it leaves but what the method says. `noise` is
    what makes releases private; a tape in its place repeats a run.
    """

    def __init__(
        self,
        charter: Charter,
        name: str,
        table: data.Table,
        *,
        channel: Channel | None = None,
        noise: Noise = vetted,
    ):
        self.charter, self.name, self.index = charter, name, charter.index(name)
        self.learning = Learning(charter)
        self.topology, self.setting = self.learning.topology, self.learning.setting
        self.x, self.y = charter.rows(table)
        self._table = table
        self.channel, self._noise = channel, noise
        if channel is not None:
            channel.check(self.topology, charter.rounds.count)
        self.first, self.private = self.learning.agrees, self.learning.private
        self.phases = 2 if self.first else 1
        if self.first and self.private:
            raise BadSetting(
                "what must be agreed first is an exact sum over rows, which no privacy budget "
                "allows: give center and scale in the charter, and take naive_bayes"
            )

    def rounds(self, phase: int) -> int:
        """How many rounds a phase has."""
        if self.first and phase == 0:
            return 3 * nx.diameter(self.charter.graph()) + 1
        return self.charter.rounds.count

    def learns(self, phase: int) -> bool:
        """Whether this is the phase in which a model is learnt."""
        return phase == self.phases - 1

    def agreed(self, memory: Memory) -> dict[str, Any]:
        """What the first phase found, as plain values that go into a file."""
        return jax.tree.map(lambda a: np.asarray(a).tolist(), dict(memory.state.value["total"]))

    def node(self, phase: int, agreed: Mapping[str, Any] | None = None) -> Node:
        """The node of a phase, whose state goes on from somewhere."""
        return self._made(phase, agreed, None)

    def begin(
        self, phase: int, agreed: Mapping[str, Any] | None = None, ledger: Ledger | None = None
    ) -> tuple[Node, Memory]:
        """The node of a phase that begins. Private statistics are drawn here, and paid for.

        To be called in a transaction of the file of `ledger`, which also keeps what was drawn.
        """
        released = None
        if self.learns(phase) and self.private:
            if ledger is None:
                raise BadSetting("a private method needs a budget: [privacy] in the charter")
            if self.setting.method in RELEASED_ONCE:
                released = self._released(ledger)
            elif ledger.accountant == "basic":
                self._charge(ledger, self.setting.rounds)
        node = self._made(phase, agreed, released)
        return node, node.begin()

    def pay(self, phase: int, ledger: Ledger | None) -> None:
        """Pay for what one more round tells, in the transaction that is open."""
        per_round = ledger is not None and ledger.accountant != "basic"
        if (
            per_round
            and self.private
            and self.learns(phase)
            and self.setting.method == "private_crc"
        ):
            assert ledger is not None
            self._charge(ledger, 1)

    def encoded(self, x: np.ndarray, agreed: Mapping[str, Any] | None) -> np.ndarray:
        """Rows in the charter's units as the model sees them."""
        return self.learning.encoded(x, agreed)

    def _made(self, phase: int, agreed: Mapping[str, Any] | None, released: Any) -> Node:
        told: dict[str, Any] = {"seed": self.setting.seed}
        if self.first and phase == 0:
            schema = self.charter.schema()
            pairs = self.setting.model == "tan"
            count = _count(schema.cardinalities, len(schema.classes), pairs)
            shard = Shard(self.x.astype(np.float64), self.y, np.ones(len(self.y)))
            return Node(total(count), self.topology, self.index, shard, precision="float64", **told)
        x, adapt = self.encoded(self.x, agreed), None
        method = self.learning.method(agreed, released)
        if self.setting.method not in NEURAL:
            model = self.learning.model(agreed)
            check_rows(model, x, self.learning.schema(agreed))
            if self.private and self.setting.method == "private_crc":
                adapt = self._noised(model)
        kind = np.float32 if self.setting.precision == "float32" else np.float64
        shard = Shard(x.astype(kind), self.y, np.ones(len(self.y), kind))
        runtime.check(
            method, self.topology.n, self.topology, self.channel.lag if self.channel else 0, 1, [1],
            "adapt",
        )  # fmt: skip
        return Node(
            method, self.topology, self.index, shard, precision=self.setting.precision,
            channel=self.channel, adapt=adapt, **told,
        )  # fmt: skip

    def _released(self, ledger: Ledger) -> Any:
        """This node's statistics with noise that no seed repeats, drawn once and paid for."""
        s, schema = self.setting, self.charter.schema()
        bounds: dict[str, Any] = {}
        for told, feature in zip(self.charter.features, schema.features, strict=True):
            if feature.kind == "categorical":
                bounds[feature.name] = feature.categories
            elif told.low is not None and told.high is not None:
                bounds[feature.name] = (told.low, told.high)
            else:
                raise BadSetting(
                    f"a private release needs public bounds: give low and high of "
                    f"'{feature.name}' in the charter"
                )
        exact, _ = self.charter.rows(self._table, exact=True)  # a bound is no bound if rounded
        made = private_statistics(
            exact, self.y, schema, epsilon=float(s.epsilon or math.inf), bounds=bounds,
            ledger=_Inside(ledger), noise=self._noise, data="statistics of all rows",  # type: ignore[arg-type]
        )  # fmt: skip
        noisy = np.asarray(made.statistics.values)
        return constant(noisy, float(len(self.y)), float(s.epsilon or math.inf))

    def _charge(self, ledger: Ledger, rounds: int) -> None:
        from dp_accounting import get_epsilon_gaussian

        s = self.setting
        epsilon, delta = float(s.epsilon or math.inf), s.delta
        each = noise_multiplier(epsilon, delta, s.rounds)
        told = {"rounds": rounds, "clip": s.clip}
        if rounds == s.rounds:
            ledger.charge(
                "gaussian", told, epsilon, delta, data="updates of all rounds", inside=True
            )
            return
        cost = float(get_epsilon_gaussian(each, delta))
        ledger.charge(
            "gaussian", told, cost, delta, data="update of a round", multiplier=each, inside=True
        )

    def _noised(self, model: Any) -> Any:
        """The update of private CRC, with noise that does not come from a key."""
        s = self.setting
        std = noise_multiplier(float(s.epsilon or math.inf), s.delta, s.rounds) * s.clip
        update = jax.jit(clipped_update(model, float(s.clip)))

        def adapt(state: State, shard: Shard, t: int) -> State:
            found, guards = update(state.value, shard)
            exact = np.asarray(found, np.float64)
            noisy = self._noise("gaussian", exact, std)
            change = jnp.asarray(noisy, found.dtype)
            memory = {**state.memory, "guards": state.memory["guards"] + guards}
            return State(moved(state.value, change), memory)

        return adapt


@cache
def _count(cardinalities: tuple[int, ...], classes: int, pairs: bool) -> Any:
    """Counts, sums and sums of squares of every feature; of every pair of values for TAN."""
    pairwise = pair_counts(cardinalities, classes) if pairs else None

    def count(shard: Shard) -> dict[str, Array]:
        known = ~jnp.isnan(shard.x)
        x, w = jnp.where(known, shard.x, 0), shard.weight[:, None]
        found = {"count": (known * w).sum(0), "sum": (x * w).sum(0), "square": (x * x * w).sum(0)}
        if pairwise is not None:
            found["pairs"] = pairwise(shard.x, shard.y, shard.weight)
        return found

    return count
