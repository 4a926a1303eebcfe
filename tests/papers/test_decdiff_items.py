"""Items of the DecDiff paper: what they run, and what becomes of what was run."""

import json

import numpy as np
import pytest

from peerwise.errors import UnknownName
from peerwise.learner import cell
from peerwise.learner.run import recorded
from peerwise.papers.decdiff import items as decdiff
from peerwise.papers.items import Scale

BOTH = ["mnist", "fashion_mnist"]


def run(final, rounds=(1, 10, 100), replicas=2, nodes=4, loss=None):
    """What a task gives: every node at the same accuracy, which rises to the final one."""
    share = np.linspace(0.2, 1, len(rounds))
    accuracy = np.broadcast_to((share * final)[None, :, None], (replicas, len(rounds), nodes))
    falling = 1 - accuracy if loss is None else np.broadcast_to(loss, accuracy.T.shape).T
    return {
        "rounds": np.array(rounds), "accuracy": accuracy, "loss": falling,
        "message_bytes": np.array(1000), "messages": np.array(8),
    }  # fmt: skip


def numbers(item, done):
    return {
        (r.dataset, r.setting.get("variant"), r.setting.get("share"), r.metric): r
        for r in decdiff.PAPER.records(item, done)
    }


@pytest.mark.parametrize("item", decdiff.ITEMS)
@pytest.mark.parametrize("quick", [False, True])
def test_tasks_of_an_item_can_be_written_down_and_are_distinct(item, quick):
    tasks = decdiff.ITEMS[item].runs(BOTH, Scale(quick))
    assert tasks
    assert len({t.key for t in tasks.values()}) == len(tasks)
    json.dumps([t.arguments for t in tasks.values()])


def test_tables_and_figures_share_their_runs():
    two, four, five = (
        {t.key for t in decdiff.ITEMS[i].runs(BOTH, Scale()).values()}
        for i in ("table-2", "table-4", "figure-5")
    )
    assert five <= four
    assert len(two & four) >= 12


@pytest.mark.parametrize("item", decdiff.ITEMS)
@pytest.mark.parametrize("quick", [False, True])
def test_what_is_described_can_be_run(item, quick):
    """Names, options and bounds are those that the learner knows."""
    for task in decdiff.ITEMS[item].runs(BOTH, Scale(quick)).values():
        described = cell(task.arguments["description"])
        assert (
            not described["run"]["rounds"] or recorded(described)[-1] == described["run"]["rounds"]
        )


def test_other_sets_are_refused():
    with pytest.raises(UnknownName, match="mnist"):
        decdiff.datasets(["mnit"])


def test_accuracies_stand_beside_the_papers():
    found = numbers("table-2", {"mnist decdiff+vt": run(0.95), "mnist cfa": run(0.9)})
    ours = found["mnist", "decdiff+vt", None, "accuracy"]
    assert ours.value == pytest.approx(0.95)
    assert ours.paper_value == 0.9530
    assert ours.reps == 2


def test_characteristic_times_and_bytes_by_hand():
    """Accuracies .19, .57, .95 at rounds 1, 10, 100; half of .98 is reached at round 10."""
    done = {"mnist centralised": run(0.98), "mnist cfa": run(0.95)}
    found = numbers("table-4", done)
    assert found["mnist", "cfa", 0.5, "rounds"].value == 10
    assert found["mnist", "cfa", 0.5, "rounds"].paper_value == 109.40
    assert found["mnist", "cfa", 0.95, "rounds"].value == 100
    assert found["mnist", "cfa", 0.9, "gigabytes"].value == pytest.approx(100 * 8000 / 1e9)
    never = numbers("table-4", {**done, "mnist cfa": run(0.4)})["mnist", "cfa", 0.5, "rounds"]
    assert never.value is None
    assert never.reps == 0


def test_without_the_centralised_run_there_are_no_times():
    assert decdiff.PAPER.records("table-4", {"mnist cfa": run(0.9)}) == []


def test_claims_hold_or_not_by_the_numbers():
    good = {"centralised": 0.98, "decdiff+vt": 0.953, "cfa-ge": 0.946, "fedavg": 0.941,
            "dechetero": 0.907, "cfa": 0.897, "isolation": 0.647}  # fmt: skip
    for swap, held in (({}, "held"), ({"cfa-ge": 0.97}, "not held")):
        done = {f"mnist {v}": run(a) for v, a in (good | swap).items()}
        verdicts = {c.name: c for c in decdiff.PAPER.claims(decdiff.PAPER.records("table-2", done))}
        assert verdicts["mnist-ordering"].verdict == held
        assert verdicts["mnist-decentralised"].verdict == "held"
    assert "mnist-teacher" not in verdicts  # not measured


def test_a_loss_that_rises_again_is_overfitting():
    calm, wild = np.array([1.0, 0.5, 0.5]), np.array([1.0, 0.5, 0.6])
    kinds = {"cfa-ge": calm, "decdiff+vt": calm, "cfa": calm}
    kinds |= dict.fromkeys(("dechetero", "decdiff", "fedavg", "isolation"), wild)
    done = {f"mnist {v}": run(0.9, loss=curve[:, None]) for v, curve in kinds.items()}
    verdicts = {c.name: c for c in decdiff.PAPER.claims(decdiff.PAPER.records("figure-5", done))}
    assert verdicts["mnist-overfitting"].verdict == "held"
    done["mnist cfa-ge"] = run(0.9, loss=wild[:, None])
    verdicts = {c.name: c for c in decdiff.PAPER.claims(decdiff.PAPER.records("figure-5", done))}
    assert verdicts["mnist-overfitting"].verdict == "not held"


def test_the_papers_numbers_are_all_there():
    told = decdiff.SETTINGS["printed"]
    assert {item: sum(map(len, told[item].values())) for item in ("table-2", "table-3")} == {
        "table-2": 21,
        "table-3": 9,
    }
    times = [[row[i] for row in told["table-4"].values()] for i in range(len(decdiff.SETS))]
    printed = [sum(not np.isnan(t) for row in of for t in row) for of in times]
    assert printed == [28 - 5, 28 - 10, 28 - 8]  # the others are dashes
    of = {"dataset": "mnist", "variant": "cfa", "metric": "rounds", "share": 0.95}
    assert decdiff.printed("table-4", of) is None
