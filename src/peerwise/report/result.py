"""Run a description from Python: a file, a dict or keywords, and a result to look at."""

import tempfile
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from peerwise import notebook
from peerwise.errors import BadSetting
from peerwise.report import curves, look
from peerwise.report.tables import FIRST, HIDDEN, LAST
from peerwise.study.engine import Engine, ThisMachine
from peerwise.study.results import Record
from peerwise.study.sweep import read_config, sweep

_AXES = ("test error", "round")


def _short(value: Any) -> str:
    if not isinstance(value, float) or not np.isfinite(value):
        return "" if pd.isna(value) else str(value)
    return f"{value:.4f}" if abs(value) < 10 and not value.is_integer() else f"{value:,.0f}"


class Result(NamedTuple):
    """The results of a description."""

    records: list[Record]  # every number of the table
    history: pd.DataFrame  # errors and metrics by cell, repetition, recorded round and node
    failures: dict[str, str]  # cells that could not be run, and why

    @property
    def table(self) -> pd.DataFrame:
        """One line a cell: what varies, and the mean of every metric over nodes and repetitions."""
        return self._lines("value")

    @property
    def std(self) -> pd.DataFrame:
        """The same with standard deviations over repetitions."""
        return self._lines("std")

    def _lines(self, what: str) -> pd.DataFrame:
        lines: dict[tuple[Any, ...], dict[str, Any]] = {}
        for r in self.records:
            line = lines.setdefault(tuple(r.setting.values()), dict(r.setting))
            line[r.metric] = getattr(r, what)
        return pd.DataFrame(list(lines.values()))

    def plot(
        self,
        title: str = "",
        *,
        metric: str = "test_error",
        facet: str | None = None,
        style: str | None = None,
        page: int = 1,
    ) -> Figure:
        """Plot a metric against rounds, or as dots if the run recorded only the last round.

        `facet` names the factor whose values have a panel each, `style` a style of matplotlib's.
        What has more than eight lines a panel fills several figures, of which `page` picks one.
        """
        factors = curves.factors_of(self.history)
        style = look.checked_style(style)
        drawn = curves.pages(self.history, title, factors, metric=metric, facet=facet, style=style)
        if not 1 <= page <= len(drawn):
            raise BadSetting(f"page must be between 1 and {len(drawn)}, got {page}")
        return drawn[page - 1]

    def _repr_html_(self) -> str:
        """The table and the test error by round, for notebooks."""
        lines, measured = self.table, dict.fromkeys(r.metric for r in self.records)
        labels = [c for c in lines if c not in measured]
        order = [*FIRST, *(m for m in measured if m not in (*FIRST, *LAST, *HIDDEN)), *LAST]
        head = [str(c) for c in (*labels, *(m for m in order if m in lines))]
        words = [[_short(row[c]) for c in head] for row in lines.to_dict("records")]
        wrong = "".join(
            f"<p>failed: {escape(k)}: {escape(v)}</p>" for k, v in self.failures.items()
        )
        return notebook.table(head, words) + notebook.chart(self._lines_by_cell(), *_AXES) + wrong

    def _lines_by_cell(self) -> dict[str, tuple[list[float], list[float]]]:
        """The test error by round, mean over nodes and repetitions, of every cell."""
        factors = curves.factors_of(self.history)
        labels = [c for c in ("dataset", "method", *factors) if self.history[c].nunique() > 1]
        lines = {}
        groups: Any = self.history.groupby(labels or ["method"], dropna=False, sort=False)
        for values, group in groups:
            mean = group.groupby("round")["test_error"].mean()
            name = " · ".join(str(v) for v in values if not pd.isna(v))
            lines[name] = (mean.index.tolist(), mean.tolist())
        return lines


def run(
    source: str | Path | Mapping[str, Any] | None = None,
    /,
    *,
    out: str | Path | None = None,
    workers: int | None = 1,
    engine: Engine | None = None,
    **sections: Any,
) -> Result:
    """Run a TOML file, a dict of sections, or sections as keywords; keywords take precedence.

    `out` keeps the run folder, so that the same call resumes where it stopped. `workers` is the
    number of processes; `engine` is where else cells run (`study.on_ray.OnRay`).

    >>> result = run(data="wine", split={"nodes": 3, "rows": 20}, network="ring",
    ...              run={"rounds": 2, "repetitions": 1})
    >>> sorted(result.table.columns)[:3]
    ['bytes', 'bytes_per_link', 'method']
    """
    if source is None:
        given: dict[str, Any] = {}
    elif isinstance(source, Mapping):
        given = dict(source)
    elif isinstance(source, str | Path):
        given = read_config(Path(source))
    else:
        raise BadSetting(f"give a file, a dict or keywords, got {type(source).__name__}")
    description = {**given, **sections}
    with tempfile.TemporaryDirectory() as scratch:
        done = sweep(description, Path(out or scratch), engine=engine or ThisMachine(workers))
    return Result(done.records, done.history, done.failures)
