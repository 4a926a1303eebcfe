"""Masks: they cancel over all members, look uniform, and hide one term each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from peerwise.errors import BadSetting
from peerwise.privacy.sealing import (
    Masks,
    Place,
    committed,
    fresh_secret,
    public_key,
)

HERE = Place("1", "statistics", 3)


def members_of(n, charter="a charter", colluders=0, partners=None, secrets=None):
    """The masks of n members by name."""
    secrets = secrets or {f"n{i}": fresh_secret() for i in range(n)}
    keys = {name: public_key(secret) for name, secret in secrets.items()}
    return {
        name: Masks(name, secret, keys, charter, colluders, partners)
        for name, secret in secrets.items()
    }


ALL = members_of(9, partners=4)


@given(st.sets(st.sampled_from(sorted(ALL)), min_size=2), st.integers(0, 99), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_masks_of_any_members_add_up_to_nothing(members, t, numbers):
    place = Place("an epoch", "a release", t)
    masks = [ALL[name].mask(place, members, numbers) for name in members]
    assert not np.sum(masks, axis=0, dtype=np.uint64).any()
    assert all(mask.any() for mask in masks)


def test_the_sum_of_sealed_terms_is_the_sum_of_the_terms():
    rng = np.random.default_rng(0)
    terms = {name: rng.integers(-(2**40), 2**40, 50).astype(np.uint64) for name in ALL}
    sealed = [term + ALL[name].mask(HERE, ALL, 50) for name, term in terms.items()]
    total = np.sum(sealed, axis=0, dtype=np.uint64)
    np.testing.assert_array_equal(total, np.sum(list(terms.values()), axis=0, dtype=np.uint64))


@pytest.mark.parametrize(
    "other",
    [
        HERE._replace(epoch="2"),
        HERE._replace(release="moments"),
        HERE._replace(round=4),
        Place("1", "statistics3", 3),
    ],
)
def test_every_place_has_a_mask_of_its_own(other):
    one = ALL["n0"].mask(HERE, ALL, 20)
    assert not (one == ALL["n0"].mask(other, ALL, 20)).any()


def test_masks_follow_from_the_charter_the_members_and_all_keys():
    secrets = {f"n{i}": fresh_secret() for i in range(4)}
    one = members_of(4, secrets=secrets)["n0"]
    first = one.mask(HERE, secrets, 20)
    np.testing.assert_array_equal(
        members_of(4, secrets=secrets)["n0"].mask(HERE, secrets, 20), first
    )
    assert not (
        members_of(4, "another", secrets=secrets)["n0"].mask(HERE, secrets, 20) == first
    ).any()
    fewer = [name for name in secrets if name != "n3"]
    assert not (one.mask(HERE, fewer, 20) == first).any()
    # the key of somebody else is another: who was told two different keys has masks that differ
    changed = members_of(4, secrets={**secrets, "n3": fresh_secret()})["n0"]
    others = [name for name in secrets if name != "n3"]
    assert not (changed.mask(HERE, others, 20) == one.mask(HERE, others, 20)).any()


def test_bytes_of_masks_and_of_sealed_terms_are_uniform():
    """Chi-square over bytes, over each of the eight places in a number, and over differences."""
    places = [Place("1", "s", t) for t in range(60)]
    masks = np.concatenate([ALL["n0"].mask(place, ALL, 500) for place in places])
    sealed = masks + np.uint64(17)  # the same small term each time
    for numbers in (masks, sealed, sealed[1:] - sealed[:-1]):
        octets = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)
        assert chisquare(np.bincount(octets.ravel(), minlength=256)).pvalue > 1e-4
        assert min(chisquare(np.bincount(c, minlength=256)).pvalue for c in octets.T) > 1e-5


def test_what_a_coalition_sees_less_what_it_knows_is_uniform():
    """Every member but two tells all it knows; the sealed terms of the two stay uniform."""
    members = members_of(6)
    rng = np.random.default_rng(0)
    seen = []
    for t in range(60):
        place = Place("1", "s", t)
        left = members["n0"].mask(place, members, 500)
        for name in ("n2", "n3", "n4", "n5"):  # each knows its stream with n0: the pair's alone
            left -= streamed(members["n0"], name, place, 500)
        seen.append(left + rng.integers(0, 5, 500).astype(np.uint64))
    octets = np.concatenate(seen).astype("<u8").view(np.uint8)
    assert chisquare(np.bincount(octets, minlength=256)).pvalue > 1e-4


def streamed(masks, other, place, numbers):
    """What one pair contributes to a member's mask: that of n0, with its only partner `other`."""
    kept = masks._latest
    masks._latest = (kept[0], kept[1], (other,))
    out = masks.mask(place, kept[0][1], numbers)
    masks._latest = kept
    return out


def test_keys_that_are_none_are_refused():
    secret = fresh_secret()
    good = {"a": public_key(secret), "b": public_key(fresh_secret())}
    for wrong in (bytes(32), b"short", (1).to_bytes(32, "little")):
        with pytest.raises(BadSetting, match="the key of 'b' is none"):
            Masks("a", secret, {**good, "b": wrong}, "c", 0).mask(HERE, good, 3)
    with pytest.raises(BadSetting, match="is not the one it holds"):
        Masks("a", secret, {**good, "a": good["b"]}, "c", 0)
    with pytest.raises(BadSetting, match="no key of 'c'"):
        Masks("a", secret, good, "c", 0).mask(HERE, ["a", "b", "c"], 3)
    with pytest.raises(BadSetting, match="is no member"):
        Masks("a", secret, good, "c", 0).mask(HERE, ["b", "c"], 3)


def test_a_commitment_tells_which_key_it_is_of():
    key = public_key(fresh_secret())
    assert committed(key) == committed(key)
    assert committed(key) != committed(public_key(fresh_secret()))
    assert key not in committed(key)
