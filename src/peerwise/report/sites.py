"""What joining is worth to every site, as tables and files."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.table import Table

from peerwise.checkpoint import write_whole
from peerwise.report.grid import empty_table

if TYPE_CHECKING:
    from peerwise.study.join import Joined

SHOWN = ("balanced_accuracy", "auroc", "auprc", "sensitivity", "specificity")
STYLES = {"join": "bold green", "stay": "bold red"}


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _with_interval(line: pd.Series, name: str) -> str:
    text = _number(line[name])
    low, high = line[f"{name}_low"], line[f"{name}_high"]
    return text if np.isnan(low) else f"{text} [{low:.2f}, {high:.2f}]"


def tables(joined: "Joined") -> list[Table]:
    """The verdict for each site; metrics of the network's models by subgroup; the confusion."""
    metric = joined.metric.replace("_", " ")
    verdicts = empty_table(f"Should my site join? {metric} on its held-out rows")
    verdicts.add_column("site")
    verdicts.add_column("verdict", no_wrap=True)
    for name in ("rows learnt", "held out", "local", "network", "gain", "95 % interval"):
        verdicts.add_column(name, justify="right", no_wrap=True)
    for site, line in joined.verdicts.iterrows():
        interval = "-" if np.isnan(line["low"]) else f"{line['low']:+.3f} to {line['high']:+.3f}"
        gain = "-" if np.isnan(line["gain"]) else f"{line['gain']:+.3f}"
        rows = [joined.rows.get(str(site), 0), line["rows"]]
        cells = [*map(str, rows), _number(line["local"]), _number(line["network"]), gain, interval]
        verdict = str(line["verdict"])
        verdicts.add_row(str(site), verdict, *cells, style=STYLES.get(verdict, ""))
    shown = [m for m in SHOWN if m in joined.report]
    report = empty_table(
        "The network's models, each on its own site's held-out rows [95 % interval]"
    )
    positive = ["positive"] if "positives" in joined.report else []
    for name in ("subgroup", "rows", *positive, *shown):
        report.add_column(name.replace("_", " "), justify="left" if name == "subgroup" else "right")
    for (column, value), (_, line) in zip(
        joined.report.index.tolist(), joined.report.iterrows(), strict=True
    ):
        label = "all" if column == "all" else f"{column} = {value}"
        counts = [str(int(line["rows"]))]
        if positive:
            counts.append(str(int(line["positives"])))
        report.add_row(label, *counts, *(_with_interval(line, m) for m in shown))
    confusion = empty_table("Confusion: true class in rows, class said in columns")
    confusion.add_column("")
    for name in joined.confusion.columns:
        confusion.add_column(str(name), justify="right")
    for true, line in joined.confusion.iterrows():
        confusion.add_row(str(true), *(str(int(v)) for v in line))
    return [verdicts, report, confusion]


def write(joined: "Joined", folder: Path) -> None:
    """The same numbers as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("verdicts", "report", "confusion"):
        write_whole(folder / f"{name}.csv", getattr(joined, name).to_csv().encode())
