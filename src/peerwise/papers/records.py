"""From what was run to the numbers of a table."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from peerwise.learner import Cell, Outcome
from peerwise.papers.items import CLOSE, Column, Dataset, Item, Paper
from peerwise.study.results import Record


def record_of(
    paper: str, item: str, dataset: str, metric: str, values: Any, *, ddof: int = 1,
    paper_value: float | None = None, **setting: Any,
) -> Record:  # fmt: skip
    """Mean and standard deviation of values, one a repetition; NaN is left out."""
    numbers = np.asarray(values, float).ravel()
    numbers = numbers[~np.isnan(numbers)]
    return Record(
        paper=paper,
        item=item,
        dataset=dataset,
        setting=setting,
        metric=metric,
        value=float(numbers.mean()) if numbers.size else None,
        std=float(numbers.std(ddof=ddof)) if numbers.size > 1 else None,
        reps=int(numbers.size),
        paper_value=paper_value,
    )


def by_fields(records: Iterable[Record], *keys: str) -> dict[tuple[Any, ...], Record]:
    """Records by their data set, item, metric or settings; what a record has not is None."""
    found = {}
    for r in records:
        of = {**r.setting, "item": r.item, "dataset": r.dataset, "metric": r.metric}
        found[tuple(of.get(key) for key in keys)] = r
    return found


def cell_of(column: Column, base: Cell) -> Cell:
    """The cell that a column measures."""
    return base.changed(method=column.method).changed(**column.update)


def reference_of(column: Column, base: Cell) -> Cell:
    """The cell to which a column's gaps are."""
    if column.reference is not None:
        return base.changed(method="rc").changed(**column.reference)
    return cell_of(column, base).reference()


def cells(item: Item, base: Cell) -> list[Cell]:
    """Everything that a table needs of one data set."""
    needed = [cell_of(column, base) for column in item.columns]
    return needed + [reference_of(c, base) for c in item.columns if c.needs_reference]


def _error(outcome: Outcome, name: str, which: str) -> np.ndarray:
    """Mean error over the nodes [repetitions], at the last round or at each repetition's best."""
    curve = outcome.values[name].mean(-1)  # [repetitions, rounds]
    return curve[:, -1] if which == "last" else curve.min(-1)


def measure(column: Column, outcome: Outcome, reference: Outcome | None) -> np.ndarray:
    """The number of a column for every repetition."""
    if column.metric.endswith(("_error", "_log_loss")):
        return _error(outcome, column.metric, column.round)
    if column.metric == "node_std":
        return outcome.values[f"{column.part}_error"][:, -1].std(-1)
    assert reference is not None
    if column.metric == "rounds_to_gap":
        # the paper's scores are means over repetitions: the round at which the mean gap is small
        goal = _error(reference, "test_error", "last").mean()
        close = np.flatnonzero(outcome.values["test_error"].mean(-1).mean(0) - goal < CLOSE)
        return np.array([outcome.rounds[close[0]] if close.size else np.nan], float)
    name = column.metric.removesuffix("_gap") + "_error"
    return _error(outcome, name, column.round) - _error(reference, name, column.round)


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
    paper: Paper, name: str, dataset: Dataset, base: Cell, outcomes: dict[str, Outcome]
) -> list[Record]:
    """The numbers of one row of a table; a set that is absent or failed has none of ours."""
    item, records = paper.items[name], []
    for column in item.columns:
        outcome = outcomes.get(cell_of(column, base).key)
        reference = outcomes.get(reference_of(column, base).key) if column.needs_reference else None
        lacking = outcome is None or (column.needs_reference and reference is None)
        values = np.array([]) if lacking or outcome is None else measure(column, outcome, reference)
        whole = values.size and not np.isnan(values).any()
        records.append(
            Record(
                paper=paper.name,
                item=name,
                dataset=dataset.name,
                setting=_setting(item, column),
                metric=column.metric,
                value=float(values.mean()) if whole else None,
                std=float(values.std()) if values.size > 1 else None,
                reps=0 if lacking else base["run"]["repetitions"],
                paper_value=paper.printed(name, dataset, column.name),
            )
        )
    return records
