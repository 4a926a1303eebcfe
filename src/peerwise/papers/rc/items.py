"""Our models before and after calibration, beside scikit-learn's; and their gaps on trees."""

from collections.abc import Iterable

from peerwise.papers import items as paper
from peerwise.papers.items import Column, Dataset, Description, Scale

SETTINGS = paper.settings_of("rc")
MODELS, BASELINES = SETTINGS["models"], SETTINGS["baselines"]


def _compared() -> tuple[Column, ...]:
    columns = [
        Column(f"{model} {method} {metric}", metric, {"model": model, **options}, method)
        for metric in SETTINGS["measured"]
        for model in MODELS
        for method, options in SETTINGS["methods"].items()
    ]
    columns += [
        Column(f"{name} {metric}", metric, {}, name)
        for metric in SETTINGS["measured"]
        for name in BASELINES
    ]
    return tuple(columns)


def _trees() -> tuple[Column, ...]:
    columns = []
    for model in MODELS:
        for rounds in (64, 256):
            update = {**SETTINGS["tree"], "model": model, "run": {"rounds": rounds}}
            title = f"{model} {rounds}".replace("_", " ")
            columns.append(Column(f"{model} {rounds}", "test_gap", update, header=title))
    return tuple(columns)


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """Every tabular set at hand: the data folder's, then the bundled ones."""
    rows = []
    for entry in paper.available():
        if entry["kind"] != "tabular" or not entry["rows"]:
            continue
        drop = tuple(SETTINGS["leaks"].get(entry["name"], ()))
        note = f"without {', '.join(drop)}, which gives the label away" if drop else ""
        rows.append(
            Dataset(entry["name"], entry["name"], drop=drop, note=note, rows=int(entry["rows"]))
        )
    if chosen is not None:
        wanted = paper.named("tabular data set", chosen, [r.name for r in rows])
        return [r for r in rows if r.name in wanted]
    return [r for r in rows if r.name in SETTINGS["quick_sets"]] if quick else rows


def base(dataset: Dataset, scale: Scale) -> Description:
    """All rows on one node: 7 in 10 to learn from, up to a limit, the rest to test on."""
    rows = min(dataset.rows * 7 // 10, SETTINGS["quick_rows" if scale.quick else "rows"])
    return {
        "data": {"source": dataset.data, "drop": list(dataset.drop), "typing": "manifest"},
        "split": {"nodes": 1, "rows": rows},
        "run": {"rounds": 64 if scale.quick else 256, "repetitions": scale.times(5, 2)},
    }


COLUMNS = {"compare": _compared(), "trees": _trees()}

# What `peerwise reproduce rc/...` runs.
PAPER = paper.Paper.of("rc", datasets, columns=COLUMNS, base=base)
ITEMS = PAPER.items
