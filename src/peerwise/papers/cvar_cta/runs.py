"""The pieces of work behind the CVaR-CTA experiments; each gives plain arrays."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from peerwise import learner
from peerwise.learner.assemble import assemble
from peerwise.learner.run import recorded
from peerwise.learner.world import World, drawn
from peerwise.papers import learning
from peerwise.papers.items import Arrays, Description
from peerwise.simulate import simulate

COMPONENTS = 50  # of pixels, for naive Bayes


def learn(description: Description, checkpoint: Path | None = None) -> Arrays:
    """Accuracy of every node [replicas, recorded rounds, nodes], before and after it trains.

    `accuracy` is measured after local steps, `combined_accuracy` when the node has combined and not
    trained yet. With them accuracy by class [replicas, recorded rounds, classes], mean of the
    nodes, and how far apart the nodes' models are.
    """
    learnt = learning.learn(description, checkpoint)
    values, arrays = learnt.outcome.values, learnt.about
    for stage in ("", "combined_"):
        arrays[f"{stage}accuracy"] = 1 - values[f"{stage}test_error"]
        arrays[f"{stage}class_accuracy"] = 1 - values[f"{stage}test_class_error"].mean(2)
        arrays[f"{stage}consensus"] = values[f"{stage}consensus_distance"]
    return {**arrays, "class_accuracy_of_others": _of_others(values)}


def _of_others(values: Arrays) -> np.ndarray:
    """Accuracy by class of all nodes but the first, which knows what it alone holds."""
    return 1 - np.asarray(values["test_class_error"])[:, :, 1:].mean(2)


def calibrate(description: Description) -> Arrays:
    """How far CRC is above RC on the test rows, [repetitions, nodes], after the last round."""
    cell = learner.cell(description)
    error, reference = (
        learner.run(c).values["test_error"][:, -1] for c in (cell, cell.reference())
    )
    return {"error": error, "reference": reference, "gap": error - reference}


def rare_statistics(description: Description) -> Arrays:
    """The case of the seldom heard node for CRC, with naive Bayes of principal components."""
    cell = learner.cell(description)
    often, seed = cell["run"]["repetitions"], cell["run"]["seed"]
    parts = [assemble(cell, _components(drawn(cell, r))) for r in range(often)]
    done = simulate(
        parts[0].method, [p.shards for p in parts], parts[0].links, cell["run"]["rounds"],
        seed=[seed * 1000 + r for r in range(often)], channel=parts[0].channel,
        probe=[p.probe for p in parts], at=recorded(cell),
    )  # fmt: skip
    values = {name: np.asarray(array) for name, array in done.history["adapt"].items()}
    return {
        "rounds": np.array(done.recorded),
        "accuracy": 1 - values["test_error"],
        "class_accuracy_of_others": _of_others(values),
    }


def _components(world: World) -> World:
    """The rows in units of their first principal components."""
    assert world.x_test is not None
    center = world.x.mean(0)
    _, axes = np.linalg.eigh(np.cov((world.x - center).T))
    components = axes[:, -COMPONENTS:].astype(np.float32)
    x, x_test = ((a - center) @ components for a in (world.x, world.x_test))
    scale = x.std(0)
    schema = replace(world.schema, features=world.schema.features[:COMPONENTS])
    return world._replace(x=x / scale, x_test=x_test / scale, schema=schema)
