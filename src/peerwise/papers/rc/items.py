"""Our models before and after calibration, beside scikit-learn's; and their gaps on trees.

No paper's table: what a person wants to know before choosing a model.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.methods.baselines import BASELINES
from peerwise.papers.items import Column, Dataset, Item, Paper
from peerwise.study.results import Claim, Record
from peerwise.experiments.setting import Setting

__all__ = ["MODELS", "PAPER"]

# The models that are compared.
MODELS = ("naive_bayes", "shared_naive_bayes", "qda", "lda", "tan")
MEASURED = ("test_error", "test_log_loss", "train_soft_error")
ROWS, QUICK_ROWS = 10_000, 2_000  # training rows at most
QUICK_SETS = ("adult", "letter", "mushroom_secondary", "breast_cancer")
TREE = {"nodes": 50, "rows": 50, "typing": "distinct", "start": "uniform", "iterate": "last"}
LEAKS = {"smart_grid_augmented": ("stab",)}  # columns that give the label away


def _compared() -> tuple[Column, ...]:
    columns = [
        Column(f"{model} {method} {metric}", metric, {"model": model}, method)
        for metric in MEASURED
        for model in MODELS
        for method in ("ml", "rc")
    ]
    columns += [
        Column(f"{name} {metric}", metric, {}, name) for metric in MEASURED for name in BASELINES
    ]
    return tuple(columns)


def _trees() -> tuple[Column, ...]:
    columns = []
    for model in MODELS:
        for rounds in (64, 256):
            update = {**TREE, "model": model, "rounds": rounds}
            title = f"{model} {rounds}".replace("_", " ")
            columns.append(Column(f"{model} {rounds}", "test_gap", update, header=title))
    return tuple(columns)


# What can be run.
ITEMS: dict[str, Item] = {
    "compare": Item(
        "Models before and after calibration",
        "maximum likelihood → RC (lr .05, at most 256 iterations, the one of lowest soft error), "
        "beside scikit-learn's classifiers on one-hot categories; the same rows for all",
        _compared(),
        "before",
        (
            "Without categorical features TAN is naive Bayes; without numbers shared naive Bayes, "
            "QDA and LDA are.",
        ),
    ),
    "trees": Item(
        "CRC of every model on trees",
        "test gap to RC of the same model and rows, 50 nodes of 50 rows on a random tree, after "
        "64 and 256 rounds",
        _trees(),
        least=5_000,
    ),
}


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """Every tabular set at hand: the data folder's, then the bundled ones."""
    rows = []
    for entry in data.available():
        if entry["kind"] != "tabular":
            continue
        drop = LEAKS.get(entry["name"], ())
        note = f"without {', '.join(drop)}, which gives the label away" if drop else ""
        rows.append(
            Dataset(entry["name"], entry["name"], drop=drop, note=note, rows=int(entry["rows"]))
        )
    if chosen is not None:
        chosen = list(chosen)
        known = [r.name for r in rows]
        for name in chosen:
            if name not in known:
                raise UnknownName("tabular data set", name, known)
        return [r for r in rows if r.name in chosen]
    return [r for r in rows if r.name in QUICK_SETS] if quick else rows


def base(dataset: Dataset, quick: bool = False, repetitions: int | None = None) -> Setting:
    """All rows on one node: 7 in 10 to learn from, up to a limit, the rest to test on."""
    most = QUICK_ROWS if quick else ROWS
    update: dict[str, Any] = {
        "rows": min(dataset.rows * 7 // 10, most),
        "start": "ml",
        "iterate": "best",
        "rounds": 64 if quick else 256,
        "repetitions": repetitions or (2 if quick else 5),
    }
    return Setting(data=dataset.data, drop=dataset.drop, typing="manifest", nodes=1, **update)


def _found(records: list[Record]) -> dict[tuple[str, str], float]:
    return {
        (r.dataset, str(r.setting["column"])): r.value
        for r in records
        if r.item == "compare" and r.value is not None
    }


def claims(records: list[Record]) -> list[Claim]:
    """What the comparison says, with the exceptions named."""
    found = _found(records)
    sets = list(dict.fromkeys(name for name, _ in found))
    if not sets:
        return []
    made = []
    for metric, what in (
        ("train_soft_error", "training soft error"),
        ("test_error", "test error"),
        ("test_log_loss", "test log-loss"),
    ):
        pairs: dict[str, tuple[float, float]] = {}
        for name in sets:
            for model in MODELS:
                before = found.get((name, f"{model} ml {metric}"))
                after = found.get((name, f"{model} rc {metric}"))
                if before is not None and after is not None:
                    pairs[f"{model} on {name}"] = before, after
        odd = [name for name, (before, after) in pairs.items() if not after < before]
        less = f"; not: {', '.join(odd)}" if odd else ""
        made.append(
            Claim(
                name=f"rc-lowers-{metric}",
                claim=f"Calibration lowers the {what} of every model on every set",
                rule="RC's mean is below maximum likelihood's, for each model and set",
                ours=f"{len(pairs) - len(odd)} of {len(pairs)}{less}",
                paper="",
                held=not odd,
            )
        )
    best = {
        name: min(
            found[name, f"{m} rc test_error"]
            for m in MODELS
            if (name, f"{m} rc test_error") in found
        )
        for name in sets
        if any((name, f"{m} rc test_error") in found for m in MODELS)
    }
    rival = {n: found.get((n, "logistic_regression test_error"), np.nan) for n in best}
    worse = [n for n in best if best[n] > rival[n] + 0.01]
    made.append(
        Claim(
            name="best-of-ours",
            claim="The best calibrated model is as good as logistic regression",
            rule="its mean test error is at most 0.01 higher, on every set",
            ours=f"{len(best) - len(worse)} of {len(best)}"
            + (f"; not: {', '.join(worse)}" if worse else ""),
            paper="",
            held=not worse,
        )
    )
    return made


def _no_paper(item: str, dataset: Dataset, column: str) -> Any:
    return None


# What `peerwise reproduce rc/...` runs.
PAPER = Paper("rc", ITEMS, datasets, base, claims, _no_paper)
