"""Whole rounds in NumPy: a network that averages statistics and calibrates them."""

import numpy as np

from independent.cases import random_cases
from peerwise import topology
from peerwise.methods import crc
from peerwise.models import naive_bayes
from peerwise.shards import pack
from peerwise.simulate import simulate

# m0 is so large that variances stay positive and no guard acts
N, ROWS, CLASSES, ROUNDS, M0 = 5, 8, 3, 3, 200.0
MODEL = naive_bayes((0, 3, 0), CLASSES)


def rows(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=N * ROWS)
    codes = (y + rng.integers(0, 2, y.size)) % 3
    return np.column_stack([rng.normal(y, 1), codes, rng.normal(size=y.size)]), y


def phi(x):
    """1, a and a^2 of each number, then one column for each category."""
    numbers = [x[:, 0], x[:, 2]]
    return np.column_stack(
        [np.ones(len(x)), *numbers, *(v**2 for v in numbers), np.eye(3)[x[:, 1].astype(int)]]
    )


def posterior(s, x):
    joint = np.empty((len(x), CLASSES))
    for c, line in enumerate(s):
        n, sums, squares, cells = line[0], line[1:3], line[3:5], line[5:]
        mean = sums / n
        variance = squares / n - mean**2
        z = x[:, [0, 2]]
        joint[:, c] = np.log(n / s[:, 0].sum())
        joint[:, c] += (-0.5 * (np.log(2 * np.pi * variance) + (z - mean) ** 2 / variance)).sum(1)
        joint[:, c] += np.log(cells / cells.sum())[x[:, 1].astype(int)]
    p = np.exp(joint - joint.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def calibrated(x, y):
    """s <- the mean of both neighbours on a ring, then s + s(X, Y) - s(X, theta(s))."""
    each = M0 / CLASSES
    start = np.tile(each * np.array([1, 0, 0, 1, 1, *[1 / 3] * 3]), (CLASSES, 1))
    s = np.tile(start, (N, 1, 1))
    parts = [(x[i * ROWS : (i + 1) * ROWS], y[i * ROWS : (i + 1) * ROWS]) for i in range(N)]
    for _ in range(ROUNDS):
        s = np.stack([(s[i - 1] + s[(i + 1) % N]) / 2 for i in range(N)])
        for i, (xs, ys) in enumerate(parts):
            s[i] += (np.eye(CLASSES)[ys] - posterior(s[i], xs)).T @ phi(xs)
    return s


@random_cases()
def test_rounds_of_crc_on_a_ring(seeds):
    method, ring = crc(MODEL, m0=M0), topology.ring(N)
    for seed in seeds:
        x, y = rows(seed)
        shards = pack(x, y, np.split(np.arange(N * ROWS), N))
        run = simulate(method, shards, ring, ROUNDS, precision="float64")
        np.testing.assert_allclose(run.state.value, calibrated(x, y), rtol=1e-9, atol=1e-9)
