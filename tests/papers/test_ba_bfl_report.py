"""Tables and figures of the BA-BFL experiments."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from rich.console import Console

from peerwise import data
from peerwise.papers import show as paper
from peerwise.papers.ba_bfl import items as ba_bfl
from peerwise.papers.items import Number, Scale
from peerwise.papers.records import record_of
from peerwise.papers.reproduce import reproduce
from peerwise.papers.show import item_lines, page
from peerwise.papers.show import shown as shown_item
from peerwise.study.jobs import Task
from peerwise.study.store import Store

pytestmark = pytest.mark.full  # test_committed_results.py has its tables


def _record(item, dataset, metric, values, **setting):
    return record_of(ba_bfl.PAPER, item, Number(dataset, metric, values, setting))


def _figure(item, records):
    done = {f"{r.dataset} {r.setting['layers']} {r.setting['rule']}": {} for r in records}
    return ba_bfl.PAPER.figure(item, done, records)


@pytest.fixture(scope="module")
def patch():
    """For all tests here, which share a folder."""
    with pytest.MonkeyPatch.context() as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory, patch):
    """A run folder whose cells are made up, but for one that is missing."""
    tmp_path = tmp_path_factory.mktemp("ba_bfl")
    here = [{"name": name} for name in ba_bfl.SETS]
    patch.setattr(data, "available", lambda: here)
    rng = np.random.default_rng(0)

    def run(self, checkpoint=None):
        if self.function.endswith("deal"):
            return {"counts": rng.integers(0, 100, (10, 10))}
        if self.function.endswith("pace"):
            return {"seconds_a_round": np.array(0.3)}
        merged = rng.uniform(0.1, 0.9, (3, 2, 1))
        made = dict.fromkeys(("accuracy", "ece", "ece_fine", "nll", "brier", "entropy"), merged)
        nodes = rng.uniform(0.1, 0.9, (3, 2, 10))
        if self.arguments["description"]["data"]["source"] == "fashion_mnist":
            made["ood"] = np.full(3, 0.9)
        return {
            **made, "rounds": np.array([1, 20]), "own_accuracy": nodes,
            "local_accuracy": nodes[:, 1:], "sizes": np.full((3, 10), 50),
        }  # fmt: skip

    patch.setattr(Task, "run", run)
    items = list(ba_bfl.ITEMS)
    reproduce(ba_bfl.PAPER, items, tmp_path, workers=1)
    lost = ba_bfl.ITEMS["table-1"].runs(list(ba_bfl.SETS), Scale())["cifar10 2 gaa"]
    store = Store(tmp_path)
    store.collect([row for row in store.rows() if row.cell != lost.key], store.asked())
    store.path(lost.key).unlink()
    reproduce(ba_bfl.PAPER, items, tmp_path, workers=1, only_kept=True)
    return tmp_path


@pytest.mark.full
@pytest.mark.laid_out
def test_everything_is_shown_and_drawn(folder):
    console = Console(record=True, width=120)
    drawn = paper.show(folder, console)
    told = console.export_text()
    assert {p.name for p in drawn} == {
        *(f"figure-{i}.png" for i in range(1, 6)), "table-1.png", "graph.png", "longer.png",
        "whole.png",
    }  # fmt: skip
    for words in ("RKLB", "SVHN (a subset)", "1 of 48 runs are missing", "the paper's start",
                  "random, .3, 0.3, WB", "AUROC"):  # fmt: skip
        assert words in told, words


def test_items_are_pages_too(folder):
    records = ba_bfl.PAPER.records("figure-1", {})
    lines = item_lines(shown_item(ba_bfl.PAPER, "figure-1", records))
    assert "| RKLB | 1.6 | 1.6 | 0.4 | 0.4 |" in lines
    whole = page(folder)
    assert (
        "- Table 1. Accuracy, calibration and uncertainty of the merged model: 1 of 48 runs"
        in whole
    )
    assert "layers, rule | accuracy | ECE 100 |" in whole  # a word broken for the terminal is whole
    assert "1 of 12 runs" not in whole  # rounds are timed by runs of their own


def test_panels_of_a_set_are_in_one_column():
    """Strange images belong to one set: its panel must not shift those of the others."""
    made = [
        _record("table-1", name, metric, [0.5], layers=1, rule="rkl")
        for name, metrics in {
            "fashion_mnist": ("nll", "ood", "brier"),
            "cifar10": ("nll", "brier"),
        }.items()
        for metric in metrics
    ]
    figure = _figure("table-1", made)
    shown = [a for a in figure.axes if a.get_visible()]
    place = {}
    for axis in shown:
        place.setdefault(axis.get_title(), set()).add(axis.get_subplotspec().colspan.start)
    assert place == {"Fashion-MNIST": {0}, "CIFAR-10": {1}}
    assert len(shown) == 5
    plt.close(figure)


@pytest.mark.parametrize(
    ("replicas", "words"), [(1, "no bars"), (2, "from one to the other"), (3, "95")]
)
def test_figures_say_what_bars_are(replicas, words):
    values = np.linspace(0.2, 0.4, replicas)
    made = [_record("figure-3", "cifar10", "nll", values, layers=1, rule="rkl")]
    figure = _figure("figure-3", made)
    assert words in figure.get_suptitle()
    low, high = figure.axes[0].collections[0].get_segments()[0][:, 1]
    if replicas == 2:
        np.testing.assert_allclose([low, high], values)
    plt.close(figure)


@pytest.mark.full
def test_items_that_were_not_run_are_named(folder, patch):
    """The last of those that share the folder: it takes runs out of it."""
    tasks = ba_bfl.ITEMS["figure-4"].runs(list(ba_bfl.SETS), Scale()).values()
    lost, store = {task.key for task in tasks}, Store(folder)
    store.collect([row for row in store.rows() if row.cell not in lost], store.asked())
    for key in lost:
        store.path(key).unlink()
    found = reproduce(ba_bfl.PAPER, list(ba_bfl.ITEMS), folder, workers=1, only_kept=True)
    assert "figure-4" not in {r.item for r in found.records}
    assert not any(c.name.endswith("cost") for c in found.claims)
    assert "- Figure 4. Cost by Bayesian layers: 12 of 12 runs" in page(folder)
    patch.setattr(paper.figures, "save", lambda figure, path: plt.close(figure) or path)
    drawn = paper.show(folder, Console(record=True, width=120))
    assert "figure-4.png" not in {p.name for p in drawn}
