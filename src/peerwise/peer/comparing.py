"""Peers that compare, while they run, what the neighbours they share have signed."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from peerwise.errors import PeerwiseError
from peerwise.peer.charter import Charter
from peerwise.peer.dialling import Dialling
from peerwise.peer.equivocation import as_told, compared, heads_after, parse
from peerwise.peer.identity import Identity
from peerwise.peer.journal import security
from peerwise.peer.protocol.messages import Place
from peerwise.peer.store import Store

SECONDS = 10.0  # for an answer
FIRST = Place(0, -1)  # before everything
LATE = 8  # rounds that are looked at again: a letter may have come after the last comparison

OnDisk = Callable[..., Awaitable[Any]]


class Comparing:
    """One peer's part in it; `disk` does some work on the store where that is allowed."""

    def __init__(self, charter: Charter, identity: Identity, store: Store, disk: OnDisk):
        self._charter, self._identity, self._store, self._disk = charter, identity, store, disk
        self._since: dict[str, Place] = {}  # by neighbour: what was compared already

    def shared(self, neighbour: str) -> set[str]:
        """The nodes that are neighbours of this peer and of one of its neighbours."""
        ours = set(self._charter.neighbours(self._identity.node))
        return ours & set(self._charter.neighbours(neighbour))

    async def told(self, caller: str, since: Place) -> bytes:
        """What a neighbour may compare: statements of nodes that it hears, too, after a place."""
        heads = await self._disk(heads_after, self._store, self.shared(caller), since)
        return json.dumps(heads.model_dump()).encode()

    async def work(self, dialling: Dialling, seconds: float) -> None:
        """Compare with every neighbour that can be dialled, now and then, for ever."""
        await self._disk(self._know_authority)
        while True:
            for name in dialling.links:
                if self.shared(name):
                    await self._with(dialling, name)
            await asyncio.sleep(seconds)

    def _know_authority(self) -> None:
        with self._store.transaction():
            self._store.set(authority=self._identity.authority.decode())

    async def _with(self, dialling: Dialling, name: str) -> None:
        """Compare with one neighbour until there is nothing new; one that is away is left alone."""
        since = self._since.get(name, FIRST)
        since = Place(since.phase, max(since.round - LATE, -1))
        while True:
            asked = json.dumps(since._asdict()).encode()
            try:
                answer = await dialling.links[name].call("Heads", asked, SECONDS)
                heads = parse(answer, f"what {name} answers")
            except (grpc.aio.AioRpcError, PeerwiseError):
                return
            if not heads.heads or heads.node != name:
                return
            newest = max(Place(h.phase, h.round) for h in heads.heads)
            if newest <= since:
                return
            self._since[name] = since = newest
            for proof in await self._disk(self._found, heads):
                security.error("told neighbours different things", extra={"facts": as_told(proof)})

    def _found(self, heads: Any) -> list[Any]:
        """Proofs that are new, kept."""
        _, proofs = compared(self._store, heads, self._identity.authority)
        return self._store.neighbours.put_proofs(proofs) if proofs else []
