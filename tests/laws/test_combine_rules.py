"""Laws of combination rules, over every rule that is listed."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise import combine
from peerwise import topology as topologies
from peerwise.combine.apply import UNROLLED, Heard, network, one_node
from peerwise.core import Chart, Inbox, Mean, Slots
from peerwise.errors import BadSetting
from peerwise.names import entries

K = 5  # slots
seeds = st.integers(0, 2**32 - 1)


RULES = {name: getattr(combine, name)() for name in entries("rule")}
RULES |= {
    "equal, self included": combine.equal(include_self=True),
    "data_size, self excluded": combine.data_size(include_self=False),
    "trimmed_mean(0)": combine.trimmed_mean(0),
    "trimmed_mean(2)": combine.trimmed_mean(2),
}

# law -> rule -> why the rule need not obey it
NOT_A_MEAN = "it picks values coordinate by coordinate and gives no slot a weight"
EXEMPT = {
    "weights": {
        name: NOT_A_MEAN
        for name, rule in RULES.items()
        if isinstance(rule, Slots) and rule.weigh is None
    },
}


def under(law):
    """The rules that a law is about."""
    names = [name for name in RULES if name not in EXEMPT.get(law, {})]
    return pytest.mark.parametrize("name", names)


def test_exemptions_name_rules_and_give_reasons():
    for law, exempt in EXEMPT.items():
        assert exempt.keys() <= RULES.keys(), law
        assert all(exempt.values())


def test_every_exported_rule_is_built_by_its_defaults():
    assert combine.__all__ == list(entries("rule"))


def case(seed, heard=None):
    """Own value, own note and an inbox of K slots of which `heard` (or some) hold something."""
    rng = np.random.default_rng(seed)
    heard = rng.random(K) < 0.6 if heard is None else np.asarray(heard)
    shapes = {"matrix": (2, 3), "number": (), "vector": (4,)}
    own = {name: rng.normal(size=shape).astype("f") for name, shape in shapes.items()}
    value = {name: rng.normal(size=(K, *shape)).astype("f") for name, shape in shapes.items()}
    note = {"size": np.float32(rng.integers(1, 50)), "loss": np.float32(rng.exponential())}
    notes = {"size": rng.integers(1, 50, size=K).astype("f")}
    notes["loss"] = rng.exponential(size=K).astype("f")
    # link weights that sum to less than one, as Metropolis weights do
    weight = np.where(heard, rng.uniform(0.1, 0.9, size=K) / K, 0).astype("f")
    return own, note, Inbox(value, notes, weight, np.zeros(K, np.int32))


@cache
def compiled(name):
    return jax.jit(partial(one_node, RULES[name]))


def apply(name, own, note, inbox):
    return jax.tree.map(np.asarray, compiled(name)(own, note, inbox))


def leaves(tree):
    return jax.tree.leaves(jax.tree.map(np.asarray, tree))


def assert_same(a, b):
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def assert_close(a, b, tolerance=2e-6):
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * max(1, np.abs(y).max()))


# --- the laws


@under("empty")
@pytest.mark.parametrize("junk", [1e30, -np.inf, np.inf, np.nan])
@given(seed=seeds)
def test_an_empty_slot_has_no_say(name, junk, seed):
    own, note, inbox = case(seed)
    empty = inbox.weight == 0

    def spoil(a):
        return np.where(empty.reshape((K,) + (1,) * (a.ndim - 1)), np.float32(junk), a)

    dirty = inbox._replace(
        value=jax.tree.map(spoil, inbox.value),
        note=jax.tree.map(spoil, inbox.note),
        age=np.where(empty, -1, inbox.age),
    )
    assert_same(apply(name, own, note, dirty), apply(name, own, note, inbox))


@under("weights")
@given(seed=seeds)
def test_weights_sum_to_one_and_empty_slots_have_none(name, seed):
    """Values that are unit vectors show the weights: e_0 is the node's own, e_k slot k's."""
    _, note, inbox = case(seed)
    eye = np.eye(K + 1, dtype="f")
    weights = apply(name, eye[0], note, inbox._replace(value=eye[1:]))
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    assert (weights[1:][inbox.weight == 0] == 0).all()


@under("translation")
@given(seed=seeds)
def test_moving_every_value_moves_the_result_as_much(name, seed):
    """What "weights sum to one" means for a rule that has no weights too."""
    own, note, inbox = case(seed)
    moved = apply(
        name,
        jax.tree.map(lambda a: a + np.float32(3), own),
        note,
        inbox._replace(value=jax.tree.map(lambda a: a + np.float32(3), inbox.value)),
    )
    assert_close(moved, jax.tree.map(lambda a: a + 3, apply(name, own, note, inbox)))


@under("permutation")
@given(seed=seeds)
def test_the_order_of_slots_does_not_matter(name, seed):
    own, note, inbox = case(seed)
    order = np.random.default_rng(seed).permutation(K)
    shuffled = jax.tree.map(lambda a: a[order], inbox)
    assert_close(apply(name, own, note, shuffled), apply(name, own, note, inbox))


@under("consensus")
@given(seed=seeds)
def test_consensus_is_a_fixed_point(name, seed):
    own, note, inbox = case(seed)
    agreed = jax.tree.map(lambda a: np.broadcast_to(a, (K, *a.shape)), own)
    assert_close(apply(name, own, note, inbox._replace(value=agreed)), own)


@under("hull")
@given(seed=seeds)
def test_the_result_lies_between_what_was_heard_and_ones_own(name, seed):
    own, note, inbox = case(seed)
    heard = inbox.weight > 0
    got = apply(name, own, note, inbox)
    for new, mine, slots in zip(leaves(got), leaves(own), leaves(inbox.value), strict=True):
        known = np.concatenate([mine[None], slots[heard]])
        assert (new >= known.min(0) - 1e-5).all()
        assert (new <= known.max(0) + 1e-5).all()


@under("silence")
@given(seed=seeds)
def test_a_node_that_hears_nobody_keeps_its_own(name, seed):
    own, note, inbox = case(seed, heard=np.zeros(K, bool))
    assert_same(apply(name, own, note, inbox), own)


# --- what each rule is, in NumPy


def cfa_by_hand(share, heard):
    step = 1 / max(heard.sum(), 1)
    return 1 - step, step * share / max(share[heard].sum(), 1e-30)


def worst_by_hand(note, inbox, heard, alpha=0.3):
    losses = np.append(inbox.note["loss"][heard], note["loss"])
    at_risk = -np.sort(-losses)[int(np.ceil(alpha * losses.size)) - 1]
    return float(note["loss"] >= at_risk), (inbox.note["loss"] >= at_risk).astype("f")


def by_hand(name, own, note, inbox):
    """Own and slot weights as the rule's docstring says, for the leaf "vector"."""
    if name == "decdiff":
        way = by_hand("data_size, self excluded", own, note, inbox) - own["vector"]
        return own["vector"] + way / (np.linalg.norm(way) + 1)
    heard = inbox.weight > 0
    size = inbox.note["size"]
    w_own, w = {
        "alone": (1, 0 * size),
        "equal": (0, 1 + 0 * size),
        "equal, self included": (1, 1 + 0 * size),
        "cfa": cfa_by_hand(inbox.weight * size, heard),
        "data_size": (note["size"], inbox.weight * size),
        "data_size, self excluded": (0, inbox.weight * size),
        "barycenter": (note["size"], inbox.weight * size),  # of numbers known for sure
        "alpha_barycenter": (note["size"], inbox.weight * size),
        "full_barycenter": (note["size"], inbox.weight * size),
        "metropolis": (1 - inbox.weight.sum(), inbox.weight),
        "worst": worst_by_hand(note, inbox, heard),
    }[name]
    w = np.where(heard, w, 0)
    if w_own + w.sum() == 0:
        return own["vector"]
    return (w_own * own["vector"] + w @ inbox.value["vector"]) / (w_own + w.sum())


@under("weights")
@given(seed=seeds)
def test_a_mean_is_the_weighted_mean(name, seed):
    own, note, inbox = case(seed)
    assert_close(apply(name, own, note, inbox)["vector"], by_hand(name, own, note, inbox))


@pytest.mark.parametrize("trim", [None, 0, 1, 2])
@given(seed=seeds)
def test_slot_rules_as_numpy_has_them(trim, seed):
    own, note, inbox = case(seed)
    values = np.concatenate([inbox.value["vector"][inbox.weight > 0], own["vector"][None]])
    name = "median" if trim is None else "trimmed_mean" if trim == 1 else f"trimmed_mean({trim})"
    if trim is None:
        expected = np.median(values, 0)
    elif len(values) <= 2 * trim:
        expected = own["vector"]  # too few to trim
    else:
        expected = np.sort(values, 0)[trim : len(values) - trim].mean(0)
    assert_close(apply(name, own, note, inbox)["vector"], expected)


def test_one_liar_does_not_move_the_median_far():
    own, note, inbox = case(0, heard=np.ones(K, bool))
    lie = inbox._replace(value=jax.tree.map(np.copy, inbox.value))
    lie.value["vector"][2] = 1e12
    got = apply("median", own, note, lie)["vector"]
    honest = np.delete(inbox.value["vector"], 2, 0)
    assert (got <= np.maximum(honest.max(0), own["vector"])).all()


def test_a_negative_trim_is_refused():
    with pytest.raises(BadSetting, match="trim must be 0 or more, got -1"):
        combine.trimmed_mean(-1)


def test_rules_are_made_once():
    """The simulator knows programs by the functions in them."""
    for name in entries("rule"):
        assert getattr(combine, name)() is getattr(combine, name)()


# --- the three moves of a mean


def geometric():
    return Mean(
        combine.equal(True).weigh,
        Chart(partial(jax.tree.map, jnp.log), partial(jax.tree.map, jnp.exp)),
    )


def half_way():
    def step(own, mean):
        return jax.tree.map(lambda a, b: a + (b - a) / 2, own, mean)

    return Mean(combine.equal().weigh, step=step)


def push_sum():
    return Mean(lambda note, inbox: (jnp.ones_like(note["size"]) / 2, inbox.weight), total=True)


def variances():
    """GAA: the mean of means, and variances with squared weights (Jamoussi et al.)."""
    return Mean(combine.data_size().weigh, Chart(power={"mean": 1, "var": 2}))


def test_a_chart_is_where_the_mean_is_taken():
    own, note, inbox = case(1, heard=np.ones(K, bool))
    values = np.exp(inbox.value["vector"])
    got = one_node(geometric(), np.exp(own["vector"]), note, inbox._replace(value=values))
    everyone = np.concatenate([inbox.value["vector"], own["vector"][None]])
    assert_close(got, np.exp(everyone.mean(0)), 1e-5)


def test_a_step_goes_from_ones_own_to_the_mean():
    own, note, inbox = case(2, heard=np.ones(K, bool))
    got = one_node(half_way(), own, note, inbox)["vector"]
    assert_close(got, (own["vector"] + inbox.value["vector"].mean(0)) / 2)


def test_a_total_is_not_divided_and_silence_leaves_ones_own_share():
    own, note, inbox = case(3)
    got = one_node(push_sum(), own, note, inbox)["vector"]
    assert_close(got, own["vector"] / 2 + inbox.weight @ inbox.value["vector"])
    silent = inbox._replace(weight=np.zeros(K, "f"))
    assert_close(one_node(push_sum(), own, note, silent)["vector"], own["vector"] / 2)


def test_a_power_of_the_weights_holds_for_its_leaf():
    own, note, inbox = case(4, heard=np.ones(K, bool))
    mine = {"mean": own["vector"], "var": own["vector"] ** 2}
    theirs = {"mean": inbox.value["vector"], "var": inbox.value["vector"] ** 2}
    got = one_node(variances(), mine, note, inbox._replace(value=theirs))
    w = np.append(inbox.weight * inbox.note["size"], note["size"])
    w /= w.sum()
    everyone = np.concatenate([inbox.value["vector"], own["vector"][None]])
    assert_close(got["mean"], w @ everyone)
    assert_close(got["var"], w**2 @ everyone**2)


# --- a whole network at once is the same as node by node

MOVES = {"geometric": geometric(), "half way": half_way(), "push-sum": push_sum()}
KINDS = (
    "equal",
    "data_size",
    "metropolis",
    "median",
    "alpha_barycenter",
    "worst",
)  # of weights and of rules
ALL = {name: RULES[name] for name in KINDS} | MOVES
N = 6
every_rule = pytest.mark.parametrize("name", ALL)
few = settings(max_examples=8)


def values_of(rng, *shape):
    return {"matrix": rng.uniform(1, 2, (*shape, 2, 3)), "number": rng.uniform(1, 2, shape)}


def node_by_node(name, own, note, sent, notes, heard, server=False):
    """The definition, for every node in turn."""
    new = {}
    for bucket in heard:
        nodes = range(len(bucket.src)) if bucket.nodes is None else bucket.nodes
        for row, i in enumerate(nodes):
            where = bucket.src[row] if bucket.page is None else (bucket.page[row], bucket.src[row])
            letters = jax.tree.map(lambda a, w=where: a[w], (sent, notes))
            inbox = Inbox(*letters, bucket.weight[row], bucket.age[row])
            mine = jax.tree.map(lambda a, i=i: a[i], (own, note))
            new[int(i)] = at_node(name, server)(*mine, inbox)
    return jax.tree.map(lambda *a: np.stack(a), *(new[i] for i in sorted(new)))


@cache
def at_node(name, server):
    return jax.jit(partial(one_node, ALL[name], hears_itself=server))


@cache
def at_once(name, server=False):
    return jax.jit(partial(network, ALL[name], server=server))


def everything(seed, *, n=N, pages=()):
    rng = np.random.default_rng(seed)
    own, sent = values_of(rng, n), values_of(rng, *pages, n)
    note = {"size": rng.integers(1, 50, n).astype(float)}
    notes = {"size": rng.integers(1, 50, (*pages, n)).astype(float)}
    note["loss"], notes["loss"] = rng.exponential(size=n), rng.exponential(size=(*pages, n))
    return rng, own, note, sent, notes


def assert_network_agrees(name, args, server=False):
    own, note, sent, notes, heard = args
    with jax.enable_x64(True):
        once = at_once(name, server)(*args)
        if server:  # every node has the row of slots that all share
            n = len(own["number"])
            heard = (jax.tree.map(lambda a: np.tile(a, (n, 1)), heard[0]),)
        assert_close(once, node_by_node(name, own, note, sent, notes, heard, server), 1e-12)


@every_rule
@few
@given(seed=seeds)
def test_a_network_does_what_its_nodes_do(name, seed):
    rng, *state = everything(seed)
    src = np.stack([rng.permutation(N)[:4] for _ in range(N)])
    weight = rng.uniform(0.1, 0.2, (N, 4)) * (rng.random((N, 4)) < 0.7)
    heard = Heard(None, src, weight, np.zeros((N, 4), np.int32), None)
    assert_network_agrees(name, (*state, (heard,)))


@pytest.mark.some("metropolis", "worst")
@every_rule
@few
@given(seed=seeds)
def test_late_messages_come_from_their_own_page(name, seed):
    rng, *state = everything(seed, pages=(3,))
    src, page = rng.integers(N, size=(N, 4)), rng.integers(3, size=(N, 4))
    weight = rng.uniform(0.1, 0.2, (N, 4)) * (rng.random((N, 4)) < 0.7)
    heard = Heard(None, src, weight, page.astype(np.int32), page)
    assert_network_agrees(name, (*state, (heard,)))


@pytest.mark.some("metropolis", "median", "push-sum")
@every_rule
@few
@given(seed=seeds)
def test_a_server_does_what_each_node_would_with_all_messages(name, seed):
    rng, *state = everything(seed)
    arrives = rng.random((1, N)) < rng.choice([0, 0.7, 1])  # sometimes nobody is heard
    weight = np.where(arrives, 1 / N, 0)
    heard = Heard(None, np.arange(N)[None], weight, np.zeros((1, N), np.int32), None)
    assert_network_agrees(name, (*state, (heard,)), server=True)


@pytest.mark.some("median")
@pytest.mark.parametrize("name", ["data_size", "metropolis", "median"])
def test_nodes_of_very_different_degree_go_in_buckets(name):
    n = 100
    star = topologies.metropolis(topologies.star(n))
    assert len(star.table) > 1  # the hub by itself
    assert max(table.shape[-1] for _, table in star.table) > UNROLLED
    rng, *state = everything(0, n=n)
    heard = []
    for nodes, table in star.table:
        link = np.maximum(table[0], 0)
        there = (np.asarray(table[0]) >= 0) & (rng.random(link.shape) < 0.8)
        weight = np.where(there, np.asarray(star.links.weight)[0, link], 0)
        src = np.asarray(star.links.src)[0, link]
        heard.append(Heard(np.asarray(nodes), src, weight, np.zeros_like(src), None))
    assert_network_agrees(name, (*state, tuple(heard)))


@pytest.mark.some("metropolis", "worst")
@pytest.mark.parametrize("name", [n for n, rule in ALL.items() if isinstance(rule, Mean)])
def test_many_slots_in_a_loop_as_few_in_a_row(name):
    """More slots than are unrolled, all but a few empty, give what the few give."""
    rng, *state = everything(5)
    src = np.stack([rng.permutation(N)[:3] for _ in range(N)])
    weight = rng.uniform(0.1, 0.3, (N, 3))
    some = Heard(None, src, weight, np.zeros((N, 3), np.int32), None)
    spread = np.arange(3) * (UNROLLED // 2)

    def widen(a):
        wide = np.zeros((N, UNROLLED + 4), a.dtype)
        wide[:, spread] = a
        return wide

    many = Heard(None, widen(src), widen(weight), widen(some.age), None)
    with jax.enable_x64(True):
        run = at_once(name)
        assert_close(run(*state, (many,)), run(*state, (some,)), 1e-13)
