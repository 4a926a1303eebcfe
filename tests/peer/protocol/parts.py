"""What a simulated world is made of: cases, processes, and calls on their way."""

from collections import deque
from typing import NamedTuple

from peer.protocol.audit import Claims
from peerwise.peer.protocol import messages as m
from peerwise.peer.protocol.pace import Wait


class Case(NamedTuple):
    """A world to live through."""

    graph: dict[str, str]
    rounds: tuple[int, ...] = (5,)
    pace: object = Wait()
    same: bool = True  # whether all must end with the bits of the undisturbed run
    steps: int = 200
    crash: float = 0.01
    lose: float = 0.1
    double: float = 0.1
    restore: float = 0.0
    far: bool = False  # any backup, or none; else one that is within the letters kept
    eject: float = 0.0
    lag: int = 0
    noise: bool = False
    masked: bool = False  # letters are terms of sealed sums; a peer begun again asks first
    liar: str = ""
    talks: bool = False  # the liar says something that cannot be used in every round
    silent: str = ""  # a node that never starts
    dials_only: str = ""  # nodes that nobody can dial
    amended: object = None  # the pace that every site goes on with at some time


class Process:
    """One life of one peer."""

    def __init__(self, core, byes):
        self.core, self.disk_jobs, self.jobs = core, deque(), []
        self.asked, self.claims = {}, Claims(byes)  # calls under way; what neighbours said
        self.knew = {}  # by ticket: the life that the sender of a letter had met
        self.wake = 0.0  # when it wants to be told the time


class Call(NamedTuple):
    """A call on its way; `serial` is None where nobody waits for the answer."""

    caller: str
    to: str
    life: int
    ask: m.Ask
    process: Process | None
    serial: int | None
    knew: int = 0  # the life of the other that the caller had met


class Reply(NamedTuple):
    """An answer on its way."""

    process: Process
    serial: int
    event: object
