"""Commands for data owners: whether to join, predictions of a model file, a privacy ledger."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import Data, Out, console, errors, progress, use_data
from peerwise.cli.peer.options import Allow
from peerwise.cli.reading import Columns, MissingWord, Target, column_kinds, tell_reading
from peerwise.errors import BadSetting


def join(
    source: Annotated[str, typer.Argument(help="A data set's name, or a CSV or Parquet file.")],
    site: Annotated[str, typer.Option(help="The column that names the site of a row.")],
    target: Target = None,
    positive: Annotated[
        str | None, typer.Option(help="The class of interest [default: the last of two].")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="What decides: auroc, auprc, balanced_accuracy, sensitivity, log_loss, ..."
        ),
    ] = "auroc",
    threshold: Annotated[
        float, typer.Option(help="A row is positive from this probability on.")
    ] = 0.5,
    by: Annotated[
        str | None, typer.Option(help="Columns that define subgroups, separated by commas.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="The model: see `peerwise list models`.")
    ] = "naive_bayes",
    topology: Annotated[
        str, typer.Option(help="The graph: see `peerwise list topologies`.")
    ] = "random_tree",
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the network.")] = 0,
    column: Columns = None,
    missing_word: MissingWord = None,
    data: Data = None,
    out: Out = None,
) -> None:
    """Should my site join? Compare each site's own model with the network's, on its own rows.

    Every site holds out 30 % of its rows for the comparison. The gain comes with a 95 % interval.
    A second table reports how good the network's models are for every site and subgroup.
    """
    from peerwise.data.kinds import WORDS
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
    tell_reading(joined.reading)
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
        typer.Argument(help="A model file from `peerwise peer export` or Statistics.save."),
    ],
    rows: Annotated[
        Path, typer.Argument(help="A CSV or Parquet file; columns are matched by name.")
    ],
    out: Annotated[Path, typer.Option(help="CSV file to write.")] = Path("predictions.csv"),
    allow: Allow = None,
    missing_word: MissingWord = None,
) -> None:
    """Predict the class of every row of a file, with the probability of each class.

    Categories are compared as text, exactly as in the file. A model of statistics integrates out
    empty cells and categories that it does not know; a model that allows no gaps refuses them, but
    for one that was learnt under a privacy budget: there cells count as they did in training.
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
        x, unknown = learnt.read(frame, words, str(rows))
        log_prob, classes = learnt.of_rows(x), learnt.classes
    else:
        statistics = Statistics.load(model)
        schema = replace(statistics.schema, missing=True)
        x, unknown = read_rows(frame, schema, words, str(rows))
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


_ACCOUNTANTS = {"pld": "privacy loss distributions (pld)", "rdp": "Rényi divergences (rdp)"}


def ledger(
    file: Annotated[Path, typer.Argument(help="A site's or a node's privacy ledger.")],
    node: Annotated[
        str | None, typer.Option(help="Fail unless the ledger belongs to this node.")
    ] = None,
    new: Annotated[
        str | None, typer.Option(metavar="SITE", help="Create the ledger of a site, once.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="With --new: the epsilon that all releases together may cost."),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="With --new: the delta that all releases together may cost.")
    ] = 0.0,
    accountant: Annotated[
        str | None, typer.Option(help="With --new: basic, rdp or pld [default: pld with a delta].")
    ] = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Also show how each release was made."),
    ] = False,
) -> None:
    """Show a site's privacy ledger: what it has released and what is left; --new creates one.

    The ledger counts what all charters, methods and states of a site release. Keep it outside any
    state folder. Never replace it by an older copy: neighbours would refuse this
    site's letters.
    """
    import pandas as pd

    from peerwise.peer.site import to_show
    from peerwise.privacy import Ledger

    if new is not None:
        if file.exists():
            raise BadSetting(f"{file} is there already, and its budget cannot change")
        if epsilon is None:
            raise BadSetting("a new ledger needs the site's cap: give --epsilon, and --delta too")
        how = accountant or ("pld" if delta > 0 else "basic")
        Ledger.open(file, node=new, epsilon=epsilon, delta=delta, accountant=how).close()
    elif epsilon is not None or delta or accountant is not None:
        raise BadSetting("--epsilon, --delta and --accountant are for --new SITE")
    if not file.exists():
        raise BadSetting(f"there is no ledger {file}; --new SITE creates one")
    with Ledger.open(file, node=node) as opened:
        rows, spent, left = opened.table(), opened.total(), opened.left()
        rows["sent"] = [_handed_over(opened, i, p) for i, p in rows["parameters"].items()]
        budget, name, accountant = opened.budget, opened.node, opened.accountant
    console.print(_releases(rows, name))
    for receipt, line in rows.iterrows() if details else ():
        given: dict[str, object] = {
            **to_show(line["parameters"]),
            "time": str(line["time"])[:19],
        }
        given["part"] = None if pd.isna(line["part"]) else line["part"]
        facts = ", ".join(f"{k} {v}" for k, v in given.items() if v is not None)
        console.print(escape(f"{receipt}: {facts}"))
    for sentence in _units(rows):
        console.print(escape(sentence), highlight=False)
    if rows["part"].notna().any():
        console.print("Numbers of rows are exact: this account is for the site alone.")
    for name, amount in (("budget", budget), ("spent", spent), ("left", left)):
        console.print(f"{name}: epsilon {amount.epsilon:.6g}, delta {amount.delta:.3g}")
    if rows["part"].nunique() > 1:
        console.print("Releases about different parts of the rows cost as much as the largest.")
    if accountant != "basic" and len(rows):
        console.print(
            f"Releases are added up by {_ACCOUNTANTS[accountant]}: spent is what all of them "
            "together cost at the whole delta, never more than their sum."
        )


def _handed_over(ledger: Any, receipt: Any, parameters: Any) -> int:
    """How often a release was handed to somebody; a peer's notes to itself are not counted."""
    from peerwise.peer.site import LEFT

    to = ledger.receivers(int(receipt))
    return sum(name.startswith(LEFT) for name in to) if "state" in parameters else len(to)


def _units(rows: Any) -> list[str]:
    """What the epsilon of releases is for, a row or a person, in sentences."""
    by_unit: dict[str | None, list[int]] = {}
    for receipt, parameters in rows["parameters"].items():
        by_unit.setdefault(parameters.get("unit"), []).append(int(receipt))
    sentences = []
    for unit, receipts in by_unit.items():
        which = "" if len(by_unit) == 1 else f" of {_ranges(receipts)}"
        does = f"is for one {unit}" if unit else "is for what the release's author says"
        sentences.append(f"Epsilon{which} {does}.")
    return sentences


def _ranges(numbers: list[int]) -> str:
    """Rising numbers in words: 1 to 3, 5."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in pairs)


def _releases(rows: Any, name: str) -> Table:
    """Releases in a table of 80 characters: what each cost, about what, how often it was sent."""
    import pandas as pd

    title = f"Releases of {escape(name)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)
    for column in ("", "day", "noise", "epsilon", "delta", "sent"):
        left = column in ("day", "noise")
        table.add_column(column, no_wrap=True, justify="left" if left else "right")
    table.add_column("about", overflow="fold")
    for line in rows.itertuples():
        cost = f"{line.epsilon:.4g}", f"{line.delta:.2g}", str(line.sent)
        day = str(line.time)[:10]
        about = line.data if pd.isna(line.part) else f"{line.data}, {line.group} {line.part}"
        table.add_row(str(line.Index), day, escape(line.mechanism), *cost, escape(about))
    return table
