"""What is run and kept: a cell of the learner, or a function with its arguments.

Both have a key (what is asked), say what their numbers depend on besides (data, code), and give
arrays. The engine and the store know nothing else about them.
"""

import hashlib
import importlib
import json
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from peerwise.study import live

if TYPE_CHECKING:  # papers list their tasks without importing the numerics
    from peerwise.learner import Cell, Outcome

Arrays = dict[str, np.ndarray]
DETAIL = "detail:"  # before the names of arrays that only a page shows


class Job(Protocol):
    """Something that can be run on any machine that has the package and the data."""

    @property
    def key(self) -> str:
        """A name that changes when the request does."""

    @property
    def asked(self) -> Any:
        """The request, in plain values."""

    @property
    def batch(self) -> str:
        """Jobs of one batch share what a process reads first; empty: alone."""

    def run(self, checkpoint: Path) -> Arrays:
        """Do it. One that keeps a `checkpoint` can be interrupted and goes on from there."""


class Task(NamedTuple):
    """A function of this project, named module:function, and its arguments (plain values)."""

    function: str
    arguments: dict[str, Any]

    @property
    def key(self) -> str:
        """A name that changes when the function or an argument does."""
        text = json.dumps(self.asked, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def asked(self) -> list[Any]:
        """The function and its arguments."""
        return [self.function, self.arguments]

    @property
    def batch(self) -> str:
        """Tasks are long: each may go to another process."""
        return ""

    def run(self, checkpoint: Path) -> Arrays:
        """Call the function, with the checkpoint if it takes one."""
        module, _, name = self.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        more = {"checkpoint": checkpoint} if "checkpoint" in signature(function).parameters else {}
        arrays: Arrays = function(**self.arguments, **more)
        return arrays


class Run(NamedTuple):
    """A cell of the learner."""

    cell: "Cell"
    predictions: bool = False  # keep errors by class and the bins of a reliability diagram, too
    live: bool = False  # tell what was measured so far, in a file beside the checkpoint
    mesh: Any = None  # devices that share its networks; the numbers do not depend on them
    cut: str = "auto"

    @property
    def key(self) -> str:
        """The cell's."""
        return self.cell.key

    @property
    def asked(self) -> dict[str, Any]:
        """Every section with its defaults."""
        return self.cell.sections

    @property
    def batch(self) -> str:
        """Cells of one data set go together: a process then encodes it once."""
        return json.dumps(self.cell["data"], sort_keys=True, default=str)

    def run(self, checkpoint: Path) -> Arrays:
        """Run all repetitions of the cell; what trains nets takes long and keeps a checkpoint."""
        from peerwise.learner import run

        long = self.cell.method.learns == "net" or self.mesh is not None
        long = long and self.cell["run"]["rounds"] > 1
        watch = live.writer(checkpoint.with_name(f"{self.key}{live.SUFFIX}")) if self.live else None
        outcome = run(
            self.cell, checkpoint if long else None, predictions=self.predictions, watch=watch,
            mesh=self.mesh, cut=self.cut,
        )  # fmt: skip
        return to_arrays(outcome)


def to_arrays(outcome: "Outcome") -> Arrays:
    """An outcome as arrays with names, to be kept."""
    sizes = {"bytes_per_link": outcome.bytes_per_link, "messages": outcome.messages}
    numbers = {name: np.asarray(number) for name, number in sizes.items()}
    more = {DETAIL + name: array for name, array in outcome.details.items()}
    return {"rounds": outcome.rounds, **numbers, **outcome.values, **more}


def to_outcome(arrays: Arrays) -> "Outcome":
    """The outcome that was kept as arrays."""
    from peerwise.learner import Outcome

    values = {name: array for name, array in arrays.items() if not name.startswith(DETAIL)}
    details = {n.removeprefix(DETAIL): a for n, a in arrays.items() if n.startswith(DETAIL)}
    rounds, size, messages = (values.pop(n) for n in ("rounds", "bytes_per_link", "messages"))
    return Outcome(rounds, values, int(size), int(messages), details)


def sources(asked: Any) -> Iterator[str]:
    """The data that a job reads: every `data = NAME` or `data = {source = NAME}` in it."""
    if isinstance(asked, dict):
        data = asked.get("data")
        if isinstance(data, dict):
            data = data.get("source")
        if isinstance(data, str):
            yield data
    if isinstance(asked, dict | list | tuple):
        for value in asked.values() if isinstance(asked, dict) else asked:
            yield from sources(value)
