"""Every rule of combination against NumPy: of one node, from its definition."""

from functools import cache, partial

import jax
import numpy as np
import pytest
from scipy.linalg import sqrtm

from independent.cases import random_cases
from peerwise.combine.apply import one_node
from peerwise.combine.full import FullGaussian
from peerwise.core import Gaussian, Inbox
from peerwise.declare import build, canonical
from peerwise.names import entries

K, D = 5, 3  # slots, numbers


def vectors(rng, shape):
    return {"a": rng.normal(size=(*shape, D)), "b": rng.normal(size=(*shape, 2, 2))}


def posteriors(rng, shape):
    return {"p": Gaussian(rng.normal(size=(*shape, D)), rng.normal(-1, 0.7, size=(*shape, D)))}


def full_posteriors(rng, shape):
    factor = rng.normal(size=(*shape, D, D + 2))
    cov = factor @ factor.swapaxes(-1, -2) / D
    return {"p": FullGaussian(rng.normal(size=(*shape, D)), cov)}


def case(rng, draw):
    """A node's value, its notes and what it heard; some slots are empty."""
    heard = rng.random(K) < 0.7
    weight = np.where(heard, rng.uniform(0.1, 0.9, K) / K, 0)
    notes = {"size": rng.integers(1, 50, K).astype(float), "loss": rng.exponential(size=K)}
    own = {"size": np.float64(rng.integers(1, 50)), "loss": np.float64(rng.exponential())}
    return draw(rng, ()), own, Inbox(draw(rng, (K,)), notes, weight, np.zeros(K, np.int32))


# --- weights: [own, slots...], which need not sum to one


def equal(own, inbox, include_self=False):
    return np.append(float(include_self), inbox.weight > 0)


def data_size(own, inbox, include_self=True):
    return np.append(own["size"] * include_self, inbox.weight * inbox.note["size"])


def metropolis(own, inbox):
    return np.append(1 - inbox.weight.sum(), inbox.weight)


def alone(own, inbox):
    return np.append(1.0, np.zeros(K))


def cfa(own, inbox, epsilon=None):
    share = inbox.weight * inbox.note["size"]
    if not share.any():
        return alone(own, inbox)
    step = 1 / (inbox.weight > 0).sum() if epsilon is None else epsilon
    return np.append(1 - step, step * share / share.sum())


def worst(own, inbox, alpha=0.3, quantile="count"):
    heard = np.append(True, inbox.weight > 0)
    losses = np.append(own["loss"], inbox.note["loss"])
    among = losses[heard]
    if quantile == "count":
        at_risk = np.sort(among)[-int(np.ceil(alpha * len(among) - 1e-9))]
    else:
        at_risk = np.quantile(among, 1 - alpha, method=quantile) - 1e-12
    return (heard & (losses >= at_risk)).astype(float)


# --- what becomes of the values [own, slots...] under shares that sum to one


def mean(shares, values):
    return np.tensordot(shares, values, 1)


def plain(weigh):
    def rule(own, note, inbox):
        w = weigh(note, inbox)
        if not w.any():
            return own
        return jax.tree.map(lambda a, b: mean(w / w.sum(), np.concatenate([a[None], b])), own,
                            inbox.value)  # fmt: skip

    return rule


def decdiff(s, norm):
    def rule(own, note, inbox):
        centre = plain(partial(data_size, include_self=False))(own, note, inbox)
        apart = {k: centre[k] - own[k] for k in own}
        whole = np.sqrt(sum((a**2).sum() for a in apart.values()))
        lengths = {
            k: whole if norm == "global" else np.sqrt((a**2).sum()) for k, a in apart.items()
        }
        return {k: own[k] + apart[k] / (lengths[k] + s) for k in own}

    return rule


def coordinates(of):
    """A rule of the values heard, own among them, number by number."""

    def rule(own, note, inbox):
        heard = inbox.weight > 0
        return {k: of(np.concatenate([own[k][None], inbox.value[k][heard]])) for k in own}

    return rule


def trimmed(values):
    rising = np.sort(values, 0)
    return rising[1:-1].mean(0) if len(values) > 2 else values[0]


def merged(of, weigh=data_size):
    """A rule of Gaussian posteriors: of(shares, means, (log-)variances or covariances)."""

    def rule(own, note, inbox):
        w = weigh(note, inbox)
        keep = w > 0
        both = [
            np.concatenate([a[None], b]) for a, b in zip(own["p"], inbox.value["p"], strict=True)
        ]
        shares = w[keep] / w.sum()
        return {"p": type(own["p"])(*of(shares, both[0][keep], both[1][keep]))}

    return rule


def rkl(w, m, logs):
    precision = mean(w, np.exp(-logs))
    return mean(w, np.exp(-logs) * m) / precision, -np.log(precision)


def mixture(w, m, logs):
    centre = mean(w, m)
    return centre, np.log(mean(w, np.exp(logs) + (m - centre) ** 2))


BARYCENTERS = {
    "rkl": rkl,
    "kl": mixture,
    "w2": lambda w, m, logs: (mean(w, m), 2 * np.log(mean(w, np.exp(logs / 2)))),
    "eaa": lambda w, m, logs: (mean(w, m), np.log(mean(w, np.exp(logs)))),
    "gaa": lambda w, m, logs: (mean(w, m), np.log(mean(w**2, np.exp(logs)))),
    "gaa_normalised": lambda w, m, logs: (
        mean(w, m), np.log(mean(w**2, np.exp(logs)) / (w**2).sum()),
    ),
    "aalv": lambda w, m, logs: (mean(w, m), mean(w, logs)),
}  # fmt: skip


def alpha_half(w, m, logs):
    """The moments of (sum of w sqrt(p))^2, by a sum over a fine grid."""
    x = np.linspace(-15, 15, 60_001)[:, None, None]
    p = np.exp(-0.5 * (logs[None] + (x - m[None]) ** 2 / np.exp(logs[None])))
    density = np.einsum("k,xkd->xd", w, np.sqrt(p)) ** 2
    density /= density.sum(0)
    centre = (density * x[:, 0]).sum(0)
    return centre, np.log((density * (x[:, 0] - centre) ** 2).sum(0))


def full_rkl(w, m, cov):
    inverse = np.linalg.inv(cov)
    precision = mean(w, inverse)
    shift = mean(w, np.einsum("kij,kj->ki", inverse, m))
    return np.linalg.solve(precision, shift), np.linalg.inv(precision)


def full_kl(w, m, cov):
    centre = mean(w, m)
    return centre, mean(w, cov + np.einsum("ki,kj->kij", m - centre, m - centre))


def full_w2(w, m, cov):
    """The fixed point of S = sum of w (S^1/2 C S^1/2)^1/2."""
    S = mean(w, cov)
    for _ in range(100):
        root = np.real(sqrtm(S))
        T = sum(share * np.real(sqrtm(root @ c @ root)) for share, c in zip(w, cov, strict=True))
        inverse = np.linalg.inv(root)
        S = inverse @ T @ T @ inverse
    return mean(w, m), S


# description -> how values look, and the reference
RULES = {
    "alone": ("alone", {}, vectors, plain(alone)),
    "equal": ("equal", {}, vectors, plain(equal)),
    "equal, self": (
        "equal", {"include_self": True}, vectors, plain(partial(equal, include_self=True)),
    ),
    "data_size": ("data_size", {}, vectors, plain(data_size)),
    "metropolis": ("metropolis", {}, vectors, plain(metropolis)),
    "cfa": ("cfa", {}, vectors, plain(cfa)),
    "cfa .3": ("cfa", {"epsilon": 0.3}, vectors, plain(partial(cfa, epsilon=0.3))),
    "decdiff": ("decdiff", {}, vectors, decdiff(1.0, "tensor")),
    "decdiff, global": (
        "decdiff", {"s": 2.0, "norm": "global"}, vectors, decdiff(2.0, "global"),
    ),
    "median": ("median", {}, vectors, coordinates(lambda v: np.median(v, 0))),
    "trimmed_mean": ("trimmed_mean", {}, vectors, coordinates(trimmed)),
    **{
        f"worst, {q}": (
            "worst", {"alpha": 0.4, "quantile": q}, vectors,
            plain(partial(worst, alpha=0.4, quantile=q)),
        )
        for q in ("count", "lower", "linear", "higher")
    },
    **{
        f"barycenter, {name}": ("barycenter", {"divergence": name}, posteriors, merged(of))
        for name, of in BARYCENTERS.items()
    },
    "alpha_barycenter": ("alpha_barycenter", {}, posteriors, merged(alpha_half)),
    "full_barycenter, rkl": ("full_barycenter", {}, full_posteriors, merged(full_rkl)),
    "full_barycenter, kl": (
        "full_barycenter", {"divergence": "kl"}, full_posteriors, merged(full_kl),
    ),
    "full_barycenter, w2": (
        "full_barycenter", {"divergence": "w2"}, full_posteriors, merged(full_w2),
    ),
}  # fmt: skip


def test_every_rule_has_a_reference():
    assert {name for name, *_ in RULES.values()} == entries("rule").keys()


@cache
def program(key):
    name, options, *_ = RULES[key]
    return jax.jit(
        partial(one_node, build("rule", canonical("rule", {"name": name, **options}), {}))
    )


@random_cases()
@pytest.mark.parametrize("key", RULES)
def test_a_rule_is_what_numpy_computes(key, seeds):
    _, _, draw, reference = RULES[key]
    with jax.enable_x64(True):
        for seed in seeds:
            given = case(np.random.default_rng(seed), draw)
            ours, wanted = program(key)(*given), reference(*given)
            for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
