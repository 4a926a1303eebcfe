"""Charters of sealed sums: what nobody could rely on, or could overflow, is refused when made."""

import networkx as nx
import pytest

from federation import federation
from peerwise.errors import BadSetting
from peerwise.peer.charter import Charter
from peerwise.peer.learning import Learning
from peerwise.peer.leaving import what_leaves

TREE = nx.relabel_nodes(nx.path_graph(3), dict(enumerate("abc")))
NB = {"name": "sealed_nb"}
SPENDS = {
    "privacy": {"epsilon": 1.0, "delta": 1e-5},
    "budget": {"epsilon": 1.0, "delta": 1e-5},
}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"honest": 0.2}, "a sum may leave out"),
        ({"least": 0.6, "honest": 0.5}, "a sum may leave out"),
        ({"least": 0.5}, "least must be"),
        ({"least": 0.6, "honest": 1.0}, "has one sum"),
        ({"name": "sealed_crc", "releases": 1, "least": 0.6, "honest": 1.0}, "has one sum"),
        ({"name": "sealed_crc", "least": 0.6, "honest": 1.0}, "has one sum"),  # in so few rounds
    ],
)
def test_noise_on_which_nobody_could_rely(tmp_path, options, says):
    terms = {"rounds": 14, "limits": {"rows": 100}, **SPENDS}
    with pytest.raises(BadSetting, match=says):
        federation(tmp_path, TREE, {**NB, **options}, **terms)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"method": {**NB, "select": 7}}, "there are 6 features"),
        ({"method": {**NB, "units": "sealed"}, "units": "agree"}, "to seal them"),
        ({"method": {**NB, "units": "sealed"}, "spends": {}}, "public bounds"),
        ({"model": "multinomial"}, "which no budget allows"),
    ],
)
def test_what_cannot_be_agreed_first(tmp_path, more, says):
    terms = {"method": NB, **more}
    spends = terms.pop("spends", SPENDS if "units" not in terms else {})
    with pytest.raises(BadSetting, match=says):
        federation(tmp_path, TREE, terms.pop("method"), **spends, **terms)


def test_deadlines_and_sums_that_go_on_without_a_node(tmp_path):
    """Who waits for a missing node is too late for the others, round after round."""
    fewer = {"name": "sealed_crc", "least": 0.6, "honest": 1.0}
    terms = {**SPENDS, "limits": {"rows": 100}}
    with pytest.raises(BadSetting, match="no sum completes"):
        federation(tmp_path, TREE, fewer, pace={"mode": "deadline"}, **terms)
    federation(tmp_path, TREE, fewer, pace={"mode": "async"}, **terms)
    federation(tmp_path, TREE, {**fewer, "least": 1.0}, pace={"mode": "deadline"}, **terms)


def test_noise_that_could_overflow(tmp_path):
    tiny = {**SPENDS, "privacy": {"epsilon": 1e-9, "delta": 1e-30}}
    with pytest.raises(BadSetting, match="overflow"):
        federation(tmp_path, TREE, NB, **tiny)


def test_noise_that_could_overflow_whatever_a_row_adds(tmp_path):
    """Beside the grid's step a row that adds up to .999 has twice the noise of one that adds 1."""
    tiny = {**SPENDS, "privacy": {"epsilon": 3e-6, "delta": 1e-30}}
    method = {"name": "sealed_crc", "releases": 64, "clip": 0.999}
    with pytest.raises(BadSetting, match=r"the charter: .* overflow"):
        federation(tmp_path, TREE, method, limits={"rows": 100}, **tiny)


def test_so_few_rounds_that_no_sum_may_come_about_are_warned_of(tmp_path):
    """Before, nothing said so: the budget was spent, and every prediction was a half."""
    charter = federation(tmp_path, TREE, NB, rounds=6, **SPENDS).charter
    (said,) = [line for line in what_leaves(charter) if line.startswith("Warning")]
    assert "can take 7 rounds, and there are 6" in said
    enough = charter.text().replace("rounds = 6", "rounds = 7")
    assert "Warning" not in " ".join(what_leaves(Charter.parse(enough)))


def test_more_sums_than_fit_into_the_rounds_are_warned_of(tmp_path):
    """Before, all were paid for, few came about, and nothing said so."""
    terms = {"rounds": 24, "limits": {"rows": 100}, **SPENDS}
    said = {}
    for releases in (1000, 4, None):
        method = {"name": "sealed_crc"} | ({} if releases is None else {"releases": releases})
        lines = what_leaves(federation(tmp_path, TREE, method, **terms).charter)
        said[releases] = [line for line in lines if line.startswith("Warning")]
    assert "pays for 1000 sums, and about 4 fit into 24 rounds" in said[1000][0]
    assert said[4] == said[None] == []


def test_what_leaves_says_on_whom_it_relies(tmp_path):
    fed = federation(tmp_path, TREE, NB, **SPENDS)
    said = " ".join(what_leaves(fed.charter))
    assert "2 honest nodes of 3 make the whole" in said
    assert "several rows of one person, and" in said
    assert "ledger and the hash of its last entry go with every letter" in said


def test_what_leaves_of_sealed_sums_covers_a_person_whose_rows_count(tmp_path):
    """Before, several rows of one person were said not to be covered where a person is the unit."""
    person = {**SPENDS, "privacy": {**SPENDS["privacy"], "person": "who", "person_rows": 3}}
    said = " ".join(what_leaves(federation(tmp_path, TREE, NB, **person).charter))
    assert "for one person ('who', at most 3 rows of each)" in said
    assert "several rows of one person beyond those that count" in said


@pytest.mark.parametrize(
    ("method", "model", "is_open"),
    [(NB, "multinomial", True), (NB, "tan", False), ({"name": "crc"}, "tan", True)],
)
def test_what_leaves_says_which_sums_have_no_masks(tmp_path, method, model, is_open):
    fed = federation(tmp_path, TREE, method, model=model)
    opened = [line for line in what_leaves(fed.charter) if "without masks" in line]
    assert len(opened) == is_open
    assert Learning(fed.charter).agrees == is_open
