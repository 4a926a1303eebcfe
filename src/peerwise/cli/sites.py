"""Commands for data owners: whether to join, predictions of a model file, a privacy ledger."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import Data, Out, console, errors, progress, use_data
from peerwise.cli.peer import Allow
from peerwise.cli.reading import Columns, MissingWord, column_kinds
from peerwise.errors import BadSetting


def join(
    source: Annotated[str, typer.Argument(help="A data set, or a CSV or Parquet file.")],
    site: Annotated[str, typer.Option(help="The column that says which site holds a row.")],
    target: Annotated[str | None, typer.Option(help="The column to predict (files).")] = None,
    positive: Annotated[
        str | None, typer.Option(help="The class of interest [default: the last of two].")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="auroc, auprc, balanced_accuracy, sensitivity, log_loss, ...")
    ] = "auroc",
    threshold: Annotated[
        float, typer.Option(help="Probability from which a row is taken for positive.")
    ] = 0.5,
    by: Annotated[str | None, typer.Option(help="Columns of subgroups, with commas.")] = None,
    model: Annotated[str, typer.Option(help="See `peerwise list models`.")] = "naive_bayes",
    topology: Annotated[str, typer.Option(help="See `peerwise list topologies`.")] = "random_tree",
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Another split, another network.")] = 0,
    column: Columns = None,
    missing_word: MissingWord = None,
    data: Data = None,
    out: Out = None,
) -> None:
    """Should my site join? Each site's own model against the network's, on its own rows.

    Every site keeps 30 % of its rows to judge by. The gain comes with a 95 % interval; below, what
    the network's models are worth for every site and subgroup.
    """
    from peerwise.data.encode import WORDS
    from peerwise.report import figures, sites
    from peerwise.study.join import join as compare_sites

    use_data(data)
    with progress("two networks learn"):
        joined = compare_sites(
            source,
            site,
            target=target,
            positive=positive,
            metric=metric,
            threshold=threshold,
            by=[c.strip() for c in by.split(",")] if by else (),
            seed=seed,
            columns=column_kinds(column),
            missing_words=missing_word or WORDS,
            model=model,
            network=topology,
            rounds=rounds,
        )
    for table in sites.tables(joined, console.width):
        console.print(table)
    folder = out or Path("runs") / f"join-{Path(source).stem}"
    sites.write(joined, folder)
    figure = figures.save(figures.gains(joined), folder / "gains.png")
    console.print(f"Figure: {escape(str(figure))}")
    console.print(
        f"Results: [bold]{escape(str(folder))}[/] (verdicts.csv, report.csv, confusion.csv)"
    )


def predict(
    model: Annotated[
        Path,
        typer.Argument(help="A model file: of `peerwise peer export`, or of Statistics.save."),
    ],
    rows: Annotated[Path, typer.Argument(help="A CSV or Parquet file; columns go by name.")],
    out: Annotated[Path, typer.Option(help="Where the predictions go.")] = Path("predictions.csv"),
    allow: Allow = None,
    missing_word: MissingWord = None,
) -> None:
    """Say the class of every row of a file, and how probable each class is.

    Categories are compared as texts, as they stand in the file. What is empty, and a category that
    the model does not know, is integrated out by a model of statistics, and refused by one that
    allows no gaps.
    """
    from dataclasses import replace

    import numpy as np
    import pandas as pd

    from peerwise.data import read_rows
    from peerwise.data.formats import read_frame, read_header
    from peerwise.files import write_whole
    from peerwise.models.algebra import Statistics
    from peerwise.peer.model_file import is_model, load_model

    frame = read_frame(rows, read_header(rows))
    words = missing_word or []
    if is_model(model):
        learnt = load_model(model, allow or ())
        words = [*words, *learnt.charter.missing_words]
        x, unknown = read_rows(frame, learnt.charter.schema(), words)
        log_prob, classes = learnt.of_rows(x), learnt.classes
    else:
        statistics = Statistics.load(model)
        x, unknown = read_rows(frame, replace(statistics.schema, missing=True), words)
        log_prob, classes = statistics.to_classifier().log_proba(x), statistics.schema.classes
    prob = np.exp(log_prob)
    for column in unknown:
        errors.print(escape(f"{column}, which the model does not know: taken as missing"))
    predictions = pd.DataFrame({"predicted": np.asarray(classes)[prob.argmax(1)]})
    for i, name in enumerate(classes):
        predictions[f"p({name})"] = prob[:, i].round(6)
    write_whole(out, predictions.to_csv(index=False).encode())
    counts = predictions["predicted"].value_counts().to_dict()
    listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
    console.print(f"{len(predictions)} rows ({escape(listed)}) in [bold]{escape(str(out))}[/]")


def ledger(
    file: Annotated[Path, typer.Argument(help="A site's or a node's privacy ledger.")],
    node: Annotated[str | None, typer.Option(help="Refuse it unless it is this node's.")] = None,
    new: Annotated[
        str | None, typer.Option(metavar="SITE", help="Make the ledger of a site, once.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="With --new: the most that all releases may cost.")
    ] = None,
    delta: Annotated[float, typer.Option(help="With --new: the same of delta.")] = 0.0,
    accountant: Annotated[
        str | None, typer.Option(help="With --new: basic, rdp or pld [default: pld with a delta].")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also how each release was made, and of which rows.")
    ] = False,
) -> None:
    """Show what a site has released and what is left of its privacy budget; --new makes one.

    The ledger of a site counts what all its charters, methods and states release. Keep it outside
    any state folder and never put an older copy in its place: neighbours would find out.
    """
    from peerwise.privacy import Ledger

    if new is not None:
        if file.exists():
            raise BadSetting(f"{file} is there already, and its budget never changes")
        how = accountant or ("pld" if delta > 0 else "basic")
        Ledger.open(file, node=new, epsilon=epsilon, delta=delta, accountant=how).close()
    elif epsilon is not None or delta or accountant is not None:
        raise BadSetting("--epsilon, --delta and --accountant are for --new SITE")
    if not file.exists():
        raise BadSetting(f"there is no ledger {file}; --new SITE makes one")
    with Ledger.open(file, node=node) as opened:
        rows, spent, left = opened.table(), opened.total(), opened.left()
        budget, name = opened.budget, opened.node
    console.print(_releases(rows, name))
    for receipt, line in rows.iterrows() if details else ():
        given: dict[str, object] = {**line["parameters"], "time": str(line["time"])[:19]}
        given["part"] = line["part"]
        facts = ", ".join(f"{k} {v}" for k, v in given.items() if v is not None)
        console.print(escape(f"{receipt}: {facts}"))
    for name, amount in (("budget", budget), ("spent", spent), ("left", left)):
        console.print(f"{name}: epsilon {amount.epsilon:.6g}, delta {amount.delta:.3g}")


def _releases(rows: Any, name: str) -> Table:
    """Releases in a table of 80 characters: what each cost, about what, how often it was sent."""
    title = f"Releases of {escape(name)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)
    for column in ("", "day", "noise", "epsilon", "delta", "sent"):
        left = column in ("day", "noise")
        table.add_column(column, no_wrap=True, justify="left" if left else "right")
    table.add_column("about", overflow="fold")
    for line in rows.itertuples():
        cost = f"{line.epsilon:.4g}", f"{line.delta:.2g}", str(line.sent)
        day = str(line.time)[:10]
        table.add_row(str(line.Index), day, escape(line.mechanism), *cost, escape(line.data))
    return table
