"""Items of the CVaR-CTA paper: what they run, and what becomes of what was run."""

import importlib
import json
from inspect import signature

import numpy as np
import pytest

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.learner import cell
from peerwise.papers.cvar_cta import items as cvar_cta
from peerwise.papers.items import Scale

BOTH = ["mnist", "fashion_mnist"]
FIGURES = tuple(cvar_cta.PANELS)


def tasks(item, quick=False, sets=BOTH, replicas=None):
    return cvar_cta.ITEMS[item].runs(sets, Scale(quick, replicas))


def keys(item, quick=False):
    return {t.key for t in tasks(item, quick).values()}


def run(final, worst_node=None, replicas=2, nodes=4):
    """What a task gives: accuracies that rise to the final one, by class up to a tenth apart."""
    share = np.array([0.2, 0.6, 1.0])
    accuracy = np.broadcast_to((share * final)[None, :, None], (replicas, 3, nodes)).copy()
    if worst_node is not None:
        accuracy[:, -1, 0] = worst_node
    by_class = np.broadcast_to(share[None, :, None] * final, (replicas, 3, 10)).copy()
    by_class[:, -1, 9] = final - 0.1
    consensus = np.broadcast_to(1 - share, (replicas, 3))
    return {
        "rounds": np.array([1, 10, 100]), "accuracy": accuracy, "class_accuracy": by_class,
        "consensus": consensus + 0.5, "combined_accuracy": accuracy - 0.2,
        "combined_class_accuracy": by_class - 0.2, "combined_consensus": consensus + 0.1,
        "class_accuracy_of_others": by_class - 0.3,
    }  # fmt: skip


def numbers(item, done):
    return {
        (r.setting["variant"], r.setting.get("graph"), r.setting.get("q"), r.metric): r
        for r in cvar_cta.PAPER.records(item, done)
    }


def verdicts(item, place, accuracies):
    """Claims about runs of one panel: (variant, q) -> accuracy."""
    done = {f"{place} {q}|{v}": run(a) for (v, q), a in accuracies.items()}
    return {c.name: c for c in cvar_cta.PAPER.claims(cvar_cta.PAPER.records(item, done))}


# --- tasks


@pytest.mark.parametrize("item", cvar_cta.ITEMS)
@pytest.mark.parametrize("quick", [False, True])
def test_tasks_of_an_item_can_be_written_down_and_are_distinct(item, quick):
    made = tasks(item, quick)
    assert made
    assert len({t.key for t in made.values()}) == len(made)
    json.dumps([t.arguments for t in made.values()])
    for task in made.values():
        module, _, name = task.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        signature(function).bind(**task.arguments)
        cell(task.arguments["description"])  # names, options and bounds are those of the learner


@pytest.mark.parametrize("quick", [False, True])
def test_our_own_items_share_the_runs_of_figure_2(quick):
    line, ring = keys("figure-2a", quick), keys("figure-2b", quick)
    assert len(keys("alpha", quick) & line) == 3  # the paper's share at q = .3
    assert len(keys("alpha", quick) & ring) == 3
    assert len(keys("order", quick) & ring) == 6  # CTA before ATC, smooth, both q
    assert not keys("rare", quick) & ring


@pytest.mark.parametrize("item", cvar_cta.ITEMS)
def test_a_number_of_runs_can_be_asked_for(item):
    for task in tasks(item, replicas=7).values():
        assert task.arguments["description"]["run"]["repetitions"] == 7


def test_a_quick_run_is_smaller_and_has_longer_steps():
    full, quick = tasks("figure-2a"), tasks("figure-2a", True)
    assert full.keys() == quick.keys()
    for name, task in full.items():
        less, more = (t.arguments["description"] for t in (quick[name], task))
        assert less["run"]["rounds"] < more["run"]["rounds"]
        assert less["method"]["lr"] == pytest.approx(more["method"]["lr"] * cvar_cta.QUICK_STEPS)


def test_the_control_has_the_step_over_alpha():
    steps = {v: cvar_cta.method_of(v).get("lr") for v in cvar_cta.VARIANTS}
    for alpha in (cvar_cta.ALPHA, *cvar_cta.SWEEP):
        more = "" if alpha == cvar_cta.ALPHA else f" {alpha}"
        assert steps[f"cta/a{more}"] == pytest.approx(steps[f"cvar-cvar{more}"] / alpha)
    assert steps["cta/a small"] == pytest.approx(steps["cvar-cvar small"] / cvar_cta.ALPHA)
    rare = {n: t.arguments["description"]["method"].get("lr") for n, t in tasks("rare").items()}
    assert rare["mnist ring|cta/a"] == pytest.approx(rare["mnist ring|cvar-cvar"] / cvar_cta.ALPHA)


def test_panels_are_the_papers():
    described = {i: [t.arguments["description"] for t in tasks(i).values()] for i in FIGURES}
    where = {
        i: {(d["network"]["topology"], d["split"]["nodes"], d["network"]["q"]) for d in every}
        for i, every in described.items()
    }
    assert where == {
        "figure-2a": {("chain", 5, 1.0), ("chain", 5, 0.3)},
        "figure-2b": {("ring", 20, 1.0), ("ring", 20, 0.3)},
        "figure-2c": {("ring", 20, 1.0), ("ring", 20, 0.3)},
        "figure-2d": {("erdos_renyi", 20, 0.3)},
    }


# --- data sets


def test_items_run_on_the_sets_that_are_chosen():
    assert not tasks("figure-2a", sets=["fashion_mnist"])
    assert not tasks("figure-2c", sets=["mnist"])
    for item in ("alpha", "order", "rare"):
        assert not tasks(item, sets=["fashion_mnist"])
    loss = tasks("loss", sets=["fashion_mnist"])
    assert {t.function.partition(":")[2] for t in loss.values()} == {"calibrate"}


def test_sets_at_hand_are_told(monkeypatch):
    monkeypatch.setattr(data, "available", lambda: [{"name": "fashion_mnist"}, {"name": "wine"}])
    assert [d.name for d in cvar_cta.datasets()] == ["fashion_mnist"]
    assert cvar_cta.datasets(["mnist"]) == []
    with pytest.raises(UnknownName, match="did you mean 'mnist'"):
        cvar_cta.datasets(["mnit"])


def test_tasks_do_not_depend_on_what_is_at_hand(monkeypatch):
    """Else a folder that was run here could not be read elsewhere."""
    full = {quick: keys("loss", quick) for quick in (True, False)}
    monkeypatch.setattr(data, "available", lambda: [])
    assert full == {quick: keys("loss", quick) for quick in (True, False)}


# --- records


def test_numbers_are_those_of_the_last_round():
    found = numbers("figure-2a", {"mnist line 0.3|cta": run(0.9, worst_node=0.5)})
    got = {metric: r.value for (*_, metric), r in found.items()}
    expected = {"accuracy": 0.8, "worst_node": 0.5, "worst_class": 0.8, "other_stage": 0.6,
                "consensus": 0.5}  # fmt: skip
    assert got == pytest.approx(expected)
    record = found["cta", "line", 0.3, "accuracy"]
    assert (record.paper, record.item, record.dataset) == ("cvar-cta", "figure-2a", "mnist")
    assert (record.reps, record.std) == (2, 0)


def test_adapt_then_combine_is_measured_after_combining():
    done = {"mnist ring 1.0|cta atc": run(0.9), "mnist ring 1.0|cta": run(0.9)}
    found = numbers("order", done)
    for variant, first, other, apart in (("cta", 0.9, 0.7, 0.5), ("cta atc", 0.7, 0.9, 0.1)):
        for metric, value in (
            ("accuracy", first), ("other_stage", other), ("consensus", apart),
            ("worst_class", first - 0.1),
        ):  # fmt: skip
            assert found[variant, "ring", 1.0, metric].value == pytest.approx(value)


def test_what_is_not_a_number_does_not_count():
    broken = run(0.9)
    broken["accuracy"][0] = np.nan
    record = numbers("figure-2a", {"mnist line 1.0|cta": broken})["cta", "line", 1.0, "accuracy"]
    assert record.value == pytest.approx(0.9)
    assert (record.reps, record.std) == (1, None)
    broken["accuracy"][1] = np.nan
    record = numbers("figure-2a", {"mnist line 1.0|cta": broken})["cta", "line", 1.0, "accuracy"]
    assert (record.value, record.reps) == (None, 0)


def test_the_rare_class_is_class_0_of_the_nodes_that_have_it_not():
    """Node 0, which has it, does not count."""
    plain = run(0.9, worst_node=0.1)
    crc = {k: plain[k] for k in ("rounds", "accuracy", "class_accuracy_of_others")}
    found = numbers("rare", {"mnist ring|cvar-cvar": plain, "mnist erdos_renyi|crc worst": crc})
    for variant, graph in (("cvar-cvar", "ring"), ("crc worst", "erdos_renyi")):
        assert found[variant, graph, None, "rare_class"].value == pytest.approx(0.6)
        assert found[variant, graph, None, "accuracy"].value == pytest.approx(0.9)


def test_losses_are_gaps_of_crc_and_accuracies_of_decdiff():
    gap = {"gap": np.array([[0.1, 0.3], [0.2, 0.2]])}
    done = {"letter tree 0.3|crc 64": gap, "mnist tree 0.3|decdiff+vt": run(0.9)}
    found = numbers("loss", done)
    assert found["crc 64", "tree", None, "gap"].value == pytest.approx(0.2)
    assert found["crc 64", "tree", None, "gap"].dataset == "letter"
    assert found["decdiff+vt", "tree", None, "accuracy"].value == pytest.approx(0.9)


@pytest.mark.parametrize("item", cvar_cta.ITEMS)
def test_of_nothing_there_are_no_records(item):
    assert cvar_cta.PAPER.records(item, {}) == []


# --- claims

# figure 2a as the paper has it
GOOD = {
    ("cta", 1.0): 0.7, ("average-cvar", 1.0): 0.75, ("cvar-cvar small", 1.0): 0.8,
    ("cta", 0.3): 0.4, ("average-cvar", 0.3): 0.45, ("cvar-cvar small", 0.3): 0.5,
}  # fmt: skip


def test_without_records_there_are_no_claims():
    assert cvar_cta.PAPER.claims([]) == []


@pytest.mark.parametrize("swap", [{}, {("average-cvar", 0.3): 0.39}, {("cta", 0.3): 0.46},
                                  {("cvar-cvar small", 0.3): 0.45}])  # fmt: skip
def test_the_order_is_cvar_cvar_then_average_then_cta(swap):
    found = verdicts("figure-2a", "mnist line", GOOD | swap)
    assert found["figure-2a order q=1"].verdict == "held"
    assert (found["figure-2a order q=0.3"].verdict == "held") is not bool(swap)
    assert "CVaR-CVaR 0.800" in found["figure-2a order q=1"].ours
    assert "2a, MNIST on a line" in found["figure-2a order q=1"].claim


@pytest.mark.parametrize("variant", ["cta", "average-cvar", "cvar-cvar small"])
def test_every_method_is_better_where_nothing_is_lost(variant):
    assert verdicts("figure-2a", "mnist line", GOOD)["figure-2a reliable"].verdict == "held"
    wrong = GOOD | {(variant, 0.3): GOOD[variant, 1.0]}
    assert verdicts("figure-2a", "mnist line", wrong)["figure-2a reliable"].verdict != "held"


@pytest.mark.parametrize(
    ("variant", "controls"),
    [
        ("average-cvar", ("cta", "cta/a")),
        ("cvar-cvar", ("cta", "cta/a")),
        ("cvar-cvar small", ("cta small", "cta/a small")),
    ],
)
def test_a_gain_is_not_the_step_if_it_beats_both_controls(variant, controls):
    low, high = ((c, 0.3) for c in controls)
    name = f"figure-2b control {variant} q=0.3"
    for swap, held in (({}, True), ({low: 0.7}, False), ({high: 0.7}, False)):
        accuracies = {(variant, 0.3): 0.6, low: 0.4, high: 0.5} | swap
        found = verdicts("figure-2b", "mnist ring", accuracies)
        assert found[name].verdict == ("held" if held else "not held")
        assert "0.600" in found[name].ours
        assert found[name].paper == "not in the paper"
    assert name not in verdicts("figure-2b", "mnist ring", {(variant, 0.3): 0.6, low: 0.4})


def test_only_cvar_cvar_learns_fashion_mnist():
    good = {("cta", 0.3): 0.2, ("average-cvar", 0.3): 0.3, ("cvar-cvar", 0.3): 0.6}
    for swap, held in (
        ({}, True), ({("cta", 0.3): 0.55}, False), ({("average-cvar", 0.3): 0.55}, False),
        ({("cvar-cvar", 0.3): 0.45}, False),
    ):  # fmt: skip
        found = verdicts("figure-2c", "fashion_mnist ring", good | swap)
        assert found["figure-2c fails q=0.3"].verdict == ("held" if held else "not held")
        assert "figure-2c fails q=1" not in found
        assert "figure-2c reliable" not in found  # needs both
    both = good | {(v, 1.0): a + 0.1 for (v, _), a in good.items()}
    both["cta", 1.0] = 0.1  # where a method learns nothing it is not compared
    assert verdicts("figure-2c", "fashion_mnist ring", both)["figure-2c reliable"].verdict == "held"
    assert not verdicts("figure-2d", "fashion_mnist erdos_renyi", {("cta", 0.3): 0.2})


def test_what_was_not_measured_leaves_a_claim_out():
    for missing in GOOD:
        some = {k: v for k, v in GOOD.items() if k != missing}
        found = verdicts("figure-2a", "mnist line", some)
        assert f"figure-2a order q={missing[1]:g}" not in found
        assert "figure-2a reliable" not in found
        assert len([name for name in found if "order" in name]) == 1


def test_claims_are_not_of_our_own_items():
    done = {"mnist ring|cvar-cvar": run(0.9)}
    assert cvar_cta.PAPER.claims(cvar_cta.PAPER.records("rare", done)) == []
    assert not verdicts("alpha", "mnist ring", GOOD)
