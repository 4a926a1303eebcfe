"""Thousands of noisy releases: one cell of Figure 2 of the Gossip-NB paper, Adult at 10^0.5.

A thousand nodes, a thousand trials. A trial deals the rows anew, finds the largest number of every
class at every node, draws a Laplace value for each of them, and scores the model on the test rows.
Nothing bounds it alone: the score, the largest numbers and the noise take about a millisecond
each. (Rows are dealt by NumPy: JAX permutes by sorting, which took four fifths of a trial.) Noise
of equal scale at all nodes (counts, categories) is one draw for all of them together; only sums of
numbers need one a node.

The rival is what one would write in NumPy: a loop over trials, and in it over nodes.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.stats import ks_2samp

from benchmarks.scaling import peak
from benchmarks.tools import show
from peerwise.data import Feature, Schema
from peerwise.papers.gossip_nb.trials import Problem, federated, problem
from peerwise.privacy.budget import Queries

NODES, EPSILON = 1_000, 10**0.5
TRIALS = int(os.environ.get("RELEASES_TRIALS", 1_000))  # fewer to be done sooner
LAW = 40  # trials of the loop: enough to time it and to compare laws
ADULT = (0, 9, 0, 16, 0, 7, 15, 6, 5, 2, 0, 0, 0, 42)  # cardinalities, where there is no Adult


def cell() -> Problem:
    """Adult, or where it is not at hand rows of the same shape."""
    if os.environ.get("PEERWISE_DATA"):
        return problem("adult")
    rng = np.random.default_rng(0)
    m, test = 32_561, 16_281
    y = (rng.random(m + test) < 0.24).astype(np.int64)
    x = np.column_stack(
        [
            rng.normal(40 + 8 * y, 12) if r == 0 else (rng.integers(r, size=m + test) + y) % r
            for r in ADULT
        ]
    ).astype(float)
    features = tuple(
        Feature(f"x{i}", "categorical", tuple(map(str, range(r))))
        if r
        else Feature(f"x{i}", "numeric", (), 0.0, 1.0)
        for i, r in enumerate(ADULT)
    )
    schema = Schema(features, ("no", "yes"))
    return Problem("rows of Adult's shape", x[:m], y[:m], x[m:], y[m:], schema)


def ours(task: Problem, trials: int) -> np.ndarray:
    return federated(task, NODES, [EPSILON], trials).accuracy[0]


def node_by_node(task: Problem) -> Callable[[int], float]:
    """A trial as one would write it: a node after the other makes and releases its statistics."""
    queries = Queries(task.schema.cardinalities, len(task.schema.classes))
    phi, phi_test = expand(task.x, queries), expand(task.x_test, queries)
    scale = len(queries) / EPSILON

    def trial(seed: int) -> float:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(task.y))
        total = np.zeros((queries.classes, queries.size))
        for mine in np.array_split(order, NODES):
            exact, reach = np.zeros_like(total), np.ones_like(total)
            for c in range(queries.classes):
                here = mine[task.y[mine] == c]
                exact[c] = phi[here].sum(0)
                top = np.abs(task.x[here][:, queries.numeric]).max(0, initial=0)
                reach[c, queries.first], reach[c, queries.second] = top, top**2
            others = reach.max(0)
            reach = np.where(reach > 0, reach, np.where(others > 0, others, 1))
            total += exact + rng.laplace(size=total.shape) * reach * scale
        return score(total, phi_test, task, queries)

    return trial


def expand(x: np.ndarray, queries: Queries) -> np.ndarray:
    """phi(x): 1, numbers, their squares, one-hot categories."""
    numbers = x[:, queries.numeric]
    named = [i for i, r in enumerate(queries.cardinalities) if r]
    hot = [np.eye(queries.cardinalities[i])[x[:, i].astype(int)] for i in named]
    return np.concatenate([np.ones((len(x), 1)), numbers, numbers**2, *hot], 1)


def score(s: np.ndarray, phi: np.ndarray, task: Problem, queries: Queries) -> float:
    """Accuracy of naive Bayes made of noisy sums, counts and variances at least 1e-6."""
    n = np.maximum(s[:, :1], 1e-6)
    joint = np.log(n[:, 0] / n.sum())
    mean = s[:, queries.first] / n
    var = np.maximum(s[:, queries.second] / n - mean**2, 1e-6)
    x, d = phi[:, queries.first], len(queries.numeric)
    joint = joint - 0.5 * ((x[:, None] - mean) ** 2 / var + np.log(2 * np.pi * var)).sum(-1)
    start = 1 + 2 * d
    for r in queries.levels:
        cells = np.maximum(s[:, start : start + r], 1e-6)
        joint = joint + phi[:, start : start + r] @ np.log(cells / cells.sum(1, keepdims=True)).T
        start += r
    return float((joint.argmax(1) == task.y_test).mean())


def run_once(trials: int) -> None:
    """What the process does that is measured: compile, then all trials."""
    task = cell()
    ours(task, min(trials, 50))
    before = time.perf_counter()
    ours(task, trials)
    print(time.perf_counter() - before, peak())


def measured(trials: int) -> tuple[float, float]:
    """Seconds of all trials, compiled, and most memory in GiB of a process of its own."""
    call = f"from benchmarks import releases; releases.run_once({trials})"
    done = subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True)
    took, most = done.stdout.split()
    return float(took), float(most)


def main() -> None:
    task = cell()
    took, most = measured(TRIALS)
    trial = node_by_node(task)
    accuracy, times = [], []
    for seed in range(LAW):
        start = time.perf_counter()
        accuracy.append(trial(seed))
        times.append(time.perf_counter() - start)
    each = float(np.median(times))  # whoever else uses the machine slows some trials down
    mine = ours(task, min(TRIALS, 200))
    # one class for all rows is an accuracy that many trials share: equal up to rounding
    law = ks_2samp(mine.round(9), np.round(accuracy, 9)).pvalue
    show(
        f"Federated naive Bayes with noise, {task.name}: {NODES:,} nodes, {TRIALS:,} trials, "
        "epsilon = 10^0.5",
        ("", "seconds", "trial, ms", "x ours", "accuracy", "peak, GiB"),
        (
            (
                "gossip_trials.federated",
                f"{took:.1f}",
                f"{took / TRIALS * 1e3:.1f}",
                "1.0",
                f"{mine.mean():.3f} ±{mine.std():.3f}",
                f"{most:.2f}",
            ),
            (
                f"NumPy node by node, {LAW} trials",
                f"{each * TRIALS:.1f}",
                f"{each * 1e3:.1f}",
                f"{each * TRIALS / took:.1f}",
                f"{np.mean(accuracy):.3f} ±{np.std(accuracy):.3f}",
                "",
            ),
        ),
        "Seconds are after compilation; those of the loop are its median trial times the trials. "
        "Memory is of a process of its own.\n"
        f"The two laws of accuracy ({len(mine)} and {LAW} trials): Kolmogorov-Smirnov p = {law:.3f}"
        f"{'' if law > 1e-3 else ' [bold red]NOT THE SAME[/]'}",
    )


if __name__ == "__main__":
    main()
