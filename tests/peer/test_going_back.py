"""A peer that is put back to an old state, or loses it, catches up; its ledger never goes back."""

import asyncio
import shutil

import jax
import networkx as nx
import numpy as np
import pytest

from federation import PATH, Alone, assert_same, federation, signed, simulated
from hostile import hello
from peerwise.errors import BadFile, PeerwiseError
from peerwise.peer.daemon import _ended
from peerwise.peer.greeting import said
from peerwise.peer.protocol.messages import Place
from peerwise.peer.store import Store, outbox
from peerwise.peer.store.inbox import Inbox
from peerwise.peer.transport import Call, Refused
from peerwise.peer.wire import Envelope
from peerwise.privacy import Ledger, Overspent

CRC = {"name": "crc", "lr": 0.05}
ROUNDS = 40
LONG = 20.0


class Network:
    """Peers in one loop, of which one is stopped, put back and started again."""

    def __init__(self, fed, **options):
        self.fed, self.daemons, self.tasks, self.options = fed, {}, {}, options

    def start(self, name):
        self.daemons[name] = self.fed.daemon(name, **self.options)
        self.tasks[name] = asyncio.create_task(self.daemons[name].run())

    async def stop(self, name):
        self.daemons[name].stop()
        await self.tasks[name]
        self.daemons[name].store.close()

    async def until(self, name, t):
        end = asyncio.get_running_loop().time() + LONG
        while self.daemons[name].place.round < t:
            assert asyncio.get_running_loop().time() < end
            assert not self.tasks[name].done(), self.tasks[name].exception()
            await asyncio.sleep(0.002)

    async def end(self):
        assert all(await asyncio.wait_for(asyncio.gather(*self.tasks.values()), LONG))

    def closed(self):
        for daemon in self.daemons.values():
            daemon.store.close()


async def put_back(fed, name, before, after, lose=False):
    """A run in which a peer at round `after` is put back to its state of round `before`."""
    net = Network(fed)
    for one in fed.charter.names:
        net.start(one)
    state, backup = fed.folder / name, fed.folder / "backup"
    await net.until(name, before)
    await net.stop(name)
    shutil.copytree(state, backup)
    net.start(name)
    await net.until(name, after)
    await net.stop(name)
    shutil.rmtree(state)
    if not lose:
        shutil.copytree(backup, state)
    net.start(name)
    await net.end()
    return net


def events(caplog):
    return [
        (r.getMessage(), r.facts.get("node"), r.facts) for r in caplog.records if "facts" in vars(r)
    ]


@pytest.mark.long("b")
@pytest.mark.bits
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_backup_within_the_letters_kept_ends_with_the_same_models(tmp_path, name, caplog):
    graph = nx.relabel_nodes(nx.path_graph(3), dict(enumerate("abc")))
    fed = federation(tmp_path, graph, CRC, rounds=ROUNDS)
    net = asyncio.run(put_back(fed, name, 5, 12))
    daemons = [net.daemons[one] for one in "abc"]
    assert_same(simulated(fed, daemons, ROUNDS), daemons)
    seen = {event for event, *_ in events(caplog)}
    assert {"a neighbour has gone back", "this peer has gone back"} <= seen
    net.closed()


@pytest.mark.full  # the protocol's worlds have it without processes or a clock
@pytest.mark.parametrize("lose", [False, True], ids=["far back", "lost"])
def test_a_peer_that_is_far_back_catches_up_and_all_end(tmp_path, lose, caplog, monkeypatch):
    monkeypatch.setattr(outbox, "KEEP", 2)
    graph = nx.relabel_nodes(nx.path_graph(3), dict(enumerate("abc")))
    fed = federation(tmp_path, graph, CRC, rounds=ROUNDS)
    net = asyncio.run(put_back(fed, "b", 3, 20, lose))
    assert all(d.place == Place(0, ROUNDS) for d in net.daemons.values())
    (there,) = (facts["at"] for event, _, facts in events(caplog) if event == "catches up")
    assert 15 <= there <= 21
    heard = net.daemons["b"].store.rows("SELECT heard FROM rounds WHERE round > 21")
    assert {one for (one,) in heard} == {"a c"}
    net.closed()


@pytest.mark.full
def test_no_neighbour_is_told_a_round_twice_in_other_words(tmp_path, monkeypatch):
    """After a backup, what was said before stays what was said."""
    bodies = {}

    def spied(put_all):
        def watched(self, letters, *more):
            for letter, differs in zip(letters, put_all(self, letters, *more), strict=True):
                assert not differs
                key = self.large.folder, letter.sender, letter.place
                bodies.setdefault(key, set()).add(letter.body)
            return [False] * len(letters)

        return watched

    monkeypatch.setattr(Inbox, "put_all", spied(Inbox.put_all))
    privacy = {"epsilon": 1.0, "delta": 1e-5}
    graph = nx.relabel_nodes(nx.path_graph(3), dict(enumerate("abc")))
    fed = federation(
        tmp_path, graph, {"name": "private_crc"}, rounds=ROUNDS, privacy=privacy,
        budget={**privacy, "epsilon": 2.0},
    )  # fmt: skip
    net = asyncio.run(put_back(fed, "b", 5, 12))
    assert {len(told) for told in bodies.values()} == {1}
    assert all(d.place == Place(0, ROUNDS) for d in net.daemons.values())
    net.closed()


# the ledger


def opened(folder, site, epsilon=1.0, data="rows", charter="c"):
    budget = {"epsilon": epsilon, "delta": 0.0, "accountant": "basic"}
    return Store.open(
        folder, node="a", charter=charter, charter_text="", data=data, budget=budget, site=site
    )


def pay(store, epsilon):
    with store.transaction():
        store.ledger.charge("laplace", {"scale": 1.0}, epsilon, data="statistics", inside=True)


@pytest.fixture
def site(tmp_path):
    made = Ledger.open(tmp_path / "site.ledger", node="ward", epsilon=2.0)
    yield made
    made.close()


def test_what_was_spent_since_a_backup_is_put_back_into_the_ledger(tmp_path, site):
    state = tmp_path / "state"
    store = opened(state, site)
    pay(store, 0.25)
    store.close()
    shutil.copytree(state, tmp_path / "backup")
    store = opened(state, site)
    assert store.lost == 0
    pay(store, 0.5)
    store.close()
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "backup", state)
    store = opened(state, site)
    assert (store.lost, store.ledger.total().epsilon) == (1, 0.75)
    with pytest.raises(PeerwiseError, match="cannot afford"):
        pay(store, 0.5)
    store.close()
    # a state that is lost, and one about other rows
    store = opened(tmp_path / "new", site)
    assert (store.lost, store.ledger.total().epsilon) == (2, 0.75)
    store.close()
    store = opened(tmp_path / "others", site, data="other rows")
    assert store.lost == 0
    store.close()


def test_the_cap_of_a_site_is_over_all_charters(tmp_path, site):
    """Before, four charters that differ in their seed were paid for one by one."""
    drawn = []
    for i in range(4):
        store = opened(tmp_path / f"state{i}", site, epsilon=2.0, charter=f"seed {i}")
        if not i:
            pay(store, 2.0)
        else:
            with pytest.raises(Overspent, match="'ward' cannot afford"):
                pay(store, 2.0)
        drawn.append(store.ledger.total().epsilon)
        store.close()
    assert drawn == [2, 0, 0, 0]
    assert site.total().epsilon == 2.0


def crash(store):
    with store.transaction():
        store.ledger.charge("laplace", {"scale": 1.0}, 1.0, data="statistics", inside=True)
        raise KeyError  # noise was drawn, nothing is on the disk


def test_a_crash_before_anything_left_costs_nothing(tmp_path, site):
    store = opened(tmp_path / "state", site)
    with pytest.raises(KeyError):
        crash(store)
    store.close()
    store = opened(tmp_path / "state", site)
    assert (store.lost, site.total().epsilon) == (0, 1.0)
    pay(store, 1.0)  # the same charge
    assert (store.ledger.total().epsilon, site.total().epsilon) == (1.0, 1.0)
    store.close()
    shutil.rmtree(tmp_path / "state")
    store = opened(tmp_path / "state", site)
    assert store.lost == 1  # that one left
    store.close()


def test_two_states_of_one_charter_do_not_draw_noise_for_one_charge(tmp_path, site):
    one, other = opened(tmp_path / "one", site), opened(tmp_path / "other", site)
    with pytest.raises(KeyError):
        crash(one)
    pay(other, 1.0)  # of its own: the first may have its noise on the disk, and go on with it
    assert (site.receipts(), site.total().epsilon) == (2, 2.0)
    other.close()
    other = opened(tmp_path / "other", site)
    assert (other.lost, other.ledger.total().epsilon) == (0, 1.0)
    one.close()
    one = opened(tmp_path / "one", site)
    assert (one.lost, one.ledger.total().epsilon) == (1, 1.0)
    with pytest.raises(Overspent):
        pay(one, 1.0)
    for store in one, other:
        store.close()


def test_a_ledger_that_went_back_is_found_out_by_its_own_peer(tmp_path):
    path = tmp_path / "site.ledger"
    with Ledger.open(path, node="ward", epsilon=2.0) as site:
        site.charge("laplace", {}, 0.1, data="before")
    shutil.copy(path, tmp_path / "backup")
    with Ledger.open(path, node="ward", epsilon=2.0) as site:
        store = opened(tmp_path / "state", site)
        pay(store, 0.5)
        with store.transaction():
            store.set(ledger=str(store.site.head()))
        store.close()
    for one in tmp_path.glob("site.ledger*"):
        one.unlink()
    shutil.copy(tmp_path / "backup", path)
    with (
        Ledger.open(path, node="ward", epsilon=2.0) as site,
        pytest.raises(BadFile, match="an old copy or another ledger"),
    ):
        opened(tmp_path / "state", site)


# what a restart may cut in two


def letter_of(daemon, t=0, scale=1.0):
    own = next(iter(daemon.node.letters(daemon.memory, 0).values()))
    told = jax.tree.map(lambda a: np.asarray(a * np.asarray(scale, a.dtype)), own)
    return signed(daemon, daemon.format.encode(told, Envelope("a", 0, t)), "a", (0, t))


@pytest.fixture
def alone(tmp_path):
    made = Alone(federation(tmp_path, PATH, CRC, rounds=4).daemon("b"))
    yield made
    made.close()


def test_a_letter_whose_sender_hangs_up_is_known_once_it_is_on_the_disk(alone):
    daemon = alone.daemon

    def called(method, body, life):
        return daemon.calls.answer(Call(method, "a", daemon.charter.hash, body, life))

    async def hang_up():
        call = asyncio.create_task(called("Push", letter_of(daemon), 1))
        while not daemon.core.coming:
            await asyncio.sleep(0)
        call.cancel()
        return said(await called("Hello", hello(daemon.charter), 2))

    assert alone.run(hang_up()).have == Place(0, 0)  # the new life learns what the old one said
    assert Place(0, 0) in daemon.core.neighbours["a"].heard
    with pytest.raises(Refused, match="another copy of a"):
        alone.run(called("Push", letter_of(daemon, 1), 1))


def test_a_letter_that_is_on_the_disk_only_is_taken_up_when_another_comes(alone):
    daemon = alone.daemon
    daemon.store.inbox.put("a", Place(0, 0), letter_of(daemon))
    with pytest.raises(Refused, match="another letter"):
        alone.accept("a", letter_of(daemon, scale=2.0))
    alone.until(lambda: Place(0, 0) in daemon.core.neighbours["a"].heard)


def test_a_peer_ends_though_a_cancellation_gets_lost():
    """As it does in Python 3.11 where `wait_for` is cancelled when what it waits for has come."""

    async def deaf():
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            await asyncio.sleep(LONG)

    async def stop():
        task = asyncio.create_task(deaf())
        await asyncio.sleep(0)
        await asyncio.wait_for(_ended([task]), LONG / 2)
        assert task.done()

    asyncio.run(stop())
