"""What is promised at every moment of a simulated world, looked at from outside of the cores."""

from peerwise.peer.protocol import messages as m
from peerwise.peer.protocol.messages import EJECTED, NOWHERE, OVER, Place


class Broken(AssertionError):
    """A promise that was not kept."""


class Claims:
    """What neighbours said of themselves to one process: gaps, and byes."""

    def __init__(self, byes):
        self.gaps, self.byes = {}, {name: bye for name, bye in byes.items() if bye}
        self.ever = set()  # byes that were said at any time

    def note(self, core, event):
        """Take note of what is brought to a core."""
        name = event.sender if isinstance(event, m.Helloed) else event.name
        if isinstance(event, m.Failed):
            if event.code == "ABORTED":
                self.say_bye(name, EJECTED)
            return
        said = event.said
        if isinstance(event, m.Answered) and event.method != "Hello":
            return
        knows = said.knows == core.life
        if said.first is not None and knows:
            self.gaps[name] = max(said.first, self.gaps.get(name, NOWHERE))
        if (said.life, said.order) < (core.neighbours[name].life, core.neighbours[name].order):
            return  # it has said more since then
        if said.bye == EJECTED or (said.bye == OVER and knows):
            self.say_bye(name, said.bye)
        elif not said.bye:
            self.byes.pop(name, None)

    def say_bye(self, name, bye):
        self.byes[name] = bye
        self.ever.add((name, bye))


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
    if effect.said.bye == EJECTED:
        return
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
        known = name in world.up and world.up[name].core.life == n.life  # else it was put back
        needs = name in world.honest and world.disks[name].place != end and known
        if needs and n.line and not n.bye and not core.pace.newest and name not in effect.lacking:
            raise Broken(f"{core.rules.name} leaves though {name} lacks a letter")


def check_done(world, process, effect, event=None):
    """What is computed and written: rounds in order, letters of who says so, nothing alone."""
    core = process.core
    name = core.rules.name
    if isinstance(effect, m.Put):
        knew = process.knew.get(effect.ticket) == core.life
        _check_put(world, name, effect.letter, event, knew)
    elif isinstance(effect, m.NoteBye):
        if effect.bye and (effect.name, effect.bye) not in process.claims.ever:
            raise Broken(f"a bye of {effect.name} is noted that it did not say")
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


def check_masks(world, letter):
    """No two terms under one mask are ever with anybody: they would tell their difference."""
    term = world.method.letters.opened(letter.body, letter.place.phase)
    terms = world.terms.setdefault((letter.sender, letter.place), set())
    terms |= {term} - {0}
    if len(terms) > 1:
        raise Broken(f"{letter.sender} hid two terms under its mask of {letter.place}")


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
    for name, place in disk.inbox:  # of a liar, which sends an old letter after a new one, not all
        if name not in core.counted or name not in world.honest or place.phase != core.place.phase:
            continue
        offered = {there for there, _ in effect.heard.get(name, {}).values()}
        newer = core.pace.lasting and place > max(offered, default=NOWHERE)
        of_use = effect.place.round - place.round <= core.pace.staleness
        if of_use and (newer or place == effect.place) and place not in offered:
            raise Broken(f"a round without a letter of {name} that is on the disk")
    if core.pace.newest:
        return
    alone, later = True, False
    for name in core.counted:
        here = effect.place in {place for place, _ in effect.heard[name].values()}
        aside = (name, effect.place) in disk.aside
        bye = process.claims.byes.get(name)
        gap = effect.place < process.claims.gaps.get(name, NOWHERE) or bye == OVER
        alone = alone and not here and not aside
        later = later or bye != EJECTED or _is_here(disk, name, effect.place)
        if not (here or aside or gap or bye):
            raise Broken(f"a round without {name}, who has not said that it has nothing")
    last = effect.place >= Place(effect.place.phase, core.rounds - 1)
    if later and alone and core.learns and not last:
        raise Broken("a round alone, where neighbours have letters for a later one")


def _is_here(disk, name, place):
    """Whether a letter of a later round has come."""
    return any(n == name and p > place for n, p in disk.inbox)
