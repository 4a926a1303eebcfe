"""From what was run to the numbers of a table."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from peerwise.learner import Cell, Outcome, cell
from peerwise.papers.items import CLOSE, Column, Dataset, Done, Item, Number, Paper, Scale, View
from peerwise.study.results import Record

MANY = 100  # so many repetitions are kept one by one; of more, mean and standard deviation


def record_of(paper: Paper, item: str, number: Number) -> Record:
    """Mean and standard deviation of values, one a repetition; NaN is left out."""
    every = np.asarray(number.values, float).ravel()
    real = every[~np.isnan(every)]
    setting = {"method": number.setting.get("variant", paper.name), **number.setting}
    fields = {**setting, "dataset": number.dataset, "metric": number.metric}
    statistics: dict[str, Any] = {
        "value": float(real.mean()) if real.size else None,
        "std": float(real.std(ddof=1)) if real.size > 1 else None,
        "reps": int(real.size),
        "paper_value": paper.printed(item, fields),
        "values": real.tolist() if real.size == every.size and 1 < real.size <= MANY else [],
    }
    statistics |= {"paper": paper.name, "item": item, "dataset": number.dataset, "setting": setting}
    return Record(metric=number.metric, **{**statistics, **number.shown})


def records_of(view: View) -> list[Record]:
    """The numbers of an item of tasks."""
    reads = view.item.reads
    numbers = view.paper.part("report", reads)(view) if isinstance(reads, str) else _read(view)
    return [record_of(view.paper, view.name, number) for number in numbers]


def _read(view: View) -> Iterator[Number]:
    assert not isinstance(view.item.reads, str)
    for fields, arrays in view.runs:
        rest = {k: v for k, v in fields.items() if k != "dataset"}
        for metric, read, setting in view.item.reads:
            try:
                values = read(arrays)
            except KeyError:  # not measured in this run
                continue
            if values is not None:
                yield Number(fields["dataset"], metric, values, {**rest, **setting})


# --- columns of cells


def fitting(item: Item, datasets: Sequence[Dataset]) -> list[Dataset]:
    """The data sets that have as many rows as an item asks for."""
    return [d for d in datasets if not d.rows or d.rows >= item.least]


def cell_of(column: Column, base: Cell) -> Cell:
    """The cell that a column measures."""
    return base.changed(method=column.method).changed(**column.update)


def reference_of(column: Column, base: Cell) -> Cell:
    """The cell to which a column's gaps are."""
    if column.reference is not None:
        return base.changed(method="rc").changed(**column.reference)
    return cell_of(column, base).reference()


def cells_of(paper: Paper, item: str, datasets: Sequence[Dataset], scale: Scale) -> dict[str, Cell]:
    """Everything that a table needs, by data set and column; references beside."""
    needed = {}
    for dataset in fitting(paper.items[item], datasets):
        base = cell(paper.base(dataset, scale))
        for column in paper.items[item].columns if dataset.present else ():
            name = f"{dataset.name}|{column.name}"
            needed[name] = cell_of(column, base)
            if column.needs_reference:
                needed[f"{name}|reference"] = reference_of(column, base)
    return needed


def _error(outcome: Outcome, name: str, which: str) -> np.ndarray:
    """Mean error over the nodes [repetitions], at the last round or at each repetition's best."""
    curve = outcome.values[name].mean(-1)  # [repetitions, rounds]
    return curve[:, -1] if which == "last" else curve.min(-1)


def _first_close(outcome: Outcome, gap: np.ndarray) -> float:
    close = np.flatnonzero(gap < CLOSE)
    return float(outcome.rounds[close[0]]) if close.size else np.nan


def measure(column: Column, outcome: Outcome, reference: Outcome | None) -> np.ndarray:
    """The number of a column for every repetition."""
    if column.metric.endswith(("_error", "_log_loss")):
        return _error(outcome, column.metric, column.round)
    if column.metric == "node_std":
        return outcome.values[f"{column.part}_error"][:, -1].std(-1)
    assert reference is not None
    if column.metric == "rounds_to_gap":
        goal = _error(reference, "test_error", "last")
        gaps = outcome.values["test_error"].mean(-1) - goal[:, None]
        return np.array([_first_close(outcome, gap) for gap in gaps])
    name = column.metric.removesuffix("_gap") + "_error"
    return _error(outcome, name, column.round) - _error(reference, name, column.round)


def _shown(column: Column, outcome: Outcome, reference: Outcome | None) -> dict[str, Any]:
    """The paper's scores are means over repetitions: the round at which the mean gap is small."""
    if column.metric != "rounds_to_gap" or reference is None:
        return {}
    goal = _error(reference, "test_error", "last").mean()
    first = _first_close(outcome, outcome.values["test_error"].mean(-1).mean(0) - goal)
    return {"value": None if np.isnan(first) else first}


def _setting(item: Item, column: Column) -> dict[str, Any]:
    """What a record says about its column: the options that differ, without their sections."""
    setting: dict[str, Any] = {"method": column.method, "column": column.name}
    for section, value in column.update.items():
        setting |= value if isinstance(value, dict) else {section: value}
    setting.pop("record", None)
    if column.metric == "node_std":
        setting["part"] = column.part
    if any(c.round != "last" for c in item.columns):
        setting["round"] = column.round
    return setting


def column_records(
    paper: Paper, name: str, done: Done, datasets: Sequence[Dataset]
) -> list[Record]:
    """The numbers of a table of columns; a set that is absent or failed has none of ours."""
    item, records = paper.items[name], []
    for dataset in fitting(item, datasets):
        for column in item.columns:
            place = f"{dataset.name}|{column.name}"
            outcome, reference = done.get(place), done.get(f"{place}|reference")
            values: Any = []
            shown: dict[str, Any] = {}
            if outcome is not None and (reference is not None or not column.needs_reference):
                values = measure(column, outcome, reference)
                shown = _shown(column, outcome, reference)
            setting = _setting(item, column)
            number = Number(dataset.name, column.metric, values, setting, shown)
            records.append(record_of(paper, name, number))
    return records
