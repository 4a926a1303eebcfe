"""A peer at work: it sends its letters, waits for its neighbours', learns, and writes it all down.

Everything that must survive is in the store before anybody else may rely on it. Computing and the
disk have a thread each, so that neighbours are answered at any time.
"""

import asyncio
import hashlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import median
from typing import Any

import grpc
import grpc.aio

from peerwise.errors import Diverged, PeerwiseError
from peerwise.mailbox import finite
from peerwise.node import Letter, Memory, Node
from peerwise.peer.greeting import Greeting, greeting, refusal, said, summary
from peerwise.peer.identity import Identity
from peerwise.peer.journal import Sparing, log, security
from peerwise.peer.meters import Meters
from peerwise.peer.plan import Plan
from peerwise.peer.redo import settled
from peerwise.peer.store import Away, Came, Place, Store
from peerwise.peer.transport import Call, Code, Link, Refused, Server, told
from peerwise.peer.wire import BadLetter, BadNumbers, Envelope, Format, pack_tree, unpack_tree

POLL = 15.0  # seconds that a pull waits for a letter
LEAST_WAIT = 0.2  # seconds: an adaptive deadline is not shorter
PATIENCE = 4.0  # times the usual time that an adaptive deadline waits
RECENT = 9  # rounds of which an adaptive deadline takes the usual time
REGREET = (Code.UNAVAILABLE, Code.ABORTED, Code.FAILED_PRECONDITION)  # Hello says more
LOOK = 10  # rounds between two looks at the error on the node's own rows
Heard = dict[str, tuple[Letter, int]]  # by neighbour: its letter, and the round it is of


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they are over: `wait_for` may lose a cancellation (Python before 3.12)."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.2)
    await asyncio.gather(*tasks, return_exceptions=True)  # or Python says that nobody asked


class Options:
    """What is a peer's own business and not the charter's."""

    def __init__(
        self,
        listen: str | None = None,
        linger: float = 600.0,
        call_timeout: float = 30.0,
        held_out: Any = None,
        addresses: dict[str, str] | None = None,
        watch: float = 1.0,
    ):
        self.listen, self.linger, self.call_timeout = listen, linger, call_timeout
        self.held_out = held_out  # rows (x, y) in the charter's units to look at, or None
        self.addresses = addresses or {}  # of neighbours, where not those of the charter
        self.watch = watch  # seconds between two looks at what the operator wants


class Daemon:
    """One peer. `run` ends when all rounds are done, or with `stop`."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        identity: Identity,
        options: Options | None = None,
        meters: Meters | None = None,
    ):
        self.plan, self.store, self.identity = plan, store, identity
        self.options, self.meters = options or Options(), meters or Meters()
        charter = plan.charter
        self.charter, self.name, self._mark = charter, plan.name, charter.hash
        self.life = 0  # a number that grows with every start
        self.lacking: tuple[str, ...] = ()  # who waits for a letter that it was not given
        self._lives: dict[str, int] = {}  # the newest of each neighbour
        self._heads: dict[str, Place] = {}  # the newest letter that came of each
        self._first: dict[str, Place] = {}  # of each: nothing earlier comes any more
        self._said: dict[str, Place] = {}  # of each: what it has of ours, maybe of a former life
        self._last_posted = Place(0, -1)  # a round is on the disk before its letters are posted
        self._summary = summary(charter)
        self._sparing = Sparing()
        self.neighbours = charter.neighbours(plan.name)
        self.place = Place(0, 0)
        self.memory: Memory | None = None
        self.node: Node | None = None
        self.agreed: dict[str, Any] | None = None
        self._format: Format | None = None
        # None: the letter is in quarantine, and nobody waits for another
        self._heard: dict[str, dict[Place, Letter | None]] = {n: {} for n in self.neighbours}
        self.ejected: dict[str, str] = {}  # neighbours that the operator does not want, and why
        self._gone: set[str] = set()  # neighbours that have ejected this one
        self._used: dict[str, int] = {}  # async: the newest round of each that was used
        self._seen: dict[str, Place] = {}  # how far each neighbour has come
        self._arrived: dict[str, float] = {}  # when the last letter of each came
        self._lags: dict[str, deque[float]] = {}  # seconds of a round after which each was heard
        self._outgoing: dict[str, deque[Away]] = {name: deque() for name in self.neighbours}
        self._acknowledged: dict[str, Place] = {}
        self._fetched: dict[str, Place] = {}  # what was pulled from each, by one that only dials
        self._coming: list[tuple[Came, asyncio.Future[bool]]] = []  # not yet being written
        self._writing: asyncio.Task[None] | None = None
        self._news = asyncio.Event()  # something came in
        self._posted = {name: asyncio.Event() for name in self.neighbours}
        self._accepting: dict[str, set[asyncio.Task[None]]] = {n: set() for n in self.neighbours}
        self._closing = asyncio.Event()
        self._disk = ThreadPoolExecutor(1, "disk")
        self._mind = ThreadPoolExecutor(1, "mind")
        self._links: dict[str, Link] = {}
        self._server: Server | None = None
        self._troubles: dict[str, str] = {}

    # -- life ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End at the next moment at which nothing is half done."""
        self._closing.set()

    async def run(self) -> bool:
        """Work until all rounds are done (True) or until told to stop (False)."""
        tasks: list[asyncio.Task[Any]] = []
        try:
            await self._resume()
            own = self.options.listen or self.charter.nodes[self.name].address
            most = await self._in_mind(self._largest)
            if own:
                self._server = Server(self.identity, own, self.answer, most, self.admit)
                await self._server.start()
            for name in self.neighbours:
                address = self.options.addresses.get(name) or self.charter.nodes[name].address
                if address:
                    self._links[name] = Link(
                        self.identity, name, address, self._mark, most, self.life
                    )
                    tasks.append(asyncio.create_task(self._send(name)))
                    if not self.charter.nodes[self.name].address:
                        tasks.append(asyncio.create_task(self._fetch(name)))
            tasks.append(asyncio.create_task(self._watch()))
            self.meters.health.up()
            log.info("up", extra={"facts": {"at": own or "dials only", **self._where()}})
            work = asyncio.create_task(self._work())
            tasks.append(work)
            closing = asyncio.create_task(self._closing.wait())
            tasks.append(closing)
            # a task that fails must not be waited for in vain
            while not work.done() and not closing.done():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {work, closing}:
                    task.result()
                    tasks.remove(task)
            if work.done():
                work.result()
                self.meters.health.done()
                await self._linger()
            return work.done()
        finally:
            await _ended(tasks)
            if self._server is not None:
                await self._server.stop()
            for link in self._links.values():
                await link.close()
            with suppress(PeerwiseError):  # a receipt that is not written down comes again
                await self._in_disk(self._write_acknowledged)
            self._mind.shutdown()
            self._disk.shutdown()
            log.info("down", extra={"facts": self._where()})

    async def _in_disk(self, work: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work, *args)

    async def _in_mind(self, work: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._mind, work, *args)

    def _where(self) -> dict[str, Any]:
        return {"phase": self.place.phase, "round": self.place.round}

    async def _resume(self) -> None:
        """Go on where the file says, or begin."""
        self.life, self._lives = await self._in_disk(self.store.live)
        self._heads = await self._in_disk(self.store.heads)
        self.ejected = await self._in_disk(self.store.ejected)
        kept = await self._in_disk(self.store.progress)
        if kept is None:
            await self._in_mind(self._begin, 0, None, None)
        else:
            await self._in_mind(self._restore, *kept)
        self._last_posted = self.place
        for name in self.neighbours:
            self._outgoing[name].extend(await self._in_disk(self.store.unsent, name))
        await self._reload()

    async def _reload(self) -> None:
        """Take up what is only in the file: letters that came, and what the operator wants."""
        for one in await self._in_disk(self.store.aside):
            if one.place.phase == self.place.phase and one.sender in self._heard:
                self._heard[one.sender][one.place] = None
        for (sender, place), body in (await self._in_disk(self.store.inbox)).items():
            known = self._heard.get(sender, {}).get(place)
            if place.phase != self.place.phase or sender not in self._heard or known is not None:
                continue
            try:
                self._heard[sender][place] = self.format.decode(body)
            except BadNumbers:  # released by the operator, who knows better
                self._heard[sender][place] = self.format.decode(body, checked=False)
            self._saw(sender, place)
        wanted = await self._in_disk(self.store.ejected)
        for name in wanted.keys() - self.ejected.keys():
            log.warning("ejected", extra={"facts": {"neighbour": name, "why": wanted[name]}})
            if name in self._heard:
                self._heard[name].clear()
                self._outgoing[name].clear()
        back = self.ejected.keys() - wanted.keys()
        self.ejected = wanted
        for name in back & self._posted.keys():
            log.info("readmitted", extra={"facts": {"neighbour": name}})
            self._posted[name].set()
        self._news.set()

    async def _watch(self) -> None:
        """Notice when another process, such as `peerwise peer eject`, has written to the file."""
        seen = await self._in_disk(self.store.version)
        while True:
            await asyncio.sleep(self.options.watch)
            now = await self._in_disk(self.store.version)
            if now != seen:
                seen = now
                await self._reload()

    @property
    def format(self) -> Format:
        """How letters of this phase look."""
        assert self._format is not None
        return self._format

    def _use(self, node: Node, memory: Memory, place: Place) -> None:
        self.node, self.memory, self.place = node, memory, place
        self._format = self._format_of(node, memory, self.agreed)

    def _format_of(self, node: Node, memory: Memory, agreed: dict[str, Any] | None) -> Format:
        mark = None
        if agreed is not None:
            mark = hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()[:32]
        most = self.charter.limits.message_bytes
        return Format(node.like(memory), self._mark, most, node.method.ranges, mark)

    def _largest(self) -> int:
        """Bytes of the largest letter that can come; more is not even read."""
        assert self.memory is not None
        sizes = [self.format.largest]
        if not self.plan.learns(self.place.phase):
            if self.plan.learning.phase is not None:  # what is agreed decides how large
                return self.charter.limits.message_bytes
            agreed = self.plan.agreed(self.memory)
            node = self.plan.node(self.place.phase + 1, agreed)
            sizes.append(self._format_of(node, node.shape(), agreed).largest)
        return min(max(sizes), self.charter.limits.message_bytes)

    def _restore(self, place: Place, body: bytes) -> None:
        text = self.store.about().get("agreed")
        self.agreed = None if text is None else json.loads(text)
        node = self.plan.node(place.phase, self.agreed)
        # the shape of the state, without drawing or training anything
        shape = node.shape()
        self._use(node, unpack_tree(body, shape), place)

    def _begun(
        self, phase: int, agreed: dict[str, Any] | None
    ) -> tuple[Node, Memory, dict[str, bytes]]:
        """The node of a phase that begins, its first state and its first letters."""
        node, memory = self.plan.begin(phase, agreed, self.store.ledger)
        form = self._format_of(node, memory, agreed)
        return node, memory, self._bodies(node, memory, form, Place(phase, 0))

    def _begin(
        self,
        phase: int,
        agreed: dict[str, Any] | None,
        done: Any,
        begun: tuple[Node, Memory, dict[str, bytes]] | None = None,
        aside: dict[str, tuple[Place, str]] | None = None,
    ) -> None:
        """The first state and letters of a phase, paid for and on the disk at once."""
        place = Place(phase, 0)
        with self.store.transaction():
            node, memory, bodies = begun or self._begun(phase, agreed)
            if agreed is not None:
                self.store.set(agreed=json.dumps(agreed))
            plan = self.plan  # for whoever looks at the file without the code of a method
            self.store.set(phases=str(plan.phases), rounds=str(plan.rounds(plan.phases - 1)))
            self._write_aside_inside(aside or {})
            self.store.advance(place, pack_tree(memory), bodies, done)
            self._write_acknowledged_inside()
        self.agreed = agreed
        self._use(node, memory, place)
        self._queue = bodies

    # -- learning --------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Round after round."""
        while self.place.phase < self.plan.phases:
            if self.place.round >= self.plan.rounds(self.place.phase):
                break
            await self._join()
            clock = time.monotonic()
            heard, missed = await self._gather(clock)
            if not heard and self._ahead is not None:
                continue  # neighbours said meanwhile that this round is over
            aside = await self._in_mind(self._round, heard, missed, clock)
            self._forget(aside)
            self._post()

    def _round(self, heard: Heard, missed: list[str], clock: float) -> dict[str, tuple[Place, str]]:
        """One round, from what was heard to what is on the disk; whose letters are put aside."""
        phase, t = self.place
        (memory, begun, bodies), used, aside = self._settled(heard)
        missed = sorted({*missed, *(heard.keys() - set(used))})
        error = self._error(memory, t + 1)
        seconds = time.monotonic() - clock
        done = (self.place, sorted(used), missed, seconds, error)
        self.meters.round(phase, t + 1, len(used), len(missed), seconds, error)
        if begun is not None:
            self._begin(phase + 1, self.plan.agreed(memory), done, begun, aside)
            log.info("agreed", extra={"facts": self._where()})
            return aside
        place = Place(phase, t + 1)
        lag = self.plan.channel.lag if self.plan.channel is not None else 0
        if self._lasting:  # letters are in use for as long as they are not stale
            lag = self.charter.pace.staleness
        with self.store.transaction():
            self.plan.pay(phase, self.store.ledger)
            self._write_acknowledged_inside()
            self._write_aside_inside(aside)
            newest = self.charter.pace.mode != "wait" and self.plan.learns(phase)
            self.store.advance(place, pack_tree(memory), bodies, done, lag + 1, newest)
        self.memory, self.place, self._queue = memory, place, bodies
        if self.store.ledger is not None:
            self.meters.spent(self.store.ledger.total().epsilon)
        log.info(
            "round",
            extra={"facts": {"phase": phase, "round": t + 1, "heard": len(used),
                             "missed": missed, "seconds": round(seconds, 4), "error": error}},
        )  # fmt: skip
        return aside

    def _settled(self, heard: Heard) -> tuple[Any, tuple[str, ...], dict[str, tuple[Place, str]]]:
        """What the round comes to, who was heard in it, and whose letters are put aside and why."""
        assert self.node is not None
        assert self.memory is not None
        node, memory = self.node, self.memory
        done = settled(lambda names: self._tried(memory, {n: heard[n] for n in names}), list(heard))
        if done.result is None:
            log.warning("a round that fails with and without the neighbours",
                        extra={"facts": {**self._where(), "why": done.why[:500]}})  # fmt: skip
            try:
                return self._tried(node.forgetting(memory), {}), (), {}
            except PeerwiseError:  # what could be sent before can be sent again
                return self._after(memory), (), {}
        aside = {}
        for name, why in done.aside.items():
            letters = self._heard[name]  # one that lasts is of another round than this one
            place = next(p for p, letter in letters.items() if letter is heard[name][0])
            aside[name] = place, why
            self._log_aside(name, place, why)
        return done.result, done.heard, aside

    def _tried(self, before: Memory, heard: Heard) -> tuple[Memory, Any, dict[str, bytes]]:
        """State and letters after a round in which these are heard, and what begins after it.

        Fails where anything is out of the range that letters and models have.
        """
        assert self.node is not None
        t = self.place.round
        by_index = {self.charter.index(name): told for name, told in heard.items()}
        memory = self.node.step(before, t, by_index)
        if finite(before.state.value) and not finite(memory.state.value):
            raise Diverged("the model holds NaN or infinity")
        return self._after(memory)

    def _after(self, memory: Memory) -> tuple[Memory, Any, dict[str, bytes]]:
        """The state, what begins with it, and the letters that follow from it."""
        assert self.node is not None
        phase, t = self.place
        if t + 1 < self.plan.rounds(phase):
            place = Place(phase, t + 1)
            return memory, None, self._bodies(self.node, memory, self.format, place)
        if self.plan.learns(phase):
            return memory, None, {}
        return memory, self._begun(phase + 1, self.plan.agreed(memory)), {}

    def _log_aside(self, sender: str, place: Place, why: str) -> None:
        self.meters.refused("quarantine")
        facts = {"sender": sender, "phase": place.phase, "round": place.round, "why": why[:500]}
        log.warning("quarantine", extra={"facts": facts})

    def _write_aside_inside(self, aside: dict[str, tuple[Place, str]]) -> None:
        for name, (place, why) in aside.items():
            self.store.put_aside(name, place, why, None, inside=True)

    def _forget(self, aside: dict[str, tuple[Place, str]]) -> None:
        """Drop letters that are used up or put aside; where letters come in, and not beside it."""
        for name, (place, _) in aside.items():
            self._heard[name][place] = None
        lag = self.plan.channel.lag if self.plan.channel is not None else 0
        least = 0 if self._lasting else self.place.round - lag
        for letters in self._heard.values():
            for old in [p for p in letters if p < Place(self.place.phase, least)]:
                del letters[old]

    @property
    def _lasting(self) -> bool:
        """Whether letters stay until newer ones come."""
        return self.charter.pace.mode == "async" and self.plan.learns(self.place.phase)

    def _bodies(self, node: Node, memory: Memory, form: Format, place: Place) -> dict[str, bytes]:
        """The letters of a round as bytes; those that are equal are the same bytes."""
        letters = node.letters(memory, place.round)
        envelope = Envelope(self.name, *place)
        same: dict[int, bytes] = {}
        bodies = {}
        for j, letter in letters.items():
            name = self.charter.names[j]
            if name in self.ejected:
                continue
            key = id(letter.message) if letter.part is None else -1 - j
            if key not in same:
                same[key] = form.encode(letter, envelope)
            bodies[name] = same[key]
        return bodies

    def _error(self, memory: Memory, t: int) -> float | None:
        """On rows held out, or on the node's own; seldom, for it costs a pass over them."""
        assert self.node is not None
        if not self.plan.learns(self.place.phase):
            return None
        if t % LOOK and t != self.plan.rounds(self.place.phase):
            return None
        x, y = self.options.held_out or (self.plan.x, self.plan.y)
        return self.node.error(memory, self.plan.encoded(x, self.agreed), y)

    # -- hearing ---------------------------------------------------------------------------------

    @property
    def _partners(self) -> list[str]:
        """The neighbours whose letters count in this phase: none where nodes learn alone."""
        assert self.node is not None
        return [
            n
            for n in self.neighbours
            if n not in self.ejected and self.charter.index(n) in self.node.neighbours
        ]

    async def _gather(self, clock: float) -> tuple[Heard, list[str]]:
        """The letters of this round and the neighbours that have none."""
        mode = self.charter.pace.mode if self.plan.learns(self.place.phase) else "wait"
        if mode == "async":
            return await self._newest(clock)
        # neighbours that start later than we do are not late
        first = self.place.round == 0
        terms = self.charter.pace
        limit = math.inf if mode == "wait" else terms.start if first else terms.deadline
        while True:
            self._news.clear()
            missing = [n for n in self._partners if self.place not in self._heard[n]]
            waiting = [n for n in missing if n not in self._gone and not self._is_gap(n)]
            if mode == "deadline":  # who has gone on sends the newest only: this round's is gone
                waiting = [n for n in waiting if self._seen.get(n, self.place) <= self.place]
            passed = time.monotonic() - clock
            self.meters.waiting(waiting)
            if mode == "deadline" and terms.adaptive and not first:
                limit = self._adapted(waiting)
            if not waiting or passed >= limit:
                break
            try:
                await asyncio.wait_for(self._news.wait(), min(limit - passed, 60.0))
            except TimeoutError:
                if mode == "wait":
                    log.info("waiting", extra={"facts": {**self._where(), "for": waiting}})
        for name in self._partners:
            if name not in missing:
                late = max(self._arrived.get(name, clock) - clock, 0.0)
                self._lags.setdefault(name, deque(maxlen=RECENT)).append(late)
        assert self.node is not None
        wanted = await self._in_mind(self.node.wanted, self.place.round)
        heard: Heard = {}
        for j, sent in wanted.items():
            name = self.charter.names[j]
            letter = self._heard[name].get(Place(self.place.phase, sent))
            if letter is not None:
                heard[name] = letter, sent
        aside = [n for n in self._partners if self._heard[n].get(self.place, 0) is None]
        return heard, [*missing, *aside]

    def _is_gap(self, name: str) -> bool:
        """Whether a neighbour has said that it has no letter for this round."""
        return self.place < self._first.get(name, self.place)

    def _adapted(self, waiting: list[str]) -> float:
        """How long the rest is worth waiting for: some times as long as it usually takes."""
        usual = [median(self._lags[n]) if n in self._lags else math.inf for n in waiting]
        wait = max(LEAST_WAIT, PATIENCE * max(usual, default=0.0))
        return min(wait, self.charter.pace.deadline)

    async def _newest(self, clock: float) -> tuple[Heard, list[str]]:
        """The newest letter of each neighbour, once there is anything new."""
        limit, bound = self.charter.pace.deadline, self.charter.pace.staleness
        if self.place.round == 0:
            limit = self.charter.pace.start

        def newest(name: str) -> Place | None:
            letters = self._heard[name].items()
            return max((p for p, letter in letters if letter is not None), default=None)

        def last(place: Place | None) -> bool:
            return place is not None and place.round == self.plan.rounds(place.phase) - 1

        while True:
            self._news.clear()
            known = [newest(n) for n in self._partners]
            new = [
                p is not None and p.round > self._used.get(n, -1)
                for n, p in zip(self._partners, known, strict=True)
            ]
            # nothing newer comes from those that are done
            fresh = all(new) if self.place.round == 0 else any(new) or all(map(last, known))
            passed = time.monotonic() - clock
            if fresh or passed >= limit:
                break
            try:
                await asyncio.wait_for(self._news.wait(), limit - passed)
            except TimeoutError:
                break
        heard: Heard = {}
        missed: list[str] = []
        for name in self._partners:
            place = newest(name)
            letter = None if place is None else self._heard[name][place]
            old = place is None or self.place.round - place.round > bound
            if place is None or letter is None or (old and not last(place)):
                missed.append(name)
                continue
            self._used[name] = place.round
            heard[name] = letter, min(place.round, self.place.round)
        return heard, missed

    async def _join(self) -> None:
        """A peer that was away goes on in the round in which its neighbours are."""
        if not self._partners or not self.plan.learns(self.place.phase):
            return
        if self.charter.pace.mode == "wait":
            await self._catch_up()
        if self.charter.pace.mode != "deadline":
            return
        seen = [self._seen.get(n, self.place) for n in self._partners]
        rounds = sorted(p.round if p.phase == self.place.phase else self.place.round for p in seen)
        # with neighbours of whom more than half are honest, an honest one is as far
        there = min(rounds[(len(rounds) - 1) // 2], self.plan.rounds(self.place.phase) - 1)
        if there <= self.place.round + 1:
            return
        log.info("joins", extra={"facts": {**self._where(), "at": there}})
        await self._in_mind(self._jump, there)
        self._post()

    @property
    def _ahead(self) -> int | None:
        """The first round that a neighbour still has a letter for, if none has one for ours."""
        if self.charter.pace.mode != "wait" or not self.plan.learns(self.place.phase):
            return None
        firsts = [self._first.get(n, self.place) for n in self._partners if n not in self._gone]
        there = min(firsts, default=self.place)
        last = self.plan.rounds(self.place.phase) - 1
        here = any(self.place in self._heard[n] for n in self._partners)
        if here or there.phase != self.place.phase:
            return None
        return min(there.round, last) if self.place.round < min(there.round, last) else None

    async def _catch_up(self) -> None:
        """Go on where the neighbours are, from whom nothing comes for the rounds before."""
        there = self._ahead
        if there is None:
            return
        log.warning("catches up", extra={"facts": {**self._where(), "at": there}})
        await self._in_mind(self._jump, there)
        self._post()

    def _jump(self, there: int) -> None:
        assert self.node is not None
        assert self.memory is not None
        place = Place(self.place.phase, there)
        bodies = self._bodies(self.node, self.memory, self.format, place)
        with self.store.transaction():
            self._write_acknowledged_inside()
            self.store.advance(place, pack_tree(self.memory), bodies, newest=True)
        self.place, self._queue = place, bodies

    def _saw(self, name: str, place: Place) -> None:
        if place > self._seen.get(name, Place(-1, -1)):
            self._seen[name] = place

    async def answer(self, call: Call) -> bytes:
        """What a caller is told; `Refused` where it has nothing to ask or to say here."""
        try:
            return await self._answered(call)
        except Refused as error:
            self._refused(call, error)
            raise

    def _refused(self, call: Call, error: Refused) -> None:
        """Count a call that was refused, and write it down unless its caller is refused often."""
        self.meters.refused(error.kind)
        left = self._sparing.left_out(call.caller)
        if left is None:
            return
        facts = {"caller": call.caller, "address": call.address, "method": call.method,
                 "why": error.why[:500], **({"left out before": left} if left else {})}  # fmt: skip
        security.warning("refused", extra={"facts": facts})

    def admit(self, call: Call) -> None:
        """Refuse a caller that has nothing to say here, before anything of what it says is read."""
        try:
            self._admitted(call)
        except Refused as error:
            self._refused(call, error)
            raise

    def _admitted(self, call: Call) -> None:
        caller = call.caller
        if call.expired:
            why = f"the certificate of {caller} has expired; renew it and start again"
            raise Refused(Code.UNAUTHENTICATED, why, "expired")
        if caller not in self.neighbours:
            why = f"'{caller}' is no neighbour of {self.name}"
            raise Refused(Code.PERMISSION_DENIED, why, "stranger")
        if caller in self.ejected:
            raise Refused(Code.ABORTED, f"{self.name} has ejected {caller}", "ejected")
        if call.life < self._lives.get(caller, 0):
            why = (
                f"another copy of {caller} runs that was started later; stop one of them, or, if "
                "there is none, set the clock"
            )
            raise Refused(Code.FAILED_PRECONDITION, why, "copy")
        if call.method != "Hello" and call.charter != self._mark:
            why = "another charter; say Hello with yours to learn what differs"
            raise Refused(Code.FAILED_PRECONDITION, why, "charter")

    async def _answered(self, call: Call) -> bytes:
        self._gone.discard(call.caller)
        if call.method == "Hello":
            return await self._hello(call)
        if call.method == "Push":
            self._admitted(call)  # while its letter came, a newer copy may have said Hello
            await self._accepted(call.caller, call.body)
            return self._told()
        return await self._handed(call)

    def _told(self) -> bytes:
        return json.dumps({**self._where(), "life": self.life}).encode()

    def _greeting(self, name: str) -> bytes:
        """What a neighbour is told first."""
        line, last = self._outgoing[name], self._last_posted
        first = line[0].place if line else Place(last.phase, last.round + 1)
        return greeting(
            {
                **self._where(),
                "life": self.life,
                "knows": self._lives.get(name, 0),
                "first": first,
                "have": self._heads.get(name),
            },
            self._summary,
        )

    async def _hello(self, call: Call) -> bytes:
        same = call.charter == self._mark
        why = refusal(call.body, self._summary, same, self.name, call.caller)
        if why is not None:
            raise Refused(Code.FAILED_PRECONDITION, why, "greeting")
        await self._greeted(call.caller, said(call.body)._replace(life=call.life))
        # what a former life pushed is counted among what we have
        await asyncio.gather(*self._accepting[call.caller], return_exceptions=True)
        return self._greeting(call.caller)

    async def _greeted(self, name: str, heard: Greeting) -> None:
        """Take note of what a neighbour said first, in a call or in its answer."""
        if heard.life > self._lives.get(name, 0):
            self._lives[name] = heard.life
            await self._in_disk(self.store.lives, name, heard.life)
            await self._new_life(name, heard)
        if heard.have is not None:
            self._already_said(name, heard.have)
        if heard.first is not None and heard.knows == self.life:
            self._first[name] = heard.first
        if heard.place is not None:
            self._saw(name, heard.place)
        self._news.set()

    async def _new_life(self, name: str, heard: Greeting) -> None:
        """A neighbour was started again, maybe from a backup: it may lack what it had."""
        seen = self._seen.pop(name, None)
        self._first.pop(name, None)
        if heard.place is None:
            return
        if seen is not None and heard.place < seen:
            facts = {"neighbour": name, "was at": seen, "is at": heard.place}
            log.warning("a neighbour has gone back", extra={"facts": facts})
        have = heard.have or Place(0, -1)
        since = max(heard.place, Place(have.phase, have.round + 1))
        kept = await self._in_disk(self.store.kept, name, since)
        line = self._outgoing[name]  # with what was posted meanwhile
        letters = {away.place: away for away in (*kept, *line) if away.place >= since}
        line.clear()
        line.extend(letters[place] for place in sorted(letters)[-1 if self._newest_only else 0 :])
        self._posted[name].set()

    def _already_said(self, name: str, have: Place) -> None:
        """What a neighbour has of ours is not said to it again, in other words."""
        if have > self.place and have.phase == self.place.phase:
            facts = {**self._where(), "neighbour": name, "has our letter of round": have.round}
            if self._said.get(name) != have:
                log.warning("this peer has gone back", extra={"facts": facts})
        self._said[name] = have
        self._delivered(name, have)

    @property
    def _newest_only(self) -> bool:
        """Whether of several letters to a neighbour only the newest is of use."""
        return self.charter.pace.mode != "wait" and self.plan.learns(self.place.phase)

    async def _accepted(self, sender: str, body: bytes) -> None:
        """As `accept`, to its end even if the caller hangs up."""
        work = asyncio.create_task(self.accept(sender, body))
        self._accepting[sender].add(work)
        work.add_done_callback(self._accepting[sender].discard)
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(work)

    async def accept(self, sender: str, body: bytes) -> None:
        """Check a letter and keep it; on the disk when this returns."""
        self.meters.received(len(body))
        form = self.format
        try:
            envelope = form.written(body)
        except BadLetter as error:
            raise Refused(Code.INVALID_ARGUMENT, str(error), "malformed") from None
        if envelope.sender != sender:
            why = f"a letter of '{envelope.sender}' from {sender}"
            raise Refused(Code.PERMISSION_DENIED, why, "forged")
        place = Place(envelope.phase, envelope.round)
        # before its shape is looked at: that of an earlier phase is another
        if not self._timely(sender, place):
            self.meters.refused("stale")
            return  # the sender learns how far we are, and that is all it needs
        try:
            form.envelope(body)
            form.check_agreed(body)
            letter = form.decode(body)
        except BadNumbers as error:
            await self._accept_aside(sender, place, str(error), body)
            return
        except BadLetter as error:
            raise Refused(Code.INVALID_ARGUMENT, str(error), "malformed") from None
        if self._heard[sender].get(place, 0) is None:
            return  # what came before is in quarantine, and the round goes on without
        try:
            # far ahead with deadlines, we are the one that is behind: the newest shows where to go
            newest = self._lasting or self._far(place)
            other = await self._put(Came(sender, place, body, newest))
        except PeerwiseError as error:
            raise Refused(Code.UNAVAILABLE, str(error), "disk") from None
        if other:
            await self._reload()  # what is on the disk is what counts
            why = f"another letter for phase {place.phase}, round {place.round} than before"
            raise Refused(Code.ALREADY_EXISTS, why, "replayed")
        self._heads[sender] = max(place, self._heads.get(sender, place))
        if place.phase == self.place.phase and (place >= self.place or self._lasting):
            self._keep(sender, place, letter)

    async def _put(self, letter: Came) -> bool:
        """Keep a letter, in one transaction with all that come while another is written."""
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._coming.append((letter, written))
        if self._writing is None:  # of its own: a caller that hangs up takes nobody with it
            self._writing = asyncio.create_task(self._put_all())
        return await written

    async def _put_all(self) -> None:
        """Write what has come, until nothing more has."""
        while self._coming:
            coming, self._coming = self._coming, []
            results: list[Any]
            try:
                results = await self._in_disk(self.store.put_all, [letter for letter, _ in coming])
            except Exception as error:  # each caller is told
                results = [error] * len(coming)
            for (_, written), result in zip(coming, results, strict=True):
                if written.done():
                    continue
                if isinstance(result, Exception):
                    written.set_exception(result)
                else:
                    written.set_result(result)
        self._writing = None

    async def _accept_aside(self, sender: str, place: Place, why: str, body: bytes) -> None:
        """Put a letter in quarantine: its sender is not heard in that round, and not waited for."""
        if place in self._heard[sender]:
            return
        try:
            await self._in_disk(self.store.put_aside, sender, place, why, body)
        except PeerwiseError as error:
            raise Refused(Code.UNAVAILABLE, str(error), "disk") from None
        self._log_aside(sender, place, why)
        self._heads[sender] = max(place, self._heads.get(sender, place))
        if self._lasting:
            for old in [p for p, letter in self._heard[sender].items() if letter is None]:
                del self._heard[sender][old]
        self._heard[sender].setdefault(place, None)
        self._saw(sender, place)
        self._news.set()

    def _keep(self, sender: str, place: Place, letter: Letter) -> None:
        if self._lasting or self._far(place):  # only the newest is of use
            for old in [p for p in self._heard[sender] if p < place and p != self.place]:
                del self._heard[sender][old]
        self._heard[sender][place] = letter
        self._saw(sender, place)
        self._arrived[sender] = time.monotonic()
        self._news.set()

    def _far(self, place: Place) -> bool:
        return place.round > self.place.round + self.charter.limits.ahead

    def _timely(self, sender: str, place: Place) -> bool:
        """Whether a letter is still or already of use; far ahead of us is refused."""
        if place.phase > self.place.phase:
            why = f"phase {place.phase}: still in phase {self.place.phase}"
            raise Refused(Code.UNAVAILABLE, why, "early")
        if place.phase < self.place.phase:
            return False
        rounds = self.plan.rounds(place.phase)
        if place.round >= rounds:
            why = f"round {place.round} of {rounds}"
            raise Refused(Code.INVALID_ARGUMENT, why, "future")
        if self._lasting:
            return place > max(self._heard[sender], default=Place(-1, -1))
        if self._far(place) and self.charter.pace.mode != "deadline":
            why = f"round {place.round}, far ahead of round {self.place.round}"
            raise Refused(Code.FAILED_PRECONDITION, why, "future")
        return place.round >= self.place.round

    # -- telling ---------------------------------------------------------------------------------

    _queue: dict[str, bytes]

    def _post(self) -> None:
        """Hand the letters of a new round, which are on the disk, to those who send them."""
        self._last_posted = self.place
        for name, body in self._queue.items():
            if name in self.ejected:
                continue
            line = self._outgoing[name]
            if self.place <= self._said.get(name, Place(-1, -1)):
                self._acknowledged[name] = self.place
                continue
            if self._newest_only:
                while line and line[-1].place.phase == self.place.phase:
                    line.pop()  # only the newest is of use
            line.append(Away(name, self.place, body))
            self._posted[name].set()
        self._queue = {}

    def _delivered(self, name: str, place: Place) -> None:
        self._acknowledged[name] = max(place, self._acknowledged.get(name, place))
        line = self._outgoing[name]
        while line and line[0].place <= place:
            self.meters.sent(len(line.popleft().body))

    def _write_acknowledged_inside(self) -> None:
        taken, self._acknowledged = self._acknowledged, {}
        for name, place in taken.items():
            self.store.acknowledge(name, place, inside=True)

    def _write_acknowledged(self) -> None:
        if self._acknowledged:
            with self.store.transaction():
                self._write_acknowledged_inside()

    async def _send(self, name: str) -> None:
        """Push letters to one neighbour, oldest first, until it has them."""
        link, wait, greeted = self._links[name], 0.05, False
        while True:
            line = self._outgoing[name]
            if name in self.ejected or (not line and greeted):
                greeted = greeted and name not in self.ejected
                self._posted[name].clear()
                await self._posted[name].wait()
                continue
            try:
                if not greeted:
                    greeted = await self._greet(name, link)
                    continue
                letter = line[0]
                answer = await link.call("Push", letter.body, self.options.call_timeout)
            except grpc.aio.AioRpcError as error:
                if greeted and error.code() is Code.ALREADY_EXISTS:  # said before, in other words
                    self._trouble(name, f"{error.code().name}: {error.details()}")
                    self._delivered(name, letter.place)
                    continue
                greeted = greeted and error.code() not in REGREET
                self._trouble(name, f"{error.code().name}: {error.details()}", error.code())
                await asyncio.sleep(wait)
                wait = min(2 * wait, 2.0)
                continue
            wait = 0.05
            self._gone.discard(name)
            if said(answer).life > self._lives.get(name, 0):
                greeted = False  # it was started again, and may lack what it had
            elif self._learn(name, answer):
                self._troubles.pop(name, None)
                self._delivered(name, letter.place)
            else:
                await asyncio.sleep(2.0)

    async def _greet(self, name: str, link: Link) -> bool:
        """Say Hello to a neighbour; whether it answered as one does."""
        answer = await link.call("Hello", self._greeting(name), 10.0)
        if not self._learn(name, answer):
            await asyncio.sleep(2.0)
            return False
        known = self._lives.get(name, 0)
        await self._greeted(name, said(answer))
        return self._lives.get(name, 0) == known  # of a new life it must hear from us again

    def _trouble(self, name: str, why: str, code: grpc.StatusCode | None = None) -> None:
        """Say once why a neighbour cannot be told anything, until it can or the reason changes."""
        if code is Code.ABORTED:  # it does not listen, and will not speak: go on without
            self._gone.add(name)
            self._news.set()
        if self._troubles.get(name) != why:
            self._troubles[name] = why
            log.warning("cannot send", extra={"facts": {"to": name, "why": why[:500]}})

    def _learn(self, name: str, answer: bytes) -> bool:
        """Note how far a neighbour is; whether it is no old copy of it that answers."""
        heard = said(answer)
        if heard.life < self._lives.get(name, 0):
            self._trouble(name, f"an older copy of {name} answers, or something else")
            return False
        if heard.place is not None:
            self._saw(name, heard.place)
            self._news.set()
        return True

    async def _fetch(self, name: str) -> None:
        """Pull letters from one neighbour, for a peer that nobody can dial."""
        link, wait = self._links[name], 0.05
        before = Place(self.place.phase, -1 if self._lasting else self.place.round - 1)
        have = max(self._heard[name], default=before)
        self._fetched[name] = have
        while True:
            asked = {"phase": have.phase, "round": have.round, "wait": POLL}
            try:
                body = await link.call("Pull", json.dumps(asked).encode(), POLL + 10.0)
                if body and not body.startswith(b"{"):
                    envelope = self.format.written(body)
                    await self.accept(name, body)
                    have = max(have, Place(envelope.phase, envelope.round))
                    self._fetched[name] = have
                wait = 0.05
            except (grpc.aio.AioRpcError, Refused, BadLetter) as error:
                if isinstance(error, grpc.aio.AioRpcError):
                    self._trouble(name, f"{error.code().name}: {error.details()}", error.code())
                await asyncio.sleep(wait)
                wait = min(2 * wait, 2.0)

    async def _handed(self, call: Call) -> bytes:
        """The next letter for a neighbour that pulls, once there is one."""
        asked, wait = said(call.body).place, told(call.body).get("wait")
        if asked is None or not isinstance(wait, int | float) or not wait >= 0:
            raise Refused(Code.INVALID_ARGUMENT, "a pull names phase, round and wait", "malformed")
        self._delivered(call.caller, asked)
        until = time.monotonic() + min(wait, POLL)
        while not self._outgoing[call.caller]:
            left = until - time.monotonic()
            if left <= 0 or self._closing.is_set():
                return self._told()
            self._posted[call.caller].clear()
            try:
                await asyncio.wait_for(self._posted[call.caller].wait(), left)
            except TimeoutError:
                return self._told()
        return self._outgoing[call.caller][0].body

    async def _linger(self) -> None:
        """Stay until all neighbours have the last letters, or for as long as told."""
        linger = self.options.linger
        if self.charter.pace.mode != "wait":  # nobody waits for us, and some have gone
            linger = min(linger, 2 * self.charter.pace.deadline)
        until = time.monotonic() + linger
        while self._undelivered() and time.monotonic() < until:
            if self._closing.is_set():
                return
            await asyncio.sleep(0.02)
        for name, have in self._fetched.items():  # that its last letter came, it learns by a pull
            asked = {"phase": have.phase, "round": have.round, "wait": 0.0}
            with suppress(grpc.aio.AioRpcError):
                await self._links[name].call("Pull", json.dumps(asked).encode(), 5.0)
        left = self._undelivered()
        if self.charter.pace.mode == "wait":
            self.lacking = tuple(left)
        if left:
            log.warning("left before all had the last letter", extra={"facts": {"to": left}})

    def _undelivered(self) -> list[str]:
        """The neighbours that still lack a letter, but for those that want none."""
        return [n for n, line in self._outgoing.items() if line and n not in self._gone]
