"""Neighbours with a good certificate that say anything at all."""

from peer.protocol.parts import Call
from peer.protocol.toys import M
from peerwise.peer.protocol import messages as m
from peerwise.peer.protocol.messages import EJECTED, OVER, Greeting, Place

CODES = ("UNAVAILABLE", "ABORTED", "FAILED_PRECONDITION", "ALREADY_EXISTS", "RESOURCE_EXHAUSTED",
         "UNKNOWN")  # fmt: skip
HUGE = 1 << 39


def lie(world):
    """Calls of the liar: one letter a round that cannot be used, or anything."""
    liar, rng = world.case.liar, world.rng
    calls = []
    for to in world.graph[liar]:
        if to not in world.up:
            continue
        core = world.up[to].core
        if world.case.talks:
            number = (M + 5, 3 * M)[core.place.round % 2]  # the same however often it comes
            asks = [m.Ask(to, "Push", _letter(world, liar, core.place, number))]
        else:
            asks = [_anything(world, to, core)]
        life = 5 if world.case.talks else rng.choice([5, 5, 5, 6, 4, 0])
        calls += [Call(liar, to, life, ask, None, None) for ask in asks]
    if rng.random() < 0.1 and world.up:  # a call to somebody whose neighbour it is not
        to = rng.choice(sorted(world.up))
        calls.append(Call("stranger", to, 9, m.Ask(to, "Hello", Greeting()), None, None))
    return calls


def _letter(world, sender, place, number):
    return m.Away("", place, world.method.letters.made(sender, place, number))


def _anything(world, to, core):
    """A call that makes no sense, or half of it."""
    rng, liar = world.rng, world.case.liar
    t = max(0, core.place.round + rng.choice([0, 0, 0, 1, 1, 2, 3, 5, -1, HUGE]))
    place = Place(max(0, core.place.phase + rng.choice([0] * 8 + [1, -1])), t)
    kind = rng.randrange(8)
    if kind < 4:
        number = rng.choice([rng.randrange(M), 5, M + 5, 3 * M])
        sender = liar if rng.random() < 0.9 else rng.choice(world.honest)
        return m.Ask(to, "Push", _letter(world, sender, place, number))
    if kind == 4:
        body = rng.choice([b"", b"x", f"{liar}|{place.phase}|{t}|x".encode(), b"\xff|0|0|0"])
        return m.Ask(to, "Push", m.Away("", place, body))
    if kind == 5:
        return m.Ask(to, "Pull", place, rng.choice([0.0, 1.0, 1e9]))
    return m.Ask(to, "Hello", _greeting(world, core, place))


def _greeting(world, core, place):
    rng = world.rng
    some = [None, place, Place(0, -1), Place(0, HUGE), Place(HUGE, HUGE)]
    first = rng.choice(some)
    have, knows = rng.choice(some), rng.choice([0, core.life])
    byes = rng.choices(["", EJECTED, OVER], [8, 1, 1], k=2)
    return Greeting(rng.choice(some), 5, first, have, knows, *byes)


def lie_answer(world, call):
    """What the liar answers to a call."""
    rng, to, method = world.rng, call.to, call.ask.method
    core = call.process.core
    if rng.random() < 0.3:
        return m.Failed(to, method, rng.choice(CODES), "no")
    life = 5 if world.case.talks else rng.choice([0, 5, 5, 5, 6])
    said = _greeting(world, core, core.place)._replace(life=life)
    if method != "Hello":
        said = Greeting(said.place, said.life)
    body = None
    if method == "Pull" and rng.random() < 0.5:
        body = _letter(world, to, core.place, rng.choice([5, 3 * M])).body
    return m.Answered(to, method, said, body)
