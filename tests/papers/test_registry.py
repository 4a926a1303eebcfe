"""Everything that can be reproduced: found by name, listed in a moment, shown by what it names."""

import subprocess
import sys

import pytest

from peerwise.papers.items import fields_of, merged, settings_of
from peerwise.papers.reproduce import PAPERS, list_items


def test_papers_keep_their_names():
    assert list(PAPERS) == [
        "crc",
        "rc",
        "gossip-nb",
        "decdiff",
        "cvar-cta",
        "ba-bfl",
        "relay",
        "privacy",
        "sealed",
    ]
    assert [paper.name for paper in PAPERS.values()] == list(PAPERS)
    with pytest.raises(KeyError):
        PAPERS["crcc"]


def test_listing_items_imports_none_of_the_numerics():
    code = (
        "import sys; from peerwise.papers.reproduce import list_items; list_items(); "
        "print([m for m in ('jax', 'pandas', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert ("relay/gaps", "Relay and CRC on sparse networks") in list_items()


@pytest.mark.parametrize("name", PAPERS)
def test_what_an_item_names_is_there(name):
    paper = PAPERS[name]
    assert callable(paper.part("claims", "claims"))
    for item in paper.items.values():
        reads = item.reads if isinstance(item.reads, str) else ""
        named = [("report", reads), ("figures", item.figure)]
        assert all(callable(paper.part(*where)) for where in named if where[1])
        assert item.columns or item.reads
        assert item.tables or item.figure


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_has_its_sentence_and_its_rule(name):
    for said in settings_of(name)["claims"].values():
        assert set(said) <= {"name", "claim", "rule", "paper"}
        assert said["claim"]
        assert said["rule"]


def test_the_name_of_a_run_says_what_it_is():
    pattern = "{dataset} {graph} {q:f}|{variant}"
    assert fields_of(pattern, "mnist line 0.3|cvar-cvar small") == {
        "dataset": "mnist",
        "graph": "line",
        "q": 0.3,
        "variant": "cvar-cvar small",
    }
    assert fields_of("{dataset} {layers:d} {rule}", "cifar10 3 rkl paper init")["layers"] == 3


def test_descriptions_are_merged_section_by_section():
    one = {"data": "digits", "run": {"rounds": 3, "seed": 1}}
    two = {"data": {"source": "wine"}, "run": {"rounds": 4}}
    assert merged(one, two) == {"data": {"source": "wine"}, "run": {"rounds": 4, "seed": 1}}
    assert one == {"data": "digits", "run": {"rounds": 3, "seed": 1}}
