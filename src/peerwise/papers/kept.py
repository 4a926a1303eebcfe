"""What a run folder of a paper has kept."""

from pathlib import Path
from typing import Any, NamedTuple

from peerwise.errors import BadFile
from peerwise.files import BROKEN, one_line
from peerwise.papers.items import Done, Paper, Scale, as_run_on, tasks_of
from peerwise.study.results import read_asked
from peerwise.study.store import Store


class Kept(NamedTuple):
    """What the tasks of a run gave, by item and name, and which of them were not run."""

    arrays: dict[str, Done]
    missing: dict[str, list[str]]  # item -> names of tasks
    quick: bool  # whether it was run at the small size


class _Config(NamedTuple):
    """What a reproduction was asked for."""

    paper: str
    items: list[str]
    sets: list[str]
    scale: Scale


def _config(folder: Path) -> _Config:
    config: dict[str, Any] = read_asked(folder)
    try:
        names = [str(name).partition("/") for name in config["items"]]
        scale = Scale(config["quick"], config.get("trials"))
        return _Config(names[0][0], [item for _, _, item in names], config["datasets"], scale)
    except BROKEN as error:
        path = folder / "config.toml"
        raise BadFile(f"{path} is damaged: {one_line(error)}; run it again") from None


def paper_of(folder: Path) -> str:
    """The name of the paper that a run reproduces, also where no number came of it yet."""
    return _config(folder).paper


def arrays_of(folder: Path, paper: Paper) -> Kept:
    """What was run of a reproduction; a task that several items show is read once."""
    asked = _config(folder)
    if unknown := [item for item in asked.items if item not in paper.items]:
        raise BadFile(f"{folder / 'config.toml'} names {unknown[0]}, which {paper.name} has not")
    with as_run_on(Store(folder).asked().get("at_hand")):
        wanted = {i: tasks_of(paper.items[i], asked.sets, asked.scale) for i in asked.items}
    every = {task.key: task for tasks in wanted.values() for task in tasks.values()}
    store = Store(folder)
    read = {key: store.get(key) for key in every}
    done: dict[str, Done] = {item: {} for item in wanted}
    missing: dict[str, list[str]] = {item: [] for item in wanted}
    for item, tasks in wanted.items():
        for name, task in tasks.items():
            kept = read[task.key]
            if kept is None:
                missing[item].append(name)
            else:
                done[item][name] = kept.arrays
    return Kept(done, missing, asked.scale.quick)
