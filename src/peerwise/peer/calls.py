"""Calls of neighbours: refused, or brought to the core and answered when it says so."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from peerwise.peer.amending import Amending
from peerwise.peer.greeting import place_in, refusal, said, spoken, whereabouts
from peerwise.peer.journal import Sparing, security
from peerwise.peer.large import Body
from peerwise.peer.meters import Meters
from peerwise.peer.protocol import Core
from peerwise.peer.protocol.messages import (
    Answer,
    Away,
    Helloed,
    Place,
    Pulled,
    Pushed,
    Refuse,
    Ticket,
)
from peerwise.peer.transport import Call, Code, Refused, told

Answers = asyncio.Future[bytes]


class Calls:
    """Who calls a peer, and what it is told.

    `mark` is the hash of the charter and `amending` has what it says; `feed` brings an event
    to the core; `heads` says what a caller may compare, after a place; `ready` is what a letter
    needs before it is brought to the core.
    """

    def __init__(
        self,
        core: Core,
        mark: str,
        amending: Amending,
        meters: Meters,
        feed: Callable[[Any], None],
        heads: Callable[[str, Place], Awaitable[bytes]],
        ready: Callable[[Body], Awaitable[None]],
    ):
        self._heads, self._ready = heads, ready
        self._core, self._mark, self._amending = core, mark, amending
        self._meters, self._feed = meters, feed
        self._sparing = Sparing()
        self._tickets = itertools.count()
        self._waiting: dict[Ticket, tuple[str, Answers]] = {}  # method, and who waits

    def admit(self, call: Call) -> None:
        """Refuse a caller that has nothing to say here, before anything of what it says is read."""
        try:
            self._admitted(call)
        except Refused as error:
            self._refused(call, error)
            raise

    async def answer(self, call: Call) -> bytes:
        """What a caller is told; `Refused` where it has nothing to ask or to say here."""
        try:
            return await self._answered(call)
        except Refused as error:
            self._refused(call, error)
            raise

    def settle(self, effect: Answer | Refuse) -> None:
        """Tell a caller what the core says, if it has not hung up."""
        method, waiting = self._waiting.pop(effect.ticket, ("", None))
        if waiting is None or waiting.done():
            return
        if isinstance(effect, Refuse):
            waiting.set_exception(Refused(Code[effect.code], effect.why, effect.kind))
        elif isinstance(effect.said, Away):
            waiting.set_result(effect.said.body)
        elif method == "Hello":
            waiting.set_result(spoken(effect.said, self._amending.said))
        else:
            waiting.set_result(whereabouts(effect.said))

    async def accepted(self, sender: str, body: Body) -> bytes:
        """The answer to a letter of a neighbour: it is on the disk then; `Refused` where not."""
        await self._ready(body)
        return await self._asked("Push", lambda ticket: Pushed(ticket, sender, body))

    async def _answered(self, call: Call) -> bytes:
        self._admitted(call)  # while its letter came, a newer copy may have said Hello
        if call.method == "Push":
            return await self.accepted(call.caller, call.body)
        if call.method == "Hello":
            same = call.charter == self._mark
            ours, here = self._amending.said, self._core.rules.name
            why = refusal(call.body, ours, same, here, call.caller)
            if why is not None:
                raise Refused(Code.FAILED_PRECONDITION, why, "greeting")
            self._amending.compare(call.caller, call.body)
            heard = said(call.body)._replace(life=call.life)
            return await self._asked("Hello", lambda ticket: Helloed(ticket, call.caller, heard))
        facts = told(call.body)
        have, wait = place_in(facts), facts.get("wait")
        if call.method == "Heads" and have is not None:
            return await self._heads(call.caller, have)
        if have is None or not isinstance(wait, int | float) or not wait >= 0:
            raise Refused(Code.INVALID_ARGUMENT, "a pull names phase, round and wait", "malformed")
        return await self._asked("Pull", lambda ticket: Pulled(ticket, call.caller, have, wait))

    async def _asked(self, method: str, event: Callable[[Ticket], Any]) -> bytes:
        """Bring a call to the core and wait for its answer."""
        ticket = next(self._tickets)
        waiting: Answers = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = method, waiting
        try:
            self._feed(event(ticket))
            return await waiting
        finally:
            self._waiting.pop(ticket, None)

    def _admitted(self, call: Call) -> None:
        caller = call.caller
        if call.expired:
            why = f"the certificate of {caller} has expired; renew it"
            raise Refused(Code.UNAUTHENTICATED, why, "expired")
        refused = self._core.refusal(caller, call.life, call.bye)
        if refused is not None:
            code, why, kind = refused
            raise Refused(Code[code], why, kind)
        if call.method != "Hello" and call.charter != self._mark:
            why = "another charter; say Hello with yours to learn what differs"
            raise Refused(Code.FAILED_PRECONDITION, why, "charter")

    def _refused(self, call: Call, error: Refused) -> None:
        """Count a call that was refused, and write it down unless its caller is refused often."""
        self._meters.refused(error.kind)
        left = self._sparing.left_out(call.caller)
        if left is None:
            return
        facts = {"caller": call.caller, "address": call.address, "method": call.method,
                 "why": error.why[:500], **({"left out before": left} if left else {})}  # fmt: skip
        security.warning("refused", extra={"facts": facts})
