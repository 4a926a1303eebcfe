"""Settings: what is the same experiment, what is a sweep, what is refused."""

import pytest
from peerwise.experiments.setting import Setting, expand, setting_from

from peerwise.errors import BadSetting, UnknownName


def test_a_key_does_not_change_with_what_the_method_ignores():
    rc = Setting(method="rc")
    assert rc.key == rc.model_copy(update={"topology": "ring", "iterations": 3}).key
    assert rc.key != rc.model_copy(update={"partition": "label_drift"}).key
    assert rc.key != rc.model_copy(update={"lr": 0.1}).key


def test_a_key_changes_with_what_the_method_uses():
    crc = Setting()
    for update in ({"topology": "ring"}, {"iterations": 2}, {"redraw": 4}, {"seed": 1}):
        assert crc.key != crc.model_copy(update=update).key


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, "44136fa355b3678a"),
        ({"method": "rc"}, "acbad1413b9358c0"),
        ({"method": "decdiff", "loss": "virtual_teacher", "partition": "zipf"}, "e4663ccb11b4e360"),
        ({"partition": "dirichlet", "alpha": 0.3}, "afef43c631a9a350"),
        ({"method": "gossip_nb", "epsilon": 1.0}, "a5e732cb7b797922"),
        (
            {"method": "cvar_cvar", "partition": "mixed", "partition_options": {"homo_ratio": 0.5}},
            "636719992c03bbc7",
        ),
    ],
)
def test_keys_of_what_was_run_before_shifts_stay(given, key):
    """Results are kept under them."""
    assert Setting(**given).key == key
    assert Setting(**given, shift="none", shift_options={}).key == key


def test_a_shift_is_part_of_the_key_of_every_method_and_of_its_reference():
    for method in ("crc", "rc", "ml", "isolated", "decdiff", "fedavg", "gossip_nb", "gaussian_nb"):
        plain = Setting(method=method)
        skew = Setting(method=method, shift="feature_skew")
        more = Setting(method=method, shift="feature_skew", shift_options={"strength": 1.0})
        assert len({plain.key, skew.key, more.key}) == 3
        assert len({s.reference().key for s in (plain, skew, more)}) == 3


def test_strengths_can_be_swept():
    given = {"shift": "concept_shift", "shift_options": [{"strength": s} for s in (0, 0.5)]}
    settings, varied = expand(given)
    assert varied == ["shift_options"]
    assert [s.shift_options["strength"] for s in settings] == [0, 0.5]


def test_the_reference_is_rc_on_the_same_rows():
    setting = Setting(topology="chain", partition="label_drift", iterations=3, rows=20)
    reference = setting.reference()
    assert reference.method == "rc"
    assert (reference.partition, reference.rows) == ("label_drift", 20)
    assert reference.key == Setting(method="rc", partition="label_drift", rows=20).key


def test_lists_are_sweeps():
    settings, varied = expand({"method": ["crc", "rc"], "rows": [10, 20], "nodes": 5})
    assert varied == ["method", "rows"]
    assert [(s.method, s.rows, s.nodes) for s in settings] == [
        ("crc", 10, 5),
        ("crc", 20, 5),
        ("rc", 10, 5),
        ("rc", 20, 5),
    ]


def test_a_list_where_a_list_is_expected_is_no_sweep():
    settings, varied = expand({"drop": ["a", "b"]})
    assert varied == []
    assert settings[0].drop == ("a", "b")


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'topology'"):
        setting_from({"topologie": "ring"})


@pytest.mark.parametrize(
    "given",
    [
        {"rounds": 0},
        {"rounds": -3},
        {"lr": 0},
        {"lr": -0.1},
        {"m0": 0},
        {"m0": -5.0},
        {"nodes": 0},
        {"rows": "many"},
        {"arrival": 1.5},
        {"iterations": 0},
        {"missing": "ignore"},
    ],
)
def test_values_that_make_no_sense_are_refused_with_key_and_value(given):
    name, value = next(iter(given.items()))
    with pytest.raises(BadSetting, match=name) as caught:
        setting_from(given)
    assert repr(value) in str(caught.value)


def test_an_empty_sweep_is_refused():
    with pytest.raises(BadSetting, match="empty list"):
        expand({"rows": []})


def test_a_budget_for_a_method_that_adds_no_noise_is_refused():
    with pytest.raises(BadSetting, match="crc adds no noise"):
        setting_from({"method": "crc", "epsilon": 1.0})
    assert setting_from({"method": "gossip_nb", "epsilon": 1.0}).epsilon == 1.0


@pytest.mark.parametrize("given", [0, -3, True, "some", 1.5])
def test_errors_are_recorded_last_always_or_every_so_many_rounds(given):
    for good in ("last", "all", 7):
        assert setting_from({"record": good}).record == good
    with pytest.raises(BadSetting, match=r"record.*last, all, or a number of rounds"):
        setting_from({"record": given})
