"""The CRC paper's claims: on bundled digits everywhere, on the paper's own sets where they are."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from peerwise.learner import cell, run
from peerwise.papers.crc import items as crc
from peerwise.papers.crc.items import TABLES
from peerwise.papers.items import Scale
from peerwise.papers.records import cells_of
from peerwise.papers.reproduce import reproduce
from peerwise.study.jobs import Run, to_outcome
from peerwise.study.results import Record
from peerwise.study.store import WHOLE, Store

DIGITS = cell(
    {
        "split": {"nodes": 24, "rows": 50, "test_rows": 500},
        "method": "crc",
        "run": {"repetitions": 2},
    }
)
MORE = {"network": {"topology": "tree_plus", "extra": 60}}


def error(one, **update):
    return run(one.changed(**update)).values["test_error"][:, -1].mean()


@pytest.fixture(scope="module")
def digits():
    return {
        "rc": error(DIGITS, method="rc"),
        "ml": error(DIGITS, method="ml"),
        "isolated": error(DIGITS, method="isolated"),
        "crc": error(DIGITS),
    }


def test_crc_beats_maximum_likelihood_on_all_rows_and_nodes_alone(digits):
    assert digits["rc"] < digits["crc"] < digits["ml"] < digits["isolated"]
    assert digits["crc"] - digits["rc"] < 0.05


def test_more_edges_close_the_gap(digits):
    assert error(DIGITS, **MORE) - digits["rc"] < 0.6 * (digits["crc"] - digits["rc"])


@pytest.mark.full  # `make test`: more edges close the gap, above
def test_edges_close_what_one_class_a_node_opens():
    drift = DIGITS.changed(split={"partition": "label_drift", "rows": 40})
    reference = error(drift, method="rc")
    tree, more = error(drift) - reference, error(drift, **MORE) - reference
    assert tree > 0.05
    assert more < tree / 2


@pytest.mark.full
def test_more_local_iterations_cut_the_rounds(digits):
    def first_below(iterations):
        outcome = run(DIGITS.changed(run={"record": "all"}, method={"iterations": iterations}))
        curve = outcome.values["test_error"].mean((0, 2))
        return outcome.rounds[np.flatnonzero(curve < digits["ml"])[0]]

    assert first_below(3) < first_below(1)


# 'secondary' is a case of its own, below
TABULAR = ("skin", "letter")
MORE_TABULAR = ("pulsar", "default", "soft", "adult", "smartgrid")


@pytest.fixture(scope="module")
def paper_row(data_folder):
    found = {row.name: row for row in crc.datasets()}

    def measure(name):
        base = cell({**crc.base(found[name], Scale(quick=True)), "method": "crc"})
        return base.changed(split={"test_rows": 4000}), TABLES["table-3"][name]

    return measure


@pytest.mark.some("skin")
@pytest.mark.parametrize(
    "name", [*TABULAR, *(pytest.param(n, marks=pytest.mark.full) for n in MORE_TABULAR)]
)
def test_table_3_on_the_papers_own_sets(paper_row, name):
    setting, printed = paper_row(name)
    rc = error(setting, method="rc")
    assert rc == pytest.approx(printed["rc_test_error"], abs=0.025)
    assert error(setting) - rc < printed["crc_test_gap"] + 0.02


@pytest.mark.full
def test_secondary_mushroom_is_as_good_as_the_papers_from_the_start_its_algorithm_1_prints(
    paper_row,
):
    """From the uniform start RC ends near .26, the paper's table says .22; from maximum likelihood
    it ends there. The error also moves by ±.03 with the order in which names become codes."""
    setting, printed = paper_row("secondary")
    uniform, from_ml = (
        error(setting, method="rc"),
        error(setting, method={"name": "rc", "start": "ml"}),
    )
    assert from_ml == pytest.approx(printed["rc_test_error"], abs=0.025)
    assert uniform - from_ml > 0.02
    assert error(setting) - uniform < printed["crc_test_gap"] + 0.02


@pytest.mark.full
def test_letter_does_not_break_as_the_papers_runs_do(paper_row):
    setting, printed = paper_row("letter")
    gap = error(setting) - error(setting, method="rc")
    assert gap < 0.1 < printed["crc_test_gap"]


def _record(item, column, dataset, value):
    return Record(
        paper="crc",
        item=item,
        dataset=dataset,
        setting={"method": "crc", "column": column},
        metric="test_gap",
        value=value,
        std=0.001,
        reps=5,
        paper_value=TABLES[item][dataset][column],
    )


def test_a_claim_can_fail_and_says_with_what_numbers():
    def records(more, tree=0.02):
        columns = {"tree": tree, "+10": more, "+80": 0.0}
        return [_record("table-4", c, d, v) for c, v in columns.items() for d in ("skin", "adult")]

    claims = crc.PAPER.claims
    (held,) = claims(records(0.0, tree=0.002))
    (not_held,) = claims(records(0.03))
    (undecided,) = claims(records(0.0, tree=0.0))
    found = [c.verdict for c in (held, not_held, undecided)]
    assert found == ["held", "not held", "undecided"]
    assert held.name == "edges_help"
    assert "+10: 2 not held of 2; not held: skin, adult" in not_held.ours
    assert "mean gap 0.020 ±0.001, 0.030 ±0.001" in not_held.ours
    assert claims([]) == []


# --- at full size, which took hours: what was run is committed


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """A folder with the committed cells and nothing else."""
    file = Path(__file__).parents[2] / "results" / "crc" / WHOLE
    if not file.is_file():
        pytest.skip(
            f"results/crc/{WHOLE} is absent; `peerwise reproduce crc/all` runs it for hours"
        )
    folder = tmp_path_factory.mktemp("crc")
    shutil.copy(file, folder)
    return folder


@pytest.mark.full
@pytest.mark.parametrize("item", [i for i in crc.ITEMS if crc.ITEMS[i].columns])
def test_every_table_at_full_size(data_folder, committed, item):
    """The paper's own sets have all cells and claims a grade; a cell run again is as committed."""
    found = reproduce(crc.PAPER, [item], committed, only_kept=True)
    assert not found.failures
    assert {c.verdict for c in found.claims} <= {"held", "not held", "undecided"}
    sets = [d for d in crc.datasets() if d.present and not d.variant]
    cells = cells_of(crc.PAPER, item, sets, Scale())
    kept = {name: Store(committed).get(Run(one).key) for name, one in cells.items()}
    assert not [name for name, held in kept.items() if held is None]
    name = next(n for n in cells if n.startswith("skin|") and not n.endswith("|reference"))
    again, before = run(cells[name]), to_outcome(kept[name].arrays)
    for part in ("train_error", "test_error"):
        ours, theirs = (each.values[part][:, -1].mean() for each in (again, before))
        assert ours == pytest.approx(theirs, abs=1e-3)
