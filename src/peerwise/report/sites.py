"""What every site gains by joining, as tables and files."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.text import Text

from peerwise.files import write_whole
from peerwise.report.grid import Shown, titled, within

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


def tables(joined: "Joined", width: int = 80) -> list[Shown]:
    """The verdict for each site; metrics of the network's models by subgroup; the confusion."""
    return [*_verdicts(joined, width), *_report(joined, width), *_confusion(joined, width)]


def _verdicts(joined: "Joined", width: int) -> list[Shown]:
    head = ["site", "verdict", "rows\nlearnt", "held\nout", "rests\non", "local", "network", "gain"]
    rows = []
    for site, line in joined.verdicts.iterrows():
        interval = "-" if np.isnan(line["low"]) else f"{line['low']:+.3f} to {line['high']:+.3f}"
        gain = "-" if np.isnan(line["gain"]) else f"{line['gain']:+.3f}"
        counts = [str(joined.rows.get(str(site), 0)), str(line["rows"]), str(line["rests_on"])]
        numbers = [*counts, _number(line["local"]), _number(line["network"]), gain, interval]
        verdict = str(line["verdict"])
        style = STYLES.get(verdict, "")
        rows.append([Text(cell, style) for cell in (str(site), verdict, *numbers)])
    title = f"Should my site join? {joined.metric.replace('_', ' ')} on its held-out rows"
    return titled(title, within([*head, "95 % interval"], rows, width))


def _report(joined: "Joined", width: int) -> list[Shown]:
    shown = [m for m in SHOWN if m in joined.report]
    positive = ["positive"] if "positives" in joined.report else []
    rows = []
    for (column, value), (_, line) in zip(
        joined.report.index.tolist(), joined.report.iterrows(), strict=True
    ):
        label = "all" if column == "all" else f"{column} = {value}"
        counts = [str(int(line["rows"]))]
        if positive:
            counts.append(str(int(line["positives"])))
        rows.append([label, *counts, *(_with_interval(line, m) for m in shown)])
    head = ["subgroup", "rows", *positive, *(m.replace("_", " ") for m in shown)]
    title = "The network's models, each on its own site's held-out rows [95 % interval]"
    return titled(title, within(head, rows, width))


def _confusion(joined: "Joined", width: int) -> list[Shown]:
    head = ["", *map(str, joined.confusion.columns)]
    rows = [[str(true), *(str(int(v)) for v in line)] for true, line in joined.confusion.iterrows()]
    title = "Confusion: true class in rows, class said in columns"
    return titled(title, within(head, rows, width))


def write(joined: "Joined", folder: Path) -> None:
    """The same numbers as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("verdicts", "report", "confusion"):
        write_whole(folder / f"{name}.csv", getattr(joined, name).to_csv().encode())
