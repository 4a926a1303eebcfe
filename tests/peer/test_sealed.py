"""Sealed sums between real peers: what leaves is uniform, what all learn is a curator's model."""

import asyncio
import re
import shutil

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

from federation import Alone, Network, federation, run_all
from peerwise.errors import BadData
from peerwise.methods import words
from peerwise.peer import sealing
from peerwise.peer.daemon import Daemon
from peerwise.peer.dialling import Dialling
from peerwise.peer.protocol import Core
from peerwise.peer.protocol.messages import Failed, Place
from peerwise.peer.signing import parted
from peerwise.peer.store.tables import mark_of
from peerwise.peer.wire import Format
from peerwise.privacy import shares
from peerwise.privacy.sealing import Reused
from taped import assert_same_model, recorded, simulated

STAR = nx.relabel_nodes(nx.star_graph(3), dict(enumerate("abcd")))
CRC = {"name": "sealed_crc", "releases": 3}
SPENDS = {
    "privacy": {"epsilon": 5.0, "delta": 1e-5},
    "budget": {"epsilon": 5.0, "delta": 1e-5},
    "limits": {"rows": 120},
}
ROUNDS = 16


def of_letters(daemon):
    """The sums in the letters that a peer has sent: (round, fact, sum) each."""
    rows = daemon.store.rows(
        "SELECT round, body FROM outbox JOIN bodies USING (hash) WHERE phase = 1"
    )
    for t, body in rows:
        part = daemon.format.decode(parted(bytes(body))[0]).part
        yield t, int(part["fact"]), words.as_integers(part["sum"])


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """Four peers that have learnt by sealed sums, and the terms that they made."""
    with pytest.MonkeyPatch.context() as patch:
        terms = recorded(patch)
        fed = federation(tmp_path_factory.mktemp("sealed"), STAR, CRC, rounds=ROUNDS, **SPENDS)
        daemons = [fed.daemon(n) for n in fed.charter.names]
        assert all(run_all(*daemons, seconds=120.0))
    return fed, daemons, terms


@pytest.mark.bits
def test_peers_end_with_the_simulators_model_given_the_same_terms(learnt):
    fed, daemons, terms = learnt
    assert {at for _, at in terms} == {1, 2, 3}
    tape = [[terms[n, at][-1] for n in fed.charter.names] for at in (1, 2, 3)]
    run = simulated([d.plan for d in daemons], daemons[0].agreed, tape)
    assert_same_model(run, [d.memory.state.value for d in daemons])
    total = np.sum([terms[n, 3][0] for n in fed.charter.names], axis=0, dtype=np.uint64)
    for daemon in daemons:
        found = words.as_integers(daemon.memory.state.value["sums"]["total"])
        np.testing.assert_array_equal(found, total)


def test_a_term_leaves_masked_and_nothing_else_does(learnt):
    _, daemons, terms = learnt
    own = {tuple(term.tolist()) for made in terms.values() for term in made}
    seen = []
    for daemon in daemons[1:]:  # each is a leaf: its first letters hold its own term alone
        for _, fact, numbers in of_letters(daemon):
            assert tuple(numbers.tolist()) not in own
            if not fact and numbers.any():
                seen.append(numbers)
    unique = np.unique(np.stack(seen), axis=0)
    assert len(unique) == 9  # three leaves, three rounds; sent again, the same
    octets = unique.astype("<u8").view(np.uint8).ravel()
    assert chisquare(np.bincount(octets >> 4, minlength=16)).pvalue > 1e-4


def test_all_sums_are_paid_for_before_the_first(learnt):
    _, daemons, _ = learnt
    for daemon in daemons:
        assert daemon.store.ledger.table()["epsilon"].tolist() == [5.0]
        assert daemon.store.rows("SELECT phase, round FROM masks") == [(1, 1), (1, 2), (1, 3)]


def test_the_secret_of_masks_is_forgotten_once_all_is_done(learnt):
    fed, daemons, _ = learnt
    assert [d.store.mask_secret() for d in daemons] == [None] * 4
    nothing = mark_of("mask_secret", "").encode()
    for daemon in daemons:  # nor is it in a part of the file that is not used any more
        for file in daemon.store.path.parent.glob("peer.db*"):
            assert set(re.findall(rb"mask_secret([0-9a-f]{64})", file.read_bytes())) <= {nothing}
    daemons[1].store.close()
    again = Alone(fed.daemon("b"))  # started again, it has nothing to do
    assert again.daemon.place == Place(1, ROUNDS)
    again.close()


def test_a_second_term_of_a_round_is_never_written(learnt):
    _, daemons, _ = learnt
    store = daemons[0].store
    before = store.rows("SELECT phase, round, hash FROM masks")
    with store.transaction():
        store.use_mask(*before[0])  # the same: a letter that is sent again
    with pytest.raises(Reused), store.transaction():
        store.use_mask(1, 1, "another")
    assert store.rows("SELECT phase, round, hash FROM masks") == before


# who was put back to an old state, and who is missing

# of the sums that are paid for, a void one is one: so many that it is not the last
FEWER = {"name": "sealed_crc", "releases": 8, "honest": 1.0, "least": 0.75, "patience": 4}


def spied(monkeypatch):
    """By leaf and round of a sum: what the centre was ever told of it, its own term as it left."""
    told = {}
    decode = Format.decode

    def watched(self, body, *more):
        letter = decode(self, body, *more)
        sender = self.written(body).sender
        if letter.part is not None and sender != "a":
            part = letter.part
            if not int(part["fact"]) and part["sum"].any():
                told.setdefault((sender, int(part["round"])), set()).add(part["sum"].tobytes())
        return letter

    monkeypatch.setattr(Format, "decode", watched)
    return told


def ended(net, names, every="abcd"):
    """Those who are left have the same total of the last round, over themselves."""
    sums = {n: net.daemons[n].memory.state.value["sums"] for n in names}
    assert {int(s["done"]) for s in sums.values()} == {8}
    assert {sealing.members_of(np.asarray(s["members"]), tuple(every)) for s in sums.values()} == {
        tuple(names)
    }
    assert len({np.asarray(s["total"]).tobytes() for s in sums.values()}) == 1
    return words.as_integers(sums[names[0]]["total"])


@pytest.mark.full  # `make test`: masks are used once, in privacy/sealing and protocol/test_core.py
def test_a_peer_that_is_put_back_never_makes_a_term_again(tmp_path, monkeypatch):
    """Its round is void; the others go on with fresh terms and without it."""
    terms, told = recorded(monkeypatch), spied(monkeypatch)
    fed = federation(tmp_path, STAR, FEWER, rounds=60, **SPENDS)

    async def live():
        net = Network(fed)
        net.start(*"abcd")
        await net.until("d", Place(1, 1))
        await net.stop("d")
        shutil.copytree(tmp_path / "d", tmp_path / "backup")
        net.start("d")
        await net.told_term("d", 2)
        await net.stop("d")
        shutil.rmtree(tmp_path / "d")
        shutil.copytree(tmp_path / "backup", tmp_path / "d")
        net.start("d")
        await net.end()
        return net

    net = asyncio.run(live())
    assert ("d", 1) in told
    assert max(map(len, told.values())) == 1
    assert int(net.daemons["d"].memory.state.value["sums"]["lost"]) == 1
    total = ended(net, "abc")
    fresh = [terms[n, 8][-1] for n in "abc"]
    np.testing.assert_array_equal(total, np.sum(fresh, axis=0, dtype=np.uint64))


def cut_off(monkeypatch):
    """What keeps later letters from c, and b from rounds of its second phase, until emptied."""
    cut = {"letters to c", "rounds of b"}
    asked, compute = Dialling.asked, Daemon._compute

    async def without(self, ask):
        late = ask.method == "Push" and ask.said.place > Place(1, 0)
        if ask.name == "c" and late and "letters to c" in cut:
            return Failed("c", "Push", "UNAVAILABLE", "cut off")
        return await asked(self, ask)

    def later(self, effect):
        if self.name != "b" or effect.place.phase < 1 or "rounds of b" not in cut:
            compute(self, effect)

    monkeypatch.setattr(Dialling, "asked", without)
    monkeypatch.setattr(Daemon, "_compute", later)
    return cut


@pytest.mark.full  # `make test`: protocol/test_worlds.py without peers, and the ledger below
@pytest.mark.parametrize("back", ["state", "state and ledger"])
def test_a_peer_put_back_while_who_has_its_term_is_away_makes_no_other(tmp_path, monkeypatch, back):
    """The ledger of its site knows the term; where it went back, too, the neighbour is asked."""
    terms, cut = recorded(monkeypatch), cut_off(monkeypatch)
    pace = {"mode": "async", "deadline": 0.1, "start": 0.5}
    graph = nx.relabel_nodes(nx.path_graph(3), dict(enumerate("abc")))
    fed = federation(tmp_path, graph, CRC, rounds=30, pace=pace, **SPENDS)
    if back == "state":
        monkeypatch.setattr(Core, "asked", lambda self: ())

    def copy(source, target):
        shutil.rmtree(target / "b", ignore_errors=True)
        target.mkdir(exist_ok=True)
        shutil.copytree(source / "b", target / "b")
        for path in source.glob("b.ledger*") if back != "state" else ():
            shutil.copy(path, target)

    async def live():
        net = Network(fed)
        net.start(*"abc")
        await net.until("b", Place(1, 0))
        await net.stop("b")
        copy(tmp_path, tmp_path / "backup")
        cut.remove("rounds of b")
        net.start("b")
        while not (net.daemons["a"].core.neighbours["b"].head or Place(0, 0)) > Place(1, 0):
            await asyncio.sleep(0.01)
        await net.stop("b")
        await net.stop("a")
        copy(tmp_path / "backup", tmp_path)
        cut.clear()
        net.start("b")
        await asyncio.sleep(2)
        core = net.daemons["b"].core
        if back == "state":
            assert core.place > Place(1, 0)
        else:
            assert (core.place, core.waiting) == (Place(1, 0), ("a",))
        assert len(terms["b", 1]) == 1
        net.start("a")
        await net.end()
        return net

    net = asyncio.run(live())
    assert len(terms["b", 1]) == 1
    assert int(net.daemons["b"].memory.state.value["sums"]["lost"]) == 1


def test_the_ledger_of_a_site_knows_what_a_state_that_was_put_back_has_hidden(tmp_path):
    fed = federation(tmp_path, STAR, CRC, rounds=ROUNDS, **SPENDS)

    def opened():
        daemon = fed.daemon("b")
        daemon.store.mask_secret()
        return daemon.store

    def hides(store, at, mark):
        with store.transaction():
            store.use_mask(1, at, mark)

    store = opened()
    with store.transaction():
        store.ledger.charge("gaussian", {}, 1.0, 1e-6, data="sums", inside=True)
    hides(store, 1, "one")
    store.close()
    shutil.copytree(tmp_path / "b", tmp_path / "backup")
    store = opened()
    assert store.behind == -1  # started again, and that is all
    hides(store, 2, "two")
    store.close()
    shutil.rmtree(tmp_path / "b")
    shutil.copytree(tmp_path / "backup", tmp_path / "b")
    store = opened()
    assert store.behind == 1
    store.close()


def test_two_copies_of_a_state_that_run_at_once_hide_one_term(tmp_path):
    """Both are there before either makes the term, so that neither lacks one when it is opened."""
    fed = federation(tmp_path, STAR, CRC, rounds=ROUNDS, **SPENDS)
    one = fed.daemon("b").store
    one.mask_secret()
    with one.transaction():
        one.ledger.charge("gaussian", {}, 1.0, 1e-6, data="sums", inside=True)
    one.close()
    (tmp_path / "copy").mkdir()
    shutil.copytree(tmp_path / "b", tmp_path / "copy" / "b")
    (tmp_path / "copy" / "b.ledger").symlink_to(tmp_path / "b.ledger")
    one, other = (fed._replace(folder=at).daemon("b").store for at in (tmp_path, tmp_path / "copy"))

    def hides(store, phase, mark):
        with store.transaction():
            store.use_mask(phase, 1, mark)

    hides(one, 1, "one")
    with pytest.raises(Reused):
        hides(other, 1, "another")
    hides(other, 1, "one")  # the same bytes
    hides(other, 2, "another")  # another sum
    one.close()
    other.close()


def test_a_site_of_too_many_rows_is_refused_before_it_pays(tmp_path, monkeypatch):
    """No round would say so: it would go on without the term."""
    monkeypatch.setattr(shares, "MOST_OFTEN", 16)
    fed = federation(tmp_path, STAR, CRC, rounds=ROUNDS, **SPENDS)
    daemon = fed.daemon("b")
    with pytest.raises(BadData, match="a node may have 16 rows where several sums are added up"):
        asyncio.run(daemon.resume())
    assert daemon.store.ledger.receipts() == 0
    daemon.store.close()


def test_two_copies_that_make_a_term_at_the_same_moment_send_one(tmp_path):
    """Neither finds the other's term in the ledger before its own file has it."""
    fed = federation(tmp_path, STAR, CRC, rounds=ROUNDS, **SPENDS)
    one = fed.daemon("b").store
    one.mask_secret()
    with one.transaction():
        one.ledger.charge("gaussian", {}, 1.0, 1e-6, data="sums", inside=True)
    one.close()
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copytree(tmp_path / "b", copy / "b")
    (copy / "b.ledger").symlink_to(tmp_path / "b.ledger")
    one, other = (fed._replace(folder=at).daemon("b").store for at in (tmp_path, copy))

    def hides(store, mark, meanwhile=lambda: None):
        with store.transaction():
            store.use_mask(1, 1, mark)
            meanwhile()

    with pytest.raises(Reused):
        hides(one, "one", lambda: hides(other, "another"))
    assert len(other.site.left("term")) == 1
    one.close()
    other.close()
    with pytest.raises(Reused):  # nor does it send its own when it is started again
        fed.daemon("b")


def test_a_sum_is_never_too_old_to_be_heard(tmp_path):
    """Parts of a network that run at different paces would else stop to hear each other."""
    pace = {"mode": "async", "staleness": 2}
    fed = federation(tmp_path, STAR, CRC, rounds=ROUNDS, pace=pace, **SPENDS)
    daemon = fed.daemon("a")
    assert daemon._rules().pace.staleness == ROUNDS
    daemon.store.close()


@pytest.mark.full  # `make test`: aligned sums without their root, in methods/test_aligned.py
def test_without_the_hub_the_others_go_on_once_they_have_another_root(tmp_path):
    graph = nx.Graph(["ab", "ac", "ad", "ae", "bc", "cd", "de"])
    pace = {"mode": "async", "deadline": 0.3, "start": 30.0}
    limits = {"limits": {"rows": 150}}
    fed = federation(tmp_path, graph, FEWER, rounds=300, pace=pace, **{**SPENDS, **limits})

    async def live():
        net = Network(fed)
        net.start(*"abcde")
        await net.until("b", Place(1, 3))  # it has met all
        await net.stop("a")
        await net.end()
        return net

    net = asyncio.run(live())
    ended(net, "bcde", "abcde")


@pytest.mark.full
def test_without_a_missing_member_its_round_is_void_and_the_others_go_on(tmp_path, monkeypatch):
    terms, told = recorded(monkeypatch), spied(monkeypatch)
    pace = {"mode": "async", "deadline": 0.3, "start": 30.0}
    fed = federation(tmp_path, STAR, FEWER, rounds=70, pace=pace, **SPENDS)

    async def live():
        net = Network(fed)
        net.start(*"abcd")
        await net.until("a", Place(1, 2))  # it has met all
        await net.stop("d")
        await net.end()
        return net

    net = asyncio.run(live())
    total = ended(net, "abc")
    fresh = [terms[n, 8][-1] for n in "abc"]
    np.testing.assert_array_equal(total, np.sum(fresh, axis=0, dtype=np.uint64))
    assert max(map(len, told.values())) == 1
