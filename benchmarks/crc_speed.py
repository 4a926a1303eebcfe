"""The default CRC run against the same arithmetic in NumPy, all nodes at once and node by node."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.tools import console, network, race, rows_of, run, seconds, show, verdict
from peerwise.topology import mixing_matrix
from peerwise.walk import walk

NODES, ROWS, ROUNDS = 50, 50, 64
SHAPES = ((16, 26), (512, 10))  # features, classes
WALKED = 4  # rounds
FLOOR, TINY = np.float32(1e-6), np.float32(1e-3)  # guards, as in peerwise.models.naive_bayes
AS_FAST, TIMES = 1.0, 20.0  # targets: times as fast as batched NumPy, as the loop over nodes
AT_ONCE = ("NumPy, all nodes at once", "NumPy, all nodes at once, one core")
TEXTBOOK = "NumPy node by node, as GaussianNB"


def softmax(a: np.ndarray) -> np.ndarray:
    a = np.exp(a - a.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True)


def moments(s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class shares [..., c, 1], means and variances [..., c, d] of statistics [..., c, q]."""
    d = (s.shape[-1] - 1) // 2
    count = s[..., :1]
    count = np.maximum(count, FLOOR * count.sum(-2, keepdims=True))
    mean = s[..., 1 : 1 + d] / count
    var = np.maximum(s[..., 1 + d :] / count - mean * mean, TINY)
    return count / count.sum(-2, keepdims=True), mean, var


def coefficients(s: np.ndarray) -> np.ndarray:
    """log p(x, y) as coefficients of (1, x, x^2)."""
    prior, mean, var = moments(s)
    constant = np.log(var) + mean * mean / var + np.float32(np.log(2 * np.pi))
    bias = np.log(prior) - constant.sum(-1, keepdims=True) / 2
    return np.concatenate([bias, mean / var, np.float32(-0.5) / var], -1)


def expand(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones_like(x[..., :1]), x, x * x], -1)


def calibrated(s: np.ndarray, phi: np.ndarray, target: np.ndarray) -> np.ndarray:
    """A round of calibration by matmuls, of one node or of all of them."""
    wrong = target - softmax(phi @ coefficients(s).swapaxes(-1, -2))
    return s + wrong.swapaxes(-1, -2) @ phi


def batched(s: np.ndarray, W: np.ndarray, phi: np.ndarray, target: np.ndarray) -> np.ndarray:
    """All nodes at once: what `simulate` is measured against."""
    for _ in range(ROUNDS):
        s = calibrated((W @ s.reshape(len(s), -1)).reshape(s.shape), phi, target)
    return s


def one_core(f: Callable[[], Any]) -> Any:
    """f with BLAS on one core: on matrices this small a second may cost more than it brings."""
    with threadpool_limits(1, "blas"):
        return f()


def lean(s: np.ndarray, hears: list[np.ndarray], phi: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The same matmuls node after node: what doing all nodes at once saves, and no more."""
    for _ in range(ROUNDS):
        heard = [s[near].mean(0) for near in hears]
        s = np.stack([calibrated(*one) for one in zip(heard, phi, target, strict=True)])
    return s


class Node:
    """One node as one would write it for one node: a naive Bayes classifier that calibrates."""

    def __init__(self, x: np.ndarray, y: np.ndarray, start: np.ndarray, by_class: bool):
        self.x, self.s = x, start
        self.target = np.eye(len(start), dtype=x.dtype)[y]
        self.log_density = self._class_by_class if by_class else self._broadcast

    def statistics(self, p: np.ndarray) -> np.ndarray:
        """Counts, sums and sums of squares of the rows, each row shared among classes by p."""
        return np.concatenate([p.sum(0)[:, None], p.T @ self.x, p.T @ self.x**2], 1)

    def _class_by_class(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """As sklearn.naive_bayes.GaussianNB does."""
        density = []
        for mu, v in zip(mean, var, strict=True):
            constant = -0.5 * np.sum(np.log(2.0 * np.pi * v))
            density.append(constant - 0.5 * np.sum((self.x - mu) ** 2 / v, 1))
        return np.array(density).T

    def _broadcast(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        square = ((self.x[:, None] - mean) ** 2 / var).sum(-1)
        return -0.5 * (np.log(2.0 * np.pi * var).sum(-1) + square)

    def posterior(self) -> np.ndarray:
        prior, mean, var = moments(self.s)
        return softmax(np.log(prior[:, 0]) + self.log_density(mean, var))

    def calibrate(self) -> None:
        self.s = self.s + self.statistics(self.target) - self.statistics(self.posterior())


def textbook(make: Callable[[], list[Node]], hears: list[np.ndarray]) -> np.ndarray:
    """A loop over nodes, each of them an object."""
    nodes = make()
    for _ in range(ROUNDS):
        sent = [node.s for node in nodes]
        for node, near in zip(nodes, hears, strict=True):
            node.s = np.mean([sent[j] for j in near], 0)
            node.calibrate()
    return np.stack([node.s for node in nodes])


def contestants(features: int, classes: int) -> dict[str, Callable[[], Any]]:
    """Name -> the whole run, from the start to the statistics after the last round."""
    method, shards, tree = network(NODES, features, classes)
    x, y = rows_of(NODES * ROWS, features, classes)
    x, y = x.reshape(NODES, ROWS, -1), y.reshape(NODES, ROWS)
    W = mixing_matrix(tree).astype(np.float32)
    hears = [np.flatnonzero(row) for row in W]
    state = method.init(jax.random.key(0), jax.tree.map(lambda a: a[0], shards.groups[0].shard))
    start = np.asarray(state.value)
    phi, target = expand(x), np.eye(classes, dtype=np.float32)[y]
    every = np.stack([start] * NODES)

    def make(by_class: bool) -> list[Node]:
        return [Node(a, b, start, by_class) for a, b in zip(x, y, strict=True)]

    return {
        "simulate": lambda: run(method, shards, tree, ROUNDS),
        "simulate, exact": lambda: run(method, shards, tree, ROUNDS, exact=True),
        AT_ONCE[0]: lambda: batched(every, W, phi, target),
        AT_ONCE[1]: lambda: one_core(lambda: batched(every, W, phi, target)),
        "NumPy node by node, matmuls": lambda: lean(every, hears, phi, target),
        "NumPy node by node, broadcast": lambda: textbook(partial(make, False), hears),
        TEXTBOOK: lambda: textbook(partial(make, True), hears),
    }


def compare(features: int, classes: int) -> None:
    runs = contestants(features, classes)
    ends = {name: np.asarray(f()) for name, f in runs.items()}
    ours = ends["simulate"]
    best = race(runs, budget=12)
    base = best["simulate"]
    targets = {min(AT_ONCE, key=best.__getitem__): AS_FAST, TEXTBOOK: TIMES}
    rows = []
    for name, took in best.items():
        apart = np.abs(ends[name] - ours).max() / np.abs(ours).max()
        same = np.allclose(ends[name], ours, rtol=1e-3, atol=1e-4 * np.abs(ours).max())
        target = targets.get(name)
        rows.append(
            (
                name,
                f"{took * 1e3:.1f}",
                f"{took / ROUNDS * 1e3:.3f}",
                f"{took / base:.2f}",
                "" if target is None else f"{target:g} {verdict(took / base >= target)}",
                f"{apart:.0e}" if same else f"[bold red]{apart:.0e} NOT THE SAME[/]",
            )
        )
    method, shards, tree = network(NODES, features, classes)
    step = partial(walk, method, shards, tree, at=[])
    walked = min(seconds(lambda: step(rounds=WALKED).state) for _ in range(3))
    each = walked / WALKED
    rows.append(
        (f"walk ({WALKED} rounds)", "", f"{each * 1e3:.1f}", f"{each * ROUNDS / base:.0f}", "", "")
    )
    show(
        f"CRC, {features} features, {classes} classes: {NODES} nodes of {ROWS} rows, random tree, "
        f"{ROUNDS} rounds",
        ("", "run, ms", "round, ms", "x simulate", "target", "difference"),
        rows,
        "x simulate: time over that of `simulate`, compiled. Targets are for the faster of the two "
        "runs of all nodes at once, and for the node as one would write it, with the log densities "
        "of scikit-learn's GaussianNB.\n"
        f"All nodes at once, NumPy itself is {best[TEXTBOOK] / min(best[a] for a in AT_ONCE):.1f} "
        "times as fast as that node by node.\n"
        "difference: the largest, relative to the largest statistic of `simulate`.\n"
        "walk is the readable oracle, not meant to be fast; exact mode agrees with it bit for bit.",
    )


def main() -> None:
    for shape in SHAPES:
        compare(*shape)


if __name__ == "__main__":
    console.rule(__doc__)
    main()
