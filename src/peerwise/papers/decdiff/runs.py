"""The work behind the tables and figures of the DecDiff paper."""

from pathlib import Path

import numpy as np

from peerwise import learner, partition
from peerwise.papers import learning
from peerwise.papers.items import Arrays, Description

STAGES = {"": "", "combined_": "aggregated_"}  # the learner's names and ours


def learn(description: Description, begun: bool = False, checkpoint: Path | None = None) -> Arrays:
    """Accuracy and loss of every node on the test rows, [replicas, recorded rounds, nodes].

    What begins with `aggregated_` was measured after the node had combined and before it trained
    again. `begun`: also before the first round, when it has trained alone once.
    """
    cell, outcome, arrays = learning.learn(description, checkpoint)
    values = outcome.values
    for theirs, ours in STAGES.items():
        if f"{theirs}test_error" in values:
            arrays[f"{ours}accuracy"] = 1 - values[f"{theirs}test_error"]
            arrays[f"{ours}loss"] = values[f"{theirs}test_log_loss"]
            arrays[f"{ours}consensus"] = values[f"{theirs}consensus_distance"]
    counts = [learning.counts_of(cell, r) for r in range(cell["run"]["repetitions"])]
    arrays["gini"] = np.array([partition.gini_by_class(c).mean() for c in counts])
    arrays["gini_of_totals"] = np.array([partition.gini_of_totals(c) for c in counts])
    arrays["sizes"] = np.stack([c.sum(1) for c in counts])
    if begun:
        first = learner.run(cell.changed(run={"rounds": 0, "stages": ["adapt"]}))
        arrays["begun_accuracy"] = 1 - first.values["test_error"][:, 0]
    return arrays
