"""Calls to neighbours: what the core wants to ask, and what came of it."""

import json

import grpc.aio

from peerwise.errors import BadFile
from peerwise.peer.amending import Amending
from peerwise.peer.greeting import said, spoken
from peerwise.peer.large import Filed
from peerwise.peer.pieces import BadPieces
from peerwise.peer.protocol.ground import POLL
from peerwise.peer.protocol.messages import Answered, Ask, Failed, Greeting
from peerwise.peer.transport import Link

HELLO, MARGIN = 10.0, 10.0  # seconds for an answer; a pull has those it waits and more


def _is_letter(answer: bytes | Filed) -> bool:
    """Whether an answer is a letter, and no short word."""
    return isinstance(answer, Filed) or not answer.startswith(b"{")


class Dialling:
    """The ways to neighbours that can be dialled; `push` is how many seconds a letter may take."""

    def __init__(self, links: dict[str, Link], amending: Amending, push: float):
        self.links, self._amending = links, amending
        self._seconds = {"Hello": HELLO, "Push": push, "Pull": POLL + MARGIN}

    async def asked(self, ask: Ask) -> Answered | Failed:
        """What a neighbour answers, or why it does not."""
        link, seconds = self.links[ask.name], self._seconds[ask.method]
        try:
            bye = ask.said.bye if ask.method == "Hello" else ""
            answer = await link.call(ask.method, self._written(ask), seconds, bye)
        except grpc.aio.AioRpcError as error:
            return Failed(ask.name, ask.method, error.code().name, str(error.details()))
        except TimeoutError:
            return Failed(ask.name, ask.method, "DEADLINE_EXCEEDED", "no answer in time")
        except (BadPieces, OSError, BadFile) as error:
            return Failed(ask.name, ask.method, "DATA_LOSS", str(error))
        if ask.method == "Pull" and len(answer) and _is_letter(answer):
            return Answered(ask.name, ask.method, Greeting(), answer)
        if ask.method == "Hello":
            self._amending.compare(ask.name, answer)
        return Answered(ask.name, ask.method, said(answer))

    def _written(self, ask: Ask) -> bytes:
        """The bytes of a call."""
        if ask.method == "Hello":
            return spoken(ask.said, self._amending.said)
        if ask.method == "Push":
            body: bytes = ask.said.body
            return body
        return json.dumps({**ask.said._asdict(), "wait": ask.wait}).encode()

    async def close(self) -> None:
        """Hang up."""
        for link in self.links.values():
            await link.close()
