"""What the cores of a simulated world are given: a disk, a method, and letters of a few bytes."""

from peerwise.peer.protocol.messages import (
    Advance,
    Away,
    BadLetter,
    BadNumbers,
    Computed,
    Envelope,
    Load,
    Loaded,
    Look,
    Looked,
    NoteBye,
    NoteLife,
    Place,
    Put,
    PutAside,
    Stored,
    Written,
)
from peerwise.peer.redo import settled

M = 1 << 61  # a letter with this or more makes a round fail; with twice as much it is out of range


class Letters:
    """Letters as `sender|phase|round|number`."""

    def made(self, sender, place, number):
        return f"{sender}|{place.phase}|{place.round}|{number}".encode()

    def written(self, body):
        try:
            sender, phase, t, _ = body.decode().split("|")
            return Envelope(sender, int(phase), int(t))
        except ValueError:
            raise BadLetter("no letter") from None

    def opened(self, body, phase, checked=True):
        assert self.written(body).phase == phase
        try:
            number = int(body.decode().split("|")[3])
        except ValueError:
            raise BadLetter("no number") from None
        if checked and number >= 2 * M:
            raise BadNumbers("out of range")
        return number


class Method:
    """A letter that is missed, doubled or of another round changes all that follows.

    `lag`: letters of some neighbours are heard so many rounds late. `noise`: no round comes out
    the same twice.
    """

    def __init__(self, lag=0, noise=None):
        self.lag, self.noise, self.letters = lag, noise, Letters()

    def begin(self, name):
        return sum(name.encode()) * 7919

    def wanted(self, name, t):
        """The round whose letter of a neighbour is heard in round t."""
        return t - sum(name.encode()) % (self.lag + 1)

    def step(self, value, place, heard):
        value = value * 636413622384679 + 31 * place.round
        for name, number in sorted(heard.items()):
            if number >= M:
                raise ArithmeticError("poison")
            value += number * (1 + sum(name.encode()))
        if self.noise is not None:
            value += self.noise.getrandbits(40)
        return value % M

    def computed(self, name, neighbours, rounds, value, wanted):
        """What a round comes to, as the shell of a peer works it out."""
        phase, t = wanted.place
        used, left_out, aside = (), (), {}
        if wanted.heard is not None:
            heard = {}
            for n, letters in wanted.heard.items():
                at = self.wanted(n, t) if wanted.channel else next(iter(letters))
                if at in letters:
                    heard[n] = letters[at]
            done = settled(
                lambda names: self.step(value, wanted.place, {n: heard[n][1] for n in names}),
                list(heard),
            )
            value, used = done.result, done.heard
            left_out = tuple(n for n in heard if n not in used)
            aside = {n: (heard[n][0], why) for n, why in done.aside.items()}
        bodies = {}
        if wanted.after.round < rounds[wanted.after.phase]:
            bodies = {n: self.letters.made(name, wanted.after, value) for n in neighbours}
        begins = wanted.after.phase > phase
        partners = tuple(neighbours) if begins else None
        return Computed(value, bodies, tuple(sorted(used)), left_out, aside, None, partners)


class Masked(Method):
    """Each letter is a term of a sealed sum under the mask of its place; 0 is none.

    Once it was put back to an old state a peer has -1 for a value, and makes no more terms.
    """

    def step(self, value, place, heard):
        return value if value < 0 else 1 + super().step(value, place, heard)

    def computed(self, name, neighbours, rounds, value, wanted):
        value = -1 if wanted.said > wanted.place else value
        done = super().computed(name, neighbours, rounds, value, wanted)
        if done.result >= 0:
            return done
        none = self.letters.made(name, wanted.after, 0)
        return done._replace(bodies=dict.fromkeys(done.bodies, none))


def undisturbed(graph, rounds, method):
    """By node: what it ends with where nothing goes wrong; the plain synchronous run."""
    values = {n: method.begin(n) for n in graph}
    for phase, count in enumerate(rounds):
        told = {}
        for t in range(count):
            told[t] = dict(values)
            for n in graph:
                at = {m: method.wanted(m, t) for m in graph[n]}
                heard = {m: told[at[m]][m] for m in graph[n] if at[m] >= 0}
                values[n] = method.step(told[t][n], Place(phase, t), heard)
    return values


class Disk:
    """What a peer's file does, in memory; a copy is a backup."""

    KEEP = 6

    def __init__(self):
        self.place = self.value = None
        self.life, self.lives, self.heads, self.ejected = 0, {}, {}, {}
        self.inbox, self.aside, self.outbox, self.rounds, self.byes = {}, {}, {}, {}, {}

    def copy(self):
        new = Disk()
        for key, value in vars(self).items():
            setattr(new, key, dict(value) if isinstance(value, dict) else value)
        return new

    def live(self, now):
        self.life = max(self.life + 1, int(1000 * now))
        return self.life

    def unsent(self, name):
        mine = [(p, b) for (n, p), (b, taken) in self.outbox.items() if n == name and not taken]
        return [Away(name, p, b) for p, b in sorted(mine)]

    def done(self, effect):
        """The event that tells that an effect was done."""
        return getattr(self, f"_{type(effect).__name__.lower()}")(effect)

    def looked(self):
        return Looked(dict(self.ejected), list(self.aside), dict(self.inbox))

    def _put(self, effect: Put):
        sender, place, body, newest = effect.letter
        if (sender, place) in self.inbox:
            return Written(effect.ticket, self.inbox[sender, place] != body)
        if (sender, place) in self.aside:
            return Written(effect.ticket, True)
        if newest and any(key > (sender, place) for key in self.inbox if key[0] == sender):
            return Written(effect.ticket)
        if newest:
            self.inbox = {key: b for key, b in self.inbox.items() if key[0] != sender}
        self.inbox[sender, place] = body
        self.heads[sender] = max(place, self.heads.get(sender, place))
        return Written(effect.ticket)

    def _putaside(self, effect: PutAside):
        self._to_quarantine(effect.sender, effect.place, effect.why)
        return Written(effect.ticket)

    def _to_quarantine(self, sender, place, why):
        self.inbox.pop((sender, place), None)
        self.aside[sender, place] = why
        self.heads[sender] = max(place, self.heads.get(sender, place))

    def _notelife(self, effect: NoteLife):
        self.lives[effect.name] = effect.life
        return Written(effect.ticket)

    def _notebye(self, effect: NoteBye):
        self.byes[effect.name] = effect.bye
        return Written(effect.ticket)

    def _load(self, effect: Load):
        mine = sorted((p, b) for (n, p), (b, _) in self.outbox.items() if n == effect.name)
        letters = [Away(effect.name, p, b) for p, b in mine if p >= effect.since]
        return Loaded(effect.name, effect.since, letters)

    def _look(self, effect: Look):
        return self.looked()

    def acknowledge(self, acknowledged):
        for name, place in acknowledged.items():
            for (n, p), (body, _) in list(self.outbox.items()):
                if n == name and p <= place:
                    self.outbox[n, p] = body, True

    def _advance(self, effect: Advance):
        self.acknowledge(effect.acknowledged)
        for name, (place, why) in effect.aside.items():
            self._to_quarantine(name, place, why)
        if effect.newest:
            for (n, p), (body, _) in list(self.outbox.items()):
                if p.phase == effect.place.phase and p < effect.place:
                    self.outbox[n, p] = body, True
        for name, body in effect.bodies.items():
            self.outbox.setdefault((name, effect.place), (body, False))
        self.place, self.value = effect.place, effect.result
        if effect.done is not None:
            self.rounds[effect.done.place] = effect.done
        least = Place(self.place.phase, self.place.round + 1 - effect.keep)
        self.inbox = {key: body for key, body in self.inbox.items() if key[1] >= least}
        old = Place(self.place.phase, self.place.round - self.KEEP)
        before = self.place.phase - 1 if self.place.round < self.KEEP else None
        self.outbox = {
            k: v for k, v in self.outbox.items() if k[1] > old or not v[1] or k[1].phase == before
        }
        return Stored()
