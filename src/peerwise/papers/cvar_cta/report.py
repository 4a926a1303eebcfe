"""Numbers and tables of the CVaR-CTA experiments.

The paper prints no numbers, so that there is no column of its own: its claims are what is compared.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from peerwise.papers.cvar_cta.figures import GRAPHS, NAMES, SETS, by_variant
from peerwise.papers.cvar_cta.items import stage_of
from peerwise.papers.items import Done
from peerwise.papers.records import by_fields, record_of
from peerwise.report.grid import Grid, laid, mean_text
from peerwise.study.results import Record

FEW = 3  # runs: of two, an interval says nothing
COLUMNS = {
    "accuracy": "accuracy",
    "worst_node": "worst\nnode",
    "worst_class": "worst\nclass",
    "other_stage": "other\nstage",
    "consensus": "spread",
}


def _record(
    item: str, dataset: str, metric: str, values: Any, variant: str, **setting: Any
) -> Record:
    of = {"method": variant.split()[0].removesuffix("/a"), "variant": variant, **setting}
    return record_of("cvar-cta", item, dataset, metric, values, **of)


def networks(item: str, done: Done) -> Iterator[Record]:
    """Accuracy after the last round: mean, worst node and class; how far models are apart."""
    for (dataset, graph, q), variant, arrays in by_variant(done):
        stage, other = stage_of(variant), "" if stage_of(variant) else "combined_"
        last = arrays[f"{stage}accuracy"][:, -1]
        for metric, values in (
            ("accuracy", last.mean(-1)),
            ("worst_node", last.min(-1)),
            ("worst_class", arrays[f"{stage}class_accuracy"][:, -1].min(-1)),
            ("other_stage", arrays[f"{other}accuracy"][:, -1].mean(-1)),
            ("consensus", arrays[f"{stage}consensus"][:, -1]),
        ):
            of = {"graph": graph, "q": q}
            yield _record(item, dataset, metric, values, variant, **of)


def rare(item: str, done: Done) -> Iterator[Record]:
    """Accuracy of the nodes that are heard on the class that they have not, and on all."""
    for name, arrays in done.items():
        graph, _, variant = name.partition("|")
        its_class = arrays["class_accuracy_of_others"][:, -1, 0]
        whole = arrays["accuracy"][:, -1, 1:].mean(-1)
        for metric, values in (("rare_class", its_class), ("accuracy", whole)):
            yield _record(item, "mnist", metric, values, variant, graph=graph)


def losses(item: str, done: Done) -> Iterator[Record]:
    """The gap of CRC, or the accuracy of a net, after the last round."""
    for (dataset, graph, q), variant, arrays in by_variant(done):
        of = {"graph": graph, "q": q}
        metric = "gap" if "gap" in arrays else "accuracy"
        values = arrays["gap"] if metric == "gap" else arrays["accuracy"][:, -1]
        yield _record(item, dataset, metric, values.mean(-1), variant, **of)


def _value(record: Record | None, interval: bool = False) -> str:
    digits = ".2g" if record and record.metric == "consensus" else ".3f"
    return mean_text(record, digits, FEW if interval else None)


def network_tables(item: str, records: Sequence[Record]) -> list[Grid]:
    """A table for each data set, graph and arrival probability; an interval of accuracy alone."""
    cells = by_fields(records, "dataset", "graph", "q", "variant", "metric")
    grids = []
    for place in dict.fromkeys(key[:3] for key in cells):
        dataset, graph, q = place

        def text(variant: str, metric: str, place: tuple[Any, ...] = place) -> str:
            return _value(cells.get((*place, variant, metric)), metric == "accuracy")

        variants = {key[3]: NAMES[key[3]] for key in cells if key[:3] == place}
        head = f"{SETS[dataset]}, {GRAPHS[graph]}, q = {q:g}"
        grids.append(laid(head, variants, COLUMNS, text))
    return grids


def rare_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """Accuracy on the class that one node holds and on all, by method and graph."""
    cells = by_fields(records, "variant", "graph", "metric")
    measured = {"rare_class": "its class", "accuracy": "all"}
    graphs = dict.fromkeys(key[1] for key in cells)
    columns = {(g, m): f"{GRAPHS[g]}\n{text}" for g in graphs for m, text in measured.items()}
    variants = {v: NAMES[v] for v, _, _ in cells}
    return [laid("method", variants, columns, lambda v, at: _value(cells.get((v, *at)), True))]


def loss_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """By share of messages lost."""
    cells = by_fields(records, "graph", "variant", "q")
    columns = {key[:2]: f"{GRAPHS[key[0]]}\n{NAMES[key[1]]}" for key in cells}
    lost = {q: f"{1 - q:.0%}" for q in sorted({key[2] for key in cells}, reverse=True)}
    return [laid("lost", lost, columns, lambda q, at: _value(cells.get((*at, q)), True))]
