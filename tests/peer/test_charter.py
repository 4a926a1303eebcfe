"""What a federation agrees on: read, written, compared, and refused where it makes no sense."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from peerwise import data
from peerwise.errors import BadData, BadFile, BadSetting, PeerwiseError, UnknownName
from peerwise.peer.charter import Charter
from peerwise.peer.drafting import draft
from peerwise.peer.learning import Learning

TEXT = """
name = "wards"
target = "diagnosis"
classes = ["no", "yes"]
missing = false
units = "given"

[[features]]
name = "age"
kind = "numeric"
center = 50.0
scale = 12.0
low = 0.0
high = 120.0

[[features]]
name = "sex"
kind = "categorical"
categories = ["f", "m"]

[method]
name = "crc"
lr = 0.05

[model]
name = "naive_bayes"

[run]
rounds = 64

[pace]
mode = "wait"

[limits]
rows = 1000

[nodes.c]
address = "c.example.org:7400"
neighbours = ["b", "a"]

[nodes.a]
address = "a.example.org:7400"
neighbours = ["c"]

[nodes.b]
neighbours = ["c"]
"""
CRC = 'name = "crc"'
PRIVATE = ('name = "crc"', 'name = "private_crc"', "[limits]", "[privacy]\nepsilon = 2.0\n[limits]")
NET = (CRC, 'name = "decdiff"', "[model]", "[net]", '"naive_bayes"', '"mlp_64"')
BUDGET = "[budget]\nepsilon = {}\ndelta = {}\n[limits]"


def changed(*pairs, text=TEXT):
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1)
    return text


def ward(**columns):
    age, sex, y = columns["age"], columns["sex"], columns["y"]
    labels = np.array(y, dtype=object)
    return data.Table("ward", pd.DataFrame({"age": age, "sex": sex}), labels, "diagnosis")


ROWS = {"age": [62.0, 38.0, 50.0], "sex": ["m", "f", "m"], "y": ["yes", "no", "no"]}


@pytest.fixture(scope="module")
def charter():
    return Charter.parse(TEXT)


def test_a_charter_parses_back_from_its_text(charter, tmp_path):
    assert Charter.parse(charter.text()) == charter
    charter.save(tmp_path / "c.toml")
    again = Charter.load(tmp_path / "c.toml")
    assert again == charter
    assert again.text() == charter.text()
    assert again.hash == charter.hash


def test_infinity_and_options_survive_the_round_trip():
    both = changed(CRC, 'name = "private_crc"', "[limits]", "[privacy]\nepsilon = inf\n[limits]")
    charter = Charter.parse(
        changed('name = "naive_bayes"', 'name = "naive_bayes"\nsmallest_share = 0.1', text=both)
    )
    assert Charter.parse(charter.text()) == charter
    assert Charter.parse(charter.text()).hash == charter.hash


def test_the_order_of_keys_spelt_defaults_and_short_forms_do_not_change_the_hash(charter):
    swapped = changed('name = "crc"\nlr = 0.05', 'lr = 0.05\nname = "crc"')
    swapped = changed('name = "wards"\n', "", "target =", 'name = "wards"\ntarget =', text=swapped)
    assert Charter.parse(swapped).hash == charter.hash
    left_out = changed("lr = 0.05", "", "rounds = 64", "", "missing = false", "", "[model]\n", "",
                       'name = "naive_bayes"\n', "")  # fmt: skip
    assert Charter.parse(left_out).hash == charter.hash
    assert Charter.parse(left_out).difference(charter) is None
    short = changed(
        "[method]\n" + CRC + "\nlr = 0.05", "", 'name = "wards"', 'name = "wards"\nmethod = "crc"'
    )
    assert Charter.parse(short).hash == charter.hash
    neighbours = changed('["b", "a"]', '["a", "b"]')
    assert Charter.parse(neighbours) == charter


def test_the_order_of_the_nodes_counts(charter):
    first = TEXT.index("[nodes.a]"), TEXT.index("[nodes.b]")
    moved = TEXT[: first[0]] + TEXT[first[1] :] + TEXT[first[0] : first[1]]
    other = Charter.parse(moved)
    assert other.names == ("c", "b", "a")
    assert other.hash != charter.hash
    assert charter.difference(other) == "node 1 is 'a' here and 'b' there"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("lr = 0.05", "lr = 0.1"), "method.lr is 0.05 here and 0.1 there"),
        (("lr = 0.05", "lr = 0.01\nm0 = 9"), "method.lr is 0.05 here and 0.01 there"),
        (('"wards"', '"words"'), "name is 'wards' here and 'words' there"),
        (('["no", "yes"]', '["yes", "no"]'), "classes is ['no', 'yes'] here and ['yes', 'no'] t"),
        (("scale = 12.0", "scale = 11"), "features.age.scale is 12.0 here and 11.0 there"),
        (('name = "sex"', 'name = "six"'), "feature 'sex' is missing there"),
        (("rounds = 64", "rounds = 65"), "run.rounds is 64 here and 65 there"),
        (('mode = "wait"', 'mode = "async"'), "pace.mode is 'wait' here and 'async' there"),
        (("lr = 0.05", "include_self = true"), "method.rule.include_self is False here and True"),
        (("rows = 1000", "rows = 999"), "limits.rows is 1000 here and 999 there"),
        (
            ('["b", "a"]', '["a"]', '[nodes.b]\nneighbours = ["c"]', ""),
            "node 'b' is missing there",
        ),
    ],
)  # fmt: skip
def test_the_first_difference_in_words(charter, change, says):
    other = Charter.parse(changed(*change))
    assert charter.difference(other).startswith(says)
    assert other.difference(charter) is not None
    assert other.hash != charter.hash


def test_another_budget_is_a_difference():
    one, two = (
        Charter.parse(changed(*PRIVATE, "[limits]", BUDGET.format(e, 1e-5))) for e in (2.0, 3.0)
    )
    assert one.difference(two) == "budget.epsilon is 2.0 here and 3.0 there"


def test_no_difference_from_itself(charter):
    assert charter.difference(charter) is None


WRONG = [
    (("rounds = 64", "rounds = 0"), "[run] rounds must be from 1 to 1000000, got 0"),
    (("rounds = 64", 'rounds = "64"'), "[run] rounds must be a whole number, got '64'"),
    (("rounds = 64", "ruonds = 64"), "did you mean 'rounds'"),
    (("rounds = 64", "repetitions = 5"), "[run] repetitions is only for simulations; remove it"),
    (("rounds = 64", "rounds = [4, 8]"), "rounds must be a whole number"),
    (('mode = "wait"', "deadline = 0"), "pace.deadline = 0"),
    (('mode = "wait"', "deadline = inf"), "pace.deadline = inf"),
    (('mode = "wait"', "staleness = 0"), "pace.staleness = 0"),
    (('mode = "wait"', 'mode = "hurry"'), "pace.mode = 'hurry'"),
    (('mode = "wait"', 'moed = "wait"'), "did you mean 'pace.mode'"),
    (('units = "given"', 'units = "mine"'), "units = 'mine'"),
    (("missing = false", 'missing = "no"'), "missing = 'no'"),
    (('name = "wards"', ""), "name is missing; add it"),
    (('name = "wards"', 'name = "w"\nnmae = "w"'), "did you mean 'name'"),
    (("rows = 1000", "rows = 0"), "limits.rows = 0"),
    (("rows = 1000", ""), "crc needs the number of rows in the whole network"),
    (('["no", "yes"]', '["no"]'), "classes"),
    (('["no", "yes"]', '["no", "no"]'), "the class 'no' comes twice"),
    (('name = "sex"', 'name = "age"'), "the feature 'age' comes twice"),
    (('name = "sex"', 'name = "diagnosis"'), "the target 'diagnosis' is also listed as a feature"),
    (('["f", "m"]', '["f"]'), "feature 'sex' is categorical with 1 categories"),
    (('["f", "m"]', '["f", "f"]'), "feature 'sex' has a category twice"),
    (('["f", "m"]', '["f", "m"]\nscale = 2'), "feature 'sex': scale is only for numeric features"),
    (("low = 0.0", "low = 120"), "low must be less than high"),
    (("scale = 12.0", "scale = 0"), "features.0.scale = 0"),
    (("center = 50.0", "center = nan"), "features.0.center = nan"),
    (('kind = "numeric"', 'kind = "number"'), "features.0.kind = 'number'"),
    (("lr = 0.05", "lr = -1"), "[method] lr must be between 1e-09 and 1000, got -1"),
    (("lr = 0.05", "lr = [0.1, 0.2]"), "method.lr is a list, but a charter describes one run"),
    ((CRC, 'name = ["crc", "relay"]'), "method.name is a list, but a charter describes one"),
    (
        (CRC, 'name = "no_such_module:f"', '"naive_bayes"', '["naive_bayes", "qda"]'),
        "model.name is a list, but a charter describes one run",
    ),
    (("lr = 0.05", "lrr = 1"), "unknown key in [method]: 'lrr'; did you mean 'lr'"),
    (("lr = 0.05", "s = 1"), "s is an option of decdiff, not of crc"),
    (("lr = 0.05", "rule = 'all'"), "unknown rule 'all'"),
    (('"naive_bayes"', '"naive_bays"'), "did you mean 'naive_bayes'"),
    ((CRC, 'name = "cro"'), "did you mean 'crc'"),
    (("[run]", '[net]\nname = "mlp"\n[run]'), "[net] is not used by crc: remove it"),
    (("[run]", '[data]\nsource = "wine"\n[run]'), "[data] is only for simulations; remove it"),
    (("[run]", '[network]\ntopology = "ring"\n[run]'), "lists who talks to whom"),
    (("[limits]", "[privacy]\nepsilon = 1.0\n[limits]"), "[privacy] is not used by crc"),
    *(
        ((CRC, f'name = "{name}"'), f"'{name}' needs {what}")
        for name, what in {
            "fedavg": "a server",
            "federated_nb": "a server",
            "rc": "all rows at one place",
            "ml": "all rows at one place",
            "pooled_net": "all rows at one place",
            "gaussian_nb": "all rows at one place",
            "logistic_regression": "all rows at one place",
        }.items()
    ),
    ((CRC, 'name = "gradient_tracking"', "rows = 1000", ""), "needs the number of rows"),
    ((*NET, "missing = false", "missing = true"), "networks, which cannot use missing values"),
    ((*NET, '"mlp_64"', '"mlpp_64"'), "unknown net 'mlpp_64'"),
    (PRIVATE, "private_crc spends privacy.epsilon = 2; give a budget"),
    (
        (*PRIVATE, "[limits]", BUDGET.format(1.0, 1e-5)),
        "privacy.epsilon = 2 is more than budget.epsilon = 1",
    ),
    (
        (*PRIVATE, "[limits]", BUDGET.format(2.0, 0.0)),
        "privacy.delta = 1e-05 is more than budget.delta = 0",
    ),
    (("[limits]", BUDGET.format(0, 0.0)), "budget.epsilon = 0"),
    (("[limits]", BUDGET.format(1.0, 0.0)), "crc as configured adds no noise"),
    (
        (*PRIVATE, '"private_crc"\nlr = 0.05', '"gossip_nb"', '"naive_bayes"', '"qda"',
         "[limits]", BUDGET.format(2.0, 0.0).replace("[limits]", "[limits]\nleast_rows = 9")),
        "least_rows depends on a node's exact counts",
    ),
    (
        (*PRIVATE, '"private_crc"\nlr = 0.05', '"gossip_nb"', "epsilon = 2.0",
         "epsilon = 2.0\nbound = 2.0", "[limits]", BUDGET.format(2.0, 0.0)),
        "privacy.bound is only for simulations",
    ),
    (  # sums that overflow would tell how many rows there are
        (*PRIVATE, "[limits]", BUDGET.format(2.0, 1e-5), "scale = 12.0", "scale = 1e-99"),
        "in units of center and scale they are -5e+100 and 7e+100",
    ),
    (
        (*PRIVATE, "[limits]", BUDGET.format(2.0, 1e-5), "center = 50.0", "center = 1e99"),
        "bounds that differ",
    ),
    (
        (*PRIVATE, "[limits]", BUDGET.format(2.0, 1e-5),
         "epsilon = 2.0\n[budget]", "epsilon = 2.0\nperson_rows = 3\n[budget]"),
        "no column says whose a row is",
    ),
    (
        (*PRIVATE, "[limits]", BUDGET.format(2.0, 1e-5),
         "epsilon = 2.0\n[budget]", 'epsilon = 2.0\nperson = "diagnosis"\n[budget]'),
        "is also the target",
    ),
    (
        (*PRIVATE, "[limits]",
         BUDGET.format(2.0, 1e-5).replace("[limits]", 'accountant = "rdp"\n[limits]')),
        "64 rounds cost epsilon",
    ),
    (("[limits]", "[budget]\ndelta = 0.1\n[limits]"), "budget.epsilon is missing"),
    (
        ('units = "given"', 'units = "agree"', "[limits]", BUDGET.format(2.0, 0.0)),
        "exact sums over rows, which [budget] does not allow",
    ),
    (
        ('units = "given"', 'units = "agree"', '"naive_bayes"', '"multinomial"'),
        "multinomial uses numbers as they are",
    ),
    # where keys of 0.6 stand now
    (("[run]\nrounds = 64", "[rounds]\ncount = 64"), "count is now [run] rounds"),
    (("[run]\nrounds = 64", "[rounds]\nmode = 'wait'\nseed = 1"), "[pace] mode, seed is now [run]"),
    ((CRC, 'method = "crc"'), "[method] method is now [method] name"),
    (("lr = 0.05", 'model = "qda"'), "[method] model is now [model] name"),
    (("lr = 0.05", "epsilon = 1.0"), "[method] epsilon is now [privacy] epsilon"),
    (("lr = 0.05", 'precision = "float64"'), "[method] precision is now [run] precision"),
    (("lr = 0.05", 'weigh = "equal"'), "[method] weigh is now [method] rule"),
    (("[limits]", '[privacy]\naccountant = "rdp"\n[limits]'), "is now in [budget]"),
    (('["b", "a"]', '["b", "a", "d"]'), "unknown neighbour of node 'c': 'd'"),
    (('["b", "a"]', '["b"]'), "node 'a' lists 'c' as a neighbour and 'c' does not list 'a'"),
    (('["b", "a"]', '["b", "a", "c"]'), "node 'c' lists itself"),
    (('["b", "a"]', '["b", "a", "b"]'), "node 'c': the neighbour 'b' comes twice"),
    (('address = "c.example.org:7400"', ""), "nodes 'c' and 'b' cannot dial each other"),
    (("c.example.org:7400", "a.example.org:7400"), "address 'a.example.org:7400' comes twice"),
    (("c.example.org:7400", "c.example.org"), "write host:port"),
    (("c.example.org:7400", "c.example.org:0"), "port from 1 to 65535"),
    (("c.example.org:7400", "c.example.org:65536"), "port from 1 to 65535"),
    (("c.example.org:7400", "http://c:7400"), "write host:port"),
    (
        ('["b", "a"]', '["b"]', "[nodes.a]", "[nodes.d]\nneighbours = ['a']\n[nodes.a]",
         '7400"\nneighbours = ["c"]', '7400"\nneighbours = ["d"]'),
        "is not connected: it has 2 parts",
    ),
    ((TEXT[TEXT.index("[nodes.a]"):], "", '["b", "a"]', "[]"), "from 2 to 10000 nodes, got 1"),
    (("[nodes.a]", '[nodes."a b"]'), "a node cannot be called 'a b'"),
    (("[nodes.a]", '[nodes."../a"]'), "a node cannot be called '../a'"),
    (("[nodes.a]", f"[nodes.{'a' * 65}]"), "at most 64"),
    (("[nodes.a]", "[nodes.ca]"), "ca.pem and ca.key are the authority's"),
    (("[nodes.a]", '[nodes."10.0.0.1"]'), "which is an address"),
    (("[nodes.a]", "[nodes.B]"), "comes twice"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[w[1][:40] for w in WRONG])
def test_what_makes_no_sense_is_refused_in_words(change, says, tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text(changed(*change))
    with pytest.raises(PeerwiseError) as caught:
        Charter.load(path)
    assert says in str(caught.value)
    assert "ours.toml" in str(caught.value)
    assert isinstance(caught.value, BadSetting | UnknownName)


def test_a_budget_that_is_large_enough_is_taken():
    for method in ("private_crc", "gossip_nb", "robust_nb"):
        private = changed(*PRIVATE, "lr = 0.05", "")
        Charter.parse(
            changed("private_crc", method, "[limits]", BUDGET.format(2.0, 1e-5), text=private)
        )


def test_an_option_that_was_a_key_of_the_charter_stays_the_methods():
    net = changed(*NET, '"decdiff"\nlr = 0.05', '"cfa_ge"\nepsilon = 0.5')
    assert Charter.parse(net).cell["method"]["epsilon"] == 0.5


def test_m0_needs_no_rows_and_ipv6_is_an_address():
    charter = Charter.parse(
        changed("rows = 1000", "", "lr = 0.05", "m0 = 3", "c.example.org", "[::1]")
    )
    assert charter.cell["method"]["m0"] == 3
    assert charter.nodes["c"].address == "[::1]:7400"


OWN = [
    (CRC, 'name = "no_such_module:f"'),
    ('name = "naive_bayes"', 'name = "no_such_module:f"'),
    ("lr = 0.05", 'rule = {name = "no_such_module:f", depth = 1}'),
    (*NET, '"mlp_64"', '"no_such_module:f"'),
    (*NET, "lr = 0.05", 'loss = "no_such_module:f"'),
]


@pytest.mark.parametrize("change", OWN, ids=["method", "model", "rule", "net", "loss"])
def test_code_of_ones_own_is_not_imported_when_a_charter_is_read(change):
    charter = Charter.parse(changed(*change))
    assert charter.own_code == ("no_such_module:f",)
    assert Charter.parse(charter.text()).hash == charter.hash
    assert charter.difference(Charter.parse(TEXT)) is not None
    assert (charter.rounds, charter.precision) == (64, "float32")
    assert len(charter.rows(ward(**ROWS))[1]) == 3
    with pytest.raises(BadSetting, match="give --allow no_such_module:f"):
        charter.cell  # noqa: B018
    with pytest.raises(BadSetting, match="cannot import"):  # allowed, it is
        Charter.parse(changed(*change), allowed=["no_such_module:f"])
    with pytest.raises(BadSetting, match="rounds must be from 1"):  # the rest is checked
        Charter.parse(changed("rounds = 64", "rounds = 0", text=changed(*change)))


def test_the_hash_is_the_same_whether_code_is_allowed_or_not(tmp_path, monkeypatch):
    (tmp_path / "mine_hashed.py").write_text(
        "from peerwise.methods import crc\n"
        "def f(model, rows: int, nodes: int, *, lr: float = 0.1, more: int = 1):\n"
        "    return crc(model, rows, nodes, lr=lr)\n"
    )
    monkeypatch.chdir(tmp_path)
    text = changed(CRC, 'name = "mine_hashed:f"')
    apart, here = Charter.parse(text), Charter.parse(text, allowed=["mine_hashed:f"])
    assert here.cell["method"] == {"name": "mine_hashed:f", "lr": 0.05, "more": 1}
    assert (here.hash, here.difference(apart)) == (apart.hash, None)
    with pytest.raises(PeerwiseError, match="did you mean 'lr'"):
        Charter.parse(changed("lr = 0.05", "lrr = 1", text=text), allowed=["mine_hashed:f"])
    without = changed("rows = 1000", "", text=text)
    with pytest.raises(BadSetting, match=r"mine_hashed:f needs the number of rows"):
        Charter.parse(without, allowed=["mine_hashed:f"])


def test_noise_of_ones_own_method_must_come_from_the_peer(tmp_path, monkeypatch):
    (tmp_path / "mine_noisy.py").write_text(
        "from peerwise.declare import declares\n"
        "def quiet(model, draw): ...\n"
        "@declares('method', releases='each round')\n"
        "def loud(model, budget): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    private = changed(*PRIVATE, "lr = 0.05", "", "[limits]", BUDGET.format(2.0, 1e-5))
    for name, says in {
        "quiet": "does not declare that it releases anything",
        "loud": "from `key`",
    }.items():
        text = changed("private_crc", f"mine_noisy:{name}", text=private)
        with pytest.raises(BadSetting, match=says):
            Charter.parse(text, allowed=[f"mine_noisy:{name}"])


@pytest.mark.parametrize(
    ("content", "says"), [(b"name = \n", "line 1"), (b"\xff\xfe", "cannot read"), (None, "No such")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, content, says):
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadFile, match=says) as caught:
        Charter.load(path)
    assert str(path) in str(caught.value)


def test_the_network_by_name_and_by_number(charter):
    assert charter.names == ("c", "a", "b")
    assert charter.index("b") == 2
    assert charter.neighbours("c") == ("a", "b")
    with pytest.raises(UnknownName, match="unknown node 'd'"):
        charter.index("d")
    with pytest.raises(UnknownName):
        charter.neighbours("d")
    assert set(charter.graph().edges) == {("c", "a"), ("c", "b")}
    charter = charter.topology()
    links = set(zip(charter.links.src[0].tolist(), charter.links.dst[0].tolist(), strict=True))
    assert links == {(0, 1), (1, 0), (0, 2), (2, 0)}
    assert charter.weights == "equal"
    weighed = Charter.parse(changed("lr = 0.05", 'rule = "metropolis"'))
    assert Learning(weighed).blank(None).links.weights == "metropolis"


def test_rows_are_encoded_in_the_agreed_units(charter):
    x, y = charter.rows(ward(**ROWS))
    np.testing.assert_allclose(x, [[1, 1], [-1, 0], [0, 1]])
    np.testing.assert_array_equal(y, [1, 0, 0])
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    x, _ = Charter.parse(changed("rounds = 64", 'precision = "float64"')).rows(ward(**ROWS))
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, data.encode(ward(**ROWS), schema=charter.schema()).x)


def test_a_column_that_is_the_same_at_all_nodes_has_no_influence():
    charter = Charter.parse(changed('units = "given"', 'units = "agree"'))
    rows = np.array([[3.3, 1.0], [3.3, 0.0], [3.3, 1.0]])
    sums = {"count": [3.0, 3.0], "sum": rows.sum(0).tolist(), "square": (rows**2).sum(0).tolist()}
    other = np.array([[3.3, 1.0], [5.0, 0.0]])
    seen = Learning(charter).encoded(other, {"units": sums})
    np.testing.assert_array_equal(seen[:, 0], 0)


@pytest.mark.parametrize(
    ("change", "columns", "says"),
    [
        ((), {"sex": ["m", "x", "m"]}, "column 'sex' holds a value in row 1 "),
        (("missing = false", "missing = true"), {"sex": ["m", "x", "m"]}, "a value in row 1"),
        ((), {"sex": ["m", None, "m"]}, "column 'sex' has missing values"),
        ((), {"age": [1.0, np.nan, 3.0]}, "column 'age' has missing values in 1 rows"),
        ((), {"age": [1.0, 2.0, 121.0]}, "'age' holds a number in row 2 (counted from 0) that is"),
        ((), {"age": [-0.5, 2.0, 3.0]}, "column 'age' holds a number in row 0"),
        (
            (),
            {"age": ["1", "old", "3"]},
            "should be numeric and holds another text, first in row 1",
        ),
        ((), {"y": ["yes", "perhaps", "no"]}, "the label in row 1"),
        ((), {"y": ["yes", None, "no"]}, "the target 'diagnosis' is missing"),
        (
            ("rows = 1000", "rows = 9\nleast_rows = 4"),
            {},
            "has 3 rows, but the charter requires",
        ),
        (
            ("rows = 1000", "rows = 9\nleast_count = 2"),
            {},
            "fewer than 2 rows of the class of row 0",
        ),
    ],
)
def test_rows_that_are_not_as_agreed_are_refused(change, columns, says):
    with pytest.raises(BadData) as caught:
        Charter.parse(changed(*change)).rows(ward(**{**ROWS, **columns}))
    assert says in str(caught.value)


def test_a_missing_column_and_another_target_are_named(charter):
    table = ward(**ROWS)
    with pytest.raises(BadData, match="has no column 'sex'"):
        charter.rows(table._replace(frame=table.frame.drop(columns="sex")))
    with pytest.raises(BadData, match="its column 'stay', but the charter predicts 'diagnosis'"):
        charter.rows(table._replace(target="stay"))


def test_gaps_are_taken_where_they_are_agreed_on_and_bounds_pass_over_them():
    charter = Charter.parse(changed("missing = false", "missing = true"))
    x, _ = charter.rows(ward(**{**ROWS, "age": [62.0, np.nan, 50.0], "sex": [None, "f", "m"]}))
    np.testing.assert_array_equal(np.isnan(x), [[False, True], [True, False], [False, False]])


def test_a_class_without_rows_is_no_class_with_too_few():
    charter = Charter.parse(changed("rows = 1000", "rows = 9\nleast_count = 3"))
    x, _ = charter.rows(ward(**{**ROWS, "sex": ["m", "m", "m"], "y": ["no", "no", "no"]}))
    assert len(x) == 3


def test_a_draft_encodes_its_sample_as_the_library_does():
    table = data.load("wine")
    graph = nx.relabel_nodes(nx.path_graph(3), {0: "x", 1: "y", 2: "z"})
    charter = draft(
        table, graph, name="wines", addresses={"y": "h:1"}, description={"method": "crc"}
    )
    assert charter.names == ("x", "y", "z")
    assert charter.limits.rows == 178
    assert Charter.parse(charter.text()) == charter
    x, y = charter.rows(table)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), 1, atol=1e-5)
    np.testing.assert_array_equal(y, data.encode(table).y)


def test_a_draft_leaves_units_that_are_agreed_on_later_or_plain():
    table, graph = data.load("wine"), nx.Graph([("x", "y")])
    options = {"name": "w", "addresses": {"x": "h:1"}}
    later = draft(table, graph, description={"method": "crc"}, units="agree", **options)
    plain = draft(table, graph, description={"method": "crc", "model": "multinomial"}, **options)
    assert {(f.center, f.scale) for c in (later, plain) for f in c.features} == {(0.0, 1.0)}
    with pytest.raises(UnknownName, match="node with an address: 'q'"):
        draft(table, graph, name="w", addresses={"q": "h:1"}, description={"method": "crc"})


def test_a_draft_of_a_column_of_many_names_keeps_their_codes():
    names = [f"town {i:02}" for i in range(12)]
    frame = pd.DataFrame({"town": names * 2, "age": np.arange(24.0)})
    table = data.Table("t", frame, np.array(["n", "y"] * 12, dtype=object), "ill")
    charter = draft(
        table,
        nx.Graph([("x", "y")]),
        name="t",
        addresses={"x": "h:1"},
        description={"method": "crc"},
    )
    assert charter.features[0].kind == "numeric"
    assert len(charter.features[0].categories) == 12
    assert Charter.parse(charter.text()) == charter
    x, _ = charter.rows(table)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-6)


def test_a_value_that_few_rows_of_a_class_have_is_refused():
    charter = Charter.parse(changed("rows = 1000", "rows = 9\nleast_count = 2"))
    rows = {
        "age": [50.0] * 5,
        "sex": ["m", "m", "f", "f", "m"],
        "y": ["yes", "yes", "no", "no", "no"],
    }
    with pytest.raises(BadData, match="rows have both the class and the 'sex' of row 4"):
        charter.rows(ward(**rows))
    rows = {k: v[:4] for k, v in rows.items()}
    assert len(charter.rows(ward(**rows))[1]) == 4


def test_a_sites_file_is_read_as_the_charter_says(tmp_path):
    codes = ["01", "02", "A1", " b", "None", "1,5"]
    rows = pd.DataFrame({"code": codes * 8, "n": ["1,5", "2", "?"] * 16, "y": ["u", "v"] * 24})
    rows.to_csv(tmp_path / "a.csv", index=False)
    sample = data.load(tmp_path / "a.csv", target="y")
    pair = nx.path_graph(["a", "b"])
    addresses = {"a": "127.0.0.1:7400"}
    charter = draft(sample, pair, {"method": "crc"}, name="codes", addresses=addresses,
                    typing="manifest")  # fmt: skip
    assert (charter.missing, charter.missing_words) == (True, ("?",))
    again = Charter.parse(charter.text(), "again")
    x, _ = again.rows(sample)
    assert not np.isnan(x[:, 0]).any()
    assert np.isnan(x[:, 1]).mean() == pytest.approx(1 / 3)
    # a site that has only digits in its codes
    some = rows[rows["code"].isin(["01", "02"])].reset_index(drop=True)
    some.to_csv(tmp_path / "b.csv", index=False)
    part, _ = again.rows(data.load(tmp_path / "b.csv", target="y"))
    np.testing.assert_array_equal(part[:, 0], x[rows["code"].isin(["01", "02"]), 0])
    rows.assign(code="1").to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(
        BadData, match=r"'code' holds a value in row 0 .* and 47 more cells, which is"
    ):
        again.rows(data.load(tmp_path / "c.csv", target="y"))
