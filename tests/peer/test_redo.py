"""A round that fails is done again without those who make it fail, and with everybody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise.errors import BadFile, Diverged
from peerwise.peer.redo import settled

NAMES = ("a", "b", "c", "d")


def round_in_which(fails):
    """A round that gives the names heard, unless `fails` says otherwise."""

    def attempt(names):
        if fails(set(names)):
            raise Diverged(f"with {''.join(names) or 'nobody'}")
        return names

    return attempt


def test_a_round_that_works_is_done_once():
    calls = []
    done = settled(lambda names: calls.append(names) or names, NAMES)
    assert (done.result, done.heard, done.aside) == (NAMES, NAMES, {})
    assert calls == [NAMES]


def test_who_fails_alone_is_put_aside_with_its_reason():
    done = settled(round_in_which(lambda names: names & {"b", "d"}), NAMES)
    assert done.result == done.heard == ("a", "c")
    assert done.aside == {"b": "with b", "d": "with d"}


def test_of_those_that_fail_only_together_one_is_put_aside():
    done = settled(round_in_which(lambda names: "c" in names and len(names) > 1), NAMES)
    assert done.heard == ("a", "b", "d")
    assert done.aside == {"c": "with the others: with abcd"}


def test_nobody_is_blamed_where_a_node_fails_by_itself():
    done = settled(round_in_which(lambda names: "a" not in names), NAMES)
    assert done.heard == NAMES
    done = settled(round_in_which(lambda names: names != {"b"}), NAMES)
    assert (done.heard, done.aside) == (("b",), {})
    done = settled(round_in_which(lambda names: True), NAMES)
    assert (done.result, done.aside, done.why) == (None, {}, "with abcd")


def test_a_broken_disk_is_nobodys_letter():
    def attempt(names):
        raise BadFile("disk full")

    with pytest.raises(BadFile):
        settled(attempt, NAMES)


@given(st.sets(st.frozensets(st.sampled_from(NAMES), min_size=1), max_size=4))
def test_whatever_fails_together_the_round_ends_and_the_innocent_are_heard(bad):
    """`bad`: sets of senders that make the round fail when all of them are heard."""
    done = settled(round_in_which(lambda names: any(one <= names for one in bad)), NAMES)
    assert done.result == done.heard
    assert not any(one <= set(done.heard) for one in bad)
    assert set(done.heard) | set(done.aside) == set(NAMES)
    if all(len(one) == 1 for one in bad):
        assert set(done.aside) == set().union(*bad)
