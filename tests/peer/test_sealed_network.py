"""Eight real peers that learn Adult by sealed sums, each of them killed once on the way."""

import random
import signal
import time

import jax
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from peerwise import data
from peerwise.errors import PeerwiseError
from peerwise.methods import words
from peerwise.peer import views
from peerwise.peer.local import TEST, Peers, set_up
from peerwise.peer.plan import Plan
from peerwise.peer.store import Store
from peerwise.peer.wire import unpack_tree
from taped import assert_same_model, simulated

SPENDS = {"epsilon": 1.0, "delta": 1e-5}
LIMIT = 900.0


def network(folder, method, rounds):
    description = {"method": method, "privacy": SPENDS, "run": {"rounds": rounds}}
    try:
        adult = data.load("adult")
    except PeerwiseError:
        pytest.skip("needs Adult: set PEERWISE_DATA")
    return set_up(
        folder / "net", adult, nodes=8, rows=400, description=description, budget=SPENDS
    )  # fmt: skip


class Watch:
    """Reads the totals of a peer while it runs, from its file."""

    def __init__(self, fed, name):
        self._folder, self.totals = fed.state(name), {}
        table = fed.table(fed.rows(name))
        plan = Plan(fed.charter, name, table)
        self._shape = plan.node(plan.phases - 1).shape()

    def look(self):
        """The round that the peer is at, in all its phases."""
        try:
            store = Store.look(self._folder)
        except PeerwiseError:
            return -1
        try:
            kept = store.progress()
        finally:
            store.close()
        if kept is None or kept[0].phase == 0:
            return -1
        sums = unpack_tree(kept[1], self._shape).state.value["sums"]
        self.totals.setdefault(int(sums["done"]), words.as_integers(sums["total"]))
        return kept[0].round


def lived(fed, rounds):
    """Run all peers, kill each in turn at a moment of its own; the totals of all sums."""
    rng, watch, end = random.Random(0), Watch(fed, fed.charter.names[0]), time.monotonic() + LIMIT
    with Peers(fed) as peers:
        kills = [(1 + k * (rounds - 4) // 8, name) for k, name in enumerate(peers.names)]
        while any(p.poll() is None for p in peers.processes.values()):
            assert time.monotonic() < end
            assert not peers.failed(), peers.failed()
            at = watch.look()
            if kills and at >= kills[0][0]:
                _, name = kills.pop(0)
                time.sleep(rng.random() * 0.1)
                peers.signal(name, signal.SIGKILL)
                peers.processes[name].wait()
                peers.start(name)
            time.sleep(0.01)
        watch.look()
        assert not peers.failed(), peers.failed()
        assert not kills
    return watch.totals


def check(fed, totals):
    """All have the simulator's model to the bit; its AUC on rows that nobody learnt from."""
    names = fed.charter.names
    sums = max(totals)
    assert set(range(1, sums + 1)) <= set(totals)
    nothing = np.zeros_like(totals[sums])
    tape = [[totals[at]] + [nothing] * (len(names) - 1) for at in range(1, sums + 1)]
    learnt = {name: views.learnt(fed.state(name)) for name in names}
    plans = [Plan(fed.charter, name, fed.table(fed.rows(name))) for name in names]
    run = simulated(plans, learnt[names[0]].agreed, tape)
    assert_same_model(run, [learnt[name].value for name in names])
    x, y = fed.charter.rows(fed.table(fed.folder / TEST))
    prob = np.asarray(learnt[names[0]].of_rows(x))[:, 1]
    for name in names:
        store = Store.look(fed.state(name))
        assert store.rows("SELECT count(*) FROM masks") == [(sums,)]
        assert store.ledger.total().epsilon == pytest.approx(1.0)
        store.close()
    return roc_auc_score(y, prob)


@pytest.mark.full  # tests/peer/test_sealed.py has four in one process
@pytest.mark.parametrize(
    ("method", "rounds", "auc"),
    [({"name": "sealed_nb"}, 24, 0.80), ({"name": "sealed_crc", "releases": 8}, 80, 0.75)],
    ids=["nb", "crc"],
)
def test_eight_peers_learn_adult_by_sealed_sums_though_each_is_killed(
    tmp_path, method, rounds, auc
):
    fed = network(tmp_path, method, rounds)
    totals = lived(fed, rounds)
    found = check(fed, {at: total for at, total in totals.items() if at > 0})
    print(f"AUC {found:.3f} after {max(totals)} sums")
    jax.clear_caches()
    assert found > auc
