"""Our models before and after calibration, beside scikit-learn's; and their gaps on trees.

No paper's table: what a person wants to know before choosing a model.
"""

from collections.abc import Iterable

from peerwise.papers.items import (
    Column,
    Dataset,
    Description,
    Item,
    Paper,
    Scale,
    Table,
    named,
    of_columns,
)

# The models that are compared.
MODELS = ("naive_bayes", "shared_naive_bayes", "qda", "lda", "tan")
# Classifiers of scikit-learn beside them.
BASELINES = ("gaussian_nb", "logistic_regression", "sklearn_lda", "sklearn_qda")
MEASURED = ("test_error", "test_log_loss", "train_soft_error")
ROWS, QUICK_ROWS = 10_000, 2_000  # training rows at most
QUICK_SETS = ("adult", "letter", "mushroom_secondary", "breast_cancer")
# How models are learnt: by their options, or from the start that maximum likelihood gives.
METHODS: dict[str, Description] = {"ml": {}, "rc": {"method": {"start": "ml", "iterate": "best"}}}
TREE: Description = {"data": {"typing": "distinct"}, "split": {"nodes": 50, "rows": 50}}
LEAKS = {"smart_grid_augmented": ("stab",)}  # columns that give the label away


def _compared() -> tuple[Column, ...]:
    columns = [
        Column(f"{model} {method} {metric}", metric, {"model": model, **options}, method)
        for metric in MEASURED
        for model in MODELS
        for method, options in METHODS.items()
    ]
    columns += [
        Column(f"{name} {metric}", metric, {}, name) for metric in MEASURED for name in BASELINES
    ]
    return tuple(columns)


def _trees() -> tuple[Column, ...]:
    columns = []
    for model in MODELS:
        for rounds in (64, 256):
            update = {**TREE, "model": model, "run": {"rounds": rounds}}
            title = f"{model} {rounds}".replace("_", " ")
            columns.append(Column(f"{model} {rounds}", "test_gap", update, header=title))
    return tuple(columns)


# Heads that leave room for numbers; "sk" is scikit-learn.
NAMES = {
    "model": {
        "naive_bayes": "NB", "shared_naive_bayes": "NB, shared var.", "qda": "QDA", "lda": "LDA",
        "tan": "TAN", "gaussian_nb": "NB (sk)", "sklearn_qda": "QDA (sk)",
        "sklearn_lda": "LDA (sk)", "logistic_regression": "log. reg. (sk)",
    },
    "metric": {
        "test_error": "Test error",
        "test_log_loss": "Test log-loss",
        "train_soft_error": "Training soft error, which calibration lowers",
    },
}  # fmt: skip
_BEFORE = Table(("dataset",), ("model|method",), ("metric",), "{metric}", joined="method", best=True,
                digits=dict.fromkeys(MEASURED, ".3fz"), least=None)  # fmt: skip

# What can be run.
ITEMS: dict[str, Item] = {
    "compare": of_columns(
        "Models before and after calibration",
        "maximum likelihood → RC (lr .05, at most 256 iterations, the one of lowest soft error), "
        "beside scikit-learn's classifiers on one-hot categories; the same rows for all",
        _compared(),
        tables=(_BEFORE,),
        figure="",
        legend="Without categorical features TAN is naive Bayes; without numbers shared naive "
        "Bayes, QDA and LDA are",
    ),
    "trees": of_columns(
        "CRC of every model on trees",
        "test gap to RC of the same model and rows, 50 nodes of 50 rows on a random tree, after "
        "64 and 256 rounds",
        _trees(),
        least=5_000,
    ),
}


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """Every tabular set at hand: the data folder's, then the bundled ones."""
    from peerwise import data

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
        wanted = named("tabular data set", chosen, [r.name for r in rows])
        return [r for r in rows if r.name in wanted]
    return [r for r in rows if r.name in QUICK_SETS] if quick else rows


def base(dataset: Dataset, scale: Scale) -> Description:
    """All rows on one node: 7 in 10 to learn from, up to a limit, the rest to test on."""
    rows = min(dataset.rows * 7 // 10, QUICK_ROWS if scale.quick else ROWS)
    return {
        "data": {"source": dataset.data, "drop": list(dataset.drop), "typing": "manifest"},
        "split": {"nodes": 1, "rows": rows},
        "run": {"rounds": 64 if scale.quick else 256, "repetitions": scale.times(5, 2)},
    }


# What `peerwise reproduce rc/...` runs.
PAPER = Paper("rc", ITEMS, datasets, NAMES, base=base)
