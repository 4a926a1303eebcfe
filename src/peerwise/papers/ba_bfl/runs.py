"""The pieces of work behind the BA-BFL experiments, and what they measure beside the learner."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from sklearn.metrics import roc_auc_score

from peerwise import learner, metrics
from peerwise.core import Array, Method, State, Tree
from peerwise.learner.run import assembled
from peerwise.learner.world import drawn
from peerwise.papers import learning
from peerwise.papers.items import Arrays, Description
from peerwise.simulate import simulate

FINE = 100  # bins of the paper's calibration error
OWN = 500  # rows of each node on which its model is measured, at most
STRANGE = 2000  # images of another set, and of its own, by which strangeness is told
TIMED = 3  # rounds that are timed at once, and how often
TIMES = 3


def fine_calibration(x_test: Array, y_test: Array) -> Any:
    """A metric: calibration with the paper's bins, as `fine_ece`, and the bins themselves."""
    return metrics.calibration("fine", x_test, y_test, bins=FINE, kept=True)


def own_rows(x: Array, y: Array, owned: Sequence[np.ndarray]) -> Any:
    """A metric: errors of every node's model on rows of its own, as `own_error`."""
    few = [rows[:OWN] for rows in owned]
    return metrics.own_rows("own", np.asarray(x), np.asarray(y), few, longest=OWN)


def entropies(
    x_test: Array, *, outside: Annotated[str, "a set of strange images of the same shape"]
) -> Any:
    """A metric: how unsure the first node is of images of its own set and of another's."""
    described: Description = {
        "data": {"source": outside, "scale": "unit"},
        "split": {"nodes": 1, "rows": "all", "test": "own", "test_rows": min(STRANGE, len(x_test))},
        "method": "isolated_net",  # as a net sees them: with pixels that never vary
    }
    strange = drawn(learner.cell(described), 0).x_test
    assert strange is not None
    return Partial(_entropies, x_test[: len(strange)], strange)


def _entropies(inside: Array, outside: Array, method: Method, state: State) -> Tree:
    first = jax.tree.map(lambda a: a[0], state.value)

    def entropy(x: Array) -> Array:
        prob = jnp.exp(method.predict(jax.random.key(0), first, x))
        return jax.scipy.special.entr(prob / prob.sum(1, keepdims=True)).sum(1)

    return {"entropy_inside": entropy(inside), "entropy_outside": entropy(outside)}


def _told_apart(inside: np.ndarray, outside: np.ndarray) -> float:
    """The probability that a strange image is the one that the model is less sure of."""
    strange = np.repeat([0, 1], [len(inside), len(outside)])
    return float(roc_auc_score(strange, np.concatenate([inside, outside])))


def learn(description: Description, checkpoint: Path | None = None) -> Arrays:
    """How good and how well calibrated the merged models are, and how fair the local ones.

    [replicas, recorded rounds, nodes]: `accuracy`, `ece` (15 bins), `ece_fine` (100), `nll`,
    `brier`, `entropy` of the merged models, before local training, on the test rows, and
    `own_accuracy` on each node's own. `local_accuracy`: after the last training. `ood`: area under
    the curve by which the last model tells strange images, where there are any of their shape.
    `bins` [replicas, 100, 3]: of the last round, a mean over nodes, as `metrics.binned` takes them.
    """
    cell, outcome, arrays = learning.learn(description, checkpoint)
    values = outcome.values
    arrays |= {n: values[f"combined_test_{n}"] for n in ("ece", "nll", "brier", "entropy")}
    arrays |= {
        "accuracy": 1 - values["combined_test_error"],
        "ece_fine": values["combined_fine_ece"],
        "own_accuracy": 1 - values["combined_own_error"],
        "local_accuracy": 1 - values["test_error"][:, -1:],
        "bins": values["combined_fine_bins"][:, -1].mean(1),
    }
    deals = range(cell["run"]["repetitions"])
    arrays["sizes"] = np.array([learning.counts_of(cell, r).sum(1) for r in deals])
    if "entropy_inside" in values:
        last = (values[f"entropy_{where}"][:, -1] for where in ("inside", "outside"))
        arrays["ood"] = np.array([_told_apart(*pair) for pair in zip(*last, strict=True)])
    return arrays


def pace(description: Description) -> Arrays:
    """Seconds that a round of one replica takes, nothing measured on the way.

    `seconds_a_round`: the median of `seconds`, each of which is what four rounds take longer than
    one, by three. It tells of rounds only where nothing else runs on the device.
    """
    (part,) = assembled(learner.cell(description))[1]

    def run(rounds: int) -> float:
        clock = time.perf_counter()
        done = simulate(part.method, part.shards, part.links, rounds, at=[])
        jax.block_until_ready(done.state)
        return time.perf_counter() - clock

    run(1)  # compiled
    seconds = np.array([(run(1 + TIMED) - run(1)) / TIMED for _ in range(TIMES)])
    return {
        "seconds_a_round": np.median(seconds),
        "seconds": seconds,
        "device": np.array(jax.devices()[0].device_kind),
    }
