"""A peer at work: the shell around a protocol core, with its network, disk, clock and threads.

The core (`protocol/`) decides; here events are brought to it and its effects are done. Computing
and the disk have a thread each, so that neighbours are answered at any time.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from peerwise.errors import BadSetting
from peerwise.node import Memory, Node
from peerwise.peer.amending import Amending
from peerwise.peer.calls import Calls
from peerwise.peer.comparing import Comparing
from peerwise.peer.computing import Computing, begin
from peerwise.peer.dialling import Dialling
from peerwise.peer.identity import Identity
from peerwise.peer.journal import log
from peerwise.peer.keeping import KEPT, Keeping, looked
from peerwise.peer.large import Body, Filed, is_large
from peerwise.peer.letters import Letters
from peerwise.peer.meters import Meters
from peerwise.peer.options import Options
from peerwise.peer.plan import Plan
from peerwise.peer.protocol import Core, Rules
from peerwise.peer.protocol.messages import (
    Advance,
    Answer,
    Answered,
    Ask,
    Compute,
    Count,
    End,
    Kept,
    Log,
    Look,
    Place,
    Refuse,
    Started,
    Stored,
    Tick,
    Wake,
)
from peerwise.peer.protocol.pace import paced
from peerwise.peer.signing import marked
from peerwise.peer.spool import Spools
from peerwise.peer.store import Store
from peerwise.peer.transport import Link, Server
from peerwise.peer.wire import Format

LOOK = 0.1  # seconds between two looks whether letters have left, before a peer ends with an error


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they are over: `wait_for` may lose a cancellation (Python before 3.12)."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.2)
    await asyncio.gather(*tasks, return_exceptions=True)  # or Python says that nobody asked


def _write_down(effect: Log) -> None:
    say = log.warning if effect.warning else log.info
    say(effect.event, extra={"facts": dict(effect.facts)})


class Daemon:
    """One peer. `run` ends when all rounds are done, or with `stop`."""

    calls: Calls
    _does: dict[type, Callable[[Any], None]]  # by kind of effect

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
        self.charter, self.name = plan.charter, plan.name
        self.lacking: tuple[str, ...] = ()  # who waits for a letter that it was not given
        self.silent: tuple[str, ...] = ()  # for whom this peer waited until its patience ended
        self.letters = Letters(plan.charter, identity)
        self.letters.book = store.site
        self.letters.watch.heads |= store.neighbours.ledgers()
        self.computing = Computing(plan, self.letters, self.options.held_out)
        self._mark, self._largest = plan.charter.hash, 0
        self._amending = Amending(plan.charter, plan.name, self.options.addresses)
        self._keeping = Keeping(store, plan, self.letters, self._feed_all, self._awaited)
        self._mind, self._hashing = ThreadPoolExecutor(1, "mind"), ThreadPoolExecutor(4, "hash")
        self._spools = Spools(store.inbox.large, self._hashing)
        self._dialling = Dialling({}, self._amending, self.options.call_timeout)
        self._server: Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._core: Core | None = None
        self._over: asyncio.Future[bool] | None = None
        self._stopped = False
        self._waiting: tuple[str, ...] = ()  # for whom, as people were told

    @property
    def core(self) -> Core:
        """What decides; there is one once the file was read."""
        assert self._core is not None
        return self._core

    @property
    def place(self) -> Place:
        """How far this peer has come."""
        return Place(0, 0) if self._core is None else self._core.place

    @property
    def node(self) -> Node | None:
        """The node of this phase."""
        return self.computing.node

    @property
    def memory(self) -> Memory | None:
        """What the node has learnt."""
        return self.computing.memory

    @property
    def agreed(self) -> dict[str, Any] | None:
        """What the first phase found."""
        return self.computing.agreed

    @property
    def format(self) -> Format:
        """How letters of this phase look."""
        return self.letters.of(self.place.phase)

    # -- life ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End at the next moment at which nothing is half done."""
        self._stopped = True
        if self._over is not None and not self._over.done():
            self._over.set_result(self._core is not None and self._core.done)

    async def run(self) -> bool:
        """Work until all rounds are done (True), or told to stop or out of patience (False)."""
        try:
            await self.resume()
            await self._listen_and_dial()
            assert self._over is not None
            return await self._over
        finally:
            await self.close()
            log.info("down", extra={"facts": self.place._asdict()})

    async def resume(self) -> None:
        """Go on where the file says, or begin; nobody is called yet."""
        self._over = asyncio.get_running_loop().create_future()
        disk, store = self._keeping.run, self.store
        life, lives = await disk(store.live)
        self.computing.behind = store.behind
        if store.site is not None:
            self.plan.drawn = await disk(store.site.drawn)
        known = store.neighbours
        heads, kept, byes = [await disk(x) for x in (known.heads, store.progress, known.byes)]
        place = Place(0, 0)
        if self.plan.learning.sealed:
            secret = await disk(store.mask_secret)
            if secret is None:  # it was forgotten, and perhaps killed at that moment
                await disk(self._keeping.wipe)
            self.plan.seal_with(self.identity, secret)
        if kept is None:
            await self._in_mind(begin, self.computing, store)
        else:
            place, body = kept
            await self._in_mind(self.computing.restore, place, body, store.about().get("agreed"))
        node, memory = self.computing.node, self.computing.memory
        assert node is not None
        assert memory is not None
        # nobody has heard of a state that has just begun
        asks = kept is not None and self.plan.asks(place.phase, node, memory)
        unsent = {n: await disk(store.outbox.unsent, n) for n in self.charter.neighbours(self.name)}
        self._core = Core(
            self._rules(),
            Kept(place, life, self.computing.partners(), lives, heads, unsent, byes, asks),
            asyncio.get_running_loop().time(),
        )
        self._comparing = Comparing(self.charter, self.identity, store, disk)
        signed = self._comparing.told
        self.calls = Calls(
            self.core, self._mark, self._amending, self.meters, self._feed, signed, self._ready
        )
        self._does = self._ways()
        self._spawn(self._keeping.work())
        self._feed(await disk(looked, store))
        if self._stopped:
            self.stop()

    def _rules(self) -> Rules:
        """What does not change while this peer runs."""
        plan, charter = self.plan, self.charter
        pace = charter.pace.model_dump()
        if plan.learning.sealed:  # what is summed is of a stated round, however late it comes
            pace["staleness"] = charter.rounds
        return Rules(
            name=self.name,
            neighbours=charter.neighbours(self.name),
            rounds=tuple(plan.rounds(phase) for phase in range(plan.phases)),
            pace=paced(**pace),
            letters=self.letters,
            ahead=charter.limits.ahead,
            lag=0 if plan.channel is None else plan.channel.lag,
            linger=self.options.linger,
            patience=self.options.patience,
        )

    async def _listen_and_dial(self) -> None:
        """Use the network: from here on neighbours hear of us."""
        own = self.options.listen or self.charter.nodes[self.name].address
        self._largest = most = await self._in_mind(self.computing.largest, self.place.phase)
        if own:
            answer, admit = self.calls.answer, self.calls.admit
            self._server = Server(self.identity, own, answer, most, admit, self._spools)
            await self._server.start()
        links = {name: self._link(name, at) for name, at in self._amending.addresses().items()}
        self._dialling = Dialling(links, self._amending, self.options.call_timeout)
        self._spawn(self._watch())
        self._spawn(self._comparing.work(self._dialling, self.options.compare))
        self.meters.health.up()
        log.info("up", extra={"facts": {"at": own or "dials only", **self.core.where}})
        self._feed(Started(*self._amending.event()[:2]))

    async def _watch(self) -> None:
        """Notice what others do: `peerwise peer eject` to the file, `network cert --renew`."""
        seen = await self._keeping.run(self.store.version)
        while True:
            await asyncio.sleep(self.options.watch)
            await self._renew()
            await self._keeping.run(self._keeping.wipe_rest)
            now = await self._keeping.run(self.store.version)
            if now != seen:
                seen = now
                self._keeping.want(Look())
                await self._amend((await self._keeping.run(self.store.about))["text"])

    def _link(self, name: str, address: str) -> Link:
        """A way to a neighbour."""
        sinks, life = self._spools, self.core.life
        return Link(self.identity, name, address, self._mark, self._largest, life, sinks)

    async def _amend(self, text: str) -> None:
        """Go on with the edition of the charter that the operator has put into the file."""
        before = self._amending.addresses()
        if not self._amending.take(text):
            return
        self.charter = self._amending.charter
        now = self._amending.addresses()
        old = self._dialled_anew([name for name in now if now[name] != before.get(name)])
        self._feed(self._amending.event())
        for link in old:
            await link.close()

    async def _renew(self) -> None:
        """Show and sign with the certificate of now."""
        look = self.options.renewals
        identity = None if look is None else await self._keeping.run(look.look)
        if identity is None:
            return
        self.identity = identity
        self.letters.renew(identity)
        if self._server is not None:
            self._server.renew(identity)
        for link in self._dialled_anew(list(self._amending.addresses())):
            await link.close()

    def _dialled_anew(self, names: list[str]) -> list[Link]:
        """Have new ways to neighbours; the old ones, whose calls under way are made again."""
        links, now = self._dialling.links, self._amending.addresses()
        old = [links[name] for name in names if name in links]
        links.update({name: self._link(name, now[name]) for name in names})
        return old

    async def close(self) -> None:
        """Stop all that goes on; the store stays open."""
        if self._timer is not None:
            self._timer.cancel()
        await _ended(list(self._tasks))
        if self._server is not None:
            await self._server.stop()
        await self._dialling.close()
        if self._core is not None:
            await self._keeping.run(self._keeping.write_acknowledged, self.core.acknowledged())
        self._mind.shutdown()
        self._hashing.shutdown()
        self._keeping.close()

    # -- events in, effects out ------------------------------------------------------------------

    async def accept(self, sender: str, body: Body) -> None:
        """Check a letter of a neighbour and keep it; on the disk when this returns."""
        await self.calls.accepted(sender, body)

    def _feed(self, event: Any) -> None:
        """Bring an event to the core, and do what follows."""
        self._feed_all([event])

    def _feed_all(self, events: list[Any]) -> None:
        """Bring events that happened together to the core, and do what follows."""
        core, now = self.core, asyncio.get_running_loop().time()
        for left, event in zip(reversed(range(len(events))), events, strict=True):
            if isinstance(event, Stored) and core.storing is not None:
                self._stored(core.storing[0])
            for effect in core.on(event, now, left > 0):
                self._does[type(effect)](effect)
        waiting = () if core.computing or core.done else core.waiting
        if waiting != self._waiting:
            self._waiting = waiting
            self.meters.waiting(waiting)
        if core.done:
            self.meters.health.done()

    def _ways(self) -> dict[type, Callable[[Any], None]]:
        """By kind of effect: what does it."""
        return {
            **dict.fromkeys(KEPT, self._keeping.want),
            **dict.fromkeys((Answer, Refuse), self.calls.settle),
            Ask: lambda effect: self._spawn(self._ask(effect)),
            Compute: self._compute,
            Wake: lambda effect: self._wake(effect.at),
            Log: _write_down,
            Count: self._count,
            End: self._end,
        }

    def _end(self, effect: End) -> None:
        if self._over is not None and not self._over.done():
            self.lacking, self.silent = effect
            self._over.set_result(not self.silent)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside everything else; what fails there ends the peer."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        if self._over is not None and not self._over.done():
            self._over.set_exception(task.exception() or RuntimeError())

    async def _ask(self, effect: Ask) -> None:
        answer = await self._dialling.asked(effect)
        if isinstance(answer, Answered) and answer.body is not None:
            await self._ready(answer.body)
        self._feed(answer)

    async def _ready(self, body: Body) -> None:
        """Hash a large letter beside everything else; the core is brought it right after this."""
        if isinstance(body, Filed):
            self.letters.note_hash(body, body.mark)
        elif is_large(len(body)):
            loop = asyncio.get_running_loop()
            mark = await loop.run_in_executor(self._hashing, marked, body)
            self.letters.note_hash(body, mark)

    def _compute(self, effect: Compute) -> None:
        """Begin at once: before those are answered whose letters are on the disk by now."""
        loop = asyncio.get_running_loop()
        self._spawn(self._then(loop.run_in_executor(self._mind, self.computing.computed, effect)))

    async def _then(self, event: asyncio.Future[Any]) -> None:
        try:
            computed = await event
        except BadSetting as error:
            # nothing was agreed; neighbours find so, too, once they have our letters, and answers
            log.warning("nothing was agreed", extra={"facts": {"why": str(error)[:500]}})
            loop = asyncio.get_running_loop()
            until = loop.time() + self.options.linger
            core = self.core
            while (core.undelivered or core.unmet) and loop.time() < until:
                await asyncio.sleep(LOOK)
            if self.plan.learning.sealed and not self.core.undelivered:
                await self._keeping.run(self._keeping.forget)
            raise
        self._feed(computed)

    def _awaited(self) -> int:
        """For how many letters that come together it may be worth to wait."""
        return len(self.core.waiting) or len(self.core.neighbours)

    async def _in_mind(self, work: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._mind, work, *args)

    def _wake(self, at: float) -> None:
        """Tell the core of the time at a moment."""
        if self._timer is not None:
            if self._timer.when() == at:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._feed(Tick())

    def _stored(self, advance: Advance) -> None:
        """Go on from a round that is on the disk."""
        self.computing.adopt(advance.result, advance.place)
        done = advance.done
        if done is None:
            return
        heard, missed = len(done.heard), len(done.missed)
        phase, t = done.place
        self.meters.round(phase, t + 1, heard, missed, done.seconds, done.error)
        if self.store.ledger is not None:
            self.meters.spent(self.store.ledger.total().epsilon)

    def _count(self, effect: Count) -> None:
        if effect.what == "sent":
            self.meters.sent(effect.amount)
        elif effect.what == "received":
            self.meters.received(effect.amount)
        else:
            self.meters.refused(effect.what)
