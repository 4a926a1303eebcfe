"""The CVaR-CTA report on made-up runs: numbers in tables, figures, and what was not run."""

import io
from contextlib import suppress
from shutil import rmtree

import matplotlib.pyplot as plt
import numpy as np
import pytest
from rich.console import Console

from helpers import tasks_of
from peerwise import cli, data, metrics
from peerwise.papers.cvar_cta.figures import COLOURS
from peerwise.papers.cvar_cta.items import ITEMS, PAPER, VARIANTS
from peerwise.papers.items import Scale
from peerwise.papers.kept import paper_of
from peerwise.papers.reproduce import reproduce
from peerwise.papers.show import item_lines, page, show
from peerwise.papers.show import shown as shown_item
from peerwise.report.axes import band
from peerwise.report.figures import save
from peerwise.report.grid import mean_text
from peerwise.study.results import read_folder, write_folder
from peerwise.study.store import Store

pytestmark = pytest.mark.full  # test_committed_results.py has its tables

SETS = ["mnist", "fashion_mnist"]
NAMES = PAPER.names["variant"]
ROUNDS, NODES, CLASSES = np.array([1, 2, 5, 10]), 6, 10


def result(name, replicas):
    """What a run gives: accuracies that rise, each variant to a height of its own."""
    variant = name.partition("|")[2]
    height = 0.4 + 0.01 * list(NAMES).index(variant)
    rng = np.random.default_rng(list(NAMES).index(variant))
    if variant in ("crc 64", "crc 256"):
        gap = 0.05 * height + 0.01 * rng.random((replicas, NODES))
        return {"gap": gap, "error": gap + 0.1, "reference": np.full((replicas, 1), 0.1)}
    rise = height * (ROUNDS / ROUNDS[-1]) ** 0.3
    accuracy = rise[:, None] - 0.02 * rng.random((replicas, len(ROUNDS), NODES))
    by_class = rise[:, None] - 0.2 * rng.random((replicas, len(ROUNDS), CLASSES))
    found = {"rounds": ROUNDS, "accuracy": accuracy, "class_accuracy_of_others": by_class - 0.1}
    if variant.startswith("crc"):
        return found
    consensus = 0.1 * rng.random((replicas, len(ROUNDS)))
    for stage, less in (("", 0.0), ("combined_", 0.05)):
        found[f"{stage}accuracy"] = accuracy - less
        found[f"{stage}class_accuracy"] = by_class - less
        found[f"{stage}consensus"] = consensus + less
    return found


def cells(folder, items, replicas=3, skip=(), quick=False):
    """What tasks left in a folder, without those whose names are in `skip`."""
    (folder / "cells").mkdir(parents=True)
    kept = {}
    for item, tasks in tasks_of(PAPER, items, SETS, Scale(quick, replicas)).items():
        kept[item] = {n: result(n, replicas) for n in tasks if n not in skip}
        for name, arrays in kept[item].items():
            Store(folder).put(tasks[name].key, arrays, {"depends": None})
    return kept


def made(folder, items, replicas=3, skip=()):
    """A run folder as `reproduce` writes it."""
    records = []
    for item, done in cells(folder, items, replicas, skip).items():
        records += PAPER.records(item, done)
    config = {"items": [f"cvar-cta/{i}" for i in items], "datasets": SETS, "quick": False}
    config |= {"trials": replicas}
    write_folder(folder, config=config, records=records, claims=PAPER.claims(records))
    return records


def draw(item, done):
    return PAPER.figure(item, done, PAPER.records(item, done))


def shown(folder, width=160):
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
    folder = tmp_path_factory.mktemp("cvar") / "run"
    records = made(folder, list(ITEMS))
    return folder, records, *shown(folder), page(folder)


@pytest.mark.full
@pytest.mark.laid_out
def test_every_item_is_shown_and_drawn(whole):
    folder, records, drawn, text, _ = whole
    assert set(drawn) == set(ITEMS)
    for path in drawn.values():
        assert path.parent == folder
        assert path.read_bytes().startswith(b"\x89PNG")
    for found in ITEMS.values():
        assert found.title in text
    assert "missing" not in text
    assert "Claims" in text
    assert read_folder(folder)[0] == records


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_is_a_page_of_tables(whole, item):
    records = [r for r in whole[1] if r.item == item]
    lines = item_lines(shown_item(PAPER, item, records))
    places = {
        (r.dataset, r.setting["graph"], r.setting.get("q")) for r in records if "graph" in r.setting
    }
    tables = 1 if item in ("rare", "loss") else len(places)
    assert sum(line.startswith("|---") for line in lines) == tables
    assert lines[0] == f"## {item.replace('-', ' ').capitalize()}. {ITEMS[item].title}"
    assert not [line for line in lines if line not in whole[4]]


def test_every_variant_has_a_name_and_every_method_a_colour():
    assert set(NAMES) >= set(VARIANTS)
    assert len(set(NAMES.values())) == len(NAMES)
    assert {v.split()[0].removesuffix("/a") for v in NAMES} == set(COLOURS)


def test_a_row_has_the_mean_its_interval_worst_node_and_class_and_spread(whole):
    found = result("|cvar-cvar", 3)
    last = found["accuracy"][:, -1]
    mean, half = metrics.confidence(last.mean(-1))
    expected = [
        f"{mean:.3f}", f"±{half:.3f}", f"{last.min(-1).mean():.3f}",
        f"{found['class_accuracy'][:, -1].min(-1).mean():.3f}",
        f"{found['combined_accuracy'][:, -1].mean():.3f}",
        f"{found['consensus'][:, -1].mean():.2g}",
    ]  # fmt: skip
    assert row(whole[3], "CVaR-CVaR") == expected
    order = whole[3].partition("Order. Adapt")[2]
    stage = found["combined_accuracy"][:, -1].mean()
    assert f"{stage:.3f}" == row(order, "CVaR-CVaR")[4]
    atc = result("|cvar-cvar atc", 3)["combined_accuracy"][:, -1].mean()
    assert f"{atc:.3f}" == row(order, "CVaR-CVaR, ATC (ours)")[0]


def test_the_rare_class_stands_beside_all(whole):
    text = whole[3].partition("Rare. A class")[2]
    found = result("mnist ring|crc worst", 3)
    rare = found["class_accuracy_of_others"][:, -1, 0].mean()
    every = found["accuracy"][:, -1, 1:].mean()
    got = row(text, "CRC, worst soft errors (ours)")
    assert got[::2] == [f"{rare:.3f}", f"{every:.3f}"] * 2  # both graphs alike


def test_losses_are_rows(whole):
    text = whole[3].partition("Loss. What loss does")[2]
    assert [row(text, f"{lost}%")[0] for lost in (0, 50, 90)] == [
        f"{result('|crc 64', 3)['gap'].mean():.3f}"
    ] * 3
    assert len(row(text, "30%")) == 2 * 6  # two graphs; CRC after 64 and 256 rounds, DecDiff


def test_a_value_just_below_zero_is_zero_and_a_gap_may_be_negative(whole):
    for value, text in ((-1e-7, "0.000"), (-0.012, "-0.012"), (None, "")):
        assert mean_text(whole[1][0].model_copy(update={"value": value}), least=0) == text


@pytest.mark.parametrize("replicas", [1, 2])
def test_one_or_two_runs_have_no_interval(tmp_path, replicas):
    made(tmp_path / "run", ["figure-2d"], replicas=replicas)
    text = told(tmp_path / "run")
    assert len(row(text, "CVaR-CVaR")) == 5
    assert "±" not in "".join(row(text, "CVaR-CVaR"))


def test_what_was_not_run_is_left_out_and_said_below(tmp_path):
    folder = tmp_path / "run"
    skip = ["fashion_mnist ring 0.3|cta", "mnist ring|crc worst"]
    made(folder, ["figure-2c", "rare"], skip=skip)
    drawn, text = shown(folder)
    assert set(drawn) == {"figure-2c", "rare"}
    assert "1 of 8 runs are missing (fashion_mnist ring 0.3|cta): run the same command" in text
    assert "1 of 14 runs are missing" in text
    assert len(row(text, "CRC, worst soft errors (ours)")) == 4  # on the other graph
    names = {c.name for c in read_folder(folder)[1]}
    assert "figure-2c order q=1" in names
    assert "figure-2c order q=0.3" not in names


@pytest.mark.parametrize("item", ITEMS)
def test_a_run_that_kept_nothing_shows_what_is_to_come(tmp_path, item):
    folder = tmp_path / "run"
    names = tasks_of(PAPER, [item], SETS, Scale(False, 3))[item]
    assert made(folder, [item], skip=names) == []
    drawn, text = shown(folder)
    assert drawn == {}
    assert f"{len(names)} of {len(names)} runs are missing" in text
    assert paper_of(folder) == "cvar-cta"


@pytest.mark.full
@pytest.mark.parametrize("item", ITEMS)
def test_figures_are_drawn_of_any_single_run(tmp_path, item):
    names = list(tasks_of(PAPER, [item], SETS, Scale(False, 1))[item])
    plt.close(draw(item, {names[0]: result(names[0], 1)}))
    drawn = save(draw(item, {names[-1]: result(names[-1], 1)}), tmp_path / "one.png")
    assert drawn.stat().st_size > 5_000


def test_curves_are_means_of_runs_and_of_nodes():
    found = result("|cta", 4)
    figure = draw("figure-2a", {"mnist line 0.3|cta": found})
    mean, worst, by_class, apart = figure.axes
    for axis, values in ((mean, found["accuracy"].mean(-1)), (worst, found["accuracy"].min(-1))):
        np.testing.assert_allclose(axis.lines[0].get_xdata(), ROUNDS)
        np.testing.assert_allclose(axis.lines[0].get_ydata(), values.mean(0))
    by = found["class_accuracy"][:, -1].mean(0)
    np.testing.assert_allclose(by_class.lines[0].get_ydata(), by)
    middle = np.exp(np.log(found["consensus"]).mean(0))
    np.testing.assert_allclose(apart.lines[0].get_ydata(), middle)
    assert "line of 5, q = 0.3 (4 runs)" in mean.get_title()
    plt.close(figure)


@pytest.mark.parametrize(
    ("replicas", "words"), [(1, "one run: no band"), (2, "between the two runs"), (3, "95 %")]
)
def test_figures_say_what_a_band_is(replicas, words):
    for item, name in (("order", "mnist ring 1.0|cta"), ("loss", "mnist tree 0.0|decdiff+vt")):
        figure = draw(item, {name: result(name, replicas)})
        titles = [figure.get_suptitle(), *(axis.get_title() for axis in figure.axes)]
        assert any(words in title for title in titles), item
        plt.close(figure)


def test_lines_of_one_method_differ():
    variants = ["cvar-cvar", "cvar-cvar atc", "cvar-cvar hard"]
    figure = draw("order", {f"mnist ring 1.0|{v}": result(f"|{v}", 3) for v in variants})
    drawn = {str(line._dash_pattern) for line in figure.axes[0].lines}
    assert len(drawn) == len(variants)
    plt.close(figure)


def test_adapt_then_combine_is_drawn_after_combining():
    found = result("|cta atc", 3)
    figure = draw("order", {"mnist ring 1.0|cta atc": found})
    height = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(height, found["combined_accuracy"].mean((0, 2)))
    plt.close(figure)


def test_alphas_are_drawn_in_their_order():
    variants = ["cvar-cvar 0.9", "cvar-cvar", "cvar-cvar 0.1"]
    figure = draw("alpha", {f"mnist ring 0.3|{v}": result(f"|{v}", 3) for v in variants})
    drawn = [x for x in figure.axes[0].lines if len(x.get_xdata()) == 3]
    np.testing.assert_allclose(np.array(drawn[0].get_xdata(), float), [0.1, 0.3, 0.9])
    expected = [result(f"|{v}", 3)["accuracy"][:, -1].mean() for v in reversed(variants)]
    np.testing.assert_allclose(np.array(drawn[0].get_ydata(), float), expected)
    plt.close(figure)


@pytest.mark.parametrize("replicas", [2, 5])
def test_a_band_is_between_two_runs_or_the_interval_of_more(replicas):
    values = np.random.default_rng(0).uniform(0.1, 1, (replicas, 4))
    for log in (False, True):
        figure, axis = plt.subplots()
        band(axis, ROUNDS, values, log=log, color="red")
        held = np.log(values) if log else values
        mean, half = metrics.confidence(held)
        top = mean + half if replicas > 2 else held.max(0)
        back = np.exp if log else np.asarray
        np.testing.assert_allclose(axis.lines[0].get_ydata(), back(mean))
        heights = axis.collections[0].get_paths()[0].vertices[:, 1]
        np.testing.assert_allclose(heights.max(), back(top).max())
        plt.close(figure)


# --- the command


def test_kept_runs_are_shown_and_nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "available", lambda: [{"name": "mnist"}])
    folder = tmp_path / "run"
    cells(folder, ["figure-2a", "rare"], skip=["mnist line 0.3|cta"], quick=True)
    asked = {"quick": True, "repetitions": 3, "only_kept": True}
    found = reproduce(PAPER, ["figure-2a", "rare"], folder, **asked)
    assert found.failures == {}
    assert found.datasets == ["mnist"]
    assert len({(r.setting["variant"], r.setting.get("q")) for r in found.records}) == 13 + 7
    assert "figure-2a order q=1" in {c.name for c in found.claims}
    drawn, text = shown(folder)
    assert set(drawn) == {"figure-2a", "rare"}
    assert "1 of 14 runs are missing" in text


def test_the_command_shows_what_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(data, "available", lambda: [{"name": "mnist"}])
    monkeypatch.setenv("COLUMNS", "120")
    folder = tmp_path / "run"
    cells(folder, ["rare"], quick=True)
    asked = ["--quick", "--kept", "--reps", "3", "--out", str(folder)]
    monkeypatch.setattr("sys.argv", ["peerwise", "reproduce", "cvar-cta/rare", *asked])
    with suppress(SystemExit):
        cli.main()
    out = capsys.readouterr().out
    assert "CRC, worst soft errors (ours)" in out
    assert (folder / "rare.png").exists()
