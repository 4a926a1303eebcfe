"""A charter is amended while its federation runs: taken without harm, or refused in a line."""

import asyncio
import logging

import pytest
from typer.testing import CliRunner

from federation import assert_same, federation, free_ports, simulated
from hostile import path
from peerwise.cli import app
from peerwise.errors import BadFile, BadSetting, UnknownName
from peerwise.peer import views
from peerwise.peer.amending import Amending, amended
from peerwise.peer.charter import Charter
from peerwise.peer.greeting import greeting, summary
from peerwise.peer.serve import _newest_edition
from peerwise.peer.store import Store
from peerwise.peer.terms import LimitTerms, NodeTerms, PaceTerms

CRC = {"name": "crc", "lr": 0.05}
NONE: dict = {}


@pytest.fixture(scope="module")
def fed(tmp_path_factory):
    return federation(tmp_path_factory.mktemp("fed"), path("a", "b"), CRC, rounds=3)


def another(charter, old, new):
    text = charter.text()
    assert text.count(old) == 1
    return Charter.parse(text.replace(old, new))


def test_what_a_site_may_change_is_no_part_of_the_hash_and_all_else_is(fed):
    charter = fed.charter
    assert PaceTerms.amendable() == {"deadline", "start", "adaptive"}
    assert LimitTerms.amendable() == {"message_bytes", "ahead"}
    assert NodeTerms.amendable() == {"address"}
    assert Charter.amendable() == {"edition"}
    (port,) = free_ports(1)
    for old, new, says in (
        ("deadline = 30.0", "deadline = 60.0", "pace.deadline is 30.0 here and 60.0 there"),
        ("start = 120.0", "start = 60.0", "pace.start is"),
        ("adaptive = false", "adaptive = true", "pace.adaptive is"),
        ("message_bytes = 67108864", "message_bytes = 1000000", "limits.message_bytes is"),
        ("ahead = 2", "ahead = 3", "limits.ahead is"),
        (f'"{charter.nodes["a"].address}"', f'"localhost:{port}"', "nodes.a.address is"),
    ):
        other = another(charter, old, new)
        assert other.hash == charter.hash
        assert charter.difference(other).startswith(says)
        assert len(charter.amendments(other)) == 1
    for old, new in (
        ('mode = "wait"', 'mode = "deadline"'),
        ("staleness = 8", "staleness = 9"),
        ("least_rows = 1", "least_rows = 2"),
        ("lr = 0.05", "lr = 0.1"),
        ("rounds = 3", "rounds = 4"),
    ):
        other = another(charter, old, new)
        assert other.hash != charter.hash
        with pytest.raises(
            BadSetting,
            match=f"another charter, not an edition of this one: .*{old.split()[0]} is .* there",
        ):
            charter.amendments(other)


def test_a_new_edition_is_checked_like_any_charter(fed):
    new = amended(fed.charter, {"a": "ward.example.org:7400"}, {"deadline": 5.0}, NONE)
    assert (new.edition, new.hash) == (1, fed.charter.hash)
    assert amended(new, NONE, NONE, {"ahead": 3}).edition == 2
    with pytest.raises(UnknownName, match="unknown node 'z'"):
        amended(fed.charter, {"z": "x:1"}, NONE, NONE)
    with pytest.raises(BadSetting, match="not an address"):
        amended(fed.charter, {"a": "nowhere"}, NONE, NONE)
    with pytest.raises(BadSetting, match="nothing to amend"):
        amended(fed.charter, NONE, {"deadline": 30.0}, NONE)


def test_a_node_that_moves_is_found_again_while_its_neighbour_runs(tmp_path, caplog):
    """The charter of a has an old address of b; both only go on once a has the new one."""
    fed = federation(tmp_path, path("a", "b", "c"), CRC, rounds=3)
    (port,) = free_ports(1)
    new = amended(fed.charter, {"b": f"127.0.0.1:{port}"}, NONE, NONE)
    a, c = (fed.daemon(name, watch=0.05) for name in ("a", "c"))
    fed = fed._replace(charter=new)
    b = fed.daemon("b")
    daemons = [a, b, c]

    async def play():
        running = [asyncio.ensure_future(one.run()) for one in daemons]
        while not a.store.neighbours.signed() or not b.core.started:  # b dials others as before
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert a.place.round <= 1
        for one in (a, c):
            changes = await asyncio.to_thread(views.amend, one.store.path.parent, tmp_path / "new")
            assert changes[0] == "edition is 0 here and 1 there"
        return await asyncio.wait_for(asyncio.gather(*running), 60)

    new.save(tmp_path / "new")
    with caplog.at_level(logging.INFO, "peerwise.peer"):
        assert all(asyncio.run(play()))
    assert_same(simulated(fed, daemons, 3), daemons)
    events = [record.getMessage() for record in caplog.records]
    assert events.count("amended") == 2
    assert events.count("a neighbour has a newer edition of the charter") == 2
    for one in daemons:
        one.store.close()


@pytest.fixture
def state(fed, tmp_path):
    store = Store.open(
        tmp_path / "state", node="a", charter=fed.charter.hash, charter_text=fed.charter.text(),
        data="d",
    )  # fmt: skip
    yield store
    store.close()


def site_with(charter):
    class Site:
        pass

    made = Site()
    made.charter = charter
    return made


def test_a_peer_starts_with_the_newest_edition_of_file_and_state(fed, state):
    first = amended(fed.charter, NONE, {"deadline": 5.0}, NONE)
    site = site_with(first)
    assert _newest_edition(site, state)[1] == "pace.deadline is 30.0 here and 5.0 there"
    assert Charter.parse(state.about()["text"]).edition == 1
    site = site_with(fed.charter)  # the old file again
    assert _newest_edition(site, state)[1] == "pace.deadline is 30.0 here and 5.0 there"
    assert site.charter.edition == 1
    assert _newest_edition(site_with(first), state) == []


def test_other_terms_are_refused_in_a_line_that_names_them_and_nothing_changes(
    fed, state, tmp_path
):
    folder = state.path.parent
    other = another(fed.charter, "lr = 0.05", "lr = 0.1")
    other.save(tmp_path / "other.toml")
    before = state.about()["text"]
    with pytest.raises(BadSetting, match=r"method.lr is 0.05 here and 0.1 there. While"):
        views.amend(folder, tmp_path / "other.toml")
    with pytest.raises(BadFile, match=r"another charter: method.lr is 0.05 here and 0.1 there; go"):
        Store.open(
            folder, node="a", charter=other.hash, charter_text=other.text(), data="d",
            differs=lambda text: Charter.parse(text).difference(other),
        )  # fmt: skip
    assert state.about()["text"] == before


def test_an_older_edition_is_not_taken(fed, state, tmp_path):
    folder = state.path.parent
    one = amended(fed.charter, NONE, {"deadline": 5.0}, NONE)
    two = amended(one, NONE, {"deadline": 6.0}, NONE)
    one.save(tmp_path / "one.toml")
    two.save(tmp_path / "two.toml")
    assert len(views.amend(folder, tmp_path / "two.toml")) == 2
    assert views.amend(folder, tmp_path / "two.toml") == []
    with pytest.raises(
        BadSetting, match="is edition 1 of the charter, and this peer has edition 2"
    ):
        views.amend(folder, tmp_path / "one.toml")
    edited = another(two, "deadline = 6.0", "deadline = 7.0")  # by hand, with the same number
    edited.save(tmp_path / "edited.toml")
    with pytest.raises(BadSetting, match="give it a greater number"):
        views.amend(folder, tmp_path / "edited.toml")


def test_a_running_peer_takes_nothing_else_from_its_file(fed, caplog):
    amending = Amending(fed.charter, "a", {})
    other = another(fed.charter, "lr = 0.05", "lr = 0.1")
    with caplog.at_level(logging.INFO, "peerwise.peer"):
        assert not amending.take(fed.charter.text())
        assert not amending.take(other.text())
        assert not amending.take("nonsense")
        moved = amended(fed.charter, {"a": "127.0.0.1:1"}, NONE, NONE)
        assert amending.take(moved.text())
    assert amending.said == summary(moved)
    lines = [record.facts for record in caplog.records]
    assert [record.getMessage() for record in caplog.records] == ["not amended"] * 2 + ["amended"]
    assert lines[2]["at the next start"] == "the address of this node"


def test_who_has_an_older_edition_is_told_so_once_whatever_is_said(fed, caplog):
    amending = Amending(fed.charter, "a", {})
    with caplog.at_level(logging.INFO, "peerwise.peer"):
        for edition in ("0", "2", "2", "1", "x", "9" * 9, 3, None, [1]):
            amending.compare("b", greeting({}, {**amending.said, "edition": edition}))
        amending.compare("b", b"{" * 100)
        amending.compare("b", greeting({}, None))
    assert [record.facts["there"] for record in caplog.records] == [2, 3]


def test_the_commands(fed, state, tmp_path):
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    fed.charter.save(old)

    def called(*words):
        return CliRunner().invoke(app, [*map(str, words)])

    said = called("network", "amend", old, "--out", new, "--address", "a=h:1", "--deadline", "9")
    assert said.exit_code == 0, said.output
    assert "Edition 1" in said.output
    assert "amended" in called("peer", "amend", state.path.parent, new).output
    assert "nothing to amend" in called("peer", "amend", state.path.parent, new).output
    assert "same charter" in called("network", "check", old, "--against", new).output
    for words in (["--address", "a"], ["--address", "=x:1"], []):
        with pytest.raises(BadSetting):
            raise called("network", "amend", old, "--out", tmp_path / "x", *words).exception
    with pytest.raises(BadFile, match="is there already"):
        raise called("network", "amend", old, "--out", new, "--deadline", "9").exception
