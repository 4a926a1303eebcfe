"""Items of relay beside CRC: what they run, and when they count as reached."""

import pytest

from peerwise.errors import UnknownName
from peerwise.experiments import items, relay
from peerwise.experiments.items import Dataset
from peerwise.experiments.reproduce import choose
from peerwise.experiments.results import Record

ADULT = Dataset("adult", "adult", rows=48842)


@pytest.mark.parametrize("item", relay.ITEMS)
def test_every_cell_is_measured_to_rc_of_64_rounds_on_the_same_rows(item):
    default = relay.base(ADULT)
    for column in relay.ITEMS[item].columns:
        mine, reference = items._of(column, default), items._reference(column, default)
        assert (reference.method, reference.rounds, reference.lr) == ("rc", 64, 0.05)
        same = ("data", "partition", "nodes", "rows", "seed", "repetitions")
        assert all(getattr(mine, k) == getattr(reference, k) for k in same)
        assert mine.method == column.name.split()[0]


def test_items_are_found_by_name():
    assert choose("relay/tree-256") == (relay.PAPER, ["tree-256"])
    with pytest.raises(UnknownName, match="relay/tree-256"):
        choose("relay/tree-25")


def found(item, column, value):
    setting = {"method": column.split()[0], "column": column}
    return Record(paper="relay", item=item, dataset="adult", setting=setting, metric="test_gap",
                  value=value, std=0.0, reps=2)  # fmt: skip


def test_claims_by_hand():
    records = [
        found("tree-64", "crc iid", 0.01),
        found("tree-64", "relay iid", 0.02),
        found("tree-64", "crc p(y)", 0.3),
        found("tree-64", "relay p(y)", 0.1),
        found("tree-256", "crc p(y)", 0.1),
        found("tree-256", "relay p(y)", 0.009),
    ]
    late, early = relay.claims(records)
    assert (late.held, late.ours) == (True, "1 of 1")
    assert (early.held, early.ours) == (False, "1 of 2; not: adult iid (tree-64)")
    assert relay.claims(records[:4])[0].held is None
