"""Where an interrupted run goes on: from another `Run`, or from a checkpoint on disk."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from peerwise import checkpoint as files
from peerwise import processes
from peerwise.core import Tree
from peerwise.errors import BadFile, BadSetting, PeerwiseError
from peerwise.runtime import Run
from peerwise.simulate.program import Carry

QUICK = 0.1  # seconds: a checkpoint that takes less is written after every chunk
WORK = 20  # a slower one is written again after this many times its writing time


class Checkpoint:
    """The file that keeps a run, marked by the arguments that tell it from other runs.

    A run over several devices keeps a file for each part beside it. Any number of devices reads
    what another has written.
    """

    def __init__(self, path: str | Path, *arguments: Any):
        self.path = Path(path)
        self._mark = files.fingerprint(*arguments)
        self._written, self._cost = 0.0, 0.0  # when last, and how many seconds it took

    def load(self, like: Carry) -> tuple[Carry, int]:
        """The run in the file and how many rounds it has done."""
        return files.load(self.path, like, self._mark)

    def load_together(self, like: Carry) -> tuple[Carry, int] | None:
        """The same in all processes of a run, or none in all of them."""
        saved, failure = None, ""
        try:
            saved = self.load(like) if self.path.exists() else None
        except PeerwiseError as error:
            failure = str(error)
        done = processes.meet(str(saved[1]) if saved else "none", failure)
        if len(set(done)) > 1:
            raise BadFile(
                f"not all processes see the same {self.path}: it has {done[0]} rounds in process 0 "
                "and others elsewhere; keep it in a folder that all machines share, or delete it"
            )
        return saved

    def _due(self, last: bool) -> bool:
        late = time.monotonic() - self._written >= WORK * self._cost
        return last or self._cost < QUICK or late

    def save(self, carry: Carry, done: int, last: bool) -> None:
        """Write the run; a slow write is skipped if it comes too soon, unless it is the `last`."""
        jax.block_until_ready(carry.state)
        if self._due(last):
            begun = time.monotonic()
            files.save(self.path, carry, done, self._mark)
            for old in files.pieces_of(self.path):  # of a run over several devices
                old.unlink(missing_ok=True)
            self._timed(begun)

    def save_pieces(
        self, pieces: Iterator[tuple[int, files.Piece]], parts: int, done: int, last: bool
    ) -> None:
        """As `save`, a file for each part; every process writes its own."""
        if processes.first_says(str(self._due(last))) == str(False):
            return
        begun, failure = time.monotonic(), ""
        try:
            for part, piece in pieces:
                files.save_piece(self.path, part, piece, done, self._mark)
        except PeerwiseError as error:
            failure = str(error)
        processes.meet(failure=failure)  # all parts are on the disk
        if processes.is_first():
            try:
                files.save_index(self.path, parts, done, self._mark)
            except PeerwiseError as error:
                failure = str(error)
        processes.meet(failure=failure)  # and none is written while old ones are removed
        self._timed(begun)

    def _timed(self, begun: float) -> None:
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
