"""Items of the BA-BFL paper: what they run, and what becomes of what was run."""

import json

import numpy as np
import pytest

from peerwise.errors import UnknownName
from peerwise.learner import cell
from peerwise.papers.ba_bfl import items as ba_bfl
from peerwise.papers.items import Scale

SETS = ["fashion_mnist", "cifar10", "svhn_derived_20k"]


def run(accuracy=0.8, ece=0.1, nll=1.0, worst=0.6, replicas=3, nodes=4):
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
    }


def everything(change=lambda n, rule: {}):
    """All runs of one set; `change` says how each differs from the same numbers."""
    rules = {0: ["fedavg"], **dict.fromkeys(ba_bfl.LAYERS, ba_bfl.RULES)}
    return {f"cifar10 {n} {rule}": run(**change(n, rule)) for n in rules for rule in rules[n]}


def paces(seconds=lambda n: 1.0 + n):
    """Rounds of FedAvg and of one rule, timed."""
    tasks = ba_bfl.ITEMS["figure-4"].runs(["cifar10"], Scale())
    took = {t: seconds(int(t.split()[1])) for t in tasks}
    return {
        t: {"seconds_a_round": np.array(s), "seconds": np.array([s, s, s])} for t, s in took.items()
    }


def verdicts(done, timed=()):
    records = [
        r for item in ("table-1", "figure-3", "figure-5") for r in ba_bfl.PAPER.records(item, done)
    ]
    records += ba_bfl.PAPER.records("figure-4", dict(timed))
    return {c.name.removeprefix("cifar10 "): c.verdict for c in ba_bfl.PAPER.claims(records)}


@pytest.mark.parametrize("item", [i for i in ba_bfl.ITEMS if i != "figure-1"])
@pytest.mark.parametrize("quick", [False, True])
def test_tasks_of_an_item_can_be_written_down_and_are_distinct(item, quick):
    tasks = ba_bfl.ITEMS[item].runs(SETS, Scale(quick))
    assert tasks
    assert len({t.key for t in tasks.values()}) == len(tasks)
    json.dumps([t.arguments for t in tasks.values()])
    for task in tasks.values():  # names, options and bounds are those that the learner knows
        assert cell(task.arguments["description"])["split"]["nodes"] == 10


def test_tables_and_figures_share_their_runs():
    keys = [
        {t.key for t in ba_bfl.ITEMS[i].runs(SETS, Scale()).values()}
        for i in ("table-1", "figure-3", "figure-5")
    ]
    assert keys[0] == keys[1] == keys[2]
    assert len(keys[0]) == 3 * (1 + 3 * 5)


def test_rounds_are_timed_by_themselves():
    tasks = ba_bfl.ITEMS["figure-4"].runs(SETS, Scale())
    assert len(tasks) == 3 * 4  # FedAvg, and one to three layers of one rule
    assert {t.function.partition(":")[2] for t in tasks.values()} == {"pace"}
    described = [t.arguments["description"] for t in tasks.values()]
    assert {d["data"]["source"] for d in described if d["net"]["moved"]} == {"cifar10"}


def test_figure_1_is_the_papers():
    made = ba_bfl.PAPER.records("figure-1", {})
    printed = {r.setting["rule"]: r for r in made if r.metric == "variance" and r.paper_value}
    assert {rule: r.paper_value for rule, r in printed.items()} == {
        "eaa": 0.625, "gaa": 0.3125, "aalv": 0.5, "rkl": 0.4, "w2": 0.5625,
    }  # fmt: skip
    assert all(r.value == pytest.approx(r.paper_value, abs=1e-12) for r in printed.values())
    (claim,) = ba_bfl.PAPER.claims(made)
    assert claim.verdict == "held"


def test_every_measure_of_the_last_round_is_recorded():
    made = ba_bfl.PAPER.records("figure-5", {"cifar10 1 rkl": run(worst=0.5)})
    found = {r.metric: r.value for r in made}
    assert found["local_mean"] == pytest.approx((0.5 + 3 * 0.9) / 4)
    assert found["local_worst"] == pytest.approx(0.5)
    assert found["own_mean"] == pytest.approx(0.7)
    timed = {"cifar10 1 rkl": {"seconds_a_round": np.array(2.0)}}
    (cost,) = ba_bfl.PAPER.records("figure-4", timed)
    assert (cost.value, cost.setting["layers"], cost.std) == (2.0, 1, None)


def test_claims_hold_where_the_numbers_say_so():
    held = verdicts(
        everything(
            lambda n, rule: {
                "ece": 0.2 - 0.05 * n,
                "nll": 2 - 0.2 * n,
                "worst": 0.3 + 0.1 * n,
            }
        ),
        paces(),
    )
    assert held == dict.fromkeys(["alike", "calibrated", "layers", "cost", "fairness"], "held")


def test_claims_do_not_hold_where_they_say_otherwise():
    held = verdicts(
        everything(
            lambda n, rule: {
                "accuracy": 0.8 if rule != "w2" else 0.7,
                "ece": 0.05 * (n + 1),
                "nll": 1 + n,
                "worst": 0.8 - 0.1 * n,
            }
        ),
        paces(lambda n: 4.0 - n),
    )
    assert held == dict.fromkeys(["alike", "calibrated", "layers", "cost", "fairness"], "not held")


def test_longer_runs_have_claims_of_their_own():
    """The same claims, of other numbers: neither item's runs pass for the other's."""
    better = {"ece": 0.05, "nll": 0.5, "worst": 0.9}
    table = everything(lambda n, rule: {} if n == 0 else {"ece": 0.3, "nll": 3.0, "worst": 0.5})
    tasks = ba_bfl.ITEMS["longer"].runs(["cifar10"], Scale())
    layers = {name: int(name.split()[1]) for name in tasks}
    longer = {
        name: run(ece=0.2 - 0.05 * n, nll=2 - 0.2 * n, worst=0.3 + 0.1 * n)
        for name, n in layers.items()
    }
    records = [
        r for item in ("table-1", "figure-3", "figure-5") for r in ba_bfl.PAPER.records(item, table)
    ]
    records += ba_bfl.PAPER.records("longer", longer)
    # as good as can be, so that a leak would show
    records += ba_bfl.PAPER.records("init", {"cifar10 3 rkl": run(**better)})
    found = {c.name: c for c in ba_bfl.PAPER.claims(records)}
    assert {name: c.verdict for name, c in found.items()} == {
        "cifar10 alike": "held",
        **dict.fromkeys(["cifar10 calibrated", "cifar10 layers"], "not held"),
        "cifar10 fairness": "undecided",  # the same with one and with three layers
        **{f"cifar10 {c}, longer": "held" for c in ("calibrated", "layers", "fairness")},
    }
    assert "n=3 0.300 ±0.000; NLL" in found["cifar10 calibrated"].ours
    assert "n=3 0.050 ±0.000; NLL" in found["cifar10 calibrated, longer"].ours
    assert "50 rounds of 10 epochs" in found["cifar10 layers, longer"].claim


@pytest.mark.parametrize("quick", [False, True])
def test_longer_is_five_times_as_much_training(quick):
    def epochs(item):
        tasks = ba_bfl.ITEMS[item].runs(SETS, Scale(quick)).values()
        described = [t.arguments["description"] for t in tasks]
        (one,) = {d["run"]["rounds"] * d["method"]["epochs"] for d in described}
        return one

    assert epochs("longer") == 5 * epochs("table-1")
    tasks = ba_bfl.ITEMS["longer"].runs(SETS, Scale(quick))
    assert {t.arguments["description"]["run"]["repetitions"] for t in tasks.values()} == {1}
    # FedAvg and one to three layers: of one set and rule, or of all sets and two rules
    assert len(tasks) == (4 if quick else 3 * 7)


def test_a_claim_that_was_not_measured_is_left_out():
    done = {k: v for k, v in everything().items() if " 3 " not in k}
    assert verdicts(done) == {}
    assert "cost" not in verdicts(everything())


def test_other_sets_are_refused():
    with pytest.raises(UnknownName, match="cifar10"):
        ba_bfl.datasets(["cifar"])


def test_reliability_is_drawn_of_runs_that_kept_their_bins():
    bins = np.zeros((2, 100, 3))
    bins[:, 95] = [1.0, 0.95, 0.8]  # sure by .95, right in four of five
    kept = {"cifar10 0 fedavg": {**run(replicas=2), "bins": bins}, "cifar10 1 rkl": run(replicas=2)}
    figure = ba_bfl.PAPER.figure("reliability", kept, [])
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["CIFAR-10: FedAvg\nECE 0.150"]
    assert ba_bfl.PAPER.figure("reliability", {"cifar10 1 rkl": run()}, []) is None
    sure = [r.value for r in ba_bfl.PAPER.records("reliability", kept) if r.metric == "confidence"]
    assert sure == pytest.approx([0.95])


def test_priors_and_temperatures_differ_in_nothing_else():
    tasks = ba_bfl.ITEMS["prior"].runs(SETS, Scale())
    methods = [t.arguments["description"]["method"] for t in tasks.values()]
    assert {m.get("prior") for m in methods} == {None, "standard", "neighbours"}
    rest = [{k: v for k, v in m.items() if k not in ("prior", "temperature")} for m in methods]
    assert all(m == rest[0] for m in rest)
