"""Descriptions: sections, short forms, sweeps, and what is said when one is wrong."""

import pytest

from peerwise.declare import Option, declared, find
from peerwise.errors import BadSetting, PeerwiseError, UnknownName
from peerwise.learner import cell, expand
from peerwise.learner.sections import NAMED, SECTIONS
from peerwise.names import KINDS, entries, first_sentence, listed


def test_a_short_form_is_the_first_key_of_a_section():
    assert cell({"data": "wine", "network": "ring", "split": "dirichlet"}).sections == (
        cell(
            {
                "data": {"source": "wine"},
                "network": {"topology": {"name": "ring"}},
                "split": {"partition": {"name": "dirichlet", "alpha": 0.5}},
            }
        ).sections
    )


def test_defaults_do_not_change_a_key_and_values_do():
    plain = cell({})
    assert cell({"method": {"name": "crc", "lr": 0.05}, "run": {"rounds": 64}}).key == plain.key
    assert cell({"method": {"name": "crc", "lr": 0.06}}).key != plain.key
    assert cell({"split": {"partition": "dirichlet", "alpha": 0.4}}).key != plain.key


def test_options_of_a_nested_thing_may_be_written_flat():
    flat = cell({"method": {"name": "crc", "rule": "worst", "alpha": 0.2}})
    deep = cell({"method": {"name": "crc", "rule": {"name": "worst", "alpha": 0.2}}})
    assert flat.sections == deep.sections
    assert flat["method"]["rule"] == {"name": "worst", "alpha": 0.2, "quantile": "count"}
    deeper = cell({"method": {"name": "ba_bfl", "divergence": "w2"}})
    assert deeper["method"]["rule"]["divergence"] == "w2"
    own = cell({"method": {"name": "ba_bfl", "weigh": "cfa", "epsilon": 0.5}})
    assert own["method"]["rule"]["weigh"] == {"name": "cfa", "epsilon": 0.5}
    assert cell({"network": {"channel": "erasure", "q": 0.7}})["network"]["channel"]["q"] == 0.7


def test_what_a_method_cannot_read_is_no_part_of_its_key():
    plain = cell({"method": "isolated"})
    assert plain.key == cell({"method": "isolated", "network": "ring", "net": "cnn"}).key
    assert "net" not in plain
    assert "network" not in plain
    assert cell({"method": "decavg"}).key != cell({"method": "decavg", "net": "mlp"}).key


def test_a_list_is_a_sweep_and_methods_stand_side_by_side():
    cells = expand(
        {
            "method": [{"name": "crc", "rule": ["equal", "worst"]}, "relay"],
            "split": {"rows": [20, 50]},
            "run": {"metrics": ["consensus", "guards"]},
        }
    )
    assert [(c.label, c["split"]["rows"]) for c in cells] == [
        ("crc", 20), ("crc", 20), ("relay", 20), ("crc", 50), ("crc", 50), ("relay", 50),
    ]  # fmt: skip
    assert [dict(c.varied).get("method.rule") for c in cells[:3]] == ["equal", "worst", None]
    assert all(len(c["run"]["metrics"]) == 2 for c in cells)


def test_a_sweep_over_an_option_written_flat_and_in_a_short_form():
    lossy = expand({"network": {"channel": "erasure", "q": [0.5, 1.0]}})
    assert [c["network"]["channel"]["q"] for c in lossy] == [0.5, 1.0]
    graphs = expand({"network": ["ring", "chain"]})
    assert [c["network"]["topology"]["name"] for c in graphs] == ["ring", "chain"]
    rates = expand({"method": {"name": "crc", "lr": [0.1, 0.2]}})
    assert [c["method"]["lr"] for c in rates] == [0.1, 0.2]
    both = expand({"network": {"topology": ["ring", {"name": "tree_plus", "extra": 3}]}})
    assert [dict(c.varied)["network.topology"] for c in both] == ["ring", "tree_plus"]


def test_two_methods_of_one_name_are_told_apart():
    cells = expand({"method": [{"name": "crc", "lr": 0.1}, {"name": "crc", "lr": 0.2}]})
    assert [c.label for c in cells] == ["crc (lr = 0.1)", "crc (lr = 0.2)"]
    labelled = expand({"method": [{"name": "crc", "label": "slow"}, {"name": "crc", "lr": 0.2}]})
    assert [c.label for c in labelled] == ["slow", "crc"]


def test_equal_cells_come_once():
    assert len(expand({"method": ["rc", "crc"], "network": {"topology": ["ring", "chain"]}})) == 3


def test_the_reference_learns_the_same_at_one_place():
    pooled = cell({"method": {"name": "crc", "lr": 0.1}, "model": "qda"}).reference()
    assert (pooled["method"]["name"], pooled["method"]["lr"]) == ("rc", 0.1)
    assert pooled["model"]["name"] == "qda"
    net = cell({"method": {"name": "decdiff", "lr": 0.2, "s": 2.0, "epochs": 3}}).reference()
    asked = net["method"]
    assert (asked["name"], asked["lr"], asked["epochs"]) == ("pooled_net", 0.2, 3)
    other = cell({"method": "logistic_regression", "model": "lda"}).reference()
    assert other["model"]["name"] == "lda"


def test_a_changed_cell_keeps_the_rest():
    base = cell({"network": "ring", "run": {"rounds": 7}})
    other = base.changed(method="isolated", run={"seed": 3})
    assert (other["run"]["rounds"], other["run"]["seed"]) == (7, 3)
    assert base.changed(network={"channel": "delay"})["network"]["topology"]["name"] == "ring"


def test_a_key_does_not_change_with_what_the_method_ignores():
    rc = cell({"method": "rc"})
    assert rc.key == rc.changed(network="ring").key
    assert rc.key == rc.changed(network={"redraw": 4, "channel": "delay"}).key
    assert rc.key == rc.changed(privacy={"epsilon": 1.0}).key
    assert rc.key != rc.changed(split="label_drift").key
    assert rc.key != rc.changed(method={"lr": 0.1}).key
    fedavg = cell({"method": "fedavg"})
    assert fedavg.key == fedavg.changed(network="ring").key
    assert fedavg.key != fedavg.changed(network={"channel": "delay"}).key


@pytest.mark.parametrize(
    "update",
    [
        {"network": "ring"},
        {"network": {"redraw": 4}},
        {"network": {"channel": "delay"}},
        {"method": {"name": "crc", "iterations": 2}},
        {"model": "lda"},
        {"run": {"seed": 1}},
        {"run": {"record": "all"}},
    ],
    ids=str,
)
def test_a_key_changes_with_what_the_method_uses(update):
    assert cell({}).key != cell(update).key


@pytest.mark.parametrize(
    "method",
    ["crc", "rc", "ml", "isolated", "decdiff", "fedavg", "gossip_nb", "gaussian_nb"],
)
def test_a_shift_is_part_of_the_key_of_every_method_and_of_its_reference(method):
    cells = [
        cell({"method": method, "split": split})
        for split in ({}, {"shift": "feature_skew"}, {"shift": "feature_skew", "strength": 1.0})
    ]
    assert len({c.key for c in cells}) == 3
    assert len({c.reference().key for c in cells}) == 3


def test_strengths_can_be_swept():
    cells = expand({"split": {"shift": "concept_shift", "strength": [0, 0.5]}})
    assert [c.varied for c in cells] == [
        (("split.shift.strength", "0"),), (("split.shift.strength", "0.5"),)
    ]  # fmt: skip
    assert [c["split"]["shift"]["strength"] for c in cells] == [0, 0.5]


def test_the_reference_is_of_the_same_rows():
    split = {"partition": "label_drift", "rows": 20}
    reference = cell(
        {"network": "chain", "split": split, "method": {"name": "crc", "iterations": 3}}
    ).reference()
    assert reference["method"]["name"] == "rc"
    assert reference["split"]["partition"]["name"] == "label_drift"
    assert reference.key == cell({"method": "rc", "split": split}).key
    assert reference.reference().key == reference.key


def test_every_combination_of_lists_in_their_order():
    cells = expand({"method": ["crc", "rc"], "split": {"rows": [10, 20], "nodes": 5}})
    assert [(c.label, c["split"]["rows"], c["split"]["nodes"]) for c in cells] == [
        ("crc", 10, 5),
        ("rc", 10, 5),
        ("crc", 20, 5),
        ("rc", 20, 5),
    ]
    assert {name for c in cells for name, _ in c.varied} == {"method", "split.rows"}


def test_a_list_where_a_list_is_expected_is_no_sweep():
    (only,) = expand({"data": {"source": "wine", "drop": ["a", "b"]}})
    assert only.varied == ()
    assert only["data"]["drop"] == ("a", "b")
    two = expand({"data": {"source": "wine", "drop": [["a", "b"], ["a"]]}})
    assert [c["data"]["drop"] for c in two] == [("a", "b"), ("a",)]


@pytest.mark.parametrize(
    ("section", "given"),
    [
        ("run", {"rounds": -3}),
        ("run", {"repetitions": 0}),
        ("run", {"seed": -1}),
        ("method", {"lr": 0}),
        ("method", {"lr": -0.1}),
        ("method", {"m0": 0}),
        ("method", {"m0": -5.0}),
        ("method", {"iterations": 0}),
        ("split", {"nodes": 0}),
        ("split", {"rows": 0}),
        ("split", {"rows": "many"}),
        ("network", {"redraw": 0}),
        ("data", {"missing": "ignore"}),
    ],
    ids=str,
)
def test_values_that_make_no_sense_are_refused_with_key_and_value(section, given):
    fixed = {"name": "crc"} if section == "method" else {}
    ((key, value),) = given.items()
    with pytest.raises(BadSetting, match=rf"\[{section}\] {key} must") as caught:
        cell({section: {**fixed, **given}})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("given", [0, -3, True, "some", 1.5])
def test_errors_are_recorded_last_always_or_every_so_many_rounds(given):
    for good in ("last", "all", 7):
        assert cell({"run": {"record": good}})["run"]["record"] == good
    with pytest.raises(BadSetting, match=r"\[run\] record must be") as caught:
        cell({"run": {"record": given}})
    assert repr(given) in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "crk"}, "unknown method 'crk'; did you mean 'crc'"),
        ({"method": {"name": "crc", "lt": 0.1}}, "did you mean 'lr'"),
        (
            {"method": {"name": "crc", "lr": -1}},
            r"\[method\] lr must be between 1e-09 and 1000, got -1",
        ),
        ({"method": {"name": "crc", "lr": "0.1"}}, "lr must be a number, got '0.1'"),
        ({"method": {"name": "crc", "iterations": 1.5}}, "must be a whole number"),
        ({"method": {"name": "crc", "rule": "trimed_mean"}}, "did you mean 'trimmed_mean'"),
        (
            {"method": {"name": "crc", "lr_t": 1}},
            "lr_t is an option of average_cvar, cvar_cvar, not of crc",
        ),
        ({"method": {"name": "gossip_nb", "counter": "push_som"}}, "did you mean 'push_sum'"),
        ({"method": {"lr": 0.1}}, r"\[method\] has no name; add one"),
        ({"method": 3}, r"must be a name or a table"),
        ({"network": {"topology": "tree_plus", "seed": 3}}, r"unknown key in \[network\]: 'seed'"),
        ({"network": {"topology": "small_world", "p": 2}}, "p must be between 0 and 1, got 2"),
        ({"network": {"channel": "trace"}}, "source is missing; give it"),
        ({"netwerk": "ring"}, "unknown section 'netwerk'; did you mean 'network'"),
        ({"run": {"metrics": ["errrors"]}}, "did you mean 'errors'"),
        ({"run": {"record": 0}}, "record must be"),
        ({"run": {"precision": "float23"}}, "did you mean 'float32'"),
        (
            {"split": {"partition": "dirichlet", "alpha": []}},
            "split.partition.alpha is an empty list",
        ),
        ({"method": ["crc", "crc"]}, "have the same name: give each a label"),
        (
            {"method": "private_crc", "run": {"rounds": 0}},
            "rounds must be 1 or more for private_crc",
        ),
    ],
)
def test_what_is_wrong_is_said(given, words):
    with pytest.raises(PeerwiseError, match=words):
        expand(given)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("nodes", r"stands in \[split\] now"),
        ("topology", r"stands in \[network\] now"),
        ("rounds", r"stands in \[run\] now"),
        ("target", r"stands in \[data\] now"),
        ("epsilon", r"stands in \[privacy\] now"),
        ("lr", r"write it in \[method\]"),
        ("bayesian_layers", r"write it in \[net\]"),
        ("arrival", 'channel = "erasure" with q now'),
        ("weigh", r"it is \[method\] rule now"),
        ("method_options", r"it is \[method\] now"),
    ],
)
def test_a_flat_key_of_0_6_says_where_it_lives_now(key, words):
    with pytest.raises(BadSetting, match=words):
        expand({"data": "wine", key: 3})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "crc", "net": "mlp"}, r"\[net\] is not used by crc: remove it, or choose"),
        ({"method": ["rc", "ml"], "network": "ring"}, r"\[network\] is not used by rc, ml"),
        ({"method": "crc", "privacy": {"epsilon": 1.0}}, r"\[privacy\] is not used by crc"),
        (
            {"method": "fedavg", "network": "ring"},
            "topology is not used by fedavg, which use a server",
        ),
    ],
)
def test_a_section_that_no_method_reads_is_named(given, words):
    with pytest.raises(BadSetting, match=words):
        expand(given)


def test_a_section_that_one_of_the_methods_reads_is_fine():
    assert len(expand({"method": ["crc", "decavg", "rc"], "net": "mlp_64", "network": "ring"})) == 3


def all_options():
    for kind in KINDS:
        for name, known in declared(kind).items():
            yield from ((f"{kind} {name}", key, o) for key, o in known.options.items())
    for name, options in SECTIONS.items():
        yield from ((f"[{name}]", key, o) for key, o in options.items())


def test_every_option_says_what_it_is():
    silent = [
        (where, key) for where, key, o in all_options() if not isinstance(o, Option) or not o.about
    ]
    assert silent == []


def test_every_named_thing_has_a_sentence_and_a_declaration_of_its_own():
    for kind in KINDS:
        assert list(entries(kind)) == sorted(entries(kind))
        for name, line in listed(kind):
            known = find(kind, name)
            assert (known.kind, known.name) == (kind, name)
            assert line.endswith("."), (kind, name)
            assert line == first_sentence(known.make.__doc__)


def test_defaults_are_listed_names():
    for section, name in NAMED.items():
        assert name in entries(section)
    with pytest.raises(UnknownName):
        find("method", "nothing")
