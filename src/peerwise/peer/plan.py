"""What a peer runs under a charter: the phases, and in each of them one node of the network."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np

from peerwise import data, runtime
from peerwise.agreement import sum_rounds
from peerwise.channel import Channel
from peerwise.core import Range, Shard, State
from peerwise.declare import build
from peerwise.errors import BadData, BadSetting, extra
from peerwise.learner.firsts import sum_of
from peerwise.methods.aligned import SPOILT
from peerwise.methods.private_crc import noise_multiplier
from peerwise.methods.sealed_total import total_of
from peerwise.methods.total import total
from peerwise.models.family import Model, moved
from peerwise.node import Adapt, Memory, Node
from peerwise.peer.charter import Charter
from peerwise.peer.described import spends, unit_of
from peerwise.peer.identity import Identity
from peerwise.peer.learning import Learning, constant
from peerwise.peer.protocol.messages import Place
from peerwise.peer.roster import KeyNode
from peerwise.peer.sealing import RELEASE, Sealing, masks_of, used_mask, without_terms
from peerwise.peer.wire import LARGEST, NAMES
from peerwise.privacy import Ledger, Noise, private_statistics, vetted
from peerwise.privacy.mechanism import gaussian_sigma
from peerwise.privacy.shares import most_rows
from peerwise.privacy.sums import exact_update

# of the sums that a first phase finds: counts and squares
SUMMED = tuple(
    Range(f"{part}.{name}", 0)
    for part in ("below", "total")
    for name in ("model", "units.count", "units.square")
)


class Plan:
    """The phases of one node: first keys and what must be agreed, if anything, then learning.

    `table` holds the node's own rows; nothing of it leaves but what the method says. `channel` is
    one, or its description in canonical form. `noise` is what makes releases private; a tape in its
    place repeats a run.
    """

    def __init__(
        self,
        charter: Charter,
        name: str,
        table: data.Table,
        *,
        channel: Channel | Mapping[str, Any] | None = None,
        noise: Noise = vetted,
    ):
        self.charter, self.name, self.index = charter, name, charter.index(name)
        self.learning = Learning(charter)
        self.cell, self.private = self.learning.cell, self.learning.private
        self.topology = charter.topology()
        self.x, self.y = charter.rows(table)
        self._table, self._noise = table, noise
        facts = {"nodes": len(charter.nodes), "n": len(charter.nodes), "seed": charter.seed}
        self.channel: Channel | None = build("channel", channel, facts)
        if self.channel is not None:
            self.channel.check(self.topology, charter.rounds)
        # what each phase is for; the keys of masks come first, for every sum needs them
        self.kinds = ("keys",) * self.learning.sealed + ("units",) * self.learning.agrees
        self.kinds += (*self.learning.firsts, "learning")
        self.phases = len(self.kinds)
        self._identity: Identity | None = None
        self._secret: bytes | None = None
        self.drawn = 0  # the round before which noise was drawn, by a state that was put back

    def seal_with(self, identity: Identity | None, secret: bytes | None) -> None:
        """Have terms of sealed sums masked: who this node is, and the secret of its masks."""
        self._identity, self._secret = identity, secret

    def rounds(self, phase: int) -> int:
        """How many rounds a phase has."""
        if self.learns(phase):
            return self.charter.rounds
        if self.kinds[phase] in self.learning.firsts:
            return sum_rounds(self.charter.graph())
        return 3 * nx.diameter(self.charter.graph()) + 1

    def learns(self, phase: int) -> bool:
        """Whether this is the phase in which a model is learnt."""
        return phase == self.phases - 1

    def agreed(
        self, phase: int, memory: Memory, before: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """What a phase before learning found, and those before it, as plain values for a file."""
        kind, known = self.kinds[phase], dict(before or {})
        if kind == "keys":
            return {"keys": self._key_node().keys(memory)}
        if kind in self.learning.firsts:
            world = self.learning.world(self.x, self.y, before)
            total = total_of(sum_of(self.cell, world, kind), memory.state.value)
            if total is None:
                why = self.spoilt(phase, memory) or (
                    "a member added no term, because it lacks a mask key or its state was restored "
                    "from a backup"
                )
                raise BadSetting(
                    f"there is no sealed sum for '{kind}': {why}; all sites must start a new "
                    "charter"
                )
            return {**known, "first": {**known.get("first", {}), kind: total.tolist()}}
        sums = jax.tree.map(lambda a: np.asarray(a).tolist(), dict(memory.state.value["total"]))
        return {**known, **sums}

    def decides_sizes(self, phase: int) -> bool:
        """Whether it depends on what a phase finds how large later letters are."""
        kind, learning = self.kinds[phase], self.learning
        return kind in learning.firsts or (kind == "units" and learning.phase is not None)

    def seals(self, phase: int) -> bool:
        """Whether what is summed in a phase leaves masked."""
        kind = self.kinds[phase]
        return kind in self.learning.firsts or (self.learns(phase) and self.learning.sealed)

    def used_mask(self, phase: int, memory: Memory) -> tuple[int, str] | None:
        """The last mask that was used, by its round, and the hash of what it hides."""
        return used_mask(memory.state) if self.seals(phase) else None

    def asks(self, phase: int, node: Node, memory: Memory) -> bool:
        """Whether a peer that starts again must first hear what neighbours have of it.

        It may have been put back, with its ledger, and must neither mask another term of a sealed
        sum nor draw noise once more for a round that had some.
        """
        if not self.learning.sealed or not self.learns(phase):
            return self.learning.sealed or self.draws(phase)
        sealed: Any = node.method.adapt
        sums = memory.state.value["sums"]
        return not sums["lost"] and int(sealed.sums.stage(sums)) <= sealed.sums.rounds

    def spoilt(self, phase: int, memory: Memory) -> str | None:
        """Why a node learns no more from sealed sums, if a sum was none that rows can make."""
        if not self.seals(phase) or int(memory.state.value["sums"]["lost"]) != SPOILT:
            return None
        return (
            "the sum over all members is none that rows can make: a member lies, or somebody has "
            "told members totals that differ"
        )

    def put_back(self, phase: int, memory: Memory, said: Place) -> Memory:
        """The memory of a peer that has said more than it knows of, up to the place `said`."""
        if self.draws(phase):
            self.drawn = max(self.drawn, said.round)
        if not self.seals(phase):
            return memory
        why = "its state was restored from a backup"
        return memory._replace(state=without_terms(memory.state, why))

    def begin(
        self, phase: int, agreed: Mapping[str, Any] | None = None, ledger: Ledger | None = None
    ) -> tuple[Node, Memory]:
        """The node of a phase that begins. Private statistics are drawn here, and paid for.

        To be called in a transaction of the file of `ledger`, which also keeps what was drawn.
        """
        released = None
        if phase == 0 and self.private:  # before keys are told: what follows is paid for
            if ledger is None:
                raise BadSetting(
                    "a private method needs a privacy budget; add [budget] to the charter"
                )
            self.node(phase, agreed)  # a method that cannot run says so before anything is paid
            if self.learning.releases == "once":
                released = self._released(ledger)
            elif self.learning.sealed:
                self._charge_sums(ledger)
            elif ledger.accountant == "basic":
                self._charge(ledger, self.charter.rounds)
            elif ledger.above is not None:  # the site pays for all rounds before the first
                epsilon, delta, _ = self._privacy
                about = {"rounds": self.charter.rounds, "unit": unit_of(self.cell)}
                ledger.above.charge(
                    "gaussian", about, epsilon, delta, data="updates of all rounds",
                    multiplier=self._multiplier() / math.sqrt(self.charter.rounds),
                )  # fmt: skip
        node = self.node(phase, agreed, released)
        memory = node.begin()
        if not self.seals(phase) or agreed is None:
            return node, memory
        if missing := [n for n in self.charter.names if n not in agreed["keys"]]:
            why = f"no signed mask key of {', '.join(missing)} has come"
            memory = memory._replace(state=without_terms(memory.state, why))
        return node, memory

    def pay(self, phase: int, ledger: Ledger | None) -> None:
        """Pay for what one more round tells, in the transaction that is open."""
        if self.draws(phase) and ledger is not None and ledger.accountant != "basic":
            self._charge(ledger, 1)

    def draws(self, phase: int) -> bool:
        """Whether noise is drawn in every round of a phase."""
        return self.learns(phase) and self.learning.releases == "each round"

    def encoded(self, x: np.ndarray, agreed: Mapping[str, Any] | None) -> np.ndarray:
        """Rows in the charter's units as the model sees them."""
        return self.learning.encoded(x, agreed)

    def node(
        self, phase: int, agreed: Mapping[str, Any] | None = None, released: Any = None
    ) -> Node:
        """The node of a phase, whose state goes on from somewhere or begins with a release."""
        charter, learning = self.charter, self.learning
        if self.kinds[phase] == "keys":
            return self._key_node()
        if self.kinds[phase] in learning.firsts:
            # as in a simulation, values lie in parts of their range by all their digits
            exact, y = self.charter.rows(self._table, exact=True)
            world = learning.world(exact, y, agreed, exact=True)
            method = sum_of(self.cell, world, self.kinds[phase])
            shard = Shard(world.x, y, np.ones(len(y)))
            return Node(
                method, self.topology, self.index, shard, seed=charter.seed, precision="float64",
                adapt=self._sealing(method.adapt, agreed, self.kinds[phase]),
            )  # fmt: skip
        if not self.learns(phase):
            shard = Shard(self.x.astype(np.float64), self.y, np.ones(len(self.y)))
            return Node(
                total(learning.count(), SUMMED), self.topology, self.index, shard,
                seed=charter.seed, precision="float64",
            )  # fmt: skip
        world = learning.world(self.x, self.y, agreed, released)
        method, shards, links, _, _ = learning.assembled(world)
        adapt = self._sealing(method.adapt, agreed) if learning.sealed else None
        if learning.releases == "each round":
            adapt = self._noised(learning.model(world))
        lag = self.channel.lag if self.channel else 0
        runtime.check(method, links.n, links, lag, 1, [1], "adapt")
        return Node(
            method, links, self.index, shards.of(0), seed=charter.seed, channel=self.channel,
            precision=charter.precision, adapt=adapt,
        )  # fmt: skip

    def _key_node(self) -> KeyNode:
        return KeyNode(self.charter, self.name, self._identity, self._secret)

    def _sealing(
        self, sealed: Any, agreed: Mapping[str, Any] | None, release: str = RELEASE
    ) -> Adapt:
        """What makes this node's terms of sealed sums; masked once there are keys."""
        rows, masks = None, None
        if self.private:
            exact = self.charter.rows(self._table, exact=True)
            rows = self.learning.world(*exact, agreed, exact=True).x, exact[1]
        if self._secret is not None and agreed is not None:
            masks = masks_of(self.charter, self.name, sealed, self._secret, agreed["keys"])
        # masks of nodes that agreed on something else must not cancel: in other units a row moves
        # a sum by more than the noise of the others hides
        known = hashlib.sha256(json.dumps(agreed or {}, sort_keys=True).encode()).hexdigest()
        return Sealing(sealed, self.charter.names, rows, self._noise, masks, release, known)

    @property
    def _privacy(self) -> tuple[float, float, int]:
        """Epsilon, delta and the rows of one person that count."""
        assert self.charter.budget is not None
        epsilon, delta = spends(self.cell, self.charter.limits, self.charter.budget)
        return epsilon, delta, int(self.cell["privacy"]["person_rows"])

    def _released(self, ledger: Ledger) -> Any:
        """This node's statistics with noise that no seed repeats, drawn once and paid for."""
        schema, privacy = self.charter.schema(), self.cell["privacy"]
        epsilon, delta, person_rows = self._privacy
        terms = zip(self.charter.features, schema.features, strict=True)
        bounds = {f.name: t.bounds() if f.kind == "numeric" else f.categories for t, f in terms}
        options = dict(self.cell["model"])
        name = options.pop("name")
        exact, y = self.charter.rows(self._table, exact=True)  # a bound is no bound if rounded
        release = private_statistics(
            exact, y, schema, epsilon=epsilon, delta=delta, bounds=bounds, ledger=ledger,
            mechanism=privacy["mechanism"], split=privacy["split"], person_rows=person_rows,
            model=name, model_options=options, noise=self._noise, data="statistics of its rows",
            inside=True, person=privacy["person"],
        )  # fmt: skip
        noise = self.learning.noise(self.learning.model(self.learning.world(self.x, self.y)))
        values = self._sendable(release.statistics.values, self.charter.precision)
        return constant(values, float(len(self.y)), epsilon, noise)

    @staticmethod
    def _sendable(values: Any, kind: Any) -> Any:
        """Values with noise, as far as a letter can hold them: what follows from them is finite.

        If noise made a round fail, it would be drawn again, and neighbours would see which draws
        did not fail.
        """
        most = LARGEST[NAMES[np.dtype(kind)]]
        return jax.tree.map(lambda a: a.clip(-most, most), values)

    def _multiplier(self) -> float:
        """The noise of a round over what one row, or one person, can change."""
        epsilon, delta, _ = self._privacy
        return noise_multiplier(epsilon, delta, self.charter.rounds)

    def _charge(self, ledger: Ledger, rounds: int) -> None:
        get_epsilon_gaussian = extra("dp_accounting").get_epsilon_gaussian
        epsilon, delta, _ = self._privacy
        about = {"rounds": rounds, "clip": self.cell["method"]["clip"]}
        about["unit"] = unit_of(self.cell)
        # as one release with Gaussian noise, which a site's ledger may compose with others
        what, each = "updates of all rounds", self._multiplier() / math.sqrt(rounds)
        one = ledger.accountant != "basic"
        if one:
            what, each = "update of a round", self._multiplier()
            epsilon = float(get_epsilon_gaussian(each, delta))
        ledger.charge(
            "gaussian", about, epsilon, delta, data=what, multiplier=each, inside=True, covered=one
        )

    def _charge_sums(self, ledger: Ledger) -> None:
        """Pay for all sums to come: for the noise that honest members alone make together."""
        epsilon, delta, _ = self._privacy
        sealed: Any = self.learning.blank(None).method.adapt
        sums, grid = sealed.sums, sealed.grid
        if len(self.y) > (most := most_rows(sums.rounds)):
            raise BadData(
                f"a node may have {most} rows where several sums are added up, got {len(self.y)}; "
                "split the site into two nodes"
            )
        about = {"sums": sums.rounds, "members": sums.nodes, "least": sums.least}
        if self.learning.firsts:
            about |= {"first": ", ".join(self.learning.firsts), "of": self.cell["method"]["first"]}
        about |= {"honest": grid.honest, "unit": unit_of(self.cell)}
        ledger.charge(
            "gaussian", about, epsilon, delta, data="sealed sums over all nodes",
            multiplier=gaussian_sigma(1.0, epsilon, delta), inside=True,
        )  # fmt: skip

    def _noised(self, model: Model) -> Adapt:
        """The clipped update of a round, with noise that does not come from a key."""
        clip = float(self.cell["method"]["clip"])
        std = self._multiplier() * clip * self._privacy[2]
        theta, phi = jax.jit(model.theta), jax.jit(model.features)

        def features(x: np.ndarray) -> np.ndarray:
            with jax.enable_x64(True):
                return np.asarray(phi(jnp.asarray(x, jnp.float64)))

        def adapt(state: State, shard: Shard, t: int) -> State:
            if t < self.drawn:  # another draw about the same rows would be one more release
                return state
            fitted = theta(state.value)
            own = np.where(np.asarray(shard.weight) > 0, np.asarray(shard.y), -1)
            # in double precision on a grid: in any other one row can do more than `clip`
            change = exact_update(
                features, np.asarray(shard.x), own, np.asarray(fitted.weight, float), clip
            )
            kind = fitted.weight.dtype
            noisy = moved(state.value, jnp.asarray(self._noise("gaussian", change, std), kind))
            value = self._sendable(noisy, kind)
            memory = {**state.memory, "guards": state.memory["guards"] + fitted.guards}
            return State(value, memory)

        return adapt
