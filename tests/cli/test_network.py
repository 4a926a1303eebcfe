"""The commands that set up a network of real nodes."""

import sys

import pandas as pd
import pytest

from helpers import command, in_words
from peerwise.cli.public import told_bounds
from peerwise.peer.charter import Charter
from peerwise.peer.identity import load_identity
from peerwise.privacy import Ledger


@pytest.fixture
def network(monkeypatch, capsys, tmp_path):
    """Run `peerwise network ...` in an empty folder; returns exit code and all that was said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return in_words(command(monkeypatch, capsys, "network"))


@pytest.fixture
def ward(tmp_path):
    """A file of rows."""
    ages, ill = list(range(20, 60)), ["no", "yes"] * 20
    frame = pd.DataFrame({"age": ages, "sex": ["f", "f", "m", "m"] * 10, "ill": ill})
    frame.to_csv(tmp_path / "ward.csv", index=False)
    return frame


def test_a_charter_is_drafted_shown_and_fits_its_sample(network, tmp_path):
    code, said = network("new", "--data", "wine", "--nodes", 4, "--rounds", 9, "--name", "wines")
    assert code == 0, said
    charter = Charter.load(tmp_path / "charter.toml")
    assert charter.names == ("node0", "node1", "node2", "node3")
    assert charter.neighbours("node0") == ("node1", "node3")
    assert [n.address for n in charter.nodes.values()] == [
        f"localhost:{7400 + i}" for i in range(4)
    ]
    assert (charter.name, charter.rounds, charter.limits.rows) == ("wines", 9, 178)
    code, said = network("check", "charter.toml", "--data", "wine", "--node", "node1")
    assert code == 0
    assert charter.hash in said
    for words in ("Charter of wines", "4, 4 with an address", "crc, model naive_bayes"):
        assert words in said
    assert "node1 (localhost:7401) talks to: node0, node2" in said
    assert "178 rows are as agreed (class_0: 59" in said


def test_a_graph_and_addresses_from_files(network, ward, tmp_path):
    (tmp_path / "graph.txt").write_text("north south  # a road\nsouth west\n")
    (tmp_path / "where.txt").write_text("# west only dials\nsouth s.org:1\nnorth n.org:2\n")
    command = ["new", "--data", "ward.csv", "--target", "ill", "--graph", "graph.txt"]
    command += ["--mode", "deadline", "--deadline", 5, "--units", "agree"]
    code, said = network(*command, "--addresses", "where.txt", "--out", "mine.toml")
    assert code == 0, said
    charter = Charter.load(tmp_path / "mine.toml")
    assert charter.names == ("north", "south", "west")
    assert [n.address for n in charter.nodes.values()] == ["n.org:2", "s.org:1", None]
    assert (charter.name, charter.units, charter.pace.mode) == ("mine", "agree", "deadline")
    assert charter.features[1].categories == ("f", "m")
    assert "3, 2 with an address" in said


def test_a_private_charter_has_a_budget_and_a_neural_one_a_net(network, tmp_path):
    command = ["new", "--data", "wine", "--nodes", 3]
    for method in ("private_crc", "gossip_nb"):
        code, said = network(
            *command, "--method", method, "--epsilon", 2, "--out", f"{method}.toml"
        )
        assert code == 0, said
        assert "epsilon 2" in said
    assert Charter.load(tmp_path / "private_crc.toml").budget.delta == 1e-6
    code, said = network(*command, "--method", "decdiff", "--lr", 0.01, "--out", "net.toml")
    assert code == 0, said
    assert "decdiff, net mlp_64" in said
    assert Charter.load(tmp_path / "net.toml").cell["method"]["lr"] == 0.01


def test_code_of_the_author_is_shown_and_not_imported(network, tmp_path):
    (tmp_path / "mine_shown.py").write_text(
        "from peerwise.methods import isolated_ml\n"
        "with open('imported', 'a') as log:\n"
        "    log.write('x')\n"
        "def f(model):\n"
        "    return isolated_ml(model)\n"
    )
    code, said = network("new", "--data", "wine", "--nodes", 3, "--method", "mine_shown:f")
    assert code == 0, said  # who writes it imports it: a mistake shows at once
    assert (tmp_path / "imported").read_text() == "x"
    sys.modules.pop("mine_shown")
    code, said = network("check", "charter.toml", "--data", "wine")
    assert code == 0, said
    assert "code of its author, not read here: mine_shown:f" in said
    assert (tmp_path / "imported").read_text() == "x"


def test_a_budget_that_nothing_keeps_to_is_refused(network, tmp_path):
    network("new", "--data", "wine", "--nodes", 3)
    path = tmp_path / "charter.toml"
    path.write_text(path.read_text() + "\n[budget]\nepsilon = 1.0\n")
    code, said = network("check", path)
    assert code == 2
    assert "adds no noise" in said


def test_rows_that_are_not_as_agreed_are_told_after_the_charter(network, ward):
    network("new", "--data", "ward.csv", "--target", "ill", "--nodes", 2, "--topology", "chain")
    ward.assign(sex="x").to_csv("other.csv", index=False)
    code, said = network("check", "charter.toml", "--data", "other.csv")
    assert code == 2
    assert "links" in said
    assert "column 'sex' holds a value in row 0" in said


def test_an_authority_and_certificates(network, tmp_path):
    code, said = network("ca", "keys")
    assert code == 0
    assert "keys/ca.pem" in said
    code, said = network("cert", "a", "--ca", "keys", "--host", "localhost", "--host", "::1")
    assert code == 0
    assert "valid until" in said
    code, said = network("cert", "a", "--ca", "keys")
    assert code == 2
    assert "--renew" in said
    key = load_identity(tmp_path / "keys", "a").key
    assert network("cert", "a", "--ca", "keys", "--renew", "--days", 9)[0] == 0
    assert load_identity(tmp_path / "keys", "a").key == key
    assert network("cert", "b", "--ca", "keys", "--out", "b")[0] == 0
    assert load_identity(tmp_path / "b", "b").node == "b"


@pytest.mark.parametrize("command", [[], ["new"], ["check"], ["ca"], ["cert"]], ids=" ".join)
def test_help_teaches(network, command):
    code, said = network(*command, "--help")
    assert code == 0
    assert "Usage" in said


NEW = ["new", "--data", "wine"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([*NEW], "give either --graph FILE or --nodes N"),
        ([*NEW, "--nodes", "3", "--graph", "g"], "give either --graph FILE or --nodes N"),
        ([*NEW, "--graph", "none.txt"], "cannot read the edge list none.txt"),
        ([*NEW, "--nodes", "1"], "nodes"),
        ([*NEW, "--nodes", "3", "--topology", "rings"], "did you mean 'ring'"),
        ([*NEW, "--nodes", "3", "--method", "fedavg"], "needs a server"),
        ([*NEW, "--nodes", "3", "--epsilon", "1"], "--epsilon needs a --method that adds noise"),
        ([*NEW, "--nodes", "3", "--net", "mlp"], "[net] is not used by crc"),
        ([*NEW, "--nodes", "3", "--topology", "tree"], "unknown topology 'tree'"),
        (["up", "--channel", "erasures"], "did you mean 'erasure'"),
        (["up", "--topology", "tree"], "unknown topology 'tree'"),
        ([*NEW, "--nodes", "3", "--mode", "hurry"], "pace.mode = 'hurry'"),
        ([*NEW, "--nodes", "3", "--units", "mine"], "units = 'mine'"),
        ([*NEW, "--nodes", "3", "--addresses", "here"], "neither HOST:PORT nor a file"),
        ([*NEW, "--nodes", "3", "--addresses", "h:65534"], "port from 1 to 65535"),
        ([*NEW, "--nodes", "3", "--addresses", "bad.txt"], "bad.txt, line 2: expected a node"),
        ([*NEW, "--nodes", "3", "--addresses", "odd.txt"], "did you mean 'node0'"),
        ([*NEW, "--nodes", "3", "--out", "bad.txt"], "bad.txt is there already"),
        (["new", "--data", "wines", "--nodes", "3"], "did you mean 'wine'"),
        (["check", "none.toml"], "cannot read the charter none.toml"),
        (["check", "bad.txt"], "bad.txt is not TOML"),
        (["ca", "bad.txt"], "cannot write bad.txt/ca.key"),
        ([*NEW, "--nodes", "3", "--out", "odd.txt/c"], "cannot write odd.txt/c"),
        (["cert", "a", "--ca", "none"], "make an authority with `peerwise network ca none`"),
        (["cert", "a/b", "--ca", "none"], "a node cannot be called 'a/b'"),
        (["cert", "a"], "Missing option"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_mistakes_are_one_line_and_a_non_zero_exit(network, tmp_path, command, says):
    (tmp_path / "bad.txt").write_text("node0 h:1\nnode1\n")
    (tmp_path / "odd.txt").write_text("node00 h:1\n")
    code, said = network(*command)
    assert code != 0
    assert says in said
    assert "Traceback" not in said


def test_an_unknown_node_is_answered_with_the_nearest(network):
    network("new", "--data", "wine", "--nodes", 3)
    code, said = network("check", "charter.toml", "--node", "nod1")
    assert code == 2
    assert "did you mean 'node1'" in said


PRIVATE = ["new", "--data", "ward.csv", "--target", "ill", "--nodes", 3, "--method", "gossip_nb"]


def test_with_a_budget_nothing_of_the_sample_is_in_the_charter(network, ward, tmp_path):
    """Before, its least and greatest number, mean and deviation were."""
    code, said = network(*PRIVATE, "--epsilon", 1)
    assert code == 2
    assert "--classes" in said
    known = ["--epsilon", 1, "--classes", "no,yes,maybe", "--bound", "age=0:120"]
    code, said = network(*PRIVATE, *known)
    assert "the charter takes nothing about 'sex' from rows" in said
    code, said = network(*PRIVATE, *known, "--categories", "sex=f,m,x")
    assert code == 0, said
    written = (tmp_path / "charter.toml").read_text()
    ward.loc[:, "age"] = [7, *range(61, 100)]
    ward.loc[0, ["sex", "ill"]] = ["m", "yes"]
    ward.iloc[:30].to_csv(tmp_path / "ward.csv", index=False)
    code, _ = network(*PRIVATE, *known, "--categories", "sex=f,m,x", "--out", "again.toml")
    again = (tmp_path / "again.toml").read_text()
    assert again.replace('"again"', '"charter"') == written
    age = Charter.load(tmp_path / "charter.toml").features[0]
    assert (age.low, age.high, age.center, age.scale) == (0, 120, 60, 60)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--bound", "age=120:0"], "low below high"),
        (["--bound", "age=0:inf"], "finite"),
        (["--bound", "age"], "COLUMN=LOW:HIGH"),
        (["--categories", "sex=f"], "two or more"),
        (["--bound", "age=0:9", "--bound", "age=0:12"], "--bound is there twice for 'age'"),
        (["--categories", "sex=f,m", "--categories", "sex=f,m"], "twice for 'sex'"),
        (["--bound", "sex=0:1", "--categories", "sex=f,m"], "give one of them"),
        (["--bound", "rage=0:1", "--classes", "no,yes"], "unknown column 'rage'"),
        (["--bounds-epsilon", 0.1], "--ledger"),
        (["--site", "ward"], "--ledger and --site are used only with --bounds-epsilon"),
        (["--bounds-epsilon", "nan"], "--bounds-epsilon must be a finite number"),
        (["--epsilon", 0], "epsilon"),
        (["--classes", "no,yes", "--person", "sexx"], "did you mean 'sex'"),
        (["--classes", "no,yes", "--out", "none/c.toml"], "no folder none"),
    ],
)
def test_wrong_public_knowledge_is_said_in_one_line(network, ward, options, says):
    code, said = network(*PRIVATE, "--epsilon", 1, *options)
    assert code == 2
    assert says in said


def test_bounds_of_some_columns_are_not_paid_for_where_others_do_not_fit(network, ward, tmp_path):
    ledger = tmp_path / "site.ledger"
    Ledger.open(ledger, node="ward", epsilon=0.5).close()
    ward.assign(weight=70.0).to_csv("ward.csv", index=False)
    find = ["--epsilon", 1, "--bounds-epsilon", 0.8, "--ledger", ledger, "--categories", "sex=f,m"]
    code, said = network(*PRIVATE, *find, "--classes", "no,yes")
    assert code == 2
    assert "cannot afford" in said
    with Ledger.open(ledger, node=None) as book:
        assert book.receipts() == 0


def test_bounds_are_paid_for_once_nothing_else_is_wrong_and_for_a_person(network, ward, tmp_path):
    ledger = tmp_path / "site.ledger"
    Ledger.open(ledger, node="ward", epsilon=2.0).close()
    ward.assign(who="p1").to_csv("ward.csv", index=False)
    find = ["--epsilon", 1, "--bounds-epsilon", 0.5, "--ledger", ledger, "--categories", "sex=f,m"]
    person = ["--person", "who", "--person-rows", 3, "--classes", "no,yes"]
    for wrong, says in (
        ([], "--classes"),
        (["--addresses", "host", *person], "neither HOST:PORT"),
        (["--bound", "rage=0:1", *person], "unknown column 'rage'"),
        (["--site", "hall", *person], "is the ledger of node 'ward', not of 'hall'"),
    ):
        code, said = network(*PRIVATE, *find, *wrong)
        assert code == 2
        assert says in said
    with Ledger.open(ledger, node=None) as book:
        assert book.receipts() == 0
    code, said = network(*PRIVATE, *find, *person, "--site", "ward")
    assert code == 0, said
    assert "charged to the ledger of 'ward': epsilon 0.5 for these bounds" in said
    with Ledger.open(ledger, node=None) as book:
        (entry,) = book.table()["parameters"]
    assert entry["unit"] == "person ('who', at most 3 rows of each)"
    assert entry["scale"] == 3 / 0.5
    assert "were found, with noise" in said


def test_bounds_that_noise_made_useless_are_said_to_be():
    """Before, nothing said so, and noise hid the column in the training."""
    wide, right = told_bounds(["age", "crp"], {"age": (-1e6, 1e6), "crp": (0.5, 30.0)})
    assert "column 'age': bounds -1e+06 to 1e+06 were found, with noise, the widest" in wide
    assert "--bound age=LOW:HIGH" in wide
    assert right == "column 'crp': bounds 0.5 to 30 were found, with noise"


def test_a_charter_whose_rows_are_those_of_the_sample_is_noted(network, ward, tmp_path):
    command = ["new", "--data", "ward.csv", "--target", "ill", "--nodes", 3]
    code, said = network(*command)
    assert code == 0, said
    assert "limits.rows is 40, as many as the sample has" in said
    assert "limits.rows" not in network(*command, "--rows", 120, "--out", "b.toml")[1]


def test_a_charter_that_would_show_identifiers_is_noted(network, tmp_path):
    """Before, it listed all patients' names and said nothing."""
    frame = pd.DataFrame({"patient": [f"P{i}" for i in range(40)], "age": [20.5, 31] * 20})
    frame.assign(ill=["no", "yes", "yes", "no"] * 10).to_csv(tmp_path / "ward.csv", index=False)
    base = ["new", "--data", "ward.csv", "--target", "ill", "--nodes", 3]
    code, said = network(*base)
    assert code == 0, said
    assert "column 'patient' looks like an identifier" in said
    assert "--column NAME=drop leaves a column out" in said
    code, said = network(*base, "--column", "patient=drop", "--out", "again.toml")
    assert "identifier" not in said


def test_a_budget_for_a_method_without_noise_is_refused_by_the_options_name(network, ward):
    """Before, it named a section of a file, and federated_nb, which peers do not offer."""
    code, said = network(*PRIVATE[:-1], "crc", "--epsilon", 1)
    assert code == 2
    assert "--epsilon needs a --method that adds noise: " in said
    assert "sealed_crc" in said
    assert "federated_nb" not in said
    code, said = network(*PRIVATE[:-1], "crc")
    assert "use a private method (gossip_nb" in said
    assert "sealed_crc, sealed_nb) with [privacy] epsilon" in said


def test_units_are_those_that_were_asked_for(network, ward, tmp_path):
    """Before, --units was ignored where --epsilon was given."""
    known = ["--epsilon", 1, "--classes", "no,yes", "--bound", "age=0:120"]
    known = [*PRIVATE, *known, "--categories", "sex=f,m"]
    code, said = network(*known, "--units", "agree")
    assert code == 2
    assert "exact sums" in said
    code, said = network(*known, "--units", "gven")
    assert code == 2
    assert "units = 'gven'" in said
    code, said = network(*known, "--units", "sealed", "--method", "sealed_nb")
    assert code == 0, said
    assert 'units = "sealed"' in (tmp_path / "charter.toml").read_text()
    assert "from which center and scale follow" in said
