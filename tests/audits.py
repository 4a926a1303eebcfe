"""Membership audits of the code that real releases go through: `python tests/audits.py 20000`.

Two sets of rows differ in one row, the one that moves a release most. Each path is run many times
on both, with noise that no seed repeats, and what was released is reduced to the likelihood ratio,
the best that an adversary who knows everything else can do.
"""

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pandas as pd
from scipy.stats import beta, norm

from peerwise.core import State
from peerwise.data.loaders import Table
from peerwise.models.registry import model_for
from peerwise.peer.drafting import Known, draft
from peerwise.peer.plan import Plan
from peerwise.privacy import audit, gaussian_sigma, private_statistics, public_schema, vetted
from peerwise.privacy.design import Design
from peerwise.privacy.release import exact_coordinates
from peerwise.privacy.sealing import fresh_secret, public_key
from peerwise.privacy.sums import exact_update

COLUMNS = {"age": (0.0, 100.0), "dose": (0.0, 4.0), "sex": ("f", "m")}
CLASSES = ("no", "yes")
SCHEMA = public_schema(COLUMNS, CLASSES)
ROWS, DELTA, ROUNDS, CLIP = 30, 1e-6, 4, 1.0
THREE = nx.star_graph(["a", "b", "c"])
PAIR = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})


def frame_of(there: bool) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with the one in question, which lies at its bounds, or without."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, ROWS), "dose": rng.uniform(0, 4, ROWS)})
    frame["sex"] = np.where(rng.random(ROWS) < 0.5, "f", "m")
    labels = np.where(rng.random(ROWS) < 0.5, *CLASSES).astype(object)
    frame.loc[0], labels[0] = [100.0, 4.0, "f"], "yes"
    return (frame, labels) if there else (frame[1:].reset_index(drop=True), labels[1:])


def ratio(kind: str, released: np.ndarray, without: np.ndarray, moved: np.ndarray, scale: Any):
    """log p(released | with the row) - log p(released | without it), of each of the releases."""
    apart, step = (released - without) / scale, moved / scale
    if kind == "laplace":
        terms = np.abs(apart) - np.abs(apart - step)
    else:
        terms = (apart**2 - (apart - step) ** 2) / 2
    return terms.sum(tuple(range(1, terms.ndim)))


def gaussian_bound(
    with_it: np.ndarray, without: np.ndarray, confidence: float, delta: float
) -> float:
    """A lower bound on epsilon from likelihood ratios of releases whose noise is Gaussian.

    The law is known, and with it the best test: a ratio above 0. Its two errors, bounded from above
    (Clopper and Pearson), say how many deviations the releases are apart at least (mu), and mu is
    an epsilon at delta (Dong, Roth and Su, 2022; Nasr et al., 2023). It shows more than `audit`,
    which believes nothing of the law, and needs events that are rare. Any other statistic in place
    of the ratios gives a bound that is true, too.
    """
    miss = (1 - confidence) / 2
    errors = []
    for wrong in (without > 0, with_it <= 0):
        falls, n = int(wrong.sum()), len(wrong)
        errors.append(1.0 if falls == n else float(beta.ppf(1 - miss, falls + 1, n - falls)))
    mu = -float(norm.ppf(errors).sum())
    low, high = 0.0, 1e3
    if not mu > 0 or gaussian_sigma(1.0, 1e-9, delta) * mu <= 1:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_sigma(1.0, middle, delta) * mu > 1 else (low, middle)
    return low


class NoLedger:
    """Takes every charge: an audit is about noise."""

    accountant, above = "basic", None

    def check_schema(self, schema: str) -> None:
        """Any will do."""

    def charge(self, *args: Any, **options: Any) -> int:
        """Nothing is written down."""
        return 1


class Again:
    """The noise of real releases, drawn many times about the same values.

    Up to its noise a release is the same whenever it is made of the same rows (a test looks), so
    that many releases are one with much noise.
    """

    def __init__(self, trials: int):
        self.trials, self.drawn = trials, None
        self.kind, self.scale = "", np.zeros(())

    def __call__(self, kind: str, values: np.ndarray, scale: Any, *, off: bool = False):
        """The first of the noisy values; the others are kept."""
        shape = (self.trials, *np.shape(values))
        scale = np.broadcast_to(np.asarray(scale, float), np.shape(values))
        noisy = vetted(kind, np.broadcast_to(values, shape), np.broadcast_to(scale, shape), off=off)
        if noisy.size:
            assert self.drawn is None, "a release draws noise once"
            self.drawn, self.kind, self.scale = noisy, kind, scale
        return noisy[0]


class Ahead:
    """The noise of real releases, drawn for many rounds at once and handed out one by one."""

    def __init__(self, rounds: int):
        self._rounds, self._drawn = rounds, iter(())

    def __call__(self, kind: str, values: np.ndarray, scale: Any, *, off: bool = False):
        """Values with the next noise."""
        if (noise := next(self._drawn, None)) is None:
            self._drawn = iter(vetted(kind, np.zeros((self._rounds, *values.shape)), scale))
            noise = next(self._drawn)
        return values + noise


def _statistics(noise: Again) -> np.ndarray:
    """Likelihood ratios of releases of naive Bayes statistics, by the law that was drawn from."""
    design = Design(model_for(SCHEMA), -np.ones(2), np.ones(2))
    codes = {"f": 0, "m": 1}
    sums = []
    for each in (True, False):
        frame, labels = frame_of(each)
        x = np.stack([frame["age"] / 50 - 1, frame["dose"] / 2 - 1, frame["sex"].map(codes)], 1)
        y = np.array([CLASSES.index(label) for label in labels])
        sums.append(exact_coordinates(design, x.astype(float), y)[0])
    assert noise.drawn is not None
    return ratio(noise.kind, noise.drawn, sums[1], sums[0] - sums[1], noise.scale[None])


def through_private_statistics(kind: str, split: str, epsilon: float, there: bool, trials: int):
    """`privacy.private_statistics`, as a site calls it."""
    frame, labels = frame_of(there)
    noise = Again(trials)
    private_statistics(
        frame, labels, SCHEMA, epsilon=epsilon, bounds=COLUMNS, mechanism=kind, split=split,
        delta=DELTA if kind == "gaussian" else 0.0, noise=noise,
    )  # fmt: skip
    return _statistics(noise)


def plan_of(
    method: Any, epsilon: float, there: bool, noise: Any = vetted, graph: nx.Graph = PAIR,
    name: str = "a", mechanism: str = "best",
) -> Plan:  # fmt: skip
    """What a peer runs, with rows of its own."""
    frame, labels = frame_of(there)
    table = Table("rows", frame, labels, "ill")
    known = Known({c: b for c, b in COLUMNS.items() if c != "sex"}, {"sex": ("f", "m")}, CLASSES)
    privacy = {"epsilon": epsilon, "mechanism": mechanism}
    charter = draft(
        table, graph,
        {"method": method, "privacy": privacy, "run": {"rounds": ROUNDS}},
        name="audit", addresses={"a": "127.0.0.1:7400"}, known=known, limits={"rows": 1000},
        budget={"epsilon": epsilon, "delta": DELTA},
    )  # fmt: skip
    return Plan(charter, name, table, noise=noise)


def through_a_peer(mechanism: str, epsilon: float, there: bool, trials: int) -> np.ndarray:
    """The release of a peer that begins, from its charter and file."""
    noise = Again(trials)
    plan = plan_of("gossip_nb", epsilon, there, noise, mechanism=mechanism)
    plan.begin(0, None, NoLedger())
    return _statistics(noise)


def through_private_crc(epsilon: float, there: bool, trials: int) -> np.ndarray:
    """All rounds of private CRC at a peer whose neighbour says nothing: noised updates."""
    method = {"name": "private_crc", "clip": CLIP}
    noise = Ahead(ROUNDS * min(trials, 1000))
    plans = {each: plan_of(method, epsilon, each, noise) for each in (True, False)}
    plan = plans[there]
    start = plan.node(0).begin().state
    worlds = {
        each: p.learning.assembled(p.learning.world(p.x, p.y)).shards.of(0)
        for each, p in plans.items()
    }
    model = plan.learning.model(plan.learning.world(plan.x, plan.y))
    adapt, std = plan._noised(model), plan._multiplier() * CLIP
    theta, phi = jax.jit(model.theta), _features(model)
    rows = {e: (phi(np.asarray(w.x)), np.asarray(w.y)) for e, w in worlds.items()}
    found = np.zeros(trials)
    for t in range(trials):
        state = State(start.value, start.memory)
        for r in range(ROUNDS):
            weight = np.asarray(theta(state.value).weight, float)
            with_it, without = (
                exact_update(lambda own: own, *rows[e], weight, CLIP) for e in (True, False)
            )
            after = adapt(state, worlds[there], r)
            told = np.asarray(after.value, float) - np.asarray(state.value, float)
            found[t] += ratio("gaussian", told[None], without, with_it - without, std)[0]
            state = after
    return found


def _features(model: Any) -> Any:
    def features(x: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(model.features(jnp.asarray(x, jnp.float64)))

    return features


def through_a_sealed_sum(epsilon: float, there: bool, trials: int) -> np.ndarray:
    """One of three peers records all: it knows its own term and the rows of c, and reads the sum.

    What hides the row of b is the noise of b and c together: one of three may collude.
    """
    secrets = {name: fresh_secret() for name in THREE}
    keys = {name: public_key(secret).hex() for name, secret in secrets.items()}
    seals, shards = {}, {}
    for name in THREE:
        plan = plan_of("sealed_nb", epsilon, there or name != "b", graph=THREE, name=name)
        plan.seal_with(None, secrets[name])
        node = plan.node(plan.phases - 1, {"keys": keys})
        seals[name], start = node._adapt, node.begin().state
        shards[name] = node._shard
    sealed = seals["a"]._sealed
    exact = [_exact(sealed, plan_of("sealed_nb", epsilon, each)) for each in (True, False)]
    sums, found = start.value["sums"], np.empty(trials)
    scale = sealed.grid.std * np.sqrt(sealed.grid.honest)
    for t in range(trials):
        terms = {name: one.term(start, shards[name]) for name, one in seals.items()}
        now = {**sums, "high_made": np.int32(t)}  # each release is of a round of its own
        heard = [one.masked(terms[name], now) for name, one in seals.items()]
        known = np.sum(heard, axis=0, dtype=np.uint64) - terms["a"]
        others = known.view(np.int64) - exact[0]  # c has all the rows
        found[t] = ratio("gaussian", others[None], exact[1], exact[0] - exact[1], scale)[0]
    return found


def _exact(sealed: Any, plan: Plan) -> np.ndarray:
    return sealed.exact(None, *plan.charter.rows(plan._table, exact=True)).astype(np.int64)


# name -> claimed epsilon, delta, sampler(there, trials)
PATHS: dict[str, tuple[float, float, Any]] = {
    "private_statistics, Laplace, even": (
        1.0, 0.0, partial(through_private_statistics, "laplace", "even", 1.0)),
    "private_statistics, Laplace, optimal": (
        1.0, 0.0, partial(through_private_statistics, "laplace", "optimal", 1.0)),
    "private_statistics, Gaussian, even": (
        1.0, DELTA, partial(through_private_statistics, "gaussian", "even", 1.0)),
    "a peer's release (gossip_nb)": (  # of these few questions Laplace noise is less
        1.0, 0.0, partial(through_a_peer, "best", 1.0)),
    "a peer's release (gossip_nb), Gaussian": (
        1.0, DELTA, partial(through_a_peer, "gaussian", 1.0)),
    "a sealed sum of three peers, of which one records": (
        4.0, DELTA, partial(through_a_sealed_sum, 4.0)),
    f"private CRC at a peer, {ROUNDS} rounds": (2.0, DELTA, partial(through_private_crc, 2.0)),
}  # fmt: skip


def audited(name: str, trials: int, confidence: float = 0.99) -> float:
    """The lower bound on epsilon that so many releases on each side show."""
    _, delta, sampler = PATHS[name]
    return audit(sampler, True, False, trials, confidence, delta)


def apart(name: str, trials: int) -> tuple[float, float]:
    """How far the mean ratios with and without the row are apart, as shares of the most.

    First of what the claim allows: randomised response's, with a delta the Gaussian mechanism's
    (Laplace's may come to more). An audit that looks at nothing gives 0. Then in deviations of the
    ratios, which shows noise that is smaller than it says; for Gaussian noise alone, else 0.
    """
    epsilon, delta, sampler = PATHS[name]
    with_it, without = sampler(True, trials), sampler(False, trials)
    far = float(with_it.mean() - without.mean())
    if not delta:
        return far / (epsilon * np.tanh(epsilon / 2)), 0.0
    most = 1 / gaussian_sigma(1.0, epsilon, delta)
    deviation = float(np.sqrt((with_it.var() + without.var()) / 2))
    return far / most**2, far / deviation / most


if __name__ == "__main__":
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    chosen = [name for name in PATHS if not sys.argv[2:] or sys.argv[2] in name]
    print(f"| path | claimed epsilon | delta | lower bound, {trials:,} releases a side |")
    print("|---|--:|--:|--:|")
    for name in chosen:
        epsilon, delta, _ = PATHS[name]
        print(f"| {name} | {epsilon:g} | {delta:g} | {audited(name, trials):.2f} |", flush=True)
