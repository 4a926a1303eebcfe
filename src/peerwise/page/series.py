"""The lines of a run's page: metrics by round, single nodes, bytes and seconds."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from peerwise.page import thin
from peerwise.report import curves
from peerwise.study.jobs import DETAIL
from peerwise.study.store import WHOLE, Kept, Store

SERIES = 60  # lines that a page keeps; more are in the table alone


def details_of(folder: Path) -> dict[tuple[tuple[str, str], ...], tuple[str, Kept]]:
    """What is kept of every cell of the first seed, by what tells it from others."""
    path = folder / WHOLE
    if not path.exists():
        return {}
    names = pq.read_schema(path).names
    if "cell" not in names:  # it holds nothing
        return {}
    labels = names[names.index("cell") + 1 : names.index("metric")]
    frame = pq.read_table(path, columns=["cell", *labels]).to_pandas().drop_duplicates()
    store = Store(folder).whole()
    details: dict[tuple[tuple[str, str], ...], tuple[str, Kept]] = {}
    for line in frame.to_dict("records"):
        cell = line.pop("cell")
        line.pop("seed", None)
        if line.get("method") is None or cell not in store:
            continue
        key = tuple(sorted((k, v) for k, v in line.items() if v is not None))
        details.setdefault(key, (cell, store[cell]))
    return details


def series_of(history: pd.DataFrame, kept: dict[Any, Any]) -> list[dict[str, Any]]:
    """A line for each setting: metrics by recorded round with bands, and single nodes."""
    factors = curves.factors_of(history)
    labels = ["dataset", "method", *factors]
    fixed = {*labels, "repetition", "round", "node"}
    metrics = [c for c in history if c not in fixed and not str(c).startswith("train")]
    metrics = [c for c in metrics if "soft" not in str(c)]
    groups: list[tuple[Any, pd.DataFrame]] = list(history.groupby(labels, dropna=False, sort=False))
    rounds = max((g["round"].nunique() for _, g in groups), default=1)
    nodes = max((g["node"].nunique() for _, g in groups), default=1)
    few_nodes, few_rounds = thin.room(min(len(groups), SERIES), nodes, rounds)
    series = []
    for values, group in groups[: SERIES + 1]:
        given = {k: str(v) for k, v in zip(labels, values, strict=True) if not pd.isna(v)}
        line: dict[str, Any] = {"labels": given, "name": _name(given, groups, labels)}
        line |= _lines(group, [str(m) for m in metrics])
        line["nodes"] = _nodes(group, few_nodes, few_rounds)
        line |= _traffic(kept.get(tuple(sorted(given.items()))), int(group["round"].max()))
        series.append(line)
    return series + [{}] * max(len(groups) - SERIES - 1, 0)


def _name(given: dict[str, str], groups: Sequence[Any], labels: Sequence[str]) -> str:
    """What a line is called: the values that differ between lines."""
    varied = [
        k
        for i, k in enumerate(labels)
        if len({str(values[i]) for values, _ in groups if not pd.isna(values[i])}) > 1
    ]
    words = [given[k] for k in ("method", *(v for v in varied if v != "method")) if k in given]
    return " · ".join(dict.fromkeys(words))


def _grid(group: pd.DataFrame, metric: str) -> np.ndarray:
    """A metric by recorded round, whatever node and repetition: [rounds, values]."""
    rounds = group["round"].to_numpy()
    order = np.argsort(rounds, kind="stable")
    values, counts = np.unique(rounds, return_counts=True)
    most = int(counts.max())
    column = group[metric].to_numpy(float)[order]
    if (counts == most).all():
        return column.reshape(len(values), most)
    wide = np.full((len(values), most), np.nan)  # not every repetition has every round
    wide[np.arange(most) < counts[:, None]] = column
    return wide


def _lines(group: pd.DataFrame, metrics: Sequence[str]) -> dict[str, Any]:
    """Mean over nodes and repetitions, and the band of four of five, by recorded round."""
    x = np.unique(group["round"].to_numpy())
    at = thin.places(len(x), thin.POINTS)
    lines: dict[str, Any] = {"x": x[at].tolist(), "recorded": len(x), "metrics": {}}
    for metric in metrics:
        values = _grid(group, metric)[at]
        if not np.isfinite(values).any():
            continue
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # a round without a value
            line = {"mean": thin.plain(np.nanmean(values, axis=1))}
            if len(group) > len(x):
                low, high = np.nanquantile(values, (0.1, 0.9), axis=1)
                line |= {"lo": thin.plain(low), "hi": thin.plain(high)}
        lines["metrics"][metric] = line
    return lines


def _nodes(group: pd.DataFrame, most_nodes: int, most_rounds: int) -> dict[str, Any] | None:
    """The test error of single nodes in the first repetition."""
    first = group[group["repetition"] == group["repetition"].min()]
    node, rounds = first["node"].to_numpy(), first["round"].to_numpy()
    ids, x = np.unique(node), np.unique(rounds)
    if len(ids) < 2:
        return None
    values = np.full((len(ids), len(x)), np.nan)
    error = first["test_error"].to_numpy(float)
    values[np.searchsorted(ids, node), np.searchsorted(x, rounds)] = error
    which = thin.chosen_nodes(values[:, -1], most_nodes)
    at = thin.places(len(x), most_rounds)
    return {
        "of": len(ids),
        "ids": ids[which].tolist(),
        "x": x[at].tolist(),
        "values": thin.packed(values[np.ix_(which, at)]),
    }


def _traffic(known: tuple[str, Kept] | None, rounds: int) -> dict[str, Any]:
    """Bytes and seconds a round; seconds were marked while somebody watched, or are spread."""
    if known is None:
        return {}
    cell, kept = known
    size, sent = (int(kept.arrays.get(n, 0)) for n in ("bytes_per_link", "messages"))
    traffic: dict[str, Any] = {"cell": cell}
    if rounds and size * sent:
        traffic["bytes"] = size * sent / rounds
    seconds = kept.about.get("made", {}).get("seconds") if kept.about.get("made") else None
    marks = kept.arrays.get(DETAIL + "seconds")
    if marks is not None and len(marks):
        at = thin.places(len(marks), 60)
        traffic["marks"] = [[int(r), round(float(s), 3)] for r, s in marks[at]]
    elif seconds and rounds:
        traffic["seconds"] = seconds / rounds
    return traffic
