"""Noise between real peers: drawn once, paid for before it leaves, the same after a restart."""

import asyncio
import shutil

import jax
import networkx as nx
import numpy as np
import pytest

from federation import Alone, Network, federation, run_all, signed
from peerwise import methods
from peerwise.errors import BadData, BadFile, BadSetting
from peerwise.peer.learning import constant
from peerwise.peer.protocol.messages import Envelope, Place
from peerwise.peer.serve import no_copy
from peerwise.peer.signing import parted
from peerwise.peer.site import Drawn
from peerwise.peer.store import Store
from peerwise.privacy import Overspent, Tape, vetted
from peerwise.privacy.mechanism import gaussian_sigma
from peerwise.shards import pack
from peerwise.simulate import simulate

PAIR = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
LINE = nx.relabel_nodes(nx.path_graph(3), {0: "a", 1: "b", 2: "c"})
GOSSIP = {"name": "gossip_nb", "counter": "total"}
SPENDS = {"privacy": {"epsilon": 2.0}, "budget": {"epsilon": 2.0}}


class Counted:
    """Vetted noise, and how often it was drawn."""

    def __init__(self):
        self.draws = 0

    def __call__(self, *args, **options):
        self.draws += 1
        return vetted(*args, **options)


def model_of(plan):
    return plan.learning.model(plan.learning.world(plan.x, plan.y))


def charges(daemon):
    return daemon.store.ledger.table()


@pytest.mark.full  # `make test`: learner/test_every_name.py, without noise
@pytest.mark.optimised
def test_gossip_with_recorded_noise_ends_with_the_simulators_models(tmp_path):
    fed = federation(tmp_path, LINE, GOSSIP, rounds=8, **SPENDS)
    rng = np.random.default_rng(0)
    model = model_of(fed.daemon("a").plan)
    noise = [rng.laplace(size=(model.classes, model.size)) for _ in fed.charter.names]
    daemons = [fed.daemon(name, noise=Tape([noise[i]])) for i, name in enumerate(fed.charter.names)]
    assert all(run_all(*daemons))
    released = np.stack([np.asarray(d.memory.state.memory["own"]) for d in daemons])
    one = methods.gossip_nb(model, replayed(released), counter="total")
    plans = [d.plan for d in daemons]
    x, y = (np.concatenate([getattr(p, k) for p in plans]) for k in ("x", "y"))
    x[:, 0] = np.repeat(np.arange(3), [len(p.y) for p in plans])  # says who a node is
    rows = np.split(np.arange(len(y)), np.cumsum([len(p.y) for p in plans])[:-1])
    run = simulate(one, pack(x, y, rows), fed.charter.topology(), 8, exact=True)
    for i, daemon in enumerate(daemons):
        for a, b in zip(
            jax.tree.leaves(daemon.memory.state.value),
            jax.tree.leaves(jax.tree.map(lambda a, i=i: a[i], run.state.value)),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)
        assert charges(daemon)["epsilon"].tolist() == [2.0]


def replayed(released):
    """Recorded releases for a simulation, in which the first number of a row says whose it is."""

    def draw(key, shard):
        who = shard.x[0, 0].astype(int)
        nothing = constant(released[0], 30.0, 2.0)(key, shard)[1]
        return jax.numpy.asarray(released)[who], nothing

    return draw


def test_a_release_is_drawn_and_paid_for_once_whatever_happens(tmp_path):
    fed = federation(tmp_path, PAIR, GOSSIP, rounds=3, **SPENDS)
    a = fed.daemon("a", noise=(first := Counted()))
    with pytest.raises(TimeoutError):  # nobody answers: it has drawn, paid and written it down
        run_all(a, seconds=2.0)
    assert first.draws == 1
    before = a.store.outbox.unsent("b")[0].body
    a.store.close()
    again, b = fed.daemon("a", noise=(second := Counted())), fed.daemon("b")
    assert again.store.outbox.unsent("b")[0].body == before
    assert all(run_all(again, b))
    assert second.draws == 0
    assert charges(again)["epsilon"].tolist() == [2.0]


def test_private_crc_is_charged_for_every_round_and_never_more_than_the_budget(tmp_path):
    method = {"name": "private_crc", "lr": 0.05}
    budget = {"epsilon": 8.0, "delta": 1e-5, "accountant": "rdp"}
    fed = federation(tmp_path, PAIR, method, rounds=6, privacy={"epsilon": 5.0}, budget=budget)
    daemons = [fed.daemon(n, noise=Counted()) for n in fed.charter.names]
    assert all(run_all(*daemons))
    for daemon in daemons:
        assert len(charges(daemon)) == 6
        assert 0 < daemon.store.ledger.total().epsilon <= 8.0
        assert daemon.plan._noise.draws == 6


def test_private_crc_started_again_before_its_first_round_is_charged_once(tmp_path):
    method = {"name": "private_crc", "lr": 0.05}
    budget = {"epsilon": 6.0, "delta": 1e-5, "accountant": "pld"}
    fed = federation(tmp_path, PAIR, method, rounds=3, privacy={"epsilon": 5.0}, budget=budget)
    for _ in range(2):
        begun = Alone(fed.daemon("a"))
        assert begun.daemon.store.ledger.receipts() == 0  # it goes round by round
        begun.close()
    assert all(run_all(*(fed.daemon(n) for n in fed.charter.names)))
    with fed.ledger("a") as site:
        assert site.receipts() == 1


def test_private_crc_with_the_basic_accountant_is_paid_for_at_once(tmp_path):
    method = {"name": "private_crc", "lr": 0.05}
    fed = federation(
        tmp_path,
        PAIR,
        method,
        rounds=4,
        privacy={"epsilon": 5.0},
        budget={"epsilon": 5.0, "delta": 1e-5},
    )
    daemons = [fed.daemon(n) for n in fed.charter.names]
    assert all(run_all(*daemons))
    assert charges(daemons[0])["epsilon"].tolist() == [5.0]
    with fed.ledger("a") as site:  # by which a site composes it with others, if it does
        ((_, _, epsilon, delta, multiplier, *_),) = site.paid()
    assert multiplier == gaussian_sigma(1.0, epsilon, delta)


@pytest.mark.parametrize("accountant", ["basic", "pld"])
def test_a_state_put_back_draws_no_noise_for_rounds_that_had_some(tmp_path, accountant):
    """One charge pays for one draw a round; another draw would tell more of the same rows."""
    budget = {"epsilon": 6.0, "delta": 1e-5, "accountant": accountant}
    method = {"name": "private_crc", "lr": 0.05}
    fed = federation(tmp_path, PAIR, method, rounds=3, privacy={"epsilon": 5.0}, budget=budget)
    begun = Alone(fed.daemon("a"))
    begun.close()
    shutil.copytree(tmp_path / "a", tmp_path / "backup")
    assert all(run_all(*(fed.daemon(n) for n in fed.charter.names)))
    shutil.rmtree(tmp_path / "a")
    shutil.copytree(tmp_path / "backup", tmp_path / "a")
    back = Alone(fed.daemon("a", noise=(noise := Counted())))
    node, memory = back.daemon.node, back.daemon.memory
    for t in range(3):
        memory = node.step(memory, t, {})
    assert (back.daemon.plan.drawn, noise.draws) == (3, 0)
    back.daemon.plan.drawn = 2
    node.step(memory, 2, {})
    assert noise.draws == 1
    back.close()


def test_a_state_put_back_with_its_ledger_draws_no_noise_for_rounds_that_had_some(tmp_path):
    """A snapshot of a whole machine: only the neighbours know how far it was."""
    budget = {"epsilon": 6.0, "delta": 1e-5}
    method = {"name": "private_crc", "lr": 0.05}
    rounds, noise = 14, Counted()
    fed = federation(tmp_path, LINE, method, rounds=rounds, privacy=budget, budget=budget)

    def copied(source, target):
        shutil.rmtree(target / "b", ignore_errors=True)
        shutil.copytree(source / "b", target / "b")
        for path in target.glob("b.ledger*"):
            path.unlink()
        for path in source.glob("b.ledger*"):
            shutil.copy(path, target)

    async def live():
        net = Network(fed)
        net.start(*"ac")
        net.options = {"noise": noise}
        net.start("b")
        await net.until("b", Place(0, 3))
        await net.stop("b")
        copied(tmp_path, tmp_path / "backup")
        net.start("b")
        await net.until("b", Place(0, 8))
        await net.stop("b")
        heard = max(net.daemons[n].core.neighbours["b"].head for n in "ac")
        before = noise.draws
        copied(tmp_path / "backup", tmp_path)
        net.start("b")
        await net.end()
        return heard.round, before

    heard, before = asyncio.run(live())
    assert heard >= 7
    assert noise.draws - before <= rounds - heard
    with fed.ledger("b") as site:
        assert site.receipts() == 1


def test_a_state_put_back_before_it_began_pays_again_and_goes_on(tmp_path):
    """Before, it was taken for a copy of itself at its next start, for ever."""
    fed = federation(tmp_path, PAIR, GOSSIP, rounds=2, **SPENDS | {"budget": {"epsilon": 5.0}})
    fed.daemon("a").store.close()
    shutil.copytree(tmp_path / "a", tmp_path / "backup")
    Alone(fed.daemon("a")).close()
    shutil.rmtree(tmp_path / "a")
    shutil.copytree(tmp_path / "backup", tmp_path / "a")
    for _ in range(3):
        Alone(fed.daemon("a")).close()
    with fed.ledger("a") as site:
        assert [row[2] for row in site.paid()] == [2.0, 2.0]


def test_noise_never_makes_a_round_fail_so_that_it_would_be_drawn_again(tmp_path):
    """A neighbour at the edge of what letters may hold; noise above 0 would go beyond it."""
    method = {"name": "private_crc", "lr": 0.05, "clip": 1e6}
    budget = {"epsilon": 0.001, "delta": 1e-5}
    fed = federation(tmp_path, PAIR, method, rounds=3, privacy={"epsilon": 0.001}, budget=budget)
    for seed in range(4):
        daemon = fed._replace(folder=tmp_path / str(seed)).daemon("a", noise=(noise := Counted()))
        one = Alone(daemon)
        edge = jax.tree.map(
            lambda a: np.full_like(a, 1e15) if np.ndim(a) else np.asarray(a),
            next(iter(daemon.node.letters(daemon.memory, 0).values())),
        )
        head = {"ledger": f"0:{'0' * 64}"}
        content = daemon.format.encode(edge, Envelope("b", 0, 0), head)
        one.accept("b", signed(daemon, content, "b", (0, 0)))
        one.until(lambda: daemon.place.round > 0)  # noqa: B023
        assert noise.draws == 1
        assert not list(daemon.store.quarantine.letters())
        one.close()


def test_a_release_that_noise_would_make_too_large_for_a_letter_is_drawn_once(tmp_path):
    """Were it drawn until it fits, what leaves would tell of more than one draw."""
    fed = federation(tmp_path, PAIR, GOSSIP, rounds=2, **SPENDS)
    drawn = []

    def huge(kind, values, scale, *, off=False):
        drawn.append(kind)
        return np.asarray(values, float) + np.resize([3e15, -3e15, 1.0], np.shape(values))

    one = Alone(fed.daemon("a", noise=huge))
    assert len(drawn) == 1
    assert one.daemon.store.outbox.unsent("b")
    one.close()


@pytest.mark.parametrize("more", [[3e15], [3e15, -3e15, 1.0], [1e20, 1.0 - 1e20], [-1e300]])
def test_nor_is_one_whose_letter_is_computed_from_it(tmp_path, more):
    """`robust_nb` divides by counts with noise, and adds them up."""
    fed = federation(tmp_path, PAIR, {"name": "robust_nb"}, rounds=2, features=4, **SPENDS)
    drawn = []

    def huge(kind, values, scale, *, off=False):
        drawn.append(kind)
        return np.asarray(values, float) + np.resize(more, np.shape(values))

    one = Alone(fed.daemon("a", noise=huge))
    assert len(drawn) == 1
    letter = one.daemon.format.decode(parted(one.daemon.store.outbox.unsent("b")[0].body)[0])
    assert all(np.abs(part).max() <= 1e15 for part in jax.tree.leaves(letter))
    one.close()


def test_of_two_copies_of_a_state_one_draws_the_noise_of_a_round(tmp_path):
    budget = {"epsilon": 5.0, "delta": 1e-5}
    method = {"name": "private_crc", "lr": 0.05}
    fed = federation(tmp_path, PAIR, method, rounds=3, privacy={"epsilon": 5.0}, budget=budget)
    Alone(fed.daemon("a")).close()
    one, other = _copies(fed)
    with one.transaction():
        one.site.reach(1)
    with pytest.raises(Drawn, match="a copy of this state has drawn noise"), other.transaction():
        other.site.reach(1)
    assert other.site.drawn() == 1
    one.close()
    other.close()


def test_of_two_copies_of_a_state_one_releases(tmp_path):
    """Both were copied before the release, and are at it at the same moment."""
    fed = federation(tmp_path, PAIR, GOSSIP, rounds=2, **SPENDS)
    fed.daemon("a").store.close()
    one, other = _copies(fed)
    charge = {"mechanism": "laplace", "parameters": {}, "epsilon": 0.5, "data": "rows"}

    def released(store, meanwhile=lambda: None):
        with store.transaction():
            store.draws()
            store.ledger.charge(**charge, inside=True)
            meanwhile()

    with pytest.raises(Drawn):  # the other settles the one charge that both have found
        released(one, lambda: released(other))
    one.close()
    other.close()
    with pytest.raises(Drawn):  # its release is on its disk, and does not leave later either
        fed.daemon("a")
    fed._replace(folder=fed.folder / "copy").daemon("a").store.close()


def _copies(fed):
    """The file of a peer, opened in its place and in a copy, beside the same ledger."""
    copy = fed.folder / "copy"
    copy.mkdir()
    shutil.copytree(fed.folder / "a", copy / "a")
    (copy / "a.ledger").symlink_to(fed.folder / "a.ledger")
    return [fed._replace(folder=at).daemon("a").store for at in (fed.folder, copy)]


def test_a_copy_of_a_state_that_runs_is_refused(tmp_path):
    fed = federation(tmp_path, PAIR, GOSSIP, rounds=2, **SPENDS)
    fed.daemon("a").store.close()
    one, other = _copies(fed)
    with (
        no_copy(one.site),
        pytest.raises(BadFile, match="a copy of this state runs beside"),
        no_copy(other.site),
    ):
        pass
    with no_copy(other.site):
        pass
    assert not one.site.lock.exists()
    one.close()
    other.close()


def test_a_charter_that_was_paid_for_in_another_state_says_so(tmp_path):
    fed = federation(tmp_path, PAIR, GOSSIP, rounds=2, **SPENDS)
    daemons = [fed.daemon(n) for n in "ab"]
    assert all(run_all(*daemons))
    for daemon in daemons:
        daemon.store.close()
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(Overspent, match="released under this charter before, in another state"):
        run_all(fed.daemon("a"), seconds=10.0)


def test_a_method_that_cannot_run_is_not_paid_for(tmp_path):
    method = {"name": "private_crc", "rule": "data_size"}
    budget = {"epsilon": 5.0, "delta": 1e-5}
    fed = federation(tmp_path, PAIR, method, privacy={"epsilon": 5.0}, budget=budget)
    with pytest.raises(BadSetting, match="the rule needs the size of a node's rows"):
        run_all(fed.daemon("a"), seconds=10.0)
    with fed.ledger("a") as site:
        assert site.receipts() == 0


def test_a_peer_that_cannot_pay_says_so_and_sends_nothing(tmp_path):
    fed = federation(tmp_path, PAIR, GOSSIP, rounds=3, **SPENDS)
    a = fed.daemon("a")
    a.store.ledger.charge("laplace", {}, 1.5, data="another study")
    with pytest.raises(Overspent, match="cannot afford"):
        run_all(a, seconds=10.0)
    store = Store.look(tmp_path / "a")
    assert store.progress() is None
    assert not store.rows("SELECT * FROM outbox")
    store.close()


def exchanged(tmp_path, method, **terms):
    """Two peers of which one has a single row; the letters that they sent, and the row."""
    fed = federation(tmp_path, PAIR, method, rounds=2, **terms)
    table = fed.tables["b"]
    fed.tables["b"] = table._replace(frame=table.frame.iloc[:1], labels=table.labels[:1])
    daemons = {n: fed.daemon(n) for n in fed.charter.names}
    assert all(run_all(*daemons.values()))
    letters = {
        (name, row[0]): d.format.decode(parted(bytes(row[1]))[0]).message.value
        for name, d in daemons.items()
        for row in d.store.rows("SELECT round, body FROM outbox JOIN bodies USING (hash)")
    }
    return daemons["b"].plan, letters


def reconstructed(plan, letters):
    """What a can tell of the row of b, its only neighbour: the difference of two letters.

    b heard a's letter of round 0 and nothing else, so its letter of round 1 is that and its own
    update. Posteriors of the uniform start are 1/c, so the update of the row's class is
    (1 - 1/c) of its features.
    """
    update = np.asarray(letters["b", 1]) - np.asarray(letters["a", 0])
    classes = update.shape[0]
    guess = int(update[:, 0].argmax())
    return guess, update[guess] / (1 - 1 / classes)


def test_without_noise_a_neighbour_can_reconstruct_the_row_of_a_small_node(tmp_path):
    plan, letters = exchanged(tmp_path, {"name": "crc", "lr": 0.05})
    guess, features = reconstructed(plan, letters)
    assert guess == plan.y[0]
    model = model_of(plan)
    np.testing.assert_allclose(features, np.asarray(model.features(plan.x))[0], atol=1e-3)


def test_with_noise_what_it_reconstructs_is_noise(tmp_path):
    method = {"name": "private_crc", "lr": 0.05}
    plan, letters = exchanged(
        tmp_path, method, privacy={"epsilon": 1.0}, budget={"epsilon": 1.0, "delta": 1e-5}
    )
    _, features = reconstructed(plan, letters)
    true = np.asarray(model_of(plan).features(plan.x))[0]
    assert np.linalg.norm(features - true) > 5 * np.linalg.norm(true)


def test_a_node_with_fewer_rows_than_agreed_takes_no_part(tmp_path):
    fed = federation(
        tmp_path, PAIR, {"name": "crc", "lr": 0.05}, rounds=2,
        limits={"least_rows": 20},
    )  # fmt: skip
    table = fed.tables["b"]
    fed.tables["b"] = table._replace(frame=table.frame.iloc[:5], labels=table.labels[:5])
    with pytest.raises(BadData, match="needs more rows to take part"):
        fed.daemon("b")
