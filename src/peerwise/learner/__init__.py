"""From a description in sections to something that runs."""

from peerwise.learner.assemble import Assembled, assemble, offered
from peerwise.learner.run import Outcome, run
from peerwise.learner.sections import Cell, cell, expand
from peerwise.learner.world import World, drawn

__all__ = [
    "Assembled",
    "Cell",
    "Outcome",
    "World",
    "assemble",
    "cell",
    "drawn",
    "expand",
    "offered",
    "run",
]
