"""How papers' tasks learn: the learner runs a description, and the paper reads the outcome."""

import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from peerwise import learner, partition
from peerwise.learner.assemble import make_links
from peerwise.learner.world import drawn
from peerwise.papers.items import Arrays, Description
from peerwise.topology.links import edges_of


class Learnt(NamedTuple):
    """A cell, what it gave, and what every paper keeps of any run."""

    cell: learner.Cell
    outcome: learner.Outcome
    about: Arrays  # recorded rounds, traffic, seconds, device


def learn(description: Description, checkpoint: Path | None = None) -> Learnt:
    """Run a description; an interrupted run goes on from its checkpoint."""
    cell = learner.cell(description)
    clock = time.perf_counter()
    outcome = learner.run(cell, checkpoint)
    about = {
        "rounds": outcome.rounds,
        "message_bytes": np.array(outcome.bytes_per_link),
        "messages": np.array(outcome.messages // max(cell["run"]["rounds"], 1)),  # a round
        "seconds": np.array(time.perf_counter() - clock),
        "device": np.array(jax.devices()[0].device_kind),
    }
    return Learnt(cell, outcome, about)


def counts_of(cell: learner.Cell, repetition: int = 0) -> np.ndarray:
    """How many rows of each class every node holds in a repetition, [nodes, classes]."""
    world = drawn(cell, repetition)
    return partition.allocation(world.y, world.owned, len(world.schema.classes))


def deal(description: Description) -> Arrays:
    """How many rows of each class every node holds, with Gini indices."""
    counts = counts_of(learner.cell(description))
    return {
        "counts": counts,
        "gini": partition.gini_by_class(counts),
        "gini_of_totals": np.array(partition.gini_of_totals(counts)),
    }


def graph(description: Description) -> Arrays:
    """The links of the first repetition's graph."""
    cell = learner.cell(description)
    src, dst, _ = edges_of(make_links(cell, drawn(cell, 0)))
    return {"src": src, "dst": dst, "nodes": np.array(cell["split"]["nodes"])}
