"""Items of the BA-BFL paper: what they run, and what becomes of what was run."""

import json

import numpy as np
import pytest

from peerwise.errors import UnknownName
from peerwise.experiments import ba_bfl
from peerwise.experiments.ba_bfl_claims import claims

SETS = ["fashion_mnist", "cifar10", "svhn_derived_20k"]


def run(accuracy=0.8, ece=0.1, nll=1.0, seconds=1.0, worst=0.6, replicas=3, nodes=4):
    """What a task gives: the same in all replicas and rounds."""
    merged = np.full((replicas, 2, 1), 1.0)
    local = np.full((replicas, 1, nodes), 0.9)
    local[..., 0] = worst
    return {
        "rounds": np.array([1, 20]),
        "accuracy": accuracy * merged,
        "ece": ece * merged,
        "ece_fine": ece * merged,
        "nll": nll * merged,
        "brier": ece * merged,
        "own_accuracy": np.full((replicas, 2, nodes), 0.7),
        "local_accuracy": local,
        "sizes": np.full((replicas, nodes), 100),
        "seconds_a_round": np.array(seconds * replicas),
    }


def everything(change=lambda n, rule: {}):
    """All runs of one set; `change` says how each differs from the same numbers."""
    rules = {0: ["fedavg"], **dict.fromkeys(ba_bfl.LAYERS, ba_bfl.RULES)}
    return {f"cifar10 {n} {rule}": run(**change(n, rule)) for n in rules for rule in rules[n]}


def verdicts(done):
    records = [
        r
        for item in ("table-1", "figure-3", "figure-4", "figure-5")
        for r in ba_bfl.ITEMS[item].records(done)
    ]
    return {c.name.removeprefix("cifar10 "): c.held for c in claims(records)}


@pytest.mark.parametrize("item", [i for i in ba_bfl.ITEMS if i != "figure-1"])
@pytest.mark.parametrize("quick", [False, True])
def test_tasks_of_an_item_can_be_written_down_and_are_distinct(item, quick):
    tasks = ba_bfl.ITEMS[item].tasks(SETS, quick, None)
    assert tasks
    assert len({t.key for t in tasks.values()}) == len(tasks)
    json.dumps([t.arguments for t in tasks.values()])


def test_tables_and_figures_share_their_runs():
    keys = [
        {t.key for t in ba_bfl.ITEMS[i].tasks(SETS, False, None).values()}
        for i in ("table-1", "figure-3", "figure-4", "figure-5")
    ]
    assert keys[0] == keys[1] == keys[2] == keys[3]
    assert len(keys[0]) == 3 * (1 + 3 * 5)


def test_figure_1_is_the_papers():
    made = ba_bfl.ITEMS["figure-1"].records({})
    printed = {r.setting["rule"]: r for r in made if r.metric == "variance" and r.paper_value}
    assert {rule: r.paper_value for rule, r in printed.items()} == {
        "eaa": 0.625, "gaa": 0.3125, "aalv": 0.5, "rkl": 0.4, "w2": 0.5625,
    }  # fmt: skip
    assert all(r.value == pytest.approx(r.paper_value, abs=1e-12) for r in printed.values())
    (claim,) = claims(made)
    assert claim.held


def test_every_measure_of_the_last_round_is_recorded():
    made = ba_bfl.ITEMS["figure-5"].records({"cifar10 1 rkl": run(worst=0.5)})
    found = {r.metric: r.value for r in made}
    assert found["local_mean"] == pytest.approx((0.5 + 3 * 0.9) / 4)
    assert found["local_worst"] == pytest.approx(0.5)
    assert found["own_mean"] == pytest.approx(0.7)
    (cost,) = ba_bfl.ITEMS["figure-4"].records({"cifar10 1 rkl": run(seconds=2.0)})
    assert cost.value == pytest.approx(2.0)  # of one replica


def test_claims_hold_where_the_numbers_say_so():
    held = verdicts(
        everything(
            lambda n, rule: {
                "ece": 0.2 - 0.05 * n,
                "nll": 2 - 0.2 * n,
                "seconds": 1 + n,
                "worst": 0.3 + 0.1 * n,
            }
        )
    )
    assert held == dict.fromkeys(["alike", "calibrated", "layers", "cost", "fairness"], True)


def test_claims_do_not_hold_where_they_say_otherwise():
    held = verdicts(
        everything(
            lambda n, rule: {
                "accuracy": 0.8 if rule != "w2" else 0.7,
                "ece": 0.05 * (n + 1),
                "nll": 1 + n,
                "seconds": 4 - n,
                "worst": 0.8 - 0.1 * n,
            }
        )
    )
    assert held == dict.fromkeys(["alike", "calibrated", "layers", "cost", "fairness"], False)


def test_a_claim_that_was_not_measured_is_left_out():
    done = {k: v for k, v in everything().items() if " 3 " not in k}
    assert verdicts(done) == {}


def test_other_sets_are_refused():
    with pytest.raises(UnknownName, match="cifar10"):
        ba_bfl.datasets(["cifar"])
