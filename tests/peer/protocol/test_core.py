"""Single decisions of a core, where a random world would seldom look."""

import pytest

from peer.protocol.toys import Letters
from peerwise.peer.protocol import Core, Rules
from peerwise.peer.protocol import messages as m
from peerwise.peer.protocol.messages import EJECTED, OVER, Away, Greeting, Place
from peerwise.peer.protocol.neighbour import Neighbour
from peerwise.peer.protocol.pace import Adaptive, Async, Deadline, View, Wait

LIFE = 7


def core(pace=None, at=0, rounds=4, **kept):
    """Peer b of a path a, b, c."""
    rules = Rules("b", ("a", "c"), (rounds,), pace or Wait(), Letters(), ahead=2)
    return Core(rules, m.Kept(Place(0, at), LIFE, ("a", "c"), **kept), 0.0)


def pushed(one, sender, t, number=5):
    """Have a letter brought and written."""
    body = one.rules.letters.made(sender, Place(0, t), number)
    effects = one.on(m.Pushed((sender, t), sender, body), one.now)
    if any(isinstance(effect, m.Put) for effect in effects):
        effects += one.on(m.Written((sender, t)), one.now)
    return effects


def of(kind, effects):
    return [effect for effect in effects if isinstance(effect, kind)]


def helloed(one, sender, **said):
    return one.on(m.Helloed("hello", sender, Greeting(**said)), one.now)


def test_a_round_waits_for_every_letter_and_is_stored_before_its_letters_leave():
    one = core()
    one.on(m.Started(frozenset("ac")), 0.0)
    for n in one.neighbours.values():
        n.greeted, n.calls.asked = True, None
    assert not of(m.Compute, pushed(one, "a", 0))
    (compute,) = of(m.Compute, pushed(one, "c", 0))
    assert compute.after == Place(0, 1)
    effects = one.on(m.Computed("state", {"a": b"x", "c": b"x"}, ("a", "c")), 1.0)
    (advance,) = of(m.Advance, effects)
    assert (advance.place, advance.done.heard, advance.done.seconds) == ((0, 1), ("a", "c"), 1.0)
    assert not of(m.Ask, effects)
    asked = of(m.Ask, one.on(m.Stored(), 1.0))
    assert [(ask.name, ask.method, ask.said.place) for ask in asked] == [
        ("a", "Push", (0, 1)), ("c", "Push", (0, 1)),
    ]  # fmt: skip


def test_letters_that_are_written_together_are_looked_at_once():
    one = core()
    for n in "ac":
        one.on(m.Pushed(n, n, one.rules.letters.made(n, Place(0, 0), 5)), 1.0)
    first = one.on(m.Written("a"), 2.0, more=True)
    assert [type(effect) for effect in first] == [m.Answer]
    assert one.begun == 0.0
    last = one.on(m.Written("c"), 2.0)
    assert [type(effect) for effect in last] == [m.Answer, m.Compute]
    assert last[1].heard == {n: {0: ((0, 0), 5)} for n in "ac"}


def test_a_peer_goes_forward_only_if_nobody_has_a_letter_for_its_round():
    one = core()
    one.neighbours["a"].first = Place(0, 2)
    assert one.to_catch_up() is None  # c may have one
    one.neighbours["c"].first = Place(0, 3)
    assert one.to_catch_up() == 2
    one.neighbours["a"].heard[Place(0, 0)] = 5
    assert one.to_catch_up() is None  # what it sent before is here
    one.neighbours["a"].heard.clear()
    for n in one.neighbours.values():
        n.first = Place(0, 99)
    assert one.to_catch_up() == 3  # the last
    for n in one.neighbours.values():
        n.first = Place(1, 0)
    assert one.to_catch_up() is None


def test_a_round_is_computed_knowing_what_was_said_before_a_backup():
    one = core()
    one.on(m.Started(frozenset("ac")), 0.0)
    helloed(one, "a", place=Place(0, 2), life=5, have=Place(0, 1))
    pushed(one, "a", 0)
    (compute,) = of(m.Compute, pushed(one, "c", 0))
    assert compute.said == Place(0, 1) > compute.place
    fresh = core()
    pushed(fresh, "a", 0)
    (compute,) = of(m.Compute, pushed(fresh, "c", 0))
    assert compute.said < compute.place


def test_a_neighbour_that_has_our_letter_is_not_told_another():
    line = {n: [Away(n, Place(0, 0), b"first")] for n in "ac"}
    one = core(unsent=line)
    helloed(one, "a", place=Place(0, 2), life=5, have=Place(0, 1))
    assert not one.neighbours["a"].line
    one.place = Place(0, 1)
    one.post({"a": b"other", "c": b"other"})
    assert not one.neighbours["a"].line
    assert [away.place.round for away in one.neighbours["c"].line] == [0, 1]


def test_what_is_posted_while_a_neighbour_comes_back_is_not_lost():
    one = core()
    (load,) = of(m.Load, helloed(one, "a", place=Place(0, 0), life=5))
    one.place = Place(0, 1)
    one.post({"a": b"posted meanwhile"})
    kept = [Away("a", Place(0, 0), b"kept")]
    effects = one.on(m.Loaded("a", load.since, kept), 0.0)
    assert [away.body for away in one.neighbours["a"].line] == [b"kept", b"posted meanwhile"]
    assert not of(m.Answer, effects)  # its life is not on the disk yet
    (answer,) = of(m.Answer, one.on(m.Written(("life", "a", 5)), 0.0))
    assert (answer.said.first, answer.said.knows) == ((0, 0), 5)


def test_only_who_has_met_this_life_can_say_that_nothing_comes():
    one = core()
    helloed(one, "a", place=Place(0, 3), life=5, first=Place(0, 3), knows=LIFE - 1)
    assert not one.neighbours["a"].is_gap(Place(0, 0))
    helloed(one, "a", place=Place(0, 3), life=5, first=Place(0, 3), knows=LIFE)
    assert one.neighbours["a"].is_gap(Place(0, 0))


def done(**kept):
    """Peer b after its last round, with nothing left to send."""
    one = core(at=4, **kept)
    one.on(m.Started(frozenset("ac")), 0.0)
    for name in "ac":  # each has met it
        n = one.neighbours[name]
        n.greeted, n.calls.asked, n.life, n.met = True, None, 5, 5
    return one


def test_who_leaves_has_told_all_and_the_ejected_that_they_are():
    one = done()
    asked = of(m.Ask, one.on(m.Looked({"c": "broken"}, [], {}), 0.0))
    assert {(ask.name, ask.method, ask.said.bye) for ask in asked} == {
        ("a", "Hello", OVER), ("c", "Hello", EJECTED),
    }  # fmt: skip
    told = [ask for ask in asked if ask.name == "c"]
    assert told[0].said.place is None  # and nothing else
    noted = Greeting(Place(0, 4), 5, knows=LIFE, noted=OVER)
    assert not of(m.End, one.on(m.Answered("a", "Hello", noted), 0.0))
    effects = one.on(m.Answered("c", "Hello", noted._replace(noted=EJECTED)), 0.0)
    effects += one.on(m.Tick(), 1.0)
    assert of(m.End, effects) == [m.End(())]


def test_who_cannot_be_told_is_not_waited_for_for_ever():
    one = done()
    assert not of(m.End, one.on(m.Tick(), 1.0))
    one.on(m.Looked({"c": "broken"}, [], {}), 1.0)
    effects = one.on(m.Tick(), 62.0)
    assert of(m.End, effects) == [m.End(())]
    said = {log.event: log.facts for log in of(m.Log, effects)}
    assert said["left before the ejected knew that they are"] == {"to": ["c"]}


def test_a_bye_is_answered_once_it_is_on_the_disk():
    one = core()
    effects = one.on(m.Helloed("hello", "a", Greeting(bye=EJECTED)), 0.0)
    (note,) = of(m.NoteBye, effects)
    assert (note.name, note.bye) == ("a", EJECTED)
    assert not of(m.Answer, effects)
    (answer,) = of(m.Answer, one.on(m.Written(note.ticket), 0.0))
    assert answer.said.noted == EJECTED
    pushed(one, "c", 0)
    assert one.computing is not None  # without a
    helloed(one, "a", place=Place(0, 0), order=2)
    assert one.neighbours["a"].bye == ""  # readmitted
    helloed(one, "a", bye=EJECTED, order=1)
    assert one.neighbours["a"].bye == ""  # said before that


def test_a_peer_that_nobody_answers_ends_and_says_for_whom_it_waited():
    one = core()
    one.rules = one.rules._replace(patience=100.0)
    pushed(one, "a", 0)
    one.on(m.Tick(), 99.0)
    one.on(m.Pulled("pull", "c", Place(0, -1), 0.0), 99.0)  # it is there, and has no letter yet
    assert not of(m.End, one.on(m.Tick(), 198.0))
    assert of(m.End, one.on(m.Tick(), 199.0)) == [m.End((), ("c",))]


def test_a_neighbour_is_met_once_it_has_heard_so_in_its_present_life():
    """One that was started again begins no round of sealed sums before: who ends waits for it."""
    one = core(lives={"a": 3, "c": 3})
    one.on(m.Started(frozenset("a")), 0.0)  # c only dials
    assert one.unmet == ["a", "c"]
    for n in one.neighbours.values():  # what is kept of a neighbour that comes back
        n.loading = 0

    def comes(name, life, ticket):
        effects = one.on(m.Helloed(ticket, name, Greeting(Place(0, 0), life, knows=LIFE)), 0.0)
        for effect in effects:
            if isinstance(effect, m.NoteLife):
                effects = [*effects, *one.on(m.Written(effect.ticket), 0.0)]
            if isinstance(effect, m.Load):
                effects = [*effects, *one.on(m.Loaded(*effect, []), 0.0)]
        return of(m.Answer, effects)

    for name in "ac":
        comes(name, 4, f"first {name}")
        comes(name, 4, f"second {name}")
    assert one.unmet == []
    comes("c", 5, "again")
    comes("c", 5, "and again")
    assert one.unmet == []
    one.neighbours["c"].life = 6  # its next start has been noted and not yet answered
    assert one.unmet == ["c"]


def test_of_an_ejected_neighbour_only_its_leaving_is_noted():
    one = core()
    one.on(m.Looked({"c": "broken"}, [], {}), 0.0)
    assert one.refusal("c", 5, "")[0] == "ABORTED"
    assert not of(m.NoteBye, one.on(m.Tick(), 0.0))
    assert one.refusal("c", 5, OVER)[0] == "ABORTED"
    (note,) = of(m.NoteBye, one.on(m.Tick(), 0.0))
    assert (note.name, note.bye) == ("c", OVER)
    pushed(one, "a", 0)
    one.computing = None
    one.on(m.Looked({}, [], {}), 0.0)
    assert one.computing is not None  # readmitted, and not waited for


def test_of_letters_in_quarantine_that_last_only_the_newest_is_kept():
    one = core(Async(2.0, 5.0, 3), rounds=20)
    one.on(m.Looked({}, [("a", Place(0, t)) for t in (3, 9, 5, 7)], {}), 0.0)
    assert one.neighbours["a"].heard == {Place(0, 9): None}


def test_a_late_greeting_does_not_take_a_gap_back():
    one = core()
    helloed(one, "a", place=Place(0, 3), life=5, first=Place(0, 3), knows=LIFE)
    helloed(one, "a", place=Place(0, 3), life=5, first=Place(0, 1), knows=LIFE)
    assert one.neighbours["a"].is_gap(Place(0, 2))
    helloed(one, "a", place=Place(0, 0), life=6, first=Place(0, 0), knows=LIFE)
    assert not one.neighbours["a"].is_gap(Place(0, 2))  # another life has what it has


@pytest.mark.parametrize(("life", "counts"), [(4, False), (5, True)])
def test_an_answer_of_an_older_copy_counts_for_nothing(life, counts):
    one = core(lives={"a": 5}, unsent={"a": [Away("a", Place(0, 0), b"x")]})
    n = one.neighbours["a"]
    n.greeted = True
    one.on(m.Started(frozenset("a")), 0.0)
    one.on(m.Answered("a", "Push", Greeting(Place(0, 1), life)), 0.0)
    assert (not n.line, n.seen == Place(0, 1)) == (counts, counts)


def test_a_peer_that_was_away_goes_on_where_half_of_its_neighbours_are():
    one = core(Deadline(1.0, 1.0), rounds=20)
    one.neighbours["a"].seen = Place(0, 9)
    assert one.to_join() is None  # one may lie
    one.neighbours["c"].seen = Place(0, 5)
    assert one.to_join() == 5
    one.neighbours["a"].seen = one.neighbours["c"].seen = Place(0, 10**9)
    assert one.to_join() == 19
    one.neighbours["a"].seen = one.neighbours["c"].seen = Place(0, 1)
    assert one.to_join() is None  # so near, the round is worth doing


def test_a_call_that_fails_is_made_again_later_and_later():
    one = core()
    one.on(m.Started(frozenset("a")), 0.0)
    waits, now = [], 0.0
    for _ in range(8):
        (wake,) = of(m.Wake, one.on(m.Failed("a", "Hello", "UNAVAILABLE", "down"), now))
        waits.append(round(min(wake.at, one.neighbours["a"].calls.due) - now, 3))
        now = one.neighbours["a"].calls.due
        assert of(m.Ask, one.on(m.Tick(), now))
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def known(**places):
    """Neighbours with letters of these rounds."""
    made = {}
    for name, rounds in places.items():
        made[name] = Neighbour(0, None, [])
        made[name].heard = {Place(0, t): f"{name}{t}" for t in rounds}
    return made


def view(t, **places):
    return View(Place(0, t), known(**places), 9)


def test_wait_waits_for_a_letter_a_gap_or_a_bye():
    seen = view(3, a=[3], b=[2], c=[], d=[])
    seen.partners["c"].first = Place(0, 4)
    seen.partners["d"].bye = EJECTED
    assert Wait().verdict(seen) == (["b"], float("inf"))
    seen.partners["b"].heard[Place(0, 3)] = None  # in quarantine
    assert not Wait().verdict(seen).waiting
    assert Wait().offered(seen)["b"] == {2: (Place(0, 2), "b2")}


def test_a_deadline_does_not_wait_for_those_who_have_gone_on():
    seen = view(3, a=[], b=[])
    seen.partners["a"].seen = Place(0, 4)
    assert Deadline(2.0, 5.0).verdict(seen) == (["b"], 2.0)
    assert Deadline(2.0, 5.0).verdict(view(0, a=[])) == (["a"], 5.0)


def test_an_adaptive_deadline_is_some_times_as_long_as_letters_take():
    seen = view(3, a=[], b=[])
    adaptive = Adaptive(30.0, 60.0)
    assert adaptive.verdict(seen).limit == 30.0  # never heard
    seen.partners["a"].lags.extend([1.0, 1.0, 9.0])
    seen.partners["b"].lags.extend([2.0])
    assert adaptive.verdict(seen).limit == 8.0
    for n in seen.partners.values():
        n.lags.clear()
        n.lags.append(0.0)
    assert adaptive.verdict(seen).limit == 0.2


def test_asynchronous_rounds_take_the_newest_while_it_is_not_stale():
    pace = Async(2.0, 5.0, 3)
    seen = view(6, a=[2, 5], b=[2], c=[9])
    assert pace.offered(seen) == {"a": {5: (Place(0, 5), "a5")}, "c": {6: (Place(0, 9), "c9")}}
    assert not pace.verdict(seen).waiting  # something is new
    for n in seen.partners.values():
        n.used = 9
    assert pace.verdict(seen) == (["a", "b", "c"], 2.0)
    done = view(6, a=[9])
    done.partners["a"].used = 9
    assert not pace.verdict(done).waiting  # nothing newer comes
