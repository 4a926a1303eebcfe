"""What a federation agrees on: read, written, compared, and refused where it makes no sense."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from peerwise import data
from peerwise.errors import BadData, BadFile, BadSetting, PeerwiseError, UnknownName
from peerwise.experiments.job import make_method
from peerwise.models.registry import model_for
from peerwise.peer.charter import Charter, draft

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
method = "crc"
model = "naive_bayes"
lr = 0.05

[rounds]
count = 64
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
PRIVATE = 'method = "private_crc"\nepsilon = 2.0'
BUDGET = "[privacy]\nepsilon = {}\ndelta = {}\n[limits]"


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
    new = 'method = "private_crc"\nepsilon = inf\nmodel_options = {alpha = 1}'
    made = Charter.parse(changed('method = "crc"', new))
    assert Charter.parse(made.text()) == made
    assert Charter.parse(made.text()).hash == made.hash


def test_the_order_of_keys_and_spelt_defaults_do_not_change_the_hash(charter):
    swapped = changed('model = "naive_bayes"\nlr = 0.05', 'lr = 0.05\nmodel = "naive_bayes"')
    swapped = changed('name = "wards"\n', "", "target =", 'name = "wards"\ntarget =', text=swapped)
    assert Charter.parse(swapped).hash == charter.hash
    left_out = changed("lr = 0.05", "", "count = 64", "", "missing = false", "")
    assert Charter.parse(left_out).hash == charter.hash
    assert Charter.parse(left_out).difference(charter) is None
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
        (("lr = 0.05", "m0 = 9"), "method.m0 is absent here and 9.0 there"),
        (('"wards"', '"words"'), "name is 'wards' here and 'words' there"),
        (('["no", "yes"]', '["yes", "no"]'), "classes is ['no', 'yes'] here and ['yes', 'no'] t"),
        (("scale = 12.0", "scale = 11"), "features.age.scale is 12.0 here and 11.0 there"),
        (('name = "sex"', 'name = "six"'), "feature 'sex' is missing there"),
        (("count = 64", "count = 65"), "rounds.count is 64 here and 65 there"),
        (("rows = 1000", "rows = 999"), "limits.rows is 1000 here and 999 there"),
        (('a.example.org:7400', 'a.example.org:7401'), "nodes.a.address is 'a.example.org:7400' h"),
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
        Charter.parse(changed('method = "crc"', PRIVATE, "[limits]", BUDGET.format(e, 1e-5)))
        for e in (2.0, 3.0)
    )
    assert one.difference(two) == "privacy.epsilon is 2.0 here and 3.0 there"


def test_no_difference_from_itself(charter):
    assert charter.difference(charter) is None


WRONG = [
    (("count = 64", "count = 0"), "rounds.count = 0"),
    (("count = 64", 'count = "64"'), "rounds.count = '64'"),
    (("count = 64", "cuont = 64"), "did you mean 'rounds.count'"),
    (("count = 64", "deadline = 0"), "rounds.deadline = 0"),
    (("count = 64", "deadline = inf"), "rounds.deadline = inf"),
    (("count = 64", "staleness = 0"), "rounds.staleness = 0"),
    (('mode = "wait"', 'mode = "hurry"'), "rounds.mode = 'hurry'"),
    (('units = "given"', 'units = "mine"'), "units = 'mine'"),
    (("missing = false", 'missing = "no"'), "missing = 'no'"),
    (('name = "wards"', ""), "name is missing; add it"),
    (('name = "wards"', 'name = "w"\nnmae = "w"'), "did you mean 'name'"),
    (("rows = 1000", "rows = 0"), "limits.rows = 0"),
    (("rows = 1000", ""), "crc needs limits.rows"),
    (('["no", "yes"]', '["no"]'), "classes"),
    (('["no", "yes"]', '["no", "no"]'), "the class 'no' comes twice"),
    (('name = "sex"', 'name = "age"'), "the feature 'age' comes twice"),
    (('name = "sex"', 'name = "diagnosis"'), "the target 'diagnosis' is among the features"),
    (('["f", "m"]', '["f"]'), "feature 'sex' is categorical with 1 categories"),
    (('["f", "m"]', '["f", "f"]'), "feature 'sex' has a category twice"),
    (('["f", "m"]', '["f", "m"]\nscale = 2'), "feature 'sex' is categorical and has no scale"),
    (("low = 0.0", "low = 120"), "low must be less than high"),
    (("scale = 12.0", "scale = 0"), "features.0.scale = 0"),
    (("center = 50.0", "center = nan"), "features.0.center = nan"),
    (('kind = "numeric"', 'kind = "number"'), "features.0.kind = 'number'"),
    (("lr = 0.05", "lr = -1"), "[method]: lr = -1"),
    (("lr = 0.05", "lrr = 1"), "unknown key in [method]: 'lrr'; did you mean 'lr'"),
    (("lr = 0.05", 'data = "wine"'), "'data' in [method] is of simulations; remove it"),
    (("lr = 0.05", "rounds = 3"), "'rounds' in [method] is of simulations; remove it"),
    (("lr = 0.05", "weigh = 'all'"), "unknown weigh rule 'all'"),
    (('"naive_bayes"', '"naive_bays"'), "did you mean 'naive_bayes'"),
    (('method = "crc"', 'method = "cro"'), "did you mean 'crc'"),
    (("lr = 0.05", "epsilon = 1.0"), "crc adds no noise"),
    *(
        (('method = "crc"', f'method = "{name}"'), f"'{name}' needs {what}")
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
    (
        ('method = "crc"', 'method = "decdiff"', "missing = false", "missing = true"),
        "decdiff trains neural networks, which cannot use missing values",
    ),
    (('method = "crc"', 'method = "decdiff"\nnet = "mlpp_64"'), "unknown net 'mlpp_64'"),
    (('method = "crc"', PRIVATE), "private_crc spends method.epsilon = 2; give a budget"),
    (
        ('method = "crc"', PRIVATE, "[limits]", BUDGET.format(1.0, 1e-5)),
        "method.epsilon = 2 is more than the budget privacy.epsilon = 1",
    ),
    (
        ('method = "crc"', PRIVATE, "[limits]", BUDGET.format(2.0, 0.0)),
        "method.delta = 1e-05 is more than the budget privacy.delta = 0",
    ),
    (("[limits]", BUDGET.format(0, 0.0)), "privacy.epsilon = 0"),
    (("[limits]", BUDGET.format(1.0, 0.0)), "crc as given adds no noise"),
    (
        (
            'method = "crc"\nmodel = "naive_bayes"', 'method = "gossip_nb"\nepsilon = 1.0\n'
            'model = "qda"', "[limits]", BUDGET.format(2.0, 0.0),
        ),
        "for statistics of naive_bayes, not of qda",
    ),
    (
        (
            'method = "crc"', PRIVATE, "[limits]",
            BUDGET.format(2.0, 1e-5).replace("[limits]", 'accountant = "rdp"\n[limits]'),
        ),
        "64 rounds cost epsilon",
    ),
    (("[limits]", "[privacy]\ndelta = 0.1\n[limits]"), "privacy.epsilon is missing"),
    (
        ('units = "given"', 'units = "agree"', "[limits]", BUDGET.format(2.0, 0.0)),
        "exact sums, which tell more than [privacy] allows",
    ),
    (
        ('units = "given"', 'units = "agree"', '"naive_bayes"', '"multinomial"'),
        "multinomial is about numbers as they are",
    ),
    (('["b", "a"]', '["b", "a", "d"]'), "unknown neighbour of node 'c': 'd'"),
    (('["b", "a"]', '["b"]'), "node 'a' lists 'c' as a neighbour and 'c' does not list 'a'"),
    (('["b", "a"]', '["b", "a", "c"]'), "node 'c' lists itself"),
    (('["b", "a"]', '["b", "a", "b"]'), "node 'c': the neighbour 'b' comes twice"),
    (('address = "c.example.org:7400"', ""), "neither 'c' nor 'b' has an address"),
    (("c.example.org:7400", "a.example.org:7400"), "address 'a.example.org:7400' comes twice"),
    (("c.example.org:7400", "c.example.org"), "write host:port"),
    (("c.example.org:7400", "c.example.org:0"), "port from 1 to 65535"),
    (("c.example.org:7400", "c.example.org:65536"), "port from 1 to 65535"),
    (("c.example.org:7400", "http://c:7400"), "write host:port"),
    (
        ('["b", "a"]', '["b"]', "[nodes.a]", "[nodes.d]\nneighbours = ['a']\n[nodes.a]",
         '7400"\nneighbours = ["c"]', '7400"\nneighbours = ["d"]'),
        "falls into 2 parts",
    ),
    ((TEXT[TEXT.index("[nodes.a]"):], "", '["b", "a"]', "[]"), "at least 2 nodes, got 1"),
    (("[nodes.a]", '[nodes."a b"]'), "a node cannot be called 'a b'"),
    (("[nodes.a]", '[nodes."../a"]'), "a node cannot be called '../a'"),
    (("[nodes.a]", f"[nodes.{'a' * 65}]"), "at most 64"),
    (("[nodes.a]", "[nodes.ca]"), "ca.pem and ca.key are the authority's"),
    (("[nodes.a]", '[nodes."10.0.0.1"]'), "which is an address"),
    (("[nodes.a]", "[nodes.B]"), "comes twice"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[w[1][:40] for w in WRONG])
def test_what_makes_no_sense_is_refused_in_words(change, says, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(changed(*change))
    with pytest.raises(PeerwiseError) as caught:
        Charter.load(path)
    assert says in str(caught.value)
    assert "mine.toml" in str(caught.value)
    assert isinstance(caught.value, BadSetting | UnknownName)


def test_a_budget_that_is_large_enough_is_taken():
    for method in ("private_crc", "gossip_nb", "robust_nb"):
        new = PRIVATE.replace("private_crc", method)
        Charter.parse(changed('method = "crc"', new, "[limits]", BUDGET.format(2.0, 1e-5)))


def test_m0_needs_no_rows_and_ipv6_is_an_address():
    made = Charter.parse(
        changed("rows = 1000", "", "lr = 0.05", "m0 = 3", "c.example.org", "[::1]")
    )
    assert made.setting().m0 == 3
    assert made.nodes["c"].address == "[::1]:7400"


def test_a_method_of_ones_own_is_not_imported_when_a_charter_is_read():
    made = Charter.parse(changed('method = "crc"', 'method = "no_such_module:f"'))
    assert made.setting().method == "no_such_module:f"


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
    made = charter.topology()
    links = set(zip(made.links.src[0].tolist(), made.links.dst[0].tolist(), strict=True))
    assert links == {(0, 1), (1, 0), (0, 2), (2, 0)}
    assert made.weights == "equal"
    weighed = Charter.parse(changed("lr = 0.05", 'weigh = "metropolis"')).topology()
    assert weighed.weights == "metropolis"


def test_the_setting_makes_the_method(charter):
    setting = charter.setting()
    assert (setting.nodes, setting.rows, setting.rounds, setting.seed) == (3, 333, 64, 0)
    model = model_for(charter.schema(), setting.model)
    made = make_method(setting, model, charter.limits.rows, charter.topology().slots)
    assert callable(made.adapt)


def test_rows_are_encoded_in_the_agreed_units(charter):
    x, y = charter.rows(ward(**ROWS))
    np.testing.assert_allclose(x, [[1, 1], [-1, 0], [0, 1]])
    np.testing.assert_array_equal(y, [1, 0, 0])
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    x, _ = Charter.parse(changed("lr = 0.05", 'precision = "float64"')).rows(ward(**ROWS))
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, data.encode(ward(**ROWS), schema=charter.schema()).x)


@pytest.mark.parametrize(
    ("change", "columns", "says"),
    [
        ((), {"sex": ["m", "x", "m"]}, "column 'sex' holds 'x' in row 1 "),
        (("missing = false", "missing = true"), {"sex": ["m", "x", "m"]}, "holds 'x' in row 1"),
        ((), {"sex": ["m", None, "m"]}, "column 'sex' has missing values"),
        ((), {"age": [1.0, np.nan, 3.0]}, "column 'age' has missing values in 1 rows"),
        ((), {"age": [1.0, 2.0, 121.0]}, "'age' holds 121 in row 2 (counted from 0), which is not"),
        ((), {"age": [-0.5, 2.0, 3.0]}, "column 'age' holds -0.5 in row 0"),
        ((), {"age": ["1", "old", "3"]}, "should be numeric and holds 'old'"),
        ((), {"y": ["yes", "perhaps", "no"]}, "the label 'perhaps'"),
        ((), {"y": ["yes", None, "no"]}, "the target 'diagnosis' is missing"),
        (("rows = 1000", "rows = 9\nleast_rows = 4"), {}, "has 3 rows and the charter asks for at"),
        (("rows = 1000", "rows = 9\nleast_count = 2"), {}, "'ward' has 1 rows of class 'yes'"),
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
    with pytest.raises(BadData, match="its column 'stay' and the charter predicts 'diagnosis'"):
        charter.rows(table._replace(target="stay"))


def test_gaps_are_taken_where_they_are_agreed_on_and_bounds_pass_over_them():
    made = Charter.parse(changed("missing = false", "missing = true"))
    x, _ = made.rows(ward(**{**ROWS, "age": [62.0, np.nan, 50.0], "sex": [None, "f", "m"]}))
    np.testing.assert_array_equal(np.isnan(x), [[False, True], [True, False], [False, False]])


def test_a_class_without_rows_is_no_class_with_too_few():
    made = Charter.parse(changed("rows = 1000", "rows = 9\nleast_count = 3"))
    x, _ = made.rows(ward(**{**ROWS, "sex": ["m", "m", "m"], "y": ["no", "no", "no"]}))
    assert len(x) == 3


def test_a_draft_encodes_its_sample_as_the_library_does():
    table = data.load("wine")
    graph = nx.relabel_nodes(nx.path_graph(3), {0: "x", 1: "y", 2: "z"})
    made = draft(table, graph, name="wines", addresses={"y": "h:1"}, method={"method": "crc"})
    assert made.names == ("x", "y", "z")
    assert made.limits.rows == 178
    assert Charter.parse(made.text()) == made
    x, y = made.rows(table)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), 1, atol=1e-5)
    np.testing.assert_array_equal(y, data.encode(table).y)


def test_a_draft_leaves_units_that_are_agreed_on_later_or_plain():
    table, graph = data.load("wine"), nx.Graph([("x", "y")])
    told = {"name": "w", "addresses": {"x": "h:1"}}
    later = draft(table, graph, method={"method": "crc"}, units="agree", **told)
    plain = draft(table, graph, method={"method": "crc", "model": "multinomial"}, **told)
    assert {(f.center, f.scale) for c in (later, plain) for f in c.features} == {(0.0, 1.0)}
    with pytest.raises(UnknownName, match="node with an address: 'q'"):
        draft(table, graph, name="w", addresses={"q": "h:1"}, method={"method": "crc"})


def test_a_draft_of_a_column_of_many_names_keeps_their_codes():
    names = [f"town {i:02}" for i in range(12)]
    frame = pd.DataFrame({"town": names * 2, "age": np.arange(24.0)})
    table = data.Table("t", frame, np.array(["n", "y"] * 12, dtype=object), "ill")
    made = draft(
        table, nx.Graph([("x", "y")]), name="t", addresses={"x": "h:1"}, method={"method": "crc"}
    )
    assert made.features[0].kind == "numeric"
    assert len(made.features[0].categories) == 12
    assert Charter.parse(made.text()) == made
    x, _ = made.rows(table)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-6)


def test_a_value_that_few_rows_of_a_class_have_is_refused():
    made = Charter.parse(changed("rows = 1000", "rows = 9\nleast_count = 2"))
    rows = {
        "age": [50.0] * 5,
        "sex": ["m", "m", "f", "f", "m"],
        "y": ["yes", "yes", "no", "no", "no"],
    }
    with pytest.raises(BadData, match="1 rows of class 'no' have sex = 'm'"):
        made.rows(ward(**rows))
    rows = {k: v[:4] for k, v in rows.items()}
    assert len(made.rows(ward(**rows))[1]) == 4
