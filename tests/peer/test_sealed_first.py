"""What peers agree on by sealed sums before they learn: features, center and scale, structure."""

import asyncio

import jax
import networkx as nx
import numpy as np
import pytest

from federation import Network, federation, run_all
from peerwise.errors import BadSetting
from peerwise.methods import words
from peerwise.methods.aligned import SPOILT
from peerwise.peer.dialling import Dialling
from peerwise.peer.leaving import what_leaves
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import Failed, Place
from peerwise.peer.sealing import Sealing, without_terms
from peerwise.peer.views import learnt
from peerwise.privacy.sealing import fresh_secret, public_key
from taped import assert_same_model, recorded, simulated

PATH = nx.relabel_nodes(nx.path_graph(3), dict(enumerate("abc")))
SPENDS = {
    "privacy": {"epsilon": 20.0, "delta": 1e-5},
    "budget": {"epsilon": 20.0, "delta": 1e-5},
}
CASES = {
    "structure": {"method": {"name": "sealed_nb"}, "model": "tan", "categories": 3, "rows": 60},
    "units": {"method": {"name": "sealed_crc", "units": "sealed", "releases": 2}, "rounds": 24},
    "features and units": {"method": {"name": "sealed_nb", "select": 2, "units": "sealed"}},
    "features and structure": {
        "method": {"name": "sealed_nb", "select": 3},
        "model": "tan",
        "categories": 3,
        "rows": 60,
    },
}


ALONE = "structure"  # with features, too, in another case


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(case, id=name, marks=pytest.mark.full if name == ALONE else ())
        for name, case in CASES.items()
    ],
)
def network(request, tmp_path_factory):
    """Three peers that have learnt, and the terms that they made, by the name of the sum."""
    case = {"rounds": 16, "features": 5, **SPENDS, **request.param}
    with pytest.MonkeyPatch.context() as patch:
        fed = federation(tmp_path_factory.mktemp("first"), PATH, case.pop("method"), **case)
        daemons = [fed.daemon(n) for n in fed.charter.names]
        names = daemons[0].plan.learning.firsts
        terms = {name: recorded(patch, name) for name in (*names, "sums")}
        assert all(run_all(*daemons, seconds=200.0))
    return fed, daemons, terms


def test_all_have_the_sum_of_the_terms_and_nothing_else(network):
    fed, daemons, terms = network
    first = daemons[0].agreed["first"]
    names = daemons[0].plan.learning.firsts
    assert tuple(first) == names
    for daemon in daemons[1:]:
        assert daemon.agreed == daemons[0].agreed
    for name, total in first.items():
        made = np.sum([terms[name][n, 1][0] for n in fed.charter.names], axis=0, dtype=np.uint64)
        step = np.asarray(total) / made.astype(np.int64)
        np.testing.assert_allclose(step, np.broadcast_to(np.nanmax(step), step.shape))
        assert {at for _, at in terms[name]} == {1}


@pytest.mark.bits
def test_peers_end_with_the_simulators_model_given_the_same_terms(network):
    fed, daemons, terms = network
    rounds = sorted({at for _, at in terms["sums"]})
    tape = [[terms["sums"][n, at][-1] for n in fed.charter.names] for at in rounds]
    run = simulated([d.plan for d in daemons], daemons[0].agreed, tape)
    assert_same_model(run, [d.memory.state.value for d in daemons])


def test_the_whole_budget_is_paid_once_for_all_sums(network):
    _, daemons, _ = network
    names = daemons[0].plan.learning.firsts
    for daemon in daemons:
        table = daemon.store.ledger.table()
        assert table["epsilon"].tolist() == [20.0]
        # each mask hid one term
        used = daemon.store.rows("SELECT DISTINCT phase FROM masks ORDER BY phase")
        assert used == [(phase,) for phase in range(1, len(names) + 2)]
        assert daemon.store.mask_secret() is None


def test_what_leaves_says_what_is_summed_first(network):
    fed, _, _ = network
    said = " ".join(what_leaves(fed.charter))
    assert "Before they learn" in said
    assert "take 0.2 of that budget" in said


def test_a_kept_model_predicts_as_its_peer(network):
    fed, daemons, _ = network
    folder = fed.folder / "a"
    x, _ = fed.charter.rows(fed.test)
    kept = learnt(folder).of_rows(x)
    daemon = daemons[0]
    method = daemon.plan.learning.blank(daemon.agreed).method
    seen = daemon.plan.encoded(x, daemon.agreed)
    ours = jax.jit(method.predict)(jax.random.key(0), daemon.memory.state.value, seen)
    np.testing.assert_allclose(kept, ours, atol=1e-5)


TAN = CASES["structure"]


def tan(folder):
    case = {"rounds": 16, "features": 5, **SPENDS, **TAN}
    return federation(folder, PATH, case.pop("method"), **case)


def test_a_peer_that_is_started_again_within_a_first_sum_sends_the_same_term(tmp_path, monkeypatch):
    fed, terms = tan(tmp_path), recorded(monkeypatch, "structure")

    async def live():
        net = Network(fed)
        net.start(*"abc")
        await net.told_term("b", 1)
        await net.stop("b")
        net.start("b")
        await net.end()
        return net

    net = asyncio.run(live())
    assert [len(terms[n, 1]) for n in "abc"] == [1, 1, 1]
    agreed = [net.daemons[n].agreed for n in "abc"]
    assert agreed[0] == agreed[1] == agreed[2]
    assert net.daemons["a"].place == Place(2, 16)


def test_without_a_members_term_there_is_no_sum_and_the_peer_says_so(tmp_path):
    fed = tan(tmp_path)
    plan = Plan(fed.charter, "a", fed.tables["a"])
    memory = plan.node(1).shape()
    with pytest.raises(BadSetting, match="there is no sealed sum for 'structure'"):
        plan.agreed(1, memory, {"keys": {}})
    # one that was put back adds none
    state = plan.put_back(1, plan.node(1).begin(), Place(1, 1)).state
    assert int(state.value["sums"]["lost"]) == 1
    assert not words.as_integers(state.value["sums"]["term"]).any()
    assert jax.tree.structure(state) == jax.tree.structure(without_terms(state, "again"))
    # nor does one that has found a sum spoilt forget it
    sums = {**state.value["sums"], "lost": np.full_like(state.value["sums"]["lost"], SPOILT)}
    spoilt = without_terms(state._replace(value={**state.value, "sums": sums}), "again")
    assert int(spoilt.value["sums"]["lost"]) == SPOILT


def test_masks_of_who_was_told_another_total_do_not_cancel(tmp_path):
    """In other units its rows would move a sum by more than the noise of the others hides."""
    case = {**CASES["features and units"], "rounds": 16, "features": 5, **SPENDS}
    fed = federation(tmp_path, PATH, case.pop("method"), **case)
    secrets = {name: fresh_secret() for name in "abc"}
    keys = {name: public_key(secret).hex() for name, secret in secrets.items()}
    plans = {name: Plan(fed.charter, name, fed.tables[name]) for name in "abc"}
    kinds = plans["a"].kinds

    def summed(told):
        """The sum of all terms as they leave, and of the terms; one member was told this."""
        left, terms = 0, 0
        for name, plan in plans.items():
            plan.seal_with(None, secrets[name])
            first = {**honest, "units": told} if name == "a" else honest
            node = plan.node(len(kinds) - 1, {"keys": keys, "first": first})
            state = node.begin().state
            term = node._adapt.term(state, None)
            terms = terms + term
            left = left + node._adapt.masked(term, state.value["sums"])
        return left, terms

    honest = {}
    for kind in kinds[1:-1]:
        method = plans["a"].node(kinds.index(kind), {"keys": keys, "first": honest}).method
        total = np.zeros(method.adapt.sums.size)
        total[0] = 90.0
        honest[kind] = total.tolist()
    left, terms = summed(honest["units"])
    np.testing.assert_array_equal(left, terms)
    left, terms = summed([91.0, *honest["units"][1:]])
    assert (left != terms).all()


def test_masks_of_who_agreed_on_other_units_do_not_cancel(tmp_path):
    """Also where units are agreed openly: told a huge scale, all others would add nothing."""
    fed = federation(tmp_path, PATH, {"name": "sealed_nb"}, rounds=16, features=5, units="agree")
    secrets = {name: fresh_secret() for name in "abc"}
    keys = {name: public_key(secret).hex() for name, secret in secrets.items()}

    def summed(theirs):
        left, terms = 0, 0
        for name in "abc":
            plan = Plan(fed.charter, name, fed.tables[name])
            plan.seal_with(None, secrets[name])
            square = 100.0 if name == "a" else theirs
            units = {"count": [90.0] * 5, "sum": [0.0] * 5, "square": [90.0 * square] * 5}
            node = plan.node(plan.phases - 1, {"keys": keys, "units": units})
            state = node.begin().state
            term = node._adapt.term(state, node._shard)
            terms = terms + term
            left = left + node._adapt.masked(term, state.value["sums"])
        return left, terms

    np.testing.assert_array_equal(*summed(100.0))
    left, terms = summed(1e30)
    assert (left != terms).all()


def test_a_peer_without_a_sum_ends_only_once_its_neighbours_have_its_letters(tmp_path, monkeypatch):
    """Or they would wait for the last of them."""
    fed, asked, since = tan(tmp_path), Dialling.asked, []
    last = Plan(fed.charter, "a", fed.tables["a"]).rounds(1) - 1
    monkeypatch.setattr(
        Sealing, "__call__", lambda self, state, *_: self._sealed.programs.learnt(state)
    )

    async def late(self, ask):
        now = asyncio.get_running_loop().time()
        if ask.name == "c" and ask.method == "Push" and ask.said.place == Place(1, last):
            since.append(now)
            if now < since[0] + 1.5:
                return Failed("c", "Push", "UNAVAILABLE", "late")
        return await asked(self, ask)

    monkeypatch.setattr(Dialling, "asked", late)

    async def live():
        runs = [daemon.run() for daemon in daemons]
        return await asyncio.wait_for(asyncio.gather(*runs, return_exceptions=True), 60)

    for _ in range(2):  # and so does one that is started again
        daemons = [fed.daemon(n) for n in "abc"]
        errors = asyncio.run(live())
        assert all("a member added no term" in str(error) for error in errors), errors
        for daemon in daemons:
            assert daemon.store.mask_secret() is None, "nobody can read what it sent"
            daemon.store.close()


def test_a_peer_without_noise_counts_its_values_by_all_their_digits(tmp_path):
    """As a simulation does: in the charter's precision some would lie in another part."""
    method = {"name": "sealed_nb", "select": 2}
    fed = federation(tmp_path, PATH, method, rounds=16, features=5)
    exact, _ = fed.charter.rows(fed.tables["a"], exact=True)
    assert (exact != exact.astype(fed.charter.precision)).any()
    node = Plan(fed.charter, "a", fed.tables["a"]).node(1)
    np.testing.assert_array_equal(node._shard.x, exact)


def test_what_would_be_sent_first_is_a_term_of_the_first_sum(tmp_path):
    fed = tan(tmp_path)
    plan = Plan(fed.charter, "a", fed.tables["a"])
    assert plan.kinds == ("keys", "structure", "learning")
    node = plan.node(1)
    (letter,) = node.letters(node.shape(), 0).values()
    classes, pairs = len(fed.charter.classes), 5 * 4 // 2
    assert letter.part["sum"].shape == (classes * pairs * 3 * 3, 2)
