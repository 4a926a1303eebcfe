"""The DecDiff report on made-up runs: numbers in tables, figures, and what was not run."""

import io
from shutil import rmtree

import matplotlib.pyplot as plt
import numpy as np
import pytest
from rich.console import Console

from helpers import tasks_of
from peerwise import metrics
from peerwise.errors import BadFile
from peerwise.papers.decdiff.items import PAPER, SETTINGS, VARIANTS
from peerwise.papers.items import Scale
from peerwise.papers.kept import arrays_of, paper_of
from peerwise.papers.show import item_lines, page, show
from peerwise.papers.show import shown as shown_item
from peerwise.report.figures import save
from peerwise.study.results import read_folder, write_folder
from peerwise.study.store import Store

pytestmark = pytest.mark.full  # test_committed_results.py has its tables

SETS = ["mnist", "fashion_mnist"]
NAMES = PAPER.names["variant"]
ROUNDS, NODES = np.array([1, 2, 5, 10]), 6


def learned(variant, replicas=2, aggregated=True, begun=False):
    """What a run gives: accuracies that rise, each variant to a height of its own."""
    rng = np.random.default_rng(list(VARIANTS).index(variant))
    nodes = 1 if variant == "centralised" else NODES
    height = 0.9 if variant == "centralised" else 0.7 + 0.01 * list(VARIANTS).index(variant)
    shape = (replicas, len(ROUNDS), nodes)
    accuracy = height * (ROUNDS / ROUNDS[-1])[:, None] ** 0.3 - 0.02 * rng.random(shape)
    silent = variant in ("centralised", "isolation")
    found = {
        "rounds": ROUNDS,
        "message_bytes": np.array(0 if silent else 1_000_000),
        "messages": np.array(30),
        "gini": np.linspace(0.75, 0.8, replicas),
        "accuracy": accuracy,
        "loss": 2 - accuracy,
        "consensus": rng.random((replicas, len(ROUNDS))),
    }
    if aggregated and variant != "centralised":
        found["aggregated_accuracy"] = accuracy - 0.05
    if begun:
        found["begun_accuracy"] = accuracy[:, 0]
    return found


def result(item, name, replicas):
    if item == "figure-3":
        ring = np.arange(NODES)
        return {"src": ring, "dst": (ring + 1) % NODES, "nodes": np.array(NODES)}
    if item == "figure-4":
        counts = np.arange(NODES * 3).reshape(NODES, 3)
        return {"counts": counts, "gini": np.full(3, 0.8), "gini_of_totals": np.array(0.4)}
    dataset, _, variant = name.partition(" ")
    variant = "isolation" if item == "allocation" else variant
    return learned(variant, replicas, dataset == "mnist", item == "figure-1")


def made(folder, items, replicas=2, skip=()):
    """A run folder as `reproduce` writes it, without the runs whose names are in `skip`."""
    (folder / "cells").mkdir(parents=True)
    records = []
    for item, tasks in tasks_of(PAPER, items, SETS, Scale(False, replicas)).items():
        done = {n: result(item, n, replicas) for n in tasks if n not in skip}
        for name, arrays in done.items():
            Store(folder).put(tasks[name].key, arrays, {"depends": None})
        records += PAPER.records(item, done)
    config = {"items": [f"decdiff/{i}" for i in items], "datasets": SETS, "quick": False}
    config |= {"trials": replicas}
    write_folder(folder, config=config, records=records, claims=PAPER.claims(records))
    return records


def draw(item, done):
    return PAPER.figure(item, done, [])


def shown(folder, width=200):
    console = Console(width=width, record=True, file=io.StringIO())
    drawn = show(folder, console)
    return {path.stem: path for path in drawn}, console.export_text()


def told(folder, **options):
    """What is shown where no runs are kept, and so nothing is drawn."""
    rmtree(folder / "cells")
    return shown(folder, **options)[1]


def row(text, name):
    """The cells of the row of that name, of the first table that has it."""
    line = next(line for line in text.splitlines() if line.lstrip().startswith(f"{name}  "))
    return line.replace(name, "", 1).split()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All items, nothing missing."""
    folder = tmp_path_factory.mktemp("decdiff") / "run"
    records = made(folder, list(PAPER.items))
    return folder, records, *shown(folder)


@pytest.mark.full
@pytest.mark.laid_out
def test_every_item_is_shown_and_drawn(whole):
    folder, records, drawn, text = whole
    assert set(drawn) == set(PAPER.items) - {"table-4", "allocation"}
    for path in drawn.values():
        assert path.parent == folder
        assert path.read_bytes().startswith(b"\x89PNG")
    for item, found in PAPER.items.items():
        assert found.title in text
        lines = item_lines(shown_item(PAPER, item, [r for r in records if r.item == item]))
        assert sum(line.startswith("|---") for line in lines) == (2 if item == "table-4" else 1)
    assert "missing" not in text
    assert "Claims" in text
    assert "not held" in text


def test_every_variant_has_a_name_and_a_colour():
    assert all(of["colour"].startswith("#") for of in VARIANTS.values())
    printed = {variant for table in SETTINGS["printed"].values() for variant in table}
    assert {v for v in NAMES if "(ours)" not in NAMES[v]} == printed


def test_accuracies_stand_beside_the_papers_with_the_interval_of_the_replicas(whole):
    mean, half = metrics.confidence(learned("decdiff+vt")["accuracy"][:, -1].mean(-1))
    ours = [f"{mean:.4f}", f"±{half:.4f}"]
    between = [f"{mean - 0.05:.4f}", f"±{half:.4f}"]
    assert row(whole[3], "DecDiff+VT") == [*ours, "0.9530", *between, *ours, "0.8904"]
    assert len(row(whole[3], "ISOL")) == 6  # it aggregates nothing: no number between
    table = whole[3].partition("Table 3")[0]
    places = [table.index(f"  {NAMES[v]}  ") for v in SETTINGS["items"]["table-2"]["variants"]]
    assert places == sorted(places)


def test_a_single_replica_has_no_interval(tmp_path):
    made(tmp_path / "run", ["table-3"], replicas=1)
    text = told(tmp_path / "run")
    assert "±" not in "".join(row(text, "DecDiff"))


def test_times_tell_how_many_replicas_reach_a_share(tmp_path):
    folder = tmp_path / "run"
    records = made(folder, ["table-4"])
    goal = learned("centralised")["accuracy"][:, -1].mean()
    curve = learned("cfa")["accuracy"].mean(-1)
    found = metrics.characteristic_times(curve, ROUNDS, goal)
    cells = row(told(folder), "CFA")
    assert cells[:2] == [f"{found[0.5].mean:.1f}", "109.40"]
    assert found[0.95].count == 0
    assert cells[-1] == "-"
    for r in records:
        if r.setting["variant"] == "cfa" and r.value is not None:
            r.setting["reached"] = "1/2"
    (first, _) = PAPER.tables("table-4", records)
    assert f"{found[0.5].mean:.1f} (1/2)" in next(r for r in first.rows if r[0] == "CFA")


def test_what_was_not_run_is_blank_and_said_below(tmp_path):
    folder = tmp_path / "run"
    skip = ["mnist decavg", "fashion_mnist decavg", "mnist centralised"]
    records = made(folder, ["table-2", "table-4"], skip=skip)
    drawn, text = shown(folder)
    assert "DecAvg common start (ours)" not in text
    assert "3 of 18 runs are missing" in text
    assert "1 of 16 runs are missing (mnist centralised): run the same command to resume" in text
    assert row(text.partition("Table 4")[2], "DecHetero")[1] == "3.20"  # of the other set alone
    assert set(drawn) == {"table-2"}
    assert "- Table 2. Accuracy: 3 of 18 runs" in page(folder)
    assert not [r for r in records if r.item == "table-4" and r.dataset == "mnist"]


@pytest.mark.parametrize("item", list(PAPER.items))
def test_a_run_that_kept_nothing_shows_what_is_to_come(tmp_path, item):
    folder = tmp_path / "run"
    names = tasks_of(PAPER, [item], SETS, Scale(False, 2))[item]
    assert made(folder, [item], skip=names) == []
    drawn, text = shown(folder)
    assert drawn == {}
    assert f"{len(names)} of {len(names)} runs are missing" in text
    assert paper_of(folder) == "decdiff"


@pytest.mark.some("table-2")
@pytest.mark.parametrize("item", ["table-2", "table-3", "beta", "figure-1", "figure-5", "figure-6"])
def test_figures_are_drawn_of_any_single_run(tmp_path, item):
    for i, name in enumerate(tasks_of(PAPER, [item], ["mnist"], Scale(False, 1))[item]):
        if i < 2:
            variant = name.partition(" ")[2]
            found = learned(variant, 1, begun=item == "figure-1")
            figure = draw(item, {name: found})
            if i:
                assert save(figure, tmp_path / "one.png").stat().st_size > 5_000
            plt.close(figure)


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_accuracy_is_drawn_against_gigabytes_with_the_spread_of_replicas(replicas):
    found = learned("cfa", replicas)
    figure = draw("table-2", {"mnist cfa": found})
    sent = figure.axes[1]
    curve = found["accuracy"].mean(-1)
    mean, half = metrics.confidence(curve)
    np.testing.assert_allclose(sent.lines[0].get_xdata(), ROUNDS * 30 * 1e6 / 1e9)
    np.testing.assert_allclose(sent.lines[0].get_ydata(), mean)
    assert len(sent.collections) == (replicas > 1)  # one replica has no band
    if replicas > 1:
        heights = sent.collections[0].get_paths()[0].vertices[:, 1]
        top = (mean + half).max() if replicas > 2 else curve.max()
        np.testing.assert_allclose(heights.max(), top)
    plt.close(figure)


def test_figure_1_goes_from_round_0_over_aggregation_to_training():
    found = learned("dechetero", 1, begun=True)
    figure = draw("figure-1", {"mnist dechetero": found})
    mean = figure.axes[0].lines[NODES]  # after the nodes' own lines
    np.testing.assert_allclose(mean.get_xdata()[:5], [0, 0.5, 1, 1.5, 2])
    begun, trained = found["begun_accuracy"].mean(), found["accuracy"][0, 0].mean()
    np.testing.assert_allclose(mean.get_ydata()[:3], [begun, trained - 0.05, trained])
    plt.close(figure)


def test_a_table_too_wide_for_the_terminal_comes_in_one_for_each_set(tmp_path):
    made(tmp_path / "run", ["table-2", "table-3"])
    narrow = told(tmp_path / "run", width=90)
    table = narrow.partition("Table 2")[2].partition("Table 3")[0]
    assert table.count("CFA-GE") == 2  # in two pieces
    assert "…" not in table


def test_a_table_needs_no_cells(tmp_path):
    folder = tmp_path / "run"
    made(folder, ["table-3"])
    before = row(shown(folder)[1], "DecDiff")
    for path in (folder / "cells").iterdir():
        path.unlink()
    drawn, text = shown(folder)
    assert drawn == {}
    assert row(text, "DecDiff") == before


def test_arrays_are_told_with_what_is_missing(tmp_path):
    folder = tmp_path / "run"
    made(folder, ["table-3"], skip=["mnist decdiff"])
    found = arrays_of(folder, PAPER)
    assert found.missing == {"table-3": ["mnist decdiff"]}
    assert len(found.arrays["table-3"]) == 7


@pytest.mark.parametrize("text", ["items = [", "quick = true", "items = []\ndatasets = []"])
def test_a_damaged_configuration_is_told(tmp_path, text):
    made(tmp_path / "run", ["figure-3"])
    (tmp_path / "run" / "config.toml").write_text(text)
    with pytest.raises(BadFile, match=r"config\.toml is damaged"):
        arrays_of(tmp_path / "run", PAPER)


def test_an_item_that_the_paper_has_not_is_told(tmp_path):
    config = {"items": ["decdiff/figure-9"], "datasets": SETS, "quick": False, "trials": 2}
    write_folder(tmp_path / "run", config=config, records=[], claims=[])
    with pytest.raises(BadFile, match="figure-9"):
        arrays_of(tmp_path / "run", PAPER)


def test_records_that_were_written_are_what_is_shown(whole):
    assert read_folder(whole[0])[0] == whole[1]


def test_a_quick_run_says_what_it_cannot_show():
    notes = [shown_item(PAPER, "table-2", [], quick=quick).notes for quick in (True, False)]
    assert any("cannot show the paper's order" in note for note in notes[0])
    assert not any("cannot show" in note for note in notes[1])
