"""The simulator: compiled once, resumable, replicated, robust to broken messages, counted."""

import logging
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import combine, metrics
from peerwise import topology as topologies
from peerwise.channel import delay, erasure
from peerwise.core import Inbox, Mean, Message, Method, Slots, State
from peerwise.errors import BadFile, BadSetting, UnknownName
from peerwise.methods import crc
from peerwise.models import naive_bayes
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

pytestmark = pytest.mark.bits

N = 5
MODEL = naive_bayes((0, 0), 2)
OURS = crc(MODEL, m0=60.0)
TREE = topologies.random_tree(N, seed=0)


def rows(seed=0, m=20):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=m)
    return rng.normal(y[:, None] - 0.5, 1, (m, 2)), y


def shards(seed=0, sizes=(4,) * N):
    x, y = rows(seed, sum(sizes))
    return pack(x, y, np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))


DATA = shards()


def look(method, state):
    return state.value


def listener(rule, value=lambda key, shard: shard.x[0]):
    """A method whose nodes start from their first row and only combine."""

    def init(key, shard):
        return State(value(key, shard), {})

    def message(key, state):
        return Message(state.value, {})

    return Method(init, message, rule, lambda key, state, shard: state, None)


TALK = listener(combine.equal())


def leaves(run):
    return [np.asarray(a) for a in jax.tree.leaves((run.state, run.history))]


def assert_same_run(a, b):
    assert (a.rounds, a.recorded) == (b.rounds, b.recorded)
    np.testing.assert_array_equal(a.messages, b.messages)
    assert a.message_bytes == b.message_bytes
    assert a.history.keys() == b.history.keys()
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


# --- compiled once


def compilations(caplog, run):
    """How many programs were compiled while something ran."""
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        run()
    return sum("Compiling" in message for message in caplog.messages)


def test_a_second_run_of_the_same_shapes_compiles_nothing(caplog):
    """Another seed, data set, graph, loss rate, number of rounds and choice of recorded rounds."""
    same = [t for t in range(20) if topologies.random_tree(N, seed=t).slots == TREE.slots]
    other = topologies.random_tree(N, seed=same[1])
    assert not np.array_equal(other.links.src, TREE.links.src)
    method = crc(MODEL, m0=61.0)  # met for the first time

    def first():
        probe = metrics.errors("test", *rows(1, 30))
        simulate(method, DATA, TREE, 4, channel=erasure(0.9), probe=probe, at=[2, 4])

    def second():
        probe = metrics.errors("test", *rows(2, 30))
        options = {"channel": erasure(0.5), "probe": probe, "at": [1, 9], "seed": 3}
        simulate(crc(MODEL, m0=61.0), shards(7), other, 9, **options)

    assert compilations(caplog, first) > 0
    assert compilations(caplog, second) == 0


def test_a_method_is_traced_once_however_many_rounds_and_chunks():
    traced = []

    def adapt(key, state, shard):
        traced.append("adapt")
        return state

    def see(method, state):
        traced.append("probe")
        return state.value

    method = TALK._replace(adapt=adapt)
    simulate(method, DATA, TREE, 6, probe=see, chunk=2)
    assert traced.count("adapt") == 1
    before = len(traced)
    simulate(method, DATA, TREE, 9, probe=see, chunk=1, seed=1)
    assert traced[before:] == []


# --- recording


def test_history_is_what_the_probe_saw_after_each_chosen_round():
    run = simulate(OURS, DATA, TREE, 5, probe=look, at=[4, 1, 4, 3], stages=("adapt", "combine"))
    assert run.recorded == (1, 3, 4)
    for stage in ("combine", "adapt"):
        assert run.history[stage].shape == (3, N, 2, MODEL.size)
    for row, t in enumerate(run.recorded):
        short = simulate(OURS, DATA, TREE, t)
        np.testing.assert_array_equal(run.history["adapt"][row], short.state.value)
    # before the first round all nodes were alike, so after hearing it they still are
    start = np.asarray(MODEL.uniform(60.0, np.float32))
    np.testing.assert_allclose(run.history["combine"][0], np.tile(start, (N, 1, 1)), rtol=1e-6)


def test_by_default_the_last_round_is_recorded_after_adapt():
    run = simulate(TALK, DATA, TREE, 3, probe=look)
    assert run.recorded == (3,)
    assert list(run.history) == ["adapt"]
    np.testing.assert_array_equal(run.history["adapt"][0], run.state.value)


def test_no_rounds_are_the_start():
    for run in (simulate, walk):
        done = run(OURS, DATA, TREE, 0)
        assert (done.rounds, done.recorded, done.messages) == (0, (), 0)
        assert done.message_bytes == 4 * (2 * MODEL.size + 1)  # statistics and the number of rows
        start = np.asarray(MODEL.uniform(60.0, np.float32))
        np.testing.assert_array_equal(done.state.value, np.tile(start, (N, 1, 1)))


def test_no_recorded_rounds_are_no_records():
    run = simulate(TALK, DATA, TREE, 2, probe=look, at=[])
    assert run.recorded == ()
    assert run.history["adapt"].shape[0] == 0


@pytest.mark.parametrize("runtime", [simulate, walk])
def test_a_probe_sees_the_data_in_the_precision_of_the_run(runtime):
    """Rows given in single precision are scored in double, as a run in double precision asks."""
    x, y = rows(3, 40)
    x = x.astype(np.float32)
    alike = [metrics.errors("t", x.astype(kind), y) for kind in (np.float32, np.float64)]
    options = {"probe": metrics.together(*alike[:1]), "precision": "float64"}
    single = runtime(OURS, DATA, TREE, 1, **options)
    double = runtime(OURS, DATA, TREE, 1, **{**options, "probe": metrics.together(*alike[1:])})
    got, expected = (np.asarray(run.history["adapt"]["t_soft_error"]) for run in (single, double))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-7)


# --- precision


def heard_by(own, inbox):
    """A number that says exactly which slots were heard."""
    bit = 2.0 ** jnp.arange(inbox.weight.shape[0])
    return jnp.where(inbox.weight > 0, bit.astype(own.dtype), 0).sum()[None] + 0 * own[:1]


def test_draws_do_not_change_with_precision_but_with_the_seed():
    method = listener(Slots(heard_by), lambda key, shard: shard.x[0, :1])
    options = {"channel": erasure(0.5), "probe": look, "at": range(1, 13)}

    def heard(precision, seed):
        options.update(precision=precision, seed=seed)
        run = simulate(method, DATA, topologies.complete(N), 12, **options)
        return np.asarray(run.history["adapt"])

    single, double, other = heard("float32", 4), heard("float64", 4), heard("float32", 5)
    assert double.dtype == np.float64
    np.testing.assert_array_equal(single, double)
    assert not np.array_equal(single, other)
    assert len(np.unique(single)) > 5


def test_precision_leaves_the_global_mode_as_it_was():
    before = jax.config.jax_enable_x64
    run = simulate(TALK, DATA, TREE, 1, precision="float64")
    assert run.state.value.dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    assert jnp.ones(1).dtype == np.float32


# --- interrupted and resumed

LOSSY = {"channel": erasure(0.7), "seed": 2}
PROBED = {"probe": look, "at": (1, 3, 6), "stages": ("combine", "adapt")}
WAYS = {
    "lossy": (OURS, LOSSY | PROBED),
    "late": (OURS, PROBED | {"channel": delay(2)}),
    "exact": (OURS, LOSSY | PROBED | {"exact": True}),
    "double": (OURS, LOSSY | PROBED | {"precision": "float64"}),
}


@cache
def uninterrupted(way="lossy"):
    method, options = WAYS[way]
    return simulate(method, DATA, TREE, 6, **options)


@pytest.mark.some("exact", "lossy")
@pytest.mark.parametrize("way", WAYS)
def test_interrupted_and_resumed_is_as_uninterrupted(way):
    method, options = WAYS[way]
    for k in range(7):
        part = simulate(method, DATA, TREE, 6, until=k, **options)
        assert (part.rounds, part.messages) == (k, k * 2 * (N - 1))
        assert part.recorded == tuple(t for t in (1, 3, 6) if t <= k)
        assert all(len(seen) == len(part.recorded) for seen in part.history.values())
        assert_same_run(simulate(method, DATA, TREE, 6, resume=part, **options), uninterrupted(way))


def test_chunks_and_progress_change_nothing():
    method, options = WAYS["lossy"]
    told = []
    run = simulate(method, DATA, TREE, 6, chunk=4, progress=told.append, **options)
    assert told == [4, 6]
    assert_same_run(run, uninterrupted())


@pytest.mark.parametrize("way", ["lossy", "late"])
def test_a_crash_between_chunks_is_resumed_from_the_file(way, tmp_path):
    method, options = WAYS[way]
    file = tmp_path / "deep" / "run.safetensors"

    def crash(done):
        if done == 4:
            raise KeyboardInterrupt

    run = partial(simulate, method, DATA, TREE, 6, checkpoint=file, chunk=2, **options)
    with pytest.raises(KeyboardInterrupt):
        run(progress=crash)
    told = []
    assert_same_run(run(progress=told.append), uninterrupted(way))
    assert told == [6]  # the first four rounds were not done again
    assert_same_run(run(progress=told.append), uninterrupted(way))
    assert told == [6]  # a finished run is only read
    assert [p.name for p in file.parent.iterdir()] == ["run.safetensors"]


def test_half_a_draft_does_not_hide_the_checkpoint(tmp_path):
    method, options = WAYS["lossy"]
    file = tmp_path / "run"
    simulate(method, DATA, TREE, 6, until=3, checkpoint=file, **options)
    (tmp_path / "run.part").write_bytes(b"half of the next")
    run = simulate(method, DATA, TREE, 6, checkpoint=file, **options)
    assert_same_run(run, uninterrupted())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    method, options = WAYS["lossy"]
    file = tmp_path_factory.mktemp("saved") / "run"
    simulate(method, DATA, TREE, 6, until=3, checkpoint=file, **options)
    return file.read_bytes()


@pytest.mark.parametrize("length", [0, 4, 60, -1, -500])
def test_a_truncated_checkpoint_is_refused(saved, length, tmp_path):
    method, options = WAYS["lossy"]
    (tmp_path / "run").write_bytes(saved[:length])
    with pytest.raises(BadFile, match="not a saved run or is damaged"):
        simulate(method, DATA, TREE, 6, checkpoint=tmp_path / "run", **options)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "run").write_text("[settings]\nrounds = 3\n" * 20)
    with pytest.raises(BadFile, match="not a saved run or is damaged"):
        simulate(OURS, DATA, TREE, 6, checkpoint=tmp_path / "run")


OTHERS = {
    "seed": {"seed": 3},
    "recorded rounds": {"at": (1, 4, 6)},
    "number of recorded rounds": {"at": (1, 6)},
    "stages": {"stages": "adapt"},
    "precision": {"precision": "float64"},
    "exactness": {"exact": True},
    "channel": {"channel": erasure(0.6)},
    "late channel": {"channel": delay(1)},
    "rows": {"shards": shards(1)},
    "sizes": {"shards": shards(0, (3, 5, 4, 4, 4))},
    "graph": {"topology": topologies.chain(N)},
    "step": {"method": crc(MODEL, m0=61.0)},
    "iterations": {"method": crc(MODEL, m0=60.0, iterations=2)},
    "model": {"method": crc(naive_bayes((0, 0), 2, missing=True), m0=60.0)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_another_run_is_refused(saved, what, tmp_path):
    (tmp_path / "run").write_bytes(saved)
    method, options = WAYS["lossy"]
    given = {"method": method, "shards": DATA, "topology": TREE, **options, **OTHERS[what]}
    with pytest.raises(BadFile, match="another run"):
        simulate(rounds=6, checkpoint=tmp_path / "run", **given)


def test_the_same_run_built_anew_finds_its_checkpoint(saved, tmp_path):
    """Equal arguments, none of them the same objects."""
    (tmp_path / "run").write_bytes(saved)
    again = crc(naive_bayes([0, 0], 2), m0=60.0)
    options = {**LOSSY, **PROBED, "channel": erasure(0.7)}
    tree = topologies.random_tree(N, seed=0)
    run = simulate(again, shards(), tree, 6, checkpoint=tmp_path / "run", **options)
    assert_same_run(run, uninterrupted())


@pytest.mark.parametrize(
    "other",
    [{"at": (2, 3, 6)}, {"precision": "float64"}, {"stages": "adapt"}, {"channel": delay(1)}],
    ids=["recorded rounds", "precision", "stages", "channel"],
)
def test_resuming_another_run_is_refused(other):
    method, options = WAYS["lossy"]
    part = simulate(method, DATA, TREE, 6, until=2, **options)
    with pytest.raises(BadSetting, match="another"):
        simulate(method, DATA, TREE, 6, resume=part, **{**options, **other})


def test_a_walk_cannot_be_resumed_by_the_simulator():
    with pytest.raises(BadSetting, match="another"):
        simulate(OURS, DATA, TREE, 3, resume=walk(OURS, DATA, TREE, 1))


def test_fewer_rounds_than_were_done_are_refused(tmp_path):
    run = partial(simulate, OURS, DATA, TREE, checkpoint=tmp_path / "run", probe=look, at=(1,))
    run(rounds=4)
    with pytest.raises(BadSetting, match="4 rounds already"):
        run(rounds=3)


# --- replicas


def single_and_replicated(many, **shared):
    """Runs one by one, and the same runs as replicas of one run."""
    base = {"method": OURS, "shards": DATA, "topology": TREE, "rounds": 3, **shared}
    count = len(next(iter(many.values())))
    singles = [simulate(**{**base, **{k: v[i] for k, v in many.items()}}) for i in range(count)]
    return singles, simulate(**{**base, **many})


@pytest.mark.some("probes")
@pytest.mark.parametrize(
    "many",
    [
        {"seed": [0, 2]},
        {"topology": [TREE, topologies.star(N)]},
        {
            "shards": [shards(s, (6, 1, 5, 1, 5)) for s in (0, 1)],
            "topology": [TREE, topologies.random_tree(N, seed=1)],
            "probe": [metrics.errors("t", *rows(s, 30)) for s in (5, 6)],
        },
    ],
    ids=["seeds", "graphs", "rows, graphs and probes"],
)
def test_replicas_are_as_single_runs(many):
    shared = {"at": [1, 3]}
    shared |= {} if "probe" in many else {"probe": look}
    shared |= {"channel": erasure(0.7)} if "seed" in many else {}
    singles, together = single_and_replicated(many, **shared)
    assert together.recorded == (1, 3)
    for i, one in enumerate(singles):
        mine = jax.tree.map(lambda a, i=i: a[i], (together.state, together.history))
        for x, y in zip(jax.tree.leaves(mine), leaves(one), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5)
        assert together.message_bytes == one.message_bytes
    assert not np.array_equal(*np.asarray(together.state.value))  # replicas, not copies


def test_replicas_are_resumed_like_any_run():
    options = {"seed": [0, 2], "channel": erasure(0.7), "probe": look, "at": [1, 3]}
    run = partial(simulate, OURS, DATA, TREE, 3, **options)
    part = run(until=2)
    assert part.history["adapt"].shape[:2] == (2, 1)
    assert_same_run(run(resume=part), run())


@pytest.mark.parametrize(
    ("many", "says"),
    [
        ({"seed": [0, 1], "shards": [DATA] * 3}, "one length"),
        ({"seed": []}, "one length"),
        ({"shards": [shards(0), shards(0, (3, 5, 4, 4, 4))]}, "shards differ"),
        ({"shards": [shards(0), shards(0, (9, 1, 1, 1, 1))]}, "shards differ"),
        (
            {"probe": [metrics.errors("t", *rows(0, m)) for m in (10, 11)]},
            "probe differ",
        ),
        ({"topology": [TREE, topologies.random_tree(N + 1)]}, "make them the same"),
        ({"topology": [TREE, topologies.metropolis(TREE)]}, "weights"),
    ],
)
def test_replicas_that_do_not_fit_are_refused(many, says):
    base = {"method": OURS, "shards": DATA, "topology": TREE, "rounds": 2}
    with pytest.raises(BadSetting, match=says):
        simulate(**{**base, **many})


# --- broken messages


@pytest.mark.parametrize("runtime", [simulate, walk])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_message_that_is_not_finite_counts_as_unheard(runtime, poison):
    """Node 1 of a chain says something broken: node 0 hears nobody, node 2 hears only node 3."""
    x = np.arange(2.0 * N).reshape(N, 2)
    x[1, 0] = poison
    each = pack(x, np.zeros(N), np.arange(N)[:, None])
    run = runtime(TALK, each, topologies.chain(N), 1)
    got = np.asarray(run.state.value)
    np.testing.assert_array_equal(got[0], x[0])
    np.testing.assert_array_equal(got[2], x[3])
    np.testing.assert_array_equal(got[1], (x[0] + x[2]) / 2)  # and the broken node is healed
    np.testing.assert_array_equal(got[3], (x[2] + x[4]) / 2)


def test_a_broken_note_silences_its_message_too():
    def message(key, state):
        size = jnp.where(state.value[0] == 2, jnp.nan, 1.0)
        return Message(state.value, {"size": size})

    method = listener(combine.data_size())._replace(message=message)
    x = np.arange(2.0 * N).reshape(N, 2)  # node 1 holds (2, 3)
    each = pack(x, np.zeros(N), np.arange(N)[:, None])
    got = np.asarray(simulate(method, each, topologies.chain(N), 1).state.value)
    np.testing.assert_array_equal(got[0], x[0])
    np.testing.assert_allclose(got[2], (x[2] + x[3]) / 2, rtol=1e-6)


def test_a_broken_node_does_not_spread_over_the_network():
    """It stays broken on its own rows; all others go on without it, to the last bit."""
    x, y = rows()
    broken = x.copy()
    broken[0] = np.nan  # a row of node 0, in a model that knows no missing values
    parts = np.split(np.arange(20), N)
    star = topologies.star(N)  # node 0 is the hub
    run = simulate(crc(MODEL, m0=60.0, include_self=True), pack(broken, y, parts), star, 8)
    value = np.asarray(run.state.value)
    assert np.isnan(value[0]).any()
    assert np.isfinite(value[1:]).all()
    alone = simulate(
        crc(MODEL, m0=60.0, include_self=True), pack(x, y, parts), star, 8, channel=erasure(0.0)
    )
    # the hub was fine in the first message only, which was everybody's start
    np.testing.assert_allclose(value[1:], np.asarray(alone.state.value)[1:], rtol=1e-5)


def test_on_a_server_a_broken_message_is_left_out_of_the_total():
    x = np.arange(2.0 * N).reshape(N, 2)
    x[1, 0] = np.nan
    each = pack(x, np.zeros(N), np.arange(N)[:, None])
    got = np.asarray(simulate(TALK, each, topologies.server(N), 1)[0][0])
    np.testing.assert_allclose(got, np.tile(np.delete(x, 1, 0).mean(0), (N, 1)), rtol=1e-6)


def test_lost_metropolis_weight_returns_to_the_node():
    graph = topologies.metropolis(topologies.chain(N))
    method = listener(combine.metropolis())
    x = np.arange(2.0 * N).reshape(N, 2)
    each = pack(x, np.zeros(N), np.arange(N)[:, None])
    silent = simulate(method, each, graph, 3, channel=erasure(0.0))
    np.testing.assert_array_equal(silent.state.value, x.astype(np.float32))


def test_metropolis_weights_are_doubly_stochastic_where_nothing_is_lost():
    graph, method = topologies.metropolis(topologies.star(N)), listener(combine.metropolis())
    each = pack(np.eye(N), np.zeros(N), np.arange(N)[:, None])  # so a node's value is its weights
    whole, lossy = (
        np.asarray(simulate(method, each, graph, 1, seed=1, channel=erasure(q)).state.value)
        for q in (1.0, 0.5)
    )
    np.testing.assert_allclose([whole.sum(0), whole.sum(1)], np.ones((2, N)), rtol=1e-6)
    np.testing.assert_allclose(lossy.sum(1), 1, rtol=1e-6)
    assert np.abs(lossy.sum(0) - 1).max() > 0.1  # a message may arrive on one way of an edge only


# --- late messages


def test_a_late_message_is_the_one_sent_then():
    """On two nodes that copy each other, with delay 1: round t hears what was sent at t - 1."""
    two = pack(np.array([[1.0], [2.0]]), np.zeros(2), [[0], [1]])

    def adapt(key, state, shard):
        return State(state.value * 10, state.memory)

    run = simulate(
        TALK._replace(adapt=adapt),
        two,
        topologies.chain(2),
        3,
        channel=delay(1),
        probe=look,
        at=[1, 2, 3],
    )
    got = np.asarray(run.history["adapt"])[..., 0]
    # round 1: nothing heard, own * 10; round 2: hears the first messages, 2 and 1; and so on
    assert got.tolist() == [[10, 20], [20, 10], [200, 100]]


def test_the_age_of_a_message_reaches_the_rule():
    def weigh(note, inbox: Inbox):
        return jnp.zeros_like(inbox.weight[0]), (inbox.age == 2).astype(inbox.weight.dtype)

    method = listener(Mean(weigh))
    x = np.arange(2.0 * N).reshape(N, 2)
    each = pack(x, np.zeros(N), np.arange(N)[:, None])
    chain = topologies.chain(N)
    late = simulate(method, each, chain, 3, channel=delay(2)).state.value
    prompt = simulate(method, each, chain, 3).state.value
    np.testing.assert_array_equal(prompt, x.astype(np.float32))  # too fresh to count
    np.testing.assert_array_equal(late[0], x[1].astype(np.float32))


# --- counted


@pytest.mark.parametrize("runtime", [simulate, walk])
@pytest.mark.parametrize(
    ("graph", "each_round"),
    [
        (TREE, 2 * (N - 1)),
        (topologies.server(N), 2 * N),
        (topologies.complete(N), N * (N - 1)),
        (topologies.alone(N), 0),
    ],
    ids=["tree", "server", "complete", "alone"],
)
def test_messages_and_their_bytes_are_counted(runtime, graph, each_round):
    run = runtime(TALK, DATA, graph, 3)
    assert run.messages == 3 * each_round
    assert run.message_bytes == 2 * 4  # two numbers in single precision


def test_a_redrawn_graph_counts_the_links_of_each_round():
    graphs = [topologies.erdos_renyi(N, p=0.5, seed=s) for s in range(40)]
    counts = [g.links_per_round(0) for g in graphs]
    assert len(set(counts)) > 1
    draw = partial(topologies.erdos_renyi, N, p=0.5)
    graph = topologies.redrawn(draw, every=2, rounds=6)
    run = simulate(TALK, DATA, graph, 6)
    assert run.messages == sum(graph.links_per_round(t) for t in range(6))


def test_double_precision_doubles_the_bytes():
    one, two = (simulate(TALK, DATA, TREE, 1, precision=p) for p in ("float32", "float64"))
    assert two.message_bytes == 2 * one.message_bytes


# --- refused


@pytest.mark.parametrize("runtime", [simulate, walk])
@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"rounds": -1}, BadSetting, "rounds must be 0 or more, got -1"),
        ({"topology": topologies.chain(4)}, BadSetting, "4 nodes and the data 5 shards"),
        ({"stages": "adopt"}, UnknownName, "did you mean 'adapt'"),
        ({"stages": ("adapt", "hear")}, UnknownName, "stage 'hear'"),
        ({"at": [4]}, BadSetting, r"lie in 1..3, got 4"),
        ({"at": [0]}, BadSetting, r"lie in 1..3, got 0"),
        ({"at": [1], "rounds": 0}, BadSetting, r"got 1"),
        ({"precision": "float16"}, UnknownName, "precision 'float16'"),
        (
            {"method": crc(MODEL, m0=60.0, rule="metropolis")},
            BadSetting,
            r"needs links with metropolis weights, and these are equal",
        ),
    ],
)
def test_what_cannot_run_is_refused(runtime, wrong, error, says):
    given = {"method": OURS, "shards": DATA, "topology": TREE, "rounds": 3, "probe": look}
    with pytest.raises(error, match=says):
        runtime(**{**given, **wrong})


def test_slot_rules_are_refused_on_a_server():
    method = OURS._replace(combine=combine.median())
    with pytest.raises(BadSetting, match="twice on a server"):
        simulate(method, DATA, topologies.server(N), 1)
