"""What is promised at every moment of a simulated world, looked at from outside of the cores."""

from peerwise.peer.protocol import messages as m
from peerwise.peer.protocol.messages import NOWHERE, Place


class Broken(AssertionError):
    """A promise that was not kept."""


class Claims:
    """What neighbours said of themselves to one process: gaps, and byes."""

    def __init__(self):
        self.gaps, self.byes = {}, set()

    def note(self, core, event):
        """Take note of what is brought to a core."""
        name = event.sender if isinstance(event, m.Helloed) else event.name
        if isinstance(event, m.Failed):
            if event.code == "ABORTED":
                self.byes.add(name)
            return
        said = event.said
        if said.first is not None and said.knows == core.life:
            self.gaps[name] = max(said.first, self.gaps.get(name, NOWHERE))


def audit(world, process):
    """What holds after every event: bounded boxes, of the right phase and rounds."""
    core, case = process.core, world.case
    for name, n in core.neighbours.items():
        for place in n.heard:
            if place.phase != core.place.phase or not 0 <= place.round < core.rounds:
                raise Broken(f"a letter of {place} at {core.place}")
            if not core.pace.lasting and place.round < core.place.round - case.lag:
                raise Broken("a letter of a round that is over is kept")
        if len(n.heard) > core.rules.ahead + case.lag + 2:
            raise Broken(f"{len(n.heard)} letters of one neighbour are kept")
        if name in core.ejected and (n.heard or n.line):
            raise Broken("an ejected neighbour is heard or told")
        if core.pace.newest and sum(a.place.phase == core.place.phase for a in n.line) > 1:
            raise Broken("more than the newest letter is to be sent")


def check_admitted(world, process, call):
    """Who gets through: neighbours that are not ejected, and no copy that is older."""
    core = process.core
    if call.caller not in world.graph[core.rules.name] or call.caller in core.ejected:
        raise Broken("a stranger or somebody ejected gets through")
    if call.life < world.disks[core.rules.name].lives.get(call.caller, 0):
        raise Broken("an older copy gets through")


def check_answer(world, name, effect, call=None):
    """What others may rely on is on the disk."""
    disk = world.disks[name]
    if isinstance(effect, m.Ask):
        if effect.method == "Push" and (name, effect.said) not in world.written:
            raise Broken("a letter leaves that is not on the disk")
        return
    if call.ask.method == "Hello" and disk.lives.get(call.caller, 0) < call.life:
        raise Broken("a life is answered that is not on the disk")
    if call.ask.method == "Hello" and effect.said.have != disk.heads.get(call.caller):
        raise Broken("what we say that we have is not what is on the disk")
    if call.ask.method == "Push" and call.caller not in world.case.liar:
        place = call.ask.said.place
        if disk.heads.get(call.caller, NOWHERE) < place and disk.place <= place:
            raise Broken("a letter is acknowledged that is not on the disk")


def check_end(world, process, effect):
    """Who leaves has told everybody what is still needed, or says who lacks it."""
    core = process.core
    end = Place(len(world.case.rounds) - 1, world.case.rounds[-1])
    for name, n in core.neighbours.items():
        needs = name in world.honest and world.disks[name].place != end
        if needs and n.line and not n.gone and not core.pace.newest and name not in effect.lacking:
            raise Broken(f"{core.rules.name} leaves though {name} lacks a letter")


def check_done(world, process, effect, event=None):
    """What is computed and written: rounds in order, letters of who says so, nothing alone."""
    core = process.core
    name = core.rules.name
    if isinstance(effect, m.Put):
        knew = process.knew.get(effect.ticket) == core.life
        _check_put(world, name, effect.letter, event, knew)
    elif isinstance(effect, m.Compute) and effect.heard is not None:
        _check_round(world, process, effect)


def _check_put(world, name, letter, event, knew):
    """`knew`: the sender had met this life of the receiver when it sent the letter."""
    if world.method.letters.written(letter.body).sender != letter.sender:
        raise Broken("a forged letter is kept")
    if letter.sender not in world.honest:
        return
    if event.differs and knew and (letter.sender, letter.place) not in world.disks[name].aside:
        raise Broken(f"{letter.sender} says two things to {name} in {letter.place}")


def _check_round(world, process, effect):
    """Who is not heard has said that it has nothing, or that it listens no more."""
    core, disk = process.core, world.disks[process.core.rules.name]
    if effect.place != disk.place:
        raise Broken(f"round {effect.place} is computed, and {disk.place} is on the disk")
    for name, letters in effect.heard.items():
        if name in core.ejected:
            raise Broken("an ejected neighbour is heard")
        for place, letter in letters.values():
            if (name, place) in disk.aside:
                raise Broken("a letter in quarantine is heard")
            if letter is None:
                raise Broken("a letter that is not there is heard")
    if core.pace.newest:
        return
    alone = True
    for name in core.counted:
        here = effect.place in {place for place, _ in effect.heard[name].values()}
        aside = (name, effect.place) in disk.aside
        gap = effect.place < process.claims.gaps.get(name, NOWHERE)
        alone = alone and gap and not here
        if not (here or aside or gap or name in process.claims.byes):
            raise Broken(f"a round without {name}, who has not said that it has nothing")
    last = effect.place >= Place(effect.place.phase, core.rounds - 1)
    if core.counted and alone and core.learns and not last:
        raise Broken("a round alone, where neighbours have letters for a later one")
