"""The convergence claims of the CVaR-CTA paper (equations 13 and 14) along runs of a convex model.

Equation 13 bounds how far nodes are apart, not how far they are from the optimum. With D the
stacked differences of the nodes from their mean, A the matrix of a round (rows sum to 1), r the
norm of A on differences and C the norm of all nodes' gradients, stacked,

    |D'|^2 <= 2 r^2 |D|^2 + 2 eta^2 C^2.

It needs no convexity, and A may be any matrix of means: every round of every run keeps to it. But

* it contracts only for r < 1 / sqrt(2). A line of 5 has r = .85 and a ring of 20 has r = .967, so
  that in the networks of the paper what follows of it grows without end, also without loss: it soon
  says less than that nodes which never talk are at most n eta C apart. Of rings only those of up to
  6 nodes are below. The printed "linear decay" follows of |D'| <= r |D| + eta C instead, of which
  equation 13 is the weakened square: it contracts for every r < 1.
* r <= 1, which the paper assumes, does not follow of rows that sum to 1. At p = .3 most rounds have
  r > 1, up to 1.19 for equal weights and 1.55 where the worst are chosen (CVaR-CVaR), which on a
  line has r > 1 also without loss. What contracts is the mean square: links fail independently of
  all else, so that the root mean square of |D| shrinks by s < 1, the root of the largest eigenvalue
  of E[A' P A], where P takes off the mean.

Equation 14 bounds the distance of the mean model from the optimum. As printed it needs columns that
sum to 1 as well, or else combining moves the mean: a line with equal weights ends at the optimum of
other weights (a node counts by its degree plus one) and breaks the equation, and so does loss.
Three of its terms carry eta where the derivation has its square, and the last a 1 / K that does not
belong there; for eta < 1 / K it is only weaker for that. Here it is checked as printed, and with
these corrected and from the mean after combining, where it always holds.

Runs take one full gradient a round (H = 1, and no variance sigma); with H local steps C would have
to bound the sum of their gradients.
"""

from functools import cache
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from peerwise import runtime
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.methods.diffusion import average_cvar, cta, cvar_cvar
from peerwise.nets import mlp, network_of
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.topology import mixing_matrix, spectral_gap

N, ROWS, FEATURES, CLASSES = 5, 24, 3, 3
ROUNDS, SEEDS = 2000, tuple(range(8))
FEWER = 1000  # of the risk-aware: only equation 14, which is about CTA, is about where runs end
ALPHA, LR, LR_T, DECAY = 0.4, 0.01, 0.005, 0.2  # decay makes the optimum one and finite
NET = network_of(mlp(FEATURES, CLASSES, hidden=()), FEATURES, CLASSES)
STEP = {"lr": LR, "epochs": 1, "steps": None, "batch": ROWS, "weight_decay": DECAY}
METHODS = {
    "cta": cta(NET, **STEP),
    "average": average_cvar(NET, alpha=ALPHA, lr_t=LR_T, **STEP),
    "worst": cvar_cvar(NET, alpha=ALPHA, lr_t=LR_T, **STEP),
}
GRAPHS = {"line": topologies.chain(N), "ring": topologies.ring(N)}
CENTRE = np.eye(N) - 1 / N  # takes off the mean of the nodes
every_graph = pytest.mark.parametrize("graph", GRAPHS)
every_q = pytest.mark.parametrize("q", [1.0, 0.3])


def rows():
    """Rows sorted by label, as the paper has them: neighbours pull in different directions."""
    y = np.arange(N * ROWS) * CLASSES // (N * ROWS)
    x = 0.5 * np.random.default_rng(0).normal(size=(y.size, FEATURES))
    x[:, 0] += y - 1
    return x, y


X, Y = rows()
SHARDS = pack(X, Y, np.split(np.arange(len(Y)), N))


class Seen(NamedTuple):
    """All rounds of some runs: weights [runs, rounds, n, p], thresholds with p = 1."""

    before: np.ndarray
    heard: np.ndarray  # after combining
    after: np.ndarray
    t: "Seen | None"
    mixing: np.ndarray  # [runs, rounds, n, n] the matrix of each round


def look(method, state):
    value = state.value if isinstance(state.value, dict) else {"net": state.value}
    net = jnp.concatenate([a.reshape(N, -1) for a in jax.tree.leaves(value["net"])], 1)
    return {"net": net, "t": value.get("t", jnp.zeros(N))[:, None], "loss": state.memory["loss"]}


ALL = topologies.complete(N)(jax.random.key(0), 0)


@jax.jit
def _came(channel, seed):
    key = jax.random.fold_in(jax.random.key(seed), runtime.CHANNEL)
    return jax.lax.map(lambda t: channel(key, t, ALL).weight > 0, jnp.arange(ROUNDS))


@cache
def arrivals(graph, q):
    """Who hears whom [runs, rounds, n, n], oneself included; the luck is that of the runs."""
    came = np.stack([np.asarray(_came(erasure(q), seed)) for seed in SEEDS])
    heard = np.zeros((*came.shape[:2], N, N), bool)
    heard[..., np.asarray(ALL.dst), np.asarray(ALL.src)] = came
    return heard & (mixing_matrix(GRAPHS[graph]) > 0) | np.eye(N, dtype=bool)


def chosen(heard, loss):
    """Of those heard, the ceil(alpha x heard) with the largest losses [runs, rounds, n]."""
    losses = np.where(heard, loss[:, :, None, :], -np.inf)
    least = np.ceil(ALPHA * heard.sum(-1) - 1e-4).astype(int) - 1
    at_risk = np.take_along_axis(-np.sort(-losses), least[..., None], -1)
    return losses >= at_risk


@cache
def both_graphs(method, q):
    """Runs on the two graphs side by side: one program a method."""
    graphs = [graph for graph in GRAPHS.values() for _ in SEEDS]
    rounds = ROUNDS if method == "cta" else FEWER
    run = simulate(
        METHODS[method],
        SHARDS,
        graphs,
        rounds,
        seed=list(SEEDS) * len(GRAPHS),
        channel=erasure(q),
        probe=look,
        at=range(1, rounds + 1),
        stages=("combine", "adapt"),
        precision="float64",
    )
    return jax.tree.map(np.asarray, run.history)


@cache
def seen(method, graph, q):
    first = list(GRAPHS).index(graph) * len(SEEDS)
    history = jax.tree.map(lambda a: a[first : first + len(SEEDS)], both_graphs(method, q))
    heard, after = history["combine"], history["adapt"]
    # all begin alike, so that the first combination changes nothing
    before = {k: np.concatenate([heard[k][:, :1], after[k][:, :-1]], 1) for k in heard}
    who = arrivals(graph, q)[:, : after["net"].shape[1]]
    if method == "worst":
        before["loss"][:, 0] = 0  # nobody has trained yet
        who = chosen(who, before["loss"])
    mixing = who / who.sum(-1, keepdims=True)
    t = Seen(before["t"], heard["t"], after["t"], None, mixing)
    return Seen(before["net"], heard["net"], after["net"], t, mixing)


def apart(values):
    """The norm of differences from the mean of the nodes [runs, rounds]."""
    return np.sqrt(((values - values.mean(2, keepdims=True)) ** 2).sum((2, 3)))


def gradients(run, lr):
    """The norm of all nodes' gradients [runs, rounds], as measured: what a step moved by lr."""
    return np.sqrt((((run.heard - run.after) / lr) ** 2).sum((2, 3)))


def on_differences(mixing):
    """r of each matrix: how much it may lengthen differences."""
    return np.linalg.norm(CENTRE @ mixing, 2, (-2, -1))


def r_of(graph):
    matrix = mixing_matrix(graph, include_self=True)
    return float(np.linalg.norm((np.eye(graph.n) - 1 / graph.n) @ matrix, 2))


def in_mean_square(graph, q):
    """s: the root of the largest eigenvalue of E[A' P A], exactly; nodes hear independently."""
    near = mixing_matrix(graph) > 0
    n = graph.n
    mean, second = np.zeros((n, n)), np.zeros((n, n, n))
    for i in range(n):
        neighbours = np.flatnonzero(near[i])
        for came in product((0, 1), repeat=neighbours.size):
            row = np.eye(n)[i]
            row[neighbours] = came
            row /= row.sum()
            chance = np.prod([q if c else 1 - q for c in came])
            mean[i] += chance * row
            second[i] += chance * np.outer(row, row)
    centre = np.eye(n) - 1 / n
    spread = second - mean[:, :, None] * mean[:, None, :]
    expected = mean.T @ centre @ mean + np.tensordot(np.diag(centre), spread, 1)
    return float(np.sqrt(np.linalg.eigvalsh(expected)[-1]))


def equation_13(run, r):
    """The two sides, for every run and round."""
    left, right = apart(run.after) ** 2, 2 * LR**2 * gradients(run, LR) ** 2
    distance = apart(run.before) ** 2
    if run.t is not None:
        left = left + apart(run.t.after) ** 2
        distance = distance + apart(run.t.before) ** 2
        right = right + 2 * LR_T**2 * gradients(run.t, LR_T) ** 2
    return left, 2 * r**2 * distance + right


# --- how well networks mix


def test_where_equation_13_is_vacuous():
    """Below r = 1/sqrt(2) it contracts: small rings; the paper's line and ring are above."""
    papers = {"line of 5": topologies.chain(5), "ring of 20": topologies.ring(20)}
    small = {"ring of 5": topologies.ring(5), "ring of 6": topologies.ring(6)}
    found = {}
    for name, graph in {**papers, **small}.items():
        found[name] = [r_of(graph), *(in_mean_square(graph, q) for q in (1.0, 0.7, 0.3))]
        print(f"{name:11} r {found[name][0]:.3f}; in mean square at q = 1, .7, .3:", end=" ")
        print(*(f"{s:.3f}" for s in found[name][1:]))
        np.testing.assert_allclose(found[name][1], found[name][0], rtol=1e-12)
        assert found[name][1] < found[name][2] < found[name][3] < 1
        assert (found[name][0] < np.sqrt(0.5)) == (name in small)
    lossless, lossy = ([values[i] for values in found.values()] for i in (0, 3))
    np.testing.assert_allclose(lossless, [0.850, 0.967, 0.539, 0.667], atol=1e-3)
    np.testing.assert_allclose(lossy, [0.961, 0.992, 0.875, 0.910], atol=1e-3)
    # a matrix of a line is not symmetric: its norm is more than its second eigenvalue
    assert r_of(papers["line of 5"]) > 1 - spectral_gap(papers["line of 5"]) + 0.01


@pytest.mark.full  # of figures beside the bound, which the tests below hold
@every_graph
def test_with_loss_or_choice_single_rounds_take_nodes_further_apart(graph):
    """The paper's r <= 1 fails in most rounds at p = .3, for CVaR-CVaR on a line also without."""
    for method, q in product(("cta", "worst"), (1.0, 0.3)):
        r = on_differences(seen(method, graph, q).mixing)
        above = (r > 1 + 1e-9).mean()
        print(f"{graph} {method:5} q={q}: r up to {r.max():.3f}, above 1 in {above:.2f} of rounds")
        if q < 1:
            assert r.max() > 1.15
            assert above > 0.5
        elif method == "cta":
            np.testing.assert_allclose(r, r_of(GRAPHS[graph]), rtol=1e-12)
        else:
            assert r.max() > r_of(GRAPHS[graph]) + 0.2
            assert (above > 0.5) == (graph == "line")


# --- equation 13


@pytest.mark.some("cta-line-0.3")
@every_q
@every_graph
@pytest.mark.parametrize("method", METHODS)
def test_equation_13_holds_in_every_round(method, graph, q):
    """With each round's own r and gradients; it is met within a factor and not with half of r."""
    run = seen(method, graph, q)
    np.testing.assert_allclose(run.mixing @ run.before, run.heard, rtol=0, atol=1e-12)
    r = on_differences(run.mixing)
    left, right = equation_13(run, r)
    assert (left <= right * (1 + 1e-9)).all()
    print(f"{method} {graph} q={q}: sides within a factor {(right / left).min():.2f}")
    assert (left / right).max() > 0.4
    left, right = equation_13(run, r / 2)
    assert (left > right).any()


def test_the_r_of_a_network_without_loss_does_not_hold_with_loss():
    """On a ring, in some rounds at p = .3: the test above can fail."""
    left, right = equation_13(seen("cta", "ring", 0.3), r_of(GRAPHS["ring"]))
    assert (left > 1.3 * right).mean() > 0.1


@pytest.mark.full
@every_q
@every_graph
def test_round_after_round_equation_13_says_nothing_but_on_a_small_ring(graph, q):
    """Compounded with the largest r and C of the runs: beside n eta C, of nodes that never talk.

    On a ring of 5 without loss it ends at 2 eta^2 C^2 / (1 - 2 r^2), which is not far off.
    """
    run, rounds = seen("cta", graph, q), 100
    r, step = on_differences(run.mixing).max(), LR * gradients(run, LR).max()
    bound = np.zeros(rounds + 1)
    for n in range(rounds):
        bound[n + 1] = 2 * r**2 * bound[n] + 2 * step**2
    bound, found = np.sqrt(bound[1:]), apart(run.after)[:, :rounds]
    assert (found <= bound).all()
    never_talk = step * np.arange(1, rounds + 1)
    if (graph, q) == ("ring", 1.0):
        np.testing.assert_allclose(bound[-1], step * np.sqrt(2 / (1 - 2 * r**2)), rtol=1e-9)
        assert bound[-1] < 2 * found.max()
        assert bound[-1] < never_talk[2]
    else:
        vacuous = 2 + np.flatnonzero(bound <= never_talk).max(initial=-1)
        print(f"{graph} q={q}: vacuous from round {vacuous} on; {bound[-1]:.1e} after 100 rounds")
        assert vacuous < 20
        assert bound[-1] > 1000 * found.max()


@pytest.mark.long("average-line-1.0", "average-line-0.3", "average-ring-1.0", "average-ring-0.3")
@every_q
@every_graph
@pytest.mark.parametrize("method", ["cta", "average"])
def test_in_mean_square_nodes_stay_together_on_every_network(method, graph, q):
    """The corrected statement: root mean squares obey |D'| <= s |D| + eta C, for every s < 1.

    Over runs, with s of the network and not of a run, and C of the differences of the gradients
    (their mean moves all alike); where gradients settle it ends at eta C / (1 - s). A few runs are
    not all runs, which is what the 5 % are for.
    """
    run = seen(method, graph, q)
    s = in_mean_square(GRAPHS[graph], q)
    for part, lr in ((run, LR), (run.t, LR_T))[: 1 + (method == "average")]:
        found = np.sqrt((apart(part.after) ** 2).mean(0))
        steps = apart(part.heard - part.after).max(0)
        bound = np.zeros(len(steps) + 1)
        for n, step in enumerate(steps):
            bound[n + 1] = s * bound[n] + step
        assert (found <= bound[1:] * 1.05).all()
        ratio = bound[-1] / found[-100:].mean()
        print(f"{method} {graph} q={q}: bound over measured at the end {ratio:.2f}")
        assert ratio < 6
        np.testing.assert_allclose(bound[-1], steps[-1] / (1 - s), rtol=0.05)
        assert bound[-1] < lr * gradients(part, lr).max() * 30  # nodes that never talk: x rounds


# --- equation 14


def loss(weights, x, y):
    """Mean cross-entropy with decay of flat weights, and its gradient."""
    matrix, bias = weights[: CLASSES * FEATURES].reshape(CLASSES, FEATURES), weights[-CLASSES:]
    logits = x @ matrix.T + bias
    logits -= logits.max(1, keepdims=True)
    log_prob = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    wrong = (np.exp(log_prob) - np.eye(CLASSES)[y]) / len(y)
    slope = np.concatenate([(wrong.T @ x).ravel(), wrong.sum(0)]) + DECAY * weights
    return -log_prob[np.arange(len(y)), y].mean() + DECAY / 2 * weights @ weights, slope


def of_nodes(share):
    """The network's loss where node i counts by share[i], its least value and where that is."""
    return _of_nodes(tuple(share))


@cache
def _of_nodes(share):
    def network(weights):
        each = [loss(weights, *part) for part in zip(np.split(X, N), np.split(Y, N), strict=True)]
        return sum(s * f for s, (f, _) in zip(share, each, strict=True)), sum(
            s * g for s, (_, g) in zip(share, each, strict=True)
        )

    best = minimize(network, np.zeros(NET.size), jac=True, tol=1e-14, options={"maxiter": 1000})
    assert np.linalg.norm(network(best.x)[1]) < 1e-7
    return network, best.fun, best.x


def smoothness():
    """L: half the largest eigenvalue of a node's mean of x x' (bias included), and the decay."""
    wide = np.column_stack([X, np.ones(len(X))])
    return max(np.linalg.norm(part, 2) ** 2 / ROWS / 2 for part in np.split(wide, N)) + DECAY


def equation_14(run, share, seed=0, printed=False):
    """The two sides for every round of one run, in the mean by `share`.

    Printed: eta for its square, 1 / K, and the mean before combining for the one after.
    """
    network, least, best = of_nodes(share)
    mean = np.einsum("i,tip->tp", share, (run.before if printed else run.heard)[seed])
    after = np.einsum("i,tip->tp", share, run.after[seed])
    gap = np.array([network(w)[0] - least for w in mean])
    off = np.einsum("i,ti->t", share, ((run.heard[seed] - mean[:, None]) ** 2).sum(-1))
    L, square, K = smoothness(), LR if printed else LR**2, N if printed else 1
    right = ((mean - best) ** 2).sum(1) - 2 * LR * gap + 4 / K * square * L * gap
    right += (LR * L + 2 * square * L**2) * off
    return ((after - best) ** 2).sum(1), right


EVEN = np.full(N, 1 / N)


def degrees(graph):
    """What equal weights with self make of the nodes: shares by degree plus one."""
    share = (mixing_matrix(graph) > 0).sum(1) + 1.0
    return share / share.sum()


def test_a_step_is_the_gradient_that_the_bound_is_about():
    """What the library stepped by is the plain gradient, at the combined weights."""
    run = seen("cta", "line", 0.3)
    for t, i in ((0, 0), (5, 1), (-1, 4)):
        _, slope = loss(run.heard[2, t, i], np.split(X, N)[i], np.split(Y, N)[i])
        stepped = (run.heard[2, t, i] - run.after[2, t, i]) / LR
        np.testing.assert_allclose(stepped, slope, rtol=0, atol=1e-10)


@pytest.mark.full
def test_equation_14_as_printed_holds_on_a_ring_and_breaks_on_a_line_and_with_loss():
    """A ring's columns sum to 1. On a line and with loss combining moves the mean of the nodes."""
    assert smoothness() < N / 2  # or its last term would eat up the gain, and it would say nothing
    left, right = equation_14(seen("cta", "ring", 1.0), EVEN, printed=True)
    assert (left <= right).all()
    for graph, q in (("line", 1.0), ("line", 0.3), ("ring", 0.3)):
        left, right = equation_14(seen("cta", graph, q), EVEN, printed=True)
        print(f"{graph} q={q}: equation 14 as printed breaks in {(left > right).mean():.2f}")
        assert (left > right + 1e-9).any()


@pytest.mark.some("line-0.3")
@every_q
@every_graph
def test_equation_14_corrected_holds_and_is_no_platitude(graph, q):
    """From the mean after combining, with squares of eta: in every round of every run.

    It says that a step gains while the nodes are far from the optimum; twice the gain breaks it.
    """
    run = seen("cta", graph, q)
    network, least, best = of_nodes(EVEN)
    for seed in (0, 1) if q < 1 else (0,):
        left, right = equation_14(run, EVEN, seed)
        assert (left <= right + 1e-12).all()
        mean = run.heard[seed].mean(1)
        gain = 2 * LR * np.array([network(w)[0] - least for w in mean])
        print(f"{graph} q={q}: slack over gain {((right - left) / gain).min():.2f}")
        assert (left > right - gain).any()
        assert (right < ((mean - best) ** 2).sum(1))[:20].all()


def test_a_line_learns_the_optimum_of_shares_by_degree():
    """In those shares combining leaves the mean where it is, and equation 14 holds as meant."""
    line = GRAPHS["line"]
    share = degrees(line)
    np.testing.assert_allclose(share @ mixing_matrix(line, include_self=True), share, rtol=1e-12)
    run = seen("cta", "line", 1.0)
    np.testing.assert_allclose(
        np.einsum("i,tip->tp", share, run.heard[0]), np.einsum("i,tip->tp", share, run.before[0]),
        rtol=0, atol=1e-12,
    )  # fmt: skip
    left, right = equation_14(run, share)
    assert (left <= right + 1e-12).all()
    end = run.after[0, -1]
    own, even = (np.linalg.norm(s @ end - of_nodes(s)[2]) for s in (share, EVEN))
    print(f"from the optimum by degree {own:.4f}, of equal shares {even:.4f}")
    assert own < even / 2
