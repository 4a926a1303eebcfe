"""Every model against a reference that knows nothing of statistics: plain NumPy, row by row."""

import itertools

import numpy as np
import pytest
from sklearn.naive_bayes import MultinomialNB

from helpers import in64
from independent.cases import random_cases
from peerwise.declare import find
from peerwise.models import log_joint, log_posterior, statistics
from peerwise.names import entries

ROWS, CLASSES = 120, 3
MIXED = (0, 3, 0, 2, 2)  # numbers and categories
NUMBERS = (0, 0, 0)
PARENTS = (-1, 3, -1, 4, -1)
SHRINKAGE = 0.3


def mixed_rows(rng, holes):
    y = np.arange(ROWS) % CLASSES
    columns = [
        rng.normal(0.5 * y, 1 + 0.3 * y) if r == 0 else (y + rng.integers(0, 3 * r, ROWS)) % r
        for r in MIXED
    ]
    x = np.column_stack(columns).astype(float)
    return np.where(rng.random(x.shape) < holes, np.nan, x), y


def number_rows(rng, holes):
    y = np.arange(ROWS) % CLASSES
    shapes = rng.normal(size=(CLASSES, 3, 3)) + np.eye(3)[None]
    x = np.einsum("mij,mj->mi", shapes[y], rng.normal(size=(ROWS, 3))) + y[:, None]
    return np.where(rng.random(x.shape) < holes, np.nan, x), y


def sign_rows(rng, holes):
    y = np.arange(ROWS) % CLASSES
    x = (rng.random((ROWS, 3)) < 0.2 + 0.2 * y[:, None]).astype(float)
    return np.where(rng.random(x.shape) < holes, np.nan, x), y


def word_rows(rng, holes):
    y = np.arange(ROWS) % CLASSES
    return rng.poisson(1 + y[:, None] * np.arange(3)[None], (ROWS, 3)).astype(float), y


# --- references: log p(x, y) [m, c]


def log_normal(x, mean, variance):
    return -0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance)


def naive_bayes(x, y, cardinalities, shared=False):
    joint = np.log(np.bincount(y, minlength=CLASSES) / len(y))[None].repeat(len(x), 0)
    for j, r in enumerate(cardinalities):
        known = ~np.isnan(x[:, j])
        of_class = [x[known & (y == c), j] for c in range(CLASSES)]
        within = sum(((v - v.mean()) ** 2).sum() for v in of_class) / known.sum()
        for c, values in enumerate(of_class):
            if r == 0:
                term = log_normal(x[:, j], values.mean(), within if shared else values.var())
            else:
                share = np.bincount(values.astype(int), minlength=r) / len(values)
                term = np.log(share)[np.where(known, x[:, j], 0).astype(int)]
            joint[:, c] += np.where(known, term, 0)
    return joint


def gaussian(x, y, shared, shrinkage):
    """A row with a hole teaches no mean and no covariance, and is told by the numbers it has."""
    whole = ~np.isnan(x).any(1)
    parts = [x[whole & (y == c)] for c in range(CLASSES)]
    covs = [np.cov(p.T, bias=True) for p in parts]
    if shared:
        covs = [sum(len(p) * v for p, v in zip(parts, covs, strict=True)) / whole.sum()] * CLASSES
    joint = np.empty((len(x), CLASSES))
    for c, (part, cov) in enumerate(zip(parts, covs, strict=True)):
        d = len(cov)
        cov = (1 - shrinkage) * cov + shrinkage * np.trace(cov) / d * np.eye(d)
        for i, row in enumerate(x):
            k = ~np.isnan(row)
            away, inner = row[k] - part.mean(0)[k], cov[np.ix_(k, k)]
            fit = away @ np.linalg.solve(inner, away)
            logs = k.sum() * np.log(2 * np.pi) + np.linalg.slogdet(inner)[1]
            joint[i, c] = np.log((y == c).mean()) - (fit + logs) / 2
    return joint


def tree(x, y, cardinalities, parents):
    """Bayesian network: every category given its parent; what is missing is summed out."""
    named = [j for j, r in enumerate(cardinalities) if r]
    tables = {}  # (column, class) -> p(value | parent's value)
    for j, c in itertools.product(named, range(CLASSES)):
        p = parents[j]
        own = x[y == c]
        known = ~np.isnan(own[:, j]) & (True if p < 0 else ~np.isnan(own[:, p]))
        counts = np.zeros((cardinalities[j], 1 if p < 0 else cardinalities[p]))
        for row in own[known]:
            counts[int(row[j]), 0 if p < 0 else int(row[p])] += 1
        tables[j, c] = counts / counts.sum(0, keepdims=True)
    joint = naive_bayes(x[:, [0, 2]], y, (0, 0))
    for i, row in enumerate(x):
        gone = [j for j in named if np.isnan(row[j])]
        for c in range(CLASSES):
            total = 0.0
            for values in itertools.product(*(range(cardinalities[j]) for j in gone)):
                full = row.copy()
                full[gone] = values
                total += np.prod(
                    [
                        tables[j, c][int(full[j]), 0 if parents[j] < 0 else int(full[parents[j]])]
                        for j in named
                    ]
                )
            joint[i, c] += np.log(total)
    return joint


def multinomial(x, y):
    fitted = MultinomialNB(alpha=0, force_alpha=True).fit(x, y)
    return fitted.predict_joint_log_proba(x)


def bernoulli(x, y):
    codes = np.where(np.isnan(x), np.nan, x)
    return naive_bayes(codes, y, (2, 2, 2))


# name -> rows, cardinalities, options, reference, whether rows may have holes
CASES = {
    "naive_bayes": (mixed_rows, MIXED, {}, lambda x, y: naive_bayes(x, y, MIXED), True),
    "shared_naive_bayes": (
        mixed_rows, MIXED, {}, lambda x, y: naive_bayes(x, y, MIXED, shared=True), True,
    ),
    "qda": (
        number_rows, NUMBERS, {"shrinkage": SHRINKAGE},
        lambda x, y: gaussian(x, y, False, SHRINKAGE), True,
    ),
    "lda": (
        number_rows, NUMBERS, {"shrinkage": SHRINKAGE},
        lambda x, y: gaussian(x, y, True, SHRINKAGE), True,
    ),
    "tan": (
        mixed_rows, MIXED, {"parents": PARENTS}, lambda x, y: tree(x, y, MIXED, PARENTS), True,
    ),
    "bernoulli": (sign_rows, NUMBERS, {}, bernoulli, True),
    "multinomial": (word_rows, NUMBERS, {}, multinomial, False),
}  # fmt: skip


def test_every_model_has_a_reference():
    assert CASES.keys() == entries("model").keys()


@random_cases()
@pytest.mark.parametrize("name", CASES)
def test_a_model_is_what_numpy_computes(name, seeds):
    draw, cardinalities, options, reference, may_miss = CASES[name]
    for seed in seeds:
        rng = np.random.default_rng(seed)
        holes = 0.1 if may_miss else 0.0
        x, y = draw(rng, holes)
        model = find("model", name).make(cardinalities, CLASSES, may_miss, **options)
        s = in64(statistics, model, x, y, np.ones(ROWS))
        if in64(model.theta, s).guards:  # a cell that no row is in: what stands for it is ours
            continue
        wanted = reference(x, y)
        np.testing.assert_allclose(in64(log_joint, model, s, x), wanted, rtol=1e-8, atol=1e-8)
        posterior = wanted - np.logaddexp.reduce(wanted, 1)[:, None]
        ours = in64(log_posterior, model, s, x)
        np.testing.assert_allclose(ours, posterior, rtol=1e-8, atol=1e-8)
        assert (ours.argmax(1) == posterior.argmax(1)).all()
