"""A comparison to read: tables for the terminal, and as Markdown, LaTeX and CSV."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.text import Text

from peerwise.report.comparison import LEVEL, Comparison
from peerwise.report.grid import Cell, Shown, titled, within

_LATEX = str.maketrans(
    {**{c: "\\" + c for c in "&%$#_{}"}, "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
     "\\": r"\textbackslash{}", "±": r"$\pm$", "<": r"$<$", "α": r"$\alpha$"}
)  # fmt: skip


class Sheet(NamedTuple):
    """One table of a comparison; cells whose place is in `bold` are the best of their row."""

    title: str
    head: list[str]
    rows: list[list[str]]
    labels: int  # columns that name a row
    bold: set[tuple[int, int]]
    caption: str


def _short(value: float, digits: int = 3) -> str:
    """A number without the zero before its point."""
    if np.isnan(value):
        return "-"
    text = f"{value:.{digits}f}" if abs(value) < 100 else f"{value:.0f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _signed(value: float) -> str:
    text = _short(value)
    return text if text.startswith("-") else f"+{text}"


def p_text(p: float) -> str:
    """A p-value as papers print it."""
    return "-" if np.isnan(p) else "<.001" if p < 0.001 else _short(p)


def _means(result: Comparison) -> Sheet:
    methods = [str(m) for m in result.means.columns]
    names = [str(n) for n in result.means.index.names]
    rows, bold = [], set()
    stds = result.stds.to_numpy()
    for place, (index, line) in enumerate(result.means.iterrows()):
        label = [str(v) for v in (index if isinstance(index, tuple) else (index,))]
        cells = [_with_std(m, s) for m, s in zip(line, stds[place], strict=True)]
        best = line.min() if result.lower else line.max()
        bold |= {(place, len(names) + i) for i, v in enumerate(line) if np.isclose(v, best)}
        rows.append([*label, *cells])
    direction = "lower" if result.lower else "higher"
    repeated = bool(result.stds.notna().to_numpy().any())
    over = "mean ± standard deviation over repetitions" if repeated else "one repetition"
    head = ["data set", *names[1:], *methods]
    title = f"{_words(result.metric)} ({direction} is better)"
    return Sheet(title, head, rows, len(names), bold, f"{over}; the best of each row is bold")


def _with_std(mean: float, std: float) -> str:
    if np.isnan(mean):
        return "-"
    return _short(mean) if np.isnan(std) else f"{_short(mean)} ±{_short(std)}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _against(result: Comparison) -> Sheet:
    head = ["method", "pairs", "difference", "interval", "p", "p (Holm)", "won/tied/lost"]
    rows = []
    for method, line in result.against.iterrows():
        low, high = line["low"], line["high"]
        interval = "-" if np.isnan(low) else f"{_signed(low)} to {_signed(high)}"
        tests = [p_text(line["p"]), p_text(line["p_holm"])]
        counts = "/".join(str(int(line[c])) for c in ("wins", "ties", "losses"))
        pairs, difference = str(int(line["pairs"])), _signed(line["difference"])
        rows.append([str(method), pairs, difference, interval, *tests, counts])
    caption = (
        f"difference: mean of method less {result.baseline} over pairs of one data set, setting "
        f"and repetition, with its {100 * LEVEL:.0f} % bootstrap interval; p: Wilcoxon's "
        "signed-rank test, then corrected by Holm"
    )
    return Sheet(f"against {result.baseline}", head, rows, 1, set(), caption)


def _ranks(result: Comparison) -> list[Sheet]:
    if result.ranks is None:
        return []
    ranks = result.ranks
    rows = [[str(method), f"{rank:.2f}"] for method, rank in ranks.mean.items()]
    friedman = "" if np.isnan(ranks.p) else f"Friedman's test: p = {p_text(ranks.p)}; "
    caption = (
        f"{friedman}ranks that differ by less than {ranks.critical:.2f} (Nemenyi, α = "
        f"{_short(1 - LEVEL, 2)}) cannot be told apart"
    )
    title = f"mean ranks over {len(ranks.sets)} data sets"
    return [Sheet(title, ["method", "mean rank"], rows, 1, set(), caption)]


def sheets(result: Comparison) -> list[Sheet]:
    """The tables of a comparison: means, differences to the baseline, ranks."""
    return [_means(result), _against(result), *_ranks(result)]


def tables(result: Comparison, width: int = 80) -> list[Shown]:
    """The tables for a terminal of this width, and what could not be compared."""
    shown: list[Shown] = []
    for sheet in sheets(result):
        rows: list[list[Cell]] = [
            [Text(c, "bold" if (i, j) in sheet.bold else "") for j, c in enumerate(row)]
            for i, row in enumerate(sheet.rows)
        ]
        pieces = within(sheet.head, rows, width, labels=sheet.labels)
        shown += titled(sheet.title, pieces, sheet.caption)
    return [*shown, *(Text(f"note: {note}", "yellow") for note in result.notes)]


def markdown(result: Comparison) -> str:
    """The tables as Markdown."""
    lines = []
    for sheet in sheets(result):
        cells = [[_pipes(c) for c in row] for row in sheet.rows]
        for i, j in sheet.bold:
            cells[i][j] = f"**{cells[i][j]}**"
        rule = "|" + "---|" * sheet.labels + "---:|" * (len(sheet.head) - sheet.labels)
        title = sheet.title[0].upper() + sheet.title[1:]
        head = [_pipes(c) for c in sheet.head]
        lines += [f"### {title}", "", _row(head), rule, *map(_row, cells), ""]
        lines += [f"{sheet.caption[0].upper()}{sheet.caption[1:]}.", ""]
    lines += [f"- {note}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def _pipes(text: str) -> str:
    return text.replace("|", r"\|")


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def latex(result: Comparison) -> str:
    """The tables for a LaTeX document that uses the package booktabs."""
    lines = ["% \\usepackage{booktabs}", *(f"% {note}" for note in result.notes)]
    for name, sheet in zip(("means", "differences", "ranks"), sheets(result), strict=False):
        cells = [[c.translate(_LATEX) for c in row] for row in sheet.rows]
        for i, j in sheet.bold:
            cells[i][j] = rf"\textbf{{{cells[i][j]}}}"
        columns = "l" * sheet.labels + "r" * (len(sheet.head) - sheet.labels)
        head = [c.translate(_LATEX) for c in sheet.head]
        caption = f"{sheet.title[0].upper()}{sheet.title[1:]}: {sheet.caption}.".translate(_LATEX)
        lines += [
            *(r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\label{{tab:{name}}}"),
            *(rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _line(head), r"\midrule"),
            *map(_line, cells),
            *(r"\bottomrule", r"\end{tabular}", r"\end{table}", ""),
        ]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def csv(result: Comparison) -> str:
    """A line a method with all its digits: differences, tests, wins, mean rank."""
    frame = pd.DataFrame({"metric": result.metric, "mean": result.means.mean()})
    frame["to"] = result.baseline
    frame = frame.join(result.against.drop(columns=["value", "baseline"]))
    if result.ranks is not None:
        frame["mean_rank"] = result.ranks.mean
    for count in ("pairs", "wins", "ties", "losses"):
        frame[count] = frame[count].astype("Int64")
    return frame.to_csv(index_label="method")
