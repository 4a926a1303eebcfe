"""The command that compares methods of one or several runs with statistics."""

from pathlib import Path
from typing import Annotated

import typer

from peerwise.cli.common import Figures, Style, console


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    metric: Annotated[
        str | None, typer.Option(help="The metric to compare [default: test_error].")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="Baseline to compare with [default: the best]."),
    ] = None,
    better: Annotated[
        str | None,
        typer.Option(help="lower or higher: which way is better, for a metric of your own."),
    ] = None,
    latex: Annotated[Path | None, typer.Option(help="Write the tables as LaTeX.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write all numbers with all digits.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables as Markdown.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figures [default: runs/compare-RUN...].")
    ] = None,
    figure: Figures = None,
    style: Style = None,
) -> None:
    """Compare methods of one or several runs: differences, tests, ranks.

    Values are paired by data set, setting and repetition. Differences to the baseline come with
    bootstrap intervals, Wilcoxon's signed-rank test and Holm's correction. With three or more data
    sets, the command adds mean ranks and a critical-difference diagram. If two runs have the same
    method, add the run's name: `--to "crc (RUN)"`.
    """
    from peerwise.files import write_whole
    from peerwise.report import compared, compared_figures, comparison, reading
    from peerwise.report.look import checked_formats, checked_style

    formats, style = checked_formats(figure or ()), checked_style(style)
    folders = reading.named(runs)
    values = reading.read_runs(folders)
    result = comparison.compare(comparison.gathered(values), metric, to=to, better=better)
    result = result._replace(
        notes=[*result.notes, *reading.unlike(folders), *reading.noted(folders)]
    )
    for table in compared.tables(result, console.width):
        console.print(table)
    texts = ((latex, compared.latex), (csv, compared.csv), (markdown, compared.markdown))
    for path, text in texts:
        if path is not None:
            write_whole(path, text(result).encode())
            console.print(f"Written: {path}", markup=False)
    folder = out or Path("runs") / f"compare-{'-'.join(f.resolve().name for f in runs)[:80]}"
    for picture in compared_figures.draw(folder, folders, values, result, formats, style):
        console.print(f"Figure: {picture}", markup=False)
