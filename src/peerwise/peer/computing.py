"""The computing half of a peer: rounds and letters, from what was heard. It runs in a thread.

Nothing here is on the disk: what comes out of a round is adopted once it has been stored.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from peerwise.errors import Diverged, PeerwiseError
from peerwise.mailbox import finite
from peerwise.node import Letter, Memory, Node
from peerwise.peer.journal import log
from peerwise.peer.letters import Letters, Shelved
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import Compute, Computed, Place
from peerwise.peer.redo import settled
from peerwise.peer.store import Store
from peerwise.peer.wire import Format, pack_tree, unpack_tree
from peerwise.privacy import Overspent

LOOK = 10  # rounds between two looks at the error on the node's own rows
Heard = dict[str, tuple[Letter, int]]  # by neighbour: its letter, and the round it is of


class Outcome(NamedTuple):
    """What a round came to: a state, its bytes and its letters; a node where a phase begins."""

    memory: Memory
    packed: bytes
    bodies: dict[str, bytes]
    node: Node | None = None
    form: Format | None = None
    agreed: dict[str, Any] | None = None


class Computing:
    """One node of a charter, whose state goes from round to round."""

    def __init__(self, plan: Plan, letters: Letters, held_out: Any = None):
        self.plan, self.letters, self._held_out = plan, letters, held_out
        self.node: Node | None = None
        self.memory: Memory | None = None
        self.agreed: dict[str, Any] | None = None
        self.behind = -1  # the last phase of which it has sent a term that its file lacks

    def restore(self, place: Place, body: bytes, agreed: str | None) -> None:
        """Go on from a state that was kept."""
        self.agreed = None if agreed is None else json.loads(agreed)
        node = self.plan.node(place.phase, self.agreed)
        # the shape of the state, without drawing or training anything
        memory = unpack_tree(body, node.shape())
        self.letters.use(place.phase, self.letters.form(node, memory, self.agreed))
        self.node, self.memory = node, memory

    def begun(self, phase: int, agreed: dict[str, Any] | None, ledger: Any) -> Outcome:
        """The first state and letters of a phase; a release is drawn and paid for here."""
        node, memory = self.plan.begin(phase, agreed, ledger)
        form = self.letters.form(node, memory, agreed)
        bodies = self.letters.made(node, memory, form, Place(phase, 0))
        return Outcome(memory, pack_tree(memory), bodies, node, form, agreed)

    def adopt(self, outcome: Outcome, place: Place) -> None:
        """Go on from what has been stored."""
        self.memory = outcome.memory
        if outcome.node is not None and outcome.form is not None:
            self.node, self.agreed = outcome.node, outcome.agreed
            self.letters.use(place.phase, outcome.form)

    def partners(self, node: Node | None = None) -> tuple[str, ...]:
        """The neighbours whose letters count."""
        node = node or self.node
        assert node is not None
        names = self.plan.charter.names
        linked = {names[j] for j in node.neighbours}
        return tuple(n for n in self.plan.charter.neighbours(self.plan.name) if n in linked)

    def largest(self, phase: int) -> int:
        """Bytes of the largest letter that can come; more is not even read."""
        assert self.memory is not None
        most = self.plan.charter.limits.message_bytes
        sizes = [self.letters.of(phase).largest]
        if not self.plan.learns(phase):
            if self.plan.decides_sizes(phase):
                return most
            agreed = self.plan.agreed(phase, self.memory, self.agreed)
            node = self.plan.node(phase + 1, agreed)
            sizes.append(self.letters.form(node, node.shape(), agreed).largest)
        return min(max(sizes), most)

    def computed(self, wanted: Compute) -> Computed:
        """What a round comes to."""
        assert self.node is not None
        assert self.memory is not None
        if wanted.place.phase <= self.behind or wanted.said > wanted.place:
            self.memory = self.plan.put_back(wanted.place.phase, self.memory, wanted.said)
        if wanted.heard is None:
            outcome = self._after(self.memory, wanted)
            return Computed(outcome, outcome.bodies)
        offered = self._offered(wanted)
        heard = {n: (self._read(letter), sent) for n, (_, letter, sent) in offered.items()}
        outcome, used, why = self._settled(wanted, heard)
        phase, t = wanted.place
        return Computed(
            outcome,
            outcome.bodies,
            tuple(sorted(used)),
            tuple(name for name in heard if name not in used),
            {name: (offered[name][0], reason) for name, reason in why.items()},
            self._error(outcome.memory, phase, t + 1),
            None if outcome.node is None else self.partners(outcome.node),
        )

    def _offered(self, wanted: Compute) -> dict[str, tuple[Place, Letter | Shelved, int]]:
        """By neighbour that is heard: its letter with its place, and the round it counts for."""
        assert self.node is not None
        assert wanted.heard is not None
        by_name: Mapping[str, Mapping[int, tuple[Place, Any]]] = wanted.heard
        if not wanted.channel:
            return {n: (*one, t) for n, letters in by_name.items() for t, one in letters.items()}
        names = self.plan.charter.names
        chosen = ((names[j], t) for j, t in self.node.wanted(wanted.place.round).items())
        return {n: (*by_name[n][t], t) for n, t in chosen if t in by_name.get(n, {})}

    def _read(self, letter: Letter | Shelved) -> Letter:
        """A letter that is at hand; of one in a file what is needed at once."""
        if isinstance(letter, Letter):
            return letter
        assert self.node is not None
        # what a neighbour is replied to depends on its message, which the node then keeps
        return letter.whole() if self.node.method.reply is not None else letter.later()

    def _settled(
        self, wanted: Compute, heard: Heard
    ) -> tuple[Outcome, tuple[str, ...], dict[str, str]]:
        """What the round comes to, who was heard in it, and whose letters are put aside and why."""
        assert self.node is not None
        assert self.memory is not None
        node, memory = self.node, self.memory

        def attempt(names: tuple[str, ...]) -> Outcome:
            return self._tried(wanted, memory, {n: heard[n] for n in names})

        done = settled(attempt, list(heard))
        if done.result is not None:
            return done.result, done.heard, done.aside
        facts = {**wanted.place._asdict(), "why": done.why[:500]}
        log.warning("a round fails even without the neighbours", extra={"facts": facts})
        try:
            return self._tried(wanted, node.forgetting(memory), {}), (), {}
        except PeerwiseError:  # what could be sent before can be sent again
            return self._after(memory, wanted), (), {}

    def _tried(self, wanted: Compute, before: Memory, heard: Heard) -> Outcome:
        """State and letters after a round in which these are heard, and what begins after it.

        Fails where anything is out of the range that letters and models have.
        """
        assert self.node is not None
        by_index = {self.plan.charter.index(name): letter for name, letter in heard.items()}
        memory = self.node.step(before, wanted.place.round, by_index)
        if finite(before.state.value) and not finite(memory.state.value):
            raise Diverged("the model holds NaN or infinity")
        return self._after(memory, wanted)

    def _after(self, memory: Memory, wanted: Compute) -> Outcome:
        """The state and its letters for the place after the round; there a phase may begin."""
        assert self.node is not None
        place = wanted.after
        if place.phase > wanted.place.phase:  # such phases spend nothing: there is no ledger
            agreed = self.plan.agreed(wanted.place.phase, memory, self.agreed)
            return self.begun(place.phase, agreed, None)
        bodies: dict[str, bytes] = {}
        if place.round < self.plan.rounds(place.phase):
            bodies = self.letters.made(self.node, memory, self.letters.of(place.phase), place)
        return Outcome(memory, pack_tree(memory), bodies)

    def _error(self, memory: Memory, phase: int, t: int) -> float | None:
        """On rows held out, or on the node's own; seldom, for it costs a pass over them."""
        assert self.node is not None
        if not self.plan.learns(phase):
            return None
        if t % LOOK and t != self.plan.rounds(phase):
            return None
        x, y = self._held_out or (self.plan.x, self.plan.y)
        return self.node.error(memory, self.plan.encoded(x, self.agreed), y)


def begin(computing: Computing, store: Store) -> Outcome:
    """The first state and letters of a peer, paid for and on the disk at once."""
    plan, place = computing.plan, Place(0, 0)
    with store.transaction():
        store.draws()
        try:
            outcome = computing.begun(0, None, store.ledger)
        except Overspent as error:
            if not store.lost:
                raise
            raise Overspent(
                "the site's ledger says that this node has released under this charter before, in "
                f"another state: {error}. Go on with that state; if it is gone, the sites must "
                "agree on a new charter"
            ) from None
        # for whoever looks at the file without the code of a method
        store.set(phases=str(plan.phases), rounds=str(plan.rounds(plan.phases - 1)))
        if store.site is not None:
            store.set(ledger=str(store.site.head()))
        store.advance(place, outcome.packed, outcome.bodies)
    computing.adopt(outcome, place)
    return outcome
