"""Many cores, a random scheduler, and whoever lies: every choice is a draw of a seeded generator.

Calls are lost, doubled, late and answered out of order; a crash comes between any two effects, with
some of what was to be written on the disk; old backups are put back; operators eject and readmit.
After that everything works, and all must end. What is promised is looked at all the way.

In half of the worlds with backups or operators, and in all others, peers leave as soon as their
core says so, while there is chaos, too. Who is put back or readmitted after that may wait for one
that has left: it must then end and say so (`stranded`), and nobody else may.
"""

import math
import random
from collections import Counter

from peer.protocol.audit import (
    Broken,
    audit,
    check_admitted,
    check_answer,
    check_done,
    check_end,
    check_masks,
)
from peer.protocol.liars import lie, lie_answer
from peer.protocol.parts import Call, Process, Reply
from peer.protocol.toys import Disk, Masked, Method
from peerwise.peer.keeping import KEPT
from peerwise.peer.protocol import Core, Rules
from peerwise.peer.protocol import messages as m
from peerwise.peer.protocol.messages import NOWHERE, OVER, Greeting, Place
from peerwise.peer.protocol.pace import Wait

LINGER, PARTING, PATIENCE = 60.0, 20.0, 40.0  # seconds
SOON = 10.0  # seconds after which those who can be reached have been


class World:
    """Peers of a case under one seed.

    `together`: how probably a letter that is to be written shares the disk with the one before.
    """

    def __init__(self, case, seed, together=0.0):
        self.case, self.rng = case, random.Random(seed)
        noise = random.Random(~seed) if case.noise else None
        self.together, self.shares = together, random.Random(f"{seed} together")
        self.method = (Masked if case.masked else Method)(case.lag, noise)
        self.terms = {}  # by sender and place: the terms that came to somebody's disk
        self.graph = {n: tuple(case.graph[n]) for n in case.graph}
        self.honest = [n for n in self.graph if n not in case.liar + case.silent]
        self.now, self.serial, self.chaos, self.log = 1.0, 0, True, Counter()
        self.calm = math.inf  # when chaos ended
        self.flying, self.open = [], {}
        self.up, self.left = {}, set()
        self.disks = {n: Disk() for n in self.graph}
        self.backups = {n: [] for n in self.graph}
        self.tops = {n: Place(0, 0) for n in self.graph}  # how far each has ever been
        self.written = set()  # letters that were on the disk, with their senders
        changes = case.restore or case.eject
        self.hasty = not changes or random.Random(f"{seed} hasty").random() < 0.5
        self.stranded = {}  # by peer that gave up: for whom it waited
        self.amended = set()  # those who have the new edition of the charter
        self.readmitted = set()  # by whom, and whom: it may have left since

    # -- lives

    def start(self, name):
        self.now += 0.01  # no two lives have the same number while the clock goes on
        disk, first = self.disks[name], self.disks[name].place is None
        life = disk.live(self.now)
        if first:
            disk.place, disk.value = Place(0, 0), self.method.begin(name)
            body = self.method.letters.made(name, disk.place, disk.value)
            disk.outbox = {(n, disk.place): (body, False) for n in self.graph[name]}
            self.note_written(name, disk.place, dict.fromkeys(self.graph[name], body))
        rules = Rules(
            name, self.graph[name], self.case.rounds, self.pace(name), self.method.letters,
            ahead=2, lag=self.case.lag, linger=LINGER, parting=PARTING, patience=PATIENCE,
        )  # fmt: skip
        unsent = {n: disk.unsent(n) for n in self.graph[name]}
        kept = m.Kept(
            disk.place, life, self.graph[name], dict(disk.lives), dict(disk.heads), unsent,
            dict(disk.byes), self.case.masked and not first,
        )  # fmt: skip
        process = self.up[name] = Process(Core(rules, kept, self.now), disk.byes)
        self.feed(process, disk.looked())
        self.feed(process, m.Started(*self.ways(name)))

    def pace(self, name):
        return self.case.amended if name in self.amended else self.case.pace

    def ways(self, name):
        """Whom a peer dials, and from whom it fetches; of an old edition addresses are missing."""
        unknown = self.case.dials_only
        if self.case.amended and name not in self.amended:
            unknown += self.graph[name][0]
        dials = frozenset(n for n in self.graph[name] if n not in unknown)
        return dials, dials if name in self.case.dials_only else frozenset()

    def amend(self, name):
        """A site takes the new edition of the charter, while its peer runs or not."""
        self.amended.add(name)
        self.log["amend"] += 1
        if name in self.up:
            self.feed(self.up[name], m.Amended(*self.ways(name), self.pace(name)))

    def note_written(self, name, place, bodies):
        self.written |= {(name, m.Away(n, place, body)) for n, body in bodies.items()}

    def crash(self, name):
        self.log["crash"] += 1
        process = self.gone(name)
        while process.disk_jobs and self.rng.random() < 0.5:  # on the disk, and nobody was told
            self.written_by(name, process.disk_jobs.popleft())

    def gone(self, name):
        """A process that ended; whoever waits for an answer of it learns so."""
        process = self.up.pop(name)
        for key in [key for key in self.open if key[0] == id(process)]:
            call = self.open.pop(key)
            if call.serial is not None:
                why = m.Failed(name, call.ask.method, "UNAVAILABLE", "it hung up")
                self.flying.append(Reply(call.process, call.serial, why))
        return process

    def restore(self, name):
        if not self.backups[name]:
            return
        backup = self.rng.choice(self.backups[name])
        if not self.case.far and not self.is_near(name, backup.place):
            return
        self.log["restore"] += 1
        if name in self.up:
            self.crash(name)
        self.left.discard(name)
        ejected = self.disks[name].ejected
        self.disks[name] = backup.copy()
        self.disks[name].ejected = dict(ejected)
        if self.case.masked:  # of what came after it, and was given up, neighbours may know nothing
            self.backups[name] = [b for b in self.backups[name] if b.place <= backup.place]

    def is_near(self, name, place):
        """Whether neighbours, who may go on with what they have, keep the letters it will need."""
        phase, t = self.tops[name]
        since = place.round if phase == place.phase else 0
        return phase <= place.phase + 1 and t - since <= Disk.KEEP - 2

    def operate(self, name, other, eject):
        disk = self.disks[name]
        if eject:
            disk.ejected[other] = "why"
            disk.inbox = {k: b for k, b in disk.inbox.items() if k[0] != other}
            disk.acknowledge({other: Place(99, 0)})
        elif disk.ejected.pop(other, None):
            self.readmitted.add((name, other))
        self.log["eject" if eject else "readmit"] += 1
        if name in self.up:
            self.up[name].disk_jobs.append(m.Look())

    # -- events and effects

    def feed(self, process, event, more=False):
        core = process.core
        name = core.rules.name
        if self.up.get(name) is not process:
            return
        effects = core.on(event, self.now, more)
        audit(self, process)
        for effect in effects:
            if self.chaos and self.rng.random() < self.case.crash:
                self.crash(name)
                return
            self.do(process, effect)
        for effect in effects:
            if isinstance(effect, m.End):
                self.end(process, effect)

    def do(self, process, effect):
        name = process.core.rules.name
        if isinstance(effect, KEPT):
            process.disk_jobs.append(effect)
        elif isinstance(effect, m.Compute):
            check_done(self, process, effect)
            process.jobs.append(effect)
        elif isinstance(effect, m.Ask):
            self.serial += 1
            process.asked[self.serial] = effect
            check_answer(self, name, effect)
            knew = process.core.neighbours[effect.name].met
            call = Call(name, effect.name, process.core.life, effect, process, self.serial, knew)
            self.flying.append(call)
        elif isinstance(effect, m.Answer | m.Refuse):
            self.answer(process, effect)
        elif isinstance(effect, m.Wake):
            process.wake = effect.at
        elif isinstance(effect, m.Log):
            self.log[effect.event] += 1

    def answer(self, process, effect):
        call = self.open.pop((id(process), effect.ticket), None)
        if call is None:
            return
        if isinstance(effect, m.Refuse):
            event = m.Failed(call.to, call.ask.method, effect.code, effect.why)
        elif isinstance(effect.said, m.Away):
            event = m.Answered(call.to, call.ask.method, Greeting(), effect.said.body)
            check_answer(self, call.to, m.Ask(call.caller, "Push", effect.said))
        else:
            check_answer(self, call.to, effect, call)
            event = m.Answered(call.to, call.ask.method, effect.said)
        if call.serial is not None:
            self.flying.append(Reply(call.process, call.serial, event))

    # -- the network

    def deliver(self, index):
        self.flying[index], self.flying[-1] = self.flying[-1], self.flying[index]
        thing = self.flying.pop()
        if isinstance(thing, Reply):
            if thing.process.asked.pop(thing.serial, None) is not None:
                thing.process.claims.note(thing.process.core, thing.event)
                self.feed(thing.process, thing.event)
            return
        lost = self.chaos and self.rng.random() < self.case.lose
        if lost and thing.serial is not None:  # the caller hangs up, and the call may come yet
            why = m.Failed(thing.to, thing.ask.method, "DEADLINE_EXCEEDED", "late")
            self.flying.append(Reply(thing.process, thing.serial, why))
            if self.rng.random() < 0.5:
                self.flying.append(thing._replace(serial=None))
            return
        if self.chaos and self.rng.random() < self.case.double:
            self.flying.append(thing._replace(serial=None))
        self.call(thing)

    def call(self, call):
        to, ask = call.to, call.ask
        if to in self.case.liar:
            event = lie_answer(self, call)
        elif to not in self.up:
            event = m.Failed(to, ask.method, "UNAVAILABLE", "nobody there")
        else:
            process = self.up[to]
            bye = ask.said.bye if ask.method == "Hello" else ""
            refused = process.core.refusal(call.caller, call.life, bye)
            if refused is not None and bye == OVER:
                process.claims.say_bye(call.caller, bye)
            if refused is None:
                check_admitted(self, process, call)
                self.bring(process, call)
                return
            event = m.Failed(to, ask.method, refused[0], refused[1])
        if call.serial is not None:
            self.flying.append(Reply(call.process, call.serial, event))

    def bring(self, process, call):
        self.serial += 1
        ticket, ask = self.serial, call.ask
        self.open[id(process), ticket] = call
        if ask.method == "Hello":
            event = m.Helloed(ticket, call.caller, ask.said._replace(life=call.life))
            process.claims.note(process.core, event)
        elif ask.method == "Push":
            event = m.Pushed(ticket, call.caller, ask.said.body)
            process.knew[ticket] = call.knew
        else:
            event = m.Pulled(ticket, call.caller, ask.said, ask.wait)
        self.feed(process, event)

    # -- work

    def write(self, name):
        process = self.up[name]
        jobs = [process.disk_jobs.popleft()]
        while isinstance(jobs[-1], m.Put) and self.shares.random() < self.together:
            if not process.disk_jobs or not isinstance(process.disk_jobs[0], m.Put):
                break
            jobs.append(process.disk_jobs.popleft())
        events = [self.written_by(name, job) for job in jobs]
        for job, event in zip(jobs, events, strict=True):
            check_done(self, process, job, event)
        if isinstance(jobs[0], m.Advance) and self.chaos and len(self.backups[name]) < 20:
            self.backups[name].append(self.disks[name].copy())
        for left, event in zip(reversed(range(len(events))), events, strict=True):
            self.feed(process, event, left > 0)

    def written_by(self, name, job):
        if isinstance(job, m.Advance):
            self.note_written(name, job.place, job.bodies)
            self.tops[name] = max(self.tops[name], job.place)
        if self.case.masked and isinstance(job, m.Put):
            check_masks(self, job.letter)
        return self.disks[name].done(job)

    def compute(self, name):
        process = self.up[name]
        job = process.jobs.pop()
        done = self.method.computed(
            name, self.graph[name], self.case.rounds, self.disks[name].value, job
        )
        self.feed(process, done)

    def tick(self, seconds):
        self.now += seconds
        for name in [n for n in self.honest if n in self.up and self.rng.random() < 0.5]:
            self.feed(self.up[name], m.Tick())

    def step(self):
        rng, case = self.rng, self.case
        if rng.random() < case.restore:
            # of two that were put back neither might know what the other once sent
            self.restore(self.honest[0] if case.masked else rng.choice(self.honest))
        if rng.random() < case.eject:
            name = rng.choice(self.honest)
            self.operate(name, rng.choice(self.graph[name]), rng.random() < 0.5)
        if case.amended and rng.random() < 0.02:
            self.amend(rng.choice(self.honest))
        down = [n for n in self.honest if n not in self.up and n not in self.left]
        if down and rng.random() < 0.2:
            self.start(rng.choice(down))
        if case.liar and rng.random() < 0.3:
            self.flying.extend(lie(self))
        choices = [(self.deliver, i) for i in range(len(self.flying))]
        choices += [(self.write, n) for n, p in self.up.items() if p.disk_jobs]
        choices += [(self.compute, n) for n, p in self.up.items() if p.jobs]
        choices += [(self.tick, rng.choice([0.1, 0.5, 2.0]))]
        act, what = rng.choice(choices)
        act(what)

    # -- the whole

    def is_done(self):
        """Whether all have done all rounds."""
        end = Place(len(self.case.rounds) - 1, self.case.rounds[-1])
        return all(self.disks[n].place == end for n in self.honest)

    def live(self):
        """Chaos, then a time in which everything works; `Broken` where a promise is."""
        for name in self.honest:
            if self.rng.random() < 0.7:
                self.start(name)
        for _ in range(self.case.steps):
            self.step()
        self.chaos, self.calm = False, self.now
        if not self.hasty:
            self.take_byes_back()
        if self.case.eject:
            self.settle_operators()
        for name in self.honest if self.case.amended else ():
            self.amend(name)
        still = 0
        for _ in range(3000):
            before = [self.disks[n].place for n in self.honest] + [len(self.left)]
            self.fair_turn()
            if self.left | self.stranded.keys() == set(self.honest):
                return self
            same = before == [self.disks[n].place for n in self.honest] + [len(self.left)]
            still = still + 1 if same else 0
            if still == 60 and self.case.liar and (self.is_done() or not self.case.talks):
                for name in self.honest:
                    if self.case.liar in self.graph[name]:
                        self.operate(name, self.case.liar, True)
            if still > 400:
                break
        waiting = {n: n in self.up and self.up[n].core.waiting for n in self.honest}
        where = {n: (self.disks[n].place, waiting[n]) for n in self.honest}
        raise Broken(f"nobody goes on: {where}")

    def take_byes_back(self):
        """Nobody has left, whatever was said: all part again, and what is on its way is lost."""
        for process in self.up.values():
            process.core.delivered_at = None
            for n in process.core.neighbours.values():
                n.parted, n.bye = False, n.bye if n.gone else ""
        for disk in self.disks.values():
            disk.byes = {n: bye for n, bye in disk.byes.items() if bye != OVER}
        asked = [thing for thing in self.flying if thing.serial is not None]
        self.flying = []
        for thing in asked:
            ask = thing.process.asked.get(thing.serial)
            if ask is not None:
                why = m.Failed(ask.name, ask.method, "DEADLINE_EXCEEDED", "late")
                self.flying.append(Reply(thing.process, thing.serial, why))

    def settle_operators(self):
        """Operators make up their minds; who is ejected may not have ejected the other."""
        for name in self.honest:
            for other in self.graph[name]:
                self.operate(name, other, self.rng.random() < 0.2)

    def fair_turn(self):
        for name in self.honest:
            if name not in self.up and name not in self.left and name not in self.stranded:
                self.start(name)
        if self.case.liar:
            self.flying.extend(lie(self))
        for name in list(self.up):
            while name in self.up and (self.up[name].disk_jobs or self.up[name].jobs):
                (self.write if self.up[name].disk_jobs else self.compute)(name)
        for _ in range(len(self.flying)):
            self.deliver(self.rng.randrange(len(self.flying)))
        self.now += 0.5
        for name in list(self.up):
            process = self.up.get(name)
            if process is not None and self.now >= process.wake:  # else it must ask to be told
                process.wake = math.inf
                self.feed(process, m.Tick())

    # -- the end of a peer

    def end(self, process, effect):
        if effect.silent:
            self.give_up(process, effect)
            return
        check_end(self, process, effect)
        if self.chaos and not self.hasty:  # all stay, for whoever is put back to a backup
            process.core.ended = False
        else:
            self.leave(process.core.rules.name, effect)

    def give_up(self, process, effect):
        """A peer that nobody answers ends: started again it goes on, or waits in vain again."""
        name = process.core.rules.name
        self.gone(name)
        self.log["gave up"] += 1
        if self.case.amended and self.now > self.calm + SOON:
            raise Broken(f"{name} gave up, and all have the new edition of the charter")
        if self.chaos or not all(n in self.left or n in self.stranded for n in effect.silent):
            return
        self.stranded[name] = effect.silent
        if self.hasty and self.log["restore"]:
            return
        for other in effect.silent:
            back = self.hasty and (name, other) in self.readmitted
            if not back and other not in self.stranded:
                raise Broken(f"{name} waits for {other}, who left without a word")

    def leave(self, name, effect):
        process = self.gone(name)
        self.disks[name].acknowledge(process.core.acknowledged())
        self.left.add(name)
        away = self.left | self.stranded.keys()
        lacking = [n for n in effect.lacking if n in self.honest and n not in away]
        back = self.hasty and (self.log["restore"] or self.readmitted)  # by those who wait in vain
        if lacking and not back:
            raise Broken(f"{name} left and {lacking} lack its last letter")
        case = self.case
        if not isinstance(case.pace, Wait) or case.liar or case.silent or case.eject:
            return
        if self.hasty and self.log["restore"]:  # it may not know of who was put back
            return
        last = Place(len(case.rounds) - 1, case.rounds[-1] - 1)
        for n in self.graph[name]:
            if self.disks[n].heads.get(name, NOWHERE) < last:
                raise Broken(f"{name} left and {n} lacks its last letter")
        disk = self.disks[name]
        told = [n for n in self.graph[name] if n not in effect.lacking and disk.byes.get(n) != OVER]
        if any(disk.unsent(n) for n in told):
            raise Broken("what was taken is not noted on the disk")
