"""The command line."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from peerwise import __version__
from peerwise.cli.network import network_app
from peerwise.cli.peer import peer_app
from peerwise.errors import BadSetting, PeerwiseError, UnknownName

app = typer.Typer(
    help="Classifiers learnt between neighbours, with no server and no shared rows.\n\n"
    "Start with `peerwise demo`. Then `peerwise list methods`, `peerwise reproduce crc/table-3`, "
    "or an experiment of your own: `peerwise run my.toml`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
data_app = typer.Typer(help="Look at the data sets at hand.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(network_app, name="network")
app.add_typer(peer_app, name="peer")

console = Console()
errors = Console(stderr=True)

Out = Annotated[Path | None, typer.Option(help="Folder for the results [default: runs/NAME].")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes to use [default: one a core].")]
Device = Annotated[str, typer.Option(help="auto, cpu or gpu.")]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder of data sets with a MANIFEST.json [default: PEERWISE_DATA]."),
]


def _version(show: bool) -> None:
    if show:
        console.print(f"peerwise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _use_device(device: str) -> None:
    """Choose where arrays live, before the first of them exists; worker processes do as told."""
    import jax

    if device not in ("auto", "cpu", "gpu"):
        raise UnknownName("device", device, ["auto", "cpu", "gpu"])
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        jax.config.update("jax_platforms", "cpu")
    elif device == "gpu":
        try:
            jax.devices("gpu")
        except RuntimeError:
            raise BadSetting(
                "there is no GPU that jax can use here; install jax with CUDA (see its "
                "documentation), or leave --device out"
            ) from None
    if jax.default_backend() == "gpu":  # the same draws, in a third of the time to compile
        jax.config.update("jax_threefry_gpu_kernel_lowering", True)


def _use_data(folder: Path | None) -> None:
    if folder is not None:
        os.environ["PEERWISE_DATA"] = str(folder)  # worker processes inherit it


def _failures(failures: dict[str, str]) -> None:
    for what, why in failures.items():
        errors.print(f"[bold red]failed[/] {escape(what)}: {escape(why)}")
    if failures:
        raise typer.Exit(1)


@app.command()
def demo(
    nodes: Annotated[int, typer.Option(min=2, help="Size of the network.")] = 24,
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 96,
    topology: Annotated[str, typer.Option(help="See `peerwise list topologies`.")] = "random_tree",
    seed: Annotated[int, typer.Option(min=0, help="Another network, another split.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("peerwise-demo.png"),
) -> None:
    """A network of nodes learns handwritten digits while you watch.

    Every node holds 1200 / NODES images and talks to its neighbours only. Needs no data folder.
    """
    from peerwise.study.demo import demo as run_demo
    from peerwise.experiments.setting import setting_from
    from peerwise.report import figures

    os.environ.pop("PEERWISE_DATA", None)  # the bundled digits, whatever folder is set
    setting = setting_from(
        {
            "data": "digits",
            "nodes": nodes,
            "rows": max(1200 // nodes, 1),
            "rounds": rounds,
            "topology": topology,
            "seed": seed,
            "repetitions": 1,
        },
        "demo",
    )
    console.print(
        f"{nodes} nodes hold {setting.rows} images each; each tells its neighbours statistics, "
        "never an image."
    )
    with _progress("learning") as told:
        shown = run_demo(setting, lambda done: told(done, rounds))
    crc = float(shown.error[-1].mean())
    pooled = shown.levels["calibrated, pooled (RC)"]
    table = Table(title="Test error on digits nobody trained on", title_justify="left")
    table.add_column("who learns")
    table.add_column("test error", justify="right")
    table.add_column("std over nodes", justify="right")
    table.add_column("rows leave home?")
    rows = [
        ("max. likelihood, pooled", "yes"),
        ("calibrated, pooled (RC)", "yes"),
        ("each node alone", "no"),
    ]
    for name, leaves in rows:
        std = f"{shown.spread[name]:.3f}" if name == "each node alone" else ""
        table.add_row(name, f"{shown.levels[name]:.3f}", std, leaves)
    table.add_row(
        "neighbours together (CRC)",
        f"{crc:.3f}",
        f"{shown.error[-1].std():.3f}",
        "no",
        style="bold green",
    )
    console.print(table)
    console.print(
        f"Gap to pooling everything: [bold]{crc - pooled:+.3f}[/] after {rounds} rounds; "
        f"{shown.messages} messages of {shown.bytes_per_link / 1024:.1f} KiB; "
        f"guards acted {shown.guards} times."
    )
    figure = figures.network_and_curves(
        shown.graph, shown.error[-1], shown.rounds, shown.error, shown.levels,
        f"{nodes} nodes learn handwritten digits from their neighbours' statistics",
    )  # fmt: skip
    console.print(f"Picture: [bold]{figures.save(figure, out)}[/]")


@app.command()
def reproduce(
    item: Annotated[
        str,
        typer.Argument(help="e.g. crc/table-4, crc/all, rc/compare: see `peerwise list items`."),
    ],
    datasets: Annotated[
        str | None, typer.Option(help="Only these, with commas: adult,letter.")
    ] = None,
    reps: Annotated[
        int | None,
        typer.Option(min=1, help="Repetitions, trials or replicas [default: the item's own]."),
    ] = None,
    data: Data = None,
    out: Out = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Few data sets, repetitions (50 trials) and nodes."),
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Run nothing: show what the folder has so far.")
    ] = False,
    workers: Workers = None,
    device: Device = "auto",
) -> None:
    """Run a table or figure of a paper and set our numbers beside the paper's.

    What is done is kept in the folder: an interrupted run goes on where it stopped.
    """
    from peerwise.papers.reproduce import choose
    from peerwise.papers.reproduce import reproduce as run_items

    paper, items = choose(item)
    _use_device(device)
    _use_data(data)
    folder = out or Path("runs") / (item.replace("/", "-") + ("-quick" if quick else ""))
    chosen = [name.strip() for name in datasets.split(",")] if datasets else None
    with _progress(item) as told:
        found = run_items(
            paper,
            items,
            folder,
            chosen=chosen,
            repetitions=reps,
            quick=quick,
            workers=workers,
            progress=told,
            only_kept=kept,
        )
    _show_paper(folder)
    _failures(found.failures)


def _show_paper(folder: Path) -> None:
    from peerwise.papers.show import show

    for figure in show(folder, console):
        console.print(f"Figure: {figure}")
    console.print(f"Results: [bold]{folder}[/] (results.json, environment.json, cells/)")


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="A TOML file; a list stands for a sweep.")],
    data: Data = None,
    out: Out = None,
    workers: Workers = None,
    device: Device = "auto",
    show_keys: Annotated[
        bool, typer.Option("--keys", help="List every key with its default and stop.")
    ] = False,
) -> None:
    """Run an experiment, a sweep or a comparison of your own.

    Example:

        data = "digits"
        method = ["crc", "isolated", "rc", "ml"]
        nodes = 20
        topology = "ring"
    """
    from peerwise.study.sweep import read_config, sweep

    if show_keys:
        _show_keys()
        return
    _use_device(device)
    _use_data(data)
    folder = out or Path("runs") / config.stem
    given = read_config(config)
    with _progress(config.stem) as told:
        found = sweep(given, folder, workers=workers, progress=told)
    _show_sweep(folder)
    _failures(found.failures)


def _show_keys() -> None:
    from peerwise.experiments.setting import Setting

    table = Table(title="Keys of a configuration", title_justify="left")
    for name in ("key", "default", "meaning"):
        table.add_column(name)
    for name, field in Setting.model_fields.items():
        table.add_row(name, escape(repr(field.default)), escape(field.description or ""))
    console.print(table)


def _show_sweep(folder: Path) -> None:
    from peerwise.report.run import show

    for figure in show(folder, console):
        console.print(f"Figure: {figure}")
    console.print(f"Results: [bold]{folder}[/] (results.json, history.parquet, environment.json)")


@app.command()
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
    data: Data = None,
    out: Out = None,
) -> None:
    """Should my site join? Each site's own model against the network's, on its own rows.

    Every site keeps 30 % of its rows to judge by. The gain comes with a 95 % interval; below, what
    the network's models are worth for every site and subgroup.
    """
    from peerwise.study.join import join as compare_sites
    from peerwise.report import figures, sites

    _use_data(data)
    with _progress("two networks learn"):
        found = compare_sites(
            source,
            site,
            target=target,
            positive=positive,
            metric=metric,
            threshold=threshold,
            by=[c.strip() for c in by.split(",")] if by else (),
            seed=seed,
            model=model,
            topology=topology,
            rounds=rounds,
        )
    for table in sites.tables(found):
        console.print(table)
    folder = out or Path("runs") / f"join-{Path(source).stem}"
    sites.write(found, folder)
    console.print(f"Figure: {figures.save(figures.gains(found), folder / 'gains.png')}")
    console.print(f"Results: [bold]{folder}[/] (verdicts.csv, report.csv, confusion.csv)")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    markdown: Annotated[
        Path | None, typer.Option(help="Write a reproduction's tables to this Markdown file.")
    ] = None,
) -> None:
    """Show the tables and draw the figures of a run again."""
    from peerwise.checkpoint import write_whole
    from peerwise.study.results import read_folder
    from peerwise.papers.markdown import page

    if not folder.is_dir():
        raise BadSetting(f"there is no folder {folder}; runs are in runs/ unless --out said else")
    records, _, _ = read_folder(folder)
    if not records or records[0].paper is not None:
        _show_paper(folder)
        if markdown is not None:
            write_whole(markdown, page(folder).encode())
            console.print(f"Markdown: {markdown}")
    else:
        _show_sweep(folder)


@app.command()
def predict(
    model: Annotated[
        Path,
        typer.Argument(help="A model file: of `peerwise peer export`, or of Statistics.save."),
    ],
    rows: Annotated[Path, typer.Argument(help="A CSV or Parquet file; columns go by name.")],
    out: Annotated[Path, typer.Option(help="Where the predictions go.")] = Path("predictions.csv"),
) -> None:
    """Say the class of every row of a file, and how probable each class is.

    What is empty, and a category that the model does not know, is integrated out by a model of
    statistics, and refused by one that allows no gaps.
    """
    import numpy as np
    import pandas as pd

    from peerwise.checkpoint import write_whole
    from peerwise.data.formats import read_columns, read_frame
    from peerwise.models.algebra import Statistics
    from peerwise.peer.model_file import is_model, load_model

    frame = read_frame(rows, *read_columns(rows))
    if is_model(model):
        learnt = load_model(model)
        prob, classes = np.exp(learnt.log_proba(frame)), learnt.classes
    else:
        statistics = Statistics.load(model)
        prob = np.exp(statistics.to_classifier().log_proba(frame))
        classes = statistics.schema.classes
    told = pd.DataFrame({"predicted": np.asarray(classes)[prob.argmax(1)]})
    for i, name in enumerate(classes):
        told[f"p({name})"] = prob[:, i].round(6)
    write_whole(out, told.to_csv(index=False).encode())
    counts = told["predicted"].value_counts().to_dict()
    said = ", ".join(f"{name}: {count}" for name, count in counts.items())
    console.print(f"{len(told)} rows ({escape(said)}) in [bold]{out}[/]")


@app.command()
def ledger(
    file: Annotated[Path, typer.Argument(help="A node's privacy ledger.")],
    node: Annotated[str | None, typer.Option(help="Refuse it unless it is this node's.")] = None,
) -> None:
    """Show what a node has released and what is left of its privacy budget."""
    from peerwise.privacy import Ledger

    if not file.exists():
        raise BadSetting(f"there is no ledger {file}")
    with Ledger.open(file, node=node) as opened:
        rows, spent, left = opened.table(), opened.total(), opened.left()
        budget, name = opened.budget, opened.node
    rows["time"] = [str(t)[:19] for t in rows["time"]]
    rows["parameters"] = [
        ", ".join(f"{k} {v}" for k, v in told.items()) for told in rows["parameters"]
    ]
    rows = rows.astype(object).where(rows.notna(), "-")
    table = Table(title=f"Releases of {escape(name)}", title_justify="left", title_style="bold")
    for name in rows.columns:
        table.add_column(str(name).replace("_", " "))
    for line in rows.itertuples(index=False):
        table.add_row(*(escape(str(value)) for value in line))
    console.print(table)
    for name, found in (("budget", budget), ("spent", spent), ("left", left)):
        console.print(f"{name}: epsilon {found.epsilon:.6g}, delta {found.delta:.3g}")


@app.command(name="list")
def list_(
    kind: Annotated[
        str,
        typer.Argument(
            help="methods, models, nets, topologies, channels, partitions, sizes, shifts, rules, "
            "metrics, items."
        ),
    ] = "",
) -> None:
    """Everything that can be named, with one line each.

    Your own method, topology or metric is named as `module:function` wherever a name is expected.
    """
    from peerwise.experiments import names
    from peerwise.papers.reproduce import list_items

    known = [*names.KINDS, "items"]
    if kind and kind not in known:
        raise UnknownName("kind of things", kind, known)
    kinds = [kind] if kind else known
    for one in kinds:
        table = Table(title=one, title_justify="left", show_header=False, title_style="bold")
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is")
        rows = list_items() if one == "items" else names.listed(one)
        for name, line in rows:
            table.add_row(name, escape(line))
        console.print(table)


@data_app.command("list")
def data_list(data: Data = None) -> None:
    """The data sets at hand: those of the folder and those that come with scikit-learn."""
    from peerwise import data as sets

    _use_data(data)
    table = Table(title="Data sets", title_justify="left")
    for name in ("name", "kind", "rows", "features", "classes", "source"):
        table.add_column(
            name, justify="right" if name in ("rows", "features", "classes") else "left"
        )
    for entry in sets.available():
        table.add_row(
            *(str(entry[k]) for k in ("name", "kind", "rows", "features", "classes", "source"))
        )
    console.print(table)
    if not os.environ.get("PEERWISE_DATA"):
        console.print(
            "For more, set PEERWISE_DATA or --data to a folder with a MANIFEST.json, or give"
        )
        console.print("the path of a CSV or Parquet file, or openml:NAME when online.")


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A name of `peerwise data list`, or a file.")],
    target: Annotated[str | None, typer.Option(help="The column to predict (files).")] = None,
    typing: Annotated[str, typer.Option(help="distinct or manifest.")] = "distinct",
    data: Data = None,
) -> None:
    """How a data set is read: its features, what they are taken to be, its classes."""
    import numpy as np

    from peerwise import data as sets

    _use_data(data)
    loaded = sets.load(name, target=target)
    encoded = sets.encode(loaded, typing=typing)
    schema = encoded.schema
    counts = np.bincount(encoded.y, minlength=len(schema.classes))
    shown = ", ".join(f"{c}: {n}" for c, n in list(zip(schema.classes, counts, strict=True))[:12])
    more = f" and {len(schema.classes) - 12} more" if len(schema.classes) > 12 else ""
    console.print(f"[bold]{loaded.name}[/]: {len(encoded.y)} rows, target {schema.target}")
    console.print(f"classes: {shown}{more}")
    table = Table(title=f"{len(schema.features)} features ({typing} typing)", title_justify="left")
    for column in ("feature", "kind", "values"):
        table.add_column(column)
    for i, feature in enumerate(schema.features[:40]):
        if feature.kind == "categorical":
            values = f"{len(feature.categories)}: " + ", ".join(feature.categories[:8])
        else:
            x = encoded.x[:, i]
            values = f"{np.nanmin(x):g} to {np.nanmax(x):g}"
            values += f" (codes of {len(feature.categories)} names)" if feature.categories else ""
        table.add_row(feature.name, feature.kind, escape(values))
    console.print(table)
    if len(schema.features) > 40:
        console.print(f"and {len(schema.features) - 40} more")
    for column, reason in encoded.dropped[:10]:
        console.print(f"left out: {column} ({reason})")
    if loaded.note:
        console.print(f"[dim]{escape(loaded.note)}[/]")


def main() -> None:
    """Run the command line; a user's mistake is one line, not a traceback."""
    try:
        app(standalone_mode=False)
    except PeerwiseError as error:
        errors.print(f"[bold red]error[/]: {escape(str(error))}")
        sys.exit(2)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except typer.Abort:
        errors.print("stopped")
        sys.exit(130)
    except KeyboardInterrupt:
        errors.print(
            "\nstopped; what was finished is kept, and the same command goes on from there"
        )
        sys.exit(130)
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of the command line itself
            errors.print(f"[bold red]error[/]: {escape(error.format_message())}")
            errors.print("try --help")
            sys.exit(2)
        raise
