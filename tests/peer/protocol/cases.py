"""The worlds that cores live through, and what must hold at their end."""

from peer.protocol.audit import Broken
from peer.protocol.parts import Case
from peer.protocol.toys import Method, undisturbed
from peer.protocol.world import World
from peerwise.peer.protocol.pace import Adaptive, Async, Deadline, Wait

LINE = {"a": "b", "b": "ac", "c": "b"}
RING = {"a": "bd", "b": "ac", "c": "bd", "d": "ac"}
FULL = {"a": "bcd", "b": "acd", "c": "abd", "d": "abc"}
NEVER = Deadline(1e9, 1e9)
LATE, SOON, ANY = Deadline(2.0, 5.0), Adaptive(2.0, 5.0), Async(2.0, 5.0, 3)

CASES = {
    "wait": Case(LINE, (4,)),
    "wait, ring": Case(RING, (5,), steps=300),
    "phases": Case(RING, (3, 4), steps=400),
    "late letters": Case(RING, (6,), lag=2, steps=300),
    "dials only": Case(LINE, (5,), dials_only="a", steps=300),
    "addresses amended": Case(LINE, (5,), dials_only="a", amended=Wait(), steps=300),
    "backup near": Case(LINE, (8,), restore=0.02, crash=0.003, steps=500),
    "backup near, phases": Case(LINE, (4, 5), restore=0.02, crash=0.003, steps=500),
    "backup near, dials only": Case(
        LINE, (8,), restore=0.02, crash=0.003, steps=500, dials_only="a"
    ),
    "backup far": Case(LINE, (18,), same=False, restore=0.01, far=True, crash=0.003, steps=900),
    "noise, backup": Case(RING, (8,), same=False, noise=True, restore=0.02, crash=0.003, steps=600),
    "masks": Case(
        RING, (8,), same=False, noise=True, masked=True, restore=0.02, crash=0.003, steps=600
    ),
    "masks, phases": Case(
        LINE,
        (4, 6),
        same=False,
        noise=True,
        masked=True,
        restore=0.02,
        far=True,
        crash=0.003,
        steps=600,
    ),
    "masks, dials only": Case(
        LINE,
        (8,),
        same=False,
        noise=True,
        masked=True,
        restore=0.02,
        crash=0.003,
        steps=500,
        dials_only="b",
    ),
    "masks, deadline": Case(
        RING,
        (8,),
        LATE,
        same=False,
        noise=True,
        masked=True,
        restore=0.02,
        far=True,
        crash=0.003,
        steps=400,
    ),
    "masks, async": Case(
        RING,
        (8,),
        ANY,
        same=False,
        noise=True,
        masked=True,
        restore=0.02,
        far=True,
        crash=0.003,
        steps=400,
    ),
    "eject": Case(RING, (6,), same=False, eject=0.03, steps=300),
    "eject, dials only": Case(LINE, (6,), same=False, eject=0.03, steps=300, dials_only="a"),
    "eject, backup": Case(RING, (6,), same=False, eject=0.03, restore=0.02, crash=0.003, steps=400),
    "a liar": Case(FULL, (6,), same=False, liar="d", steps=300),
    "a liar, phases": Case(FULL, (3, 4), same=False, liar="d", steps=300),
    "poison": Case(FULL, (5,), liar="d", talks=True, steps=300),
    "deadline": Case(RING, (6,), LATE, same=False, steps=300),
    "deadline, somebody silent": Case(RING, (5,), LATE, same=False, silent="d"),
    "deadline, amended": Case(RING, (5,), NEVER, same=False, silent="d", amended=LATE),
    "deadline, backup": Case(
        RING, (8,), LATE, same=False, restore=0.02, far=True, crash=0.003, steps=400
    ),
    "deadline, a liar": Case(FULL, (5,), LATE, same=False, liar="d", steps=300),
    "adaptive": Case(RING, (6,), SOON, same=False, steps=300),
    "adaptive, somebody silent": Case(RING, (5,), SOON, same=False, silent="d"),
    "async": Case(RING, (6,), ANY, same=False, steps=300),
    "async, somebody silent": Case(RING, (5,), ANY, same=False, silent="d"),
    "async, a liar": Case(FULL, (6,), ANY, same=False, liar="d", steps=300),
    "async, poison": Case(FULL, (6,), ANY, same=False, liar="d", talks=True, steps=300),
}


def lived(name, seed, together=0.0):
    """A world at its end; `Broken` where it does not come to one, or not to the right one."""
    case = CASES[name]
    world = World(case, seed, together).live()
    ended = [one for one in world.honest if one not in world.stranded]
    for one in ended:
        if world.disks[one].place != (len(case.rounds) - 1, case.rounds[-1]):
            raise Broken(f"{one} ended at {world.disks[one].place}")
    if case.same:
        graph = {n: [m for m in world.graph[n] if m in world.honest] for n in world.honest}
        plain = undisturbed(graph, case.rounds, Method(case.lag))
        if any(world.disks[n].value != plain[n] for n in ended):
            raise Broken("other bits than the undisturbed run")
    return world
