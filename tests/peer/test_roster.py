"""Mask keys told between neighbours: all know all, and nobody can tell one in another's name."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

from peerwise.peer import roster
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.roster import KeyNode
from peerwise.privacy.sealing import fresh_secret, public_key

NAMES = ("a", "b", "c", "d", "e")
CHAIN = nx.path_graph(NAMES)


class Charter(SimpleNamespace):
    """As much of a charter as keys need."""

    hash, names = "0" * 64, NAMES

    def index(self, name):
        return NAMES.index(name)

    def neighbours(self, name):
        return tuple(CHAIN[name])


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    make_authority(folder)
    for name in NAMES:
        make_certificate(folder, name)
    return {name: load_identity(folder, name) for name in NAMES}


def told(identities, rounds, tamper=lambda t, sender, table: table, secrets=None):
    """Nodes after some rounds; `tamper` is what becomes of a letter on its way."""
    secrets = secrets or {name: fresh_secret() for name in NAMES}
    nodes = {n: KeyNode(Charter(), n, identities[n], secrets[n]) for n in NAMES}
    memory = {n: node.begin() for n, node in nodes.items()}
    for t in range(rounds):
        sent = {n: nodes[n].letters(memory[n], t) for n in NAMES}
        number = {n: i for i, n in enumerate(NAMES)}
        heard = {
            n: {number[m]: (changed(sent[m][number[n]], t, m, tamper), t) for m in CHAIN[n]}
            for n in NAMES
        }
        memory = {n: nodes[n].step(memory[n], t, heard[n]) for n in NAMES}
    return nodes, memory, {n: public_key(secrets[n]).hex() for n in NAMES}


def changed(letter, t, sender, tamper):
    table = {k: a.copy() for k, a in letter.message.value.items()}
    return letter._replace(message=letter.message._replace(value=tamper(t, sender, table)))


def test_all_have_the_keys_of_all_within_the_rounds_of_the_phase(identities):
    nodes, memory, true = told(identities, 3 * 4 + 1)
    assert all(nodes[n].keys(memory[n]) == true for n in NAMES)


def test_no_key_is_told_before_all_have_committed_themselves(identities):
    _, memory, _ = told(identities, 3)  # a has heard nothing of e yet
    assert not memory["a"].state.value["key"].any()
    assert memory["c"].state.value["key"].any(1).sum() >= 1  # the centre has heard all


@pytest.mark.parametrize("column", ["commitment", "signature", "certificate", "key"])
def test_what_its_member_has_not_signed_counts_nowhere(identities, column):
    """b hands everything on to a, but for something about d that it has changed."""

    def tamper(t, sender, table):
        if sender == "b" and table[column][3].any():
            table[column][3, 5] ^= 1
        return table

    nodes, memory, true = told(identities, 13, tamper)
    assert nodes["a"].keys(memory["a"]).keys() < set(NAMES)
    for table in (m.state.value for m in memory.values()):
        for i, name in enumerate(NAMES):
            if table["key"][i].any():
                assert table["key"][i].tobytes().hex() == true[name]


def test_nobody_can_tell_a_key_in_the_name_of_another(identities):
    """b puts its own commitment, signature and certificate in the line of d."""

    def tamper(t, sender, table):
        if sender == "b":
            for column in table:
                table[column][3] = table[column][1]
        return table

    _, memory, _ = told(identities, 13, tamper)
    assert not memory["a"].state.value["commitment"][3].any()


def test_what_was_committed_to_another_charter_does_not_count(identities):
    class Other(Charter):
        hash = "1" * 64

    other = KeyNode(Other(), "b", identities["b"], fresh_secret()).begin()
    node = KeyNode(Charter(), "a", identities["a"], fresh_secret())
    letter = KeyNode(Charter(), "b", identities["b"], fresh_secret()).letters(other, 0)[0]
    after = node.step(node.begin(), 0, {1: (letter, 0)})
    assert not after.state.value["commitment"][1].any()


def test_who_hears_a_second_commitment_keeps_the_first(identities):
    node = KeyNode(Charter(), "a", identities["a"], fresh_secret())
    first, second = (KeyNode(Charter(), "b", identities["b"], fresh_secret()) for _ in range(2))
    memory = node.begin()
    for one in (first, second):
        memory = node.step(memory, 0, {1: (one.letters(one.begin(), 0)[0], 0)})
    np.testing.assert_array_equal(
        memory.state.value["commitment"][1], first.begin().state.value["commitment"][1]
    )


def test_a_key_that_makes_the_same_secret_with_everybody_counts_nowhere(identities, monkeypatch):
    """It is missing, so that all say whose it is; otherwise every round would fail by itself."""
    bad = (1).to_bytes(32, "little")
    secrets = {name: fresh_secret() for name in NAMES}
    true = public_key

    def told_by(secret):
        return bad if secret == secrets["d"] else true(secret)

    monkeypatch.setattr(roster, "public_key", told_by)
    nodes, memory, _ = told(identities, 13, secrets=secrets)
    assert all(nodes[n].keys(memory[n]).keys() == set(NAMES) - {"d"} for n in NAMES if n != "d")
