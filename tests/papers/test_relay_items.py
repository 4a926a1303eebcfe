"""Items of relay beside CRC: what they run, and when they count as reached."""

import jax
import numpy as np
import pytest

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.learner import cell
from peerwise.learner.run import assembled
from peerwise.papers.items import Scale
from peerwise.papers.relay import items as relay
from peerwise.papers.relay.report import gap_at, references
from peerwise.papers.relay.runs import learn, lied_to
from peerwise.papers.reproduce import choose
from peerwise.papers.show import item_lines
from peerwise.papers.show import shown as shown_item
from peerwise.study.results import Record

SETS = ["adult", "letter"]


@pytest.mark.parametrize(
    "item", ["gaps", "rounds", "ablation", "tuning", "lossy", "churn", "nodes-320"]
)
def test_every_run_has_its_rc_on_the_same_rows(item, monkeypatch):
    monkeypatch.setattr(data, "available", lambda: [{"name": s, "rows": 30_000} for s in SETS])
    tasks = relay.ITEMS[item].runs(SETS, Scale())
    assert tasks
    for name in tasks:
        dataset, _, way, method = name.split("|")
        ours, rc = (tasks[n].arguments["description"] for n in (name, f"{dataset}|-|{way}|rc"))
        assert rc["method"] == {"name": "rc"}
        assert all(ours[section] == rc[section] for section in ("data", "split", "run"))
        assert ours["split"]["partition"] == relay.DEALT[way]
        assert method in (*relay.METHODS, "rc")


def test_items_are_found_by_name():
    assert choose("relay/gaps") == (relay.PAPER, ["gaps"])
    with pytest.raises(UnknownName, match="relay/gaps"):
        choose("relay/gap")


def arrays(early, late):
    error = np.array([[early, late]] * 3)
    return {"rounds": np.array([64, 256]), "error": error}


DONE = {
    "adult|-|iid|rc": arrays(0.2, 0.15),
    "adult|tree|iid|crc": arrays(0.215, 0.2),
    "adult|tree|iid|relay": arrays(0.22, 0.16),
    "adult|-|p(y)|rc": arrays(0.2, 0.15),
    "adult|tree|p(y)|crc": arrays(0.5, 0.3),
    "adult|tree|p(y)|relay": arrays(0.3, 0.215),
}


def test_gaps_by_hand():
    view = relay.PAPER.view("gaps", DONE)
    run = next(run for run in view.runs if run.fields["method"] == "relay")
    np.testing.assert_allclose(gap_at(run, references(view), 256), [-0.04] * 3)
    np.testing.assert_allclose(gap_at(run, references(view), 256, to=256), [0.01] * 3)
    alone = relay.PAPER.records("gaps", {"letter|tree|iid|relay": arrays(0.2, 0.1)})
    assert [r.value for r in alone] == [None] * 3


def test_claims_name_what_is_missed():
    records = relay.PAPER.records("gaps", DONE)
    late, as_late, early = relay.PAPER.claims(records)
    assert late.verdict == as_late.verdict == early.verdict == "not held"
    missed = "1 held, 1 not held of 2; not held: adult"
    assert late.ours == f"{missed} p(y) tree (gaps) +0.015"
    assert as_late.ours.startswith("2 not held of 2; not held: adult iid tree (gaps) +0.010")
    assert early.ours == f"{missed} iid tree (gaps) +0.005"
    assert relay.PAPER.claims([]) == []
    # what a figure shows of the same runs is not counted again
    assert relay.PAPER.claims([r.model_copy(update={"item": "rounds"}) for r in records]) == []


def test_tables_show_crc_beside_relay():
    lines = item_lines(shown_item(relay.PAPER, "gaps", relay.PAPER.records("gaps", DONE)))
    assert "| adult | .015 → .020 | .300 → .100 |" in lines
    assert "| adult | .000 → -.040 | .100 → .015 |" in lines
    assert "| adult | .050 → .010 | .150 → .065 |" in lines  # beside RC of as many rounds
    assert any(line.startswith("| tree, iid | 0 (1) of 1 |") for line in lines)


PARTS = {
    "adult|-|p(x,y)|rc": arrays(0.2, 0.15),
    "adult|tree|p(x,y)|warm-crc": arrays(0.3, 0.25),
    "adult|tree|p(x,y)|relay": arrays(0.25, 0.16),
    "adult|tree|p(x,y)|cold": arrays(0.24, 0.17),
    "adult|tree|p(x,y)|late": arrays(0.25, 0.18),
}


def test_the_ablation_says_which_part_does_it():
    records = relay.PAPER.records("ablation", PARTS)
    assert {c.name: c.verdict for c in relay.PAPER.claims(records)} == {
        "not-the-start": "held", "start-helps": "not held", "lead-helps": "held"
    }  # fmt: skip
    lines = item_lines(shown_item(relay.PAPER, "ablation", records))
    assert "| adult | .050 | -.040 | -.030 | -.020 | -.050 |" in lines  # the last: RC itself
    assert "| adult | .100 | .010 | .020 | .030 |" in lines


def test_crc_can_be_told_the_start_that_relay_arrives_at():
    """On one node, to which nothing has to be relayed, both begin alike."""
    one = {"data": "iris", "split": {"nodes": 1, "rows": 60, "test_rows": 60}}
    begun = {}
    for name in ("peerwise.papers.relay.runs:warm_crc", "relay", "crc"):
        (part,) = assembled(cell({**one, "method": name, "run": {"rounds": 1, "repetitions": 1}}))[
            1
        ]
        state = part.method.init(jax.random.key(0), part.shards.of(0))
        begun[name.rpartition(":")[2]] = state.value
    start = begun["relay"]["statistics"]
    np.testing.assert_allclose(begun["warm_crc"], start, rtol=1e-5, atol=1e-3)
    assert np.abs(np.asarray(begun["crc"]) - np.asarray(start)).max() > 10


def test_a_table_has_the_papers_number_where_it_has_one():
    done = {k: v for k, v in DONE.items() if "iid" in k}
    (crc, *_) = relay.PAPER.records("nodes-320", done)
    assert isinstance(crc, Record)
    assert crc.paper_value is not None


@pytest.mark.full  # runs of the kind are in test_relay and test_every_name
def test_runs_give_errors_by_repetition_and_round():
    description = {
        "split": {"nodes": 4, "rows": 20, "test_rows": 50},
        "method": {"name": "relay", "warm": 0.0},
        "run": {"rounds": 4, "record": 2, "repetitions": 2},
    }
    honest = learn(description)
    assert honest["error"].shape == (2, 2)
    assert list(honest["rounds"]) == [2, 4]
    once = {**description, "run": {**description["run"], "repetitions": 1}}
    lied = lied_to(once, push=1e4)  # a program for every liar
    assert lied["error"].shape == (1, 2)
    assert lied["error"][:, -1].mean() > honest["error"][:, -1].mean()
