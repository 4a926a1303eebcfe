"""Where an interrupted run goes on: from another `Run`, or from a checkpoint on disk."""

import time
from pathlib import Path
from typing import Any

import jax

from peerwise import checkpoint as files
from peerwise.core import Tree
from peerwise.errors import BadSetting
from peerwise.runtime import Run
from peerwise.simulate.program import Carry

QUICK = 0.1  # seconds: a checkpoint that takes less is written after every chunk
WORK = 20  # a slower one is written again after this many times its writing time


class Checkpoint:
    """The file that keeps a run, marked by the arguments that tell it from other runs."""

    def __init__(self, path: str | Path, *arguments: Any):
        self.path = Path(path)
        self._mark = files.fingerprint(*arguments)
        self._written, self._cost = 0.0, 0.0  # when last, and how many seconds it took

    def load(self, like: Carry) -> tuple[Carry, int]:
        """The run in the file and how many rounds it has done."""
        return files.load(self.path, like, self._mark)

    def save(self, carry: Carry, done: int, last: bool) -> None:
        """Write the run; a slow write is skipped if it comes too soon, unless it is the `last`."""
        jax.block_until_ready(carry.state)
        begun = time.monotonic()
        if last or self._cost < QUICK or begun - self._written >= WORK * self._cost:
            files.save(self.path, carry, done, self._mark)
            self._written = time.monotonic()
            self._cost = self._written - begun


def resumed(run: Run, like: Carry, at: tuple[int, ...]) -> tuple[Carry, int]:
    """What an interrupted run goes on from, if it is the run that the arguments describe."""

    def shapes(tree: Tree) -> Any:
        return jax.tree.structure(tree), [(a.shape, a.dtype) for a in jax.tree.leaves(tree)]

    if run.recorded != tuple(r for r in at if r <= run.rounds) or shapes(run.carry) != shapes(like):
        raise BadSetting(
            "the run to resume is another one: give the method, data, precision, probe, stages and "
            "rounds to record with which it began"
        )
    return run.carry, run.rounds
