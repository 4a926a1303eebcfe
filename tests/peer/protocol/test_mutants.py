"""Every rule of the core is needed: without it, some world notices."""

import math

import pytest

from peer.protocol.audit import Broken
from peer.protocol.cases import LATE, SOON, lived
from peerwise.peer.protocol import Core, messages, pace, telling
from peerwise.peer.protocol.messages import NOWHERE
from peerwise.peer.protocol.neighbour import Neighbour, Retry

MUTANTS = {}


def mutant(*cases, seeds=60, since=0, together=0.0):
    """Register a way to take a rule out, and the worlds that must notice.

    `together`: how probably letters are written together in these worlds.
    """

    def register(function):
        seeded = range(since, since + seeds)
        MUTANTS[function.__name__.replace("_", " ")] = function, cases, seeded, together
        return function

    return register


def no(*_, **__):
    return None


def false(*_, **__):
    return False


def true(*_, **__):
    return True


# what is on the disk before others rely on it


@mutant("wait")
def acknowledged_before_it_is_on_the_disk(patch):
    real = Core.open

    def early(self, ticket, sender, place, body):
        real(self, ticket, sender, place, body)
        self.answer(ticket)

    patch.setattr(Core, "open", early)


@mutant("wait")
def letters_leave_before_the_round_is_on_the_disk(patch):
    real = Core.on_computed

    def early(self, event):
        real(self, event)
        place, self.place = self.place, self.storing[0].place
        self.post(event.bodies)
        self.place = place

    patch.setattr(Core, "on_computed", early)


@mutant("a liar")
def a_greeting_is_answered_while_letters_are_being_written(patch):
    real = Core.answer_hellos

    def early(self, name, why=None):
        n = self.neighbours[name]
        kept, n.writing = n.writing, set()
        real(self, name, why)
        n.writing = kept

    patch.setattr(Core, "answer_hellos", early)


@mutant("backup near", "noise, backup")
def a_greeting_is_answered_while_the_line_is_put_together(patch):
    real = Core.answer_hellos

    def early(self, name, why=None):
        n = self.neighbours[name]
        loading, n.loading = n.loading, 0
        real(self, name, why)
        n.loading = loading

    patch.setattr(Core, "answer_hellos", early)


@mutant("wait")
def what_neighbours_have_is_not_noted(patch):
    patch.setattr(Core, "acknowledged", lambda self: {})


# letters that come in


@mutant("backup near", "backup far", "a liar", seeds=200)
def holes_are_taken(patch):
    patch.setattr(Core, "leaves_a_hole", false)


@mutant("a liar")
def letters_far_ahead_are_taken(patch):
    patch.setattr(Core, "is_far", false)
    patch.setattr(Core, "leaves_a_hole", false)


@mutant("a liar")
def letters_of_no_round_are_taken(patch):
    real = Core.untimely

    def lax(self, sender, place):
        why = real(self, sender, place)
        return None if why is not None and why[0] == "INVALID_ARGUMENT" else why

    patch.setattr(Core, "untimely", lax)


@mutant("phases", "a liar, phases")
def letters_of_a_later_phase_are_taken(patch):
    real = Core.untimely

    def lax(self, sender, place):
        why = real(self, sender, place)
        return None if why is not None and why[2] == "early" else why

    patch.setattr(Core, "untimely", lax)


@mutant("wait", "phases")
def old_letters_are_taken(patch):
    patch.setattr(Core, "is_stale", false)
    patch.setattr(Core, "is_of_use", true)


@mutant("a liar")
def letters_in_anothers_name_are_taken(patch):
    real = Core.on_pushed

    def lax(self, event):
        try:
            sender = self.rules.letters.written(event.body).sender
        except messages.BadLetter:
            sender = event.sender
        known = sender if sender in self.neighbours else event.sender
        real(self, event._replace(sender=known))

    patch.setattr(Core, "on_pushed", lax)


@mutant("wait", "late letters")
def letters_that_are_used_up_stay(patch):
    patch.setattr(Core, "forget", no)


@mutant("poison")
def a_letter_in_quarantine_is_waited_for(patch):
    patch.setattr(Core, "put_aside", no)


@mutant("a liar", "async, a liar", seeds=150)
def two_letters_of_a_place_are_written_at_once(patch):
    patch.setattr(Core, "is_coming", false)


@mutant("async, poison")
def a_letter_that_made_a_round_fail_is_used_again(patch):
    real = Core.on_stored

    def again(self, event):
        advance, partners = self.storing
        self.storing = advance._replace(aside={}), partners
        real(self, event)

    patch.setattr(Core, "on_stored", again)


@mutant("eject")
def letters_of_the_ejected_are_kept(patch):
    real = Core.is_of_use

    def lax(self, sender, place):
        ejected, self.ejected = self.ejected, {}
        use = real(self, sender, place)
        self.ejected = ejected
        return use

    patch.setattr(Core, "is_of_use", lax)


# who may speak


@mutant("eject")
def the_ejected_may_speak(patch):
    _admit(patch, "ejected")


@mutant("a liar")
def strangers_may_speak(patch):
    _admit(patch, "stranger")


@mutant("wait, ring", "backup near")
def older_copies_may_speak(patch):
    _admit(patch, "copy")


def _admit(patch, kind):
    real = Core.refusal

    def lax(self, caller, life, bye=""):
        why = real(self, caller, life, bye)
        return None if why is not None and why[2] == kind else why

    patch.setattr(Core, "refusal", lax)


# going back


@mutant("backup near")
def nothing_is_sent_again_to_who_was_put_back(patch):
    real = Core.on_loaded
    patch.setattr(Core, "on_loaded", lambda self, event: real(self, event._replace(letters=[])))


@mutant("backup near")
def a_neighbour_that_is_known_is_not_met(patch):
    real = Core.hear_greeting

    def forgetful(self, name, said):
        n = self.neighbours[name]
        if said.life == n.life:
            n.met = n.life
        real(self, name, said)

    patch.setattr(Core, "hear_greeting", forgetful)


@mutant("backup near", "backup far", seeds=300)
def gaps_are_believed_of_who_has_not_met_us(patch):
    patch.setattr(Core, "knows_us", true)


@mutant("backup far")
def gaps_are_not_believed(patch):
    patch.setattr(Neighbour, "is_gap", false)


@mutant("backup far")
def who_is_far_back_does_its_rounds_alone(patch):
    patch.setattr(Core, "to_catch_up", no)


@mutant("noise, backup", seeds=150)
def what_a_neighbour_has_is_said_again(patch):
    patch.setattr(Core, "already_said", no)


@mutant("noise, backup", "wait", seeds=150)
def letters_are_sent_before_a_greeting(patch):
    real = Core.tell

    def rude(self, name):
        n = self.neighbours[name]
        n.greeted = n.greeted or bool(n.line)
        real(self, name)

    patch.setattr(Core, "tell", rude)


@mutant("backup near", "backup far", seeds=300)
def answers_to_a_former_life_count(patch):
    real = Core.on_answered

    def lax(self, event):
        n = self.neighbours[event.name]
        if event.method == "Push":
            method, _, place = n.calls.asked
            n.calls.asked = method, n.life, place
            event = event._replace(said=event.said._replace(life=n.life))
        real(self, event)

    patch.setattr(Core, "on_answered", lax)


@mutant("masks", "masks, deadline", "masks, async")
def a_round_begins_before_all_have_said_what_they_have(patch):
    patch.setattr(Core, "asked", lambda self: ())


@mutant("masks, async")
def what_was_said_before_this_life_was_met_counts(patch):
    patch.setattr(Core, "knows_us", true)


# that all end


@mutant("wait")
def a_call_that_failed_is_not_made_again(patch):
    patch.setattr(Retry, "failed", lambda self, now: setattr(self, "due", math.inf))


@mutant("deadline, somebody silent")
def the_time_is_not_asked_for(patch):
    patch.setattr(Core, "wake", no)


@mutant("eject")
def a_bye_is_not_believed(patch):
    patch.setattr(Neighbour, "gone", property(false))


@mutant("wait")
def one_leaves_before_all_have_the_last_letter(patch):
    patch.setattr(Core, "undelivered", property(lambda self: []))


@mutant("eject", seeds=150)
def the_ejected_are_not_told(patch):
    unaware = Core.unaware.fget
    aware = property(lambda self: [n for n in unaware(self) if n not in self.ejected])
    patch.setattr(Core, "unaware", aware)


@mutant("backup near", "backup near, dials only", seeds=150)
def one_leaves_before_all_know(patch):
    patch.setattr(Core, "unaware", property(lambda self: []))


@mutant("eject", "eject, backup", seeds=150)
def a_bye_is_not_on_the_disk(patch):
    patch.setattr(Core, "note_bye", lambda self, name, bye: _say(self, name, bye))


def _say(self, name, bye):
    self.neighbours[name].bye = bye


@mutant("eject, backup", since=60)
def a_late_greeting_takes_a_bye_back(patch):
    real = Core.hear_bye

    def forgetful(self, name, said):
        self.neighbours[name].order = 0
        return real(self, name, said)

    patch.setattr(Core, "hear_bye", forgetful)


@mutant("eject, backup", since=60)
def the_ejected_cannot_say_that_they_leave(patch):
    real = Core.refusal
    patch.setattr(Core, "refusal", lambda self, caller, life, bye="": real(self, caller, life))


@mutant("eject, backup", since=160)
def one_leaves_before_it_can_be_called(patch):
    real = Core.leave

    def early(self):
        self.started = True
        real(self)

    patch.setattr(Core, "leave", early)


@mutant("eject", since=60)
def letters_that_are_here_do_not_count_for_catching_up(patch):
    real = Core.nexts
    patch.setattr(Core, "nexts", lambda self, n: [p for p in real(self, n) if p not in n.heard])


@mutant("backup near", "backup far")
def nobody_loses_patience(patch):
    patch.setattr(Core, "give_up", no)


@mutant("wait")
def patience_ends_though_neighbours_talk(patch):
    patch.setattr(Neighbour, "spoke", property(lambda self: 0.0, no), raising=False)


@mutant("dials only")
def what_a_pull_says_is_not_noted(patch):
    real = Core.on_pulled
    patch.setattr(Core, "on_pulled", lambda self, e: real(self, e._replace(have=NOWHERE)))


@mutant("backup near, dials only", seeds=150)
def who_fetches_does_not_greet_again(patch):
    patch.setattr(Core, "note_life", no)
    patch.setattr(telling, "REGREET", ())


@mutant("wait, ring")
def a_round_waits_for_nobody(patch):
    patch.setattr(pace, "_expected", lambda view: [])


@mutant("deadline, somebody silent")
def a_deadline_never_ends(patch):
    patch.setattr(LATE, "limit", math.inf)
    patch.setattr(LATE, "start", math.inf)


@mutant("adaptive, somebody silent")
def an_adaptive_deadline_never_ends(patch):
    patch.setattr(pace.Adaptive, "within", lambda self, view, waiting: math.inf)
    patch.setattr(SOON, "start", math.inf)


@mutant("async, somebody silent")
def an_asynchronous_round_waits_for_all(patch):
    everybody = lambda self, view: pace.Verdict(list(view.partners), math.inf)  # noqa: E731
    patch.setattr(pace.Async, "verdict", everybody)


@mutant("deadline")
def more_than_the_newest_letter_waits(patch):
    patch.setattr(LATE, "newest", False)
    patch.setattr(Core, "post", _post_all)


def _post_all(self, bodies):
    self.posted = self.place
    for name, body in bodies.items():
        self.neighbours[name].line.append(messages.Away(name, self.place, body))


# letters that are written together


@mutant("async", together=0.5)
def a_round_begins_between_letters_written_together(patch):
    """By what is on the disk: the others of the batch are, and are not noted yet."""
    real = Core.on

    def early(self, event, now, more=False):
        return real(self, event, now)

    patch.setattr(Core, "on", early)


@mutant("wait", together=0.5)
def nobody_looks_after_letters_written_together(patch):
    real = Core.on

    def stuck(self, event, now, more=False):
        self.batch = more or getattr(self, "batch", False)
        return real(self, event, now, self.batch)

    patch.setattr(Core, "on", stuck)


# an amended charter


@mutant("deadline, amended")
def an_amended_deadline_counts_at_the_next_start(patch):
    patch.setattr(Core, "on_amended", lambda self, event: real_amended(self, event, "pace"))


@mutant("addresses amended")
def an_amended_address_counts_at_the_next_start(patch):
    patch.setattr(Core, "on_amended", lambda self, event: real_amended(self, event, "dials"))


@mutant("addresses amended")
def who_can_be_dialled_now_is_not_asked_for_letters(patch):
    patch.setattr(Core, "on_amended", lambda self, event: real_amended(self, event, "fetches"))


def real_amended(self, event, without):
    """An amendment without a part of it."""
    old = {"pace": self.rules.pace, "dials": self.dials, "fetches": self.fetchable}
    REAL(self, event._replace(**{without: old[without]}))


REAL = Core.on_amended


def is_noticed(function, cases, seeds, together=0.0):
    """The world and seed that notice a mutant."""
    for case in cases:
        for seed in seeds:
            with pytest.MonkeyPatch.context() as patch:
                function(patch)
                try:
                    lived(case, seed, together)
                except Broken:
                    return case, seed
                except (AssertionError, KeyError):  # a core that stumbles: a promise must be missed
                    continue
    return None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_taken_out_is_noticed(name):
    assert is_noticed(*MUTANTS[name]) is not None


def test_the_core_as_it_is_is_not_noticed():
    assert is_noticed(no, ["wait", "backup near", "a liar"], range(3)) is None
