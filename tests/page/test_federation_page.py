"""A federation in a browser: who runs, who waits for whom, what left, and who may act."""

import fcntl
import json
import signal
import time

import networkx as nx
import numpy as np
import pytest
from safetensors.numpy import save

from federation import federation
from peerwise.page.guard import Access
from peerwise.page.network import NetworkPage
from peerwise.page.site import SiteLook, site_page
from peerwise.peer import local, views
from peerwise.peer.identity import load_identity
from peerwise.peer.protocol.messages import Place
from peerwise.peer.signing import Signer
from peerwise.peer.store import LOCK, Store
from peerwise.peer.wire import Envelope

TOKEN = "a-token-for-this-test"
HOSTILE = '<img src=x onerror="window.bad=1">'
RING = nx.relabel_nodes(nx.cycle_graph(4), {i: f"node{i}" for i in range(4)})


class Standing:
    """Peers that stand still: their states are as real ones leave them, and so are their locks."""

    def __init__(self, fed):
        self.federation, self.names = _Folders(fed), fed.charter.names
        self.processes, self._locks = {}, {}
        for name in self.names:
            state = self.federation.state(name)
            write_state(fed, name, state)
            self.start(name)

    def start(self, name):
        lock = open(self.federation.state(name) / LOCK, "w")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._locks[name] = lock
        self.processes[name] = Running(self, name)

    def kill(self, name):
        self._locks.pop(name).close()
        self.processes[name].code = -9


class Running:
    """What a process says of itself."""

    def __init__(self, peers, name):
        self.peers, self.name, self.code = peers, name, None

    def poll(self):
        return self.code

    def send_signal(self, number):
        assert number == signal.SIGTERM
        self.peers.kill(self.name)
        self.code = 0


class _Folders:
    def __init__(self, fed):
        self.folder, self.charter = fed.folder, fed.charter

    def state(self, name):
        return self.folder / "state" / name


def write_state(fed, name, state, rounds=7, budget=None):
    """A state after some rounds."""
    schema = fed.charter.schema().to_json()
    store = Store.open(state, node=name, charter=fed.charter.hash, charter_text=fed.charter.text(),
                       data="rows", budget=budget, schema=schema)  # fmt: skip
    if budget is not None:
        store.ledger.charge("laplace", {}, 0.5, data="all rows")
    others = fed.charter.neighbours(name)
    with store.transaction():
        store.set(phases="1", rounds="20", held_out="12")
    signer = Signer(load_identity(fed.keys, name), fed.charter.hash)
    numbers = save({".message.value": np.zeros((10, 7), np.float32)})
    for t in range(rounds):
        letter = signer.sealed(numbers, Envelope(name, 0, t))
        with store.transaction():
            done = (Place(0, t - 1), others, (), 0.05, 0.5 - t / 20) if t else None
            store.advance(Place(0, t), b"state", dict.fromkeys(others, letter), done)
    # one neighbour has told the next round, the other has not
    store.outbox.acknowledge(list(others), Place(0, rounds - 2))
    store.inbox.put(others[0], Place(0, rounds - 1), letter)
    store.close()
    (state / "security.log").write_text(
        json.dumps({"time": "2026-01-01T00:00:00+00:00", "event": "refused", "caller": HOSTILE,
                    "address": "10.0.0.9", "method": "Push", "why": f"not a neighbour {HOSTILE}"})
        + "\nhalf a li"
    )  # fmt: skip


@pytest.fixture(scope="module")
def fed(tmp_path_factory):
    return federation(tmp_path_factory.mktemp("fed"), RING, "crc", rounds=20)


@pytest.fixture(scope="module")
def peers(fed):
    standing = Standing(fed)
    yield standing
    for name in list(standing._locks):
        standing.kill(name)


def open_network(peers, tab, monkeypatch):
    monkeypatch.setattr("peerwise.page.network.TestErrors._go", lambda self: None)
    return NetworkPage(peers, Access(token=TOKEN))


def enter(tab, token):
    tab.page.get_by_label("token").fill(token)
    tab.page.get_by_role("button", name="Act with the token").click()


def state_of(name):
    rows = "[...document.querySelectorAll('#peers tbody tr')]"
    return f"{rows}.find(r => r.cells[0].innerText === '{name}').cells[1].innerText"


def readable(browser, address):
    """Nothing serious by axe, and no wider than a phone; axe needs the policy out of its way."""
    from page.conftest import Tab
    from page.test_report import axe

    context = browser.new_context(viewport={"width": 390, "height": 800}, bypass_csp=True)
    tab = Tab(context.new_page()).open(address)
    assert axe(tab) == []
    assert tab("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_a_peer_that_ends_is_said_and_heals(tab, browser, peers, monkeypatch):
    with open_network(peers, tab, monkeypatch) as page:
        readable(browser, page.server.address)
        tab.open(page.server.address)
        tab.until("document.getElementById('sentence').textContent === 'All peers run.'")
        begun = time.monotonic()
        peers.kill("node2")
        tab.until(
            "document.getElementById('sentence').textContent.startsWith('node2 does not run')"
        )
        assert time.monotonic() - begun < 5
        assert "wait" in tab("document.getElementById('sentence').textContent")
        assert tab(state_of("node2")) == "down"
        assert tab("document.querySelectorAll('.edge.silent').length") == 2
        peers.start("node2")
        tab.until("document.getElementById('sentence').textContent === 'All peers run.'")
        assert tab("document.querySelectorAll('.edge.silent').length") == 0
        assert tab.said == []


@pytest.mark.full  # `make test`: test_serving.py
def test_only_with_the_token_a_peer_is_stopped(tab, peers, monkeypatch):
    with open_network(peers, tab, monkeypatch) as page:
        tab.open(page.server.address)
        assert tab.page.get_by_role("button", name="Stop").count() == 0
        enter(tab, "not-the-right-token")
        tab.until("document.getElementById('acting').innerText.includes('not the token')")
        assert tab.page.get_by_role("button", name="Stop").count() == 0
        enter(tab, TOKEN)
        tab.until("[...document.querySelectorAll('button')].some(b => b.innerText === 'Stop')")
        tab.page.on("dialog", lambda dialog: dialog.accept())
        tab.page.get_by_label("neighbour that node3 ejects").select_option("node0")
        tab("document.activeElement.blur()")
        tab.until("document.body.innerText.includes('Readmit node0')")
        assert list(views.ejected(peers.federation.state("node3"))) == ["node0"]
        tab.page.get_by_role("button", name="Readmit node0").click()
        tab.until("!document.body.innerText.includes('Readmit node0')")
        tab.page.get_by_role("button", name="Stop").nth(1).click()
        tab.until(f"{state_of('node1')} === 'stopped'")
    assert peers.processes["node1"].code == 0
    peers.start("node1")


def test_a_site_sees_what_left_who_is_silent_and_who_was_refused(tab, peers, fed):
    state, waits = peers.federation.state("node0"), fed.charter.neighbours("node0")[1]
    stopped = []
    health = {"waiting": [{"for": waits, "since": "2026-01-01T00:00:00Z"}]}
    page = site_page(state, fed.keys, lambda: health, lambda: stopped.append(1),
                     Access(token=TOKEN))  # fmt: skip
    with page as server:
        tab.open(server.address)
        text = tab.text
        assert "Round 6 of 20" in text
        assert f"Waiting for {waits} since" in text
        assert "error on 12 held-out rows of this site" in text
        assert (
            "A letter holds numbers of the model, and no row: value: 70 numbers (10 by 7)" in text
        )
        assert "letters are exact" in text
        assert "364 days" in text
        assert HOSTILE in text
        assert tab("window.bad") is None
        assert "not yet" in tab("document.getElementById('letters').innerText")
        enter(tab, TOKEN)
        tab.page.on("dialog", lambda dialog: dialog.accept())
        tab.page.get_by_role("button", name="Eject").first.click()
        tab.until("document.getElementById('neighbours').innerText.includes('ejected')")
        assert list(views.ejected(state)) == [fed.charter.neighbours("node0")[0]]
        tab.page.get_by_role("button", name="Readmit").click()
        tab.until("!document.getElementById('neighbours').innerText.includes('ejected')")
        tab.page.get_by_role("button", name="Stop this peer").click()
        tab.until("document.getElementById('acting').innerText.includes('told to stop')")
        assert stopped == [1]
        assert tab.said == []
        # those who watch are told when it ends
    tab.until("document.getElementById('word').innerText === 'ended'")


def test_everybody_can_read_the_page_of_a_site(browser, peers, fed):
    with site_page(peers.federation.state("node0"), fed.keys, None, None, Access()) as server:
        readable(browser, server.address)


def test_nothing_of_a_row_is_shown(fed, peers):
    """Numbers of rows that are in no name, hash or count do not turn up."""
    text = json.dumps(SiteLook(peers.federation.state("node0"), fed.keys)())
    assert "features" not in text
    assert "center" not in text
    assert set(SiteLook(peers.federation.state("node0"))()["letters"][0]) == {
        "to", "phase", "round", "bytes", "sha256", "made", "taken",
    }  # fmt: skip


def test_what_epsilon_is_for_stands_on_the_page(tab, tmp_path):
    """Before, a row and a person looked alike on the page of a site."""
    spends = {"epsilon": 2.0, "delta": 0.0}
    fed = federation(tmp_path, RING, {"name": "gossip_nb"}, rounds=20,
                     privacy={"epsilon": 1.0, "person": "who"}, budget=spends)  # fmt: skip
    state = tmp_path / "state"
    write_state(fed, "node0", state, budget=spends)
    one = "for one person ('who', at most 1 row of each)"
    with site_page(state, fed.keys, None, None, Access()) as server:
        tab.open(server.address)
        tab.until("document.getElementById('privacy').innerText.includes('is spent')")
        said = tab.text
    assert f"privacy budget ε spent, {one}" in said
    assert f"is left, {one}" in said


def test_a_peer_that_has_not_begun_is_said(tmp_path):
    assert SiteLook(tmp_path)()["word"] == "begins"


@pytest.mark.full  # for which test_a_peer_that_ends_is_said_and_heals stands in `make test`
def test_four_real_peers_one_is_killed_and_heals(tab, tmp_path):
    from peerwise.data import load

    description = {"method": {"name": "crc"}, "run": {"rounds": 3000}}
    here = local.set_up(
        tmp_path / "net", load("digits"), nodes=4, rows=100, graph="ring", description=description
    )
    said = "document.getElementById('sentence').textContent"
    with local.Peers(here) as peers, NetworkPage(peers, Access()) as page:
        tab.open(page.server.address)
        tab.until(f"{said} === 'All peers run.'", 200)
        tab.until("Number(document.querySelector('.tile b').innerText.split(' ')[0]) > 5", 200)
        begun = time.monotonic()
        peers.signal("node2", signal.SIGKILL)
        tab.until(f"{said}.startsWith('node2 does not run')")
        assert time.monotonic() - begun < 5
        tab.until(f"{said}.includes('wait')")
        before = views.status(here.state("node0")).round
        peers.start("node2")
        tab.until(f"{said} === 'All peers run.'", 200)
        end = time.monotonic() + 200
        while views.status(here.state("node0")).round <= before + 2:
            assert time.monotonic() < end
            time.sleep(0.2)
        assert tab.said == []
