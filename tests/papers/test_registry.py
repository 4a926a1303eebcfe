"""Everything that can be reproduced: found by name, listed in a moment, shown by what it names."""

import subprocess
import sys

import pytest

from peerwise.papers.items import Paper, TaskPaper, merged
from peerwise.papers.reproduce import PAPERS, list_items
from peerwise.papers.show import LAYOUTS


def test_papers_keep_their_names():
    assert list(PAPERS) == ["crc", "rc", "gossip-nb", "decdiff", "cvar-cta", "ba-bfl", "relay"]
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
        if isinstance(paper, TaskPaper):
            named = [("report", item.records), ("report", item.tables), ("figures", item.figure)]
        else:
            assert isinstance(paper, Paper)
            assert item.layout in LAYOUTS
            named = [("report", item.records)]
        assert all(callable(paper.part(*where)) for where in named if where[1])


def test_descriptions_are_merged_section_by_section():
    one = {"data": "digits", "run": {"rounds": 3, "seed": 1}}
    two = {"data": {"source": "wine"}, "run": {"rounds": 4}}
    assert merged(one, two) == {"data": {"source": "wine"}, "run": {"rounds": 4, "seed": 1}}
    assert one == {"data": "digits", "run": {"rounds": 3, "seed": 1}}
